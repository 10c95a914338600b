//! What a straggler costs under each consistency model: a training loop whose steps take `PAUSE_MS`
//! milliseconds, four times as long on one worker.
//!
//! `SLOW=turns` slows a different worker in each step; `SLOW=always` slows the last worker in every step.
//! The first worker prints the loss on held-out images with the elapsed time. `scripts/stragglers.py`
//! runs it under every model and draws the figure of docs/consistency.md.
//! ```text
//! cargo build --release -p talweg --bins --example stragglers
//! target/release/talweg launch --workers 4 --servers 1 --consistency ssp:3 target/release/examples/stragglers
//! ```

use std::time::{Duration, Instant};
use talweg::data::Digits;
use talweg::nn::parallel;
use talweg::prelude::*;

/// How many times longer a slow step takes.
const SLOWER: u32 = 4;

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).ok().and_then(|s| s.parse().ok()).unwrap_or(default)
}

fn main() -> Result<()> {
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let steps = number("STEPS", if is_quick { 10 } else { 300 });
    let pause = Duration::from_millis(number("PAUSE_MS", 5) as u64);
    let always = std::env::var("SLOW").is_ok_and(|s| s == "always");
    let (rank, world) = (parallel::rank()? as u64, parallel::world()? as u64);
    // Where steps are not averaged, each worker's gradient makes its own step: a smaller one.
    let rule = std::env::var("TALWEG_CONSISTENCY").unwrap_or_default();
    let averages = !(rule.starts_with("ssp") || rule == "async");
    manual_seed(0);
    let model = Sequential::new().with(Linear::new(784, 32)?).with(Relu).with(Linear::new(32, 10)?);
    let lr = 0.2 / if averages { 1.0 } else { world as f64 };
    let optimizer = Optimizer::new(Sgd { lr, ..Sgd::default() }, &model)?;
    let mut batches = Loader::builder(Digits::new(0, 4_000)).batch(64).shuffle(0).drop_last(true).build()?;
    let mut unseen = Loader::builder(Digits::new(1, 256)).batch(256).build()?;
    let unseen = unseen.next().ok_or_else(|| Error::value("there are no images"))??;
    let loss = |batch: &talweg::data::Batch| -> Result<Tensor> {
        let x = batch.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
        Ok(model.forward(&x).cross_entropy(&batch.column("label")?))
    };
    let (began, mut step) = (Instant::now(), 0u64);
    let outcome = Trainer::new(&model, &optimizer, &mut batches).steps(steps).fit(|batch| {
        // All workers draw the same straggler for a step.
        let turn = step.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        let is_slow = if always { rank + 1 == world } else { turn % world == rank };
        std::thread::sleep(if is_slow { pause * SLOWER } else { pause });
        if rank == 0 && step.is_multiple_of(10) {
            let seen = no_grad(|| loss(&unseen))?.item::<f64>()?;
            println!("{:.3} {step} {seen:.4}", began.elapsed().as_secs_f64());
        }
        step += 1;
        loss(batch)
    })?;
    println!("did {} steps in {:.3} s", outcome.step, began.elapsed().as_secs_f64());
    Ok(())
}
