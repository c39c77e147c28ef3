export { type Studio, type StudioOptions, startStudio } from "./server/server.js";
export { shareRecipe } from "./server/share.js";
