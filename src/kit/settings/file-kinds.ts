// Files that people pass to the wrong command: what they are, and which command takes them.

import { RecipeError } from "../errors.js";
import { isObject } from "../json.js";
import { commandLine } from "../printing/commands.js";

type Mapping = Readonly<Record<string, unknown>>;

const DATA = /\.(jsonl|ndjson|csv|tsv|parquet|arrow)(\.gz)?$/i;

/** A run like that of another trainer, whose other fields have other names. */
function initRun(
  _: string,
  { base_model, model_name_or_path: base = base_model, datasets, dataset_name }: Mapping,
): string {
  const [first] = Array.isArray(datasets) ? datasets : [];
  const data = isObject(first) ? first.path : dataset_name;
  const word = (value: unknown, otherwise: string) => (typeof value === "string" ? value : otherwise);
  return commandLine`init run --base ${word(base, "MODEL")} --data ${word(data, "SOURCE")}`;
}

/** Fields that only one kind of file has together, and the command that takes it. */
const KINDS: readonly {
  readonly kind: string;
  readonly has: readonly string[];
  readonly use: (file: string, value: Mapping) => string;
}[] = [
  { kind: "plan", has: ["experts", "evaluate"], use: (file) => commandLine`experiment ${file}` },
  { kind: "task", has: ["task", "answer"], use: (file) => commandLine`eval MODEL --tasks ${file}` },
  { kind: "run", has: ["base", "data"], use: (file) => commandLine`train ${file}` },
  ...[["merge_method"], ["layer_slices"], ["base_model", "experts"]].map((has) => {
    return { kind: "mergekit configuration", has, use: (file: string) => commandLine`convert ${file}` };
  }),
  {
    kind: "mergekit-evolve configuration",
    has: ["genome", "tasks"],
    use: () => commandLine`tune --task MODEL --language MODEL --on TASK`,
  },
  ...[
    ["axolotl", "base_model", "datasets"],
    ["LLaMA-Factory", "model_name_or_path", "finetuning_type", "dataset"],
    ["TRL", "model_name_or_path", "dataset_name"],
    ["torchtune", "model", "tokenizer", "checkpointer"],
  ].map(([program, ...has]) => ({ kind: `configuration of ${program}`, has, use: initRun })),
  { kind: "recipe", has: ["method", "models"], use: (file) => commandLine`merge ${file} --out FOLDER` },
  { kind: "recipe", has: ["method", "task", "language"], use: (file) => commandLine`merge ${file} --out FOLDER` },
];

/** What a model in the place of a file was probably meant for, after the sentence that refuses it. */
export function folderAdvice(file: string, kind: string): string {
  const [what, line] =
    kind === "recipe"
      ? ["average models", commandLine`soup --model ${file} --model OTHER --out FOLDER`]
      : kind === "run"
        ? ["train it", commandLine`train --base ${file} --data SOURCE --out FOLDER`]
        : [];
  return line === undefined ? "" : `. To ${what}: ${line}`;
}

/** @throws RecipeError for a file of data, by its name */
export function requireSettings(file: string, kind: string): void {
  if (!DATA.test(file)) return;
  const message = `${file} is data, not a ${kind}. To train on it: ${commandLine`train --base MODEL --data ${file} --out FOLDER`}`;
  throw new RecipeError(message, [], { file });
}

/** @throws RecipeError if the value is clearly of another kind */
export function requireKind(value: unknown, file: string, kind: string): void {
  const found = isObject(value)
    ? KINDS.find(({ has }) => has.every((field) => Object.hasOwn(value, field)))
    : undefined;
  if (!found || kind.includes(found.kind)) return;
  throw new RecipeError(`${file} is a ${found.kind}, not a ${kind}. Run: ${found.use(file, value as Mapping)}`, [], {
    file,
  });
}
