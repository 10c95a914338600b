//! Complex matrices.
//!
//! A + iB multiplies as the real matrix [[A, -B], [B, A]] does, and its adjoint is that one's
//! transpose: what the real matrix determines uniquely is that of the complex one again. Triangular
//! factors keep their form where the parts of each element lie side by side.

use super::{Pair, Rule, Use};
use crate::linalg::Triangle;
use crate::{DType, Error, Result, Tensor, control};

pub(super) fn rule(name: &str) -> Option<Rule> {
    Some(match name {
        "inv" | "pinv" => inverse,
        "solve" => solve,
        "svdvals" => |u| doubled(u, &u.pair(0)?),
        "eigvalsh" => |u| doubled(u, &hermitian(u)?),
        "cholesky" => cholesky,
        "qr" => qr,
        "det" => |u| Ok(vec![eliminated(u)?.det]),
        "slogdet" => |u| eliminated(u).map(|e| vec![e.phase, e.log]),
        _ => return None,
    })
}

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

fn inverse(u: &Use) -> Result<Vec<Tensor>> {
    let z = u.pair(0)?;
    let (m, n) = sizes(&z)?;
    let y = Tensor::apply1(u.op, &[&block(&z)], u.attrs.clone()).narrow(-1, 0, m);
    Ok(vec![Tensor::complex(&y.narrow(-2, 0, n), &y.narrow(-2, n, n))])
}

fn solve(u: &Use) -> Result<Vec<Tensor>> {
    let (a, b) = (u.pair(0)?, u.pair(1)?);
    let (_, n) = sizes(&a)?;
    let y = Tensor::apply1(u.op, &[&block(&a), &Tensor::concat(&[b.re, b.im], -2)], u.attrs.clone());
    Ok(vec![Tensor::complex(&y.narrow(-2, 0, n), &y.narrow(-2, n, n))])
}

/// The real matrix has every singular value and eigenvalue twice.
fn doubled(u: &Use, z: &Pair) -> Result<Vec<Tensor>> {
    let all = Tensor::apply1(u.op, &[&block(z)], u.attrs.clone());
    let mut shape = all.shape()?;
    let n = shape.last().copied().unwrap_or(0);
    shape.remove(shape.rank() - 1);
    shape.push(n / 2);
    shape.push(2);
    Ok(vec![all.reshape(shape).select(-1, 0)])
}

/// The Hermitian matrix of which the op reads one triangle.
fn hermitian(u: &Use) -> Result<Pair> {
    let z = u.pair(0)?;
    sizes(&z)?;
    let mirrored = |low: &Tensor, sign: f64| low + low.tril(-1).t() * sign;
    Ok(match Triangle::parse(u.attrs.str("triangle")?)? {
        Triangle::Lower => Pair::new(mirrored(&z.re.tril(0), 1.0), mirrored(&z.im.tril(-1), -1.0)),
        Triangle::Upper => Pair::new(mirrored(&z.re.t().tril(0), 1.0), -mirrored(&z.im.t().tril(-1), -1.0)),
        Triangle::Both => Pair::new((&z.re + z.re.t()) * 0.5, (&z.im - z.im.t()) * 0.5),
    })
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

fn cholesky(u: &Use) -> Result<Vec<Tensor>> {
    let l = Tensor::apply1(u.op, &[&woven(&hermitian(u)?)?], u.attrs.clone().set("triangle", "lower"));
    let l = unwoven(&l)?.join();
    // The method transposes the factor of an upper triangle, which is then its adjoint.
    Ok(vec![if u.attrs.str("triangle")? == "upper" { l.conj() } else { l }])
}

/// With a positive diagonal, which makes the factors of the real matrix unique.
fn qr(u: &Use) -> Result<Vec<Tensor>> {
    let [q, r]: [Tensor; 2] = Tensor::apply_n(u.op, &[&woven(&u.pair(0)?)?], u.attrs.clone());
    let diagonal = r.diagonal(0, -2, -1);
    let sign = Tensor::where_(&diagonal.lt(0.0), &diagonal.full_like(-1.0), diagonal.ones_like());
    let (q, r) = (q * sign.unsqueeze(-2), r * sign.unsqueeze(-1));
    Ok(vec![unwoven(&q)?.join(), unwoven(&r)?.join()])
}

/// What elimination says of a determinant.
struct Eliminated {
    det: Tensor,
    phase: Tensor,
    log: Tensor,
}

/// Gauss's elimination, column after column, with the greatest element as pivot.
fn eliminated(u: &Use) -> Result<Eliminated> {
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
