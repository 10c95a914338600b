//! Normalization.

use super::{Outs, Row, all, one, per_channel, row};
use crate::run::Call;
use ir::{DType, Error, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("BatchNormalization", 1, batch_norm),
    row("InstanceNormalization", 1, |c| {
        one(c.x(0)?.instance_norm(Some(&c.x(1)?), Some(&c.x(2)?), c.float("epsilon", 1e-5)))
    }),
    row("LayerNormalization", 17, layer_norm),
    row("RMSNormalization", 23, |c| {
        let (x, w) = (c.x(0)?, c.x(1)?);
        let axis = c.axis(-1, x.rank()?)?;
        let axes: Vec<i64> = (axis as i64..x.rank()? as i64).collect();
        let wide = x.cast(stash(c)?);
        let root = (wide.square().mean_keep(&axes) + c.float("epsilon", 1e-5)).rsqrt();
        one((wide * root).cast(x.dtype()?).cast(w.dtype()?) * w)
    }),
    row("GroupNormalization", 18, group_norm),
    row("LRN", 1, |c| {
        let x = c.x(0)?;
        let (size, alpha, beta, bias) =
            (c.int("size", 1), c.float("alpha", 1e-4), c.float("beta", 0.75), c.float("bias", 1.0));
        let size =
            usize::try_from(size).ok().filter(|&n| n > 0).ok_or_else(|| Error::value("size must be positive"))?;
        let rank = x.rank()?;
        let (mut lo, mut hi) = (vec![0i64; rank], vec![0i64; rank]);
        (lo[1], hi[1]) = ((size as i64 - 1) / 2, size as i64 - 1 - (size as i64 - 1) / 2);
        let sums = x.square().pad_raw(&lo, &hi, 0.0).unfold(1, size, 1).sum(-1);
        one(&x / (sums * (alpha / size as f64) + bias).pow(beta))
    }),
    row("LpNormalization", 1, |c| {
        let x = c.x(0)?;
        let a = c.axis(-1, x.rank()?)? as i64;
        let norm = match c.int("p", 2) {
            1 => x.abs().sum_keep(a),
            2 => x.square().sum_keep(a).sqrt(),
            p => return Err(Error::value(format!("p is {p}"))),
        };
        one(Tensor::where_(&norm.eq(0.0), &x.zeros_like(), &(&x / &norm)))
    }),
    row("MeanVarianceNormalization", 9, |c| {
        let x = c.x(0)?;
        let axes = c.list("axes").unwrap_or_else(|| vec![0, 2, 3]);
        let centered = &x - x.mean_keep(&axes);
        let std = (x.square().mean_keep(&axes) - x.mean_keep(&axes).square()).sqrt();
        one(centered / (std + 1e-9))
    }),
    row("Dropout", 1, |c| {
        let is_training = c.version() >= 12 && c.has(2) && c.ints(2)?.first().is_some_and(|&b| b != 0);
        let ratio = if c.version() >= 12 && c.has(1) { c.scalar(1)? } else { c.float("ratio", 0.5) };
        let x = c.x(0)?;
        if is_training && ratio != 0.0 {
            return super::random::dropout(c, &x, ratio);
        }
        let mask = Tensor::ones_of(x.shape()?, if c.version() < 10 { x.dtype()? } else { DType::Bool });
        all([x, mask])
    }),
];

fn batch_norm(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let (scale, bias, mean, var) = (c.x(1)?, c.x(2)?, c.x(3)?, c.x(4)?);
    let eps = c.float("epsilon", 1e-5);
    let rank = x.rank()?;
    if c.version() < 9 && c.int("spatial", 1) == 0 {
        return Err(Error::value("BatchNormalization with spatial = 0 is not supported"));
    }
    if c.version() < 14 || !c.flag("training_mode") {
        if c.wants(1) && c.version() < 14 && !(c.version() < 7 && c.flag("is_test")) {
            return Err(Error::value("BatchNormalization in training mode has results only since version 14"));
        }
        return one(x.batch_norm(&mean, &var, Some(&scale), Some(&bias), eps));
    }
    let momentum = c.float("momentum", 0.9);
    let axes: Vec<i64> = (0..rank as i64).filter(|&a| a != 1).collect();
    let wide = x.cast(if x.dtype()? == DType::F64 { DType::F64 } else { DType::F32 });
    let (m, v) = (wide.mean(&axes), wide.var(&axes, 0.0));
    let dtype = x.dtype()?;
    let y = x.batch_norm(&m, &v, Some(&scale), Some(&bias), eps);
    let moved = |old: Tensor, new: &Tensor| -> Result<Tensor> {
        let to = old.dtype()?;
        Ok((old.cast(new.dtype()?) * momentum + new * (1.0 - momentum)).cast(to))
    };
    all([y.cast(dtype), moved(mean, &m)?, moved(var, &v)?])
}

/// The type that statistics are computed in.
fn stash(c: &Call<'_>) -> Result<DType> {
    let e = c.elem_attribute("stash_type", crate::element::Elem::FLOAT)?;
    let own = c.x(0)?.dtype()?;
    Ok(if own == DType::F64 { own } else { e.storage().unwrap_or(DType::F32) })
}

fn layer_norm(c: &Call<'_>) -> Outs {
    let (x, w, b) = (c.x(0)?, c.x(1)?, c.opt(2)?);
    let rank = x.rank()?;
    let axis = c.axis(-1, rank)?;
    let eps = c.float("epsilon", 1e-5);
    let shape = x.shape()?;
    let is_whole = |t: &Tensor| t.shape().is_ok_and(|s| s[..] == shape[axis..]);
    if c.outs() == 1 && is_whole(&w) && b.as_ref().is_none_or(is_whole) {
        return one(x.layer_norm(rank - axis, Some(&w), b.as_ref(), eps));
    }
    let axes: Vec<i64> = (axis as i64..rank as i64).collect();
    let wide = x.cast(stash(c)?);
    let mean = wide.mean_keep(&axes);
    let centered = wide - &mean;
    let root = (centered.square().mean_keep(&axes) + eps).rsqrt();
    let y = (centered * &root).cast(x.dtype()?) * w;
    all([if let Some(b) = b { y + b } else { y }, mean, root])
}

fn group_norm(c: &Call<'_>) -> Outs {
    let (x, scale, bias) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let groups = usize::try_from(c.int("num_groups", 1)).ok().filter(|&g| g > 0);
    let groups = groups.ok_or_else(|| Error::value("num_groups must be positive"))?;
    let shape = x.shape()?;
    let each = shape[1] / groups;
    // Before version 21 there is a scale for each group.
    let spread = |t: Tensor| if c.version() < 21 { t.repeat_interleave(each, 0) } else { t };
    let y = x.cast(stash(c)?).group_norm(groups, None, None, c.float("epsilon", 1e-5)).cast(x.dtype()?);
    one(y * per_channel(&spread(scale), shape.rank())? + per_channel(&spread(bias), shape.rank())?)
}
