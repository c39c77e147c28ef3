// The language of answers: texts of known languages, mixtures of known shares, and reasoning between tags.
import { describe, expect, it } from "vitest";
import { requireLanguage } from "../../kit/languages.js";
import { fidelityOf } from "./fidelity.js";
import { splitReasoning } from "./reasoning.js";

const measure = (text: string, code: string) => fidelityOf(text, requireLanguage(code, { field: "language" }));

const TEXTS: Readonly<Record<string, string>> = {
  en: "He sells nine eggs every morning at the market, and each of them costs two dollars.",
  de: "Er verkauft jeden Morgen neun Eier auf dem Markt, und jedes davon kostet zwei Dollar.",
  fr: "Il vend chaque matin neuf œufs au marché, et chacun d'entre eux coûte deux dollars.",
  es: "Vende nueve huevos cada mañana en el mercado, y cada uno de ellos cuesta dos dólares.",
  ru: "Каждое утро он продаёт на рынке девять яиц, и каждое из них стоит два доллара.",
  sw: "Kila asubuhi anauza mayai tisa sokoni, na kila yai moja linauzwa kwa dola mbili.",
  bn: "তিনি প্রতিদিন সকালে বাজারে নয়টি ডিম বিক্রি করেন এবং প্রতিটির দাম দুই ডলার।",
  te: "అతను ప్రతి ఉదయం మార్కెట్లో తొమ్మిది గుడ్లు అమ్ముతాడు, ఒక్కొక్కటి రెండు డాలర్లు.",
  th: "เขาขายไข่เก้าฟองที่ตลาดทุกเช้าและแต่ละฟองราคาสองดอลลาร์",
  ja: "彼は毎朝市場で卵を九個売り、一個の値段は二ドルです。",
  zh: "他每天早上在市场上卖九个鸡蛋，每个鸡蛋的价格是两美元。",
};

describe("fidelity", () => {
  it.each(Object.keys(TEXTS))("%s is in its own language and in no other", (own) => {
    const found = Object.keys(TEXTS).map((asked) => [asked, measure(TEXTS[own] ?? "", asked).language]);
    expect(found).toEqual(Object.keys(TEXTS).map((asked) => [asked, asked === own ? 1 : 0]));
  });

  it("is the share of letters, by passage and by script", () => {
    const { sw = "", en = "", bn = "" } = TEXTS;
    const letters = (text: string) => text.match(/\p{L}/gu)?.length ?? 0;
    const half = measure(`${sw} ${sw}\n${en} ${en}`, "sw");
    expect(half.language).toBeCloseTo(letters(sw) / (letters(sw) + letters(en)), 1);
    expect(half.script).toBe(1);
    const both = measure(`${bn} ${bn} ${bn}\n${en}`, "bn");
    const share = (3 * letters(bn)) / (3 * letters(bn) + letters(en));
    expect(both).toEqual({ script: share, language: share });
  });

  it("leaves out numbers, formulas, code and addresses", () => {
    const text = `${TEXTS.bn} 9 * 2 = 18 \\(x + \\frac{1}{2}\\) $$total$$ \`print(total)\` https://example.org/path`;
    expect(measure(text, "bn")).toEqual({ script: 1, language: 1 });
    expect(measure("18", "bn")).toEqual({ script: undefined, language: undefined });
  });

  it("gives no language where it cannot tell", () => {
    expect(measure("Jibu ni 5.", "sw")).toEqual({ script: 1, language: undefined });
    // Assamese is written in the script of Bengali, and the identifier does not know it.
    expect(measure(TEXTS.bn ?? "", "asm")).toEqual({ script: 1, language: undefined });
    expect(measure("উত্তর ৫", "bn")).toEqual({ script: 1, language: 1 });
  });

  it("takes a long text without a sentence's end", () => {
    expect(measure("a".repeat(1_000_000), "en").script).toBe(1);
    expect(measure("[".repeat(300_000), "en").script).toBeUndefined();
  });
});

describe("reasoning", () => {
  it.each([
    ["<think>a 7</think>b", "b", "a 7"],
    ["a 7\n</think>\n\nb", "\n\nb", "a 7\n"],
    ["<think>a 7", "", "a 7"],
    ["x <think>a</think>b<think>c</think>d", "x bd", "a\nc"],
    ["[THINK]a[/THINK]b", "b", "a"],
    ["◁think▷a◁/think▷b", "b", "a"],
    ["<seed:think>a</seed:think>b", "b", "a"],
    ["<|START_THINKING|>a<|END_THINKING|>b", "b", "a"],
    ["<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "b", "a"],
    ["<think></think>b", "b", ""],
    ["2 < 3 and 4 > 1", "2 < 3 and 4 > 1", undefined],
    ["", "", undefined],
  ])("%j", (text, answer, reasoning) => {
    expect(splitReasoning(text)).toEqual({ answer, reasoning });
  });
});
