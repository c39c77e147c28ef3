// node-llama-cpp alone: node llama-peer.js LIBRARY MODEL.gguf PROMPT TOKENS
import { pathToFileURL } from "node:url";

const [library = "", modelPath, prompt = "", tokens] = process.argv.slice(2);
const { getLlama, LlamaCompletion, LlamaLogLevel } = await import(pathToFileURL(library).href);
const llama = await getLlama({ gpu: false, logLevel: LlamaLogLevel.error });
const model = await llama.loadModel({ modelPath });
const context = await model.createContext({ contextSize: 8192 });
const completion = new LlamaCompletion({ contextSequence: context.getSequence() });
console.log(await completion.generateCompletion(prompt, { maxTokens: Number(tokens), temperature: 0 }));
await llama.dispose();
