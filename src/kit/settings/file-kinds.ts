// Files that people pass to the wrong command: what they are, and which command takes them.

import { RecipeError } from "../errors.js";
import { isObject } from "../json.js";
import { shellQuote } from "../printing/terminal.js";

const DATA = /\.(jsonl|ndjson|csv|tsv|parquet|arrow)(\.gz)?$/i;

/** Fields that only one kind of file has together, and the command that takes it. */
const KINDS: readonly {
  readonly kind: string;
  readonly has: readonly string[];
  readonly use: (file: string) => string;
}[] = [
  { kind: "plan", has: ["experts", "evaluate"], use: (file) => `layergraft experiment ${file}` },
  { kind: "task", has: ["task", "answer"], use: (file) => `layergraft eval MODEL --tasks ${file}` },
  { kind: "run", has: ["base", "data"], use: (file) => `layergraft train ${file}` },
  ...[["merge_method"], ["layer_slices"], ["base_model", "experts"]].map((has) => {
    return { kind: "mergekit configuration", has, use: (file: string) => `layergraft convert ${file}` };
  }),
  {
    kind: "mergekit-evolve configuration",
    has: ["genome", "tasks"],
    use: () => "layergraft tune --task MODEL --language MODEL --on TASK",
  },
  { kind: "recipe", has: ["method", "models"], use: (file) => `layergraft merge ${file}` },
  { kind: "recipe", has: ["method", "task", "language"], use: (file) => `layergraft merge ${file}` },
];

/** @throws RecipeError for a file of data, by its name */
export function requireSettings(file: string, kind: string): void {
  if (!DATA.test(file)) return;
  const message = `${file} is data, not a ${kind}. To train on it: layergraft train --data ${shellQuote(file)}`;
  throw new RecipeError(message, [], { file });
}

/** @throws RecipeError if the value is clearly of another kind */
export function requireKind(value: unknown, file: string, kind: string): void {
  const found = isObject(value)
    ? KINDS.find(({ has }) => has.every((field) => Object.hasOwn(value, field)))
    : undefined;
  if (!found || kind.includes(found.kind)) return;
  throw new RecipeError(`${file} is a ${found.kind}, not a ${kind}. Run: ${found.use(shellQuote(file))}`, [], { file });
}
