// How the tests run. Unit tests stand beside the code; tests of the public surface stand in test/.
import { existsSync, statfsSync } from "node:fs";
import { defineConfig } from "vitest/config";
import { BaseSequencer, type TestSpecification } from "vitest/node";

// Every output is flushed to the disk, so tests on one mostly wait for it; 2 GB hold what they write at once.
const MEMORY = "/dev/shm";
const hasRoom = existsSync(MEMORY) && statfsSync(MEMORY).bavail * statfsSync(MEMORY).bsize > 2e9;

const TESTS = ["src/**/*.test.ts", "test/**/*.test.ts"];
/** Tests that replace modules with vi.mock, which would replace them for other files, too. */
const MOCKING = [
  "src/cli/shared/interrupts.test.ts",
  "src/text/hostile.test.ts",
  "src/evaluate/backends/http.test.ts",
  "src/train/loop/state.test.ts",
  "src/train/loop/trainer.test.ts",
  "src/merge/output/clone.test.ts",
  "test/added-verb.test.ts",
];

/** Small files whose slow tests take long. Last, as a new checkout runs small files, each would hold up the end alone. */
const LONG = ["documentation", "demo-cli", "tune-cli", "examples", "init-cli"].map((name) => `/test/${name}.test.ts`);

class LongFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const isLong = ({ moduleId }: TestSpecification) => LONG.some((name) => moduleId.endsWith(name));
    const sorted = await super.sort(files);
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))];
  }
}

export default defineConfig({
  test: {
    // Files share the modules of their worker: importing the sources for each file takes as long as the tests.
    projects: [
      {
        extends: true,
        test: { name: "shared", include: TESTS, exclude: [...MOCKING, "**/node_modules/**"], isolate: false },
      },
      { extends: true, test: { name: "mocking", include: MOCKING } },
    ],
    // npm test leaves these out, so that it ends in two minutes on two cores; npm run test:slow runs them. `// @module-tag
    // slow` at its beginning tags a whole file.
    tags: [
      {
        name: "slow",
        description:
          "statistics, large tensors, training, the hub, commands of README and guides, the demo, kills, attacks",
      },
      {
        name: "python",
        description: "needs LAYERGRAFT_PYTHON, an interpreter with what assets/trl/requirements.txt lists",
      },
    ],
    // Most code of a test runs too briefly to repay V8 for optimizing it: this is eight times the default. Node.js 22 has
    // no such flag.
    execArgv: process.versions.node.startsWith("20.") ? ["--interrupt-budget=1000000"] : [],
    sequence: { sequencer: LongFirst },
    setupFiles: ["test/support/equal-bytes.ts"],
    // A page that shows what a test waits for may take long on a busy machine.
    expect: { poll: { timeout: 30_000 } },
    testTimeout: 180_000,
    hookTimeout: 60_000,
    env: hasRoom && !process.env.TMPDIR ? { TMPDIR: MEMORY } : {},
    // Two cores are enough for the suite; a third worker computes while others wait for disks, kills and servers.
    maxWorkers: 3,
    // What is built is run as it is, as by those who install it.
    server: { deps: { external: [/\/dist\//] } },
  },
});
