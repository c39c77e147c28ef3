// Ready declarations of the training data of the paper (arXiv 2410.01335, table 3).

import type { Language } from "../core/index.js";
import type { FilterDeclaration } from "./filter.js";
import type { MappingDeclaration } from "./mapping.js";
import type { Format } from "./read/files.js";

/** The fields that a ready declaration fills in. */
export interface ReadyFields {
  readonly source?: string;
  readonly config?: string;
  readonly split?: string;
  readonly files?: readonly string[];
  readonly exclude?: readonly string[];
  readonly format?: Format;
  readonly header?: readonly string[];
  readonly allow_short?: boolean;
  readonly map: MappingDeclaration;
  readonly filter?: readonly FilterDeclaration[];
}

export interface ReadySet {
  /** Whether a language must be given, may be given (otherwise all are read), or does not apply. */
  readonly language: "required" | "optional" | "none";
  /** For people. */
  readonly note?: string;
  readonly declare: (language: Language | undefined) => ReadyFields;
}

const trim = true;

/** As in Alpaca and Dolly. */
const instructions = (instruction: string, input: string, output: string): MappingDeclaration => ({
  prompt: instruction,
  input,
  response: output,
  join: "\n\n",
  trim,
});

const conversation = (messages: string | string[]): MappingDeclaration => ({
  messages,
  role: "role",
  content: "content",
  roles: {},
  trim,
});

/** Columns of a file of allenai/nllb, after the two sentences (its data card). */
const NLLB_SCORES = [
  "laser_score",
  "source_lid",
  "target_lid",
  "source_origin",
  "source_url",
  "target_origin",
  "target_url",
];

/** The margin score above which the NLLB project used pairs (arXiv 2207.04672). */
const NLLB_MIN_SCORE = 1.06;

/** Below this score of the language identifier, sentences are often in a related language. */
const NLLB_MIN_LID = 0.9;

export const READY = {
  "orca-math": {
    // Orca-Math word problems, English (microsoft/orca-math-word-problems-200k): MIT.
    language: "none",
    declare: () => ({
      source: "microsoft/orca-math-word-problems-200k",
      map: { prompt: "question", response: "answer", join: "\n\n", trim },
    }),
  },
  aya: {
    // Aya, prompts and answers by speakers of 65 languages (CohereForAI/aya_dataset): Apache-2.0.
    language: "optional",
    declare: (language) => ({
      source: "CohereForAI/aya_dataset",
      map: { prompt: "inputs", response: "targets", join: "\n\n", trim },
      filter: language ? [{ column: "language_code", equals: [...language.codes] }] : [],
    }),
  },
  nllb: {
    // NLLB, mined translation pairs of English and the language (allenai/nllb): ODC-BY.
    language: "required",
    note: "The Hub has only its card. Download the file of the pair (such as eng_Latn-swh_Latn.gz) as the card describes, and set it as source.",
    declare: (language) => {
      const other = language?.code ?? "";
      // Both codes are in alphabetical order, in file names as in columns.
      const sentences = ["eng_Latn", other].sort();
      return {
        format: "tsv",
        header: [...sentences, ...NLLB_SCORES],
        // Lines may lack empty fields at their end.
        allow_short: true,
        map: {
          translation: {
            english: { column: "eng_Latn" },
            other: { column: other },
            language: language?.name ?? "",
            directions: "both",
            instructions: ["Translate the following text from {source} to {target}.\n\n{text}"],
          },
          trim,
        },
        filter: [
          { column: "laser_score", at_least: NLLB_MIN_SCORE },
          { column: "source_lid", at_least: NLLB_MIN_LID },
          { column: "target_lid", at_least: NLLB_MIN_LID },
        ],
      };
    },
  },
  xp3mt: {
    // xP3mt, tasks with machine-translated prompts (bigscience/xP3mt): Apache-2.0.
    language: "required",
    note: "Files of FLORES are left out, as in the paper, which evaluates on them.",
    declare: (language) => ({
      source: "bigscience/xP3mt",
      files: [`${language?.short}/*.{jsonl,parquet}`],
      exclude: ["**/*[Ff]lores*"],
      map: { prompt: "inputs", response: "targets", join: "\n\n", trim },
    }),
  },
  inkuba: {
    // Inkuba-Instruct: Hausa, Swahili, Xhosa, Yoruba, Zulu (lelapa/Inkuba-instruct): CC BY-NC 4.0.
    language: "required",
    note: "Accept its terms on its page. It has data of AfriQA and SIB-200; check for contamination.",
    declare: (language) => ({
      source: "lelapa/Inkuba-instruct",
      split: `${language?.name === "Zulu" ? "isizulu" : language?.name.toLowerCase()}_train`,
      map: instructions("instruction", "inputs", "targets"),
    }),
  },
  "dolly-ja": {
    // Dolly in Japanese (kunishou/databricks-dolly-15k-ja): CC BY-SA 3.0.
    language: "none",
    declare: () => ({
      source: "kunishou/databricks-dolly-15k-ja",
      map: instructions("instruction", "input", "output"),
    }),
  },
  "llm-japanese": {
    // LLM Japanese dataset (izumi-lab/llm-japanese-dataset): CC BY-SA 4.0.
    language: "none",
    declare: () => ({ source: "izumi-lab/llm-japanese-dataset", map: instructions("instruction", "input", "output") }),
  },
  "indic-align": {
    // Indic-Align, conversations in fourteen Indian languages (ai4bharat/indic-align): CC BY 4.0.
    language: "required",
    note: "Configurations: Indic_ShareLlama (the default, the paper's), Dolly_T, OpenAssistant_T, WikiHow, Wiki_Conv, Wiki_Chat, Anudesh, IndoWordNet, HHRLHF_T, Toxic_Matrix.",
    declare: (language) => ({
      source: "ai4bharat/indic-align",
      config: "Indic_ShareLlama",
      // Translated configurations have a column per language.
      map: conversation([language?.code ?? "", "interactions"]),
    }),
  },
  bongchat: {
    // BongChat, instructions in Bengali (lumatic-ai/BongChat-v1-253k): MIT.
    language: "none",
    declare: () => ({ source: "lumatic-ai/BongChat-v1-253k", map: instructions("instruction", "input", "output") }),
  },
} as const satisfies Readonly<Record<string, ReadySet>>;

export type ReadyName = keyof typeof READY;

export const READY_NAMES = Object.keys(READY) as [ReadyName, ...ReadyName[]];

export function readySet(name: ReadyName): ReadySet {
  return READY[name];
}
