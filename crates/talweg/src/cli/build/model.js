// The model NAME, written by `talweg build`. In a page or in Node:
//
//   import { load } from "./NAME.js";
//   const model = await load("NAME.wasm", "NAME.bin");
//   const { output } = model.run({ image: new Float32Array(28 * 28) });

export const inputs = [/* inputs */];
export const outputs = [/* outputs */];

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

/// The model, ready to run, from the addresses of its module and its bundle, or from their bytes.
export async function load(module, bundle) {
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
  const ports = [...inputs, ...outputs].map((p) => ({ ...p, at: talweg_alloc(p.bytes) }));
  const table = talweg_alloc(4 * ports.length);
  new Uint32Array(memory.buffer, table, ports.length).set(ports.map((p) => p.at));
  // Memory that grows has a new buffer: views are made at each call.
  const view = (p) => new ARRAYS[p.type](memory.buffer, p.at, p.bytes / ARRAYS[p.type].BYTES_PER_ELEMENT);
  return {
    inputs,
    outputs,
    run(values) {
      for (const p of ports.slice(0, inputs.length)) {
        const value = values[p.name];
        const to = view(p);
        if (value === undefined || value.length !== to.length) {
          throw new Error(`${p.name} takes ${to.length} numbers, ${p.type}[${p.shape}]`);
        }
        to.set(value);
      }
      check(talweg_run(table, inputs.length, outputs.length));
      return Object.fromEntries(ports.slice(inputs.length).map((p) => [p.name, view(p).slice()]));
    },
  };
}
