//! Tensor parallelism: two linear layers sharded over the workers, the first by columns, the second by
//! rows, so that a step needs one `all_reduce` in the forward pass. No process holds the whole model:
//! `talweg launch --workers 2 target/release/examples/tensor_parallel`. In one process it is an ordinary
//! perceptron that learns the same.

use talweg::Combine;
use talweg::data::Digits;
use talweg::distributed::Group;
use talweg::prelude::*;

const HIDDEN: usize = 64;

/// This rank's part of a matrix that all ranks draw alike, along an axis.
fn part(name: &str, sizes: [usize; 2], axis: i64, world: &Group) -> Result<Variable> {
    let whole = Tensor::randn(sizes) * (2.0 / sizes[0] as f64).sqrt();
    let size = sizes[axis as usize] / world.size();
    Variable::new(name, whole.narrow(axis, world.rank() * size, size))
}

fn main() -> Result<()> {
    let steps = if std::env::var("TALWEG_QUICK").is_ok() { 20 } else { 500 };
    let world = Group::world()?;
    manual_seed(0);
    let w1 = part("w1", [784, HIDDEN], 1, &world)?;
    let b1 = Variable::new("b1", Tensor::zeros([HIDDEN / world.size()]))?;
    let w2 = part("w2", [HIDDEN, 10], 0, &world)?;
    let b2 = Variable::new("b2", Tensor::zeros([10]))?;
    let step = jit(|a: &[Tensor]| {
        let hidden = (a[0].matmul(&w1) + &b1).relu();
        // Each rank has a part of the sum over hidden units.
        let scores = world.all_reduce(&hidden.matmul(&w2), Combine::Sum) + &b2;
        let loss = scores.cross_entropy(&a[1]);
        // Gradients are those of the sum of all ranks' losses: each brings its share of the one loss.
        (&loss / world.size() as f64).backward()?;
        let lr = 0.1;
        for w in [&w1, &b1, &w2] {
            w.assign(&(w.tensor() - w.grad().expect("it is in the loss") * lr))?;
        }
        // Every rank has this one, and a share of its gradient.
        let whole = world.all_reduce(&b2.grad().expect("it is in the loss"), Combine::Sum);
        b2.assign(&(b2.tensor() - whole * lr))?;
        Ok(vec![loss])
    });
    let mut batches = Loader::builder(Digits::new(0, steps * 50)).batch(50).build()?;
    for (i, batch) in (&mut batches).enumerate() {
        let batch = batch?;
        let x = batch.column("image")?.cast(DType::F32).view(&[-1, 784]) / 256.0;
        let loss = step.call(&[&x, &batch.column("label")?])?.remove(0).item::<f32>()?;
        if i % 100 == 0 || i + 1 == steps {
            println!("step {i:3}  loss {loss:.4}");
        }
    }
    Ok(())
}
