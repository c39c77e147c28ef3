// SIMD kernels, bit for bit against plain references, over every bit pattern or random ones.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import * as reference from "../../test/support/plain-kernels.js";
import { totalStatistics } from "../tensor/streaming/results.js";
import { type KernelDType, Kernels } from "./kernels.js";

const DTYPES: readonly KernelDType[] = ["BF16", "F16", "F32"];
const width = (dtype: KernelDType) => (dtype === "F32" ? 4 : 2);

/** Patterns of a dtype, rich in zeros, subnormals, infinities, NaNs and rounding ties. */
const pattern = (dtype: KernelDType) =>
  dtype === "F32"
    ? fc.oneof(
        fc.integer({ min: 0, max: 0xffffffff }),
        fc.constantFrom(0, 0x80000000, 1, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc01234, 0x3f808000),
      )
    : fc.integer({ min: 0, max: 0xffff });

function put(kernels: Kernels, dtype: KernelDType, patterns: readonly number[]): number {
  const bytes = patterns.length * width(dtype);
  const address = kernels.allocate(bytes);
  const view = kernels.bytes(address, bytes);
  const stored = dtype === "F32" ? Uint32Array.from(patterns) : Uint16Array.from(patterns);
  view.set(new Uint8Array(stored.buffer));
  kernels.clearPadding(address, bytes);
  return address;
}

function take(kernels: Kernels, dtype: KernelDType, address: number, n: number): number[] {
  const bytes = kernels.bytes(address, n * width(dtype)).slice();
  return [...(dtype === "F32" ? new Uint32Array(bytes.buffer) : new Uint16Array(bytes.buffer))];
}

describe("decode and encode", () => {
  test.each(["BF16", "F16"] as const)("every %s pattern survives a round trip through float32", (dtype) => {
    const kernels = new Kernels();
    const all = Array.from({ length: 65536 }, (_, i) => i);
    const src = put(kernels, dtype, all);
    const acc = kernels.allocate(all.length * 4);
    kernels.wasm[`scale${dtype}`](src, acc, all.length, 1);
    const decoded = kernels.floats(acc, all.length);
    for (const p of all) {
      if (!Object.is(decoded[p], reference.decode(dtype, p)))
        expect([p, decoded[p]]).toEqual([p, reference.decode(dtype, p)]);
    }
    const dst = kernels.allocate(all.length * 2);
    kernels.encode(dtype, acc, dst, all.length);
    const back = take(kernels, dtype, dst, all.length);
    const canonical = dtype === "BF16" ? 0x7fc0 : 0x7e00;
    for (const p of all) {
      const wanted = Number.isNaN(reference.decode(dtype, p)) ? canonical : p;
      if (back[p] !== wanted) expect([p, back[p]]).toEqual([p, wanted]);
    }
  });

  test("float32 rounds to float8 at every tie and beside it, up to the largest value", () => {
    const kernels = new Kernels();
    const value = (code: number) => {
      const exponent = code >> 3;
      return exponent === 0 ? (code & 7) * 2 ** -9 : (1 + (code & 7) / 8) * 2 ** (exponent - 7);
    };
    const cases = Array.from({ length: 126 }, (_, code) => {
      const tie = (value(code) + value(code + 1)) / 2;
      const even = code % 2 === 0 ? code : code + 1;
      return [
        [value(code), code],
        [tie * (1 - 2 ** -23), code],
        [tie, even],
        [tie * (1 + 2 ** -23), code + 1],
      ];
    }).flat();
    cases.push([448, 126], [449, 126], [Number.MAX_VALUE, 126], [Number.POSITIVE_INFINITY, 126], [2 ** -140, 0]);
    const signed = [...cases, ...cases.map(([x = 0, code = 0]) => [-x, code + 128]), [Number.NaN, 127]];
    const [acc, dst] = [kernels.allocate(signed.length * 4), kernels.allocate(signed.length)];
    kernels.floats(acc, signed.length).set(signed.map(([x = 0]) => x));
    kernels.encodeF8("F8_E4M3", acc, dst, signed.length);
    const found = kernels.bytes(dst, signed.length);
    expect(signed.map(([x], i) => [x, found[i]])).toEqual(signed);
    kernels.floats(acc, 3).set([1, 2 ** -127, 2 ** 127]);
    kernels.encodeF8("F8_E8M0", acc, dst, 3);
    expect([...kernels.bytes(dst, 2)]).toEqual([127, 0]);
  });

  test.each(DTYPES)("float32 rounds to %s like the plain reference", (dtype) => {
    fc.assert(
      fc.property(fc.array(pattern("F32"), { minLength: 1, maxLength: 70 }), (patterns) => {
        const kernels = new Kernels();
        const acc = put(kernels, "F32", patterns);
        const dst = kernels.allocate(patterns.length * 4);
        const nonFinite = kernels.encode(dtype, acc, dst, patterns.length);
        const values = patterns.map((p) => reference.decode("F32", p));
        expect(take(kernels, dtype, dst, patterns.length)).toEqual(values.map((v) => reference.encode(dtype, v)));
        const rounded = values.map((v) => reference.decode(dtype, reference.encode(dtype, v)));
        expect(nonFinite).toBe(rounded.filter((v) => !Number.isFinite(v)).length);
      }),
      { numRuns: 300 },
    );
  });

  test("float32 near every float16 value and tie rounds to the nearest, ties to even", () => {
    const kernels = new Kernels();
    const patterns: number[] = [];
    const f = new Float32Array(1);
    const u = new Uint32Array(f.buffer);
    for (let p = 0; p < 0x7c00; p++) {
      const here = reference.decode("F16", p);
      const next = p + 1 === 0x7c00 ? 65536 : reference.decode("F16", p + 1);
      f[0] = (here + next) / 2;
      const tie = u[0] ?? 0;
      patterns.push(tie - 1, tie, tie + 1);
    }
    const acc = put(kernels, "F32", patterns);
    const dst = kernels.allocate(patterns.length * 2);
    kernels.encode("F16", acc, dst, patterns.length);
    const rounded = take(kernels, "F16", dst, patterns.length);
    for (let p = 0; p < 0x7c00; p++) {
      const even = p % 2 === 0 ? p : p + 1;
      const got = rounded.slice(3 * p, 3 * p + 3);
      if (got[0] !== p || got[1] !== even || got[2] !== p + 1) expect([p, ...got]).toEqual([p, p, even, p + 1]);
    }
  });
});

