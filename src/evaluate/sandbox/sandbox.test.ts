// Candidate programs in the sandbox: right, wrong, and of the kinds that must be contained.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CancelledError, RecipeError } from "../../core/errors.js";
import { execute } from "./execute.js";
import { judge, openSandbox, type Sandbox } from "./sandbox.js";

// Nothing can be executed without it; the message says so, and a machine with Python runs them all.
const hasPython = spawnSync("python3", ["-c", ""]).status === 0;
const needsPython = hasPython ? "" : " (skipped: there is no python3 on the PATH)";

const folder = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("executes nothing without permission, and says what gives it", async () => {
  await expect(openSandbox({ allowCode: false })).rejects.toThrow(RecipeError);
  await expect(openSandbox({ allowCode: false })).rejects.toThrow(/--allow-code/);
});

it("names the Python that is missing", async () => {
  await expect(openSandbox({ allowCode: true, python: join(folder, "no-python") })).rejects.toThrow(/no-python/);
  await expect(openSandbox({ allowCode: true, python: "no-such-python-anywhere" })).rejects.toThrow(/on the PATH/);
});

it("says what kept something from being Python", async () => {
  const script = join(folder, "python3");
  writeFileSync(script, "#!/bin/sh\necho it is broken >&2\n", { mode: 0o755 });
  await expect(openSandbox({ allowCode: true, python: script })).rejects.toThrow(/Python 3.*it is broken.*--python/s);
});

