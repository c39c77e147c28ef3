// Products with a matrix of codes as ONNX Runtime computes them, against the codes decoded and multiplied one by one.
import { expect, it } from "vitest";
import { Random } from "../../kit/random.js";
import { Graph } from "../graph/graph.js";
import { lowerGraph } from "./lower.js";
import { openSession, type TensorValue } from "./session.js";

const [ROWS, N, K, BLOCK] = [3, 40, 64, 32] as const;

it.each([4, 8] as const)(
  "of %i bits are sums of codes times their scales, with the other operand rounded to int8",
  async (bits) => {
    const random = Random.of(bits, "quantized");
    const zero = 2 ** (bits - 1);
    const codes = Array.from({ length: N * K }, () => random.between(0, 2 * zero - 1));
    const scales = Float32Array.from({ length: (N * K) / BLOCK }, () => random.between(1, 1000) / 30_000);
    const x = Float32Array.from({ length: ROWS * K }, () => random.between(-500, 500) / 250);
    const packed =
      bits === 8
        ? Uint8Array.from(codes)
        : Uint8Array.from(
            { length: (N * K) / 2 },
            (_, i) => (codes[2 * i] as number) | ((codes[2 * i + 1] as number) << 4),
          );

    const graph = new Graph();
    const weight = graph.input("w", "f32", [N, K]);
    const y = graph.matmul(graph.input("x", "f32", ["rows", K]), weight, { transB: true, alpha: 0.5 });
    const quantized = new Map([["w", { bits, block: BLOCK, codes: packed, scales: new Uint8Array(scales.buffer) }]]);
    const session = await openSession(lowerGraph({ y }, { quantized }), { threads: 1 });
    const fed: TensorValue = { dtype: "f32", shape: [ROWS, K], data: x };
    const { y: found } = await session.run({ x: fed }, ["y"]);
    await session.close();

    const rounded = Float64Array.from(x, (value, i) => {
      const block = x.subarray(i - (i % BLOCK), i - (i % BLOCK) + BLOCK);
      const step = Math.max(...block.map(Math.abs)) / 127;
      return Math.round(value / step) * step;
    });
    const expected = Array.from({ length: ROWS * N }, (_, at) => {
      const [row, column] = [Math.floor(at / N), at % N];
      let sum = 0;
      for (let k = 0; k < K; k++) {
        const i = column * K + k;
        sum +=
          (rounded[row * K + k] as number) * ((codes[i] as number) - zero) * (scales[Math.floor(i / BLOCK)] as number);
      }
      return sum / 2;
    });
    const spread = Math.max(...expected.map(Math.abs));
    const error = Math.max(...expected.map((value, i) => Math.abs(value - Number(found?.data[i]))));
    // Halves may be rounded to another neighbor.
    expect(error / spread).toBeLessThan(0.003);
  },
);
