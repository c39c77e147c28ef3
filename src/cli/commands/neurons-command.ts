import { count, type Table, terminalLines } from "../../figures/index.js";
import { commandLine, formatFixed } from "../../kit/printing/index.js";
import { findLanguageNeurons, type LanguageNeurons } from "../../merge/analysis/index.js";
import { parseNamed, parseShare, print, printJson, withCommonOptions } from "../shared/output.js";
import type { Command } from "../shared/typed.js";

export function add(program: Command): void {
  const command = program
    .command("neurons")
    .description(
      "Find the feed-forward neurons that fire for few languages, by the entropy of their activation over languages (LAPE). " +
        `Measure the activations first: ${commandLine`measure MODEL --kind activations --on TEXTS --out FOLDER`}.`,
    )
    .requiredOption("--language <name=folder>", "activations on texts of a language; give two or more", parseNamed)
    .option("--share <share>", "share of all neurons to choose (default: 0.01)", parseShare);
  withCommonOptions(command).action(async ({ language, share, json }) => {
    const found = await findLanguageNeurons(Object.fromEntries(language), { share });
    if (json) printJson(found);
    else print(describe(found));
  });
}

function describe({ languages, layers, neurons, threshold, chosen }: LanguageNeurons): string[] {
  const numbersOf = (of: typeof chosen) =>
    languages.map((name) => count(of.filter((neuron) => neuron.languages.includes(name)).length));
  const table: Table = {
    columns: ["layer", ...languages],
    rows: [
      ...Array.from({ length: layers }, (_, layer) => [
        `${layer}`,
        ...numbersOf(chosen.filter((neuron) => neuron.layer === layer)),
      ]),
      ["all", ...numbersOf(chosen)],
    ],
  };
  return [
    `${chosen.length} of ${neurons} neurons, active at more than ${formatFixed(100 * threshold, 1)}% of a language's tokens:`,
    "",
    ...terminalLines(table),
  ];
}
