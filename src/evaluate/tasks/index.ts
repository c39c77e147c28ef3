export { isTie } from "./multiple-choice.js";
export {
  type ChooseItem,
  chatProtocolOf,
  type DataAccess,
  type Item,
  MISSING_DATA,
  type OpenTasksOptions,
  openTasks,
  readDeclaration,
  SUITES,
  TASK_FAMILIES,
  type Task,
  taskFields,
  taskFileOf,
  taskJsonSchema,
} from "./open-tasks.js";
export { judgingDigest, promptsDigest, protocolId, protocolTitle } from "./protocol.js";
export { hubLoader } from "./task-data.js";
