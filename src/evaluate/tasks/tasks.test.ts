// Every task on a few rows of its data: the exact prompt of one item, readings, verdicts, protocols, what is refused.
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { letterItem } from "./multiple-choice.js";
import {
  type DataAccess,
  type Item,
  type OpenTasksOptions,
  openTasks,
  PROTOCOLS,
  SUITES,
  type Task,
} from "./open-tasks.js";
import { promptsDigest, protocolId, protocolTitle } from "./protocol.js";

const data: DataAccess = { folder: fileURLToPath(new URL("../../../test/fixtures/evaluation/", import.meta.url)) };

async function open(name: string, options: OpenTasksOptions = {}): Promise<Task> {
  const [task, ...others] = await openTasks([name], options);
  expect(others).toEqual([]);
  return task as Task;
}

async function load(name: string, options: OpenTasksOptions = {}) {
  const task = await open(name, options);
  const { items, notes } = await task.load(data);
  return { task, items, notes, first: items[0] as Item };
}

const whole = ({ prompt }: Item) => (prompt.form === "text" ? prompt.shared + prompt.own : "");

describe("MGSM", () => {
  const SWAHILI =
    "Swali: Bata wa Janet hutaga mayai 16 kila siku. Huwa anakula matatu wakati wa staftahi kila asubuhi na huokea " +
    "marafiki zake mafini kila siku kwa mayai manne. Huwa anauza yaliyosalia katika soko la wakulima kila siku kwa $2 " +
    "kwa kila yai la bata. Huwa anatengeneza pesa ngapi katika dola kila siku katika soko la wakulima?";

  it("asks with native exemplars", async () => {
    const { task, items, first } = await load("mgsm_sw", { shots: 1 });
    expect(first).toEqual({
      kind: "generate",
      id: "1",
      prompt: {
        form: "text",
        shared:
          "Swali: Roger ana mipira 5 ya tenisi. Ananunua mikebe 2 zaidi ya mipira ya tenisi. Kila mkebe una mipira 3 ya " +
          "tenisi. Ana mipira mingapi ya tenisi kwa sasa?\nJibu la Hatua kwa Hatua: Roger alianza kwa mipira 5. Mikebe 2 " +
          "yenye mipira 3 ya tenisi kila oja ni mipira 6 ya tenisi. 5 + 6 = 11. Jibu ni 11.\n\n",
        own: `${SWAHILI}\nJibu la Hatua kwa Hatua:`,
      },
      gold: "18",
      stop: ["Swali:"],
      maxNewTokens: 512,
    });
    // The same string for all, so that a backend sees at once what is shared.
    expect(items.every(({ prompt }) => prompt.form === "text" && prompt.shared === first.prompt.shared)).toBe(true);
    expect(task).toMatchObject({ name: "mgsm_sw", title: "MGSM Swahili", shots: 1, executes: false });
  });

  it("may be named by the language's other names, which is noted", async () => {
    const notes: string[] = [];
    const onNote = (text: string) => notes.push(text);
    const [task] = await openTasks(["mgsm_swahili", "mgsm_en"], { onNote });
    expect(task?.name).toBe("mgsm_sw");
    expect(notes).toEqual(["mgsm_swahili is the task mgsm_sw"]);
  });

  it("has eight shots unless asked otherwise, or none", async () => {
    const { task, first } = await load("mgsm_sw");
    expect(protocolTitle(task)).toBe("layergraft/mgsm-native-cot@5, 8-shot");
    expect(whole(first).split("\n\n")).toHaveLength(9);
    const none = await load("mgsm_sw", { shots: 0 });
    expect(none.first.prompt).toEqual({ form: "text", shared: "", own: `${SWAHILI}\nJibu la Hatua kwa Hatua:` });
    await expect(openTasks(["mgsm_sw"], { shots: 9 })).rejects.toThrow(
      /mgsm-native-cot@5 has from 0 to 8 shots, not 9/,
    );
  });

  it("has the revised problems as tasks of their own, with the exemplars of the first edition", async () => {
    const asked: unknown[] = [];
    const row = { question: "Swali?", answer: "Jibu la Hatua kwa Hatua: Jibu ni 3.", answer_number: 3 };
    const { items, notes } = await (await open("mgsm_rev2_sw", { shots: 1 })).load({
      loadRows: async ({ dataset, config, split }) => {
        asked.push([dataset, config, split]);
        return [row];
      },
    });
    expect(asked).toEqual([
      ["lightonai/mgsm-rev2", "sw", "test"],
      ["juletxara/mgsm", "sw", "train"],
    ]);
    expect(items.map(({ id, gold }) => [id, gold])).toEqual([["1", "3"]]);
    expect(notes).toEqual(["MGSM-Rev2 sw has 1 problem here, not 250"]);
    expect((await openTasks(["mgsm_rev2"])).map(({ name }) => name)).toContain("mgsm_rev2_te");
    expect((await open("mgsm_rev2_sw", { protocols: ["lm-eval/mgsm-direct"] })).title).toBe("MGSM-Rev2 Swahili");
    await expect(open("mgsm_rev3_sw")).rejects.toThrow(/MGSM has no language rev3_sw/);
  });

  it("has no space after a full-width colon", async () => {
    const { first } = await load("mgsm_zh", { shots: 1 });
    expect(whole(first)).toMatch(
      /^问题：罗杰有 5 个网球。.*\n逐步解答：罗杰一开始有.*答案是 11。\n\n问题：珍妮特.*\n逐步解答：$/s,
    );
  });

  it("has steps in English after questions in the language", async () => {
    const { task, first } = await load("mgsm_fr", { shots: 1, protocols: ["mgsm-en-cot"] });
    expect(whole(first)).toMatch(
      /^Question : Roger a 5 balles.*\nStep-by-Step Answer: Roger started .* The answer is 11\.\n\nQuestion : Les canes.*\nStep-by-Step Answer:$/s,
    );
    expect(first).toMatchObject({ stop: ["Question :"] });
    expect(task.read(first, " 16 - 7 = 9. The answer is 18.")).toEqual({ strict: "18", flexible: "18", in_script: 1 });
    expect(task.read(first, " La réponse est 18.")).toEqual({ flexible: "18", in_script: 1 });
  });

  it("asks for the number alone", async () => {
    const { task, first } = await load("mgsm_zh", { shots: 2, protocols: ["layergraft/mgsm-direct@5"] });
    expect(whole(first)).toMatch(/他现在有多少个网球？\n答案：11\n\n问题：.*\n答案：29\n\n问题：.*\n答案：$/s);
    expect(first).toMatchObject({ stop: ["\n"] });
    expect(task.read(first, "18美元")).toEqual({ strict: "18", flexible: "18" });
  });

  it("asks as a chat, shots as turns", async () => {
    const { first } = await load("mgsm_sw", { shots: 1, protocols: ["mgsm-chat"] });
    const instruction = 'Tatua swali hili hatua kwa hatua. Malizia kwa sentensi "Jibu ni N.", ambapo N ni namba.';
    const { prompt } = first;
    if (prompt.form !== "chat") throw new Error("it is no chat");
    expect(prompt.shared).toBe(2);
    expect(prompt.messages.map(({ role }) => role)).toEqual(["user", "assistant", "user"]);
    expect(prompt.messages[1]?.content).toMatch(/^Roger alianza kwa mipira 5\. .* Jibu ni 11\.$/);
    expect(prompt.messages[2]?.content).toBe(`${SWAHILI.replace("Swali: ", "")}\n\n${instruction}`);
  });

  it("scores both readings, each by itself", async () => {
    const { task, first } = await load("mgsm_sw", { shots: 0 });
    const verdict = async (output: string) => task.score(first, task.read(first, output));
    expect(await verdict(" 9 * 2 = 18. Jibu ni 18.0.")).toMatchObject({ strict: 1, flexible: 1 });
    expect(await verdict(" Anapata dola 18")).toMatchObject({ strict: 0, flexible: 1 });
    expect(await verdict(" Jibu ni 18. Yaani mayai 9")).toMatchObject({ strict: 1, flexible: 0 });
    expect(await verdict("")).toEqual({ strict: 0, flexible: 0 });
  });

  it("reads no answer from reasoning, and measures its language apart", async () => {
    const { task, first } = await load("mgsm_sw", { shots: 0 });
    const reasoning = "First he eats three eggs, and then she bakes four muffins. Jibu ni 3.";
    const answer = "Anauza mayai tisa kwa dola mbili kila moja, kwa hivyo anapata dola 18. Jibu ni 18.";
    const verdict = async (output: string) => task.score(first, task.read(first, output));
    expect(await verdict(`<think>${reasoning}</think>\n${answer}`)).toEqual({
      ...{ strict: 1, flexible: 1, in_language: 1, in_script: 1 },
      ...{ reasoning_in_language: 0, reasoning_in_script: 1 },
    });
    expect(await verdict(`<think>${answer}`)).toEqual({
      ...{ strict: 0, flexible: 0, reasoning_in_language: 1, reasoning_in_script: 1 },
    });
  });

  it("takes languages by any of their codes", async () => {
    expect((await open("mgsm_swh")).name).toBe("mgsm_sw");
    expect((await open("mgsm_swh_Latn")).name).toBe("mgsm_sw");
    expect(await openTasks(["mgsm"])).toHaveLength(11);
    await expect(openTasks(["mgsm_it"])).rejects.toThrow(/MGSM has no language it; it has bn, de/);
  });
});

