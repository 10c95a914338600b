//! The MXNet example: `B` and `C` depend only on `A`, so they may run in parallel.
//!
//! `cargo run --release -p talweg --example mxnet` prints D = 12 and the plan: nothing ran before D was
//! read, and B, C and D were fused into one pass over A. GEMMs cannot be fused: there the plan joins B
//! and C by a brace, and they run in parallel on two threads.

use talweg::prelude::*;

fn main() -> Result<()> {
    let program = jit(|x: &[Tensor]| {
        let a = &x[0] * 2.0;
        let c = &a + 2.0;
        let b = &a + 1.0;
        Ok(vec![b * c])
    });
    let ones = Tensor::ones([2, 2]);
    println!("{}", program.call(&[&ones])?[0]);
    println!("{}", program.explain(&[&ones])?);

    let products = jit(|x: &[Tensor]| {
        let b = x[0].matmul(&x[0]);
        let c = x[0].matmul(&x[1]);
        Ok(vec![b.matmul(&c)])
    });
    let (a, t) = (Tensor::ones([96, 96]), Tensor::ones([96, 96]));
    println!("{}", products.explain(&[&a, &t])?);
    println!("{}", products.profile(&[&a, &t])?.1);
    Ok(())
}
