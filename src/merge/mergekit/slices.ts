// The slices of a mergekit configuration: their models, layers and parameter levels.
import type { Problem } from "../../kit/settings/index.js";
import type { Configuration, ModelEntry, Path, Strictness } from "./mergekit-schema.js";
import { hasGradient, type Level } from "./mergekit-settings.js";

export interface SliceSource {
  readonly model: string;
  /** First layer and the one after the last; undefined for all. */
  readonly range?: readonly [number, number];
  readonly level: Level;
}

export interface OutputSlice {
  readonly path: Path;
  readonly sources: readonly SliceSource[];
  readonly base: string | undefined;
  /** Where parameters are set for all models, the closest place first. */
  readonly levels: readonly Level[];
  /** Number of layers of the result before this slice. */
  readonly offset: number;
  /** Number of layers; undefined if only the model files have it. */
  readonly layers: number | undefined;
}

/** The slices of a configuration. `depth` is the number of layers of its models, if known. */
export function slicesOf(
  config: Configuration,
  depth: number | undefined,
  problem: (problem: Problem) => void,
  strictness: Strictness,
): readonly OutputSlice[] {
  const given = (["models", "slices", "modules"] as const).filter((field) => config[field] != null);
  if (given.length !== 1) {
    const found = given.length === 0 ? "none is given" : `${given.join(" and ")} are given`;
    problem({ path: [], message: `give exactly one of models, slices and modules; ${found}` });
    return [];
  }
  const whole: Level = { parameters: config.parameters, path: [] };
  if (!config.modules) return contentSlices(config, config, [], [whole], depth, problem, strictness);
  const [[name, module] = ["", undefined], ...others] = Object.entries(config.modules);
  if (!module || others.length > 0 || name !== "default") {
    const message = `only plain decoders are supported, with one module called default; found ${Object.keys(config.modules).join(", ")}`;
    problem({ path: ["modules"], message });
    return [];
  }
  const path = ["modules", name];
  if (Boolean(module.models) === Boolean(module.slices)) {
    problem({ path, message: "must have either models or slices" });
    return [];
  }
  const levels = [{ parameters: module.parameters, path }, whole];
  return contentSlices(module, config, path, levels, depth, problem, strictness);
}

function contentSlices(
  { models, slices }: Pick<Configuration, "models" | "slices">,
  config: Configuration,
  path: Path,
  levels: readonly Level[],
  depth: number | undefined,
  problem: (problem: Problem) => void,
  strictness: Strictness,
): readonly OutputSlice[] {
  if (!slices) return [modelsSlice(models ?? [], config.base_model, path, levels, depth, strictness)];
  let offset = 0;
  const written = slices.map((slice, i): OutputSlice => {
    const at = [...path, "slices", i];
    const listed = slice.sources.map((source, k): SliceSource => {
      const level = { parameters: source.parameters, path: [...at, "sources", k] };
      return { model: source.model, range: source.layer_range, level };
    });
    // Only the first model has been read.
    const whole = slices[0]?.sources[0]?.model;
    for (const [
      k,
      {
        model,
        layer_range: [, end],
      },
    ] of slice.sources.entries()) {
      if (depth === undefined || model !== whole || end <= depth) continue;
      const message = `ends at ${end}, but ${model} has ${depth} layers; the end is not included`;
      problem({ path: [...at, "sources", k, "layer_range"], message });
    }
    const lengths = slice.sources.map(({ layer_range: [first, end] }) => end - first);
    const [layers = 0] = lengths;
    if (lengths.some((length) => length !== layers)) {
      problem({ path: at, message: `its sources must have the same number of layers, not ${lengths.join(" and ")}` });
    }
    const sources = withoutRepetition(listed, strictness);
    const base = slice.base_model ?? config.base_model;
    const own = { parameters: slice.parameters, path: at };
    const result = { path: at, sources, base, levels: [own, ...levels], offset, layers };
    offset += layers;
    return result;
  });
  return joined(written, depth) ?? written;
}

/** All layers of all models and of the base, listed or not. */
function modelsSlice(
  models: readonly ModelEntry[],
  base: string | undefined,
  path: Path,
  levels: readonly Level[],
  layers: number | undefined,
  strictness: Strictness,
): OutputSlice {
  const written = models.map(({ model, parameters }, i): SliceSource => {
    return { model, level: { parameters, path: [...path, "models", i] } };
  });
  const sources = withoutRepetition(written, strictness);
  if (base !== undefined && !sources.some(({ model }) => model === base)) {
    sources.push({ model: base, level: { parameters: undefined, path: ["base_model"] } });
  }
  return { path: [...path, "models"], sources, base, levels, offset: 0, layers };
}

function withoutRepetition(sources: readonly SliceSource[], strictness: Strictness): SliceSource[] {
  const seen = new Set<string>();
  return sources.filter(({ model, level }) => {
    if (!seen.has(model)) return seen.add(model);
    strictness.report(level.path, `${model} is listed twice`, "used once");
    return false;
  });
}

/** Joins slices that together cover all layers into one. */
function joined(slices: readonly OutputSlice[], depth: number | undefined): readonly OutputSlice[] | undefined {
  const [first] = slices;
  const end = slices.reduce((sum, { layers = 0 }) => sum + layers, 0);
  if (!first || end !== depth) return undefined;
  const isAlike = slices.every(
    (slice) =>
      JSON.stringify(settingsOf(slice)) === JSON.stringify(settingsOf(first)) &&
      slice.sources.every(
        ({ range }) => range?.[0] === slice.offset && range[1] === slice.offset + (slice.layers ?? 0),
      ),
  );
  if (!isAlike || (slices.length > 1 && isGraded(first))) return undefined;
  const sources = first.sources.map(({ model, level }) => ({ model, level }));
  return [{ ...first, sources, layers: depth }];
}

function settingsOf({ sources, base, levels }: OutputSlice) {
  return [
    sources.map(({ model, level }) => [model, level.parameters]),
    base,
    levels.map(({ parameters }) => parameters),
  ];
}

/** Whether any parameter of a slice depends on the slice's bounds. */
function isGraded({ sources, levels }: OutputSlice): boolean {
  return [...sources.map(({ level }) => level), ...levels].some((level) =>
    Object.keys(level.parameters ?? {}).some((name) => hasGradient(name, [level])),
  );
}