describe("Belebele", () => {
  it("asks with the first rows of the language, never the row itself", async () => {
    const { task, items, first } = await load("belebele_deu", { shots: 2 });
    expect(task).toMatchObject({ name: "belebele_deu_Latn", title: "Belebele German" });
    expect(first).toMatchObject({
      kind: "choose",
      id: "https://en.wikibooks.org/wiki/Accordion/Right_hand#1",
      choices: [" A", " B", " C", " D"],
      correct: 0,
      gold: "A",
    });
    const own = (item: Item | undefined) => (item?.prompt.form === "text" ? item.prompt.own : "");
    expect(own(first)).toBe(
      "P: Stellen Sie sicher, dass Ihre Hand so entspannt wie möglich ist und Sie dennoch alle Töne korrekt treffen " +
        "können. Versuchen Sie auch, mit den Fingern keine unnötig großen Bewegungen zu machen. So ermüden Sie sich " +
        "möglichst wenig. Denken Sie daran, dass es nicht nötig ist, die Tasten mit viel Kraft anzuschlagen, um " +
        "zusätzliche Lautstärke zu erzielen, wie es beim Klavier der Fall ist. Um die Lautstärke auf dem Akkordeon zu " +
        "erhöhen, benutzt man den Blasebalg mit mehr Druck oder Geschwindigkeit.\n" +
        "Q: Was wäre dem Abschnitt zufolge kein guter Tipp, um gut Akkordeon zu spielen?\n" +
        "A: Für eine höhere Lautstärke wenden Sie mehr Kraft zum Anschlagen der Tasten auf\n" +
        "B: Beschränken Sie unnötige Bewegungen auf ein Minimum, um mehr Ausdauer zu haben\n" +
        "C: Achten Sie darauf, die Noten zu treffen und dabei Ihre Hand entspannt zu halten\n" +
        "D: Benutzen Sie den Blasebalg mit einer höheren Geschwindigkeit, um eine noch höhere Lautstärke zu erreichen\n" +
        "Answer:",
    );
    const shot = (item: Item | undefined) => `${own(item)} ${item?.gold}\n\n`;
    expect(items.map(({ prompt }) => prompt.shared)).toEqual([
      shot(items[1]) + shot(items[2]),
      shot(items[0]) + shot(items[2]),
      ...Array.from({ length: 6 }, () => shot(items[0]) + shot(items[1])),
    ]);
  });

  it("can have English shots, on other passages", async () => {
    const { first } = await load("belebele_de", { shots: 3, protocols: ["belebele-english-shots"] });
    expect(first.prompt.shared).toMatch(/^P: One of the most common problems when trying to convert a movie to DVD/);
    expect(first.prompt.shared).not.toMatch(/accordion/i);
  });

  it("chooses the likeliest letter, and says which it does not know", async () => {
    const { task, first } = await load("belebele_de", { shots: 0 });
    const judge = async (output: (number | null)[]) => {
      const reading = task.read(first, output);
      return [reading, await task.score(first, reading)];
    };
    expect(await judge([-1, -2, -3, -4])).toEqual([{ choice: 0, label: "A" }, { accuracy: 1 }]);
    expect(await judge([-4, -2, -3, -4])).toEqual([{ choice: 1, label: "B" }, { accuracy: 0 }]);
    expect(await judge([-1, null, -3, Number.NaN])).toEqual([{ missing: ["B", "D"] }, undefined]);
  });

  it.each([
    ["mmlu", "lm-eval/mmlu"],
    ["belebele_de", "lm-eval/belebele"],
    ["global_mmlu_sw", "lm-eval/global-mmlu-full"],
    ["afrimmlu_swa", "lm-eval/afrimmlu-direct"],
  ])("%s: a tie of k choices is worth 1/k, and %s takes the first", async (name, protocol) => {
    const item = (correct: number) => {
      return { ...letterItem({ id: "1", prompt: { form: "text", shared: "", own: "" }, correct }) };
    };
    const worth = async (task: Task, output: number[], correct: number) => {
      const verdict = await task.score(item(correct), task.read(item(correct), output));
      return verdict?.accuracy;
    };
    const [ours] = await openTasks([name]);
    const [theirs] = await openTasks([name], { protocols: [protocol] });
    if (!ours || !theirs) throw new Error("no task");
    expect(ours.read(item(0), [-4, -2, -2, -4])).toEqual({ choice: [1, 2], label: "B, C" });
    const all = [0, 1, 2, 3];
    expect(await Promise.all(all.map((correct) => worth(ours, [-2, -2, -2, -2], correct)))).toEqual(
      all.map(() => 1 / 4),
    );
    expect(await Promise.all(all.map((correct) => worth(ours, [-4, -2, -2, -4], correct)))).toEqual([0, 0.5, 0.5, 0]);
    expect(await Promise.all(all.map((correct) => worth(theirs, [-4, -2, -2, -4], correct)))).toEqual([0, 1, 0, 0]);
    expect([ours.protocol.name.split("/")[0], ours.protocol.version]).toEqual(["layergraft", 2]);
    expect([theirs.protocol.name.split("/")[0], theirs.protocol.ties]).toEqual(["lm-eval", "first"]);
  });

  it("refuses a language without rows, or too few of them", async () => {
    const task = await open("belebele_swh");
    await expect(task.load(data)).rejects.toThrow(/no data for Belebele in swh_Latn; expected one of swh_Latn\.jsonl/);
    await expect((await open("belebele_de", { shots: 8 })).load(data)).rejects.toThrow(
      /has 8 rows here, too few for 8/,
    );
    await expect(openTasks(["belebele_swhili"])).rejects.toThrow(/unknown language "swhili"/);
  });
});