describe("blend", () => {
  test.each(DTYPES)("a weighted average of %s equals the plain reference, bit for bit", (dtype) => {
    const operands = fc.integer({ min: 1, max: 40 }).chain((n) =>
      fc.array(
        fc.record({
          weight: fc.oneof(fc.constantFrom(1, 2, 0.5, -1), fc.float({ noNaN: true, min: -4, max: 4 })),
          patterns: fc.array(pattern(dtype), { minLength: n, maxLength: n }),
        }),
        { minLength: 1, maxLength: 4 },
      ),
    );
    fc.assert(
      fc.property(operands, fc.constantFrom(1, 2, 3, 0.7), (terms, divisor) => {
        const kernels = new Kernels();
        const n = terms[0]?.patterns.length ?? 0;
        const sources = terms.map((term) => put(kernels, dtype, term.patterns));
        const acc = kernels.allocate(n * 4);
        terms.forEach((term, i) => {
          kernels.wasm[`${i === 0 ? "scale" : "addScaled"}${dtype}`](sources[i] ?? 0, acc, n, term.weight);
        });
        if (divisor !== 1) kernels.wasm.divide(acc, n, divisor);
        const dst = kernels.allocate(n * 4);
        kernels.encode(dtype, acc, dst, n);
        const weights = terms.map((term) => term.weight);
        const wanted = Array.from({ length: n }, (_, i) => {
          const values = terms.map((term) => reference.decode(dtype, term.patterns[i] ?? 0));
          return reference.encode(dtype, reference.blend(values, weights, divisor));
        });
        expect(take(kernels, dtype, dst, n)).toEqual(wanted);
      }),
      { numRuns: 200 },
    );
  });

  test.each(DTYPES)("a difference of %s equals the plain reference, bit for bit", (dtype) => {
    const operands = fc.array(fc.tuple(pattern(dtype), pattern(dtype)), { minLength: 1, maxLength: 40 });
    fc.assert(
      fc.property(operands, (pairs) => {
        const kernels = new Kernels();
        const [a = 0, b = 0] = [0, 1].map((of) =>
          put(
            kernels,
            dtype,
            pairs.map((pair) => pair[of] ?? 0),
          ),
        );
        const out = kernels.allocate(pairs.length * 4);
        kernels.wasm[`difference${dtype}`](a, b, out, pairs.length);
        const wanted = pairs.map(([x, y]) => Math.fround(reference.decode(dtype, x) - reference.decode(dtype, y)));
        expect([...kernels.floats(out, pairs.length)]).toEqual(wanted);
      }),
      { numRuns: 200 },
    );
  });

  test("signed zeros, infinities and NaN come out as IEEE 754 says", () => {
    const kernels = new Kernels();
    const a = put(kernels, "BF16", [0x8000, 0x0000, 0x7f80, 0x7f80, 0x7fc1, 0x3f80]);
    const b = put(kernels, "BF16", [0x8000, 0x8000, 0x7f80, 0xff80, 0x3f80, 0xffff]);
    const acc = kernels.allocate(64);
    kernels.wasm.scaleBF16(a, acc, 6, 1);
    kernels.wasm.addScaledBF16(b, acc, 6, 1);
    kernels.wasm.divide(acc, 6, 2);
    const dst = kernels.allocate(64);
    kernels.encode("BF16", acc, dst, 6);
    expect(take(kernels, "BF16", dst, 6)).toEqual([0x8000, 0x0000, 0x7f80, 0x7fc0, 0x7fc0, 0x7fc0]);
  });
});

