//! Complex matrices.
//!
//! A + iB multiplies as the real matrix [[A, -B], [B, A]] does, and its adjoint is that one's
//! transpose: what the real matrix determines uniquely is that of the complex one again. Triangular
//! factors keep their form where the parts of each element lie side by side. Vectors are not
//! determined uniquely: their decompositions are separate rows, on pairs.

use super::{Pair, Use};
use crate::{DType, Error, Result, Tensor, control};
use ir::Op;

/// Rows and columns.
fn sizes(z: &Pair) -> Result<(usize, usize)> {
    match z.re.shape()?.dims() {
        [.., m, n] => Ok((*m, *n)),
        _ => Err(Error::shape(format!("a matrix has at least two dimensions, but this is {}", z.re.shape()?))),
    }
}

/// The real matrix, in four blocks.
fn block(z: &Pair) -> Tensor {
    let top = Tensor::concat(&[z.re.clone(), -&z.im], -1);
    Tensor::concat(&[top, Tensor::concat(&[z.im.clone(), z.re.clone()], -1)], -2)
}

pub(crate) fn by_block(u: &Use) -> Result<Vec<Tensor>> {
    let z = u.pair(0)?;
    let (m, n) = sizes(&z)?;
    let y = Tensor::apply1(u.op, &[&block(&z)], u.attrs.clone()).narrow(-1, 0, m);
    Ok(vec![Tensor::complex(&y.narrow(-2, 0, n), &y.narrow(-2, n, n))])
}

pub(crate) fn solve(u: &Use) -> Result<Vec<Tensor>> {
    let (a, b) = (u.pair(0)?, u.pair(1)?);
    let (_, n) = sizes(&a)?;
    let y = Tensor::apply1(u.op, &[&block(&a), &Tensor::concat(&[b.re, b.im], -2)], u.attrs.clone());
    Ok(vec![Tensor::complex(&y.narrow(-2, 0, n), &y.narrow(-2, n, n))])
}

/// The results of a row on pairs, of which the `complex` ones are pairs again.
pub(crate) fn on_pairs<const N: usize>(u: &Use, op: &'static Op, complex: [bool; N]) -> Result<Vec<Tensor>> {
    let outs = Tensor::apply(op, &[&u.inputs[0].view_as_real()], u.attrs.clone());
    Ok(outs.iter().zip(complex).map(|(y, is)| if is { y.view_as_complex() } else { y.clone() }).collect())
}

/// With each row over its diagonal element: a diagonal of ones keeps the woven matrix triangular.
pub(crate) fn triangular_solve(u: &Use) -> Result<Vec<Tensor>> {
    let (is_upper, is_unit) = (u.attrs.bool("upper")?, u.attrs.bool("unit")?);
    let (mut a, mut b) = (u.pair(0)?.join(), u.pair(1)?.join());
    a = if is_upper { a.triu(0) } else { a.tril(0) };
    let mut ones = a.diagonal(0, -2, -1).real().ones_like();
    if !is_unit {
        let diagonal = a.diagonal(0, -2, -1);
        let is_zero = diagonal.eq(0.0);
        let safe = Tensor::where_(&is_zero, &diagonal.ones_like(), &diagonal).unsqueeze(-1);
        (a, b) = (a / &safe, b / safe);
        // The real op finds the zeros.
        ones = Tensor::where_(&is_zero, &ones.zeros_like(), &ones);
    }
    let n = ones.shape()?.last().copied().unwrap_or(0);
    let eye = Tensor::eye_of(n, n, DType::Bool);
    let a = Pair::of(&Tensor::where_(&eye, &ones.unsqueeze(-1).to_complex(), &a));
    let b = Pair::of(&b);
    let shape = b.re.shape()?;
    let (lead, k) = (&shape[..shape.rank() - 2], shape[shape.rank() - 1]);
    let long: ir::Shape = lead.iter().chain(&[2 * n, k]).copied().collect();
    let split: ir::Shape = lead.iter().chain(&[n, 2, k]).copied().collect();
    let sides = Tensor::stack(&[b.re, b.im], -2).reshape(long);
    let x = Tensor::apply1(u.op, &[&woven(&a)?, &sides], u.attrs.clone()).reshape(split);
    Ok(vec![Tensor::complex(&x.select(-2, 0), &x.select(-2, 1))])
}

