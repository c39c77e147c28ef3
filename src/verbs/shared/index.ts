// What the command line takes of the verbs beside the public API: their parts, to show a plan before it is carried out.

export { evaluateTasks, type OpenedBackend } from "../evaluate.js";
export { planExport } from "../export.js";
export { type OpenServerOptions, openServer, openStarted } from "../server-backend.js";
export { type MemoryRow, type MemoryTable, memoryTable } from "./memory-table.js";
