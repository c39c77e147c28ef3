// Arrays that may not be longer than a limit, to show with small tensors that no array has a tensor's length.

const NAMES = [
  "Uint8Array",
  "Int8Array",
  "Uint16Array",
  "Int16Array",
  "Uint32Array",
  "Int32Array",
  "Float32Array",
  "Float64Array",
  "BigInt64Array",
] as const;

type Globals = Record<string, unknown>;

/** Runs work in this thread, where making an array or a view of more bytes than `most` is an error. */
export async function withShortArrays<T>(most: number, work: () => Promise<T>): Promise<T> {
  const globals = globalThis as unknown as Globals;
  const buffers = Buffer as unknown as Globals;
  const saved = new Map(NAMES.map((name) => [name, globals[name]]));
  const check = <A extends { readonly byteLength: number }>(made: A): A => {
    if (made.byteLength <= most) return made;
    throw new RangeError(`an array of ${made.byteLength} bytes, where ${most} are allowed`);
  };
  for (const [name, real] of saved) {
    const limited: object = new Proxy(real as new () => Uint8Array, {
      construct: (target, args, newTarget) =>
        check(Reflect.construct(target, args, newTarget === limited ? target : newTarget)),
    });
    globals[name] = limited;
  }
  const makers = ["alloc", "allocUnsafe", "concat"].map((name) => [name, buffers[name]] as const);
  for (const [name, real] of makers) {
    buffers[name] = (...args: unknown[]) => check((real as (...args: unknown[]) => Buffer).apply(Buffer, args));
  }
  try {
    return await work();
  } finally {
    for (const [name, real] of saved) globals[name] = real;
    for (const [name, real] of makers) buffers[name] = real;
  }
}
