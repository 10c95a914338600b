//! `talweg device-test`: every sample of the op table in every element type on a device, and a few graphs
//! of the sizes that devices treat specially, against the reference; and values that go to the
//! device and back.

mod dropout;

use crate::{Error, ErrorKind, Result, Tensor};
use ir::{Buffer, Case, DType, Graph, Literal, Slot, Type};
use runtime::{Engine, reference};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Graphs whose sizes and chains of ops are special on a device.
const GRAPHS: [(&str, &str); 18] = [
    ("decode step", include_str!("device_test/decode_step.txt")),
    ("decode layer", include_str!("device_test/decode_layer.txt")),
    ("skinny GEMM", include_str!("device_test/skinny_gemm.txt")),
    ("skinny GEMM in f16", include_str!("device_test/skinny_gemm_f16.txt")),
    ("attention of one query", include_str!("device_test/decode_attention.txt")),
    ("attention of many queries", include_str!("device_test/attention.txt")),
    ("paged attention of many shapes", include_str!("device_test/paged_attention.txt")),
    ("fp8 GEMM", include_str!("device_test/fp8_gemm.txt")),
    ("attention with masks and lengths", include_str!("device_test/masked_attention.txt")),
    ("GEMM epilogues", include_str!("device_test/gemm_epilogue.txt")),
    ("long rows", include_str!("device_test/long_rows.txt")),
    ("streams of rows", include_str!("device_test/row_streams.txt")),
    ("large matrices", include_str!("device_test/matrices.txt")),
    ("attention in f32", include_str!("device_test/attention_f32.txt")),
    ("attention in f32, gradients", include_str!("device_test/attention_grad_f32.txt")),
    ("whole tensors", include_str!("device_test/whole_tensors.txt")),
    ("depthwise convolutions", include_str!("device_test/depthwise.txt")),
    ("gradients of max pooling", include_str!("device_test/max_pool.txt")),
];

/// What to check.
#[derive(clap::Args)]
pub struct Options {
    /// The device: cpu, cuda:0, wgpu:0…
    #[arg(long, default_value = "cuda:0")]
    device: String,
    /// Only this op, or the graphs (of several ops) whose names begin so.
    #[arg(long)]
    op: Option<String>,
    /// Print the generated kernels of the first failures.
    #[arg(long)]
    sources: bool,
}

/// The largest difference allowed, relative to the larger of 1 and the expected value.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        // Conversions are exact, sums of products are not rounded to 8 bits.
        _ => 5e-5,
    }
}

/// Several graphs side by side as one.
fn together(samples: &[&Sample]) -> Graph {
    let mut all = Graph::new();
    for s in samples {
        let base = all.nodes.len() as u32;
        let moved = |s: &Slot| Slot { node: s.node + base, out: s.out };
        for n in &s.graph.nodes {
            let inputs = n.inputs.iter().map(moved).collect();
            all.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
        }
        all.inputs.extend(s.graph.inputs.iter().map(|i| i + base));
        all.outputs.extend(s.graph.outputs.iter().map(moved));
    }
    all
}

/// Runs samples together; the results of all.
fn run_all(engine: &Engine, samples: &[&Sample]) -> Result<Vec<Literal>> {
    let mut inputs: Vec<Buffer> = samples.iter().flat_map(|s| &s.inputs).cloned().map(Buffer::Host).collect();
    engine.compile(&together(samples))?.run(&mut inputs)?.iter().map(Buffer::read).collect()
}

/// Compares one sample's results with the reference's.
fn agree(s: &Sample, got: &[Literal], want: &[Literal]) -> std::result::Result<(), String> {
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        if g.dtype() != w.dtype() || g.shape() != w.shape() {
            return Err(format!("output {k} is {g:?} instead of {w:?}"));
        }
        let off = reference::distance(g, w);
        if off > tolerance(s.dtype).max(tolerance(w.dtype())) {
            return Err(format!("output {k} is off by {off:e}: {g:?} instead of {w:?}"));
        }
    }
    Ok(())
}

