//! Custom ops with gradients, outside the library: a row states what an op computes and how it is
//! differentiated. Fusion, compiled steps, higher gradients and `vmap` follow from it.
//!
//! `cargo run --release -p talweg --example custom_op` checks both ops against loops and finite
//! differences, and shows that the elementwise one is fused with its neighbors.

use talweg::ir::{self, Attrs, Call, Grad, Literal, Meaning, Op, Out, Scalar};
use talweg::prelude::*;
use talweg::rules::{GradTensors, grads, one_dtype, same, unary_grad};

/// An elementwise op: a smooth ramp without exponentials, (x + √(x² + 4)) / 2 (Barron 2021).
static SQUAREPLUS: Op = Op {
    name: "squareplus",
    doc: "(x + √(x² + 4)) / 2, elementwise.",
    infer: |c| Scalar::infer(c, 1, Out::Same, false),
    meaning: Meaning::Scalar(Scalar {
        arity: 1,
        out: Out::Same,
        float: |v| (v[0] + (v[0] * v[0] + 4.0).sqrt()) / 2.0,
        code: "(({0} + sqrt({0} * {0} + 4)) / 2)",
        domain: (-3.0, 3.0),
        ..Scalar::DEFAULT
    }),
    // Written with tensors, so that the gradient can be differentiated again.
    grad: Grad::Rule(|c| unary_grad(c, |x, _, g| g * (1.0 + &x / (x.square() + 4.0).sqrt()) / 2.0)),
    ..Op::DEFAULT
};

/// An op with a loop inside: y₀ = x₀, yₜ = aₜ yₜ₋₁ + xₜ along the last axis. Discounted sums,
/// filters and state-space models are made of it.
static RECUR: Op = Op {
    name: "recur",
    doc: "y[t] = a[t] y[t - 1] + x[t] along the last axis, from y[-1] = 0.",
    infer: |c| {
        c.arity(2)?;
        one_dtype(c)?;
        if c.shape(0) != c.shape(1) || c.shape(0).rank() == 0 {
            return Err(Error::shape(format!(
                "a and x must have one shape [..., T], not {} and {}",
                c.shape(0),
                c.shape(1)
            )));
        }
        same(c, 0)
    },
    meaning: Meaning::Kernel(recur),
    // The gradient is the same recursion from the end, λₜ = gₜ + aₜ₊₁ λₜ₊₁: it is x's, and times
    // yₜ₋₁ it is a's.
    grad: Grad::Rule(|c| {
        let (a, y, g) = (c.x(0), c.y(0), c.g(0));
        let steps = a.shape()?[a.rank()? - 1];
        let zero = a.narrow(-1, 0, 1).zeros_like();
        let next = Tensor::concat(&[a.narrow(-1, 1, steps - 1), zero.clone()], -1);
        let before = Tensor::concat(&[zero, y.narrow(-1, 0, steps - 1)], -1);
        let lambda = apply_recur(&next.flip(-1), &g.flip(-1)).flip(-1);
        grads([&lambda * before, lambda])
    }),
    ..Op::DEFAULT
};

/// The value: any Rust code on the inputs' elements.
fn recur(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (a, mut y) = (args[0].to_f64(), args[1].to_f64());
    let steps = c.shape(0).last().copied().unwrap_or(1).max(1);
    for (a, y) in a.chunks(steps).zip(y.chunks_mut(steps)) {
        for t in 1..steps {
            y[t] += a[t] * y[t - 1];
        }
    }
    Ok(vec![Literal::from_f64(c.dtype(0), c.shape(0).clone(), &y)])
}

#[track_caller]
fn squareplus(x: &Tensor) -> Tensor {
    Tensor::apply1(&SQUAREPLUS, &[x], Attrs::new())
}
#[track_caller]
fn apply_recur(a: &Tensor, x: &Tensor) -> Tensor {
    Tensor::apply1(&RECUR, &[a, x], ir::Attrs::new())
}

fn main() -> Result<()> {
    manual_seed(0);
    let x = Tensor::randn([1000]).cast(DType::F64).requires_grad();
    x.eval()?;

    // Values and first gradients against the formulas, second gradients against differences.
    let y = squareplus(&x);
    let by_parts = (&x + (x.square() + 4.0).sqrt()) / 2.0;
    println!("squareplus: off by {:.1e}", largest(&(&y - by_parts))?);
    let slope = grad(&y.sum(..), std::slice::from_ref(&x))?.remove(0);
    let curvature = grad(&slope.sum(..), std::slice::from_ref(&x))?.remove(0);
    let h = 1e-5;
    let difference = (squareplus(&(&x + h)) - squareplus(&(&x - h))) / (2.0 * h);
    println!("its gradient: off by {:.1e}", largest(&(&slope - difference))?);
    let difference = (squareplus(&(&x + h)) - &y * 2.0 + squareplus(&(&x - h))) / (h * h);
    println!("its second gradient: off by {:.1e}", largest(&(&curvature - difference))?);

    // It is fused like any other: one pass over the data.
    let step = jit(|a: &[Tensor]| Ok(vec![(squareplus(&(&a[0] * 2.0)) + 1.0).sum(..)]));
    println!("{}", step.explain(&[&x])?);

    // Discounted returns, and the gradient through the recursion.
    let a = Tensor::full([3, 5], 0.9f64).requires_grad();
    let rewards = Tensor::ones([3, 5]).cast(DType::F64).requires_grad();
    let y = apply_recur(&a, &rewards);
    println!("recur: {}", y.select(0, 0));
    let by_loop = (0..5).scan(0.0, |y, _| {
        *y = 0.9 * *y + 1.0;
        Some(*y)
    });
    let by_loop = Tensor::new([5], &by_loop.collect::<Vec<f64>>());
    println!("off by {:.1e}", largest(&(y.select(0, 0) - by_loop))?);
    let got = grad(&y.square().sum(..), &[a.clone(), rewards.clone()])?;
    for (name, wanted, g) in [("a", &a, &got[0]), ("x", &rewards, &got[1])] {
        let bump = Tensor::eye(15).cast(DType::F64).select(0, 7).reshape([3, 5]) * h;
        let at = |moved: &Tensor| {
            let (a, x) = if name == "a" { (moved, &rewards) } else { (&a, moved) };
            apply_recur(a, x).square().sum(..)
        };
        let difference = (at(&(wanted + &bump)) - at(&(wanted - &bump))) / (2.0 * h);
        let off = (g.select(0, 1).select(0, 2) - difference).abs().item::<f64>()?;
        println!("its gradient by {name}: off by {off:.1e}");
    }
    // A bad call carries an error with this line.
    let e = apply_recur(&a, &x).eval().unwrap_err();
    println!("{e}");
    Ok(())
}

fn largest(x: &Tensor) -> Result<f64> {
    x.abs().max(..).item()
}
