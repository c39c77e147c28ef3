// Whether weights are what their journal, or their model card, says.
import { mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { z } from "zod";
import type { Shown } from "../figures/index.js";
import { parseHubName } from "../formats/checkpoint/index.js";
import { exists } from "../kit/files/index.js";
import type { Progress } from "../kit/index.js";
import { formatBytes, formatDuration, plural } from "../kit/printing/index.js";
import { namedField } from "../kit/settings/index.js";
import {
  badgeOf,
  type CardCheck,
  type CardPlan,
  cardSentences,
  checkCard,
  hasCard,
  isTrue,
  planCard,
  planSentences,
  sectionOf,
} from "../merge/card/index.js";
import { PROVENANCE_FILE } from "../merge/index.js";
import { type Verification, verifyOutput } from "../merge/output/index.js";
import type { VerifyInput } from "./inputs.js";
import { type Controls, callVerb, type Noted, type Verb, type VerbOptions, type WorkOptions } from "./verb.js";

const SHARE = "must be a number above 0 and at most 1";

export const verifySchema = z.strictObject({
  model: namedField("source", "folder that layergraft wrote, or a model with a recipe in its card"),
  moved: z.record(z.string(), z.string().min(1)).optional().meta({
    title: "places by id",
    description: "folder of a source that moved, or of a model that the card names, by its name there",
  }),
  allowCode: z
    .boolean()
    .optional()
    .meta({ description: "run the file that was the recipe's method; never a card's", runsCode: true }),
  share: z
    .number()
    .gt(0, SHARE)
    .max(1, SHARE)
    .default(0.02)
    .meta({ description: "share of the rows to compare, for a model card" }),
  all: z.boolean().optional().meta({ description: "compare all rows with the card's recipe" }),
  seed: z.int().min(0).default(0).meta({ description: "random seed of the rows to compare" }),
  bases: z
    .array(namedField("source", "a base"))
    .optional()
    .meta({ description: "model that may be the base, if the card's is not" }),
  report: namedField("folder", "folder for a badge and a section for the model card").optional(),
});

/** Files that `report` writes. */
const BADGE = "recipe-badge.svg";
const SECTION = "recipe-check.md";

/** What `verify` found. */
export interface VerifyResult extends Verification, Noted {
  /** What was verified, as it was given. */
  readonly folder: string;
  /** What was found by the model card, where there is no journal; else null. */
  readonly card: CardCheck | null;
}

/** What a dry run of `verify` finds: what the card says, or that there is a journal. */
export type VerifyPlan = { readonly folder: string } & ({ readonly card: null } | { readonly card: CardPlan });

type Input = z.output<typeof verifySchema>;
type VerifyControls = Controls<Progress, VerifyPlan>;

export const verifyVerb: Verb<typeof verifySchema, VerifyResult, Progress, VerifyPlan> = {
  name: "verify",
  description:
    "Recompute every tensor of a merged model from its sources and compare it byte by byte. A model without " +
    `${PROVENANCE_FILE} is compared with the recipe in its model card, by a sample of its rows. The exit status is 0 if the ` +
    "weights are as recorded or as the card says, 1 if not.",
  schema: verifySchema,
  fetch: "stream",
  options: { threads: "physical cores", memory: "256MB" },
  async run(input, controls) {
    const { model, moved, allowCode, report } = input;
    const { folder } = controls;
    if (await isByCard(model, folder)) {
      const place = report === undefined ? undefined : resolve(folder ?? ".", report);
      // Before anything is downloaded: a report that has no place would be lost.
      if (place !== undefined) await mkdir(place, { recursive: true });
      const onPlan = (card: CardPlan) => controls.onPlan?.({ folder: model, card });
      const card = await checkCard(model, { ...settingsOf(input, controls), onPlan });
      if (place !== undefined) await writeReport(place, card);
      return resultOf(model, card);
    }
    const place = folder === undefined ? model : resolve(folder, model);
    const verification = await verifyOutput(place, { ...controls, moved, allowCode });
    return { folder: model, ...verification, card: null, notes: verification.moved, warnings: [] };
  },
  show: ({ card, ...result }, { model }, seconds) => [
    { kind: "text", lines: card ? cardLines(card) : journalLines(result, model, seconds) },
  ],
  plan: {
    description: "print what would be compared and how much would be downloaded",
    title: ({ model }) => `Model card of ${model}`,
    async run(input, controls) {
      const { model } = input;
      const isCard = await isByCard(model, controls.folder);
      return { folder: model, card: isCard ? await planCard(model, settingsOf(input, controls)) : null };
    },
    show: ({ folder, card }): Shown[] => [
      {
        kind: "text",
        lines: card
          ? [
              ...planSentences(card),
              `Compare ${folder}: ${formatBytes(card.bytesToFetch)} of weights to fetch from the hub, more where they differ`,
            ]
          : [`Compare every tensor of ${folder} with ${PROVENANCE_FILE}`],
      },
    ],
  },
  terminal: {
    positional: ["model"],
    groups: {
      Models: ["moved", "bases", "allowCode"],
      "Model card": ["share", "all", "seed", "dryRun", "report"],
    },
    flags: {
      moved: {
        flag: "source",
        value: "id=folder",
        read: "places",
        help: "folder of a source that moved, or of a model that the card names, by its name there; repeatable",
      },
      bases: { flag: "base", value: "source" },
      share: { value: "share" },
    },
    isFailure: ({ verified }) => !verified,
    closing: ({ card }, { report }) => [
      ...(card?.verdict === "local-source" ? ["Name the folders that you have, too: `moved` NAME=FOLDER"] : []),
      ...(card && card.bytesFetched > 0 ? [`Fetched ${formatBytes(card.bytesFetched)} of weights from the hub.`] : []),
      ...(card && report !== undefined ? [`Wrote ${join(report, BADGE)} and ${join(report, SECTION)}`] : []),
    ],
  },
};

/** Whether a model is compared with its card: it has no journal here. */
async function isByCard(model: string, folder = "."): Promise<boolean> {
  const place = resolve(folder, model);
  if (await exists(join(place, PROVENANCE_FILE))) return false;
  return (await exists(place)) ? hasCard(place) : parseHubName(model) !== undefined;
}

function settingsOf(
  { share, all, seed, bases, moved = {} }: Input,
  { folder, hub, threads, memory, signal, onProgress }: Pick<VerifyControls, keyof WorkOptions | keyof VerbOptions>,
) {
  const places = Object.fromEntries(
    Object.entries(moved).map(([name, place]) => [name, resolve(folder ?? ".", place)]),
  );
  return { ...{ share: all ? 1 : share, seed, bases, places, folder, hub, threads, memory, signal, onProgress } };
}

function resultOf(folder: string, card: CardCheck): VerifyResult {
  const { verdict, tensors, bytesRead, deviations, notes } = card;
  const wrong = deviations.filter((one) => ["differs", "form"].includes(one.verdict));
  return {
    folder,
    card,
    verified: isTrue(verdict),
    tensors: tensors.compared,
    bytesRead,
    files: [],
    moved: [],
    deviations: wrong.map(({ tensor, differing, elements, published, planned }) => ({
      tensor,
      what:
        published === undefined
          ? `differs in ${differing} of ${plural(elements, "compared element")}`
          : `is ${published}, planned ${planned}`,
      differing,
    })),
    notes,
    warnings: [],
  };
}

// Fits a screen.
const MAX_SHOWN = 20;

function cardLines(card: CardCheck): string[] {
  const pinned = card.sources.flatMap(({ name, commits }) =>
    commits.length > 0 ? [`  ${name} at ${commits.map((commit) => commit.slice(0, 10)).join(" and ")}`] : [],
  );
  return [`${isTrue(card.verdict) ? "Verified" : "Not verified:"} ${card.model}`, ...cardSentences(card), ...pinned];
}

function journalLines(
  { verified, deviations, tensors, bytesRead, files }: Omit<VerifyResult, "card">,
  model: string,
  seconds: number,
): string[] {
  if (verified) {
    const took = `${formatBytes(bytesRead)} read, ${formatDuration(seconds)}`;
    return [`Verified ${model}: ${plural(tensors, "tensor")} bit-identical (${took})`];
  }
  const more = deviations.length - MAX_SHOWN;
  return [
    deviations.length > 0
      ? `Not verified: ${deviations.length} of ${plural(tensors, "tensor")} of ${model} differ from the plan`
      : `Not verified: the tensors of ${model} are bit-identical, but other files differ`,
    ...deviations.slice(0, MAX_SHOWN).map(({ tensor, what }) => `  ${tensor} ${what}`),
    ...(more > 0 ? [`  and ${more} more in the JSON output`] : []),
    ...files.map(({ file, what }) => `  ${file} ${what === "missing" ? "is missing" : "was changed"}`),
    "The output or a source has changed since it was written.",
  ];
}

async function writeReport(folder: string, card: CardCheck): Promise<void> {
  await writeFile(join(folder, BADGE), badgeOf(card));
  await writeFile(join(folder, SECTION), sectionOf(card, BADGE));
}

/** Options of `verify`. */
export interface VerifyOptions extends VerbOptions, Pick<WorkOptions, "threads" | "memory"> {}

/**
 * Verifies a merged model. One that layergraft wrote is computed again from its sources and compared bit for bit. Of another, the
 * recipe is read from its model card, planned, and compared with a sample of its rows.
 * @returns whether it is what it says, and where not; what a card's check found is in `card`
 * @throws RecipeError if the input is not valid, with every problem
 * @throws LayergraftError if a folder has neither layergraft.json nor a model card, or a source of a journal is missing or changed
 * @throws CheckpointError or FormatError if the model cannot be read
 * @throws HubError if the hub cannot be reached
 * @throws CancelledError if the signal fires
 */
export function verify(input: VerifyInput, options: VerifyOptions = {}): Promise<VerifyResult> {
  return callVerb(verifyVerb, input, options);
}
