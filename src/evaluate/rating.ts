// Answers of two models for people to choose between without knowing whose they are, and the tally of what they chose.
import { join } from "node:path";
import { z } from "zod";
import { formatNumber, pageWithData, probabilityText } from "../figures/index.js";
import { digestOfJson, isFile, readJsonObject } from "../kit/files/index.js";
import { own, Random, RecipeError } from "../kit/index.js";
import { plural } from "../kit/printing/index.js";
import { checkSchema, formatProblem } from "../kit/settings/index.js";
import { readResults, readSamples, type StoredSample } from "./results/read-results.js";
import { mcnemarExact, wilsonInterval } from "./scoring/statistics.js";

/** Folders of the results of two models. */
type Pair = readonly [first: string, second: string];

interface Answers {
  readonly task: string;
  readonly id: string;
  readonly prompt: string;
  readonly texts: readonly [first: string, second: string];
}

/** The generated texts of both to the same items. @throws RecipeError if there are none */
async function answersOf([first, second]: Pair): Promise<Answers[]> {
  const [one, other] = await Promise.all([first, second].map(readResults));
  const tasks = (one?.tasks ?? []).flatMap(({ task, promptsDigest }) =>
    other?.tasks.some((its) => its.task === task && its.promptsDigest === promptsDigest) ? task : [],
  );
  const shared = await sharedPrompts(first);
  const found = await Promise.all(
    tasks.map(async (task) => {
      const theirs = new Map((await readSamples(second, task)).map((sample) => [sample.id, sample]));
      return (await readSamples(first, task)).flatMap((sample): Answers[] => {
        const [text, its] = [sample.output, theirs.get(sample.id)?.output];
        if (typeof text !== "string" || typeof its !== "string") return [];
        return [{ task, id: sample.id, prompt: promptText(sample, shared), texts: [text, its] }];
      });
    }),
  );
  const all = [...new Map(found.flat().map((one) => [keyOf(one), one])).values()];
  if (all.length > 0) return all;
  throw new RecipeError(
    `${first} and ${second} have no generated texts to the same items. Rate results of a task whose answer is generate.`,
  );
}

const keyOf = ({ task, id }: { readonly task: string; readonly id: string }) => `${task}\0${id}`;

/** What the prompts of a result have in common, such as solved examples. */
export async function sharedPrompts(folder: string): Promise<Readonly<Record<string, unknown>>> {
  const file = join(folder, "shared-prompts.json");
  return (await isFile(file)) ? readJsonObject(file) : {};
}

/** A prompt as people read it, without what others begin with. */
export function ownPrompt({ prompt }: StoredSample): string {
  return "own" in prompt ? prompt.own : textOf(prompt.messages);
}

export const sharedPrompt = ({ prompt }: StoredSample, shared: Readonly<Record<string, unknown>>) =>
  textOf(own(shared, prompt.shared));

const promptText = (sample: StoredSample, shared: Readonly<Record<string, unknown>>) =>
  [sharedPrompt(sample, shared), ownPrompt(sample)].filter((text) => text !== "").join("\n\n");

function textOf(beginning: unknown): string {
  if (typeof beginning === "string") return beginning;
  if (!Array.isArray(beginning)) return "";
  return beginning.map(({ role, content }) => `${role}: ${content}`).join("\n\n");
}

/** Whether A is the second: a function of the item, so that no page needs to say it. */
const isTurned = (seed: number, item: { readonly task: string; readonly id: string }) =>
  Random.of(seed, `side\0${keyOf(item)}`).chance(0.5);

const digestOf = (all: readonly Answers[]) => digestOfJson(all.map(({ task, id, texts }) => [task, id, texts]));

/**
 * A page of pairs in random order, without names. It saves choices as a file, which `tallyRatings` reads.
 * @throws RecipeError if there is nothing to choose between
 */
