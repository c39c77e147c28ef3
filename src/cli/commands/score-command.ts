import { usageError } from "../../kit/index.js";
import type { ScoreResult } from "../../verbs/index.js";
import { scoreVerb } from "../../verbs/shared/index.js";
import { printJson } from "../shared/output.js";
import { verbCommand } from "../shared/verb-command.js";

export const add = verbCommand(scoreVerb, {
  async before({ ids, prompt, continuation, top }) {
    if (ids !== undefined) return false;
    if (prompt === undefined) throw usageError("Missing a text to score. Pass --ids FILE or --prompt TEXT.");
    if (!continuation && top === undefined) throw usageError("--prompt needs --continuation TEXT or --top N.");
    return false;
  },
  async printed({ logprobs }: ScoreResult, _input, { json }) {
    if (!json || !logprobs) return false;
    // Thousands of numbers on one line, not one line each.
    printJson({ logprobs }, 0);
    return true;
  },
});
