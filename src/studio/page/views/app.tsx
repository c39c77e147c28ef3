import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Button, Cautions, Dialog, Notice } from "../components/basics.js";
import { lazy } from "../components/lazy.js";
import { actionOf, chordText, PLACES } from "../keys.js";
import { follow } from "../recipe/recipe-store.js";
import { Unsaved } from "../recipe/unsaved.js";
import { attempt, connections, isConnected, jobs, project, settings, trouble } from "../store.js";
import { Jobs } from "./jobs.js";
import { Models } from "./models.js";
import { Recipe } from "./recipe.js";

const WAITING = <p class="soft">Loading…</p>;
const Changes = lazy(async () => (await import("./changes.js")).Changes, WAITING);
const Try = lazy(async () => (await import("./try.js")).Try, WAITING);
const Write = lazy(async () => (await import("./write.js")).Write, WAITING);
const Verbs = lazy(async () => (await import("./verbs.js")).Verbs, WAITING);
const Experiments = lazy(async () => (await import("./experiments.js")).Experiments, WAITING);

/** `next`: the view to go to afterwards, and what one does there. */
const VIEWS = {
  models: { label: "Models", view: Models, next: ["changes", "See what changed"] },
  changes: { label: "Changes", view: Changes, next: ["recipe", "Choose layers"] },
  recipe: { label: "Recipe", view: Recipe, next: ["try", "Ask and score it"] },
  try: { label: "Try", view: Try, next: ["write", "Make a model, an experiment or a page"] },
  write: { label: "Write", view: Write, next: ["experiments", "See all runs"] },
  experiments: { label: "Experiments", view: Experiments, next: null },
  verbs: { label: "Commands", view: Verbs, next: null },
  jobs: { label: "Activity", view: Jobs, next: null },
} as const;
type ViewName = keyof typeof VIEWS;

const isView = (name: string): name is ViewName => Object.hasOwn(VIEWS, name);
const shown = signal<ViewName>(viewOfAddress());

function viewOfAddress(): ViewName {
  const name = location.hash.replace(/^#\/?/, "");
  return isView(name) ? name : "models";
}
addEventListener("hashchange", () => {
  shown.value = viewOfAddress();
});

const OFFLINE = "The server does not answer. Start it again with layergraft studio; this page then continues.";
const listsKeys = signal(false);
addEventListener("keydown", (event) => {
  const [at] = event.composedPath();
  const isTyping = at instanceof HTMLElement && (at.isContentEditable || at.matches("input, textarea, select"));
  if (!isTyping && actionOf("Everywhere", event) === "list") listsKeys.value = true;
});
const isDropping = signal(false);
addEventListener("dragover", (event) => {
  if (!event.dataTransfer?.types.includes("Files")) return;
  event.preventDefault();
  isDropping.value = true;
});
addEventListener("dragleave", ({ relatedTarget }) => {
  if (relatedTarget === null) isDropping.value = false;
});
addEventListener("drop", (event) => {
  isDropping.value = false;
  if (!event.dataTransfer?.types.includes("Files")) return;
  // The browser would open them in place of the page.
  event.preventDefault();
  // They are gone when the event ends.
  const entries = [...event.dataTransfer.items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  void attempt(async () => (await import("../recipe/take.js")).take(entries));
});

export function App() {
  const { view: View, next } = VIEWS[shown.value];
  const { base = null, experts = [], recipe = null } = settings.value ?? {};
  const isReady =
    experts.length > 0 && (shown.value === "models" || shown.value === "changes" ? base : recipe) !== null;
  useEffect(follow, [connections.value]);
  useEffect(() => {
    // The server may be gone when they are opened.
    for (const view of [Changes, Try, Write, Experiments, Verbs]) void view.load();
  }, []);
  useEffect(() => {
    // On a phone the views are wider than the window.
    document.querySelector(".views [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [shown.value]);
  const running = jobs.value.filter(({ state }) => state === "running").length;
  return (
    <>
      <Button text="Skip to the content" class="skip" onClick={() => document.getElementById("main")?.focus()} />
      <header class="bar">
        <a class="brand" href="#/models">
          <img src="/icon.svg" alt="" width={22} height={22} />
          <span>
            layergraft <span class="soft">studio</span>
          </span>
        </a>
        <nav class="views" aria-label="Views">
          {Object.entries(VIEWS).map(([name, { label }]) => (
            <a key={name} href={`#/${name}`} aria-current={shown.value === name ? "page" : undefined}>
              {label}
              {name === "jobs" && running > 0 ? (
                <span class="count">
                  {running}
                  <span class="visually-hidden"> running</span>
                </span>
              ) : null}
            </a>
          ))}
        </nav>
        <div class="folder" title={project.value?.folder}>
          <bdi>{project.value?.folder}</bdi>
        </div>
        <Button text="?" class="quiet" aria-label="Keys" onClick={() => (listsKeys.value = true)} />
      </header>
      <div class="said" role="status" aria-live="polite">
        <Cautions texts={isConnected.value ? [] : [OFFLINE]} />
        <Unsaved />
        {trouble.value === null ? null : (
          <Notice kind="problem" text={trouble.value.message}>
            <Button text="Dismiss" onClick={() => (trouble.value = null)} />
          </Notice>
        )}
      </div>
      {isDropping.value ? (
        <div class="drop">Drop a recipe, a mergekit configuration, a task with its data, or results</div>
      ) : null}
      {listsKeys.value ? <KeysDialog onClose={() => (listsKeys.value = false)} /> : null}
      <main id="main" tabIndex={-1}>
        {project.value ? (
          <>
            <View key={connections.value} />
            {shown.value === "models" && base === null && experts.length === 0 ? (
              <Steps />
            ) : next && isReady ? (
              <nav class="row next" aria-label="Next step">
                <a class="button primary" href={`#/${next[0]}`}>
                  {next[1]}
                </a>
              </nav>
            ) : null}
          </>
        ) : trouble.value === null ? (
          <p class="soft">Loading…</p>
        ) : null}
      </main>
    </>
  );
}

/** The way from models to a result, for a project that has none yet. */
const Steps = () => (
  <ol class="steps-ahead">
    {Object.values(VIEWS).flatMap(({ label, next }, i) =>
      i < 4 && next ? (
        <li key={label}>
          {next[1]}
          <span class="about">{VIEWS[next[0]].label}</span>
        </li>
      ) : (
        []
      ),
    )}
  </ol>
);

/** Lists the keys. */
function KeysDialog({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      {PLACES.map(([place, actions]) => (
        <section key={place} class="stack tight" aria-label={place}>
          <h3>{place}</h3>
          <dl class="keys">
            {Object.values(actions).map(({ chords, does }) => (
              <div key={does}>
                <dt>
                  {chords.map((chord) => (
                    <kbd key={chord}>{chordText(chord)}</kbd>
                  ))}
                </dt>
                <dd>{does}</dd>
              </div>
            ))}
          </dl>
        </section>
      ))}
    </Dialog>
  );
}
