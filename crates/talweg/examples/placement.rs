//! A network on two logical devices: its layers by constraint, then wherever the memory of each device has room.
//! ```text
//! cargo run --release -p talweg --example placement
//! TALWEG_LOGICAL_CPUS=2 TALWEG_LOGICAL_CPU_MEMORY=640KiB cargo run --release -p talweg --example placement
//! ```
//! It prints where everything is computed, each value that is sent, and losses that are the same bit for bit.

use talweg::prelude::*;
use talweg::{LogicalDevice, colocate_with, device, logical_devices, set_logical_devices};

const WIDTH: usize = 128;

fn model() -> talweg::Result<Vec<Variable>> {
    let weight = |l: usize| {
        let value = |i: usize| ((i * 7919 + l) % 1000) as f32 / 2500.0 - 0.2;
        let all: Vec<f32> = (0..WIDTH * WIDTH).map(value).collect();
        Variable::new(&format!("layer{l}"), Tensor::from(all).reshape([WIDTH, WIDTH]))
    };
    (0..8).map(weight).collect()
}

/// Trains for some steps; `on` names the device of each layer, or none.
fn train(on: Option<fn(usize) -> &'static str>, steps: usize) -> talweg::Result<(Vec<f32>, String)> {
    let layers = model()?;
    let step = jit(|a: &[Tensor]| {
        let mut x = a[0].clone();
        for (l, w) in layers.iter().enumerate() {
            let forward = || x.matmul(&w.tensor()).tanh();
            x = match on {
                Some(name) => device(name(l), forward)?,
                None => forward(),
            };
        }
        let loss = colocate_with(&x, || x.square().mean(..))?;
        loss.backward()?;
        for w in &layers {
            let grad = w.grad().ok_or_else(|| talweg::Error::bug("no gradient"))?;
            w.assign(&(w.tensor() - grad * 0.1))?;
        }
        Ok(vec![loss])
    });
    let x = Tensor::from((0..16 * WIDTH).map(|i| (i % 13) as f32 / 13.0).collect::<Vec<f32>>()).reshape([16, WIDTH]);
    let losses = (0..steps).map(|_| step.call(&[&x])?[0].item::<f32>()).collect::<talweg::Result<Vec<f32>>>()?;
    let text = match step.placed(&[&x])? {
        Some(placed) => placed.text(),
        None => "one device computes everything\n".to_string(),
    };
    Ok((losses, text))
}

fn main() -> talweg::Result<()> {
    let steps = if std::env::var_os("TALWEG_QUICK").is_some() { 2 } else { 10 };
    if logical_devices().is_empty() {
        let limited = LogicalDevice { memory_limit: Some(640 << 10), threads: None };
        set_logical_devices("cpu", &[limited; 2])?;
    }
    let (by_hand, text) = train(Some(|l| if l < 4 { "cpu:0" } else { "cpu:1" }), steps)?;
    println!("By constraint:\n{text}");
    let (by_cost, text) = train(None, steps)?;
    println!("By cost and memory:\n{text}");
    println!("losses {by_hand:?}");
    assert_eq!(by_hand, by_cost, "where ops are computed changes no number");
    let all_on_one = train(Some(|_| "cpu:0"), 1).err();
    println!("On cpu:0 alone: {}", all_on_one.map_or("it fits".to_string(), |e| e.to_string()));
    Ok(())
}
