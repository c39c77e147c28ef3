// A small task, written in the page: questions with their answers, or with choices.
import { useState } from "preact/hooks";
import { call } from "../client.js";
import { nameProblem } from "../names.js";
import { Button, Dialog, Either } from "./basics.js";
import { TextField } from "./inputs.js";

interface WrittenItem {
  readonly question: string;
  readonly answer: string;
  /** Wrong choices, one a line. */
  readonly wrong: string;
}
const EMPTY: WrittenItem = { question: "", answer: "", wrong: "" };
const linesOf = (text: string) => text.split("\n").flatMap((line) => line.trim() || []);

interface Props {
  readonly onClose: () => void;
  /** Called with the path of the task. */
  readonly onMade: (task: string) => void;
}

export function WriteTask({ onClose, onMade }: Props) {
  const [name, setName] = useState("my-task");
  const [hasChoices, setChoices] = useState(false);
  const [rows, setRows] = useState<readonly WrittenItem[]>([EMPTY, EMPTY]);
  const [problem, setProblem] = useState<string>();
  const written = rows.filter(({ question }) => question.trim() !== "");
  const isWhole = written.every(({ answer, wrong }) => answer.trim() && (!hasChoices || linesOf(wrong).length > 0));
  const set = (at: number, change: Partial<WrittenItem>) =>
    setRows(rows.with(at, { ...(rows[at] ?? EMPTY), ...change }));
  const make = () => {
    const declared = hasChoices
      ? { answer: "choose", prompt: "{question}\nAnswer:", choices: "choices", correct: "{correct}" }
      : { answer: "generate", prompt: "{question}\nAnswer:", gold: "{answer}" };
    // Values in quotation marks are JSON, which YAML is, too.
    const lines = Object.entries({ task: name, data: `${name}.jsonl`, ...declared }).map(
      ([key, value]) => `${key}: ${JSON.stringify(value)}\n`,
    );
    const data = written.map(({ question, answer, wrong }, i) => {
      if (!hasChoices) return { question: question.trim(), answer: answer.trim() };
      // The right one is not always at the same place.
      const choices = linesOf(wrong);
      const correct = i % (choices.length + 1);
      return { question: question.trim(), choices: choices.toSpliced(correct, 0, answer.trim()), correct };
    });
    const files = [
      { name: `${name}.yaml`, text: lines.join("") },
      { name: `${name}.jsonl`, text: data.map((row) => `${JSON.stringify(row)}\n`).join("") },
    ];
    call("take", { kind: "task", name, files }).then(
      ({ path }) => onMade(path),
      (error: Error) => setProblem(error.message),
    );
  };
  const field = (at: number, key: keyof WrittenItem, label: string) => (
    <textarea
      rows={2}
      {...{ maxLength: 20_000, "aria-label": `${label} ${at + 1}`, placeholder: label, value: rows[at]?.[key] ?? "" }}
      onInput={({ currentTarget }) => set(at, { [key]: currentTarget.value })}
    />
  );
  return (
    <Dialog
      title="Write a small task"
      onClose={onClose}
      footer={
        <Button
          text="Add the task"
          class="primary"
          disabled={written.length === 0 || !isWhole || nameProblem(name, []) !== undefined}
          onClick={make}
        />
      }
    >
      <div class="stack">
        <TextField {...{ label: "Name", value: name, onChange: setName, error: problem ?? nameProblem(name, []) }} />
        <Either label="Kind of answer" texts={["Written answer", "Choices"]} value={hasChoices} onChange={setChoices} />
        {rows.map((_, at) => (
          <div key={at} class={hasChoices ? "task-row three" : "task-row"}>
            {field(at, "question", "Question")}
            {field(at, "answer", "Right answer")}
            {hasChoices ? field(at, "wrong", "Wrong choices, one a line") : null}
          </div>
        ))}
        <div class="row">
          <Button text="Add a row" onClick={() => setRows([...rows, EMPTY])} />
          <span class="soft">{written.length} items. Intervals are wide below a hundred.</span>
        </div>
      </div>
    </Dialog>
  );
}
