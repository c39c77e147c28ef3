// The entry of threads that stream weights.
import { runThread } from "../tensor/streaming/index.js";
import { OPERATIONS } from "./methods/operations.js";

await runThread(OPERATIONS);
