//! A script that knows nothing of other processes, for one of them or for many.
//!
//! `cargo run --release -p talweg --example digits` trains alone. The very same program becomes
//! data parallel when it is launched:
//! ```text
//! cargo build --release -p talweg --bins --example digits
//! target/release/talweg launch --workers 2 target/release/examples/digits
//! target/release/talweg launch --workers 2 --servers 2 --consistency ssp:3 target/release/examples/digits
//! ```

use talweg::data::{Digits, Loader};
use talweg::nn::train::Trainer;
use talweg::prelude::*;

fn main() -> Result<()> {
    let steps = std::env::var("STEPS").ok().and_then(|s| s.parse().ok());
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let steps: u64 = steps.unwrap_or(if is_quick { 20 } else { 500 });
    manual_seed(0);
    let model = Sequential::new()
        .with(Linear::new(784, 32)?)
        .with(Activation::new("relu", Tensor::relu))
        .with(Linear::new(32, 10)?);
    let optimizer = Optimizer::new(Adam::default(), &model)?;
    let mut batches = Loader::builder(Digits::new(0, 4_000)).batch(64).shuffle(0).drop_last(true).build()?;
    let outcome =
        Trainer::new(&model, &optimizer, &mut batches).steps(steps).fit_jit(&["image", "label"], |batch| {
            let x = batch[0].cast(DType::F32).flatten(1, -1) / 255.0;
            Ok(model.forward(&x).cross_entropy(&batch[1], Default::default()))
        })?;
    println!("step {}, loss {:.4}", outcome.step, outcome.loss.unwrap_or(f64::NAN));
    println!("weights {:016x}", fingerprint(&model)?);
    Ok(())
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