test("a low-rank product equals the plain reference, bit for bit", () => {
  const size = fc.integer({ min: 1, max: 37 });
  fc.assert(
    fc.property(size, size, fc.integer({ min: 1, max: 6 }), fc.integer(), (rows, columns, rank, seed) => {
      const kernels = new Kernels();
      let state = seed;
      const random = (n: number) =>
        Float32Array.from({ length: n }, () => {
          state = (Math.imul(state, 1664525) + 1013904223) | 0;
          return state / 2 ** 31;
        });
      const [acc, left, right] = [random(rows * columns), random(rows * rank), random(rank * columns)];
      const place = (values: Float32Array) => {
        const address = kernels.allocate(values.byteLength);
        kernels.floats(address, values.length).set(values);
        return address;
      };
      const [accAt, leftAt, rightAt] = [place(acc), place(left), place(right)];
      kernels.wasm.addLowRank(accAt, leftAt, rightAt, rows, columns, rank, 0.25);
      reference.addLowRank(acc, left, right, rows, columns, rank, 0.25);
      expect(kernels.floats(accAt, acc.length).slice()).toEqual(acc);
    }),
    { numRuns: 100 },
  );
});

test("rows are scaled to lengths, those of whole numbers exactly", () => {
  const matrices = fc
    .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 37 }))
    .chain(([rows, columns]) => {
      const values = fc.array(fc.integer({ min: -9, max: 9 }), {
        minLength: rows * columns,
        maxLength: rows * columns,
      });
      return fc.tuple(fc.constant([rows, columns] as const), values);
    });
  fc.assert(
    fc.property(matrices, ([[rows, columns], values]) => {
      const kernels = new Kernels();
      const [at, lengthsAt] = [kernels.allocate(4 * values.length), kernels.allocate(4 * rows)];
      kernels.floats(at, values.length).set(values);
      const lengths = Float32Array.from({ length: rows }, (_, row) => row + 0.5);
      kernels.floats(lengthsAt, rows).set(lengths);
      kernels.wasm.setLengths(at, lengthsAt, rows, columns);
      const wanted = values.map((x, i) => {
        const row = Math.floor(i / columns);
        const norm = Math.sqrt(values.slice(row * columns, (row + 1) * columns).reduce((sum, y) => sum + y * y, 0));
        return Math.fround(x * Math.fround((lengths[row] as number) / Math.fround(norm)));
      });
      expect([...kernels.floats(at, values.length)]).toEqual(wanted);
    }),
    { numRuns: 100 },
  );
});

