export { type MergePicture, mergePicture } from "./merge-picture.js";
