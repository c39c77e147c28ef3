// A task: one of the project's files, a built-in one, or another by name.

import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { Choices } from "../../protocol/index.js";
import { call } from "../client.js";
import { inBackground, project } from "../store.js";
import { Button, Field } from "./basics.js";
import { TextField } from "./inputs.js";
import { lazy } from "./lazy.js";

/** What can be asked; null until the server has said it. */
export const known = signal<Choices | null>(null);

/** Reads what can be asked, again whenever a view is opened or the project changes. */
export const useTasks = () =>
  useEffect(() => {
    void inBackground(async () => {
      known.value = await call("evaluation.choices", {});
    });
  }, [project.value]);

/** The choice of a task that is not listed. */
const OTHER = "";

const problemOf = (choice: string) => known.value?.files.find(({ file }) => file === choice)?.problem ?? null;

function firstTask(): string {
  const { files = [], families = [] } = known.value ?? {};
  return files.find(({ problem }) => problem === null)?.file ?? families[0]?.tasks[0] ?? OTHER;
}

function isListed(task: string): boolean {
  const { files = [], families = [] } = known.value ?? {};
  return files.some(({ file }) => file === task) || families.some(({ tasks }) => tasks.includes(task));
}

/**
 * The choice of a task: its fields, and the task, null while there is none, or if its file has a problem.
 * @param before the task that is chosen at first, if it is listed
 */
export function useTask(before?: string) {
  const [picked, pick] = useState<string | null>(null);
  const [typed, setTyped] = useState("");
  useTasks();
  const choice = picked ?? (before !== undefined && isListed(before) ? before : firstTask());
  const name =
    choice === OTHER ? (
      <TextField
        label="Name or file"
        hint="A name such as belebele_swh, or a .yaml file. Paths start from the project."
        {...{ value: typed, onChange: setTyped, isCode: true }}
      />
    ) : null;
  const task = (choice === OTHER ? typed : choice).trim();
  return {
    task: task === "" || problemOf(choice) !== null ? null : task,
    pick,
    choice: <TaskChoice value={choice} onChange={pick} />,
    name,
  };
}

interface ChoiceProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function TaskChoice({ value, onChange }: ChoiceProps) {
  const { files = [], families = [] } = known.value ?? {};
  const summary = families.find(({ tasks }) => tasks.includes(value))?.summary;
  const isBeside = (file: string) => file.startsWith("..");
  const places = {
    "Task files of this project": files.filter(({ file }) => !isBeside(file)),
    "Task files beside this project and its models": files.filter(({ file }) => isBeside(file)),
  };
  return (
    <Field label="Task" hint={summary} error={problemOf(value) ?? undefined}>
      {(attributes) => (
        <select {...attributes} value={value} onChange={({ currentTarget }) => onChange(currentTarget.value)}>
          {Object.entries(places).map(([label, listed]) => (
            <optgroup key={label} label={label} hidden={listed.length === 0}>
              {listed.map(({ file, title }) => (
                <option key={file} value={file}>
                  {title === file ? file : `${title} (${file})`}
                </option>
              ))}
            </optgroup>
          ))}
          {families.map(({ name, tasks }) => (
            <optgroup key={name} label={name}>
              {tasks.map((one) => (
                <option key={one}>{one}</option>
              ))}
            </optgroup>
          ))}
          <option value={OTHER}>Another task or file</option>
        </select>
      )}
    </Field>
  );
}

const LazyWriteTask = lazy(async () => (await import("./write-task.js")).WriteTask, <span />);

/** A button for a dialog that writes a task, which is then chosen. */
export function NewTask({ onChange }: Pick<ChoiceProps, "onChange">) {
  const [isOpen, setOpen] = useState(false);
  const onMade = (task: string) =>
    inBackground(async () => {
      known.value = await call("evaluation.choices", {});
      onChange(task);
      setOpen(false);
    });
  return (
    <>
      <Button text="Write a small task" class="quiet" onClick={() => setOpen(true)} />
      <span class="about">Or drop a task file of yours, with its data, onto this window.</span>
      {isOpen ? <LazyWriteTask {...{ onMade, onClose: () => setOpen(false) }} /> : null}
    </>
  );
}