describe("products of matrices", () => {
  const sides = fc.tuple(
    ...([1, 1, 1].map(() => fc.integer({ min: 1, max: 14 })) as [
      fc.Arbitrary<number>,
      fc.Arbitrary<number>,
      fc.Arbitrary<number>,
    ]),
  );
  // Whole numbers, whose products and sums are exact in any order.
  const matrices = sides.chain(([m, n, k]) => {
    const values = (length: number) =>
      fc
        .array(fc.integer({ min: -1000, max: 1000 }), { minLength: length, maxLength: length })
        .map((list) => Float64Array.from(list));
    return fc.record({
      m: fc.constant(m),
      n: fc.constant(n),
      k: fc.constant(k),
      a: values(m * k),
      b: values(k * n),
      c: values(m * n),
    });
  });
  const place = (kernels: Kernels, values: Float64Array) => {
    const address = kernels.allocate(values.byteLength);
    kernels.doubles(address, values.length).set(values);
    return address;
  };

  test("add to what is there, and to nothing beside it", () => {
    fc.assert(
      fc.property(matrices, ({ m, n, k, a, b, c }) => {
        const kernels = new Kernels();
        const wanted = reference.product(a, b, m, n, k).map((x, i) => x + (c[i] ?? 0));
        for (const isTransposed of [false, true]) {
          const [atC, atA] = [place(kernels, c), place(kernels, a)];
          const atB = place(kernels, isTransposed ? reference.transpose(b, k, n) : b);
          const before = kernels.bytes(atC + c.byteLength, atA - atC - c.byteLength).slice();
          if (isTransposed) kernels.wasm.addDots(atC, atA, atB, m, n, k);
          else kernels.wasm.addRows(atC, atA, atB, m, n, k);
          expect(kernels.doubles(atC, m * n).slice()).toEqual(wanted);
          expect(kernels.bytes(atC + c.byteLength, before.length).slice()).toEqual(before);
        }
      }),
      { numRuns: 300 },
    );
  });

  test("float32 columns widen to dense float64 rows", () => {
    fc.assert(
      fc.property(sides, ([rows, columns, more]) => {
        const kernels = new Kernels();
        const stride = columns + more;
        const values = Float32Array.from({ length: rows * stride }, (_, i) => Math.sin(i));
        const from = kernels.allocate(values.byteLength);
        kernels.floats(from, values.length).set(values);
        const to = kernels.allocate(8 * rows * columns);
        kernels.wasm.widen(from + 4 * more, to, rows, columns, stride);
        const wanted = Float64Array.from({ length: rows * columns }, (_, at) => {
          return values[Math.floor(at / columns) * stride + more + (at % columns)] ?? 0;
        });
        expect(kernels.doubles(to, wanted.length).slice()).toEqual(wanted);
      }),
      { numRuns: 100 },
    );
  });
});

test("borrowed memory is given back, and zero when it is allocated again", () => {
  const kernels = new Kernels();
  const first = kernels.borrow(() => {
    const address = kernels.allocate(100);
    kernels.bytes(address, 100).fill(7);
    return address;
  });
  expect(kernels.allocate(1000)).toBe(first);
  expect(kernels.bytes(first, 1000).some((byte) => byte !== 0)).toBe(false);
});

test("delta statistics: counts and the largest are exact, sums agree to float64 rounding", () => {
  const patterns = fc.array(fc.tuple(pattern("F32"), fc.option(pattern("F32"))), { minLength: 1, maxLength: 60 });
  fc.assert(
    fc.property(patterns, (pairs) => {
      const kernels = new Kernels();
      const first = pairs.map(([p]) => p);
      const second = pairs.map(([p, q]) => q ?? p);
      const [a, b] = [put(kernels, "F32", first), put(kernels, "F32", second)];
      const got = totalStatistics([kernels.deltaStatistics(a, b, pairs.length, kernels.allocate(64))]);
      const values = (list: number[]) => Float32Array.from(list, (p) => reference.decode("F32", p));
      const wanted = reference.deltaStatistics(values(first), values(second));
      expect([got.differing, got.nonFinite, got.largest]).toEqual([wanted.differing, wanted.nonFinite, wanted.largest]);
      for (const sum of ["sumAbsolute", "sumSquares", "sumSquaresOfB"] as const) {
        expect(Math.abs(got[sum] - wanted[sum])).toBeLessThanOrEqual(1e-13 * wanted[sum]);
      }
      const [out, zeros] = [kernels.allocate(64), kernels.allocate(4 * pairs.length)];
      expect(kernels.deltaStatistics(a, undefined, pairs.length, out)).toEqual(
        kernels.deltaStatistics(a, zeros, pairs.length, out),
      );
    }),
    { numRuns: 300 },
  );
});

