// The server under clients that ask again as soon as they are answered: seconds to the first token, between tokens, and
// tokens per second, by how many clients there are; and the memory of several recipes of the same experts.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { DATA, LLAMA_125M, writeCheckpoint } from "./checkpoints.js";
import { CLI, describeMachine, median } from "./measure.js";

/** @typedef {{ url: string, pid: number, stop(): Promise<unknown> }} Served */
/** @typedef {{ first: number, gaps: number[], tokens: number }} Timing */

/** @param {string[]} args */
export async function benchmarkServe(args) {
  const { values } = parseArgs({
    args,
    options: {
      rounds: { type: "string", default: "3" },
      threads: { type: "string", default: "2" },
      clients: { type: "string", default: "1,2,4,8,16" },
      prompt: { type: "string", default: "64" },
      answer: { type: "string", default: "32" },
      recipes: { type: "string", default: "8" },
    },
  });
  const experts = [1, 2].map((seed) => {
    const folder = writeCheckpoint(join(DATA, `125m-served-${seed}`), LLAMA_125M, { seed });
    writeFileSync(join(folder, "tokenizer.json"), JSON.stringify(tokenizer()));
    return folder;
  });
  const [first = "", second = ""] = experts;
  const recipes = Array.from({ length: Number(values.recipes) }, (_, i) => {
    const path = join(DATA, `served-${i}.yaml`);
    const [bottom, top] = [1 + (i % 4), 1 + (i >> 2)];
    const models = `task: ${JSON.stringify(first)}\nlanguage: ${JSON.stringify(second)}\n`;
    writeFileSync(path, `method: swap\n${models}bottom: ${bottom}\ntop: ${top}\n`);
    return { name: `swap-${bottom}-${top}`, path };
  });
  console.log(`machine: ${describeMachine()}`);
  console.log(`model: Llama, 125M parameters, float32; ${values.threads} threads`);
  console.log(
    `requests: ${values.prompt} tokens, then ${values.answer} new ones; medians of ${values.rounds} rounds\n`,
  );
  const kinds = { packed: [first], shared: ["--model", `first=${first}`, `second=${second}`] };
  const counts = values.clients.split(",").map(Number);
  /** @type {Map<string, { first: number, gap: number, rate: number, cpu: number }[]>} */
  const results = new Map();
  for (let round = 0; round < Number(values.rounds); round++) {
    for (const [kind, sources] of Object.entries(kinds)) {
      const server = await serve([...sources, "--threads", values.threads, "--parallel", "8"]);
      for (const clients of counts) {
        const model = kind === "packed" ? undefined : "first";
        const found = await load(server, {
          clients,
          model,
          prompt: Number(values.prompt),
          answer: Number(values.answer),
        });
        if (round >= 0) results.set(`${kind} ${clients}`, [...(results.get(`${kind} ${clients}`) ?? []), found]);
      }
      await server.stop();
    }
  }
  for (const kind of Object.keys(kinds)) {
    for (const clients of counts) {
      const runs = results.get(`${kind} ${clients}`) ?? [];
      /** @param {"first" | "gap" | "rate" | "cpu"} field */
      const of = (field) => median(runs.map((run) => run[field]));
      console.log(
        `${kind.padEnd(7)} ${String(clients).padStart(3)} clients  first token ${of("first").toFixed(0).padStart(6)} ms  ` +
          `between tokens ${of("gap").toFixed(0).padStart(5)} ms  ${of("rate").toFixed(1).padStart(6)} tokens/s  ` +
          `${of("cpu").toFixed(0).padStart(4)} CPU ms per token`,
      );
    }
  }
  console.log("");
  for (const some of [0, 1, recipes.length]) {
    const named = recipes.slice(0, some).map(({ name, path }) => `${name}=${path}`);
    const server = await serve([
      "--model",
      `first=${first}`,
      `second=${second}`,
      ...named,
      "--threads",
      values.threads,
    ]);
    await load(server, { clients: 1, model: "first", prompt: 8, answer: 2 });
    console.log(`both experts and ${some} recipes: ${(residentBytes(server.pid) / 1e6).toFixed(0)} MB`);
    await server.stop();
  }
  const single = await serve([first, "--threads", values.threads]);
  await load(single, { clients: 1, model: undefined, prompt: 8, answer: 2 });
  console.log(`one expert alone, packed: ${(residentBytes(single.pid) / 1e6).toFixed(0)} MB`);
  await single.stop();
}

/** One word per id. */
function tokenizer() {
  const words = Array.from({ length: LLAMA_125M.vocabulary }, (_, id) => `w${id}`);
  return {
    version: "1.0",
    added_tokens: [],
    pre_tokenizer: { type: "Whitespace" },
    model: { type: "WordLevel", vocab: Object.fromEntries(words.map((word, id) => [word, id])), unk_token: "w0" },
  };
}

/** @param {string[]} args @returns {Promise<Served>} */
async function serve(args) {
  const child = spawn(process.execPath, [CLI, "serve", ...args, "--port", "0", "--json", "--quiet"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [line] = /** @type {Buffer[]} */ (await once(child.stdout, "data"));
  const { url } = JSON.parse(String(line));
  return {
    url,
    pid: child.pid ?? 0,
    stop: () => {
      child.kill();
      return once(child, "exit");
    },
  };
}

/**
 * Each client asks twice.
 * @param {Served} server
 * @param {{ clients: number, model: string | undefined, prompt: number, answer: number }} options
 */
async function load({ url, pid }, { clients, model, prompt, answer }) {
  const cpu = cpuMilliseconds(pid);
  const start = performance.now();
  const perClient = await Promise.all(
    Array.from({ length: clients }, async (_, client) => {
      const timings = [];
      for (let turn = 0; turn < 2; turn++) {
        const ids = Array.from({ length: prompt }, (__, i) => (client * 7919 + turn * 104729 + i * 31) % 32000);
        timings.push(await ask(url, { model, prompt: ids, max_tokens: answer, temperature: 0, stream: true }));
      }
      return timings;
    }),
  );
  const timings = perClient.flat();
  const tokens = timings.reduce((sum, one) => sum + one.tokens, 0);
  return {
    first: median(timings.map((one) => one.first)),
    gap: median(timings.flatMap(({ gaps }) => gaps)),
    rate: (1000 * tokens) / (performance.now() - start),
    cpu: (cpuMilliseconds(pid) - cpu) / tokens,
  };
}

/** @param {string} url @param {object} body @returns {Promise<Timing>} */
async function ask(url, body) {
  const start = performance.now();
  const reply = await fetch(`${url}/v1/completions`, { method: "POST", body: JSON.stringify(body) });
  if (!reply.ok || !reply.body) throw new Error(await reply.text());
  /** @type {number[]} */
  const times = [];
  for await (const chunk of reply.body) {
    const events =
      Buffer.from(chunk)
        .toString("utf8")
        .match(/"text":"[^"]+"/g)?.length ?? 0;
    for (let i = 0; i < events; i++) times.push(performance.now());
  }
  const gaps = times.slice(1).map((time, i) => time - (times[i] ?? 0));
  return { first: (times[0] ?? Number.NaN) - start, gaps, tokens: times.length };
}

/** User and system time so far; 0 where the system does not have /proc. @param {number} pid */
function cpuMilliseconds(pid) {
  try {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8")
      .replace(/^.*\) /s, "")
      .split(" ");
    return 10 * (Number(fields[11]) + Number(fields[12]));
  } catch {
    return 0;
  }
}

/** @param {number} pid */
function residentBytes(pid) {
  try {
    return 1024 * Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]);
  } catch {
    return Number.NaN;
  }
}
