// A reader of protocol buffers for tests, independent of the writer: fields in their order, nothing interpreted.

/** Field numbers and values: bigint for varints, bytes for length-delimited and fixed fields. */
export function fieldsOf(bytes: Uint8Array): [number, bigint | Uint8Array][] {
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = bytes[at++];
      if (byte === undefined) throw new Error("truncated");
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  const take = (length: number) => {
    if (at + length > bytes.length) throw new Error("truncated");
    at += length;
    return bytes.subarray(at - length, at);
  };
  const fields: [number, bigint | Uint8Array][] = [];
  while (at < bytes.length) {
    const tag = varint();
    const type = Number(tag & 7n);
    if (type > 2 && type !== 5) throw new Error(`wire type ${type}`);
    const value = type === 0 ? varint() : take(type === 2 ? Number(varint()) : type === 1 ? 8 : 4);
    fields.push([Number(tag >> 3n), value]);
  }
  return fields;
}

/** The values of one field of a message. */
export function fieldOf(bytes: Uint8Array, field: number): (bigint | Uint8Array)[] {
  return fieldsOf(bytes)
    .filter(([number]) => number === field)
    .map(([, value]) => value);
}

/** The message, or bytes, that a field holds once; fields may be nested: `bytesAt(model, 7, 1)`. */
export function bytesAt(bytes: Uint8Array, ...path: number[]): Uint8Array {
  return path.reduce((message, field) => {
    const [value, ...rest] = fieldOf(message, field);
    if (!(value instanceof Uint8Array) || rest.length > 0) throw new Error(`field ${field} is not there once`);
    return value;
  }, bytes);
}
