// The parts of node-llama-cpp that are used. The package is not installed with layergraft: its binaries have 700 MB.

import { isSystemError, LayergraftError } from "../../kit/index.js";

/** What to compute after a token. */
export interface NextRequest {
  readonly token?: boolean;
  /** Sum of exp(logit - largest logit), of what top-k and top-p leave. */
  readonly totalLogitWeight?: boolean;
  /** `true`: of all tokens that top-k leaves. */
  readonly logits?:
    | boolean
    | {
        readonly filter: {
          readonly tokens: readonly number[];
          readonly includeSelected?: boolean;
          readonly includeTop?: number;
        };
      };
  readonly options?: SamplerOptions;
}

/** llama.cpp applies them in this order: top-k, top-p, min-p, temperature. */
export interface SamplerOptions {
  /** 0: the most likely token, whatever the others say. */
  readonly temperature: number;
  /** 0: none. */
  readonly minP: number;
  /** 0: all. */
  readonly topK: number;
  readonly topP: number;
  readonly seed: number;
}

export interface NextResult {
  readonly token?: number | null;
  readonly totalLogitWeight?: number;
  readonly logits?: ReadonlyMap<number, number>;
}

/** How llama.cpp draws the tokens of a whole answer. */
export interface DrawOptions extends SamplerOptions {
  readonly grammarEvaluationState?: unknown;
  readonly repeatPenalty?:
    | {
        /** Tokens that the penalties are of, asked before each token; of frequencies as often as they are in it. */
        readonly punishTokens: () => readonly number[];
        readonly penalty: number;
        readonly frequencyPenalty: number;
        readonly presencePenalty: number;
      }
    | undefined;
  /** Whether the token that ends an answer is returned, too. */
  readonly yieldEogToken: true;
}

export interface LlamaSequence {
  readonly nextTokenIndex: number;
  compareContextTokens(tokens: readonly number[]): { readonly firstDifferentIndex: number };
  /** Drops what does not begin as `tokens` do. */
  adaptStateToTokens(tokens: readonly number[], allowShift: boolean): Promise<void>;
  clearHistory(): Promise<void>;
  /** Keeps the state, to return to it. Does nothing where a sequence can be cut back anywhere. */
  takeCheckpoint(): Promise<void>;
  /** Reads tokens, then draws one after another. */
  evaluate(tokens: readonly number[], options: DrawOptions): AsyncGenerator<number, void>;
  controlledEvaluate(
    input: readonly (number | readonly [number, { readonly generateNext: NextRequest }])[],
  ): Promise<readonly ({ readonly next: NextResult } | undefined)[]>;
}

export interface LlamaContext {
  /** Tokens of a sequence. */
  readonly contextSize: number;
  getSequence(): LlamaSequence;
  dispose(): Promise<void>;
}

export interface LlamaFile {
  readonly trainContextSize: number;
  readonly architecture: string;
  readonly fileInfo: {
    readonly metadata: {
      readonly tokenizer?: {
        readonly chat_template?: unknown;
        readonly ggml?: { readonly tokens?: readonly unknown[] };
      };
    };
  };
  readonly tokens: {
    readonly bos: number | null;
    readonly eos: number | null;
    readonly bosString: string | null;
    readonly eosString: string | null;
    readonly shouldPrependBosToken: boolean;
    readonly shouldAppendEosToken: boolean;
  };
  tokenize(text: string, specialTokens: boolean): readonly number[];
  detokenize(tokens: readonly number[], specialTokens: boolean): string;
  isEogToken(token: number): boolean;
  createContext(options: {
    readonly contextSize: number;
    readonly batchSize: number;
    readonly sequences: number;
    readonly threads: number;
    /** Whether layers with windows keep all tokens. */
    readonly swaFullCache: true;
  }): Promise<LlamaContext>;
  dispose(): Promise<void>;
}

export interface Llama {
  /** `cuda`, `vulkan`, `metal` or false. */
  readonly gpu: string | false;
  readonly llamaCppRelease: { readonly release: string };
  /** @returns its text, in GBNF */
  createGrammarForJsonSchema(schema: object): Promise<{ readonly grammar: string }>;
  createGrammar(options: { readonly grammar: string }): Promise<object>;
  loadModel(options: {
    readonly modelPath: string;
    readonly loadSignal?: AbortSignal;
    readonly onLoadProgress?: (share: number) => void;
  }): Promise<LlamaFile>;
}

export interface LlamaLibrary {
  readonly LlamaGrammarEvaluationState: new (options: {
    readonly model: LlamaFile;
    readonly grammar: object;
  }) => unknown;
  getLlama(options: {
    readonly build: "never";
    readonly progressLogs: boolean;
    readonly maxThreads: number;
    readonly logger: (level: string, message: string) => void;
  }): Promise<Llama>;
}

const PACKAGE: string = "node-llama-cpp";
/** The command that adds the package. */
export const INSTALL_LLAMA = "npm install node-llama-cpp --ignore-scripts";

/**
 * Loads node-llama-cpp.
 * @param load how to import it; for tests
 * @throws LayergraftError code `runtime` if it is not installed
 */
export async function loadLibrary(
  load: () => Promise<unknown> = () => import(process.env.NODE_LLAMA_CPP ?? PACKAGE),
): Promise<LlamaLibrary> {
  try {
    return (await load()) as LlamaLibrary;
  } catch (error) {
    if (!isSystemError(error, "ERR_MODULE_NOT_FOUND") && !isSystemError(error, "MODULE_NOT_FOUND")) throw error;
    throw new LayergraftError(
      "runtime",
      `llama.cpp is not installed. Install it next to layergraft: ${INSTALL_LLAMA} (with -g if layergraft is installed globally). ` +
        "The embedded engine (backend engine) needs no installation.",
      { option: "backend" },
      error,
    );
  }
}
