// GSM8K, AfriMGSM, translations of MMLU, and the lm-eval/ protocols of MGSM and FLORES: prompts, readings, what is refused.
// test/reference/check_lm_eval_prompts.py compares the lm-eval/ protocols with lm-evaluation-harness itself.
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { type DataAccess, type Item, type OpenTasksOptions, openTasks, type Task } from "./open-tasks.js";

const data: DataAccess = { folder: fileURLToPath(new URL("../../../test/fixtures/evaluation/", import.meta.url)) };

async function load(name: string, options: OpenTasksOptions = {}) {
  const [task] = await openTasks([name], options);
  const { items, notes } = await (task as Task).load(data);
  const first = items[0] as Item;
  const judge = async (output: string) => {
    const reading = (task as Task).read(first, output);
    return { reading, verdict: await (task as Task).score(first, reading) };
  };
  return { task: task as Task, items, notes, first, judge };
}

const whole = ({ prompt }: Item) => (prompt.form === "text" ? prompt.shared + prompt.own : "");

describe("GSM8K", () => {
  it("asks after solved problems, and reads the number after ####", async () => {
    const { task, first, notes, judge } = await load("gsm8k", { shots: 2 });
    expect(whole(first)).toMatch(
      /^Question: Josh decides.*\nAnswer: The cost.*#### 70000\n\nQuestion: James decides.*#### 540\n\nQuestion: Janet’s ducks.*market\?\nAnswer:$/s,
    );
    expect(first).toMatchObject({ gold: "18", stop: ["Question:", "</s>", "<|im_end|>"], maxNewTokens: 512 });
    expect(notes).toEqual(["GSM8K has 2 problems here, not 1,319"]);
    expect(task.title).toBe("GSM8K");
    expect((await judge(" 9 * 2 = <<9*2=18>>18\n#### 18")).verdict).toMatchObject({ strict: 1, flexible: 1 });
    expect((await judge(" 18")).verdict).toMatchObject({ strict: 0, flexible: 1 });
  });

  it("can be asked and read as in lm-eval", async () => {
    const { first, judge } = await load("gsm8k", { shots: 0, protocols: ["lm-eval"] });
    expect(first).toMatchObject({ maxNewTokens: 256 });
    expect((await judge("#### 1,8.")).verdict).toMatchObject({ strict: 1, flexible: 1 });
    expect((await judge("$18, so")).reading).toMatchObject({ strict: "[invalid]", flexible: "$18," });
    expect((await judge("none")).reading).toMatchObject({ strict: "[invalid]", flexible: "[invalid]" });
  });

  it("names the shots that are missing", async () => {
    await expect(load("gsm8k")).rejects.toThrow(/gsm8k has 2 solved examples here, too few for 5 shots/);
  });
});

describe("AfriMGSM", () => {
  it("asks with the rows of the language, and reads its phrase and the English one", async () => {
    const { task, first, judge } = await load("afrimgsm_sw", { shots: 2 });
    expect(task).toMatchObject({ name: "afrimgsm_swa", title: "AfriMGSM Swahili" });
    expect(whole(first)).toMatch(
      /^Question: Roger ana mipira 5.*\nStep-by-Step Answer: Roger alianza.* Jibu ni 11\.\n\nQuestion: .*\n\nQuestion: Bata wa Janet.*\nStep-by-Step Answer:$/s,
    );
    for (const answer of [" Jibu ni 18.", " The answer is 18."]) {
      expect((await judge(answer)).verdict).toEqual({ strict: 1, flexible: 1 });
    }
  });

  it("can be asked as in lm-eval", async () => {
    const { first, judge } = await load("afrimgsm_swh", { protocols: ["lm-eval/afrimgsm-direct"] });
    expect(whole(first)).toMatch(/^Question: Bata wa Janet.*\nAnswer:$/s);
    expect((await judge(" 18 \n")).verdict).toEqual({ strict: 1, flexible: 1 });
    const shots = load("afrimgsm_swa", { protocols: ["lm-eval/afrimgsm-direct"], shots: 1 });
    await expect(shots).rejects.toThrow(/has no shots, not 1/);
  });

  it("names its languages", async () => {
    await expect(load("afrimgsm_de")).rejects.toThrow(/afrimgsm_de: there is no language de.*amh, eng, ewe/);
  });
});

