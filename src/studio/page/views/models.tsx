import { signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { formatBytes, formatCount } from "../../../kit/printing/format.js";
import type { Expert, Model } from "../../protocol/index.js";
import { Button, Empty, Facts, Notice, ownClass } from "../components/basics.js";
import { Own } from "../components/grid.js";
import { NameDialog } from "../components/name-dialog.js";
import { nameProblem } from "../names.js";
import { cardOf, change, openExample, reload, settings, withExperts } from "../store.js";
import { PickDialog } from "./pick-dialog.js";

/** What the dialog picks: null while it is closed. */
const picking = signal<"base" | "experts" | null>(null);

export function Models() {
  const [isOpening, setOpening] = useState(false);
  const now = settings.value;
  if (!now) return null;
  const { base, experts } = now;
  const isEmpty = base === null && experts.length === 0;
  return (
    <section class="view">
      {isEmpty ? (
        <>
          <h1 class="visually-hidden">Models</h1>
          <Empty
            title="Merge experts of one base"
            text="Start with the example: a math expert and a Swahili expert, which together solve math in Swahili. Or choose the base that your own experts were fine-tuned from, then add them."
          >
            <Button
              text={isOpening ? "Opening…" : "Open the example"}
              class="primary"
              disabled={isOpening}
              onClick={() => {
                setOpening(true);
                void openExample().then(() => setOpening(false));
              }}
            />
            <Button text="Choose the base" onClick={() => (picking.value = "base")} />
          </Empty>
        </>
      ) : (
        <>
          <header>
            <div>
              <h1>Models</h1>
              <p>The base, and the experts that were fine-tuned from it. Each expert has one colour in all views.</p>
            </div>
          </header>
          <div class="models">
            {base === null ? (
              <AddCard text="Choose the base" onClick={() => (picking.value = "base")} />
            ) : (
              <ModelCard own="base" title="Base" source={base} card={cardOf(base)} onRetry={() => reload(base)}>
                <Button text="Replace" class="quiet" onClick={() => (picking.value = "base")} />
              </ModelCard>
            )}
            {experts.map((expert, i) => (
              <ExpertCard key={expert.name} expert={expert} at={i} all={experts} />
            ))}
            <AddCard
              text={experts.length === 0 ? "Add the first expert" : "Add an expert"}
              onClick={() => (picking.value = "experts")}
            />
          </div>
        </>
      )}
      {picking.value === null ? null : (
        <PickDialog
          what={picking.value}
          onClose={() => (picking.value = null)}
          onPick={async (sources) => {
            const [first = null, ...others] = sources;
            if (picking.value === "base") {
              picking.value = null;
              await change((now) => ({ base: first, experts: withExperts(now.experts, others) }));
            } else await change((now) => ({ experts: withExperts(now.experts, sources) }));
          }}
        />
      )}
    </section>
  );
}

function AddCard({ text, onClick }: { text: string; onClick: () => void }) {
  return <Button text={text} icon="plus" class="add-card" onClick={onClick} />;
}

function ExpertCard({ expert, at, all }: { expert: Expert; at: number; all: readonly Expert[] }) {
  const [isRenaming, setRenaming] = useState(false);
  const others = all.filter((one) => one !== expert).map(({ name }) => name);
  const edit = (make: (one: Expert) => Expert[]) =>
    change(({ experts }) => ({ experts: experts.flatMap((one) => (one.name === expert.name ? make(one) : [one])) }));
  return (
    <ModelCard
      own={at}
      title={expert.name}
      source={expert.source}
      card={cardOf(expert.source)}
      onRetry={() => reload(expert.source)}
    >
      <Button text="Rename" class="quiet" onClick={() => setRenaming(true)} />
      <Button text="Remove" class="quiet danger" onClick={() => edit(() => [])} />
      {isRenaming ? (
        <NameDialog
          {...{ verb: "Rename", from: expert.name, start: expert.name, problemOf: (name) => nameProblem(name, others) }}
          onDone={(name) => void edit((one) => [{ ...one, name }])}
          onClose={() => setRenaming(false)}
        />
      ) : null}
    </ModelCard>
  );
}

interface CardProps {
  /** Position among the experts. */
  readonly own: number | "base";
  readonly title: string;
  readonly source: string;
  /** A text is why it cannot be opened; undefined while it is being opened. */
  readonly card: Model | string | undefined;
  readonly onRetry: () => void;
  readonly children: ComponentChildren;
}

/** A model: what it is, and what keeps it from fitting the base. */
function ModelCard({ own, title, source, card, onRetry, children }: CardProps) {
  return (
    <article class={`card owned model ${ownClass(own)}`} aria-label={title}>
      <header>
        <h2>
          <Own name={title} />
        </h2>
        <p class="path" title={source}>
          {source}
        </p>
      </header>
      <div class="body">
        {card === undefined ? <p class="soft">Opening…</p> : null}
        {typeof card === "string" ? (
          <Notice kind="problem" text={card}>
            <Button text="Retry" onClick={onRetry} />
          </Notice>
        ) : null}
        {typeof card === "object" ? <Known model={card} /> : null}
      </div>
      <footer class="row">{children}</footer>
    </article>
  );
}

export const bytesOf = ({ files }: Model) => files.reduce((sum, { bytes }) => sum + bytes, 0);

function Known({ model }: { model: Model }) {
  const { architecture, layers, parameters, dtypes, hiddenSize, vocabularySize, notes, problems } = model;
  /** The most used first. */
  const kinds = Object.entries(dtypes).sort(([, a], [, b]) => b - a);
  const facts: (readonly [name: string, value: string])[] = [
    ["Family", architecture],
    ["Layers", `${layers}`],
    ["Parameters", formatCount(parameters)],
    ["On disk", formatBytes(bytesOf(model))],
    ["Values", kinds.map(([name]) => name).join(", ")],
    ["Hidden size", hiddenSize?.toLocaleString("en-US") ?? "unknown"],
    ["Vocabulary", vocabularySize?.toLocaleString("en-US") ?? "unknown"],
  ];
  return (
    <>
      {problems.map((problem) => (
        <Notice key={problem} kind="problem" text={problem} />
      ))}
      <Facts facts={facts} />
      {notes.map((note) => (
        <p class="small soft" key={note}>
          {note}
        </p>
      ))}
    </>
  );
}
