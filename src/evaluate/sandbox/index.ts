// Confined execution of programs that a model wrote. The public face of the folder.
export type {
  ExecutionOutcome,
  Guard,
  ProgramPart,
  Sandbox,
  SandboxIdentity,
  SandboxOptions,
} from "./sandbox.js";
export { type Execution, openSandbox } from "./sandbox.js";
