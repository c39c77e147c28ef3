// The command of the verb, and what it does beside: other forms of the table, and ratings by people.
import { comparisonLines, type ResultsComparison, SCORE_FORMATS, type ScoreFormat } from "../../evaluate/index.js";
import { escapeMarkdown } from "../../figures/index.js";
import { compareVerb, rateVerb } from "../../verbs/shared/index.js";
import { print } from "../shared/output.js";
import { Option } from "../shared/typed.js";
import { callByFlags, verbCommand } from "../shared/verb-command.js";
import { withVerbFlags } from "../shared/verb-flags.js";

export const add = verbCommand(compareVerb, {
  flags: {
    rate: withVerbFlags(rateVerb, ["page", "ratings", "force"]),
    format: (command) =>
      command.addOption(new Option("--format <format>", "output format").choices(SCORE_FORMATS).default("table")),
  },
  async instead({ input }: { input: { results: unknown } }, flags) {
    if (flags.rate === undefined && flags.ratings === undefined) return false;
    await callByFlags(rateVerb, { results: input.results }, flags);
    return true;
  },
  async printed(comparison: ResultsComparison, _input: unknown, { format, json }) {
    if (json || format === "table") return false;
    const lines = comparisonLines(comparison, format as ScoreFormat);
    const legend = comparison.methods.map(({ name }, i) => `${i + 1}. ${escapeMarkdown(name)}`);
    print(format === "markdown" ? [...legend, "", ...lines] : lines);
    return true;
  },
});
