// A model: what it is, and what keeps it from fitting the base.
import type { ComponentChildren } from "preact";
import { formatBytes, formatCount } from "../../../core/format.ts";
import type { Model } from "../../protocol/index.ts";
import { Button, Facts, Notice, ownClass } from "../components/basics.tsx";
import { Own } from "../components/grid.tsx";

interface Props {
  /** Position among the experts. */
  readonly own: number | "base";
  readonly title: string;
  readonly source: string;
  /** A text is why it cannot be opened; undefined while it is being opened. */
  readonly card: Model | string | undefined;
  readonly onRetry: () => void;
  readonly children: ComponentChildren;
}

export function ModelCard({ own, title, source, card, onRetry, children }: Props) {
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
  const facts: (readonly [name: string, value: string])[] = [
    ["Family", architecture],
    ["Layers", `${layers}`],
    ["Parameters", formatCount(parameters)],
    ["On disk", formatBytes(bytesOf(model))],
    ["Values", dtypesText(dtypes)],
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

/** `BF16`, or `BF16 93%, F32 7%` where there are several. */
function dtypesText(dtypes: Model["dtypes"]): string {
  const all = Object.entries(dtypes).sort(([, a], [, b]) => b - a);
  const total = all.reduce((sum, [, count]) => sum + count, 0);
  if (all.length === 1) return all[0]?.[0] ?? "";
  const shown = all.slice(0, 3).map(([name, count]) => `${name} ${Math.round((100 * count) / total)}%`);
  return [...shown, ...(all.length > 3 ? ["others"] : [])].join(", ");
}
