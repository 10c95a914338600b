//! A training script without any code for distribution, for one process or many.
//!
//! `cargo run --release -p talweg --example digits` trains in one process. The same program becomes data
//! parallel when it is launched:
//! ```text
//! cargo build --release -p talweg --bins --example digits
//! target/release/talweg launch --workers 2 target/release/examples/digits
//! target/release/talweg launch --workers 2 --servers 2 --consistency ssp:3 target/release/examples/digits
//! ```
//! | variable | effect |
//! |---|---|
//! | `STEPS` | number of steps |
//! | `LAYERS`, `WIDTH` | size of the model |
//! | `OPTIMIZER`, `LR` | `adam`, `sgd`, `nadam` or `adafactor`; learning rate of `sgd` |
//! | `CLIP` | bound of the gradient norm |
//! | `NORM=1` | batch normalization and dropout |
//! | `PATIENCE` | evaluate every ten steps, lower the learning rate on a plateau, stop after so many evaluations without a new best |
//! | `CHECKPOINTS` | folder to save to and to resume from |
//! | `PAUSE_MS` | extra milliseconds per step |
//! | `TELL=1`, `SUMS=1` | print each step; print the sum of all magnitudes at the end |
//! | `HANG=R:S` | worker R hangs once after step S |

use std::time::Duration;
use talweg::data::Digits;
use talweg::nn::optim::{Adafactor, NAdam, Rule};
use talweg::nn::schedule::Plateau;
use talweg::nn::train::{Goal, Progress, Report};
use talweg::prelude::*;

/// Says each step if it should, and pauses after it: for ever if it is to hang.
struct Pause(Duration, bool, Option<u64>);
impl Report for Pause {
    fn step(&mut self, p: &Progress) {
        if self.1 {
            println!("did step {}", p.step);
        }
        let hangs = self.2.is_some_and(|at| p.step >= at);
        std::thread::sleep(if hangs { Duration::MAX } else { self.0 });
    }
}

fn main() -> Result<()> {
    let number = |name: &str| std::env::var(name).ok().and_then(|s| s.parse::<usize>().ok());
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let steps = number("STEPS").unwrap_or(if is_quick { 20 } else { 500 });
    let pause = Duration::from_millis(number("PAUSE_MS").unwrap_or(0) as u64);
    let pause = Pause(pause, number("TELL").is_some(), hang());
    manual_seed(0);
    let (layers, width) = (number("LAYERS").unwrap_or(1), number("WIDTH").unwrap_or(32));
    let mut model = Sequential::new();
    for i in 0..layers {
        let inputs = if i == 0 { 784 } else { width };
        model = model.with(Linear::new(inputs, width)?);
        if number("NORM").is_some() {
            model = model.with(BatchNorm::new(width)?).with(Dropout::new(0.1));
        }
        model = model.with(Relu);
    }
    let model = model.with(Linear::new(if layers == 0 { 784 } else { width }, 10)?);
    let rule: Box<dyn Rule> = match std::env::var("OPTIMIZER").as_deref() {
        Ok("nadam") => Box::new(NAdam::default()),
        Ok("adafactor") => Box::new(Adafactor::default()),
        Ok("sgd") => {
            let lr = std::env::var("LR").ok().and_then(|s| s.parse().ok()).unwrap_or(0.1);
            Box::new(Sgd { lr, momentum: 0.9, ..Sgd::default() })
        }
        _ => Box::new(Adam::default()),
    };
    let optimizer = Optimizer::new(rule, &model)?;
    let mut batches = Loader::builder(Digits::new(0, 4_000)).batch(64).shuffle(0).drop_last(true).build()?;
    let held = Loader::builder(Digits::new(1, 200)).batch(200).build()?.next().transpose()?;
    let mut trainer = Trainer::new(&model, &optimizer, &mut batches).steps(steps).report(pause);
    if let Some(max) = std::env::var("CLIP").ok().and_then(|s| s.parse().ok()) {
        trainer = trainer.clip_norm(max);
    }
    if let (Some(patience), Some(held)) = (number("PATIENCE"), &held) {
        let loss = || {
            let x = held.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
            let loss = model.forward(&x).cross_entropy(&held.column("label")?);
            Ok(vec![("loss".to_string(), loss.item::<f64>()?)])
        };
        let plateau = Plateau { patience: 0, factor: 0.5, ..Plateau::new(optimizer.lr()?) };
        trainer = trainer.evaluate(10, loss).watch("loss", Goal::Min).plateau(plateau).patience(patience);
    }
    if let Ok(folder) = std::env::var("CHECKPOINTS") {
        trainer = trainer.checkpoints(Checkpoints::open(folder)?, 20);
        trainer.resume()?;
    }
    let outcome = trainer.fit_jit(&["image", "label"], |batch| {
        let x = batch[0].cast(DType::F32).flatten(1, -1) / 255.0;
        Ok(model.forward(&x).cross_entropy(&batch[1]))
    })?;
    println!("step {}, loss {:.4}", outcome.step, outcome.loss.unwrap_or(f64::NAN));
    if let Some((best, step)) = outcome.best {
        println!("best {best:e} at step {step}, learning rate {:e}", optimizer.lr()?);
    }
    if number("SUMS").is_some() {
        let sums = model.state().iter().map(|(_, v)| v.tensor().abs().sum(..).item::<f64>()).sum::<Result<f64>>()?;
        println!("sums {sums}");
    }
    println!("weights {:016x}", fingerprint(&model)?);
    Ok(())
}

/// The step after which the first life of this worker hangs, if it is to.
fn hang() -> Option<u64> {
    let (hang, name) = (std::env::var("HANG").ok()?, |name: &str| std::env::var(name).unwrap_or_default());
    let (rank, step) = hang.split_once(':')?;
    (rank == name("RANK") && name("TORCHELASTIC_RESTART_COUNT") == "0").then(|| step.parse().ok())?
}

/// A number that changes with any bit of the parameters.
fn fingerprint(model: &Sequential) -> Result<u64> {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (_, v) in model.state() {
        for x in v.tensor().to_vec::<f32>()? {
            hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Ok(hash)
}
