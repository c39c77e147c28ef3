// Translates a mergekit configuration to a recipe, with notes on differences. Reads no files.
import { didYouMean, formatSome, shorten } from "../../kit/printing/index.js";
import { formatProblem, type Problem } from "../../kit/settings/index.js";
import { METHODS } from "../methods/index.js";
import type { SliceMerge, SliceModel, Translation } from "../methods/mergekit.js";
import type { Method, NestedRecipe, SourceRecipe } from "../methods/method.js";
import type { Parameter } from "../methods/parameter.js";
import { type RecipeInput, sourcesOf } from "../recipe/recipe.js";
import { TEMPLATES } from "./chat-templates.js";
import { type Configuration, type Path, Strictness } from "./mergekit-schema.js";
import { type LayerSpan, type Level, parameterOf, unreadKeys } from "./mergekit-settings.js";
import { type OutputSlice, type SliceSource, slicesOf } from "./slices.js";

/** The methods by mergekit's names. */
const TRANSLATIONS: Readonly<Record<string, Translation>> = Object.fromEntries(
  (METHODS as readonly Pick<Method, "name" | "mergekit">[]).flatMap(({ name, mergekit }) =>
    mergekit ? [[mergekit.name ?? name, mergekit]] : [],
  ),
);

/** Why a method cannot be translated; undefined if it can. */
export function refusalOf(method: string): string | undefined {
  if (Object.hasOwn(TRANSLATIONS, method)) return undefined;
  const known = Object.keys(TRANSLATIONS);
  return `mergekit has no method ${shorten(method)}; supported are ${known.join(", ")}${didYouMean(method, known)}`;
}

/** Every parameter that some method of mergekit has. */
const PARAMETERS: readonly string[] = [
  ...new Set(Object.values(TRANSLATIONS).flatMap(({ own, common }) => [...own, ...common])),
];

export interface MergekitRecipe {
  readonly recipe: RecipeInput;
  /** Ignored fields and deliberate differences. */
  readonly notes: readonly string[];
}

/** What is known of the models of a configuration. */
export interface ModelFacts {
  /** Number of layers, if they have the same: slices that cover all layers become one. */
  readonly layers?: number | undefined;
  /** Names of their tensors: filters are checked. */
  readonly tensors?: readonly string[] | undefined;
}

/** Translates a configuration. @param strictness gets what mergekit passes over */
export function translate(
  config: Configuration,
  facts: ModelFacts = {},
  strictness = new Strictness(false),
): { readonly translated?: MergekitRecipe; readonly problems: readonly Problem[]; readonly models: readonly string[] } {
  const translator = new Translator(config, facts, strictness);
  const translated = translator.translate();
  const models = [...translator.models];
  return translated && translator.problems.length === 0
    ? { translated, problems: [], models }
    : { problems: translator.problems, models };
}

class Translator {
  readonly models = new Set<string>();
  /** By message: a problem in several slices is reported once. */
  readonly #problems = new Map<string, Problem>();
  readonly #config: Configuration;
  readonly #facts: ModelFacts;
  readonly #strictness: Strictness;
  readonly #notes = new Set<string>();

  constructor(config: Configuration, facts: ModelFacts, strictness: Strictness) {
    this.#config = config;
    this.#facts = facts;
    this.#strictness = strictness;
  }

