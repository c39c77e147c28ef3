// An item: what was asked, what was expected, and what models answered.
import type { ComparedItem } from "../../protocol/index.js";
import { Icon } from "../components/basics.js";
import { Different } from "../components/different.js";
import { Own } from "../components/grid.js";
import type { ResultRow } from "./results.js";

interface ItemProps {
  readonly item: ComparedItem;
  /** The models, in the order of the answers. */
  readonly rows: readonly Pick<ResultRow, "name" | "label" | "accent">[];
  readonly change?: "gained" | "lost" | null;
}

export function Item({ item: { id, prompt, beginning, gold, answers }, rows, change = null }: ItemProps) {
  const [before] = answers;
  return (
    <li class={`item ${change ?? ""}`}>
      <h3 class="row">
        Item {id}
        {change === null ? null : <span class={`chip ${change}`}>{change === "gained" ? "Gained" : "Lost"}</span>}
      </h3>
      <dl>
        <div class="question">
          <dt>Prompt</dt>
          <dd dir="auto">
            {beginning === "" ? null : (
              <details>
                <summary>Beginning that items share</summary>
                {beginning}
              </details>
            )}
            {prompt}
          </dd>
        </div>
        <div>
          <dt>Expected</dt>
          <dd dir="auto">{gold}</dd>
        </div>
        {answers.map((answer, side) => (
          <div key={rows[side]?.name} class={`given ${rows[side]?.accent}`}>
            <dt class="row">
              <Own name={rows[side]?.label ?? ""} />
              <Verdict value={answer.value} />
            </dt>
            <dd dir="auto">
              {answer.fault !== null ? (
                <span class="problem">{answer.fault}</span>
              ) : side > 0 && before ? (
                <Different from={before.text} to={answer.text} />
              ) : (
                answer.text
              )}
            </dd>
          </div>
        ))}
      </dl>
    </li>
  );
}

/** Right, wrong, or a number between. */
export function Verdict({ value }: { value: number | null }) {
  if (value === null) return null;
  if (value !== 0 && value !== 1) return <span class="worth">{Math.round(100 * value)}%</span>;
  return (
    <span class={`worth ${value === 1 ? "right" : ""}`}>
      <Icon name={value === 1 ? "check" : "close"} />
      {value === 1 ? "right" : "wrong"}
    </span>
  );
}
