// The few parts of the WebAssembly interface that kernels.ts uses. TypeScript declares it in its DOM library only,
// which would let browser globals into the whole project.
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