  translate(): MergekitRecipe | undefined {
    const config = this.#config;
    const slices = slicesOf(config, this.#facts.layers, this.#problem, this.#strictness);
    for (const { sources } of slices) for (const { model } of sources) this.models.add(model);
    const method = TRANSLATIONS[config.merge_method] as Translation;
    const tokenizer = this.#tokenizerSource();
    this.#checkParameters(method, slices);
    const pieces = slices.map((slice) => method.make(this.#view(slice)));
    const dtype = this.#dtype(method);
    if (pieces.length === 0 || pieces.some((piece) => piece === undefined)) return undefined;
    const recipe = assemble(pieces as SourceRecipe[]);
    return {
      recipe: {
        ...recipe,
        ...(dtype === undefined ? {} : { dtype }),
        ...this.#template(),
        ...this.#tokenizer(tokenizer, recipe),
      } as RecipeInput,
      notes: [...this.#notes],
    };
  }

  get problems(): readonly Problem[] {
    return [...this.#problems.values()];
  }

  readonly #problem = (problem: Problem): void => {
    this.#problems.set(formatProblem(problem), problem);
  };

  /** Notes parameters without effect and rejects misspelled ones. */
  #checkParameters({ own, common }: Translation, slices: readonly OutputSlice[]): void {
    const { merge_method: method } = this.#config;
    const check = ({ parameters, path }: Level, used: readonly string[]) => {
      for (const [name, setting] of Object.entries(parameters ?? {})) {
        const at = [...path, "parameters", name];
        for (const unread of unreadKeys(setting, at)) {
          this.#strictness.report(unread.path, `unknown field ${JSON.stringify(unread.key)}`);
        }
        if (used.includes(name)) {
          if (name === "int8_mask")
            this.#notes.add("int8_mask is ignored; the memory that it saves is not needed here");
          continue;
        }
        const hint = PARAMETERS.includes(name) ? "" : didYouMean(name, [...own, ...common]);
        if (hint !== "") this.#strictness.report(at, `unknown parameter${hint}`);
        else if ([...own, ...common].includes(name)) {
          this.#notes.add(`${name} is ignored at a model: mergekit reads it from the top-level parameters`);
        } else this.#notes.add(`${name} is ignored: it has no meaning for ${method}`);
      }
    };
    for (const { sources, levels } of slices) {
      for (const { level } of sources) check(level, own);
      for (const level of levels) check(level, [...own, ...common]);
    }
  }

  /** The dtype of the result; notes where the arithmetic differs from mergekit's. */
  #dtype({ isRounded, isRandom }: Translation): RecipeInput["dtype"] {
    const { dtype, out_dtype: out } = this.#config;
    if (isRounded && dtype !== "float32") {
      const theirs = dtype === undefined ? "the dtype of the files, where no dtype is given" : dtype;
      this.#notes.add(`arithmetic is in float32, with one rounding at the end; mergekit computes in ${theirs}`);
    }
    if (isRandom) {
      this.#notes.add(
        "the random choice is layergraft's own: as many elements as mergekit keeps, but not the same ones",
      );
    }
    return out ?? dtype;
  }

  #template(): Pick<RecipeInput, "chat_template"> {
    const { chat_template: template } = this.#config;
    if (!template) return {};
    if (template in TEMPLATES || /\{[{%]/.test(template)) return { chat_template: TEMPLATES[template] ?? template };
    this.#notes.add(
      template === "auto"
        ? "chat_template: auto is the template of the tokenizer; mergekit takes the one that most models have"
        : `chat_template: ${template} is ignored: it is none of ${Object.keys(TEMPLATES).join(", ")}, nor Jinja text`,
    );
    return {};
  }

  /** Tokenizer of the result: one of the models, or `union`; undefined if not set. */
  #tokenizerSource(): string | undefined {
    const { base_model: base, tokenizer, tokenizer_source: source } = this.#config;
    const [asked, path] =
      tokenizer == null ? [source, ["tokenizer_source"]] : [tokenizer.source ?? "union", ["tokenizer", "source"]];
    if (tokenizer != null && source !== undefined) {
      this.#problem({ path: ["tokenizer_source"], message: "tokenizer sets it too; remove one of them" });
    }
    if (asked === undefined || asked === "union") return asked;
    const model = asked === "base" ? (base ?? [...this.models][0]) : asked;
    if (model !== undefined && !this.models.has(model)) this.#notAmong(model, path);
    return model;
  }