describe.skipIf(!hasPython)(`programs${needsPython}`, () => {
  let sandbox: Sandbox;
  const scratchFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith("layergraft-sandbox-"));
  const run = (program: string, test = "assert True", within = sandbox) =>
    within.run([
      { name: "program", source: program },
      { name: "test 1", source: test },
    ]);

  /** A program that tries all of them, one after the other, and passes if each raises PermissionError. */
  const allRefused = (attempts: readonly string[]): string =>
    `for attempt in ${JSON.stringify(attempts)}:
    try:
        exec(attempt, {})
    except BlockingIOError:
        continue
    except PermissionError:
        continue
    except BaseException as error:
        if "not permitted" in str(error) or "allows no" in str(error) or "can't start new thread" in str(error):
            continue
        raise
    raise SystemExit(attempt)`;

  beforeAll(async () => {
    sandbox = await openSandbox({ allowCode: true, seconds: 0.8, memory: 200_000_000 });
  });

  it("measures its guards", () => {
    expect(sandbox.identity.python).toMatch(/^3\.\d+/);
    if (process.platform === "linux") {
      expect(sandbox.identity).toMatchObject({ network: "kernel", processes: "kernel", memory: "kernel" });
    }
  });

  it("passes what is right and fails what is wrong, and says where", async () => {
    const program = "import math\ndef area(r):\n    return math.pi * r * r\n";
    expect(await run(program, "assert abs(area(2) - 12.566) < 1e-2")).toEqual({ outcome: "passed", detail: "" });
    expect(await run(program, "assert area(2) == 12")).toEqual({
      outcome: "failed",
      detail: "test 1, line 1: AssertionError",
    });
    expect(await run("def f(:\n", "")).toMatchObject({
      outcome: "error",
      detail: expect.stringMatching(/program, line 1: SyntaxError/),
    });
    expect(await run("x = 1\ny = x / 0\n")).toEqual({
      outcome: "error",
      detail: "program, line 2: ZeroDivisionError: division by zero",
    });
  });

  it.each([
    ["exit()", "error", /ended itself/],
    ["import os\nos._exit(0)", "crashed", /status 0/],
    ["import sys\nsys.stdin.read()\ninput()", "error", /EOFError/],
    ["raise AssertionError('from the program')", "failed", /program, line 1/],
    ["import ctypes\nctypes.string_at(0)", "crashed", /SIGSEGV/],
    ["def f(n):\n    return f(n + 1)\nf(0)", "error", /RecursionError/],
    ["class E(Exception):\n    def __str__(self):\n        raise ValueError\nraise E", "error", /program, line 4: E$/],
  ] as const)("gives no pass for an early end: %s", async (program, outcome, detail) => {
    const got = await run(program);
    expect(got.outcome).toBe(outcome);
    expect(got.detail).toMatch(detail);
  });

  it("does not take a program's word for its passing", async () => {
    const forged = 'import os\nos.write(3, b\'{"passed": true, "nonce": ""}\\n\')\nos._exit(0)';
    expect(await run(forged)).toMatchObject({ outcome: "crashed" });
  });

  it("runs as a module of its own, so that main blocks stay asleep and classes have a home", async () => {
    const program =
      "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int'\nif __name__ == '__main__':\n    1 / 0\n";
    expect(await run(program, "import pickle\nassert pickle.loads(pickle.dumps(P(3))).x == 3")).toMatchObject({
      outcome: "passed",
    });
  });

  it("ends an endless loop, also one that catches everything", async () => {
    const loop =
      "while True:\n    try:\n        while True:\n            pass\n    except BaseException:\n        pass";
    expect(await run(loop)).toEqual({ outcome: "timeout", detail: "it took longer than 0.8 s" });
    expect(await run("import time\ntime.sleep(60)")).toMatchObject({ outcome: "timeout" });
  });

  it("contains a memory hog", async () => {
    expect(await run("x = []\nwhile True:\n    x.append(bytearray(10_000_000))")).toMatchObject({ outcome: "memory" });
  });

  it("ends what prints without end", async () => {
    const patient = await openSandbox({ allowCode: true, seconds: 20 });
    const program = "import sys\nwhile True:\n    sys.stdout.write('x' * 100_000)";
    expect(await run(program, "", patient)).toMatchObject({ outcome: "output" });
  });

  it("leaves nothing in the scratch folder's place", async () => {
    const before = scratchFolders();
    const program =
      "import os\nopen('note.txt', 'w').write('x')\nassert open('note.txt').read() == 'x'\nos.mkdir('inner')\n" +
      "open('inner/x', 'w').close()\ntry:\n    os.chmod('inner', 0)\nexcept OSError:\n    pass";
    expect(await run(program)).toMatchObject({ outcome: "passed" });
    expect(scratchFolders()).toEqual(before);
  });

  it("bounds what a file may hold", async () => {
    expect(await run("open('big', 'wb').write(b'x' * 3_000_000)")).toMatchObject({
      detail: expect.stringMatching(/OSError.*File too large/),
    });
  });

  // The fork bomb counts what it gets, and would stop by itself after 40 where nothing stopped it.
  const FORK_BOMB =
    "import os\ngot = 0\nfor _ in range(40):\n    try:\n        child = os.fork()\n    except OSError:\n        continue\n" +
    "    if child == 0:\n        os._exit(0)\n    got += 1\nassert got == 0, got";

  it("gives a fork bomb no process and no thread", async () => {
    expect(await run(FORK_BOMB)).toEqual({ outcome: "passed", detail: "" });
    const attempts = [
      "import subprocess\nsubprocess.run(['true'])",
      "import os\nif os.system('true') != 0: raise PermissionError",
      "import threading\nthreading.Thread(target=print).start()",
      "import os\nos.execv('/bin/true', ['true'])",
      "import os\nos.posix_spawn('/bin/true', ['true'], {})",
      "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    ];
    expect(await run(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
  });

  it("lets a program signal nobody else", async () => {
    const program =
      "import os, signal\nfor target in (os.getppid(), 1, -1, 0):\n    try:\n        os.kill(target, 0)\n" +
      "    except PermissionError:\n        continue\n    raise SystemExit('allowed')";
    expect(await run(program)).toMatchObject({ outcome: "passed" });
  });

  it("lets a program write, remove and truncate nothing outside its scratch folder", async () => {
    const target = join(folder, "precious.txt");
    writeFileSync(target, "precious");
    const path = JSON.stringify(target);
    const attempts = [
      `open(${path}, 'w')`,
      `open(${path}, 'a')`,
      `import os\nos.remove(${path})`,
      `import os\nos.truncate(${path}, 0)`,
      `import os\nos.rename(${path}, 'mine')`,
      `import os\nos.chmod(${path}, 0o777)`,
      `import os\nos.symlink(${path}, 'link')\nopen('link', 'w')`,
      `import os\nos.mkdir(${JSON.stringify(join(folder, "made"))})`,
      `import shutil\nshutil.rmtree(${JSON.stringify(folder)})`,
    ];
    expect(await run(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
    expect(readFileSync(target, "utf8")).toBe("precious");
    expect(existsSync(join(folder, "made"))).toBe(false);
  });

  it("lets a program read no secrets of its user", async () => {
    const target = join(folder, "secret.txt");
    writeFileSync(target, "secret");
    if (sandbox.identity.files === "kernel") {
      expect(await run(`open(${JSON.stringify(target)})`)).toMatchObject({
        detail: expect.stringMatching(/PermissionError/),
      });
      expect(await run("import os\nopen(f'/proc/{os.getppid()}/environ')")).toMatchObject({
        detail: expect.stringMatching(/PermissionError/),
      });
    }
    expect(
      await run(
        "import os\nassert set(os.environ) <= {'PATH','HOME','TMPDIR','LANG','LC_CTYPE',\n" +
          "'OMP_NUM_THREADS','OPENBLAS_NUM_THREADS','MKL_NUM_THREADS','LD_LIBRARY_PATH'}, set(os.environ)",
      ),
    ).toMatchObject({ outcome: "passed" });
  });

  it("lets a program reach no network, not even this machine", async () => {
    let reached = 0;
    const server = createServer(() => reached++);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as { port: number };
    try {
      const attempts = [
        `import socket\nsocket.create_connection(('127.0.0.1', ${port}))`,
        `import urllib.request\nurllib.request.urlopen('http://127.0.0.1:${port}/')`,
        "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "import socket\nsocket.socket(socket.AF_UNIX)",
      ];
      expect(await run(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
    expect(reached).toBe(0);
  });

  it("stops at once when it is told to", async () => {
    const controller = new AbortController();
    const patient = await openSandbox({ allowCode: true, seconds: 600 });
    const running = patient.run([{ name: "program", source: "import time\ntime.sleep(600)" }], {
      signal: controller.signal,
    });
    setTimeout(() => controller.abort(), 100);
    await expect(running).rejects.toThrow(CancelledError);
  });

  describe("where the kernel refuses nothing", () => {
    const limits = { seconds: 2, memory: 2 ** 30, file: 2 ** 20, output: 2 ** 20 };
    const trust = { network: false, processes: false, files: false };
    const weakJob = (source: string) => ({ limits, parts: [["program", source]] as const, kernel: false, trust });

    it("guards against accidents in Python", async () => {
      const python = spawnSync("python3", ["-c", "import sys; print(sys.executable)"]).stdout.toString().trim();
      const attempt = async (source: string) => judge(await execute({ ...weakJob(source), python }), limits);
      expect(await attempt("x = open('note', 'w').write('x')")).toMatchObject({ outcome: "passed" });
      const attempts = [
        "import socket\nsocket.create_connection(('127.0.0.1', 9))",
        "import os\nos.fork()",
        "import os\nos.system('true')",
        "import subprocess\nsubprocess.run(['true'])",
        "import os\nos.kill(os.getppid(), 0)",
        `open(${JSON.stringify(join(folder, "outside.txt"))}, 'w')`,
        `import os\nos.mkdir(${JSON.stringify(join(folder, "outside"))})`,
        "import ctypes\nctypes.CDLL(None)",
      ];
      expect(await attempt(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
      expect(await attempt(attempts[1] ?? "")).toEqual({
        outcome: "error",
        detail: "program, line 2: PermissionError: the sandbox allows no other process",
      });
    });
  });
});
