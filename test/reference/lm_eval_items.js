// Prints what layergraft asks in a task, and how it reads and judges given answers; check_lm_eval_prompts.py compares.
// Standard input: { task, protocol, shots, folder, answers }.
import { text } from "node:stream/consumers";
import { openTasks } from "#evaluate/tasks";

const { task: name, protocol, shots, folder, answers } = JSON.parse(await text(process.stdin));
const [task] = await openTasks([name], { protocols: [protocol], shots });
if (!task) throw new Error(`no task ${name}`);
const { items } = await task.load({ folder });
const printed = [];
for (const [i, item] of items.slice(0, answers.length).entries()) {
  const { prompt } = item;
  const asked = prompt.form === "text" ? prompt.shared + prompt.own : prompt.messages;
  const answered = answers[i].replaceAll("N", item.gold);
  const reading = item.kind === "generate" ? task.read(item, answered) : {};
  const verdict = item.kind === "generate" ? await task.score(item, reading) : {};
  printed.push({ ...item, asked, answered, reading, verdict });
}
console.log(JSON.stringify(printed));
