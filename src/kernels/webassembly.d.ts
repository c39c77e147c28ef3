// Parts of the WebAssembly interface. TypeScript declares it only in its DOM library, which would add browser globals.
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module);
    readonly exports: Readonly<Record<string, unknown>>;
  }
  class Memory {
    readonly buffer: ArrayBuffer;
    /** @returns the former size in pages of 64 KiB */
    grow(pages: number): number;
  }
}
