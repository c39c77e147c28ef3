// What a page of another origin, a wrong token, or a project by strangers can do to the studio: nothing.
// @module-tag slow
import { execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { request } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { type Studio, startStudio } from "../../src/studio/index.js";
import { temporaryFolder, writeTiny } from "../support/checkpoints.js";

const root = temporaryFolder();
const at = (...names: string[]) => join(root, ...names);
let studio: Studio;
let [origin, token] = ["", ""];
const bugs: unknown[] = [];

beforeAll(async () => {
  studio = await startStudio({ folder: at("project"), port: 0, onBug: (error) => bugs.push(error) });
  ({ origin } = new URL(studio.url));
  token = new URL(studio.url).hash.replace("#token=", "");
});
afterAll(async () => {
  await studio.close();
  expect(bugs).toEqual([]);
});

interface Reply {
  readonly status: number;
  readonly body: string;
}

/** Sends what no browser would. */
function send(path: string, body: string | undefined, headers: Record<string, string> = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(origin, { path, method: body === undefined ? "GET" : "POST", headers }, (reply) => {
      let text = "";
      reply.on("data", (part) => (text += part));
      reply.on("end", () => resolve({ status: reply.statusCode ?? 0, body: text }));
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
const call = (name: string, input: unknown, headers: Record<string, string> = {}) =>
  send(`/api/${name}`, JSON.stringify(input), { authorization: `Bearer ${token}`, ...headers });
const messageOf = ({ body }: Reply) => (JSON.parse(body) as { error: { message: string } }).error.message;

/** Runs a job to its end. */
const done = async (kind: string, input: object) => {
  const { id } = JSON.parse((await call("job.start", { kind, input })).body) as { id: string };
  for (;;) {
    const jobs = JSON.parse((await call("job.list", {})).body) as { id: string; state: string; error: string }[];
    const job = jobs.find((one) => one.id === id);
    if (job?.state !== "running") return job;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
};

it("forgets the streams of a connection that closes, with those that wait behind others on it", async () => {
  const [set, clear] = [vi.spyOn(globalThis, "setInterval"), vi.spyOn(globalThis, "clearInterval")];
  const heartbeats = () =>
    set.mock.results.flatMap(({ value }, i) => (set.mock.calls[i]?.[1] === 15_000 ? [value] : []));
  const { host, hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => undefined);
  socket.write(`GET /api/events HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n\r\n`.repeat(3));
  await vi.waitFor(() => expect(heartbeats()).toHaveLength(3));
  expect(clear).not.toHaveBeenCalled();
  socket.destroy();
  await vi.waitFor(() => expect(clear.mock.calls.map(([timer]) => timer)).toEqual(heartbeats()));
  vi.restoreAllMocks();
});

it("a client that leaves in the middle of a request is no bug", async () => {
  const { port } = new URL(origin);
  const sent = request({
    port,
    method: "POST",
    path: "/api/job.list",
    headers: { authorization: `Bearer ${token}`, "content-length": 100 },
  });
  sent.on("error", () => undefined);
  sent.write("{");
  await new Promise((resolve) => setTimeout(resolve, 50));
  sent.destroy();
  expect((await call("job.list", {})).status).toBe(200);
});

describe("the door", () => {
  it.each([
    ["no token", {}],
    ["a wrong token", { authorization: `Bearer ${"x".repeat(43)}` }],
    ["a token in another scheme", { authorization: "Basic x" }],
  ])("is closed with %s", async (_, headers) => {
    for (const path of ["/api/project.read", "/api/job.list"])
      expect((await send(path, "{}", headers)).status).toBe(401);
    expect((await send("/api/events", undefined, headers)).status).toBe(401);
  });

  it("is closed to pages of other origins, even with the token", async () => {
    const reply = await call("project.read", {}, { origin: "http://evil.example" });
    expect([reply.status, messageOf(reply)]).toEqual([403, expect.stringContaining("origin")]);
    expect((await call("project.read", {}, { origin })).status).toBe(200);
  });

  it("has no token in the page, and a policy that lets in nothing else", async () => {
    const page = await fetch(`${origin}/`);
    expect(await page.text()).not.toContain(token);
    const policy = page.headers.get("content-security-policy") ?? "";
    expect(policy).toMatch(/^default-src 'none'; script-src 'self'; style-src 'self';/);
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).not.toMatch(/script-src[^;]*unsafe/);
  });
});

describe("paths", () => {
  const TRAVERSALS = ["../x", "..", "a/b", "a\\b", "/etc/passwd", "a\0b", ".hidden", "", "x".repeat(101)];

  it("of recipes stay in the project", async () => {
    for (const name of TRAVERSALS) {
      for (const [operation, input] of [
        ["recipe.read", { name }],
        ["recipe.write", { name, text: "", version: null }],
        ["recipe.remove", { name }],
        ["recipe.experiment", { name, task: "quiz", force: true }],
        [
          "job.start",
          { kind: "merge", input: { recipe: name, out: "x", resume: false, force: false, allowUnrelated: false } },
        ],
      ] as const) {
        expect([operation, name, (await call(operation, input)).status]).toEqual([operation, name, 400]);
      }
    }
    expect(readdirSync(root)).toEqual(["project"]);
    expect(readdirSync(at("project", "recipes"))).toEqual([]);
  });

  it("of models and folders have no NUL, and no more characters than a path", async () => {
    const start = (input: object) => ["job.start", { kind: "evaluate", input }] as const;
    const given = { models: [{ name: "one", source: "one" }], tasks: ["quiz"] };
    for (const bad of ["a\0b", "x".repeat(4097)]) {
      for (const [operation, input] of [
        ["browse", { folder: bad }],
        ["inspect", { source: bad, base: null }],
        ["project.change", { revision: 0, change: { base: bad } }],
        start({ ...given, tasks: [bad] }),
        start({ ...given, data: `\0${bad}` }),
        start({ ...given, models: [{ name: "one", source: bad }] }),
      ] as const) {
        expect([operation, (await call(operation, input)).status]).toEqual([operation, 400]);
      }
    }
  });

  it("of jobs are only looked up", async () => {
    for (const id of ["../../studio.json", "..", "x", "__proto__"]) {
      for (const operation of ["job.result", "job.cancel"]) {
        expect((await call(operation, { id })).status).toBe(400);
      }
    }
  });

  it("of the page are only looked up", async () => {
    for (const path of [
      "/../package.json",
      "/%2e%2e/package.json",
      "/assets/../../main.js",
      "//etc/passwd",
      ...["//", "///", "/\\", "//[", "//user:pass@host:99999/", "http://[", "*"],
      "/index.html/",
    ]) {
      expect([path, (await send(path, undefined)).status]).toEqual([path, 404]);
    }
  });
});

describe("input", () => {
  it("of unknown operations and wrong shapes is refused", async () => {
    for (const name of ["x", "__proto__", "constructor", "toString", "project.read/", "events"]) {
      expect([name, (await call(name, {})).status]).toEqual([name, 404]);
    }
    for (const body of ["", "{", "[]", "null", '{"a":1}', "[".repeat(100_000)]) {
      const reply = await send("/api/project.read", body, { authorization: `Bearer ${token}` });
      expect([body.slice(0, 9), reply.status]).toEqual([body.slice(0, 9), 400]);
    }
  });

  it("of many megabytes is refused, and the server goes on", async () => {
    const text = "x".repeat(5_000_000);
    const reply = await call("recipe.check", { text }).catch(() => ({ status: 413, body: "" }));
    expect(reply.status).toBe(413);
    expect((await call("recipe.check", { text: "x".repeat(900_000) })).status).toBe(200);
    expect((await call("project.read", {})).status).toBe(200);
  });

  it("of deep and repeating YAML is a problem at its line", async () => {
    const deep = `a: ${"[".repeat(500)}`;
    const bomb = `a: &a [x, x]\n${Array.from({ length: 30 }, (_, i) => `b${i}: &b${i} [*a, *a]`).join("\n")}`;
    for (const text of [deep, bomb, "method: swap\n---\nmethod: soup", "\0", "method: __proto__"]) {
      const { status, body } = await call("recipe.check", { text });
      const { problems, plan } = JSON.parse(body) as { problems: unknown[]; plan: unknown };
      expect([status, problems.length > 0, plan]).toEqual([200, true, null]);
    }
  });
});

describe("plans by strangers", () => {
  const EVIL = "<img src=x onerror=alert(1)>";
  const plan = (more: string) => `name: evil\nbase: nowhere\n${more}\nevaluate: { tasks: [quiz] }\n`;
  const listed = async () =>
    JSON.parse((await call("experiment.list", {})).body) as { plan: string; name: string; problem: string | null }[];
  const read = (name: string) => call("experiment.read", { plan: name, version: null });

  it("stay in the project", async () => {
    for (const name of ["../x.yaml", "a/../../x.yaml", "/etc/x.yaml", "..\\x.yaml", "x\0.yaml", "studio.json", ""]) {
      for (const [operation, input] of [
        ["experiment.read", { plan: name, version: null }],
        ["experiment.recipe", { plan: name, id: "x" }],
        ["job.start", { kind: "experiment", input: { plan: name, planDigest: "" } }],
      ] as const) {
        expect([operation, name, (await call(operation, input)).status]).toEqual([operation, name, 400]);
      }
    }
  });

  it("that are broken, huge or have names of markup are listed or left out, and none of them stops the others", async () => {
    const bomb = `a: &a [x, x]\n${Array.from({ length: 30 }, (_, i) => `b${i}: &b${i} [*a, *a]`).join("\n")}`;
    const files = {
      "evil.yaml": plan(`title: "${EVIL}"`),
      "broken.yaml": plan("merges: ["),
      "bomb.yaml": plan(bomb),
      "wrong.yaml": plan("executor: 7"),
      "huge.yaml": plan(`notes: ${"x".repeat(2_000_000)}`),
      "recipe.yaml": "method: soup\n",
      "wide.yaml": plan(`experts:\n${Array.from({ length: 11_000 }, (_, i) => `  e${i}: {}`).join("\n")}`),
    };
    for (const [name, text] of Object.entries(files)) writeFileSync(at("project", name), text);
    mkdirSync(at("project", "folder.yaml"));
    symlinkSync("/dev/zero", at("project", "endless.yaml"));
    const found = new Map((await listed()).map((one) => [one.plan, one]));
    expect([...found.keys()]).toEqual(["bomb.yaml", "broken.yaml", "evil.yaml", "wide.yaml", "wrong.yaml"]);
    expect(found.get("evil.yaml")).toMatchObject({ name: EVIL, problem: null });
    for (const name of ["bomb.yaml", "broken.yaml", "wide.yaml", "wrong.yaml"]) {
      expect(found.get(name)?.problem).toMatch(/./);
      const reply = await read(name);
      expect([name, reply.status, messageOf(reply).length < 20_000]).toEqual([name, 400, true]);
    }
    const { problems, title } = JSON.parse((await read("evil.yaml")).body) as Record<string, unknown>;
    expect([title, problems]).toEqual([EVIL, [expect.stringContaining("nowhere"), expect.anything()]]);
  });

  it("say which programs they start before they run", async () => {
    const text = (backend: string) =>
      plan(
        [
          "title: programs",
          "training: { swift: { engine: trl, trl: { python: /tmp/evil } } }",
          "experts: { one: { role: task, train: { like: swift, run: { data: x.jsonl } } } }",
          "executor: { kind: slurm, options: [--wrap=evil], setup: curl evil.example }",
        ].join("\n"),
      ).replace("tasks: [quiz]", `tasks: [quiz], backend: "serve:${backend} {model} {port}", allow_code: true`);
    const programs = async () =>
      (JSON.parse((await read("programs.yaml")).body) as { programs: { when: string; what: string }[] }).programs;
    writeFileSync(at("project", "programs.yaml"), text("rm -rf \\e[8m~"));
    expect(await programs()).toEqual([
      { when: "For each model", what: "rm -rf \u241b[8m~ {model} {port}" },
      { when: "For each answer", what: "programs that models write, in a sandbox" },
      { when: "For training", what: "/tmp/evil" },
      { when: "For jobs", what: "sbatch --wrap=evil" },
      { when: "Before each job's step", what: "curl evil.example" },
    ]);
    writeFileSync(at("project", "programs.yaml"), text("x".repeat(5000)));
    expect((await programs())[0]?.what).toMatch(/^x{4000}… \(1015 more characters are in the plan\)$/);
    rmSync(at("project", "programs.yaml"));
    expect(JSON.parse((await read("evil.yaml")).body)).toMatchObject({ programs: [] });
  });

  it("start no program that was put in after they were shown", async () => {
    const file = at("project", "later.yaml");
    const serving = (command: string) =>
      plan("").replace("tasks: [quiz]", `tasks: [quiz], backend: "serve:${command} {model} {port}"`);
    writeFileSync(file, serving("shown"));
    const shown = JSON.parse((await read("later.yaml")).body) as { planDigest: string; programs: object };
    expect(shown.programs).toEqual([{ when: "For each model", what: "shown {model} {port}" }]);
    const started = { plan: "later.yaml", planDigest: shown.planDigest };
    writeFileSync(file, serving("hidden"));
    expect(await done("experiment", started)).toMatchObject({
      state: "failed",
      error: "later.yaml was changed since the page read it. Check what it starts, then run it again.",
    });
    writeFileSync(file, serving("shown"));
    expect((await done("experiment", started))?.error).toMatch(/nowhere/);
    rmSync(file);
  });

  it("with broken results and reports are described", async () => {
    const folder = at("project", "evil.experiment");
    mkdirSync(join(folder, "steps", "evaluate-x"), { recursive: true });
    writeFileSync(join(folder, "steps", "index.txt"), "../../../etc  x\nevaluate-x  y\n");
    writeFileSync(join(folder, "steps", "evaluate-x", "result.json"), "{");
    writeFileSync(join(folder, "steps", "evaluate-x", "attempt.json"), "x".repeat(100_000));
    mkdirSync(join(folder, "report"));
    writeFileSync(join(folder, "report", "index.html"), "<script>top.location = 'http://evil.example'</script>");
    expect((await listed()).find((one) => one.plan === "evil.yaml")).toMatchObject({ steps: { done: 1, known: 1 } });
    const { reportUrl } = JSON.parse((await read("evil.yaml")).body) as { reportUrl: string };
    const report = await fetch(`${origin}${reportUrl}`);
    // A sandbox without allow-same-origin: no storage, so no token; and no connection.
    const policy = report.headers.get("content-security-policy");
    expect(policy).toMatch(/^sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; /);
    expect((await fetch(`${origin}/report/${"x".repeat(32)}`)).status).toBe(404);
  });
});

describe("models and projects by strangers", () => {
  it("with 10,000 layers in the configuration are described or refused", async () => {
    const folder = await writeTiny(at("models", "deep"));
    const config = JSON.parse(readFileSync(join(folder, "config.json"), "utf8")) as object;
    writeFileSync(join(folder, "config.json"), JSON.stringify({ ...config, num_hidden_layers: 10_000 }));
    const { status, body } = await call("inspect", { source: folder, base: null });
    if (status === 200) expect((JSON.parse(body) as { layers: number }).layers).toBeLessThan(100);
    else expect([status, messageOf({ status, body })]).toEqual([400, expect.stringMatching(/layers/)]);
  });

  it("with names of markup are shown as text", async () => {
    const name = "<img src=x onerror=alert(1)>";
    mkdirSync(at("models", name));
    const { body } = await call("browse", { folder: at("models") });
    expect((JSON.parse(body) as { entries: { name: string }[] }).entries.map((entry) => entry.name)).toContain(name);
    const experts = [{ name, source: at("models", name) }];
    const reply = await call("project.change", { revision: 0, change: { experts } });
    expect([reply.status, messageOf(reply)]).toEqual([400, expect.stringContaining("name")]);
  });

  it("that are exports for other programs are told from models", async () => {
    for (const name of ["graphs", "both"]) {
      mkdirSync(at("exports", name, "onnx"), { recursive: true });
      writeFileSync(at("exports", name, "config.json"), "{}");
    }
    writeFileSync(at("exports", "both", "model.safetensors"), "");
    const { entries } = JSON.parse((await call("browse", { folder: at("exports") })).body) as { entries: unknown };
    expect(entries).toEqual([
      { name: "both", kind: "model" },
      { name: "graphs", kind: "onnx" },
    ]);
  });

  it("with names that no recipe has, and pipes for recipes, are read without them", async () => {
    const recipe = (name: string) => at("project", "recipes", name);
    writeFileSync(recipe("-odd (2).yaml"), "");
    writeFileSync(recipe("good.yaml"), "");
    execFileSync("mkfifo", [recipe("pipe.yaml")]);
    expect(JSON.parse((await call("project.read", {})).body)).toMatchObject({ recipes: ["good", "pipe"] });
    const reply = await call("recipe.read", { name: "pipe" });
    expect([reply.status, messageOf(reply)]).toEqual([400, expect.stringMatching(/is not a file/)]);
  });

  it("with links out of the project are read without what they lead to", async () => {
    const recipe = (name: string) => at("project", "recipes", `${name}.yaml`);
    writeFileSync(at("secret.yaml"), "method: soup\nmodels: [secret]\n");
    symlinkSync(at("secret.yaml"), recipe("linked"));
    symlinkSync("/dev/zero", recipe("endless"));
    const leadsOut = expect.stringMatching(/^\S+(linked|endless)\.yaml leads out of the project\. Replace the link/);
    for (const name of ["linked", "endless"]) {
      for (const [operation, input] of [
        ["recipe.read", { name }],
        ["recipe.write", { name, text: "mine", version: null }],
        ["recipe.experiment", { name, task: "quiz", force: true }],
      ] as const) {
        const reply = await call(operation, input);
        expect([operation, reply.status, messageOf(reply)]).toEqual([operation, 400, leadsOut]);
      }
      const output = { out: "x", resume: false, force: false };
      const merged = await done("merge", { recipe: name, ...output, allowUnrelated: false });
      expect(merged).toMatchObject({ state: "failed", error: leadsOut });
      const exported = await done("export", { recipe: name, type: "f16", ...output });
      expect(exported).toMatchObject({ state: "failed", error: leadsOut });
    }
    writeFileSync(recipe("good"), "");
    // Within the project a link is as good as a file, and a link is removed without its target.
    symlinkSync(recipe("good"), recipe("alias"));
    expect((await call("recipe.read", { name: "alias" })).status).toBe(200);
    for (const name of ["linked", "endless", "alias"]) await call("recipe.remove", { name });
    expect(readFileSync(at("secret.yaml"), "utf8")).toMatch(/secret/);

    writeFileSync(at("outside.yaml"), "name: out\nbase: nowhere\nevaluate: { tasks: [quiz] }\n");
    symlinkSync(at("outside.yaml"), at("project", "linked.yaml"));
    const plan = await call("experiment.read", { plan: "linked.yaml", version: null });
    expect([plan.status, messageOf(plan)]).toEqual([
      400,
      expect.stringMatching(/linked\.yaml leads out of the project/),
    ]);
    expect(await done("experiment", { plan: "linked.yaml", planDigest: "" })).toMatchObject({ state: "failed" });
    rmSync(at("project", "linked.yaml"));
  });

  it("whose folder of recipes leads out are not opened", async () => {
    for (const name of ["recipes", ".layergraft-studio"]) {
      mkdirSync(at(`${name} elsewhere`));
      mkdirSync(at(`${name} linked`));
      symlinkSync(at(`${name} elsewhere`), at(`${name} linked`, name));
      const opened = startStudio({ folder: at(`${name} linked`), port: 0, onBug: () => undefined });
      await expect(opened).rejects.toThrow(new RegExp(`${name} leads out of the project`));
      expect(readdirSync(at(`${name} elsewhere`))).toEqual([]);
    }
  });

  it("with settings that someone edits are read again, and never overwritten with older ones", async () => {
    const file = at("project", "studio.json");
    const settings = { base: "by hand", experts: [], recipe: null, prompts: [] };
    writeFileSync(file, JSON.stringify({ revision: 7, settings }));
    expect((await call("project.change", { revision: 0, change: { recipe: "x" } })).status).toBe(409);
    expect((await call("project.change", { revision: 7, change: { recipe: "x" } })).status).toBe(200);
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({
      revision: 8,
      settings: { ...settings, recipe: "x" },
    });
    writeFileSync(file, "{");
    for (const [operation, input] of [
      ["project.read", {}],
      ["project.change", { revision: 8, change: { recipe: "y" } }],
    ] as const) {
      expect(messageOf(await call(operation, input))).toMatch(/studio.json is not a project of the studio. Fix it,/);
    }
    expect(readFileSync(file, "utf8")).toBe("{");
  });

  it("that are moved away while they are open are not made again", async () => {
    const { url, close } = await startStudio({ folder: at("moved"), port: 0, onBug: (error) => bugs.push(error) });
    const authorization = `Bearer ${new URL(url).hash.replace("#token=", "")}`;
    renameSync(at("moved"), at("elsewhere"));
    for (const [operation, input] of [
      ["project.read", {}],
      ["project.change", { revision: 0, change: { recipe: "x" } }],
      ["recipe.write", { name: "x", text: "", version: null }],
      ["experiment.list", {}],
      [
        "job.start",
        { kind: "merge", input: { recipe: "x", out: "x", resume: false, force: false, allowUnrelated: false } },
      ],
    ] as const) {
      const sent = { method: "POST", headers: { authorization }, body: JSON.stringify(input) };
      const body = await (await fetch(`${new URL(url).origin}/api/${operation}`, sent)).text();
      expect([operation, messageOf({ status: 0, body })]).toEqual([
        operation,
        expect.stringMatching(/does not exist$/),
      ]);
    }
    expect(existsSync(at("moved"))).toBe(false);
    await close();
  });

  it("that are no projects are not opened", async () => {
    mkdirSync(at("foreign"));
    for (const text of ["{", "[]", '{"revision":-1}', "x".repeat(6_000_000)]) {
      writeFileSync(at("foreign", "studio.json"), text);
      await expect(startStudio({ folder: at("foreign"), port: 0, onBug: () => {} })).rejects.toThrow(
        /is not a project of the studio/,
      );
      expect(readFileSync(at("foreign", "studio.json"), "utf8")).toBe(text);
    }
    truncateSync(at("foreign", "studio.json"), 2 ** 30);
    await expect(startStudio({ folder: at("foreign"), port: 0, onBug: () => {} })).rejects.toThrow(/is not a project/);
    await expect(startStudio({ folder: at("project"), port: 0, onBug: () => {} })).rejects.toThrow();
  });
});
