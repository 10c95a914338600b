// The model NAME, written by `talweg build`. In a page or in Node:
//
//   import { open } from "./NAME.js";
//   const model = await open("./NAME");
//   const { output } = await model.run({ image: new Float32Array(28 * 28) });
//
// `open` takes WebGPU where the browser has it and the model can run there, else WebAssembly. `load` and `loadGpu` are
// the two ways by name.

export const inputs = [/* inputs */];
export const outputs = [/* outputs */];
/// Whether there are NAME.gpu and NAME.relaxed.wasm.
export const hasGpu = false /* gpu */;
export const hasRelaxed = false /* relaxed */;

const ARRAYS = {
  f32: Float32Array, f64: Float64Array, i64: BigInt64Array, u64: BigUint64Array, i32: Int32Array, u32: Uint32Array,
  i16: Int16Array, u16: Uint16Array, i8: Int8Array, u8: Uint8Array, bool: Uint8Array, f16: Uint16Array,
  bf16: Uint16Array, f8e4m3: Uint8Array, f8e5m2: Uint8Array,
};

async function bytesOf(source) {
  if (typeof source !== "string" && !(source instanceof URL)) return new Uint8Array(source);
  const response = await fetch(source);
  if (!response.ok) throw new Error(`${source}: ${response.status} ${response.statusText}`);
  return new Uint8Array(await response.arrayBuffer());
}

/// What a run is given, or an error that names it.
function given(port, values) {
  const count = port.bytes / ARRAYS[port.type].BYTES_PER_ELEMENT, value = values[port.name];
  if (value === undefined || value.length !== count) {
    throw new Error(`${port.name} takes ${count} numbers, ${port.type}[${port.shape}]`);
  }
  return value instanceof ARRAYS[port.type] ? value : ARRAYS[port.type].from(value);
}

/// The numbers of inputs and outputs that are state: `{input: output}`, what a run leaves for the next one.
function stateOf(state = {}) {
  return Object.entries(state).map(([input, output]) => {
    const [i, o] = [inputs.findIndex((p) => p.name === input), outputs.findIndex((p) => p.name === output)];
    const kind = (p) => p && `${p.type}[${p.shape}]`;
    if (i < 0 || o < 0 || kind(inputs[i]) !== kind(outputs[o])) {
      throw new Error(`${output} cannot be the next ${input}: ${kind(outputs[o])}, ${kind(inputs[i])}`);
    }
    return [i, o];
  });
}

/// A module that uses an instruction of relaxed SIMD.
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15,
  253, 128, 2, 11,
];

/// The model from the files beside each other that begin with `base`. `device` is "webgpu" or "wasm"; without it, the
/// first that can run. `state` names inputs that keep what an output left: they begin with zeros, stay where they are,
/// and are neither given nor returned; `reset()` brings the zeros back.
export async function open(base, { device, state } = {}) {
  if (device !== "wasm" && hasGpu) {
    const model = await loadGpu(`${base}.gpu`, { state });
    if (model) return model;
  }
  if (device === "webgpu") throw new Error(hasGpu ? "there is no adapter of WebGPU here" : "the model cannot run by WebGPU");
  const relaxed = hasRelaxed && WebAssembly.validate(new Uint8Array(RELAXED));
  return load(`${base}${relaxed ? ".relaxed" : ""}.wasm`, `${base}.bin`, { state });
}

