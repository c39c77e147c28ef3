import { signal } from "@preact/signals";
import { useState } from "preact/hooks";
import type { Expert } from "../../protocol/index.ts";
import { Button, Empty } from "../components/basics.tsx";
import { NameDialog } from "../components/name-dialog.tsx";
import { nameProblem } from "../names.ts";
import { addExpert, cardOf, change, reload, settings } from "../store.ts";
import { ModelCard } from "./model-card.tsx";
import { PickDialog } from "./pick-dialog.tsx";

/** What the dialog picks: null while it is closed. */
const picking = signal<"base" | "experts" | null>(null);

export function Models() {
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
            title="Open your models"
            text="Choose the base, the model that your experts were fine-tuned from. Then add the experts."
          >
            <Button text="Choose the base" class="primary" onClick={() => (picking.value = "base")} />
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
          onPick={async (source) => {
            if (picking.value === "base") {
              await change(() => ({ base: source }));
              picking.value = null;
            } else await addExpert(source);
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
