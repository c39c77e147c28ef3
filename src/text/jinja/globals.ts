// Functions that every chat template has: those of Jinja's sandbox and of transformers.

import { copied } from "./access.js";
import { bind } from "./arguments.js";
import { toText } from "./print.js";
import { formatTime } from "./strftime.js";
import { takeEntries } from "./template-guard.js";
import {
  asIndex,
  type Call,
  Dict,
  fail,
  iterate,
  listOf,
  type Named,
  Namespace,
  Refusal,
  Thing,
  type Value,
  View,
} from "./values.js";

/** The bound of Jinja's sandbox (sandbox.py, MAX_RANGE). */
const MAX_RANGE = 100_000;

export function globals(now: Date): Map<string, Value> {
  const functions: Record<string, Call> = {
    range,
    dict,
    namespace: (args, named) => {
      const made = new Namespace();
      for (const [name, value] of dict(args, named).pairs()) setField(made, toText(name), value);
      return made;
    },
    raise_exception: (args, named) => {
      const [message] = bind("raise_exception", ["message"], args, named);
      throw new Refusal(toText(message ?? null));
    },
    strftime_now: (args, named) => {
      const [format] = bind("strftime_now", ["format"], args, named);
      return typeof format === "string" ? formatTime(now, format) : fail("strftime_now takes a str");
    },
  };
  return new Map(Object.entries(functions).map(([name, call]) => [name, new Thing("function", call)]));
}

/** Python's dict(mapping or pairs, **entries). */
function dict(args: readonly Value[], named: Named): Dict {
  const [from] = bind("dict", ["from="], args, new Map());
  const made = from instanceof Dict ? copied(from) : new Dict();
  if (from !== undefined && !(from instanceof Dict)) {
    for (const pair of iterate(from)) {
      const [key, value, more] = listOf(pair);
      if (key === undefined || value === undefined || more !== undefined) fail("dict needs pairs of key and value");
      else made.set(key, value);
    }
  }
  takeEntries(3 * named.size);
  for (const [name, value] of named) made.set(name, value);
  return made;
}

/** Assigns `namespace.name`. */
export function setField(namespace: unknown, name: string, value: Value): void {
  if (!(namespace instanceof Namespace)) fail("cannot assign attribute on non-namespace object");
  if (name.startsWith("_"))
    fail(`Chat templates cannot store underscore-prefixed attributes on a namespace, but got '${name}'`);
  takeEntries(1);
  namespace.entries.set(name, value);
}

/** Python's range, within the bound of the sandbox. */
function range(args: readonly Value[], named: Named): Value {
  if (args.length === 0) fail("range expected at least 1 argument, got 0");
  const [a, b, c] = bind("range", ["start", "stop=", "step="], args, named).map((value) =>
    value === undefined ? undefined : asIndex(value),
  );
  const [start, stop, step] = b === undefined ? [0, a ?? 0, 1] : [a ?? 0, b, c ?? 1];
  if (step === 0) fail("range() arg 3 must not be zero");
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (length > MAX_RANGE) fail(`Range too big. The sandbox blocks ranges larger than MAX_RANGE (${MAX_RANGE}).`);
  takeEntries(length);
  const items = Array.from({ length }, (_, i) => BigInt(start + i * step));
  return new View("range", items, `range(${start}, ${stop}${step === 1 ? "" : `, ${step}`})`);
}
