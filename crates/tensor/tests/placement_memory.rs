//! A model that is larger than the memory of one logical device is refused there, and trains on two.

use cpu as _;
use runtime::{LogicalDevice, set_logical_devices};
use talweg_tensor::{Placed, Tensor, Variable, device, engine_named, jit};

const LAYERS: usize = 8;
const WIDTH: usize = 128;
/// Weights, momentum and gradients of all layers are three times 8 · 64 KiB.
const LIMIT: usize = 1 << 20;

struct Model {
    weights: Vec<Variable>,
    momenta: Vec<Variable>,
}

fn model() -> Model {
    let value = |i: usize| ((i * 7919) % 1000) as f32 / 5000.0 - 0.1;
    let all = |l: usize| Tensor::from((0..WIDTH * WIDTH).map(|i| value(i + l)).collect::<Vec<f32>>());
    let weight = |l: usize| Variable::new(&format!("w{l}"), all(l).reshape([WIDTH, WIDTH])).unwrap();
    let momentum = |l: usize| Variable::buffer(&format!("m{l}"), Tensor::zeros([WIDTH, WIDTH])).unwrap();
    Model { weights: (0..LAYERS).map(weight).collect(), momenta: (0..LAYERS).map(momentum).collect() }
}

type Step<'a> = Box<dyn Fn(&[Tensor]) -> talweg_tensor::Result<Vec<Tensor>> + 'a>;

fn step(m: &Model) -> Step<'_> {
    Box::new(move |a: &[Tensor]| {
        let x = m.weights.iter().fold(a[0].clone(), |x, w| x.matmul(&w.tensor()).tanh());
        let loss = x.square().mean(..);
        loss.backward()?;
        for (w, v) in m.weights.iter().zip(&m.momenta) {
            v.assign(&(&v.tensor() * 0.9 + w.grad().expect("a gradient")))?;
            w.assign(&(&w.tensor() - &v.tensor() * 0.05))?;
        }
        Ok(vec![loss])
    })
}

fn losses(m: &Model, steps: usize) -> (Vec<u32>, Option<std::sync::Arc<Placed>>, String) {
    let f = jit(step(m));
    let x = Tensor::from((0..8 * WIDTH).map(|i| (i % 13) as f32 / 13.0).collect::<Vec<f32>>()).reshape([8, WIDTH]);
    let one = |_| f.call(&[&x]).unwrap()[0].item::<f32>().unwrap().to_bits();
    let losses = (0..steps).map(one).collect();
    (losses, f.placed(&[&x]).unwrap(), f.explain(&[&x]).unwrap())
}

#[test]
fn a_model_larger_than_one_device_trains_on_two() {
    let (alone, placed, _) = losses(&model(), 6);
    assert!(placed.is_none(), "one device needs no placement");

    let limited = LogicalDevice { memory_limit: Some(LIMIT), threads: None };
    set_logical_devices("cpu", &[limited; 2]).unwrap();
    let x = Tensor::zeros([8, WIDTH]);
    let alone_on = |name: &str| {
        let m = model();
        let done = device(name, || jit(step(&m)).call(&[&x]).map(|_| ())).unwrap();
        // A gradient of a trace that failed holds its variable.
        m.weights.iter().for_each(Variable::zero_grad);
        done
    };
    let refused = alone_on("cpu:0");
    let e = refused.unwrap_err().to_string();
    assert!(e.contains("cpu:0 needs ") && e.contains("memory limit is 1048.6 kB"), "{e}");
    assert!(e.contains("placement_memory.rs:"), "{e}");

    let of = |d: &str| engine_named(d).unwrap().device().clone();
    ["cpu:0", "cpu:1"].iter().for_each(|d| of(d).reset_peak());
    let m = model();
    let (spread, placed, text) = losses(&m, 6);
    assert_eq!(alone, spread, "{text}");
    let placed = placed.expect("it is on two devices");
    assert_eq!(placed.devices(), ["cpu:0", "cpu:1"]);
    for (d, peak) in placed.devices().iter().zip(placed.peaks()) {
        assert!(*peak <= LIMIT, "{text}");
        let memory = of(d).memory().unwrap();
        assert!(memory.peak_bytes <= LIMIT, "{d} held {memory:?}, planned {peak}\n{text}");
        assert!(memory.used_bytes > 0, "{d} has variables");
    }
    // The state of an optimizer is where its variable is.
    for (w, v) in m.weights.iter().zip(&m.momenta) {
        assert_eq!(w.tensor().device().unwrap(), v.tensor().device().unwrap());
    }
    assert!(text.contains("limit 1048.6 kB"), "{text}");

    let tight = LogicalDevice { memory_limit: Some(LIMIT / 4), threads: None };
    set_logical_devices("cpu", &[tight; 2]).unwrap();
    let m = model();
    let e = jit(step(&m)).call(&[&x]).map(|_| ()).unwrap_err().to_string();
    assert!(e.contains("memory limit is 262.1 kB") && e.contains("placement_memory.rs:"), "{e}");
    set_logical_devices("cpu", &[]).unwrap();
}