describe("FLORES", () => {
  it("asks for a line, and names both languages", async () => {
    const { task, first } = await load("flores_eng-swh", { shots: 1 });
    expect(task.name).toBe("flores_eng_Latn-swh_Latn");
    expect(first).toMatchObject({ id: "1", stop: ["\n"], gold: expect.stringMatching(/^"Sasa tuna panya wenye umri/) });
    expect(first.prompt).toEqual({
      form: "text",
      shared: expect.stringMatching(/^English sentence: On Monday.*\nSwahili sentence: Mnamo Jumatatu.*\n\n$/s),
      own:
        'English sentence: "We now have 4-month-old mice that are non-diabetic that used to be diabetic," he added.\n' +
        "Swahili sentence:",
    });
  });

  it("goes both ways with English, and tokenizes as the target needs", async () => {
    const signature = (task: Task | undefined) => task?.metrics[0]?.signature;
    const [there, back] = await openTasks(["flores_ja"]);
    expect([there?.name, back?.name]).toEqual(["flores_eng_Latn-jpn_Jpan", "flores_jpn_Jpan-eng_Latn"]);
    expect(signature(there)).toBe("nrefs:1|case:mixed|eff:no|tok:char|smooth:exp|version:2.6.0");
    expect(signature(back)).toContain("tok:13a");
    expect(signature(await open("flores_en-zh"))).toContain("tok:zh");
    expect(signature(await open("flores_en-zh", { tokenize: "none" }))).toContain("tok:none");
  });

  it("takes the first line, and keeps what the corpus score needs", async () => {
    const { task, first } = await load("flores_eng-swh");
    const reading = task.read(first, ` ${first.gold}\nEnglish sentence: more`);
    expect(reading).toMatchObject({ translation: first.gold.trim(), in_script: 1 });
    const verdict = (await task.score(first, reading)) ?? {};
    for (const { of, score, by, isAside } of task.metrics) {
      if (isAside) continue;
      expect(by).toBe("corpus");
      expect(score?.(verdict[of] as number[])).toBeCloseTo(100, 9);
    }
  });

  it("refuses sentences that do not correspond, and names that say too little", async () => {
    await expect(openTasks(["flores_en"])).rejects.toThrow(/write the other language, as in flores_swh/);
    await expect(openTasks(["flores_sw-sw"])).rejects.toThrow(/write two languages/);
    await expect((await open("flores_en-te")).load(data)).rejects.toThrow(
      /FLORES devtest in Telugu.*tel_Telu\.devtest/,
    );
  });
});

describe("MBPP", () => {
  it("asks with a docstring, and executes setup and tests after the program", async () => {
    const { task, items, first } = await load("mbpp");
    expect(items.map(({ id }) => id)).toEqual(["11", "12", "367"]);
    expect(whole(first)).toBe(
      '"""\nWrite a python function to remove first and last occurrence of a given character from the string.\n' +
        'assert remove_Occ("hello","l") == "heo"\n"""\n',
    );
    expect(first).toMatchObject({ stop: ["\nclass", "\nassert", '\n"""', "\nprint", "\nif", "\n<|/", "\n```"] });
    const executed: { name: string; source: string }[][] = [];
    const executor = {
      run: async (parts: readonly { name: string; source: string }[]) => {
        executed.push([...parts]);
        return { outcome: parts[0]?.source === "right" ? "passed" : "failed", detail: "" };
      },
    };
    const tree = items[2] as Item;
    expect(await task.score(tree, task.read(tree, "right"), { executor })).toEqual({ "pass@1": 1 });
    expect(await task.score(tree, task.read(tree, "wrong"), { executor })).toEqual({ "pass@1": 0 });
    expect(executed[0]?.map(({ name }) => name)).toEqual(["program", "setup", "test 1", "test 2", "test 3"]);
    expect(executed[0]?.[1]?.source).toMatch(/^root = Node\(1\)/);
    await expect(task.score(tree, { program: "x" })).rejects.toMatchObject({ where: { option: "allowCode" } });
  });

  it("has the original prompt, and the harness's", async () => {
    const { first } = await load("mbpp", { shots: 1, protocols: ["mbpp-austin"] });
    expect(whole(first)).toBe(
      "You are an expert Python programmer, and here is your task: Write a function to find the similar elements from " +
        "the given two tuple lists. Your code should pass these tests:\n\n" +
        "assert similar_elements((3, 4, 5, 6),(5, 7, 4, 10)) == (4, 5)\n" +
        "assert similar_elements((1, 2, 3, 4),(5, 4, 3, 7)) == (3, 4)\n" +
        "assert similar_elements((11, 12, 14, 13),(17, 15, 14, 13)) == (13, 14)\n[BEGIN]\n" +
        "def similar_elements(test_tup1, test_tup2):\n  res = tuple(set(test_tup1) & set(test_tup2))\n  return (res) \n" +
        "[DONE]\n\n" +
        "You are an expert Python programmer, and here is your task: Write a python function to remove first and last " +
        "occurrence of a given character from the string. Your code should pass these tests:\n\n" +
        'assert remove_Occ("hello","l") == "heo"\nassert remove_Occ("abcda","a") == "bcd"\n' +
        'assert remove_Occ("PHP","P") == "H"\n[BEGIN]\n',
    );
    const harness = await load("mbpp", { protocols: ["lm-eval"] });
    expect(harness.first.prompt.shared).toContain("(res) \n[DONE]");
    expect(harness.first.prompt.shared).toContain("\r\n");
    expect(harness.items[2]).toMatchObject({ tests: [{ name: "test 1" }, { name: "test 2" }, { name: "test 3" }] });
    await expect(openTasks(["mbpp"], { shots: 1 })).rejects.toThrow(/mbpp@1 has no shots, not 1/);
  });
});

describe("MMLU", () => {
  it("asks with the subject's own shots, in every subject that is there", async () => {
    const { task, items, notes, first } = await load("mmlu", { shots: 1 });
    expect(whole(first)).toBe(
      "The following are multiple choice questions (with answers) about abstract algebra.\n\n" +
        "Find all c in Z_3 such that Z_3[x]/(x^2 + c) is a field.\nA. 0\nB. 1\nC. 2\nD. 3\nAnswer: B\n\n" +
        "Find the degree for the given field extension Q(sqrt(2), sqrt(3), sqrt(18)) over Q.\n" +
        "A. 0\nB. 4\nC. 2\nD. 6\nAnswer:",
    );
    expect(items.map(({ id, group }) => [id, group])).toEqual([
      ...[1, 2, 3].map((number) => [`abstract_algebra/${number}`, "abstract_algebra"]),
      ...[1, 2, 3].map((number) => [`anatomy/${number}`, "anatomy"]),
      ["professional_law/1", "professional_law"],
    ]);
    expect(whole(items[6] as Item)).toMatch(
      /a deed to Friend with the words "To Friend for life and then .*Owner\." Under/,
    );
    expect(notes).toEqual([
      expect.stringMatching(/^54 subjects missing in .*astronomy, business_ethics, clinical_knowledge and 51 more/),
      "professional_law has only a part of its questions: professional_law_test.first200.csv",
    ]);
    expect(task.metrics.map(({ by }) => by)).toEqual(["mean", "group mean"]);
  });

  it("limits items so that every subject stays", async () => {
    const task = await open("mmlu");
    const { items } = await task.load(data, { limit: 4 });
    expect(items.map(({ id }) => id)).toEqual([
      "abstract_algebra/1",
      "abstract_algebra/2",
      "anatomy/1",
      "professional_law/1",
    ]);
  });

  it("has single subjects, and translations of one's own", async () => {
    const { task, items } = await load("mmlu_anatomy");
    expect([items.length, task.metrics.length]).toEqual([3, 1]);
    const translated = await open("mmlu_sw");
    expect(translated.name).toBe("mmlu_swh_Latn");
    for (const name of ["mmlu_en", "mmlu_eng"]) {
      await expect(open(name)).rejects.toThrow(`${name}: MMLU in English is named mmlu`);
    }
    await expect(translated.load(data)).rejects.toThrow(/expected one of mmlu_swh_Latn\/test\/SUBJECT_test\.csv/);
    await expect(openTasks(["mmlu_anatomi"])).rejects.toThrow(/did you mean mmlu_anatomy\?/);
  });

  it("reads the hub's rows", async () => {
    const asked: unknown[] = [];
    const row = (subject: string, answer: number) => ({
      question: "Q",
      choices: ["a", "b", "c", "d"],
      subject,
      answer,
    });
    const { items } = await (await open("mmlu", { shots: 1 })).load({
      loadRows: async ({ dataset, config, split }) => {
        asked.push([dataset, config, split]);
        return [row("virology", 2), row("anatomy", 3)];
      },
    });
    expect(asked).toEqual([
      ["cais/mmlu", "all", "test"],
      ["cais/mmlu", "all", "dev"],
    ]);
    expect(items.map(({ id, gold }) => [id, gold])).toEqual([
      ["anatomy/1", "D"],
      ["virology/1", "C"],
    ]);
    await expect((await open("mmlu")).load({})).rejects.toThrow(
      /pass a folder with mmlu\/test\/SUBJECT_test\.csv.*or read cais\/mmlu of the hub/,
    );
  });
});

describe("names, suites and protocols", () => {
  it("names what the paper ran", async () => {
    const names = (await openTasks(["paper"])).map(({ name }) => name);
    // Table 5: MGSM, Belebele, FLORES both ways, MBPP and MMLU in four languages.
    expect(names).toHaveLength(10 + 5 + 8 + 4 + 4);
    for (const code of ["ja", "bn", "sw", "te"]) expect(names).toContain(`global_mmlu_${code}`);
    expect(names.filter((name) => name.startsWith("mbpp_"))).toHaveLength(4);
    expect(names).toContain("flores_swh_Latn-eng_Latn");
    for (const suite of Object.keys(SUITES)) expect(await openTasks([suite])).not.toHaveLength(0);
  });

  it("opens each task once, in the order given", async () => {
    const tasks = await openTasks(["mmlu", "mgsm_sw", "mgsm_swh", "flores_eng-swh", "flores_swh"]);
    expect(tasks.map(({ name }) => name)).toEqual([
      "mmlu",
      "mgsm_sw",
      "flores_eng_Latn-swh_Latn",
      "flores_swh_Latn-eng_Latn",
    ]);
  });

  it("gives each family its own protocol, and no protocol to others", async () => {
    const tasks = await openTasks(["mgsm_sw", "mmlu", "belebele_sw"], { protocols: ["mgsm-direct", "lm-eval/mmlu@1"] });
    expect(tasks.map(({ protocol }) => protocolId(protocol))).toEqual([
      "layergraft/mgsm-direct@5",
      "lm-eval/mmlu@1",
      "layergraft/belebele@2",
    ]);
    expect((await open("mmlu", { protocols: ["mmlu"] })).protocol.name).toBe("layergraft/mmlu");
    expect((await open("mmlu", { protocols: ["lm-eval"] })).protocol).toMatchObject({
      name: "lm-eval/mmlu",
      specialTokens: true,
    });
  });

  it.each<[string[], OpenTasksOptions, RegExp]>([
    [
      ["mgsm_sw"],
      { protocols: ["mgsm-drect"] },
      /no such protocol.*layergraft\/mgsm-native-cot@5.*did you mean mgsm-direct/s,
    ],
    [["mgsm_sw"], { protocols: ["lm-eval/mmlu"] }, /no such protocol/],
    [["mmlu"], { protocols: ["layergraft/mmlu", "lm-eval/mmlu"] }, /protocols of the same tasks; choose one of them/],
    [["constructor"], {}, /unknown task constructor/],
    [["mgms_sw"], {}, /unknown task mgms_sw; did you mean mgsm_sw\?.*suites: paper/],
    [[], {}, /no tasks; pass at least one/],
  ])("refuses %j with %j", async (names, options, message) => {
    await expect(openTasks(names, options)).rejects.toThrow(message);
  });

  it("has no two protocols of one name", () => {
    expect(new Set(PROTOCOLS.map(protocolId)).size).toBe(PROTOCOLS.length);
  });

  it("digests everything that is asked and expected", async () => {
    const { items } = await load("mgsm_sw", { shots: 1 });
    const digest = promptsDigest(items);
    expect(digest).toMatch(/^[0-9a-f]{64}$/);
    expect(promptsDigest((await load("mgsm_sw", { shots: 1 })).items)).toBe(digest);
    const [first, ...others] = items as [Extract<Item, { kind: "generate" }>, ...Item[]];
    for (const change of [{ gold: "19" }, { stop: [] }, { maxNewTokens: 1 }, { id: "x" }]) {
      expect(promptsDigest([{ ...first, ...change }, ...others])).not.toBe(digest);
    }
    // Where the shared part ends is a matter of computing, not of asking.
    const moved = { form: "text", shared: "", own: whole(first) } as const;
    expect(promptsDigest([{ ...first, prompt: moved }, ...others])).toBe(digest);
  });
});
