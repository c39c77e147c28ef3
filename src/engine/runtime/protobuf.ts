// A writer of protocol buffers: varints, fixed 32-bit floats, length-delimited fields. Large byte fields are kept by
// reference and copied once, at the end. Not a reader, and it knows no schema: field numbers are the caller's.
// Encoding: https://protobuf.dev/programming-guides/encoding/
import { RuntimeError } from "./errors.js";

const VARINT = 0;
const LENGTH_DELIMITED = 2;
const FIXED_32 = 5;

/** What readers of protocol buffers take: they count bytes in signed 32-bit integers. */
export const MAX_MESSAGE_BYTES = 2 ** 31 - 1;

// Byte fields of at least this size are kept by reference: below it, a copy costs less than one more part to join.
const REFERENCE_BYTES = 1024;

const FIRST_BUFFER_BYTES = 64;

const utf8 = new TextEncoder();

/** One message, written field by field. */
export class ProtoWriter {
  /** Finished parts, in order; the bytes of `#buffer` up to `#used` come after them. */
  readonly #parts: Uint8Array[] = [];
  #partBytes = 0;
  #buffer = new Uint8Array(FIRST_BUFFER_BYTES);
  #used = 0;

  /** Bytes of the message so far. */
  get size(): number {
    return this.#partBytes + this.#used;
  }

  /** An integer field (int32, int64, enum, bool); negative values as 64-bit two's complement. */
  integer(field: number, value: number | bigint): void {
    this.#tag(field, VARINT);
    this.#varint(value);
  }

  /** A float field. */
  float(field: number, value: number): void {
    this.#tag(field, FIXED_32);
    this.#float(value);
  }

  /** A bytes field. The array is read when the message is finished, and must not change until then. */
  bytes(field: number, value: Uint8Array): void {
    this.#tag(field, LENGTH_DELIMITED);
    this.#varint(value.length);
    this.#append(value);
  }

  /** A string field. */
  string(field: number, value: string): void {
    this.bytes(field, utf8.encode(value));
  }

  /** A repeated integer field, packed; nothing is written for an empty list. */
  integers(field: number, values: readonly (number | bigint)[]): void {
    if (values.length === 0) return;
    const packed = new ProtoWriter();
    for (const value of values) packed.#varint(value);
    this.message(field, packed);
  }

  /** A repeated float field, packed; nothing is written for an empty list. */
  floats(field: number, values: readonly number[]): void {
    if (values.length === 0) return;
    this.#tag(field, LENGTH_DELIMITED);
    this.#varint(4 * values.length);
    for (const value of values) this.#float(value);
  }

  /** A message field; the message must be complete. */
  message(field: number, message: ProtoWriter): void {
    this.#tag(field, LENGTH_DELIMITED);
    this.#varint(message.size);
    for (const part of message.#parts) this.#append(part);
    this.#append(message.#buffer.subarray(0, message.#used));
  }

  /**
   * The whole message.
   * @throws {RuntimeError} if it is larger than readers of protocol buffers take.
   */
  finish(): Uint8Array {
    if (this.size > MAX_MESSAGE_BYTES) {
      throw new RuntimeError(
        `the graph with its weights has ${this.size} bytes, and a protocol buffer at most ${MAX_MESSAGE_BYTES}; leave the weights in their files (external initializers) or feed them`,
        { expected: `at most ${MAX_MESSAGE_BYTES} bytes`, actual: `${this.size} bytes` },
      );
    }
    const whole = new Uint8Array(this.size);
    let at = 0;
    for (const part of this.#parts) {
      whole.set(part, at);
      at += part.length;
    }
    whole.set(this.#buffer.subarray(0, this.#used), at);
    return whole;
  }

  #tag(field: number, wireType: number): void {
    this.#varint(field * 8 + wireType);
  }

  #varint(value: number | bigint): void {
    this.#reserve(10);
    if (typeof value === "number" && !Number.isSafeInteger(value)) {
      throw new RuntimeError(`${value} is not an integer that can be written exactly`, { actual: String(value) });
    }
    if (typeof value === "bigint" || value < 0) {
      let rest = BigInt.asUintN(64, BigInt(value));
      while (rest > 127n) {
        this.#buffer[this.#used++] = Number(rest & 127n) | 128;
        rest >>= 7n;
      }
      this.#buffer[this.#used++] = Number(rest);
      return;
    }
    let rest = value;
    while (rest > 127) {
      this.#buffer[this.#used++] = (rest % 128) | 128;
      rest = Math.floor(rest / 128);
    }
    this.#buffer[this.#used++] = rest;
  }

  #float(value: number): void {
    this.#reserve(4);
    new DataView(this.#buffer.buffer).setFloat32(this.#used, value, true);
    this.#used += 4;
  }

  #append(bytes: Uint8Array): void {
    if (bytes.length >= REFERENCE_BYTES) {
      this.#flush();
      this.#parts.push(bytes);
      this.#partBytes += bytes.length;
      return;
    }
    this.#reserve(bytes.length);
    this.#buffer.set(bytes, this.#used);
    this.#used += bytes.length;
  }

  /** Ends the current buffer, if anything is in it, so that a part can follow. */
  #flush(): void {
    if (this.#used === 0) return;
    this.#parts.push(this.#buffer.subarray(0, this.#used));
    this.#partBytes += this.#used;
    this.#buffer = new Uint8Array(FIRST_BUFFER_BYTES);
    this.#used = 0;
  }

  #reserve(bytes: number): void {
    if (this.#used + bytes <= this.#buffer.length) return;
    const larger = new Uint8Array(Math.max(2 * this.#buffer.length, this.#used + bytes));
    larger.set(this.#buffer.subarray(0, this.#used));
    this.#buffer = larger;
  }
}
