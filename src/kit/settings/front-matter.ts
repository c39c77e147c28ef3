// The YAML at the head of a model's or a data set's card, as data of a stranger: bounded, and nothing where it is not valid.
import { RecipeError } from "../errors.js";
import { isObject } from "../json.js";
import { loadYaml } from "./settings-file.js";

/** Characters; a card's head has a few hundred. */
const MAX_CHARACTERS = 100_000;

/** The text between the first two lines of dashes, as the hub finds it: only white space may be before it. */
export function frontMatterText(card: string): string | undefined {
  const lines = card.replace("\uFEFF", "").split(/\r?\n/);
  const begin = lines.findIndex((line) => line.trim() !== "");
  const isFence = (line = "") => line.trim() === "---";
  const end = lines.findIndex((line, i) => i > begin && isFence(line));
  if (!isFence(lines[begin]) || end < 0) return undefined;
  const text = lines.slice(begin + 1, end).join("\n");
  return text.length > MAX_CHARACTERS ? undefined : text;
}

/** The fields at the head of a card; empty if there are none that can be read. */
export async function frontMatterOf(card: string): Promise<Readonly<Record<string, unknown>>> {
  const text = frontMatterText(card);
  if (text === undefined) return {};
  const { openSettings } = await loadYaml();
  try {
    const { value } = openSettings(text, "README.md", "PyYAML");
    return isObject(value) ? value : {};
  } catch (error) {
    if (error instanceof RecipeError) return {};
    throw error;
  }
}
