// Candidate programs in the sandbox: right, wrong, and of the kinds that must be contained.
// @module-tag slow
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { CancelledError } from "../../kit/errors.js";
import { execute } from "./run-candidate.js";
import { judge, openSandbox, requireConfinement, type Sandbox } from "./sandbox.js";

// Nothing can be executed without it; the message says so, and a machine with Python runs them all.
const hasPython = spawnSync("python3", ["-c", ""]).status === 0;
const needsPython = hasPython ? "" : " (skipped: there is no python3 on the PATH)";

const folder = mkdtempSync(join(tmpdir(), "layergraft-test-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("executes nothing without permission, and says what gives it", async () => {
  const refused = { code: "usage", where: { option: "allowCode" } };
  await expect(openSandbox({ allowCode: false })).rejects.toMatchObject(refused);
});

it("names the Python that is missing", async () => {
  await expect(openSandbox({ allowCode: true, python: join(folder, "no-python") })).rejects.toThrow(/no-python/);
  await expect(openSandbox({ allowCode: true, python: "no-such-python-anywhere" })).rejects.toThrow(/on the PATH/);
});

it("says what kept something from being Python", async () => {
  const script = join(folder, "python3");
  writeFileSync(script, "#!/bin/sh\necho it is broken >&2\n", { mode: 0o755 });
  await expect(openSandbox({ allowCode: true, python: script })).rejects.toThrow(/Python 3.*it is broken/s);
});

it("executes nothing without a second permission where the kernel does not confine", () => {
  const held = { network: "kernel", processes: "kernel", files: "kernel", isolation: "none" } as const;
  const identity = { ...held, python: "3.12", memory: "none", seconds: 3, memoryBytes: 1 } as const;
  expect(() => requireConfinement(identity, false)).not.toThrow();
  expect(() => requireConfinement({ ...identity, files: "python" }, false)).toThrow(
    /does not keep programs from your files\. Use Linux.*evaluate\.unsafe_code/,
  );
  expect(() => requireConfinement({ ...identity, network: "python", processes: "python" }, false)).toThrow(
    /from the network, other processes\./,
  );
  expect(() => requireConfinement({ ...identity, files: "python" }, true)).not.toThrow();
});

// As AppArmor of Ubuntu 24.04 does: a namespace of users may be made, and its users not be mapped.
const unmapped = `unshare -Urm sh -c 'mount --bind /proc /proc && mount -o remount,ro,bind /proc && exec "$0" "$@"'`;
const canUnmap = hasPython && spawnSync("sh", ["-c", `${unmapped} true`]).status === 0;

it.skipIf(!canUnmap)("isolates programs where users cannot be mapped (needs a namespace to try it in)", async () => {
  const script = join(folder, "python-unmapped");
  writeFileSync(script, `#!/bin/sh\nexec ${unmapped} python3 "$@"\n`, { mode: 0o755 });
  const { identity } = await openSandbox({ allowCode: true, python: script });
  expect(identity).toMatchObject({ isolation: "kernel", network: "kernel", processes: "kernel", files: "kernel" });
});