/// The real matrix with the parts of each element side by side.
fn woven(z: &Pair) -> Result<Tensor> {
    let (m, n) = sizes(z)?;
    let shape = |tail: &[usize]| -> Result<ir::Shape> {
        let all = z.re.shape()?;
        Ok(all[..all.rank() - 2].iter().chain(tail).copied().collect())
    };
    let row = |a: Tensor, b: Tensor| -> Result<Tensor> { Ok(Tensor::stack(&[a, b], -1).reshape(shape(&[m, 2 * n])?)) };
    let (top, bottom) = (row(z.re.clone(), -&z.im)?, row(z.im.clone(), z.re.clone())?);
    Ok(Tensor::stack(&[top, bottom], -2).reshape(shape(&[2 * m, 2 * n])?))
}
/// The complex matrix that is woven into a real one.
fn unwoven(x: &Tensor) -> Result<Pair> {
    let all = x.shape()?;
    let (lead, m, n) = (&all[..all.rank() - 2], all[all.rank() - 2] / 2, all[all.rank() - 1] / 2);
    let shape: ir::Shape = lead.iter().chain(&[m, 2, n, 2]).copied().collect();
    let columns = x.reshape(shape).select(-1, 0);
    Ok(Pair::new(columns.select(-2, 0), columns.select(-2, 1)))
}

/// The real op reads the same triangle, and its gradient is that of a Hermitian matrix.
pub(crate) fn cholesky(u: &Use) -> Result<Vec<Tensor>> {
    let mut z = u.pair(0)?;
    sizes(&z)?;
    z.im = z.im.tril(-1) + z.im.triu(1);
    let l = unwoven(&Tensor::apply1(u.op, &[&woven(&z)?], u.attrs.clone()))?.join();
    // The method transposes the factor of an upper triangle, which is then its adjoint.
    Ok(vec![if u.attrs.str("triangle")? == "upper" { l.conj() } else { l }])
}

/// What elimination says of a determinant.
pub(crate) struct Eliminated {
    pub det: Tensor,
    pub phase: Tensor,
    pub log: Tensor,
}

/// Gauss's elimination, column after column, with the largest element as pivot.
pub(crate) fn eliminated(u: &Use) -> Result<Eliminated> {
    let z = u.pair(0)?;
    let n = match sizes(&z)? {
        (m, n) if m == n => n,
        _ => return Err(Error::shape(format!("input 0 must be square, but it is {}", z.re.shape()?))),
    };
    let shape = z.re.shape()?;
    let one = Tensor::full_of(&shape[..shape.rank() - 2], 1.0, u.inputs[0].dtype()?);
    let rows = Tensor::iota(n, DType::I64);
    let step = |k: &Tensor, c: &[Tensor]| -> Result<Vec<Tensor>> {
        let (m, det, phase, log) = (&c[0], &c[1], &c[2], &c[3]);
        let at_k = rows.eq(k);
        let column = Tensor::where_(&at_k, m, 0.0).sum(-1);
        let size = Tensor::where_(&rows.lt(k), &column.real().full_like(-1.0), column.abs());
        let at_p = rows.eq(size.stop_gradient().argmax_keep(-1));
        let row = |at: &Tensor| Tensor::where_(&at.unsqueeze(-1), m, 0.0).sum(-2).unsqueeze(-2);
        let (row_k, row_p) = (row(&at_k), row(&at_p));
        let swapped = Tensor::where_(&at_p.unsqueeze(-1), &row_k, m);
        let swapped = Tensor::where_(&at_k.unsqueeze(-1), &row_p, &swapped);
        let pivot = Tensor::where_(&at_k, &row_p.squeeze(-2), 0.0).sum(-1);
        let is_zero = pivot.eq(0.0);
        let safe = Tensor::where_(&is_zero, &one, &pivot);
        let below = Tensor::where_(&at_k, &swapped, 0.0).sum(-1) / safe.unsqueeze(-1);
        let below = Tensor::where_(&rows.gt(k), &below, 0.0).unsqueeze(-1);
        let turn = at_p.and(&at_k).any(-1).cast_like(log) * 2.0 - 1.0;
        let log = log + Tensor::where_(&is_zero, &log.full_like(f64::NEG_INFINITY), safe.abs().log());
        Ok(vec![swapped - below * row_p, det * &pivot * &turn, phase * pivot.sign() * turn, log])
    };
    let start = [u.inputs[0].clone(), one.clone(), one.clone(), one.real().zeros_like()];
    let end = control::fori_loop(0, n as i64, step, &start)?;
    Ok(Eliminated { det: end[1].clone(), phase: end[2].clone(), log: end[3].clone() })
}
