// The container files, by the rules of hadolint that bear on them, as no Docker engine is needed here.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import manifest from "../package.json" with { type: "json" };
import { temporaryFolder } from "./support/checkpoints.js";
import { layergraft } from "./support/command.js";

const ROOT = join(import.meta.dirname, "..");
const read = (path: string) => readFileSync(join(ROOT, path), "utf8");
const SPACE = "examples/containers/space";

/** Instructions with their arguments; continued lines are joined. */
const instructionsOf = (file: string) =>
  read(file)
    .replace(/^#.*\n/gm, "")
    .replaceAll("\\\n", "")
    .split("\n")
    .flatMap((line) => {
      const [, name = "", rest = ""] = /^([A-Z]+) +(.*)$/.exec(line.replace(/ +/g, " ")) ?? [];
      return name === "" ? [] : [{ name, rest }];
    });

describe.each(["Dockerfile", `${SPACE}/Dockerfile`])("%s", (file) => {
  const all = instructionsOf(file);
  const stages = all.flatMap(({ name, rest }, at) => (name === "FROM" ? [{ at, rest }] : []));
  const aliases = stages.map(({ rest }) => rest.split(" AS ")[1] ?? "");
  const partsOf = (i: number) => all.slice((stages[i]?.at ?? 0) + 1, stages[i + 1]?.at);
  const runs = all.flatMap(({ name, rest }) => (name === "RUN" ? rest.split(" && ") : []));

  test("names the version of each image, and each stage once (DL3006, DL3007, DL3024)", () => {
    for (const { rest } of stages) expect(rest).toMatch(/^[a-z/-]+:\d[\w.-]* AS [a-z-]+$/);
    expect(new Set(aliases).size).toBe(stages.length);
  });

  test("copies only from stages before, and to folders that are set (DL3020 to DL3023, DL3045)", () => {
    expect(all.some(({ name }) => name === "ADD")).toBe(false);
    for (const [i] of stages.entries()) {
      for (const [at, { name, rest }] of partsOf(i).entries()) {
        if (name !== "COPY") continue;
        const from = /^--from=(\S+)/.exec(rest)?.[1];
        if (from !== undefined) expect(aliases.slice(0, i)).toContain(from);
        const paths = rest.split(" ").filter((word) => !word.startsWith("--"));
        expect(paths).toHaveLength(2);
        const isSet = partsOf(i)
          .slice(0, at)
          .some((before) => before.name === "WORKDIR");
        expect(paths[1]?.startsWith("/") || isSet).toBe(true);
      }
    }
  });

  test("ends as another user than root, with commands as lists (DL3000, DL3002, DL3025, DL4003, DL4004)", () => {
    for (const { name, rest } of all) {
      if (name === "WORKDIR") expect(rest).toMatch(/^\//);
      if (name === "CMD" || name === "ENTRYPOINT") expect(Array.isArray(JSON.parse(rest))).toBe(true);
    }
    for (const [i, alias] of aliases.entries()) {
      const parts = partsOf(i);
      expect(parts.filter(({ name }) => name === "CMD").length).toBeLessThan(2);
      if (!parts.some(({ name }) => name === "CMD")) continue;
      expect([alias, parts.findLast(({ name }) => name === "USER")?.rest]).toEqual([
        alias,
        expect.stringMatching(/^(node|user)$/),
      ]);
    }
  });

  test("pins packages, and leaves no lists of packages (DL3008, DL3009, DL3014 to DL3016, DL3059, DL4006)", () => {
    for (const command of runs.filter((run) => run.includes("apt-get install"))) {
      expect(command).toMatch(/^apt-get install --yes --no-install-recommends( [\w-]+=\S+)+$/);
      expect(runs).toContain("rm -rf /var/lib/apt/lists/*");
    }
    for (const command of runs.filter((run) => run.startsWith("npm install"))) {
      const packages = command
        .split(" ")
        .slice(2)
        .filter((word) => !word.startsWith("--"));
      for (const name of packages) expect(name).toMatch(/@\d|\.tgz$/);
      for (const name of packages) {
        const [, own, version] = /^([\w-]+)@(.*)$/.exec(name) ?? [];
        if (own === "layergraft") expect(version).toBe(manifest.version);
        if (own === "node-llama-cpp") expect(`^${version}`).toBe(manifest.peerDependencies["node-llama-cpp"]);
      }
    }
    expect(all.some(({ name }, i) => name === "RUN" && all[i + 1]?.name === "RUN")).toBe(false);
    expect(runs.filter((run) => /\b(sudo|ssh|wget|curl|cd)\b|\|/.test(run))).toEqual([]);
  });
});

test("the example of compose builds a target that there is, and runs a command that there is", async () => {
  const { services } = parse(read("examples/containers/compose.yaml"));
  const targets = instructionsOf("Dockerfile").flatMap(({ rest }) => / AS (.*)/.exec(rest)?.[1] ?? []);
  expect(targets).toContain(services.eval.build.target);
  expect(existsSync(join(ROOT, "examples/containers", services.eval.build.context, "Dockerfile"))).toBe(true);
  expect(services[Object.keys(services.eval.depends_on)[0] ?? ""].image).toMatch(/:v\d/);
  // Everything is right but the server, which does not run here.
  const command = services.eval.command.map((word: string) => word.replace("http://vllm:8000", "http://127.0.0.1:9"));
  const { status, stderr } = await layergraft(command, { cwd: temporaryFolder() });
  expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining("/v1/models does not answer") });
});

test("the Space has the header that the hub reads, and serves the port that it names", () => {
  const [, header = ""] = /^---\n([\s\S]*?)\n---\n/.exec(read(`${SPACE}/README.md`)) ?? [];
  const { sdk, app_port: port, license, colorFrom, colorTo, short_description: short } = parse(header);
  expect({ sdk, license }).toEqual({ sdk: "docker", license: "apache-2.0" });
  const colours = ["red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"];
  expect([colorFrom, colorTo].every((colour) => colours.includes(colour))).toBe(true);
  expect(short.length).toBeLessThanOrEqual(60);
  const instructions = instructionsOf(`${SPACE}/Dockerfile`);
  expect(instructions.find(({ name }) => name === "EXPOSE")?.rest).toBe(String(port));
  expect(instructions.at(-1)?.rest).toContain(`"${port}"`);
});