  /** Recipe fields for the tokenizer. By default mergekit merges rows by number and keeps the base's tokenizer. */
  #tokenizer(source: string | undefined, recipe: NestedRecipe): Pick<RecipeInput, "vocabulary" | "tokenizer_from"> {
    const { base_model: base } = this.#config;
    if (source !== undefined) return { vocabulary: this.#vocabulary(source, recipe) };
    if (base === undefined) return {};
    if (this.models.has(base)) return { tokenizer_from: base };
    this.#notes.add(
      `base_model ${base} is not among the sources; configuration and tokenizer are those of the first one`,
    );
    return {};
  }

  #vocabulary(source: string, recipe: NestedRecipe): NonNullable<RecipeInput["vocabulary"]> {
    const { tokens = {}, pad_to_multiple_of: multiple } = this.#config.tokenizer ?? {};
    const labelled = (model: string, path: Path) => {
      if (!this.models.has(model)) this.#notAmong(model, path);
      return labelOf(recipe, model) ?? model;
    };
    const rows = Object.entries(tokens).map(([content, { source: from, force }]) => {
      const path = ["tokenizer", "tokens", content, "source"];
      const { token, token_id: row } = from.kind === "model_token" ? from : {};
      return [
        content,
        {
          source: from.kind === "zero" ? from.kind : labelled(from.model, path),
          ...(token == null ? {} : { token }),
          ...(row == null ? {} : { row }),
          ...(force ? { force } : {}),
        },
      ] as const;
    });
    const from = source === "union" ? source : (labelOf(recipe, source) ?? source);
    if (rows.length === 0 && multiple == null) return from;
    return {
      from,
      ...(rows.length === 0 ? {} : { tokens: Object.fromEntries(rows) }),
      ...(multiple == null ? {} : { multiple_of: multiple }),
    };
  }

  #notAmong(model: string, path: Path): void {
    this.#problem({ path, message: `${model} is not one of the models (${formatSome([...this.models], 8)})` });
  }

  #view(slice: OutputSlice): SliceMerge {
    const { sources, base, levels, path, offset, layers } = slice;
    const operands = sources.map((source): SliceModel => ({ recipe: operandOf(source) }));
    const levelOf = new Map(operands.map((operand, i) => [operand, sources[i] as SliceSource]));
    const isBase = (operand: SliceModel) => levelOf.get(operand)?.model === base;
    const reports = { problem: this.#problem, strictness: this.#strictness, tensors: this.#facts.tensors };
    const resolve = (wanted: Parameters<SliceMerge["common"]>[0], from: readonly Level[], span: LayerSpan): Parameter =>
      parameterOf(wanted, from, span, reports) ?? 1;
    return {
      models: operands,
      base: operands.find(isBase),
      lacksBase: base !== undefined && !operands.some(isBase),
      others: operands.filter((operand) => !isBase(operand)),
      common: (wanted) => resolve(wanted, levels, { layers, shift: offset }),
      own: (operand, wanted) => {
        const { level, range } = levelOf.get(operand) as SliceSource;
        return resolve(wanted, [level, ...levels], { layers, shift: range?.[0] ?? 0 });
      },
      problem: (message, parameter) => {
        const level = levels.find(({ parameters }) => parameter !== undefined && parameter in (parameters ?? {}));
        const at = level && parameter !== undefined ? [...level.path, "parameters", parameter] : path;
        this.#problem({ path: at, message });
        return undefined;
      },
    };
  }
}

/** A model's label in a recipe: the path to its first use. */
export function labelOf(recipe: NestedRecipe, model: string, prefix = ""): string | undefined {
  for (const { label: name, source } of sourcesOf(recipe)) {
    const label = `${prefix}${name}`;
    const found =
      typeof source === "string" ? (source === model ? label : undefined) : labelOf(source, model, `${label}.`);
    if (found !== undefined) return found;
  }
  return undefined;
}

/** The layers of one model that a slice takes, as a model. */
function operandOf({ model, range }: SliceSource): SourceRecipe {
  if (!range) return model;
  const [first, end] = range;
  const layers = end - first === 1 ? `${first}` : `${first}-${end - 1}`;
  return { method: "passthrough", slices: [{ model, layers }] };
}

interface PassthroughSlice {
  readonly model: SourceRecipe;
  readonly layers?: string;
  readonly scale?: Parameter;
}

/** Combines translated slices into one recipe, stacked if there are several. */
function assemble(pieces: readonly SourceRecipe[]): NestedRecipe {
  const [first] = pieces;
  if (pieces.length === 1 && typeof first === "object" && first.method !== "passthrough") return first;
  return { method: "passthrough", slices: pieces.flatMap((piece) => passthroughSlices(piece).map(inlined)) };
}

function passthroughSlices(piece: SourceRecipe): readonly PassthroughSlice[] {
  const isPassthrough = typeof piece === "object" && piece.method === "passthrough";
  return isPassthrough ? (piece.slices as readonly PassthroughSlice[]) : [{ model: piece }];
}

/** Merges a scaled slice of a slice into one, unless the scale is a gradient over the inner layers. */
function inlined(slice: PassthroughSlice): PassthroughSlice {
  const { model, layers, scale } = slice;
  if (typeof model === "string" || layers !== undefined || JSON.stringify(scale ?? 1).includes("gradient"))
    return slice;
  const inner = model.method === "passthrough" ? passthroughSlices(model) : [];
  const [only] = inner;
  if (!only || inner.length > 1 || only.scale !== undefined) return slice;
  return { ...only, ...(scale === undefined ? {} : { scale }) };
}
