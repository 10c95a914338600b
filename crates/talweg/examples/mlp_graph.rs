//! Define, then run: the two-phase perceptron of the TensorFlow paper, almost line for line.
//!
//! `cargo run --release -p talweg --example mlp_graph` prints the loss falling from about 2.3 to
//! under 0.5 on the built-in digits in 400 steps.

use data::{Digits, Loader};
use talweg::prelude::*;

const BATCH_SIZE: usize = 100;

fn main() -> Result<()> {
    let steps = if std::env::var("TALWEG_QUICK").is_ok() { 20 } else { 400 };
    manual_seed(0);

    // 1. Construct a graph representing the model.
    let x = placeholder("x", [BATCH_SIZE, 784], DType::F32); // Placeholder for input.
    let y = placeholder("y", [BATCH_SIZE, 10], DType::F32); // Placeholder for labels.

    let w_1 = Variable::new("W_1", Tensor::uniform([784, 100], -0.05, 0.05))?; // 784x100 weight matrix.
    let b_1 = Variable::new("b_1", Tensor::zeros([100]))?; // 100-element bias vector.
    let layer_1 = (x.matmul(&w_1) + &b_1).relu(); // Output of hidden layer.

    let w_2 = Variable::new("W_2", Tensor::uniform([100, 10], -0.1, 0.1))?; // 100x10 weight matrix.
    let b_2 = Variable::new("b_2", Tensor::zeros([10]))?; // 10-element bias vector.
    let layer_2 = layer_1.matmul(&w_2) + &b_2; // Output of linear layer.

    // 2. Add nodes that represent the optimization algorithm.
    let loss = layer_2.cross_entropy(&y);
    let optimizer = Optimizer::new(Adagrad { lr: 0.01, ..Adagrad::default() }, [w_1, b_1, w_2, b_2].as_slice())?;
    let train_op = optimizer.minimize(&loss)?;

    // 3. Execute the graph on batches of input data.
    let sess = Session::new();
    let mut batches = Loader::builder(Digits::new(0, steps * BATCH_SIZE)).batch(BATCH_SIZE).build()?;
    for (step, batch) in (&mut batches).enumerate() {
        let batch = batch?;
        let x_data = batch.column("image")?.cast(DType::F32).view(&[-1, 784]) / 256.0;
        let y_data = batch.column("label")?.one_hot(10, DType::F32);
        let out = sess.run(&[&train_op, &loss], &[(&x, &x_data), (&y, &y_data)])?; // Perform one training step.
        if step % 50 == 0 || step + 1 == steps {
            println!("step {step:4}  loss {:.4}", out[0].item::<f32>()?);
        }
    }
    Ok(())
}
