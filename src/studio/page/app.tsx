import { signal } from "@preact/signals";
import { isConnected, jobs, project, trouble } from "./store.ts";
import { Changes } from "./views/changes.tsx";
import { Jobs } from "./views/jobs.tsx";
import { Models } from "./views/models.tsx";

const VIEWS = {
  models: { label: "Models", view: Models },
  changes: { label: "Changes", view: Changes },
  jobs: { label: "Activity", view: Jobs },
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

export function App() {
  const { view: View } = VIEWS[shown.value];
  const running = jobs.value.filter(({ state }) => state === "running").length;
  return (
    <>
      <header class="bar">
        <a class="brand" href="#/models">
          <span class="mark" aria-hidden="true" />
          layergraft <span class="soft">studio</span>
        </a>
        <nav aria-label="Views">
          {Object.entries(VIEWS).map(([name, { label }]) => (
            <a key={name} href={`#/${name}`} aria-current={shown.value === name ? "page" : undefined}>
              {label}
              {name === "jobs" && running > 0 ? <span class="count"> {running}</span> : null}
            </a>
          ))}
        </nav>
      </header>
      <div role="status" aria-live="polite">
        {isConnected.value ? null : (
          <p class="banner">
            The server does not answer. Start it again with layergraft studio; this page goes on by itself.
          </p>
        )}
        {trouble.value === null ? null : (
          <p class="banner">
            {trouble.value}{" "}
            <button type="button" class="quiet" onClick={() => (trouble.value = null)}>
              Dismiss
            </button>
          </p>
        )}
      </div>
      <main id="main">{project.value ? <View /> : <p class="soft">Loading…</p>}</main>
    </>
  );
}
