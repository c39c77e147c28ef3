// The miniature from nothing to its table: trains a base and pairs of experts, analyses where they changed, answers held-out
// problems from every merge without writing one. What was done is kept, so that a stopped run goes on.
import { createHash } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join, relative } from "node:path";
import { type Analysis, analyzeExperts } from "../../analysis/index.js";
import { openCheckpoint, parameterCount } from "../../checkpoint/index.js";
import { OutputError } from "../../core/errors.js";
import { exists, readJsonObject, writeFileAtomically } from "../../core/files.js";
import { openEngine } from "../../engine/index.js";
import { type Contestant, contestants } from "./methods.js";
import { type ModelKind, RECIPES, trainModel } from "./models.js";
import { PLAN_FILES, writePlan } from "./plan.js";
import { heldOutProblems, type Problem } from "./problems.js";
import { type Answered, answerProblems } from "./scoring.js";

export interface DemoOptions {
  /** Folder for everything that is made. */
  readonly out: string;
  /** Decides the world's problems, first weights and data. Default 0. */
  readonly seed?: number;
  /** Experts of each kind; all pairs of them are merged. Default 1. */
  readonly pairs?: number;
  /** A twentieth of the steps and a fifth of the problems: shows that everything runs, not that it works. Default false. */
  readonly quick?: boolean;
  /** Threads of the computation. Default 1: models so small are slower with more. */
  readonly threads?: number;
  /** Go on with what a stopped run left. */
  readonly resume?: boolean;
  /** Replace what an earlier run left. */
  readonly force?: boolean;
  readonly signal?: AbortSignal | undefined;
  readonly onProgress?: ((progress: DemoProgress) => void) | undefined;
}

export interface DemoProgress {
  /** What is being done, such as "training the base". */
  readonly phase: string;
  readonly done: number;
  readonly total: number;
  /** Such as the loss. */
  readonly detail: string;
  /** Phases done and all phases, for the time left. */
  readonly phaseIndex: number;
  readonly phases: number;
}

/** Answers of one contestant of one pair. */
export interface PairResult {
  readonly name: string;
  readonly kind: Contestant["kind"];
  readonly family?: string;
  /** Numbers of the experts, from 1. */
  readonly math: number;
  readonly language: number;
  readonly swahili: readonly Answered[];
  readonly english: readonly Answered[];
  /** Swahili, on the problems for choosing configurations. */
  readonly development: readonly Answered[];
}

export interface DemoResult {
  readonly seed: number;
  readonly pairs: number;
  readonly results: readonly PairResult[];
  readonly analysis: Analysis;
  /** Of each model. */
  readonly parameters: number;
  /** Seconds of each phase, of this run and of those that it went on from. */
  readonly seconds: Readonly<Record<string, number>>;
}

const SETTINGS = "demo.json";
const TIMES = "times.json";
/** What a demo and its report leave in their folder. */
const OWN =
  /^(base|base-untrained|(math|language|joint)-\d+|answers|(demo|times|results)\.json(\.[0-9a-f]+\.tmp)?|heatmap\.(svg|png)|index\.html)$/;

/**
 * Runs the miniature. The result depends on seed and pairs alone.
 * @throws {OutputError} if the folder holds something else, or another run
 * @throws {CancelledError} if the signal fires; `resume` goes on
 */
export async function runDemo(options: DemoOptions): Promise<DemoResult> {
  await prepare(options);
  return new Demo(options).run();
}

async function prepare({ out, seed = 0, pairs = 1, quick = false, resume, force }: DemoOptions): Promise<void> {
  const settings = { seed, pairs, quick };
  const file = join(out, SETTINGS);
  const saved = (await exists(file)) ? await readJsonObject(file) : undefined;
  const isDemo = saved !== undefined && Object.keys(settings).every((name) => name in saved);
  if (isDemo && !force) {
    if (!resume) {
      throw new OutputError(
        `${out} holds a demo already; go on with it (--resume), replace it (--force), or give another --out`,
        { file: out },
      );
    }
    if (JSON.stringify(saved) !== JSON.stringify(settings)) {
      throw new OutputError(
        `${out} holds a demo with the settings ${JSON.stringify(saved)}, and this one has ${JSON.stringify(settings)}; give those, or another --out`,
        { file: out },
      );
    }
    return;
  }
  if (!isDemo && (await exists(out)) && (await readdir(out)).length > 0) {
    throw new OutputError(`${out} is not empty and holds no demo; give another --out`, { file: out });
  }
  if (isDemo) {
    for (const name of await readdir(out)) {
      if (OWN.test(name) || PLAN_FILES.includes(name)) await rm(join(out, name), { recursive: true, force: true });
    }
  }
  await mkdir(out, { recursive: true });
  await writeFileAtomically(file, `${JSON.stringify(settings, null, 2)}\n`);
}

class Demo {
  readonly #options: DemoOptions;
  readonly #seed: number;
  readonly #pairs: number;
  readonly #phases: number;
  readonly #problems: { readonly test: readonly Problem[]; readonly development: readonly Problem[] };
  #phase = 0;
  #seconds: Record<string, number> = {};

