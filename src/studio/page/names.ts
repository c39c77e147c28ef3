import { expert } from "../protocol/index.js";

/** A name for a source that no other expert has: its last folder, without what names cannot have. */
export function nameFor(source: string, taken: readonly string[]): string {
  const last = source.split(/[/\\]+/).findLast((part) => part !== "") ?? "";
  const clean = last
    .replace(/[^\p{L}\p{N} _-]+/gu, "-")
    .replace(/^[^\p{L}\p{N}]+/u, "")
    .slice(0, 60)
    .trim();
  const first = clean === "" ? "expert" : clean;
  for (let i = 1; ; i++) {
    const name = i === 1 ? first : `${first}-${i}`;
    if (nameProblem(name, taken) === undefined) return name;
  }
}

/** The paths or names of models in a text that was pasted: one a line, or after spaces where each begins as a path does. */
export const pathsIn = (text: string): string[] =>
  text
    .split(/[\r\n]+|\s+(?=["']?(?:~?[/\\]|[A-Za-z]:[/\\]))/)
    .map((one) => one.trim().replace(/^(["'])(.*)\1$/, "$2"))
    .filter((one) => one !== "");

/** Why an expert cannot have a name; undefined if it can. */
export function nameProblem(name: string, taken: readonly string[]): string | undefined {
  if (name === "") return "Enter a name.";
  if (name === "base") return "base is a reserved name.";
  if (taken.includes(name)) return `Another expert is called ${name}.`;
  // analyze reads a.b as the source b within a.
  const other = taken.find((one) => one.startsWith(`${name}.`) || name.startsWith(`${one}.`));
  if (other !== undefined) return `${name} and ${other} differ only after a dot.`;
  return expert.shape.name.safeParse(name).success ? undefined : "Use letters, digits, spaces, - and _.";
}