/// Checks the samples of an op: together, which compiles faster, and one by one if that fails.
fn check(engine: &Engine, samples: &[(usize, &Sample)]) -> Vec<(usize, String)> {
    let mut fails = Vec::new();
    let wants: Vec<Result<Vec<Literal>>> = samples.iter().map(|(_, s)| reference::run(&s.graph, &s.inputs)).collect();
    let good: Vec<&Sample> = samples.iter().zip(&wants).filter(|(_, w)| w.is_ok()).map(|((_, s), _)| *s).collect();
    let mut all = run_all(engine, &good).ok().map(Vec::into_iter);
    for ((i, s), want) in samples.iter().zip(&wants) {
        let result = match (want, &mut all) {
            (Ok(want), Some(all)) => agree(s, &all.take(want.len()).collect::<Vec<_>>(), want),
            (Ok(want), None) => match run_all(engine, &[s]) {
                Ok(got) => agree(s, &got, want),
                Err(e) => Err(format!("fails: {e}")),
            },
            (Err(e), _) => match run_all(engine, &[s]) {
                Ok(_) => Err(format!("should fail: {e}")),
                Err(_) => Ok(()),
            },
        };
        fails.extend(result.err().map(|e| (*i, e)));
    }
    fails
}

/// One sample in one type.
struct Sample {
    name: &'static str,
    number: usize,
    dtype: DType,
    inputs: Vec<Literal>,
    graph: Graph,
}

/// Every sample in every type that its op takes.
fn samples(only: Option<&str>) -> Vec<Sample> {
    let mut all = Vec::new();
    for op in crate::table().filter(|op| only.is_none_or(|n| n == op.name)) {
        for (number, case) in (op.cases)().into_iter().enumerate() {
            for dtype in DType::ALL {
                let convert = |l: &Literal| if l.dtype() == DType::F64 { l.cast(dtype) } else { l.clone() };
                let case = Case { inputs: case.inputs.iter().map(convert).collect(), ..case.clone() };
                let is_repeated = !case.inputs.iter().any(|l| l.dtype() == dtype) && dtype != DType::F64;
                // An op may refuse a type.
                if let (false, Ok(graph)) = (is_repeated, reference::graph_of(op, &case)) {
                    all.push(Sample { name: op.name, number, dtype, inputs: case.inputs, graph });
                }
            }
        }
    }
    all
}

/// The graphs, each with numbers for its inputs: integers are indices, the others lie around 0.
fn graphs() -> Result<Vec<Sample>> {
    let sample = |(name, text): (&'static str, &str)| {
        let graph = Graph::parse(text, &crate::find)?;
        let value = |ty: &Type| {
            let number = |i: usize| match ty.dtype {
                DType::I64 => 77.0,
                // Lengths: of queries, then of keys.
                DType::I32 => [96.0, 40.0, 77.0, 0.0][i % 4],
                DType::Bool => f64::from(u8::from(!i.is_multiple_of(3))),
                _ => (i.wrapping_mul(2_654_435_761) >> 8 & 0xffff) as f64 / 32768.0 - 1.0,
            };
            let all: Vec<f64> = (0..ty.shape.count()).map(number).collect();
            Literal::from_f64(ty.dtype, ty.shape.clone(), &all)
        };
        let inputs: Vec<Literal> = graph.inputs.iter().map(|&i| value(&graph.nodes[i as usize].outs[0])).collect();
        let dtype = inputs.first().map_or(DType::F32, Literal::dtype);
        Ok(Sample { name, number: 0, dtype, inputs, graph })
    };
    GRAPHS.into_iter().map(sample).collect()
}

/// Values of every type that go to the device, are added to themselves there (fp8
/// transposed instead), and come back.
fn transfers(device: &str) -> Result<()> {
    for dtype in DType::ALL {
        let there = Literal::generate([5, 7], |i| i as i64 - 9).cast(dtype);
        let here = Tensor::from(there.clone());
        let moved = here.to(device);
        let wrong = |what: &str| Error::new(ErrorKind::Device, format!("{what} of {dtype} from {device} differ"));
        if moved.to("cpu").literal()? != there {
            return Err(wrong("values"));
        }
        let changed = |x: &Tensor| if dtype.is_f8() { x.t() } else { x + x };
        if changed(&moved).to("cpu").literal()? != changed(&here).literal()? {
            return Err(wrong("sums"));
        }
    }
    conversions(device)?;
    println!("{device}: values of {} types come back as they went", DType::ALL.len());
    Ok(())
}

/// Conversions to fp8 and back, of numbers of every magnitude, bit by bit.
fn conversions(device: &str) -> Result<()> {
    let numbers: Vec<f32> =
        (0..=u16::MAX).flat_map(|b| [0, 0x8000].map(|low| f32::from_bits((b as u32) << 16 | low))).collect();
    let here = Tensor::from(numbers);
    for dtype in [DType::F8E4M3, DType::F8E5M2] {
        let narrow = here.cast(dtype).literal()?;
        let wide = Tensor::from(narrow.clone()).cast(DType::F32).literal()?;
        let there = here.to(device).cast(dtype);
        // The bits of NaN are unspecified.
        let same = |a: &Literal, b: &Literal| {
            a.to_f64().iter().zip(b.to_f64()).all(|(x, y)| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan())
        };
        if !same(&there.literal()?, &narrow) || !same(&there.cast(DType::F32).literal()?, &wide) {
            return Err(Error::new(ErrorKind::Device, format!("conversions to {dtype} on {device} differ")));
        }
    }
    Ok(())
}