describe("translations of MMLU", () => {
  it("Global-MMLU has the prompt of MMLU", async () => {
    const { task, first, items } = await load("global_mmlu_swh");
    expect(task).toMatchObject({ name: "global_mmlu_sw", title: "Global-MMLU Swahili", shots: 5 });
    const text = whole(first);
    expect(text).toMatch(/^The following are multiple choice questions \(with answers\) about global facts\.\n\n/);
    expect(text.match(/\nAnswer: [A-D]\n\n/g)).toHaveLength(5);
    expect(text).toMatch(/overweight\?\nA\. 10%\nB\. 20%\nC\. 40%\nD\. 80%\nAnswer:$/);
    expect(items.map((item) => [item.id, item.group, item.gold])).toEqual([
      ["global_facts/1", "global_facts", "C"],
      ["global_facts/2", "global_facts", "B"],
    ]);
  });

  it("AfriMMLU's choices are read from Python's list", async () => {
    const { first } = await load("afrimmlu_sw");
    expect(whole(first)).toMatch(/overweight\?\nA\. 10%\nB\. 20%\nC\. 40%\nD\. 80%\nAnswer:$/);
    const { first: theirs } = await load("afrimmlu_sw", { protocols: ["lm-eval"], shots: 1 });
    expect(theirs).toMatchObject({ choices: [" 10%", " 20%", " 40%", " 80%"], correct: 2, gold: "C" });
    expect(whole(theirs)).toMatch(/Answer: {3}People tend to be optimistic about their own future but .*\n\nYou are/s);
  });

  it("names unknown languages", async () => {
    await expect(load("global_mmlu_te")).rejects.toThrow(/Global-MMLU in te/);
    await expect(load("global_mmlu_th")).rejects.toThrow(/Global-MMLU has no language th/);
    await expect(load("afrimmlu_de")).rejects.toThrow(/there is no language de/);
  });
});

describe("lm-eval/ protocols", () => {
  it("of MGSM have its prefixes, filters and stops", async () => {
    const { first, judge } = await load("mgsm_zh", { protocols: ["lm-eval"], shots: 1 });
    // Its example loses a character, and has a space and an ASCII colon that the exemplar does not have.
    expect(whole(first)).toMatch(/^问题：罗杰有.*\n逐步解答: 杰一开始.*\n\n问题： 珍妮特.*\n逐步解答:$/s);
    expect(first).toMatchObject({ stop: ["问题：", "</s>", "<|im_end|>"], maxNewTokens: 256 });
    expect((await judge("答案是 18。 答案是 3。")).reading).toMatchObject({ strict: "18", flexible: "3" });
    expect((await judge("答案是18。")).reading).toMatchObject({ strict: "[invalid]", flexible: "18" });
    const direct = await load("mgsm_sw", { protocols: ["lm-eval/mgsm-direct"], shots: 1 });
    expect(whole(direct.first)).toMatch(/kwa sasa\?\nAnswer:11\n\nSwali: Bata.*\nAnswer:$/s);
    expect((await direct.judge(" 18. ")).verdict).toMatchObject({ strict: 1, flexible: 1 });
  });

  it("of FLORES count the whole answer in 13a and chrF", async () => {
    // lm-eval takes 13a even for Japanese.
    const { task } = await load("flores_eng-jpn", { protocols: ["lm-eval/flores"] });
    expect(task.metrics.slice(0, 2).map(({ name, signature }) => [name, signature])).toEqual([
      ["bleu", "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"],
      ["chrf", "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0"],
    ]);
    const swahili = await load("flores_eng-swh", { protocols: ["lm-eval/flores"] });
    const { verdict } = await swahili.judge(` ${swahili.first.gold}`);
    for (const { of, score } of swahili.task.metrics.slice(0, 2))
      expect(score?.(verdict?.[of] as number[])).toBeCloseTo(100, 9);
  });
});
