// The runs of bench_wasm.py: node bench_wasm.mjs NPM FOLDER ROUNDS NAME...
import { readFileSync, existsSync } from "node:fs";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [npm, folder, rounds, ...names] = process.argv.slice(2);
const require = createRequire(`${npm}/package.json`);
const ort = require("onnxruntime-web");
ort.env.wasm.numThreads = 1;
ort.env.logLevel = "error";

/// The least milliseconds of a call, over batches long enough for the clock.
async function least(run) {
  const began = performance.now();
  await run();
  const calls = Math.max(1, Math.ceil(3 / Math.max(0.01, performance.now() - began)));
  const start = performance.now();
  for (let i = 0; i < calls; i++) await run();
  return (performance.now() - start) / calls;
}

console.log("name                   ORT Web ms  Talweg ms  ratio   relaxed ms  ratio   largest difference");
for (const name of names) {
  const file = (end) => `${folder}/${name}.${end}`;
  const session = await ort.InferenceSession.create(file("onnx"), { executionProviders: ["wasm"] });
  const { load, inputs, outputs } = await import(pathToFileURL(file("js")));
  const modules = [file("wasm"), file("relaxed.wasm")].filter(existsSync).map((f) => readFileSync(f)).filter(WebAssembly.validate);
  const models = await Promise.all(modules.map((m) => load(m, readFileSync(file("bin")))));
  const values = Object.fromEntries(inputs.map((p) => [p.name, Float32Array.from({ length: p.bytes / 4 }, (_, i) => Math.sin(i * 0.7))]));
  const feeds = Object.fromEntries(inputs.map((p) => [p.name, new ort.Tensor("float32", values[p.name], p.shape)]));
  const runs = [() => session.run(feeds), ...models.map((m) => () => m.run(values))];
  const times = runs.map(() => Infinity);
  for (let r = 0; r < Number(rounds); r++) {
    for (const [i, run] of runs.entries()) times[i] = Math.min(times[i], await least(run));
  }
  const want = (await session.run(feeds)).y.data;
  const off = models.map((m) => {
    const got = m.run(values)[outputs[0].name];
    return want.reduce((most, w, i) => Math.max(most, Math.abs(w - got[i])), 0);
  });
  const columns = times.slice(1).map((t) => `${t.toFixed(4).padStart(10)} ${(times[0] / t).toFixed(2).padStart(6)}`);
  console.log(`${name.padEnd(22)} ${times[0].toFixed(4).padStart(10)} ${columns.join("  ")}   ${Math.max(...off).toExponential(1)}`);
}
