// An exported model in ONNX Runtime, fed as transformers.js feeds it.
import { join } from "node:path";
import * as ort from "onnxruntime-node";

const integers = (values: readonly number[], shape: readonly number[]) =>
  new ort.Tensor("int64", BigInt64Array.from(values, BigInt), shape);

const argMax = (list: readonly number[]) => list.indexOf(Math.max(...list));

/** A model with its cache, as transformers.js runs it. */
export class ExportedModel {
  readonly #session: ort.InferenceSession;
  #cache: Record<string, ort.Tensor> = {};
  #mask: number[][] = [];

  private constructor(session: ort.InferenceSession) {
    this.#session = session;
  }

  static async open(out: string, file = "model.onnx"): Promise<ExportedModel> {
    const session = await ort.InferenceSession.create(join(out, "onnx", file), { intraOpNumThreads: 1 });
    return new ExportedModel(session);
  }

  get inputs(): readonly ort.InferenceSession.ValueMetadata[] {
    return this.#session.inputMetadata;
  }
  get outputs(): readonly ort.InferenceSession.ValueMetadata[] {
    return this.#session.outputMetadata;
  }

  reset(): void {
    this.#cache = {};
    this.#mask = [];
  }

  /** Logits [batch][kept][vocabulary] of further tokens. */
  async pass(ids: readonly (readonly number[])[], mask: readonly (readonly number[])[], kept = 0) {
    const batch = ids.length;
    const time = ids[0]?.length ?? 0;
    this.#mask = mask.map((row, i) => [...(this.#mask[i] ?? []), ...row]);
    const feeds: Record<string, ort.Tensor> = {
      input_ids: integers(ids.flat(), [batch, time]),
      attention_mask: integers(this.#mask.flat(), [batch, this.#mask[0]?.length ?? 0]),
      num_logits_to_keep: integers([kept], []),
    };
    for (const input of this.#session.inputMetadata) {
      if (!input.name.startsWith("past_key_values.") || !input.isTensor) continue;
      // transformers.js knows the batch by its name; other unknown sizes are 0.
      const shape = input.shape.map((size) => (size === "batch_size" ? batch : typeof size === "number" ? size : 0));
      feeds[input.name] = this.#cache[input.name] ?? new ort.Tensor("float32", new Float32Array(0), shape);
    }
    const results = await this.#session.run(feeds);
    for (const [name, value] of Object.entries(results)) {
      if (name.startsWith("present.")) this.#cache[name.replace("present", "past_key_values")] = value;
    }
    const { data, dims } = results.logits as ort.Tensor;
    const [, rows = 0, vocabulary = 0] = dims;
    const flat = data as Float32Array;
    return ids.map((_, row) =>
      Array.from({ length: rows }, (_, at) => [
        ...flat.subarray((row * rows + at) * vocabulary, (row * rows + at + 1) * vocabulary),
      ]),
    );
  }

  /** Most likely tokens after padded rows. */
  async greedy(ids: readonly (readonly number[])[], mask: readonly (readonly number[])[], count: number) {
    const answers = ids.map((): number[] => []);
    let [next, shown] = [ids, mask];
    for (let i = 0; i < count; i++) {
      const logits = await this.pass(next, shown, 1);
      next = logits.map((rows) => [argMax(rows.at(-1) ?? [])]);
      shown = ids.map(() => [1]);
      for (const [row, [id]] of next.entries()) answers[row]?.push(id as number);
    }
    return answers;
  }

  close(): Promise<void> {
    return this.#session.release();
  }
}
