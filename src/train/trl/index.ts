// The public face of train/trl/.
export type { TrlCluster } from "./launch.js";
export { type StartTrlOptions, startTrlRun } from "./start.js";
export { TRL_FILES, type TrlFolder, type TrlRun, type WriteTrlOptions, writeTrlRun } from "./write.js";
