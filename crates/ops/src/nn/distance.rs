//! Lengths of vectors as distances need them: zero slope where the length is zero.

use crate::{Error, Result, Tensor};

/// √Σ d² along an axis, which keeps size 1.
pub(crate) fn length_keep(d: &Tensor, along: i64) -> Tensor {
    root(&(d * d).sum_keep(along), 0.5)
}

/// `s` to a power where it is positive, else 0 without a slope.
fn root(s: &Tensor, power: f64) -> Tensor {
    let positive = s.gt(0.0);
    let safe = Tensor::where_(&positive, s, 1.0);
    let y = if power == 0.5 { safe.sqrt() } else { safe.pow(power) };
    Tensor::where_(&positive, &y, 0.0)
}

/// The p-norm along an axis, which keeps size 1.
pub(crate) fn norm_keep(d: &Tensor, p: f64, along: i64) -> Result<Tensor> {
    let a = d.abs();
    Ok(match p {
        _ if p.is_nan() => return Err(Error::value("p must be a number, not NaN")),
        0.0 => d.then(|t| Ok(d.ne(0.0).cast(t.dtype).sum_keep(along))),
        1.0 => a.sum_keep(along),
        2.0 => length_keep(d, along),
        f64::INFINITY => a.max_keep(along),
        f64::NEG_INFINITY => a.min_keep(along),
        _ if p > 0.0 => {
            let terms = root(&a, p);
            root(&terms.sum_keep(along), 1.0 / p)
        }
        _ => a.pow(p).sum_keep(along).pow(1.0 / p),
    })
}
