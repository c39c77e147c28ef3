// The page of a recipe for other people: one file without paths of this machine, which opens anywhere.

import { mkdir, readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join, resolve } from "node:path";
import { flipsFigure } from "../../experiment/report/index.js";
import { type Figure, type Page, reportPage, right, type Section } from "../../figures/index.js";
import { type MergePicture, mergePicture } from "../../figures/picture/index.js";
import { exists, writeFileAtomically } from "../../kit/files/index.js";
import { type LayergraftError, OutputError, usageError, VERSION } from "../../kit/index.js";
import { commandLine } from "../../kit/printing/index.js";
import { loadYaml } from "../../kit/settings/index.js";
import { methodReferences } from "../../merge/index.js";
import { inspect } from "../../verbs/index.js";
import { checkRecipeText } from "../models/check-recipe.js";
import { fileOf, readRecipe, readSettings } from "../project/project.js";
import { type Board, boardOfRecipe, describeBoard, isWhole, type RecipeValue } from "../recipe/board.js";
import { modelsOf, type Named } from "./evidence.js";
import { pictureInCards } from "./share-card.js";
import { changesOf, whyLayers } from "./share-changes.js";
import { scoresOf } from "./share-scores.js";

/**
 * Writes the page to `shared/NAME.html` in the project, and returns its path.
 * @throws OutputError if there is one and `force` is not set
 */
export async function shareRecipe(project: string, name: string, { force }: { force: boolean }): Promise<string> {
  const file = await fileOf(project, "shared", `${name}.html`);
  if (!force && (await exists(file))) throw new OutputError(`${file} already exists`, { file, option: "force" });
  const { page, picture } = await sharedMerge(project, name);
  const text = await reportPage({ ...page, picture: `${encodeURIComponent(name)}.svg` });
  await mkdir(join(project, "shared"), { recursive: true });
  await writeFileAtomically(pictureOf(file, "svg"), await mergePicture(picture));
  await writeFileAtomically(file, text);
  return file;
}

const pictureOf = (page: string, type: "svg" | "png") => page.replace(/html$/, type);

/** The picture of a page that was written, as SVG. */
export const readPicture = (page: string): Promise<string> => readFile(pictureOf(page, "svg"), "utf8");

/**
 * Writes the picture as pixels, too, which is what most programs show beside a link, and puts it into the cards of models that were
 * written from the recipe. @param png as base64
 */
export async function keepPixels(project: string, name: string, png: string): Promise<void> {
  const bytes = Buffer.from(png, "base64");
  if (!bytes.subarray(0, 8).equals(PNG)) throw usageError("This is not a PNG file. Write the page again.");
  const file = await fileOf(project, "shared", `${name}.html`);
  await writeFileAtomically(pictureOf(file, "png"), bytes);
  await pictureInCards(project, name, bytes);
  const address = encodeURIComponent(name);
  const page = await readFile(file, "utf8");
  await writeFileAtomically(
    file,
    page.replace(`content="${address}.svg"`, () => `content="${address}.png"`),
  );
}

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** @throws LayergraftError code `not-found` if there is no such recipe, RecipeError if it is not YAML */
export const sharedPage = async (project: string, name: string): Promise<Page> =>
  (await sharedMerge(project, name)).page;

