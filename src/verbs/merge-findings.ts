// What the evaluation of a merge beside its models found: for the terminal and for the model card.
import { findingAbout, kindOfMethod, leadOf } from "../evaluate/findings/index.js";
import type { ResultsComparison } from "../evaluate/index.js";
import { turned } from "../evaluate/scoring/index.js";
import { type Bars, type Compared, findingText, ownClass } from "../figures/index.js";
import { plural } from "../kit/printing/index.js";
import type { MergeEvaluation } from "./merge.js";

interface Evaluated extends Pick<MergeEvaluation, "models"> {
  /** Of the merge. */
  readonly method: string;
  /** Displayed names of the models that it is of, in their order. */
  readonly names: readonly string[];
  /** Each against the merge, which is the first. */
  readonly comparison: Pick<ResultsComparison, "tasks">;
}

type TaskFigure = Bars & { readonly kind: "bars" };

/** A figure for each task, with what was found. @param models the merge first */
export function mergeFindings(
  { method, names, models, comparison }: Evaluated,
  tasks: readonly { readonly name: string; readonly title: string }[],
): readonly TaskFigure[] {
  const kinds = [kindOfMethod(method), ...names.map(() => "expert" as const)];
  // Models of one name are told apart by their place in the recipe.
  const isOnce = (name: string) => names.filter((one) => one === name).length === 1;
  const called = models.map(({ id }, i) => (i > 0 && isOnce(names[i - 1] ?? "") ? (names[i - 1] ?? id) : id));
  return tasks.flatMap(({ name: task, title }): TaskFigure[] => {
    const { comparisons = [] } = comparison.tasks.find((one) => one.task === task) ?? {};
    const main = comparisons.filter(({ metric }) => metric === comparisons[0]?.metric).map(turned);
    const [first] = main;
    if (!first) return [];
    const candidates = models.flatMap((_, i) => {
      const one = i === 0 ? first : main.find(({ method: place }) => place === i);
      const name = called[i] ?? "";
      const own: Compared = { name, label: name, detail: "", kind: kinds[i] ?? "expert", score: 0 };
      return one ? [{ ...own, entry: name, score: i === 0 ? one.second : one.first, place: i }] : [];
    });
    const finding = findingAbout(candidates, {
      scale: first.scale,
      items: first.items,
      subject: candidates[0],
      leads: (_, others) =>
        others.map(({ place, label }) => {
          const one = main.find((other) => other.method === place);
          return one && leadOf(one, label);
        }),
    });
    const protocol = models[0]?.scores.find((one) => one.task === task)?.protocol ?? "";
    return [
      {
        kind: "bars",
        id: "",
        title,
        scale: first.scale,
        verdict: findingText(finding),
        note: `${first.title}${first.scale === "share" ? " in percent" : ""}, on ${plural(first.items, "item")}; ${protocol}.`,
        rows: candidates.map(({ label, kind, score: mean, place }) => ({
          label,
          detail: "",
          kind: kind === "expert" ? ownClass(place - 1) : kind,
          count: 1,
          mean,
          low: mean,
          high: mean,
          interval: models[place]?.scores.find((one) => one.task === task)?.interval,
          isBest: place === 0 && finding?.isBest === true,
        })),
      },
    ];
  });
}