describe("rows of a delta", () => {
  const matrices = fc
    .tuple(fc.integer({ min: 1, max: 11 }), fc.integer({ min: 1, max: 21 }))
    .chain(([rows, columns]) => {
      // Finite patterns only; non-finite values take a slower path.
      const finite = pattern("F32").filter((p) => Number.isFinite(reference.decode("F32", p)));
      const small = finite.filter((p) => Math.abs(reference.decode("F32", p)) < 1e15);
      const list = fc.array(small, { minLength: rows * columns, maxLength: rows * columns });
      return fc.record({ rows: fc.constant(rows), columns: fc.constant(columns), a: list, b: list });
    });

  /** Sums of float32 squares: below 1e-19 a square is rounded to a subnormal, or to nothing. */
  const close = (got: number, wanted: number) => Math.abs(got - wanted) <= 2e-6 * wanted + 1e-36;

  test("along both axes: sums to 5e-7, counts and the largest exactly", () => {
    fc.assert(
      fc.property(matrices, fc.boolean(), ({ rows, columns, a, b }, alongRows) => {
        const kernels = new Kernels();
        const [pa, pb] = [put(kernels, "F32", a), put(kernels, "F32", b)];
        const count = alongRows ? rows : columns;
        const sums = kernels.allocate(count * 8);
        const totals = kernels.allocate(32);
        const run = alongRows ? kernels.wasm.rowStatistics : kernels.wasm.columnStatistics;
        run(pa, pb, rows, columns, sums, totals);
        const values = (patterns: number[]) => patterns.map((p) => reference.decode("F32", p));
        const twin = alongRows ? reference.rowStatistics : reference.columnStatistics;
        const wanted = twin(values(a), values(b), columns);
        kernels.doubles(sums, count).forEach((sum, i) => {
          const value = wanted.sums[i] ?? Number.NaN;
          expect(Math.abs(sum - value)).toBeLessThanOrEqual(5e-7 * value);
        });
        const [squares = 0, own = 0, equal, largest] = kernels.doubles(totals, 4);
        expect([equal, largest]).toEqual([wanted.equal, wanted.largest]);
        expect([close(squares, wanted.squares), close(own, wanted.own)]).toEqual([true, true]);
      }),
      { numRuns: 200 },
    );
  });

  test("pairs: the dot product to rounding, opposed signs exactly", () => {
    fc.assert(
      fc.property(matrices, matrices, (first, second) => {
        const n = Math.min(first.a.length, second.a.length);
        const [x, y, b] = [first.a.slice(0, n), second.a.slice(0, n), first.b.slice(0, n)];
        const kernels = new Kernels();
        const totals = kernels.allocate(16);
        const [px, py, pb] = [put(kernels, "F32", x), put(kernels, "F32", y), put(kernels, "F32", b)];
        kernels.wasm.pairStatistics(px, py, pb, n, totals);
        const values = (patterns: number[]) => patterns.map((p) => reference.decode("F32", p));
        const wanted = reference.pairStatistics(values(x), values(y), values(b));
        const size =
          reference.pairStatistics(values(x), values(x), values(b)).dot +
          reference.pairStatistics(values(y), values(y), values(b)).dot;
        const [dot = 0, opposed] = kernels.doubles(totals, 2);
        expect(opposed).toBe(wanted.opposed);
        expect(Math.abs(dot - wanted.dot)).toBeLessThanOrEqual(1e-6 * size + 1e-36);
      }),
      { numRuns: 100 },
    );
  });
});
