//! Products of complex numbers along axes and of matrices.

use super::arithmetic::mul;
use super::{Pair, Use};
use crate::{Result, Tensor};

pub(crate) fn matmul(u: &Use) -> Result<Vec<Tensor>> {
    let (a, b) = (u.pair(0)?, u.pair(1)?);
    let by = |x: &Tensor, y: &Tensor| Tensor::apply1(u.op, &[x, y], u.attrs.clone());
    let re = if a.is_real() || b.is_real() { by(&a.re, &b.re) } else { by(&a.re, &b.re) - by(&a.im, &b.im) };
    let im = match (a.is_real(), b.is_real()) {
        (true, _) => by(&a.re, &b.im),
        (_, true) => by(&a.im, &b.re),
        _ => by(&a.re, &b.im) + by(&a.im, &b.re),
    };
    Ok(vec![Tensor::complex(&re, &im)])
}

/// The first operand is conjugated.
pub(crate) fn vecdot(u: &Use) -> Result<Vec<Tensor>> {
    let (a, b) = (u.inputs[0].conj(), &u.inputs[1]);
    Ok(vec![(a * b).sum(u.attrs.int("axis")?)])
}

/// As a tree of halves: its depth is the logarithm of the size.
pub(crate) fn prod(u: &Use) -> Result<Vec<Tensor>> {
    let mut z = u.pair(0)?;
    for a in u.attrs.sizes("axes")? {
        let at = a as i64;
        let part = |z: &Pair, from: usize, n: usize| Pair::new(z.re.narrow(at, from, n), z.im.narrow(at, from, n));
        let mut n = z.re.shape()?[a];
        if n == 0 {
            let shape = z.re.shape()?.reduce(&[a], true);
            let dtype = z.re.dtype()?;
            z = Pair::new(Tensor::full_of(&shape, 1.0, dtype), Tensor::full_of(&shape, 0.0, dtype));
        }
        while n > 1 {
            let half = n / 2;
            let y = mul(&part(&z, 0, half), &part(&z, half, half));
            z = match n % 2 {
                0 => y,
                _ => {
                    let last = part(&z, n - 1, 1);
                    let with = |a: Tensor, b: Tensor| Tensor::concat(&[a, b], at);
                    Pair::new(with(y.re, last.re), with(y.im, last.im))
                }
            };
            n = n.div_ceil(2);
        }
    }
    Ok(vec![z.join()])
}

/// Each element times the product of all before it, over distances that double.
pub(crate) fn cumprod(u: &Use) -> Result<Vec<Tensor>> {
    let a = u.attrs.size("axis")?;
    let at = a as i64;
    let mut z = u.pair(0)?;
    let n = z.re.shape()?[a];
    let mut step = 1;
    while step < n {
        let part = |x: &Tensor, from: usize, n: usize| x.narrow(at, from, n);
        let earlier = Pair::new(part(&z.re, 0, n - step), part(&z.im, 0, n - step));
        let later = Pair::new(part(&z.re, step, n - step), part(&z.im, step, n - step));
        let y = mul(&later, &earlier);
        let with = |x: &Tensor, y: Tensor| Tensor::concat(&[part(x, 0, step), y], at);
        z = Pair::new(with(&z.re, y.re), with(&z.im, y.im));
        step *= 2;
    }
    Ok(vec![z.join()])
}

/// The norm of the magnitudes.
pub(crate) fn norm(u: &Use) -> Result<Vec<Tensor>> {
    Ok(vec![Tensor::apply1(u.op, &[&u.pair(0)?.abs()], u.attrs.clone())])
}
