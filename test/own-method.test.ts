// docs/write-your-own-method.md, followed to the letter: the file and the recipe of the page, and what is refused.
// @module-tag slow
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { writeMiniature } from "../src/demo/miniature.js";
import { openPlan, planMerge, verify } from "../src/verbs/index.js";
import { temporaryFolder } from "./support/checkpoints.js";
import { layergraft } from "./support/command.js";
import { changesOf, readModel, tensorOf } from "./support/method-reference.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
const page = readFileSync(join(import.meta.dirname, "../docs/write-your-own-method.md"), "utf8");
const block = (language: string) => new RegExp(`^\`\`\`${language}\n([\\s\\S]*?)^\`\`\``, "m").exec(page)?.[1] ?? "";
const code = block("js");
const commands = block("text").trim().split("\n");
const run = (command = "") => layergraft(command.split(" ").slice(1), { cwd: root });

beforeAll(async () => {
  await writeMiniature(root);
  writeFileSync(at("agreement.js"), code);
  writeFileSync(at("agree.yaml"), block("yaml"));
});

describe("the page", () => {
  it("has a method of at most thirty lines, which merges and verifies", async () => {
    expect(code.trim().split("\n").length).toBeLessThanOrEqual(30);
    const outcomes = [];
    for (const command of commands) outcomes.push(await run(command));
    expect(outcomes.map(({ status }) => status)).toEqual(commands.map(() => 0));
    expect(outcomes.some(({ stderr }) => stderr.includes("layergraft verify agreed --allow-code"))).toBe(true);
    const [merged, base] = [await readModel(at("agreed")), await readModel(at("base"))];
    const changes = [await readModel(at("math-expert")), await readModel(at("swahili-expert"))].map((expert) =>
      changesOf(expert, base),
    );
    for (const [name, { values }] of base) {
      const [a = [], b = []] = changes.map((change) => change.get(name));
      const wanted = values.map((x, i) => {
        const [one = 0, other = 0] = [a[i], b[i]];
        return x + (Math.sign(one) === Math.sign(other) ? 0.8 * ((one + other) / 2) : 0);
      });
      const isOff = (x: number, i: number) =>
        !(Math.abs(x - (wanted[i] ?? 0)) <= 2 ** -8 * Math.abs(wanted[i] ?? 0) + 1e-9);
      expect(tensorOf(merged, name).values.findIndex(isOff), name).toBe(-1);
    }
    expect(readFileSync(at("agreed/README.md"), "utf8")).toMatch(/Method: `agreement.js`, SHA-256 `[0-9a-f]{64}`/);
  });

  it("says what happens on one thread and on several: the same bytes", { tags: ["slow"] }, async () => {
    const plan = await planMerge(at("agree.yaml"), { allowCode: true });
    for (const threads of [1, 3]) await plan.write({ out: at(`threads-${threads}`), threads });
    const bytes = [1, 3].map((threads) => readFileSync(at(`threads-${threads}`, "model.safetensors")));
    expect(bytes[0]).toEqual(bytes[1]);
    const saved = JSON.parse(JSON.stringify(plan));
    await expect(openPlan(saved)).rejects.toMatchObject({ where: { option: "allowCode" } });
    await (await openPlan(saved, { allowCode: true })).write({ out: at("saved") });
    expect(readFileSync(at("saved", "model.safetensors"))).toEqual(bytes[0]);
  });
});

describe("a method of a user", () => {
  const refused = async (text: string, message: RegExp, recipe = block("yaml")) => {
    writeFileSync(at("bad.js"), text);
    writeFileSync(at("bad.yaml"), recipe.replace("agreement", "bad"));
    const { status, stderr } = await run("layergraft merge bad.yaml --out bad --allow-code");
    expect({ status: status === 0, stderr }).toEqual({ status: false, stderr: expect.stringMatching(message) });
  };

  it("does not run unless the user says so, nor in commands that do not ask", async () => {
    writeFileSync(at("agreement.js"), `${code}\nglobalThis.ran = true;`);
    for (const command of [
      "merge agree.yaml --out no",
      "generate agree.yaml --prompt x",
      "verify agreed",
      "analyze --base base --expert m=agree.yaml",
      "extract --base base --model agree.yaml --out no",
      "suggest --base base --task agree.yaml --language swahili-expert",
    ]) {
      const { status, stderr } = await run(`layergraft ${command}`);
      expect(status).not.toBe(0);
      expect(stderr).toMatch(/agreement\.js is a program .*merge and verify run it where you allow it/);
      // Only these have the flag.
      expect(/Pass --allow-code/.test(stderr), command).toBe(/^(merge|verify)/.test(command));
    }
    expect("ran" in globalThis).toBe(false);
    await expect(verify({ model: at("agreed"), allowCode: true })).rejects.toThrow(
      /agreement\.js changed since the plan/,
    );
    writeFileSync(at("agreement.js"), code);
  });

  it("is refused in a sentence where it is not one", async () => {
    await refused("export default 1;", /bad\.js is not a method: its default export is not a function/);
    await refused("export default () => ({});", /its method has no title/);
    await refused("import x from './other.js';", /bad\.js is not a method/);
    await refused("export default (", /bad\.js is not a method/);
    await refused(code.replace('"agreeing"', '"missing"'), /error: the method's file exports no function missing/);
    await refused(
      code.replace("const [into]", "throw new Error('broken'); const [into]"),
      /error: agreeing of the method's file fails in line 18: broken\n/,
    );
    await refused(code.replace("into[i] = agree ?", "into[i] = i < 1 ? NaN : agree ?"), /would become infinite or NaN/);
    await refused(
      code.replace("return plus(", "return plus2("),
      /error: \S*bad\.js fails in line 12: plus2 is not defined\n/,
    );
    await refused(
      code,
      /unknown field "strenght"; did you mean strength\?/,
      block("yaml").replace("strength", "strenght"),
    );
    rmSync(at("bad.js"));
    const { stderr } = await run("layergraft merge bad.yaml --out bad --allow-code");
    expect(stderr).toMatch(/the method .*bad\.js cannot be read/);
  });

  it("can be a source of another recipe, in a file of its own", async () => {
    writeFileSync(at("outer.yaml"), "method: soup\nmodels: [agree.yaml, base]\n");
    expect(await run("layergraft merge outer.yaml --out outer --allow-code")).toMatchObject({ status: 0 });
    expect(await run("layergraft verify outer --allow-code")).toMatchObject({ status: 0 });
  });
});
