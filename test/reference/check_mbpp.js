// Runs the reference solutions of MBPP's test split in the sandbox, under both forms of its tests, and names those that
// do not pass. Not part of `npm test`; executes the data set's programs. After a build, with a folder that has mbpp.jsonl:
//     node test/reference/check_mbpp.js DIR
import { openSandbox } from "#evaluate";
import { openTasks } from "#evaluate/tasks";

/** 367 needs the setup code of its tests, which lm-eval does not run. */
const KNOWN = { "layergraft/mbpp": [], "lm-eval/mbpp": ["367"] };
/** 123 computes for one to three seconds, beyond the usual bound on a slow machine; here it is rightness that is checked. */
const SECONDS = 30;

const [folder = ""] = process.argv.slice(2);
const sandbox = await openSandbox({ allowCode: true, seconds: SECONDS });
let unexpected = 0;
for (const [protocol, known] of Object.entries(KNOWN)) {
  const [task] = await openTasks(["mbpp"], { protocols: [protocol] });
  const { items = [] } = (await task?.load({ folder })) ?? {};
  const failed = [];
  for (const item of items) {
    const tests = "tests" in item ? (item.tests ?? []) : [];
    const { outcome, detail } = await sandbox.run([{ name: "program", source: item.gold }, ...tests], {
      reference: item.gold,
    });
    if (outcome !== "passed") failed.push([item.id, outcome, detail]);
  }
  console.log(`${protocol}: ${items.length - failed.length} of ${items.length} pass`);
  for (const [id, outcome, detail] of failed) console.log(`  ${id}: ${outcome}, ${detail}`);
  unexpected += failed.filter(([id]) => !(/** @type {string[]} */ (known).includes(String(id)))).length;
}
process.exitCode = unexpected > 0 ? 1 : 0;
