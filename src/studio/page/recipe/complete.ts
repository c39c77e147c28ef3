// What may be written at a place of a recipe: fields of its method, their values, methods, and models.
import type { CompletionResult } from "@codemirror/autocomplete";
import type { Method } from "../../protocol/index.js";

interface Known {
  readonly methods: readonly Method[];
  readonly sources: readonly string[];
}

/** Fields whose values are models. */
const SOURCE_TYPE = "source";

/** Completions at an offset. @param isAsked whether the person asked for them, and has typed nothing */
export function completionsAt(
  text: string,
  at: number,
  isAsked: boolean,
  { methods, sources }: Known,
): CompletionResult | null {
  const line = text.slice(text.lastIndexOf("\n", at - 1) + 1, at);
  const [, name] = /^method:\s*["']?(\w+)/m.exec(text) ?? [];
  const method = methods.find((one) => one.name === name);
  const [, key, typed] = /^\s*(?:- )?(\w+):\s+(\S*)$/.exec(line) ?? [];
  if (key !== undefined && typed !== undefined) {
    const field = [...(method?.fields ?? []), ...(method?.entryFields ?? [])].find((one) => one.name === key);
    const options =
      key === "method"
        ? methods.map((one) => ({ label: one.name, detail: one.title, info: one.summary }))
        : key === "model" || field?.type === SOURCE_TYPE
          ? sources.map((label) => ({ label }))
          : (field?.choices ?? []).map((label) => ({ label }));
    return options.length > 0 ? { from: at - typed.length, options, validFor: /^\S*$/ } : null;
  }
  const [, indent = "", item = "", word = ""] = /^(\s*)(- )?(\w*)$/.exec(line) ?? [];
  if ((word === "" && !isAsked) || !/^(\s*)(- )?(\w*)$/.test(line)) return null;
  if (item !== "" && indent.length <= 2) {
    return { from: at - word.length, options: [...sources, "model: "].map((label) => ({ label })), validFor: /^\S*$/ };
  }
  const fields =
    indent === ""
      ? [{ name: "method", description: "merge method" }, ...(method?.fields ?? [])]
      : (method?.entryFields ?? []);
  const written = new Set([...text.matchAll(/^(\w+):/gm)].map(([, one]) => one));
  const options = fields
    .filter((field) => indent !== "" || !written.has(field.name))
    .map((field) => ({ label: field.name, apply: `${field.name}: `, info: field.description }));
  return options.length > 0 ? { from: at - word.length, options, validFor: /^\w*$/ } : null;
}
