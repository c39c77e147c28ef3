// Finished evaluations by what was asked: scores with their intervals, and two of them to compare.

import { useState } from "preact/hooks";
import { type Evaluation, recipeSource } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Form, ownClass } from "../components/basics.js";
import { Select } from "../components/inputs.js";
import { timeText } from "../format.js";
import { type Choice, choices, settings, useAnswer } from "../store.js";
import { Changed } from "./changed.js";
import { Comparison } from "./comparison.js";
import { Leaderboard } from "./leaderboard.js";
import { ItemsByModels } from "./matrix.js";

type Score = Evaluation["tasks"][number];
/** A result of a model on one task. */
export interface ResultRow extends Evaluation {
  readonly score: Score;
  /** What the model is called in the project, else the last part of its source. */
  readonly label: string;
  /** What else tells it: its folder, or its configuration and experiment. */
  readonly about: string;
  readonly accent: string;
  readonly isRecipe: boolean;
  /** Among the models of the project; those that it has no longer are after them. */
  readonly place: number;
}

/** Results of the same questions. */
interface Group {
  readonly key: string;
  readonly score: Score;
  /** Earlier versions last; the base first, then as the project lists models; the latest of a model first. */
  readonly rows: readonly ResultRow[];
}

/** What a result is called. */
function namesOf({ source, isEarlier, version, experiment }: Evaluation, known: Choice | undefined) {
  if (experiment) {
    const { entry, configuration, plan } = experiment;
    return { label: entry, about: [configuration, plan].filter((part) => part !== "").join("; ") };
  }
  if (known)
    return {
      label: `${known.name}${isEarlier ? ` (${version === null ? "earlier version" : `version ${version}`})` : ""}`,
      about: "",
    };
  const [label = source] = /[^/\\]+$/.exec(source) ?? [];
  return { label, about: label === source ? "" : source };
}

/** A model of an experiment is that of the project that has its name. */
const isOf = ({ source, experiment }: Evaluation, choice: Choice) =>
  experiment ? !choice.isRecipe && choice.name === experiment.entry : choice.source === source;

function groupsOf(all: readonly Evaluation[]): Group[] {
  const groups = new Map<string, ResultRow[]>();
  for (const one of all) {
    const at = choices.value.findIndex((choice) => isOf(one, choice));
    const known = choices.value[at];
    for (const score of one.tasks) {
      const key = JSON.stringify([score.task, score.protocol, score.prompts, score.metric]);
      const before = groups.get(key) ?? [];
      // An experiment asks the models of the project, too.
      if (one.experiment && known && before.some(({ place, isEarlier }) => place === at && !isEarlier)) continue;
      const { own = one.experiment ? "merge" : "base", isRecipe = (one.experiment && one.recipe) !== null } =
        known ?? {};
      const place = known ? at : choices.value.length;
      groups.set(key, [...before, { ...one, ...namesOf(one, known), score, accent: ownClass(own), isRecipe, place }]);
    }
  }
  return [...groups].flatMap(([key, rows]) => {
    const [latest] = rows;
    const sorted = rows.sort(
      (a, b) => Number(a.isEarlier) - Number(b.isEarlier) || a.place - b.place || b.ended - a.ended,
    );
    return latest ? [{ key, score: latest.score, rows: sorted }] : [];
  });
}

export function Results({ all }: { all: readonly Evaluation[] }) {
  return (
    <>
      {groupsOf(all).map((group) => (
        <ResultGroup key={group.key} group={group} />
      ))}
    </>
  );
}

/** Models that the table of items has room for. */
const MAX_COLUMNS = 8;

function ResultGroup({ group: { score, rows } }: { group: Group }) {
  const [pair, setPair] = useState<readonly [ResultRow, ResultRow] | null>(null);
  const [isOpen, setOpen] = useState(false);
  const now = rows.filter(({ isEarlier }) => !isEarlier);
  const open = recipeSource(settings.value?.recipe ?? "");
  const [first, setFirst] = useState<string | null>(null);
  const [second, setSecond] = useState<string | null>(null);
  // Whether the open recipe, or another one, beats all else is what one wants to know.
  const own = now.filter(({ experiment }) => experiment === null);
  const wanted = own.find(({ source }) => source === open) ?? own.find(({ isRecipe }) => isRecipe) ?? now.at(-1);
  const isAsked = wanted?.isRecipe === true && wanted.experiment === null;
  const alike = now.filter((row) => row !== wanted && row.runner === wanted?.runner);
  const finding = useAnswer(
    () => (isAsked ? call("evaluation.finding", { result: wanted.name, task: score.task }) : undefined),
    [wanted?.name, rows.length],
  );
  const [highest] = alike.toSorted((a, b) => (b.score.value ?? 0) - (a.score.value ?? 0));
  const best = rows.find(({ name }) => name === finding?.alternative) ?? highest;
  const one = rows.find(({ name }) => name === first) ?? best ?? rows.find((row) => row !== wanted);
  const rest = rows.filter((row) => row !== one);
  const other = rest.find(({ name }) => name === second) ?? (wanted === one ? rest[0] : wanted);
  const select = (
    label: string,
    among: readonly ResultRow[],
    { name: value }: ResultRow,
    onChange: (name: string) => void,
  ) => (
    <Select
      {...{ label, value, onChange }}
      options={among.map((row) => [row.name, `${row.label}, ${row.score.score}${differenceOf(row, rows)}`])}
    />
  );
  return (
    <section class="card stack results">
      <header>
        <h2>{score.title}</h2>
        <p class="small soft">
          {score.items} items, {score.metric}, {score.protocol}
        </p>
      </header>
      {finding ? <p class="verdict">{finding.text}</p> : null}
      {isAsked && finding === undefined ? <p class="verdict waits soft">Comparing it with all others…</p> : null}
      <Leaderboard label={`Scores on ${score.title}, ${score.items} items, ${score.protocol}`} rows={rows} />
      {now.length > 1 ? (
        <details onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
          <summary>Items by models</summary>
          {isOpen ? <ItemsByModels rows={now.slice(0, MAX_COLUMNS)} task={score.task} /> : null}
        </details>
      ) : null}
      {one && other ? (
        <Form class="row compare-form" onSubmit={() => setPair([one, other])}>
          {select("Compare", rows, one, setFirst)}
          {select("with", rest, other, setSecond)}
          <Button text="Compare item by item" type="submit" />
        </Form>
      ) : null}
      {pair ? <Changed pair={pair} /> : null}
      {pair ? <Comparison key={pair.map(({ name }) => name).join("/")} pair={pair} task={score.task} /> : null}
    </section>
  );
}

/** What tells a result from others of its model: what ran it, or when. */
function differenceOf(row: ResultRow, rows: readonly ResultRow[]): string {
  const others = rows.filter(({ name, label }) => name !== row.name && label === row.label);
  if (others.length === 0) return "";
  return others.some(({ runner }) => runner === row.runner) ? ` (${timeText(row.ended)})` : ` (${row.runner})`;
}