describe.skipIf(!hasPython)(`programs${needsPython}`, () => {
  let sandbox: Sandbox;
  const listing = () =>
    [tmpdir(), "/dev/shm"]
      .filter(existsSync)
      .flatMap((place) => readdirSync(place))
      .filter((name) => /^layergraft-(left|sandbox)/.test(name));
  const run = (program: string, test = "assert True", within = sandbox, reference?: string) =>
    within.run(
      [
        { name: "program", source: program },
        { name: "test 1", source: test },
      ],
      { reference },
    );

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
    ["exit()", "error", /exited before/],
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

  // Each was counted as passed when program and tests shared an interpreter, or is of the same kind.
  it.each([
    [
      "assert False",
      "import os\nfor fd in range(64):\n    try:\n        os.write(fd, b'{\"passed\": true}\\n')\n    except OSError:\n        pass\nos._exit(0)",
    ],
    ["assert False", "import __main__\n__main__.parts = []\n__main__.encode = lambda value: True"],
    [
      "assert False",
      "import __main__, os\n__main__.answer({'value': ['f']})\n__main__.answer({'value': True})\n__main__.answer({'passed': True})\nos._exit(0)",
    ],
    [
      "assert False",
      "import sys\nframe = sys._getframe()\nwhile frame:\n    frame.f_globals['report'] = print\n    frame = frame.f_back",
    ],
    [
      "assert False",
      "import gc\nfor o in gc.get_objects():\n    if isinstance(o, dict) and 'tests' in o: raise SystemExit",
    ],
    ["assert False", "import builtins\nbuiltins.exec = builtins.compile = builtins.isinstance = lambda *a, **k: True"],
    [
      "assert f() == 2 or f() < 1 or f() != 1",
      "class E(int):\n    def __eq__(self, other): return True\n    __ne__ = __lt__ = __gt__ = __sub__ = __eq__\ndef f(): return E(1)",
    ],
    [
      "assert f() - 2 < 1 and f() == 2",
      "class E:\n    def __eq__(self, other): return True\n    __sub__ = __rsub__ = __eq__\n    __class__ = int\ndef f(): return E()",
    ],
    ["assert f() == 2", "class E(Exception): pass\ndef f(): raise StopIteration"],
    ["assert f() == 2", "def f(): raise SystemExit(0)"],
    ["assert f() == 2", "import os\ndef f(): os._exit(0)"],
    [
      "assert abs(int(f()) - 2) < 1e-9 and sorted(f()) == 2",
      "def f(): return None\ndef abs(x): return 0\ndef int(x): return 2\ndef sorted(x): return 2",
    ],
    [
      "assert math.isclose(f(), 2)",
      "import math\nmath.isclose = math.fabs = lambda *a, **k: True\nclass math:\n    isclose = fabs = lambda *a, **k: True\ndef f(): return 7",
    ],
  ])("does not take a program's word for its passing: %s after %s", async (test, program) => {
    expect((await run(program, test)).outcome).not.toBe("passed");
  });

  it.each([
    ["a line that is not JSON", '["V", "x", float("nan")]', "program: V: x"],
    ["a name of megabytes", '["V" * 4_000_000, "x", 3]', `program, line 3: ${"V".repeat(100)}: x`],
  ])("reports an error that a program made up with %s", async (_, error, detail) => {
    const program = `import __main__\n__main__.answer({"error": ${error}})`;
    expect(await run(program)).toEqual({ outcome: "error", detail });
  });

  it("does not let a program see its tests", async () => {
    const program =
      "import gc\ndef f(x):\n    seen = [o for o in gc.get_objects() if isinstance(o, (list, tuple, dict)) and len(o) < 99]\n" +
      "    return any(''.join(reversed('eeff0c')) in str(item) for o in seen for item in (o.values() if isinstance(o, dict) else o))";
    expect(await run(program, "secret = 'c0ffee'\nassert f(1) == False")).toMatchObject({ outcome: "passed" });
  });

  // Values cross as data, and objects of the program stay with it.
  it.each([
    [
      "def f(x): return {'a': [x, (1, 2.5, None)], 'b': {3, 4}}",
      "assert f(True) == {'b': {4, 3}, 'a': [True, (1, 2.5, None)]}",
    ],
    ["def f(x): return x ** 4000", "assert f(10) == 10 ** 4000"],
    [
      "def f(x): return float('inf'), -0.0, b'\\xff', '\\ud800', 1j",
      "assert f(1) == (float('inf'), 0.0, b'\\xff', '\\ud800', 1j)",
    ],
    [
      "from collections import Counter, OrderedDict, namedtuple\nP = namedtuple('P', 'x')\ndef f(s): return Counter(s), OrderedDict(a=1), P(3)",
      "assert f('aab') == ({'a': 2, 'b': 1}, {'a': 1}, (3,))",
    ],
    [
      "from fractions import Fraction\nfrom decimal import Decimal\ndef f(): return Fraction(1, 2), Decimal('0.25'), range(3)",
      "assert f() == (0.5, 0.25, range(3))",
    ],
    [
      "def f(n):\n    for i in range(n): yield i * i",
      "assert list(f(4)) == [0, 1, 4, 9] and 4 in f(3) and sum(f(3)) == 5",
    ],
    ["def f(d): return d.keys()", "assert f({'a': 1}) == {'a'}"],
    [
      "class Node:\n    def __init__(self, v): self.v, self.left = v, None\ndef f(n): return n.v + (f(n.left) if n.left else 0)",
      "root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(4)\nassert f(root) == 7 and root.left.v == 2 and root.left is not root",
    ],
    ["def f(x, kind): return [v for v in x if not isinstance(v, kind)]", "assert f((1, 'a', 2.0), str) == [1, 2.0]"],
    ["import sys\ndef f(x): return sys.getsizeof(x)", "assert f((1, 2)) == sys.getsizeof((1, 2))"],
    [
      "def f(x): raise ValueError('no ' + x)",
      "try:\n    f('a')\nexcept ValueError as error:\n    assert str(error) == 'no a'\nelse:\n    assert False",
    ],
    ["x = 1\ndef f():\n    global x\n    x += 1\n    return x", "assert f() == 2 and f() == 3"],
    [
      "def f(d, s): return d.isoformat() + s",
      "import datetime\nassert f(datetime.date(2020, 1, 2), s='!') == '2020-01-02!'",
    ],
  ])("judges what is right as right: %s", async (program, test) => {
    expect(await run(program, test)).toEqual({ outcome: "passed", detail: "" });
  });

  // MBPP asks for functions called sum. What else a program redefines is not under test.
  it.each([
    ["def sum(a, b): return a * b", "assert sum(3, 4) == 12", "def sum(a, b): pass", "passed"],
    ["sum = lambda a, b: a * b", "assert sum(3, 4) == 12", "sum, x = print, 1", "passed"],
    ["class set: x = 1", "assert set.x == 1", "class set: pass", "passed"],
    ["def sum(a, b): return a * b", "assert sum([3, 4]) == 7", "", "passed"],
    [
      "def sum(x): return 0\nset = sorted = list = len = abs = sum",
      "assert set(sum([1, 2])) == set([3])",
      "def sum(x): pass",
      "error",
    ],
    [
      "def sum(x): return [0]\nset = sorted = lambda x: 0",
      "assert set(sum([1, 2])) == set([3])",
      "def sum(x): pass",
      "failed",
    ],
    [
      "def sum(x): return [3]\nset = sorted = lambda x: 0",
      "assert set(sum([1, 2])) == set([3])",
      "def sum(x): pass",
      "passed",
    ],
  ] as const)(
    "takes builtin names under test from the program alone: %s, %s",
    async (program, test, reference, outcome) => {
      expect((await run(program, test, sandbox, reference)).outcome).toBe(outcome);
    },
  );

  it("runs as a module of its own, so that main blocks stay asleep and classes have a home", async () => {
    const program =
      "import pickle\nfrom dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int'\n" +
      "if __name__ == '__main__':\n    1 / 0\ndef f(p): return pickle.loads(pickle.dumps(p)).x\n";
    expect(await run(program, "assert f(P(3)) == 3 and P(3) == P(3)")).toEqual({ outcome: "passed", detail: "" });
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

  it("lets a program fill no disk and leave nothing to remove", async () => {
    const before = listing();
    const attempts = [
      "import os\nfor i in range(3000):\n    os.mkdir('d')\n    os.chdir('d')",
      `import os\nos.mkdir(${JSON.stringify(join(tmpdir(), "layergraft-left"))})`,
      "open('big', 'wb').write(b'x' * 3_000_000)",
      "open('/dev/shm/layergraft-left', 'wb')",
      "import os\nos.memfd_create('m')",
      "import os\nos.mkfifo('/tmp/layergraft-left')",
      "import os\nos.symlink('/etc', '/tmp/layergraft-left')",
    ];
    expect(await run(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
    expect(await run(attempts[0] ?? "")).toMatchObject({ detail: expect.stringMatching(/PermissionError/) });
    expect(listing()).toEqual(before);
  });

  // The fork bomb counts what it gets, and would stop by itself after 40 where nothing stopped it.
  const FORK_BOMB =
    "import os\ngot = 0\nfor _ in range(40):\n    try:\n        child = os.fork()\n    except OSError:\n        continue\n" +
    "    if child == 0:\n        os._exit(0)\n    got += 1\nassert got == 0, got";

  it("gives a fork bomb no process", async () => {
    expect(await run(FORK_BOMB)).toEqual({ outcome: "passed", detail: "" });
    const attempts = [
      "import subprocess\nsubprocess.run(['true'])",
      "import os\nif os.system('true') != 0: raise PermissionError",
      "import os\nos.execv('/bin/true', ['true'])",
      "import os\nos.posix_spawn('/bin/true', ['true'], {})",
      "import multiprocessing\nmultiprocessing.Process(target=print).start()",
    ];
    expect(await run(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
  });

  it("lets a program start threads, in bounds", async () => {
    const program =
      "import threading\nfrom concurrent.futures import ThreadPoolExecutor\n" +
      "def squares(numbers):\n    with ThreadPoolExecutor(4) as pool:\n        return list(pool.map(lambda x: x * x, numbers))\n" +
      "def most():\n    end = threading.Event()\n    started = []\n    try:\n" +
      "        for _ in range(10000):\n            one = threading.Thread(target=end.wait)\n            one.start()\n" +
      "            started.append(one)\n    except RuntimeError:\n        pass\n    end.set()\n" +
      "    for one in started:\n        one.join()\n    return len(started)\n";
    expect(await run(program, "assert squares(range(5)) == [0, 1, 4, 9, 16]")).toEqual({
      outcome: "passed",
      detail: "",
    });
    expect(await run(program, "assert 0 < most() < 70, most()")).toEqual({ outcome: "passed", detail: "" });
  });

  it("ends a program whose threads do not end", async () => {
    const program = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()";
    expect(await run(program)).toEqual({ outcome: "passed", detail: "" });
    expect(await run(`${program}\nthreading._shutdown()`)).toMatchObject({ outcome: "timeout" });
  });

  it("lets a program signal nobody else", async () => {
    const program =
      `import os, signal\nfor target in (${process.pid}, -1, 0):\n    try:\n        os.kill(target, 0)\n` +
      "    except PermissionError:\n        continue\n    raise SystemExit('allowed')";
    expect(await run(program)).toMatchObject({ outcome: "passed" });
  });

  // Found to be ways to an evaluator: each acts on another process of the same user.
  it("lets a program touch neither its evaluator nor its judge", async () => {
    const evaluator = process.pid;
    const attempts = [
      `import resource\nresource.prlimit(${evaluator}, resource.RLIMIT_CPU, (1, 1))`,
      "import os, resource\nresource.prlimit(os.getppid(), resource.RLIMIT_NOFILE, (1, 1))",
      "import resource\nresource.prlimit(0, resource.RLIMIT_FSIZE, (1, 1))",
      `import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, ${evaluator})`,
      `import os\nos.kill(${evaluator}, 0)`,
      `import os\nos.setpriority(os.PRIO_PROCESS, ${evaluator}, 19)`,
      `import os\nos.sched_setaffinity(${evaluator}, {0})`,
      `import os\nos.pidfd_open(${evaluator})`,
      "import os\nos.setsid()",
      `open('/proc/${evaluator}/mem')`,
    ];
    expect(await run(allRefused(attempts))).toEqual({ outcome: "passed", detail: "" });
    // By number: what no module of Python offers. ptrace, process_vm_readv, process_vm_writev, io_uring_setup,
    // userfaultfd, bpf, unshare, perf_event_open, pidfd_getfd, keyctl, clone, prctl, ioctl, mount, shmget.
    const numbers = {
      x64: [101, 310, 311, 425, 323, 321, 272, 298, 438, 250, 56, 157, 16, 165, 29],
      arm64: [117, 270, 271, 425, 282, 280, 97, 241, 438, 219, 220, 167, 29, 40, 194],
    };
    const calls = numbers[process.arch as "x64"] ?? [];
    const program =
      `import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\nfor number in ${JSON.stringify(calls)}:\n` +
      "    assert libc.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM, number\n" +
      "assert libc.syscall(435, 0, 0) == -1 and ctypes.get_errno() == errno.ENOSYS";
    expect(await run(program)).toEqual({ outcome: "passed", detail: "" });
  });

  // Every number of the kernel's table and as many of x32, with arguments of all ones, so that none waits. Without those
  // that end the caller: rt_sigreturn, exit, exit_group, and uretprobe and uprobe, which Linux lets through every filter.
  it.skipIf(process.arch !== "x64")("leaves a program these system calls and no others", async () => {
    if (sandbox.identity.processes !== "kernel") return;
    const program =
      "import ctypes, errno\nlibc = ctypes.CDLL(None, use_errno=True)\nones = [ctypes.c_long(-1)] * 6\n" +
      "def passes(number):\n    ctypes.set_errno(0)\n" +
      "    return libc.syscall(ctypes.c_long(number), *ones) != -1 or ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS if number == 435 else 0)\n" +
      "def allowed(start):\n    return [n for n in range(start, start + 600) if n not in (15, 60, 231, 335, 336) and passes(n)]";
    // read to pipe2 in groups as in CALLS: files, polls, memory, signals and clocks, facts of itself, the rest. Calls with a
    // condition on their arguments (fcntl, prlimit64, kill, tgkill, clone) are refused with these.
    const allowed = [
      ...[0, 1, 2, 3, 4, 5, 6, 8, 17, 19, 20, 21, 32, 33, 79, 80, 89, 217, 257, 262, 267, 269, 292, 293, 332, 439],
      ...[7, 23, 270, 271],
      ...[9, 10, 11, 12, 25, 28],
      ...[13, 14, 35, 36, 37, 38, 96, 131, 201, 219, 228, 229, 230],
      ...[39, 63, 98, 99, 100, 102, 104, 107, 108, 110, 115, 186, 204, 309],
      ...[24, 61, 202, 273, 318, 334],
    ].sort((a, b) => a - b);
    const test = `assert allowed(0) == ${JSON.stringify(allowed)}, allowed(0)\nassert allowed(2**30) == []`;
    expect(await run(program, test)).toEqual({ outcome: "passed", detail: "" });
  });

  it("lets a program learn whether a path exists, and nothing of what is in it", async () => {
    if (sandbox.identity.files !== "kernel") return;
    const secret = join(folder, "known.txt");
    writeFileSync(secret, "secret");
    const program = `import os\ndef size(path): return os.stat(path).st_size\ndef read(path): return open(path).read()\ndef names(path): return os.listdir(path)`;
    expect(await run(program, `assert size(${JSON.stringify(secret)}) == 6`)).toMatchObject({ outcome: "passed" });
    for (const [name, path] of [
      ["read", secret],
      ["names", folder],
    ]) {
      const { detail } = await run(program, `${name}(${JSON.stringify(path)})`);
      expect(detail).toMatch(/PermissionError/);
    }
  });

  it("lets a program write, remove and truncate nothing", async () => {
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
      expect(await run(`open('/proc/${process.pid}/environ')`)).toMatchObject({
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

  it("stops at once when the signal fires", async () => {
    const controller = new AbortController();
    const patient = await openSandbox({ allowCode: true, seconds: 600 });
    const running = patient.run([{ name: "program", source: "import time\ntime.sleep(600)" }], {
      signal: controller.signal,
    });
    setTimeout(() => controller.abort(), 100);
    await expect(running).rejects.toThrow(CancelledError);
  });

  describe("where the kernel refuses nothing", () => {
    const limits = { seconds: 2, memory: 2 ** 30, output: 2 ** 20 };
    const confinement = { kernel: { network: false, processes: false, files: false }, isolated: false };
    const weakJob = (source: string) => ({ limits, parts: [["program", source]] as const, kernel: false, confinement });

    it("hands no open file of its caller on", async () => {
      const python = join(folder, "python-with-open-file");
      writeFileSync(python, '#!/bin/sh\nexec 9</dev/null\nexec python3 "$@"\n', { mode: 0o755 });
      const outcome = await execute({ ...weakJob("import os\nos.fstat(9)"), python });
      expect(judge(outcome, limits).detail).toMatch(/program, line 2: OSError.*Bad file descriptor/);
    });

    it("guards against accidents in Python", async () => {
      const python = spawnSync("python3", ["-c", "import sys; print(sys.executable)"]).stdout.toString().trim();
      const attempt = async (source: string) => judge(await execute({ ...weakJob(source), python }), limits);
      expect(await attempt("open('/dev/null', 'w').write('x')")).toMatchObject({ outcome: "passed" });
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
