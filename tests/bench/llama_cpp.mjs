// Reads a prompt and writes tokens with llama.cpp; prints tokens per second as JSON.
//
//     node llama_cpp.mjs MODULES MODEL CONTEXT PROMPT WRITTEN THREADS
//
// MODULES: the folder node_modules with node-llama-cpp. MODEL: a GGUF file. The others: numbers of
// tokens, and of threads.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [modules, modelPath, ...numbers] = process.argv.slice(2);
const [contextSize, prompt, written, threads] = numbers.map(Number);
const entry = path.join(path.resolve(modules), "node-llama-cpp", "dist", "index.js");
const { getLlama } = await import(pathToFileURL(entry));

const llama = await getLlama({ gpu: false, maxThreads: threads, build: "never", logLevel: "error" });
const model = await llama.loadModel({ modelPath: path.resolve(modelPath) });
const context = await model.createContext({ contextSize, batchSize: 512, threads });
const sequence = context.getSequence();
const tokens = Array.from({ length: prompt }, (_, i) => 1000 + ((i * 37) % 20000));
const next = { generateNext: { token: true, options: { temperature: 0 } } };

async function evaluate(part) {
  const results = await sequence.controlledEvaluate([...part.slice(0, -1), [part.at(-1), next]]);
  return results.at(-1).next.token;
}

// The first call packs weights, which later ones find packed.
await evaluate(tokens.slice(0, 8));
await sequence.clearHistory();
const start = performance.now();
let last = await evaluate(tokens);
const read = performance.now();
for (let i = 0; i < written; i++) last = await evaluate([last]);
const end = performance.now();
console.log(JSON.stringify({ read: prompt / (read - start) * 1e3, write: written / (end - read) * 1e3 }));
process.exit(0);
