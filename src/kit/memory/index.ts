export { describeFree, type FreeMemory, freeMemory } from "./free-memory.js";
