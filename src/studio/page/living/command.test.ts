// The command below the board is taken as it stands, for the layers that the board shows.
import { expect, it } from "vitest";
import { buildProgram } from "../../../cli/command-line.js";
import { layerRanges } from "../../../merge/layer-owner.js";
import { commandOf, LANGUAGE, LAYERS, layersOf, START } from "./command.js";

/** The layers that the flags of a swap take of the language expert. */
function taken({ bottom, top, layers }: Readonly<Record<string, unknown>>): number[] {
  const all = [...Array(LAYERS).keys()];
  if (layers === undefined) return all.filter((layer) => layer < Number(bottom) || layer >= LAYERS - Number(top));
  const ranges = layerRanges(layers, LAYERS) ?? [];
  return all.filter((layer) => ranges.some(([first, last]) => layer >= first && layer <= last));
}

it("is of every swap that can be clicked", async () => {
  const owners = { attention: [LANGUAGE ?? ""], mlp: [LANGUAGE ?? ""] };
  for (let index = 0; index < 2 ** LAYERS; index++) {
    const layers = [...Array(LAYERS).keys()].filter((layer) => (index >> layer) & 1);
    const board = { ...START, rows: START.rows.map((row, layer) => (layers.includes(layer) ? owners : row)) };
    expect(layersOf(board)).toEqual(layers);
    const [name, ...words] = commandOf(board).split(/[ \\\n]+/);
    expect(name).toBe("layergraft");
    const program = await buildProgram("swap", true);
    let given: Readonly<Record<string, unknown>> = {};
    program.commands
      .find((one) => one.name() === "swap")
      ?.action((flags) => {
        given = flags;
      });
    await program.parseAsync(words, { from: "user" });
    expect(given).toMatchObject({ task: "math-expert", language: "swahili-expert", out: "merged" });
    expect([index, ...taken(given)]).toEqual([index, ...layers]);
  }
});