export async function ratingPage(results: Pair, seed = 0): Promise<{ page: string; pairs: number; equal: number }> {
  const all = await answersOf(results);
  const differing = all.filter(({ texts: [one, other] }) => one.trim() !== other.trim());
  const pairs = Random.of(seed, "order")
    .shuffle(differing)
    .map(({ texts, ...item }) => ({ ...item, answers: isTurned(seed, item) ? [texts[1], texts[0]] : [...texts] }));
  const equal = all.length - pairs.length;
  if (pairs.length === 0)
    throw new RecipeError(`all ${equal} answers of ${results.join(" and ")} are equal. Rate other results.`);
  const page = await pageWithData("#rating-page", { seed, digest: digestOf(all), pairs, equal });
  return { page, pairs: pairs.length, equal };
}

const choices = z.object({
  seed: z.int().min(0),
  digest: z.string(),
  choices: z.array(
    z.object({ task: z.string(), id: z.string(), choice: z.enum(["a", "b", "equal"]), note: z.string() }),
  ),
});

export interface RatingTally {
  readonly task: string;
  /** Pairs for which most raters chose the first, the second, or neither. */
  readonly first: number;
  readonly second: number;
  readonly equal: number;
  /** Share of the second among pairs with a choice, its 95% interval (Wilson) and p (exact sign test); none without a choice. */
  readonly share?: { readonly value: number; readonly low: number; readonly high: number; readonly pValue: number };
  readonly notes: readonly { readonly id: string; readonly note: string }[];
}

/**
 * Counts what raters chose, by task. Of several raters of a pair, most decide.
 * @param saved what the page saved, by file
 * @throws RecipeError if a file is not of these results
 */
export async function tallyRatings(results: Pair, saved: Readonly<Record<string, unknown>>): Promise<RatingTally[]> {
  const digest = digestOf(await answersOf(results));
  const votes = new Map<string, number>();
  const notes = new Map<string, { id: string; note: string }[]>();
  for (const [file, value] of Object.entries(saved)) {
    const { value: read, problems } = checkSchema(choices, value);
    if (!read) {
      throw new RecipeError(`${file} is not what a rating page saved:`, problems.slice(0, 5).map(formatProblem));
    }
    if (read.digest !== digest) {
      throw RecipeError.at(
        { file },
        `${file} rates other answers than those of ${results.join(" and ")}. Pass the results that its page was made of, in the same order.`,
      );
    }
    for (const { choice, note, ...item } of read.choices) {
      const isSecond = (choice === "a") === isTurned(read.seed, item);
      const vote = choice === "equal" ? 0 : isSecond ? 1 : -1;
      votes.set(keyOf(item), (votes.get(keyOf(item)) ?? 0) + vote);
      if (note !== "") notes.set(item.task, [...(notes.get(item.task) ?? []), { id: item.id, note }]);
    }
  }
  const tasks = [...new Set([...votes.keys()].map((key) => key.split("\0")[0] ?? ""))];
  return tasks.map((task) => {
    const sums = [...votes].flatMap(([key, sum]) => (key.startsWith(`${task}\0`) ? sum : []));
    const first = sums.filter((sum) => sum < 0).length;
    const second = sums.filter((sum) => sum > 0).length;
    const decided = first + second;
    const value = second / decided;
    const share = { value, ...wilsonInterval(value, decided), pValue: mcnemarExact(second, first) };
    return {
      task,
      first,
      second,
      equal: sums.length - decided,
      ...(decided > 0 ? { share } : {}),
      notes: notes.get(task) ?? [],
    };
  });
}

/** What a tally says, in a sentence. @param names of the first and the second */
export function tallyVerdict({ first, second, equal, share }: RatingTally, names: readonly [string, string]): string {
  const ties = equal > 0 ? `, and neither in ${equal}` : "";
  const counts = `${names[1]} is preferred in ${plural(second, "pair")}, ${names[0]} in ${first}${ties}`;
  if (!share) return `${counts}.`;
  const percent = (value: number) => formatNumber({ value, scale: "share" });
  return `${counts}: ${percent(share.value)}% of those with a preference (95% interval ${percent(share.low)} to ${percent(share.high)}%, ${probabilityText(share.pValue)}).`;
}