  constructor(options: DemoOptions) {
    this.#options = options;
    this.#seed = options.seed ?? 0;
    this.#pairs = options.pairs ?? 1;
    this.#phases = 1 + 3 * this.#pairs + 1 + 1;
    // One set of problems for all seeds, so that tables of several seeds compare models and not problems.
    this.#problems = heldOutProblems(0, options.quick ? { test: 50, development: 20 } : {});
  }

  async run(): Promise<DemoResult> {
    const { out } = this.#options;
    const times = join(out, TIMES);
    if (await exists(times)) this.#seconds = (await readJsonObject(times)) as Record<string, number>;
    const base = await this.#train("base", 0);
    const numbers = Array.from({ length: this.#pairs }, (_, i) => i + 1);
    const experts = new Map<string, string>();
    for (const number of numbers) {
      for (const kind of ["math", "language", "joint"] as const) {
        experts.set(`${kind} ${number}`, await this.#train(kind, number, base));
      }
    }
    const folderOf = (kind: string, number: number) => experts.get(`${kind} ${number}`) ?? "";
    this.#report("seeing where the experts changed", 0, 1, "");
    const analysis = await this.#timed("analysis", async () => {
      const pair = { math: folderOf("math", 1), language: folderOf("language", 1) };
      const { analysis: found } = await analyzeExperts({ base, experts: pair, ...this.#signal() });
      return found;
    });
    this.#phase++;
    const results: PairResult[] = [];
    const total = this.#pairs ** 2 * contestants({ base: "", math: "", language: "", joint: "" }).length;
    for (const math of numbers) {
      for (const language of numbers) {
        const pair = {
          base,
          math: folderOf("math", math),
          language: folderOf("language", language),
          joint: folderOf("joint", language),
        };
        for (const contestant of contestants(pair)) {
          this.#report("answering held-out problems", results.length, total, contestant.name);
          results.push(await this.#timed("answers", () => this.#answer(contestant, math, language)));
        }
      }
    }
    this.#phase++;
    await writePlan(out, this.#pairs, this.#problems.test);
    this.#report("done", 1, 1, "");
    const parameters = parameterCount(await openCheckpoint(base));
    return { seed: this.#seed, pairs: this.#pairs, results, analysis, parameters, seconds: this.#seconds };
  }

  /** A model, trained or found. @param number of the expert, from 1; 0 for the base */
  async #train(kind: ModelKind, number: number, base?: string): Promise<string> {
    const { out, threads, signal } = this.#options;
    const name = number === 0 ? "base" : `${kind}-${number}`;
    const what =
      number === 0
        ? "training the base"
        : `training ${kind === "joint" ? "on both" : `the ${kind} expert`}${this.#pairs > 1 ? ` ${number}` : ""}`;
    const steps = Math.ceil(RECIPES[kind].steps / (this.#options.quick ? 20 : 1));
    this.#report(what, 0, steps, "");
    const folder = await this.#timed(name, () =>
      trainModel({
        ...{ kind, signal, steps, out: join(out, name), seed: this.#seed * 100 + number },
        ...(base === undefined ? {} : { base }),
        ...(threads === undefined ? {} : { threads }),
        onProgress: ({ step, loss }) => this.#report(what, step, steps, `loss ${loss.toFixed(3)}`),
      }),
    );
    this.#phase++;
    return folder;
  }

  /** What a contestant answers; asked once, then read from its file. */
  async #answer(contestant: Contestant, math: number, language: number): Promise<PairResult> {
    const { out, threads, signal } = this.#options;
    const { name, kind, family, source } = contestant;
    // Models by their places within the folder, which may be moved.
    const portable = JSON.stringify(source, (_, value) => {
      const place = typeof value === "string" ? relative(out, value) : "..";
      return place.startsWith("..") ? value : place;
    });
    const key = createHash("sha256")
      .update(JSON.stringify([portable, RECIPES]))
      .digest("hex")
      .slice(0, 16);
    const file = join(out, "answers", `${key}.json`);
    const about = { name, kind, math, language, ...(family === undefined ? {} : { family }) };
    type Answers = Pick<PairResult, "swahili" | "english" | "development">;
    if (await exists(file)) return { ...about, ...((await readJsonObject(file)) as unknown as Answers) };
    const engine = await openEngine(source, { threads: threads ?? 1, ...(signal ? { signal } : {}) });
    try {
      const { test, development } = this.#problems;
      const options = this.#signal();
      const answers: Answers = {
        swahili: await answerProblems(engine, test, "sw", options),
        english: await answerProblems(engine, test, "en", options),
        development: await answerProblems(engine, development, "sw", options),
      };
      await mkdir(join(out, "answers"), { recursive: true });
      await writeFileAtomically(file, JSON.stringify(answers));
      return { ...about, ...answers };
    } finally {
      await engine.close();
    }
  }

  #signal(): { signal?: AbortSignal } {
    const { signal } = this.#options;
    return signal ? { signal } : {};
  }

  #report(phase: string, done: number, total: number, detail: string): void {
    this.#options.onProgress?.({ phase, done, total, detail, phaseIndex: this.#phase, phases: this.#phases });
  }

  /** Adds the time that work takes to that of its phase, also where it is stopped. */
  async #timed<T>(name: string, work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.#seconds[name] = (this.#seconds[name] ?? 0) + (performance.now() - start) / 1000;
      await writeFileAtomically(join(this.#options.out, TIMES), JSON.stringify(this.#seconds));
    }
  }
}