/** The page, and what its picture shows. */
async function sharedMerge(project: string, name: string): Promise<{ page: Page; picture: MergePicture }> {
  const settings = await readSettings(project);
  const { text } = await readRecipe(project, name);
  const { openSettings, yamlText } = await loadYaml();
  const folder = join(project, "recipes");
  const check = await checkRecipeText(text, folder);
  const models = modelsOf(settings);
  // However its paths are written.
  const placed = (value: unknown) =>
    models.find(({ source }) => typeof value === "string" && source === resolve(folder, value))?.source ?? value;
  const written = Object(openSettings(text, "the recipe").value);
  const recipe = JSON.parse(JSON.stringify(written), (_, value) => placed(value)) as RecipeValue;
  const named = new Map(models.map((one) => [one.source, one.name]));
  const nameOf = (source: string) => named.get(source) ?? publicName(source);
  const isPlace = (value: string) => named.has(value) || /^([/~\\]|\.\.?[/\\]|[A-Za-z]:)/.test(value);
  const layers = check.plan?.layers ?? 0;
  const board = boardOfRecipe(recipe, layers, check.plan?.defaults);
  const results = await scoresOf(project, name, models);
  const method = methodReferences().find((one) => one.name === recipe.method);
  const shown: unknown = JSON.parse(JSON.stringify(recipe), (_, value) =>
    typeof value === "string" && isPlace(value) ? nameOf(value) : value,
  );
  const said = board
    ? describeBoard(board, nameOf)
    : [method?.summary ?? "", ...(check.plan ? [] : ["The recipe cannot be merged as it is."])].join(" ");
  const [headline, ...others] = results;
  const changes = await changesOf(project, settings);
  const bars = results.map(({ bars: one, verdict: { text, more = "" } }) => ({
    ...one,
    verdict: one === headline?.bars ? "" : `${text} ${more}`.trim(),
  }));
  const sections: Section[] = [
    {
      id: "scores",
      title: bars.length > 0 ? "The merge and its scores" : "The merge",
      ...(board ? { lead: whyLayers(recipe, board, changes, nameOf), isBeside: true } : {}),
      figures: [
        ...(board ? [{ kind: "grid" as const, isDense: true, ...boardGrid(board, models, nameOf) }] : []),
        ...bars.map((one): Figure => ({ kind: "bars", ...one })),
      ],
    },
    {
      id: "flips",
      title: "What the merge gained and lost",
      lead: "The same items, answered by the merge and by another model: how many became right, and how many wrong.",
      figures: results.flatMap(({ flips, title }) => (flips.length > 0 ? [flipsFigure(title, flips)] : [])),
    },
    { id: "models", title: "Models", figures: [await modelsTable(models, project)] },
    {
      id: "changes",
      title: "Where the experts changed",
      lead: `${changes.finding} A cell is the percent of a matrix's rows that an expert moved by more than its own threshold, from ${nameOf(settings.base ?? "")}, and the stronger its colour the more: q, k, v and o are attention; gate, up and down the MLP.`.trim(),
      figures: changes.grids.map((grid): Figure => ({ kind: "grid", isDense: true, ...grid })),
    },
    {
      id: "recipe",
      title: "Recipe",
      figures: [
        {
          kind: "commands",
          commands: [
            {
              what: "The recipe",
              command: commandLine`merge ${`${name}.yaml`} --out ${name}`,
              id: "recipe-text",
              file: {
                about: "Put the models' folders, or their names on the hub, in the places of their names here.",
                text: yamlText(shown),
              },
            },
          ],
        },
      ],
    },
  ];
  const page: Page = {
    title: name,
    lead: `A merge of language models by ${method?.title.toLowerCase() ?? nameOf(String(recipe.method))}. ${said}`,
    verdicts: [
      headline
        ? { ...headline.verdict, title: others.length > 0 ? headline.title : "" }
        : { title: "", text: "Not scored: no evaluation of this recipe is there yet.", isOpen: true },
    ],
    notes: [...results.flatMap(({ notes }) => notes), ...(check.plan?.notes ?? [])],
    sections: sections.filter(({ figures }) => figures.length > 0),
    footer: `Made by layergraft ${VERSION}. The 95% intervals are over items: another choice of items could score so. They leave out what another training or prompt would change.`,
  };
  const colourOf = (owners: readonly string[]) =>
    owners.map((source) => models.find((one) => one.source === source)?.colour ?? "own-merge");
  const used = new Set(board?.rows.flatMap(({ attention, mlp }) => [...attention, ...mlp]));
  const picture: MergePicture = {
    title: name,
    verdict: page.verdicts[0]?.text ?? "",
    layers:
      board?.rows.map((row) => (isWhole(row) ? [colourOf(row.mlp)] : [colourOf(row.attention), colourOf(row.mlp)])) ??
      [],
    legend: [...used].map((source) => ({ name: nameOf(source), colour: colourOf([source])[0] ?? "own-merge" })),
    bars: bars[0],
  };
  return withoutPaths({ page, picture }, project, models);
}

/** The last part of a path; all of a name on the hub. */
const publicName = (source: string) => (/^[\w.-]+\/[\w.-]+$/.test(source) ? source : basename(source));

/** Layers that are alike in one row, the output at the top. */
function boardGrid({ rows, outside }: Board, models: readonly Named[], nameOf: (source: string) => string) {
  const columns = rows.every(isWhole) ? ["model"] : ["attention", "MLP"];
  const cell = (owners: readonly string[]) => {
    const [only = ""] = owners;
    const kind = owners.length > 1 ? "average" : (models.find(({ source }) => source === only)?.colour ?? "own-merge");
    return { text: owners.map(nameOf).join(" + "), kind };
  };
  const runs: { first: number; last: number; cells: ReturnType<typeof cell>[] }[] = [];
  for (const [layer, { attention, mlp }] of rows.entries()) {
    const cells = columns.length === 1 ? [cell(mlp)] : [cell(attention), cell(mlp)];
    const run = runs.at(-1);
    if (run && JSON.stringify(run.cells) === JSON.stringify(cells)) run.last = layer;
    else runs.push({ first: layer, last: layer, cells });
  }
  const shown = runs.toReversed();
  return {
    title: "Whose each layer is",
    note: "The output of the model is at the top.",
    rowTitle: "layers",
    columnTitle: "",
    columns,
    marked: [],
    rows: [...shown.map(({ first, last }) => (first === last ? `${first}` : `${first} to ${last}`)), "other tensors"],
    cells: [...shown.map(({ cells }) => cells), columns.map(() => cell(outside))],
  };
}

async function modelsTable(models: readonly Named[], project: string): Promise<Figure> {
  const rows = await Promise.all(
    models.map(async ({ name, source }) => {
      const found = await inspect({ source }, { folder: project }).catch((error: LayergraftError) => error);
      const place = publicName(source);
      const called = place === name ? name : { text: name, small: place };
      if (found instanceof Error) return [called, "cannot be opened", "", ""];
      const { architecture, layers, parameters } = found;
      return [called, architecture, String(layers), parameters.toLocaleString("en-US")];
    }),
  );
  return { kind: "table", what: "model", columns: ["model", "family", right("layers"), right("parameters")], rows };
}

/** Sentences of a plan may name files. */
function withoutPaths<T>(value: T, project: string, models: readonly Named[]): T {
  const places: [string, string][] = [
    ...models.map(({ source, name }): [string, string] => [source, name]),
    [project, "project"],
    [homedir(), "~"],
  ];
  const paths = places.filter(([path]) => /[/\\]/.test(path)).sort(([a], [b]) => b.length - a.length);
  const clean = (text: string) => paths.reduce((rest, [path, name]) => rest.replaceAll(path, name), text);
  return JSON.parse(JSON.stringify(value), (_, one) => (typeof one === "string" ? clean(one) : one)) as T;
}
