import { Command } from "commander";
import { describe, expect, it } from "vitest";
import { methodOf, methodReferences } from "../../merge/index.js";
import { addRecipeFlags, recipeFields } from "./recipe-flags.js";

const SWAP = {
  "Models:": ["task"],
  "Layers:": ["bottom", "bottom_transition", ["average", "layers.average"], "weights", "outside", "parts"],
} as const;
const REVERT = { "Selection:": ["layers", "rows_below", "from", "keep"] } as const;

function parse(method: string, flags: typeof SWAP | typeof REVERT, args: readonly string[]) {
  const command = new Command("test").exitOverride().configureOutput({ writeErr: () => undefined });
  addRecipeFlags(command, methodOf({ method }).schema, flags);
  command.parse(args, { from: "user" });
  return recipeFields(flags, command.opts());
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
  ])("of swap, %j", (args, fields) => {
    // A folder may be called by a number.
    expect(parse("swap", SWAP, ["--task", "7", ...args])).toEqual({ task: "7", ...fields });
  });

  it("of revert: layers stay text, and a switch takes no value", () => {
    const args = ["--layers", "3", "--rows-below", "1e-3", "--from", "top", "--keep"];
    expect(parse("revert", REVERT, args)).toEqual({ layers: "3", rows_below: 0.001, from: "top", keep: true });
  });

  it("keep the order of fields that have defaults, which a plan's digest is made of", () => {
    const fields = parse("swap", SWAP, ["--parts", "mlp", "--task", "a"]);
    expect(Object.keys(fields)).toEqual([
      "task",
      "bottom",
      "bottom_transition",
      "layers",
      "weights",
      "outside",
      "parts",
    ]);
  });

  it.each([
    [["--bottom", "x"], "argument 'x' is invalid. It must be a whole number."],
    [["--bottom", "-1"], "argument '-1' is invalid. It must not be negative."],
    [["--weights", "1,2,3"], "argument '1,2,3' is invalid. It must be equal, magnitude, or two weights"],
    [["--outside", "base"], "argument 'base' is invalid. Allowed choices are average, task, language."],
    [[], "required option '--task <source>' not specified"],
  ])("refuse %j as a recipe would", (args, message) => {
    expect(() => parse("swap", SWAP, args.length > 0 ? ["--task", "a", ...args] : [])).toThrow(message);
  });

  it("say what the schema says", () => {
    const command = new Command("test");
    addRecipeFlags(command, methodOf({ method: "swap" }).schema, SWAP);
    const { fields = [] } = methodReferences().find(({ name }) => name === "swap") ?? {};
    const described = command.options.map(({ long, description }) => [long, description]);
    for (const name of ["task", "bottom", "weights", "outside", "parts"]) {
      const { description = "" } = fields.find((field) => field.name === name) ?? {};
      expect(described).toContainEqual([`--${name}`, description.replaceAll("`", "")]);
    }
  });
});
