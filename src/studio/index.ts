// Exports of studio/ for other rooms.
export { type Studio, type StudioOptions, startStudio } from "./server/server.js";
