export { type Studio, type StudioOptions, startStudio } from "./server/server.js";
