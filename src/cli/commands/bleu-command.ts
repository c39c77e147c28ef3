import { type Command, InvalidArgumentError, Option } from "commander";
import {
  BLEU_TOKENIZERS,
  type BleuOptions,
  type BleuScore,
  type BleuSmoothing,
  type BleuTokenizer,
  CHRF_PLUS_PLUS,
  type ChrfScore,
  corpusBleu,
  corpusChrf,
  loadPieces,
  readLines,
} from "../../evaluate/index.js";
import { type CommonOptions, print, printJson, warn, withCommonOptions } from "../shared/output.js";

interface BleuCommandOptions extends CommonOptions {
  readonly tokenize: BleuTokenizer;
  readonly tokenizerModel?: string;
  readonly lowercase?: boolean;
  readonly smoothing: BleuSmoothing;
  readonly smoothingValue?: number;
  readonly effectiveOrder?: boolean;
  readonly chrf?: boolean;
}

export function addBleuCommand(program: Command): void {
  const command = program
    .command("bleu")
    .description(
      "Score a file of translations, one per line, against one or more files of references. " +
        "Scores and signatures match sacreBLEU 2.6.0.",
    )
    .argument("<hypotheses>", "file with one translation per line")
    .argument("<references...>", "files with one reference per line")
    .optionsGroup("Scoring:")
    .addOption(
      new Option("--tokenize <name>", "tokenizer; zh is for Chinese, char for Japanese and Thai")
        .choices(BLEU_TOKENIZERS)
        .default("13a"),
    )
    .option("--tokenizer-model <file>", "SentencePiece model for flores101 and flores200")
    .option("--lowercase", "ignore case")
    .addOption(
      new Option("--smoothing <method>", "smoothing of n-gram orders without a match")
        .choices(["exp", "floor", "add-k", "none"])
        .default("exp"),
    )
    .addOption(
      new Option("--smoothing-value <x>", "constant of floor and add-k (default: 0.1 and 1)").argParser(parseValue),
    )
    .option("--effective-order", "ignore n-gram orders longer than the translations")
    .option("--chrf", "print chrF++ too");
  withCommonOptions(command).action(async (file: string, others: string[], options: BleuCommandOptions) => {
    const { tokenize, tokenizerModel, lowercase = false, smoothing, smoothingValue, effectiveOrder = false } = options;
    const hypotheses = await readLines(file);
    const references = await Promise.all(others.map((reference) => readLines(reference)));
    const settings: BleuOptions = {
      tokenize,
      lowercase,
      smoothing,
      effectiveOrder,
      ...(smoothingValue === undefined ? {} : { smoothingValue }),
      ...(tokenizerModel === undefined ? {} : { pieces: await loadPieces(tokenizerModel) }),
    };
    if (tokenize === "13a" && isUnspaced(references.flat())) {
      warn(
        "the references have hardly any spaces, and 13a splits at spaces; use --tokenize zh for Chinese, char for Japanese and Thai",
      );
    }
    const bleu = corpusBleu(hypotheses, references, settings);
    const chrf = options.chrf ? corpusChrf(hypotheses, references, { ...CHRF_PLUS_PLUS, lowercase }) : undefined;
    if (options.json) printJson({ ...bleu, ...(chrf ? { chrf } : {}) });
    else print([describeBleu(bleu), ...(chrf ? [describeChrf(chrf)] : [])]);
  });
}

/** Whether most letters belong to scripts without spaces between words. */
function isUnspaced(lines: readonly string[]): boolean {
  const text = lines.slice(0, 1000).join("");
  const letters = text.match(/\p{L}/gu)?.length ?? 0;
  const unspaced =
    text.match(/[\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Thai}\p{sc=Laoo}\p{sc=Khmr}\p{sc=Mymr}]/gu)?.length ?? 0;
  return unspaced > letters / 2;
}

function parseValue(text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !(value >= 0)) throw new InvalidArgumentError("It must be a number, 0 or more.");
  return value;
}

/** The line that sacreBLEU prints. */
function describeBleu(bleu: BleuScore): string {
  const { score, precisions, brevityPenalty, hypothesisLength, referenceLength, signature } = bleu;
  const ratio = referenceLength === 0 ? 0 : hypothesisLength / referenceLength;
  return (
    `BLEU|${signature} = ${score.toFixed(2)} ${precisions.map((one) => one.toFixed(1)).join("/")} ` +
    `(BP = ${brevityPenalty.toFixed(3)} ratio = ${ratio.toFixed(3)} hyp_len = ${hypothesisLength} ` +
    `ref_len = ${referenceLength})`
  );
}

function describeChrf({ name, signature, score }: ChrfScore): string {
  return `${name}|${signature} = ${score.toFixed(2)}`;
}
