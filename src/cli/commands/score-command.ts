import type { ScoreResult } from "../../verbs/index.js";
import { scoreVerb } from "../../verbs/shared/index.js";
import { printJson } from "../shared/output.js";
import { verbCommand } from "../shared/verb-command.js";

export const add = verbCommand(scoreVerb, {
  async printed({ logprobs }: ScoreResult, _input, { json }) {
    if (!json || !logprobs) return false;
    // Thousands of numbers on one line, not one line each.
    printJson({ logprobs }, 0);
    return true;
  },
});
