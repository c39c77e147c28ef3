import { usageError } from "../../kit/index.js";
import { visible, write } from "../../kit/printing/index.js";
import type { GenerateInput, GenerateResult } from "../../verbs/index.js";
import { answerText, type GenerateControls, generateVerb, promptTitle } from "../../verbs/shared/index.js";
import { inOrder, paletteFor, print } from "../shared/output.js";
import { verbCommand } from "../shared/verb-command.js";

/** Whether the one answer is printed as it is made. */
const isStreamed = ({ prompts = [], ids = [] }: GenerateInput) => prompts.length === 1 && ids.length === 0;

export const add = verbCommand(generateVerb, {
  async before({ prompt, prompts, ids }) {
    if ((prompt ?? prompts ?? ids) !== undefined) return false;
    throw usageError("Missing a prompt. Pass --prompt TEXT, --prompts FILE or --ids FILE.");
  },
  controls({ json }, clear, input: GenerateInput): Pick<GenerateControls, "onPart" | "onAnswer"> {
    if (json) return {};
    if (isStreamed(input)) {
      return {
        onPart(text) {
          clear();
          write(process.stdout, visible(text));
        },
      };
    }
    return {
      onAnswer: inOrder((answer, i) => {
        clear();
        print(paletteFor(process.stdout).bold(promptTitle(answer, i, input)));
        print(`${answerText(answer)}\n`);
      }),
    };
  },
  async printed(_result: GenerateResult, input: GenerateInput, { json }) {
    if (!json && isStreamed(input)) print("");
    return !json;
  },
});
