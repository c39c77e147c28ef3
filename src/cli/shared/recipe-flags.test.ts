import { Command } from "commander";
import { describe, expect, it } from "vitest";
import { CancelledError } from "../../kit/index.js";
import { methodReferences } from "../../merge/index.js";
import { revertVerb, soupVerb, swapVerb } from "../../verbs/shared/index.js";
import { verbCommand } from "./verb-command.js";

/** What the verb of a method takes from a command line. */
async function parse(verb: typeof swapVerb, args: readonly string[]): Promise<object> {
  let taken: object = {};
  const command = new Command("test").exitOverride().configureOutput({ writeErr: () => undefined });
  const run = async (input: object) => {
    taken = input;
    throw new CancelledError("taken");
  };
  verbCommand({ ...verb, run })(command);
  for (const one of command.commands) one.exitOverride().configureOutput({ writeErr: () => undefined });
  await command.parseAsync([verb.name, "--out", "o", ...args], { from: "user" }).catch((error: unknown) => {
    if (!(error instanceof CancelledError)) throw error;
  });
  return taken;
}

describe("recipe flags", () => {
  it.each([
    [["--bottom", "3", "--bottom-transition", "1"], { bottom: 3, bottom_transition: 1 }],
    [["--average", "2-4"], { layers: { average: "2-4" } }],
    [["--weights", "1,2"], { weights: [1, 2] }],
    [["--weights", "[0.5, 2]"], { weights: [0.5, 2] }],
    [["--weights", "magnitude"], { weights: "magnitude" }],
    [["--parts", "q_proj, k_proj"], { parts: ["q_proj", "k_proj"] }],
    [["--parts", "attention", "--outside", "task"], { parts: "attention", outside: "task" }],
    [["--tensor-intersection", "--allow-nonfinite"], { tensors: "intersection", allowNonFinite: true }],
    [["--eval", "a.yaml,b", "--limit", "3"], { eval: ["a.yaml", "b"], limit: 3 }],
  ])("of swap, %j", async (args, fields) => {
    // A folder may be called by a number.
    const taken = await parse(swapVerb, ["--task", "7", "--language", "l", ...args]);
    expect(taken).toEqual({ out: "o", task: "7", language: "l", ...fields });
  });

  it("of soup: a number after the last = is a weight", async () => {
    const { models } = (await parse(soupVerb, ["--model", "a=b=0.5", "--model", "c=d"])) as { models: unknown };
    expect(models).toEqual([{ model: "a=b", weight: 0.5 }, { model: "c=d" }]);
    await expect(parse(soupVerb, ["--model", "a="])).rejects.toThrow("It must be SOURCE or SOURCE=WEIGHT.");
  });

  it("of revert: layers stay text, and a switch takes no value", async () => {
    const args = ["--layers", "3", "--rows-below", "1e-3", "--from", "top", "--keep"];
    const taken = await parse(revertVerb, ["--expert", "e", "--base", "b", ...args]);
    expect(taken).toMatchObject({ layers: "3", rows_below: 0.001, from: "top", keep: true });
  });

  it.each([
    [["--bottom", "x"], "argument 'x' is invalid. It must be a whole number."],
    [["--bottom", "-1"], "argument '-1' is invalid. It must not be negative."],
    [["--weights", "1,2,3"], "argument '1,2,3' is invalid. It must be equal, magnitude, or two weights"],
    [["--outside", "base"], "argument 'base' is invalid. Allowed choices are average, task, language."],
    [[], "required option '--task <source>' not specified"],
  ])("refuse %j as a recipe would", async (args, message) => {
    const given = args.length > 0 ? ["--task", "a", "--language", "b", ...args] : [];
    await expect(parse(swapVerb, given)).rejects.toThrow(message);
  });

  it("say what the schema says", () => {
    const program = new Command("test");
    verbCommand(swapVerb)(program);
    const [command] = program.commands;
    const { fields = [] } = methodReferences().find(({ name }) => name === "swap") ?? {};
    const described = command?.options.map(({ long, description }) => [long, description]);
    for (const name of ["task", "bottom", "weights", "outside", "parts"]) {
      const { description = "" } = fields.find((field) => field.name === name) ?? {};
      expect(described).toContainEqual([`--${name}`, description.replaceAll("`", "")]);
    }
  });
});
