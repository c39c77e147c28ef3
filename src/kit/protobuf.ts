// A writer of protocol buffers: https://protobuf.dev/programming-guides/encoding/
// A library would copy embedded weights once for each level of nesting; here they are copied once, in `finish`.
import { LayergraftError } from "./errors.js";

const VARINT = 0;
const LENGTH_DELIMITED = 2;
const FIXED_32 = 5;

/** The most that readers of protocol buffers accept: they count bytes in signed 32-bit integers. */
const MAX_MESSAGE_BYTES = 2 ** 31 - 1;

const utf8 = new TextEncoder();

/** One message, written field by field. */
export class ProtoWriter {
  /** Single bytes, and blocks by reference. */
  readonly #parts: (number | Uint8Array)[] = [];
  #size = 0;

  /** An integer field (int32, int64, enum, bool); negative values as 64-bit two's complement. */
  integer(field: number, value: number): this {
    this.#tag(field, VARINT);
    return this.#varint(value);
  }

  float(field: number, value: number): this {
    this.#tag(field, FIXED_32);
    return this.#append(new Uint8Array(Float32Array.of(value).buffer));
  }

  /** A bytes field. The array is read in `finish` and must not change until then. */
  bytes(field: number, value: Uint8Array): this {
    this.#tag(field, LENGTH_DELIMITED);
    this.#varint(value.length);
    return this.#append(value);
  }

  string(field: number, value: string): this {
    return this.bytes(field, utf8.encode(value));
  }

  /** A repeated integer field, packed; nothing is written for an empty list. */
  integers(field: number, values: readonly number[]): this {
    if (values.length === 0) return this;
    const packed = new ProtoWriter();
    for (const value of values) packed.#varint(value);
    return this.message(field, packed);
  }

  /** A message field; the message must be complete. */
  message(field: number, message: ProtoWriter): this {
    this.#tag(field, LENGTH_DELIMITED);
    this.#varint(message.#size);
    for (const part of message.#parts) this.#append(part);
    return this;
  }

  /**
   * The whole message.
   * @throws LayergraftError with code "runtime" if it is larger than readers of protocol buffers accept
   */
  finish(): Uint8Array {
    if (this.#size > MAX_MESSAGE_BYTES) {
      throw new LayergraftError(
        "runtime",
        `the message has ${this.#size} bytes, and a protocol buffer at most ${MAX_MESSAGE_BYTES}`,
        { expected: `at most ${MAX_MESSAGE_BYTES} bytes`, actual: `${this.#size} bytes` },
      );
    }
    const whole = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      if (typeof part === "number") whole[at++] = part;
      else {
        whole.set(part, at);
        at += part.length;
      }
    }
    return whole;
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  #varint(value: number): this {
    if (!Number.isSafeInteger(value)) {
      const message = `${value} is not an integer that can be written exactly`;
      throw new LayergraftError("runtime", message, { actual: String(value) });
    }
    if (value < 0) {
      let rest = BigInt.asUintN(64, BigInt(value));
      for (; rest > 127n; rest >>= 7n) this.#append(Number(rest & 127n) | 128);
      return this.#append(Number(rest));
    }
    let rest = value;
    for (; rest > 127; rest = Math.floor(rest / 128)) this.#append((rest % 128) | 128);
    return this.#append(rest);
  }

  #append(part: number | Uint8Array): this {
    this.#parts.push(part);
    this.#size += typeof part === "number" ? 1 : part.length;
    return this;
  }
}
