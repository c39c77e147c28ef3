// Entry of the process that decodes a parquet file. It sends a part when it is asked for one.
import { answerQuestions, endWithParent } from "../../../kit/index.js";
import { decodeParquet } from "./parquet.js";
import type { FilePart, FileReader } from "./row.js";

let parts: FileReader | undefined;

const ANSWERS = {
  open({ file, columns }: { readonly file: string; readonly columns: readonly string[] | undefined }): void {
    parts = decodeParquet(file, columns);
  },
  /** Undefined at the end. */
  async next(): Promise<FilePart | undefined> {
    return (await parts?.next())?.value ?? undefined;
  },
};
export type ParquetAnswers = typeof ANSWERS;

answerQuestions(ANSWERS);
endWithParent();
