//! Adapters: shapes, indexing, reductions, sorting.

use super::GoldenCase;
use ops::{Axes, Result, Tensor};

/// The adapter of `case`'s operator, if it is one of these.
pub fn call(c: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    let x = || c.tensor(0);
    Some(Ok(vec![match c.operator.as_str() {
        "sum" => reduced(c, |t, a| t.sum(a), |t, a| t.sum_keep(a)),
        "reshape" => x().view(&c.ints((1, "shape")).unwrap_or_default()),
        "flip" => x().flip(c.ints((1, "dims")).unwrap_or_default()),
        "permute" => x().permute(&c.ints((1, "dims")).unwrap_or_default()),
        "cat" => Tensor::concat(&c.tensors(0), c.int((1, "dim"), 0)),
        "stack" => Tensor::stack(&c.tensors(0), c.int((1, "dim"), 0)),
        _ => return None,
    }]))
}

/// The axes in `dim`: all of them if none are named, as PyTorch has it.
fn axes(c: &GoldenCase) -> Axes {
    match c.ints((1, "dim")) {
        Some(list) if !list.is_empty() => Axes::from(list),
        _ => Axes::All,
    }
}

/// A reduction in one of its two forms; PyTorch lets a scalar be reduced along axis 0 or -1.
pub(super) fn reduced(
    c: &GoldenCase,
    drop: impl Fn(&Tensor, Axes) -> Tensor,
    keep: impl Fn(&Tensor, Axes) -> Tensor,
) -> Tensor {
    let x = c.tensor(0);
    let axes = if x.rank() == Ok(0) { Axes::All } else { axes(c) };
    if c.bool((2, "keepdim"), false) { keep(&x, axes) } else { drop(&x, axes) }
}
