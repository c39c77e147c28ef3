import { inspectVerb } from "../../verbs/shared/index.js";
import { verbCommand } from "../shared/verb-command.js";

export const add = verbCommand(inspectVerb);
