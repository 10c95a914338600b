//! Attention that drops weights, on a device whose library draws them with its own generator: which are
//! dropped is read off a result, and everything else has to follow from it.

use crate::{Error, ErrorKind, Result, Tensor, device, vjp};
use ir::{DType, Literal};
use tensor::nn::AttentionOptions;

/// Queries, keys and the width of both.
const N: usize = 128;
const P: f64 = 0.25;

fn options(key: [i64; 2], causal: bool) -> AttentionOptions {
    AttentionOptions { causal, dropout: Some((P, Tensor::from(key))), ..Default::default() }
}

/// Numbers around 0 that look random.
fn noise(heads: usize, seed: usize) -> Tensor {
    let number = |i: usize| ((i + seed).wrapping_mul(2_654_435_761) >> 7 & 0xffff) as f32 / 32768.0 - 1.0;
    Tensor::from(Literal::generate([2, heads, N, N], number)).cast(DType::BF16)
}

/// Checks result and gradients, causal or not, with heads that share keys.
pub fn check(name: &str) -> Result<()> {
    for causal in [false, true] {
        let wrong = |what: String| Error::new(ErrorKind::Device, format!("attention with dropout on {name}: {what}"));
        let inputs =
            [noise(4, 1), noise(4, 2), Tensor::eye(N).cast(DType::BF16).broadcast_to([2, 4, N, N]), noise(4, 3)];
        let run = |key: [i64; 2]| -> Result<Vec<Tensor>> {
            device(name, || {
                let [q, k, v, g] = inputs.each_ref().map(|t| t.to(name).requires_grad());
                let y = q.attention(&k, &v, options(key, causal));
                let mut all = vjp(std::slice::from_ref(&y), &[g], &[q, k, v])?;
                all.insert(0, y);
                all.iter().map(|t| Ok(Tensor::from(t.literal()?).cast(DType::F32))).collect()
            })?
        };
        let got = run([7, 1])?;
        let same = |a: &Tensor, b: &Tensor| -> Result<bool> { Ok(a.literal()? == b.literal()?) };
        if !same(&got[0], &run([7, 1])?[0])? || same(&got[0], &run([7, 2])?[0])? {
            return Err(wrong("a key and what it drops do not belong together".into()));
        }
        device("cpu", || {
            // With unit vectors as values, results are the weights.
            let [q, k, v, g] = inputs.each_ref().map(|t| t.cast(DType::F32));
            let o = AttentionOptions { causal, ..Default::default() };
            let weights = q.attention(&k, &v, o);
            let (keep, part) = (got[0].gt(0.0).cast(DType::F32), 1.0 / (1.0 - P));
            let seen = weights.gt(1e-4).cast(DType::F32);
            let share = ((&keep * &seen).sum(..) / seen.sum(..)).item::<f32>()? as f64;
            if (share - (1.0 - P)).abs() > 0.02 {
                return Err(wrong(format!("{share} of the weights are kept")));
            }
            let left = &weights * &keep * part;
            let of_weights = &g * &keep * part;
            let along = (&of_weights * &weights).sum_keep(-1);
            let of_scores = &weights * (of_weights - along) * (1.0 / (N as f64).sqrt());
            let want = [left.clone(), of_scores.matmul(&k), of_scores.t().matmul(&q), left.t().matmul(&g)];
            for (what, (got, want)) in ["y", "dq", "dk", "dv"].iter().zip(got.iter().zip(&want)) {
                let off = ((got - want).square().sum(..) / want.square().sum(..)).sqrt().item::<f32>()?;
                if off.is_nan() || off > 0.02 {
                    return Err(wrong(format!("{what} is off by {off}")));
                }
            }
            Ok(())
        })??;
    }
    println!("{name}: attention drops weights, and its gradient the same ones");
    Ok(())
}
