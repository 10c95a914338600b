//! The op table's samples, and two small networks that train, on the first adapter of this machine against the
//! reference. Without an adapter nothing is tested, which CI lists as skipped. `talweg device-test --device wgpu:0` has
//! larger graphs too.

use ir::{Buffer, Case, DType, Literal};
use ops::nn::{AttentionOptions, ConvOptions};
use ops::{Tensor, grad};
use runtime::{Engine, reference};
use std::sync::Arc;
use talweg_wgpu::Wgpu;

fn adapter() -> Option<Arc<Wgpu>> {
    Wgpu::open(0).ok().map(Arc::new)
}

/// As in `talweg device-test`.
fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 1e-9,
        DType::F16 => 2e-2,
        DType::BF16 => 1e-1,
        _ => 5e-5,
    }
}

fn sample(engine: &Engine, op: &'static ir::Op, case: &Case, dtype: DType) -> Result<(), String> {
    let Ok(graph) = reference::graph_of(op, case) else { return Ok(()) };
    let want = reference::run(&graph, &case.inputs);
    let run = || {
        let mut inputs: Vec<Buffer> = case.inputs.iter().cloned().map(Buffer::Host).collect();
        engine.compile(&graph)?.run(&mut inputs)?.iter().map(Buffer::read).collect::<ir::Result<Vec<Literal>>>()
    };
    match (want, run()) {
        (Err(_), Err(_)) => Ok(()),
        (Err(e), Ok(_)) => Err(format!("should fail: {e}")),
        (Ok(_), Err(e)) => Err(format!("fails: {e}")),
        (Ok(want), Ok(got)) => {
            let off = got.iter().zip(&want).map(|(g, w)| (reference::distance(g, w), tolerance(w.dtype())));
            match off.enumerate().find(|(_, (off, most))| *off > tolerance(dtype).max(*most)) {
                Some((k, (off, _))) => Err(format!("output {k} is off by {off:e}: {:?}, not {:?}", got[k], want[k])),
                None => Ok(()),
            }
        }
    }
}

/// The types of the short form; drivers compile each kernel anew, which in software takes long.
const SHORT: [DType; 2] = [DType::F32, DType::I64];

/// The ops of the short form.
const COMMON: [&str; 8] = ["matmul", "softmax", "layer_norm", "gather", "conv", "sum", "argmax", "cumsum"];

