import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { checkData } from "../../train/data/index.js";
import { firstRowsErrors } from "./first-rows.js";

const folder = mkdtempSync(join(tmpdir(), "layergraft-rows-"));
afterAll(() => rmSync(folder, { recursive: true }));
const rows = [
  { problem: "a", gold: 3 },
  { problem: "b", gold: 4 },
];
writeFileSync(join(folder, "rows.jsonl"), rows.map((row) => `${JSON.stringify(row)}\n`).join(""));

async function errorsOf(set: object) {
  const data = checkData({ source: "rows.jsonl", map: { prompt: "problem", response: "gold" }, ...set });
  return (await firstRowsErrors(data, { folder })).map(({ message }) => message.replaceAll(folder, "DATA"));
}

it("reports missing columns of maps, templates and filters", async () => {
  expect(await errorsOf({})).toEqual([]);
  expect(await errorsOf({ map: { prompt: "{problem} [solve] :", response: "the answer is {gold} ." } })).toEqual([]);
  const none = (name: string) => `rows.jsonl: DATA/rows.jsonl has no column ${name}; it has problem, gold`;
  expect(await errorsOf({ map: { prompt: "problem", response: "[solve]" } })).toEqual([none("[solve]")]);
  expect(await errorsOf({ map: { prompt: "{question}", response: "{golden}" } })).toEqual([none("question or golden")]);
  expect(await errorsOf({ filter: [{ column: "language", equals: "sw" }] })).toEqual([none("language")]);
});

it("skips data that is not on this machine", async () => {
  expect(await errorsOf({ source: "elsewhere/set" })).toEqual([]);
});

it("checks each set of a mixture", async () => {
  const set = (response: string) => ({ source: "rows.jsonl", map: { prompt: "problem", response } });
  const errors = await firstRowsErrors(checkData({ sets: [set("gold"), set("lost"), set("gone")] }), { folder });
  expect(errors.map(({ message }) => /no column (\w+)/.exec(message)?.[1])).toEqual(["lost", "gone"]);
});
