// The table of what a model needs in memory.

import { type Palette, right, terminalLines } from "../../figures/index.js";
import { describeFree } from "../../kit/memory/index.js";
import { commandLine, formatBytes, plural } from "../../kit/printing/index.js";
import type { MemoryRow, MemoryTable } from "../../verbs/shared/index.js";

const NAMES: Readonly<Record<MemoryRow["way"], string>> = {
  engine: "engine, float32",
  llama: "llama.cpp",
  full: "train, all weights",
  lora: "train, LoRA",
};

export function memoryLines({ model, source, free, running, training, rows }: MemoryTable, palette: Palette): string[] {
  const parts = ["weights", "optimizer", "cache", "logits", "activations", "program"] as const;
  const cells = rows.flatMap(({ way, type, estimate, fits }) => {
    if (!estimate) return [];
    const name = way === "llama" ? `${NAMES.llama}, ${type === "file" ? "as it is" : type}` : NAMES[way];
    const sizes = parts.map((part) => (estimate[part] === 0 ? "" : formatBytes(estimate[part])));
    return [[name, formatBytes(estimate.total), fits ? "yes" : "no", ...sizes]];
  });
  const problems = new Map<string, string[]>();
  for (const { way, type, problem } of rows) {
    if (problem === undefined) continue;
    problems.set(problem, [...(problems.get(problem) ?? []), way === "llama" ? `llama.cpp ${type}` : NAMES[way]]);
  }
  const texts = ({ texts: count, tokens }: MemoryTable["running"]) => `${plural(count, "text")} of ${tokens} tokens`;
  return [
    `${model}: memory at the peak, estimated from sizes; ${describeFree(free)}`,
    ...terminalLines({ columns: ["", right("memory"), "fits", ...parts.map(right)], rows: cells }),
    ...[...problems].map(([problem, ways]) => `${ways.join(", ")}: ${problem}`),
    palette.dim(
      `Running: ${texts(running)} at once. Training: ${texts(training)} at once. --batch and --tokens change them.`,
    ),
    ...(rows.some(({ way, fits }) => way === "lora" && !fits)
      ? [
          palette.dim(
            `A batch is as long as its longest example. For your data: ${commandLine`train --base ${source} --method lora --data FILE --out FOLDER --dry-run`}`,
          ),
        ]
      : []),
    palette.dim("What does not fit is refused; LAYERGRAFT_MEMORY sets what may be taken."),
  ];
}