/// The model, ready to run, from the addresses of its module and its bundle, or from their bytes.
export async function load(module, bundle, { state } = {}) {
  const [code, model] = await Promise.all([bytesOf(module), bytesOf(bundle)]);
  const { instance } = await WebAssembly.instantiate(code, {});
  const { memory, talweg_alloc, talweg_init, talweg_run, talweg_error } = instance.exports;
  const check = (status) => {
    if (status === 0) return;
    const bytes = new Uint8Array(memory.buffer, talweg_error());
    throw new Error(new TextDecoder().decode(bytes.slice(0, bytes.indexOf(0))));
  };
  const place = talweg_alloc(model.length);
  new Uint8Array(memory.buffer, place, model.length).set(model);
  check(talweg_init(place, model.length));
  const kept = stateOf(state);
  const ins = inputs.map((p) => ({ ...p, at: talweg_alloc(p.bytes) }));
  const outs = outputs.map((p) => ({ ...p, at: talweg_alloc(p.bytes) }));
  const places = [...ins, ...outs].map((p) => p.at);
  const table = talweg_alloc(4 * places.length);
  new Uint32Array(memory.buffer, table, places.length).set(places);
  // Memory that grows has a new buffer: views are made at each call.
  const view = (p) => new ARRAYS[p.type](memory.buffer, p.at, p.bytes / ARRAYS[p.type].BYTES_PER_ELEMENT);
  const free = ins.filter((_, i) => !kept.some((k) => k[0] === i));
  const wanted = outs.filter((_, o) => !kept.some((k) => k[1] === o));
  const reset = () => kept.forEach(([i]) => view(ins[i]).fill(ins[i].type.endsWith("64") && ins[i].type !== "f64" ? 0n : 0));
  reset();
  return {
    inputs, outputs, device: "WebAssembly", reset,
    run(values) {
      for (const p of free) view(p).set(given(p, values));
      check(talweg_run(table, ins.length, outs.length));
      for (const [i, o] of kept) view(ins[i]).set(view(outs[o]));
      return Object.fromEntries(wanted.map((p) => [p.name, view(p).slice()]));
    },
  };
}