/// Samples of common ops in two types. `TALWEG_OP=add` asks for another op, `TALWEG_OP=all` for every row,
/// `TALWEG_DTYPES=f16,bool` for other types.
#[test]
fn samples_agree_with_the_reference() {
    let Some(device) = adapter() else { return };
    let engine = Engine::new(device);
    let only = std::env::var("TALWEG_OP").ok();
    let asked = std::env::var("TALWEG_DTYPES").ok();
    let dtypes: Vec<DType> = match &asked {
        Some(list) => list.split(',').map(|name| DType::parse(name).expect("an element type")).collect(),
        None => SHORT.to_vec(),
    };
    let (mut count, mut wrong) = (0, Vec::new());
    let is_asked = |o: &&ir::Op| match only.as_deref() {
        Some(name) => name == "all" || name == o.name,
        None => COMMON.contains(&o.name),
    };
    for op in ops::table().filter(is_asked) {
        for (number, case) in (op.cases)().into_iter().enumerate() {
            for &dtype in &dtypes {
                let convert = |l: &Literal| if l.dtype() == DType::F64 { l.cast(dtype) } else { l.clone() };
                let case = Case { inputs: case.inputs.iter().map(convert).collect(), ..case.clone() };
                if !case.inputs.iter().any(|l| l.dtype() == dtype) && dtype != dtypes[0] {
                    continue;
                }
                count += 1;
                if let Err(e) = sample(&engine, op, &case, dtype) {
                    let message = format!("{} {dtype} case {number}: {e:.300}", op.name);
                    eprintln!("{message}");
                    wrong.push(message);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} samples differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Losses of a few steps of gradient descent on a device.
fn losses(device: &str, loss: &dyn Fn(&[Tensor]) -> Tensor, start: &[Tensor]) -> Vec<f32> {
    let mut weights: Vec<Tensor> = start.iter().map(|w| w.to(device).requires_grad()).collect();
    let step = |weights: &mut Vec<Tensor>| {
        let y = loss(weights);
        let slopes = grad(&y, weights).unwrap();
        *weights = weights.iter().zip(&slopes).map(|(w, g)| (w - g * 0.1).detach().requires_grad()).collect();
        y.item::<f32>().unwrap()
    };
    (0..5).map(|_| step(&mut weights)).collect()
}

fn wave(shape: &[usize], seed: usize) -> Tensor {
    let number = |i: usize| ((i * 7 + seed * 13) as f32 * 0.37).sin() * 0.5;
    Tensor::from(Literal::generate(shape, number))
}

#[test]
fn networks_train() {
    if adapter().is_none() {
        return;
    }
    let classes = || Tensor::from([0i64, 3, 1, 2, 3, 0, 2, 1]);
    let mlp = |device: &'static str| {
        let (x, y) = (wave(&[8, 12], 1).to(device), classes().to(device));
        move |w: &[Tensor]| {
            let hidden = (x.matmul(&w[0]) + &w[1]).relu().layer_norm(1, None, None, 1e-5);
            hidden.matmul(&w[2]).cross_entropy(&y)
        }
    };
    let start = [wave(&[12, 16], 2), wave(&[16], 3), wave(&[16, 4], 4)];
    compare(losses("wgpu:0", &mlp("wgpu:0"), &start), losses("cpu", &mlp("cpu"), &start));
    let cnn = |device: &'static str| {
        let (x, y) = (wave(&[8, 1, 12, 12], 5).to(device), classes().to(device));
        move |w: &[Tensor]| {
            let h = x.conv2d(&w[0], None, ConvOptions::new().padding(1)).relu().max_pool2d(2, Default::default());
            h.reshape([8, 4 * 36]).matmul(&w[1]).cross_entropy(&y)
        }
    };
    let start = [wave(&[4, 1, 3, 3], 6), wave(&[4 * 36, 4], 7)];
    compare(losses("wgpu:0", &cnn("wgpu:0"), &start), losses("cpu", &cnn("cpu"), &start));
}

/// Angles whose multiples of π/2 have more digits than an `f32`.
#[test]
fn angles_have_any_size() {
    if adapter().is_none() {
        return;
    }
    let angles = [8192.5f32, -1e5, 4294967296.0, -1.5e20, f32::MAX];
    let x = Tensor::from(angles).to("wgpu:0");
    for (y, f) in [(x.sin(), f64::sin as fn(f64) -> f64), (x.cos(), f64::cos), (x.tan(), f64::tan)] {
        for (got, angle) in y.literal().unwrap().to_f64().into_iter().zip(angles) {
            let want = f(angle.into());
            assert!((got - want).abs() <= 2e-6 * want.abs().max(1.0), "{got}, not {want}, for {angle}");
        }
    }
}

/// Attention over several tiles of queries and keys, with heads that share keys, in every kind of hiding.
#[test]
fn attention_walks_tiles() {
    if adapter().is_none() {
        return;
    }
    let lengths = || Some(Tensor::from([19i64, 37]));
    let options: [fn(Tensor) -> AttentionOptions; 4] = [
        |_| AttentionOptions { grouped: true, ..Default::default() },
        |_| AttentionOptions { grouped: true, causal: true, ..Default::default() },
        |mask| AttentionOptions { grouped: true, mask: Some(mask), ..Default::default() },
        |mask| AttentionOptions { grouped: true, mask: Some(mask.gt(0.0)), causal: true, ..Default::default() },
    ];
    for (number, options) in options.iter().enumerate() {
        let on = |device: &str| {
            let [q, k, v, mask] =
                [(&[2, 4, 37, 24][..], 1), (&[2, 2, 37, 24], 2), (&[2, 2, 37, 40], 3), (&[1, 37, 37], 4)]
                    .map(|(shape, seed)| wave(shape, seed).to(device));
            let mut options = options(mask);
            if number == 1 {
                options.key_lengths = lengths().map(|l| l.to(device));
            }
            (q * 4.0).attention(&k, &v, options).literal().unwrap()
        };
        let off = reference::distance(&on("wgpu:0"), &on("cpu"));
        assert!(off < 5e-5, "case {number} is off by {off:e}");
    }
}

fn compare(got: Vec<f32>, want: Vec<f32>) {
    assert!(got.last() < got.first(), "the loss does not fall: {got:?}");
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4), "{got:?} instead of {want:?}");
}
