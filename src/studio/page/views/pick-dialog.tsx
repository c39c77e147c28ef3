// Chooses models: from folders of this machine, or by a name on the hub.
import { signal } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Output } from "../../protocol/index.js";
import { call } from "../client.js";
import { Button, Dialog, Field, Form, Icon } from "../components/basics.js";
import { pathsIn } from "../names.js";
import { settings } from "../store.js";

interface Props {
  readonly what: "base" | "experts";
  /** Of a base, what follows it are experts. */
  readonly onPick: (sources: readonly string[]) => Promise<void>;
  readonly onClose: () => void;
}

/** The folder that was shown last; null is the project's. */
const shown = signal<string | null>(null);

export function PickDialog({ what, onPick, onClose }: Props) {
  const isBase = what === "base";
  return (
    <Dialog
      title={isBase ? "Choose the base" : "Add experts"}
      onClose={onClose}
      footer={isBase ? undefined : <Button text="Done" class="primary" onClick={onClose} />}
    >
      <Folders what={what} onPick={onPick} />
    </Dialog>
  );
}

type Listing = Output<"browse">;
/** What is no path of this machine: a name on the hub, or a model with its adapter. */
const isName = (text: string) => /^[\w.-]+\/[\w.-]+$/.test(text) || text.includes("+");

function Folders({ what, onPick }: Omit<Props, "onClose">) {
  const [listing, setListing] = useState<Listing | null>(null);
  const [problem, setProblem] = useState<string>();
  const [typed, setTyped] = useState("");
  const requests = useRef(0);
  const edits = useRef(0);
  const field = useRef<HTMLInputElement>(null);
  const [taken, setTaken] = useState("");
  /** A later request, and what is typed meanwhile, stay as they are. */
  const open = async (folder: string | null) => {
    const request = ++requests.current;
    const edit = edits.current;
    const found = await call("browse", { folder }).catch((error: Error) => error);
    if (request !== requests.current) return;
    if (found instanceof Error) return setProblem(found.message);
    // Text that appears in a field which someone is about to fill would be part of what is typed.
    show(found, document.activeElement === field.current ? -1 : edit);
  };
  const show = (found: Listing, edit: number) => {
    shown.value = found.folder;
    setListing(found);
    if (edit === edits.current) setTyped(found.folder);
    setProblem(undefined);
  };
  /** Takes what is a model, and lists what is a folder of models. */
  const take = async (paths: readonly string[]) => {
    const request = ++requests.current;
    const edit = edits.current;
    // At once: the answer of a busy machine may take a second.
    setTaken(paths.length === 1 ? `Opening ${paths[0]}…` : `Opening ${paths.length} models…`);
    const found = await Promise.all(
      paths.map((one) => call("browse", { folder: one }).catch((error: Error) => (isName(one) ? one : error))),
    );
    if (request !== requests.current) return;
    setTaken("");
    let of = what === "base" ? null : base;
    const sources: string[] = [];
    for (const one of found) {
      if (one instanceof Error) return setProblem(one.message);
      if (typeof one !== "string") {
        show(one, edit);
        if (one.kind === "folder") continue;
        const blocked = blockedBy(one.kind, of === null ? what : "experts", of);
        if (blocked !== undefined) return setProblem(`${one.path}: ${blocked}`);
      }
      const source = typeof one === "string" ? one : one.kind === "adapter" ? `${of}+${one.path}` : one.path;
      of ??= source;
      sources.push(source);
    }
    if (sources.length > 0) await pick(sources);
  };
  const pick = async (sources: readonly string[]) => {
    setProblem(undefined);
    setTaken(sources.length === 1 ? `Added ${sources[0]}.` : `Added ${sources.length} models.`);
    await onPick(sources);
  };
  const base = settings.value?.base ?? null;
  // Experts are often beside their base.
  const beside = base === null || !/^([/~]|[A-Z]:)/.test(base) ? null : base.replace(/[/\\][^/\\]*$/, "") || null;
  useEffect(() => {
    void open(shown.value ?? beside).then(async () => {
      if (shown.value === null && requests.current === 1) await open(null);
    });
  }, []);
  const entries = listing?.entries ?? [];
  const pathOf = (name: string) => `${listing?.folder.replace(/\/$/, "")}/${name}`;
  return (
    <div class="stack">
      <Form onSubmit={() => void take(pathsIn(field.current?.value ?? ""))}>
        <Field
          label="Folder, FOLDER+ADAPTER, or name on the Hugging Face hub"
          hint={`Enter takes a model and lists a folder. ${what === "base" ? "Paste several paths at once: the first is the base, the others are experts." : "Paste several paths at once to add them all."} Weights of a model on the hub are read over the network when something needs them.`}
          error={problem}
        >
          {(attributes) => (
            <span class="row nowrap">
              <Button
                icon="up"
                class="icon-only"
                aria-label="Folder above"
                disabled={!listing?.parent}
                onClick={() => listing?.parent && open(listing.parent)}
              />
              <input
                {...attributes}
                ref={field}
                class="code"
                spellcheck={false}
                value={typed}
                onInput={({ currentTarget }) => {
                  edits.current++;
                  setTyped(currentTarget.value);
                }}
                onPaste={(event) => {
                  const paths = pathsIn(event.clipboardData?.getData("text/plain") ?? "");
                  if (paths.length < 2) return;
                  event.preventDefault();
                  void take(paths);
                }}
              />
              <Button text="Open" type="submit" />
              <Button
                text={what === "base" ? "Choose" : "Add"}
                disabled={typed.trim() === ""}
                onClick={() => pick(pathsIn(typed))}
              />
            </span>
          )}
        </Field>
      </Form>
      <p class="small soft" role="status">
        {taken}
      </p>
      {listing && entries.length === 0 ? <p class="soft">There is no model and no folder in here.</p> : null}
      <ul class="entries" aria-label={`Models and folders in ${listing?.folder ?? ""}`}>
        {entries.map(({ name, kind }) =>
          kind === "folder" ? (
            <li key={name}>
              <button type="button" class="quiet entry" onClick={() => open(pathOf(name))}>
                <Icon name="folder" />
                <span>{name}</span>
              </button>
            </li>
          ) : (
            <Entry
              key={name}
              {...{ kind, label: name, what, onPick, blocked: blockedBy(kind, what, base) }}
              source={kind === "adapter" ? `${base ?? ""}+${pathOf(name)}` : pathOf(name)}
            />
          ),
        )}
      </ul>
    </div>
  );
}