/// The model by WebGPU, from the address of its program or its bytes; null where there is no adapter. Runs return a
/// promise, one after the other.
export async function loadGpu(file, { state } = {}) {
  const adapter = await globalThis.navigator?.gpu?.requestAdapter();
  if (!adapter) return null;
  const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
  const device = await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } });
  let failure = null;
  device.lost.then((e) => { failure ??= `the device was lost: ${e.message}`; });
  device.addEventListener("uncapturederror", (e) => { failure ??= e.error.message; });
  const check = () => {
    if (failure) throw new Error(`WebGPU: ${failure}`);
  };
  const bytes = await bytesOf(file);
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const program = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const body = bytes.subarray(4 + length);
  const { STORAGE, COPY_SRC, COPY_DST, UNIFORM, MAP_READ } = GPUBufferUsage;
  const make = (size, usage) => device.createBuffer({ size, usage });
  const buffers = program.sizes.map((size) => make(size, STORAGE | COPY_SRC | COPY_DST));
  program.constants.forEach(([at, size], k) => {
    const rounded = Math.ceil(size / 4) * 4;
    if (size) device.queue.writeBuffer(buffers[program.firstConstant + k], 0, body, at, rounded);
  });
  const params = make(Math.max(256, program.params), UNIFORM | COPY_DST);
  if (program.params) device.queue.writeBuffer(params, 0, body, 0, program.params);
  const report = make(16, STORAGE | COPY_SRC | COPY_DST);

  const modules = program.sources.map((code) => device.createShaderModule({ code }));
  const pipelines = new Map();
  const launches = await Promise.all(program.launches.map(async (l) => {
    const written = [...l.bindings.map((b) => b[1]), ...(l.reports ? [true] : [])];
    const entry = (binding, type) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } });
    const key = `${l.source} ${written}`;
    if (!pipelines.has(key)) {
      const kinds = written.map((w, k) => entry(k + 1, w ? "storage" : "read-only-storage"));
      const layout = device.createBindGroupLayout({ entries: [entry(0, "uniform"), ...kinds] });
      const compute = { module: modules[l.source], entryPoint: "main" };
      const all = device.createPipelineLayout({ bindGroupLayouts: [layout] });
      pipelines.set(key, device.createComputePipelineAsync({ layout: all, compute }).then((p) => [p, layout]));
    }
    const [pipeline, layout] = await pipelines.get(key);
    const storage = [...l.bindings.map((b) => buffers[b[0]]), ...(l.reports ? [report] : [])];
    const own = { binding: 0, resource: { buffer: params, offset: l.params[0], size: l.params[1] } };
    const entries = [own, ...storage.map((buffer, k) => ({ binding: k + 1, resource: { buffer } }))];
    return { ...l, pipeline, group: device.createBindGroup({ layout, entries }) };
  }));

  const kept = stateOf(state);
  const rounded = (p) => Math.ceil(p.bytes / 4) * 4;
  const free = inputs.map((p, i) => [p, buffers[i]]).filter((_, i) => !kept.some((k) => k[0] === i));
  const result = (o) => (program.results[o] === null ? null : buffers[program.results[o]]);
  const wanted = outputs.map((p, o) => [p, result(o)]).filter((_, o) => !kept.some((k) => k[1] === o));
  const read = wanted.reduce((sum, [p]) => sum + rounded(p), 16);
  const staging = make(read, MAP_READ | COPY_DST);
  // States that are each other's source are copied by way of their own copies.
  const spare = kept.map(([i]) => make(rounded(inputs[i]), COPY_SRC | COPY_DST));

  const reset = () => {
    const encoder = device.createCommandEncoder();
    for (const [i] of kept) encoder.clearBuffer(buffers[i]);
    device.queue.submit([encoder.finish()]);
  };
  function encode() {
    const encoder = device.createCommandEncoder();
    encoder.clearBuffer(report);
    let pass = null;
    const end = () => { pass?.end(); pass = null; };
    const stage = buffers.at(-1);
    for (const l of launches) {
      if (l.staged.length) end();
      for (const [base, at, size] of l.staged) encoder.copyBufferToBuffer(buffers[base], 0, stage, at, size);
      pass ??= encoder.beginComputePass();
      pass.setPipeline(l.pipeline);
      pass.setBindGroup(0, l.group);
      pass.dispatchWorkgroups(...l.grid);
      if (l.staged.some((s) => s[3])) end();
      for (const [base, at, size, isWritten] of l.staged) {
        if (isWritten) encoder.copyBufferToBuffer(stage, at, buffers[base], 0, size);
      }
    }
    end();
    kept.forEach(([i, o], n) => {
      if (result(o)) encoder.copyBufferToBuffer(result(o), 0, spare[n], 0, rounded(inputs[i]));
    });
    kept.forEach(([i], n) => encoder.copyBufferToBuffer(spare[n], 0, buffers[i], 0, rounded(inputs[i])));
    encoder.copyBufferToBuffer(report, 0, staging, 0, 16);
    let at = 16;
    for (const [p, from] of wanted) {
      if (from && p.bytes) encoder.copyBufferToBuffer(from, 0, staging, at, rounded(p));
      at += rounded(p);
    }
    return encoder.finish();
  }
  async function once(values) {
    check();
    for (const [p, buffer] of free) {
      const value = given(p, values), size = rounded(p);
      const whole = new Uint8Array(size);
      whole.set(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
      device.queue.writeBuffer(buffer, 0, whole);
    }
    device.queue.submit([encode()]);
    await staging.mapAsync(GPUMapMode.READ).catch((e) => { check(); throw e; });
    const copy = staging.getMappedRange().slice(0);
    staging.unmap();
    check();
    const [isBad, launch, low, high] = new Uint32Array(copy, 0, 4);
    if (isBad) {
      const [before, after] = program.blames[launch];
      throw new Error(`${before} ${BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low))} ${after}`);
    }
    let at = 16;
    return Object.fromEntries(wanted.map(([p]) => {
      const value = new ARRAYS[p.type](copy.slice(at, at + p.bytes));
      at += rounded(p);
      return [p.name, value];
    }));
  }
  check();
  let last = Promise.resolve();
  return {
    inputs, outputs, reset,
    device: `WebGPU (${adapter.info?.description || adapter.info?.vendor || "an adapter"})`,
    run(values) {
      const now = last.then(() => once(values));
      last = now.catch(() => {});
      return now;
    },
  };
}
