// Which fields of the verbs a page has.
import { expect, it } from "vitest";
import { VERBS as LISTED } from "./all.js";
import { formGroups, refuseCode } from "./form.js";
import { verbFields } from "./verb.js";

const VERBS = await Promise.all(LISTED.map(({ load }) => load()));

const formed = (name: string) => {
  const verb = VERBS.find((one) => one.name === name);
  return verb ? formGroups(verb) : [];
};
const shown = (name: string) => formed(name).flatMap(({ title, fields }) => (title === "" ? fields : []));

it("forms have every field once, but none that runs code", () => {
  const codes = VERBS.flatMap((verb) => {
    const names = formGroups(verb).flatMap(({ fields }) => fields.map(({ name }) => name));
    expect(new Set(names).size).toBe(names.length);
    const left = verbFields({ schema: verb.schema }).filter(({ name }) => !names.includes(name));
    return left.map(({ name }) => `${verb.name} ${name}`);
  });
  expect(codes).toEqual([
    "merge allowCode",
    "verify allowCode",
    "eval allowCode",
    "eval unsafeCode",
    "eval python",
    "eval codeTimeout",
  ]);
});

it("what is marked are all fields that allow code", () => {
  const fields = VERBS.flatMap((verb) => verbFields({ schema: verb.schema }));
  expect(fields.filter(({ name, runsCode }) => /code/i.test(name) && runsCode === undefined)).toEqual([]);
});

it("shows what is required and what is chosen often", () => {
  const names = (name: string) => shown(name).map((field) => field.name);
  expect(names("eval")).toEqual(["source", "tasks", "limit"]);
  expect(names("merge")).toEqual(["recipe", "out"]);
  expect(names("extract")).toEqual(["base", "model", "out"]);
  expect(formed("generate").map(({ title }) => title)).toEqual(["", "Prompt", "Sampling", "Engine"]);
});

it("refuses a backend that starts a command, and no other", () => {
  const verb = VERBS.find(({ name }) => name === "eval");
  if (!verb) throw new Error("no eval");
  const input = { source: "m", tasks: ["t"] };
  for (const backend of ["engine", "llama", "openai:http://127.0.0.1:8000/v1"]) refuseCode(verb, { ...input, backend });
  for (const backend of ["serve:rm -rf /", "serve rm"]) {
    expect(() => refuseCode(verb, { ...input, backend })).toThrow(/^backend runs code/);
  }
});
