// Arrow files and the folders of `Dataset.save_to_disk`, which are not read: what the datasets library converts them with.
import { join } from "node:path";
import { exists, readJsonObject } from "../../../kit/files/index.js";
import { shellQuote } from "../../../kit/printing/index.js";
import { DataError } from "./row.js";

/** `ARROW1` of a file, and the mark of a message's start in a stream, which datasets writes. */
export const ARROW_MARKS: readonly (readonly number[])[] = [
  [0x41, 0x52, 0x52, 0x4f, 0x57, 0x31],
  [0xff, 0xff, 0xff, 0xff],
];

export const isArrowName = (name: string) => /\.arrow$/i.test(name);

/** Splits that `DatasetDict.save_to_disk` wrote; undefined for another folder. */
async function splitsOf(folder: string): Promise<readonly string[] | undefined> {
  const file = join(folder, "dataset_dict.json");
  if (!(await exists(file))) return undefined;
  const { splits } = await readJsonObject(file);
  return Array.isArray(splits) ? splits.map(String) : [];
}

const advice = (load: string, path: string) => {
  const to = `${path.replace(/(?<=.)[/\\]+$/, "").replace(/\.arrow$/i, "")}.parquet`;
  const python = `from datasets import Dataset, load_from_disk; ${load}.to_parquet(${JSON.stringify(to)})`;
  return `Arrow is not read. Convert it in Python, and pass ${to}: python -c ${shellQuote(python)}`;
};

/** A file that is Arrow. */
export function arrowFile(path: string): DataError {
  const load = `Dataset.from_file(${JSON.stringify(path)})`;
  return new DataError(`${path} is an Arrow file of the datasets library. ${advice(load, path)}`, { file: path });
}

/** A folder with Arrow files and no data that is read. */
export async function arrowFolder(path: string): Promise<DataError> {
  const splits = await splitsOf(path);
  const split = splits?.find((name) => name === "train") ?? splits?.[0];
  const load = `load_from_disk(${JSON.stringify(path)})${split === undefined ? "" : `[${JSON.stringify(split)}]`}`;
  const which = splits && splits.length > 1 ? ` with the splits ${splits.join(", ")}` : "";
  return new DataError(
    `${path} is a folder of Arrow files, as save_to_disk of the datasets library writes it${which}. ${advice(load, path)}`,
    { file: path },
  );
}
