// A project of the studio as files: a base, two experts beside it, and the default swap of them as recipe `mine`.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { writeExample } from "../../src/demo/index.js";

/** Writes the example's models to `ROOT/world`, and a project of them to `ROOT/project`. */
export async function writeProjectOfWorld(root: string): Promise<void> {
  const at = (...names: string[]) => join(root, ...names);
  await writeExample(at("world"));
  mkdirSync(at("project", "recipes"), { recursive: true });
  const experts = ["math-expert", "swahili-expert"].map((name) => ({ name, source: at("world", name) }));
  const settings = { base: at("world", "base"), experts, recipe: "mine", prompts: [] };
  writeFileSync(at("project", "studio.json"), JSON.stringify({ revision: 1, settings }));
  const [task, language] = experts.map(({ source }) => source);
  writeFileSync(at("project", "recipes", "mine.yaml"), `method: swap\ntask: ${task}\nlanguage: ${language}\n`);
}
