//! Logistic regression by gradient descent: ŷ = 1 / (1 + exp(-wᵀx)), L(w) = Σ l(y, ŷ) + λ‖w‖²,
//! w ← w − η ∇L(w).
//!
//! `cargo run --release -p talweg --example logistic_regression` prints an accuracy of 1.00 on two
//! Gaussian clusters, and the weights.

use talweg::prelude::*;

fn main() -> Result<()> {
    manual_seed(3);
    let n = 200;
    let side = (Tensor::arange(0..n).view(&[-1, 1]) % 2).cast(DType::F32); // 0 or 1
    let x = Tensor::randn([n as usize, 2]) + (&side * 2.0 - 1.0) * 2.5;
    x.eval()?; // the points are drawn once
    let (lambda, eta) = (1e-3, 0.5);

    let w = Variable::new("w", Tensor::zeros([2, 1]))?;
    for step in 0..100 {
        let p = x.matmul(&w).sigmoid();
        let likelihood = &side * p.log() + (1.0 - &side) * (1.0 - &p).log();
        let loss = -likelihood.mean(..) + w.tensor().square().sum(..) * lambda;
        let g = grad(&loss, &[w.tensor()])?;
        w.assign(&(w.tensor() - eta * &g[0]))?;
        if step % 20 == 0 {
            println!("step {step:3}  loss {:.4}", loss.item::<f32>()?);
        }
    }
    let right = x.matmul(&w).gt(0.0).cast(DType::F32).eq(&side).cast(DType::F32).mean(..);
    println!("accuracy {:.2}, w = {:?}", right.item::<f32>()?, w.tensor().to_vec::<f32>()?);
    Ok(())
}
