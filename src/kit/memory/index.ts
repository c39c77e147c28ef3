export { type FreeMemory, freeMemory } from "./free-memory.js";
