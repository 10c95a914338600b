//! Define by run: the loop every PyTorch program has.
//!
//! `cargo run --release -p talweg --example torch_loop` trains the same perceptron as `mlp_graph`
//! imperatively: values can be printed, and Rust's `if` and `for` decide.

use data::{Digits, Loader};
use talweg::prelude::*;

#[derive(Module)]
struct Net {
    fc1: Linear,
    fc2: Linear,
}
impl Net {
    fn forward(&self, x: &Tensor) -> Tensor {
        self.fc2.forward(&self.fc1.forward(x).relu())
    }
}

fn main() -> Result<()> {
    let steps = if std::env::var("TALWEG_QUICK").is_ok() { 20 } else { 400 };
    manual_seed(0);
    let net = Net { fc1: Linear::new(784, 100)?, fc2: Linear::new(100, 10)? };
    let optimizer = Optimizer::new(Sgd { lr: 0.1, momentum: 0.9, ..Sgd::default() }, &net)?;
    let mut batches = Loader::builder(Digits::new(0, steps * 100)).batch(100).build()?;
    let mut smooth = None;
    for (step, batch) in (&mut batches).enumerate() {
        let batch = batch?;
        let x = batch.column("image")?.cast(DType::F32).view(&[-1, 784]) / 256.0;
        let loss = net.forward(&x).cross_entropy(&batch.column("label")?);
        loss.backward()?;
        optimizer.step()?;

        let now = loss.item::<f32>()?;
        let mean = smooth.map_or(now, |s: f32| 0.95 * s + 0.05 * now);
        smooth = Some(mean);
        if step % 50 == 0 || step + 1 == steps {
            println!("step {step:4}  loss {now:.4}  smoothed {mean:.4}");
        }
    }
    Ok(())
}
