import { useEffect, useMemo } from "preact/hooks";
import { formatBytes, formatDuration } from "../../../kit/printing/format.js";
import type { Analysis, Job } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Cautions, Empty, EmptyView } from "../components/basics.js";
import { fitting, inputOf, isCurrent, measured, useAnalysis } from "../explorer/analysis-store.js";
import { Explorer } from "../explorer/explorer.js";
import { timeText } from "../format.js";
import { JobOutcome } from "../recipe/outcome.js";
import { areKnown, attempt, cardOf, inBackground, jobs, refresh, settings } from "../store.js";
import { bytesOf } from "./models.js";

export function Changes() {
  const now = settings.value;
  const { base, experts } = now ?? { base: null, experts: [] };
  const fits = fitting.value;
  const leftOut = experts.filter((expert) => !fits.includes(expert)).map(({ name }) => name);
  const analyses = jobs.value.filter(({ kind }) => kind === "analyze");
  const running = analyses.find(({ state }) => state === "running");
  const done = measured.value;
  const shown = done.find(isCurrent) ?? done[0];
  const latest = analyses[0];
  useEffect(() => void inBackground(refresh), []);
  const data = useAnalysis(shown?.id);

  if (base === null || experts.length === 0) {
    return (
      <EmptyView
        view="Changes"
        title="Nothing to compare yet"
        text="Choose a base and at least one expert to see where it changed."
        link={["models", "Open models"]}
      />
    );
  }
  const measure = () => attempt(() => call("job.start", { kind: "analyze", input: { base, experts: fits } }));
  // Before all cards are open, it is not known which experts fit.
  const isStale = shown !== undefined && !isCurrent(shown) && areKnown.value;
  const bytes = [base, ...fits.map(({ source }) => source)].reduce((sum, source) => {
    const card = cardOf(source);
    return sum + (typeof card === "object" ? bytesOf(card) : 0);
  }, 0);
  const button = (text: string, isPrimary: boolean) => (
    <Button
      text={text}
      class={isPrimary ? "primary" : ""}
      disabled={fits.length === 0 || !areKnown.value}
      onClick={measure}
    />
  );
  return (
    <section class="view">
      <header>
        <div>
          <h1>Changes</h1>
          <p>
            For each layer and matrix, the share of rows that an expert moved by more than the threshold
            {data ? `; a row is an ${data.rowAxis} feature` : ""}. q, k, v and o are attention; gate, up and down the
            MLP.
          </p>
        </div>
        {shown && !running ? button("Measure again", isStale) : null}
      </header>
      {latest ? <JobOutcome job={running ?? latest} /> : null}
      <Cautions
        texts={[
          ...(leftOut.length > 0
            ? [`Left out, as they do not fit the base: ${leftOut.join(", ")}. The view Models says why.`]
            : []),
          ...(isStale
            ? ["These figures are of other models or files than those that are open now. Measure again to update them."]
            : []),
        ]}
      />
      {shown || running ? null : (
        <Empty
          title="See where the experts changed"
          text={`Measuring reads every weight once: ${formatBytes(bytes)}. It runs in the background and can be cancelled.`}
        >
          {button("Measure changes", true)}
          {areKnown.value ? null : (
            <span class="soft" role="status">
              Opening the models first…
            </span>
          )}
        </Empty>
      )}
      {shown && data ? <Found key={shown.id} job={shown} data={data} /> : null}
      {shown && !data ? <p class="soft">Loading…</p> : null}
    </section>
  );
}

function Found({ job, data }: { job: Job; data: Analysis }) {
  const { experts } = settings.value ?? { experts: [] };
  const input = inputOf(job);
  /** They keep colour and name by their source. */
  const accents = useMemo(
    () =>
      (input?.experts ?? []).map(({ source }, i) => {
        const at = experts.findIndex((one) => one.source === source);
        return at < 0 ? i : at;
      }),
    [job.id, experts],
  );
  const names = data.experts.map((name, i) => {
    const now = experts[accents[i] ?? -1];
    return now?.source === input?.experts[i]?.source ? (now?.name ?? name) : name;
  });
  const readRows = useMemo(
    () => (layer: number, column: string) => call("analysis.rows", { id: job.id, layer, column }),
    [job.id],
  );
  return (
    <>
      <Cautions texts={data.warnings.slice(0, 20)} />
      <Explorer data={data} names={names} accents={accents} readRows={readRows} />
      <p class="small soft">
        Measured {timeText(job.started)} in {formatDuration(((job.ended ?? job.started) - job.started) / 1000)}.
      </p>
    </>
  );
}
