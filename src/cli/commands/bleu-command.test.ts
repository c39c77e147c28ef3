// layergraft bleu: what it prints for files, beside sacreBLEU's scores of the same lines.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Command } from "commander";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import { addBleuCommand } from "./bleu-command.js";

const FIXTURES = new URL("../../../test/fixtures/evaluation/", import.meta.url);
const corpora = JSON.parse(readFileSync(new URL("bleu/corpora.json", FIXTURES), "utf8")) as {
  language: string;
  hypotheses: string[];
  references: string[];
  bleu: { tokenize: string; score: number; signature: string }[];
  chrf: { score: number; name: string; signature: string }[];
}[];

const root = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(root, { recursive: true, force: true }));
afterEach(() => vi.restoreAllMocks());

function write(name: string, lines: readonly string[]): string {
  const file = join(root, name);
  writeFileSync(file, `${lines.join("\n")}\n`);
  return file;
}

async function run(...args: string[]): Promise<string> {
  let output = "";
  vi.spyOn(process.stdout, "write").mockImplementation((text) => {
    output += String(text);
    return true;
  });
  const program = new Command("layergraft").exitOverride().configureOutput({ writeErr: () => undefined });
  addBleuCommand(program);
  for (const command of program.commands) command.exitOverride();
  await program.parseAsync(["node", "layergraft", "bleu", ...args]);
  return output;
}

describe("layergraft bleu", () => {
  it("gives sacreBLEU's scores as JSON", async () => {
    for (const { language, hypotheses, references, bleu, chrf } of corpora) {
      const files = [write(`${language}.hyp`, hypotheses), write(`${language}.ref`, references)];
      for (const { tokenize, score, signature } of bleu) {
        const found = JSON.parse(await run(...files, "--tokenize", tokenize, "--json", "--chrf")) as {
          score: number;
          signature: string;
          chrf: { score: number; name: string; signature: string };
        };
        expect(found.score, `${language} ${tokenize}`).toBeCloseTo(score, 9);
        expect(found.signature).toBe(signature);
        expect(found.chrf.score).toBeCloseTo(chrf[1]?.score ?? Number.NaN, 9);
        expect(found.chrf).toMatchObject({ name: "chrF2++", signature: chrf[1]?.signature });
      }
    }
  });

  it("prints the line that sacreBLEU prints", async () => {
    // 5 of 7 words, 3 of 6 pairs, 1 of 5 triples, none of 4 fours, halved to 100 / 8; the geometric mean of the four.
    const [hypothesis, reference] = [write("h", ["the cat the cat on the mat"]), write("r", ["the cat is on the mat"])];
    expect(await run(hypothesis, reference, "--chrf")).toMatch(
      /^BLEU\|nrefs:1\|case:mixed\|eff:no\|tok:13a\|smooth:exp\|version:2\.6\.0 = 30\.74 71\.4\/50\.0\/20\.0\/12\.5 \(BP = 1\.000 ratio = 1\.167 hyp_len = 7 ref_len = 6\)\nchrF2\+\+\|nrefs:1\|case:mixed\|eff:yes\|nc:6\|nw:2\|space:no\|version:2\.6\.0 = \d\d\.\d\d\n$/,
    );
  });

  it("takes several references, options, and a model of pieces", async () => {
    const [hypothesis, one, two] = [write("h", ["A b c d e"]), write("r1", ["x y z v w"]), write("r2", ["a b c d e"])];
    const json = async (...args: string[]) =>
      JSON.parse(await run(hypothesis, ...args, "--json")) as Record<string, unknown>;
    expect(await json(one, two, "--lowercase")).toMatchObject({
      score: expect.closeTo(100, 9),
      signature: "nrefs:2|case:lc|eff:no|tok:13a|smooth:exp|version:2.6.0",
    });
    expect((await json(two, "--smoothing", "floor", "--smoothing-value", "0.5")).signature).toContain(
      "smooth:floor[0.50]",
    );
    const model = fileURLToPath(new URL("sentencepiece/bpe.model", FIXTURES));
    expect((await json(two, "--tokenize", "flores200", "--tokenizer-model", model)).signature).toContain(
      "tok:flores200",
    );
  });

  it("rejects input that cannot be scored", async () => {
    const [hypothesis, reference] = [write("h", ["a", "b"]), write("r", ["a"])];
    await expect(run(hypothesis, reference)).rejects.toThrow(/references have 1 line, the hypotheses have 2/);
    await expect(run(hypothesis, join(root, "none"))).rejects.toThrow(/none does not exist/);
    await expect(run(hypothesis, hypothesis, "--tokenize", "flores200")).rejects.toThrow(/--tokenizer-model/);
    await expect(run(hypothesis, hypothesis, "--tokenize", "13b")).rejects.toThrow(/Allowed choices are none, 13a/);
    await expect(run(hypothesis, hypothesis, "--smoothing-value", "-1")).rejects.toThrow(/0 or more/);
  });
});
