// Held-out loss of a base with the adapters extracted from its fine-tune, by rank.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";

/**
 * @param {string[]} args --base FOLDER --model FOLDER --rows FILE, a JSON object with prompt and response on each line
 */
export async function benchmarkRanks(args) {
  const { extract, openModel } = await import("../dist/index.js");
  const { values } = parseArgs({
    args,
    options: { base: { type: "string" }, model: { type: "string" }, rows: { type: "string" } },
  });
  const { base, model, rows: file } = values;
  if (!base || !model || !file) throw new Error("give --base, --model and --rows");
  const rows = readFileSync(file, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

  /** Mean loss of a response's token, in nats. @param {string} source */
  const lossOf = async (source) => {
    const opened = await openModel(source);
    let [sum, tokens] = [0, 0];
    try {
      for (const { prompt, response } of rows) {
        const { logprob, tokenLogprobs } = await opened.score(` ${response}`, { context: prompt });
        sum -= logprob;
        tokens += tokenLogprobs.length;
      }
    } finally {
      await opened.close();
    }
    return sum / tokens;
  };
  const folder = mkdtempSync(join(tmpdir(), "layergraft-ranks-"));
  try {
    console.log(`${rows.length} held-out rows\n`);
    console.log("| adapter | size | share of the squared change | held-out loss |\n| --- | --- | --- | --- |");
    /** @param {string} name @param {number} bytes @param {number} share @param {string} source */
    const line = async (name, bytes, share, source) => {
      const loss = (await lossOf(source)).toFixed(4);
      console.log(`| ${name} | ${(bytes / 1e3).toFixed(0)} kB | ${(100 * share).toFixed(1)}% | ${loss} |`);
    };
    await line("none (base)", 0, 0, base);
    for (const linearOnly of [true, false]) {
      for (let rank = 1, full = rank + 1; rank <= full; rank = rank === full ? full + 1 : Math.min(2 * rank, full)) {
        const out = join(folder, `rank-${rank}`);
        const { bytes, total, modules } = await extract({ base, model, out, rank, linearOnly }, { force: true });
        full = Math.max(...modules.map(({ shape }) => Math.min(...shape)));
        const kind = linearOnly ? "linear weights" : "everything";
        await line(`rank ${rank}, ${kind}`, bytes, total.shares.at(-1) ?? 0, `${base}+${out}`);
      }
    }
    await line("all (fine-tune)", 0, 1, model);
  } finally {
    rmSync(folder, { recursive: true });
  }
}