/// The largest difference that TF32 may make in an attention of numbers around 0, relative to the larger of 1 and the
/// expected value.
const TF32_TOLERANCE: f64 = 5e-3;

/// Attention in f32 where TF32 is allowed.
fn tf32(engine: &Engine) -> Result<()> {
    let samples: Vec<Sample> = graphs()?.into_iter().filter(|s| s.name.starts_with("attention in f32")).collect();
    cuda::allow_tf32(true);
    let runs: Vec<Result<Vec<Literal>>> = samples.iter().map(|s| run_all(engine, &[s])).collect();
    cuda::allow_tf32(false);
    let mut worst = 0.0f64;
    for (s, got) in samples.iter().zip(runs) {
        let want = reference::run(&s.graph, &s.inputs)?;
        for (k, (g, w)) in got?.iter().zip(&want).enumerate() {
            let off = reference::distance(g, w);
            worst = worst.max(off);
            if off > TF32_TOLERANCE {
                let e = format!("{} with TF32: output {k} is off by {off:e}", s.name);
                return Err(Error::new(ErrorKind::Device, e));
            }
        }
    }
    println!("{}: attention with TF32 is within {worst:.1e} of the reference", engine.device().name());
    Ok(())
}

/// Checks and reports.
pub fn run(o: &Options) -> Result<()> {
    let engine = crate::engine_named(&o.device)?;
    // Nothing is left out for being slower.
    cuda::always_epilogue(true);
    let mut all = samples(o.op.as_deref());
    let is_asked = |s: &Sample| o.op.as_ref().is_none_or(|name| s.name.starts_with(name.as_str()));
    all.extend(graphs()?.into_iter().filter(is_asked));
    if o.op.is_none() {
        transfers(&o.device)?;
        dropout::check(&o.device)?;
    }
    if o.op.as_ref().is_none_or(|name| "attention in f32".starts_with(name.as_str())) {
        tf32(engine)?;
    }
    if all.is_empty() {
        return Err(Error::value(format!("no op is named {:?}", o.op)));
    }
    let numbered: Vec<(usize, &Sample)> = all.iter().enumerate().collect();
    let by_op: Vec<&[(usize, &Sample)]> = numbered.chunk_by(|a, b| a.1.name == b.1.name).collect();
    let failures: Mutex<Vec<(usize, String)>> = Mutex::default();
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let i = next.fetch_add(1, Ordering::Relaxed);
            let Some(list) = by_op.get(i) else { break };
            let fails = check(engine, list);
            failures.lock().unwrap_or_else(|e| e.into_inner()).extend(fails);
        }
    };
    // Compiling takes longest.
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|s| (0..threads).for_each(|_| drop(s.spawn(work))));
    let mut failures = failures.into_inner().unwrap_or_else(|e| e.into_inner());
    failures.sort_by_key(|f| f.0);
    let mut by_op: BTreeMap<&str, Vec<&(usize, String)>> = BTreeMap::new();
    failures.iter().for_each(|f| by_op.entry(all[f.0].name).or_default().push(f));
    for (op, list) in &by_op {
        let types: Vec<&str> = list.iter().map(|f| all[f.0].dtype.name()).collect();
        let message: String = list[0].1.chars().take(if o.sources { 8000 } else { 400 }).collect();
        println!("{op}: {} fail ({}): case {}: {message}", list.len(), types.join(" "), all[list[0].0].number);
        if o.sources {
            sources(engine, &all[list[0].0].graph)?;
        }
    }
    println!("{}: {} of {} samples agree with the reference", o.device, all.len() - failures.len(), all.len());
    if failures.is_empty() {
        return Ok(());
    }
    let e = format!("{} ops fail on {}", by_op.len(), o.device);
    Err(Error::new(ErrorKind::Device, e))
}

/// Prints the kernels of a graph.
fn sources(engine: &Engine, g: &Graph) -> Result<()> {
    let kind = engine.device().name().split(':').next().unwrap_or_default();
    let device = runtime::open_offline(kind).unwrap_or_else(|| engine.device().clone());
    println!("{}", device.compile(engine.optimize(g)?)?.sources());
    Ok(())
}
