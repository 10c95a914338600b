//! Matrix products.

use super::{Outs, Row, one, row};
use crate::run::Call;
use ir::{DType, Error};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("MatMul", 1, |c| {
        if let Some(y) = super::integers::matmul(c, false, None)? {
            return Ok(vec![y]);
        }
        let (a, b) = (c.x(0)?, c.x(1)?);
        let dtype = a.dtype()?;
        // Integers have a kernel for bytes alone; others are exact in f64 up to 2^53.
        if dtype.is_int() {
            return one(a.cast(DType::F64).matmul(b.cast(DType::F64)).cast(dtype));
        }
        one(a.matmul(b))
    }),
    row("Gemm", 1, gemm),
    row("Einsum", 12, |c| {
        let xs = (0..c.inputs.len()).map(|i| c.x(i)).collect::<ir::Result<Vec<_>>>()?;
        let equation: String = c.text("equation", "").chars().filter(|ch| !ch.is_whitespace()).collect();
        one(Tensor::einsum(&equation, &xs.iter().collect::<Vec<_>>()))
    }),
    row("Det", 11, |c| one(c.x(0)?.det())),
    row("Trilu", 14, |c| {
        let k = if c.has(1) { c.ints(1)?.first().copied().unwrap_or(0) } else { 0 };
        let x = c.x(0)?;
        one(if c.int("upper", 1) != 0 { x.triu(k) } else { x.tril(k) })
    }),
    row("EyeLike", 9, |c| {
        let s = c.shape(0)?;
        let [rows, columns] = s.dims() else { return Err(Error::shape(format!("a matrix is needed, not {s}"))) };
        let elem = c.elem_attribute("dtype", c.elem(0)?)?;
        let dtype = elem.storage().unwrap_or(DType::F32);
        c.check_count(rows.saturating_mul(*columns), dtype)?;
        let k = c.int("k", 0);
        let (i, j) = (Tensor::iota(*rows, DType::I64).reshape([*rows, 1]), Tensor::iota(*columns, DType::I64));
        one((i + k).eq(j).cast(dtype))
    }),
];

fn gemm(c: &Call<'_>) -> Outs {
    let (mut a, mut b) = (c.x(0)?, c.x(1)?);
    let dtype = a.dtype()?;
    let (alpha, beta) = (c.float("alpha", 1.0), c.float("beta", 1.0));
    if a.rank()? != 2 || b.rank()? != 2 {
        return Err(Error::shape(format!("matrices are needed, not {} and {}", a.shape()?, b.shape()?)));
    }
    if dtype.is_int() {
        (a, b) = (a.cast(DType::F64), b.cast(DType::F64));
    }
    if c.flag("transA") {
        a = a.t();
    }
    let bias = c.opt(2)?;
    let is_plain = alpha == 1.0 && (beta == 1.0 || bias.is_none()) && !c.flag("transA");
    if is_plain && let Some(y) = super::integers::matmul(c, c.flag("transB"), bias.as_ref())? {
        return Ok(vec![y]);
    }
    // The common form has a kernel of its own.
    let is_linear = c.flag("transB") && alpha == 1.0 && beta == 1.0 && !dtype.is_int();
    let vector = bias.as_ref().filter(|t| t.rank().is_ok_and(|r| r == 1));
    if is_linear
        && let (Some(v), Ok(rows)) = (vector, b.shape())
        && v.count()? == rows[0]
    {
        return one(a.linear(&b, Some(v)));
    }
    if c.flag("transB") {
        b = b.t();
    }
    let mut y = a.matmul(b);
    if alpha != 1.0 {
        y = y * alpha;
    }
    if let Some(bias) = bias {
        let bias = if dtype.is_int() { bias.cast(DType::F64) } else { bias };
        y = y + if beta == 1.0 { bias } else { bias * beta };
    }
    one(if dtype.is_int() { y.cast(dtype) } else { y })
}