interface EntryProps extends Omit<Props, "onClose"> {
  readonly kind: "model" | "adapter" | "onnx";
  readonly label: string;
  readonly source: string;
  /** Why it cannot be taken, and what to do. */
  readonly blocked?: string | undefined;
}

function blockedBy(kind: string, what: Props["what"], base: string | null): string | undefined {
  if (kind === "onnx") return "runs in transformers.js; take the model that it was exported from";
  if (kind !== "adapter") return undefined;
  if (what === "base") return "choose the model that it was trained on, then add it as an expert";
  return base === null ? "choose the base first" : undefined;
}

function Entry({ kind, label, source, blocked, what, onPick }: EntryProps) {
  const isAdded = what === "experts" && settings.value?.experts.some((expert) => expert.source === source);
  const isBase = what === "experts" && settings.value?.base === source;
  const verb = what === "base" ? "Choose" : "Add";
  return (
    <li class="entry">
      <Icon name="model" />
      <span>
        {label}
        {blocked === undefined ? null : <span class="about">{blocked}</span>}
      </span>
      {kind === "model" ? null : <span class="chip">{kind === "onnx" ? "ONNX export" : "adapter"}</span>}
      {isAdded ? (
        <span class="chip">
          <Icon name="check" /> added
        </span>
      ) : isBase ? (
        <span class="chip">the base</span>
      ) : blocked !== undefined ? null : (
        <Button text={verb} aria-label={`${verb} ${label}`} onClick={() => onPick([source])} />
      )}
    </li>
  );
}
