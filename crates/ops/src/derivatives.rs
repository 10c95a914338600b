//! Derivatives of functions: gradients, Jacobians, Hessians and products with them.
//!
//! Each takes a function of tensors and the point. The function is traced on stand-ins, so the
//! point may be anything, computed or not, and what the function uses besides its arguments stays
//! as it is.

use crate::batch::over_batch;
use crate::control::{Body, tensors, types, values};
use crate::effects;
use crate::{Error, ErrorKind, Result, Tensor, vjp};
use ir::{Literal, Site, Value};

/// Runs `f` on stand-ins for `xs` that collect gradients, and puts `xs` in their place.
fn transform(
    what: &str,
    site: Site,
    xs: &[Tensor],
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
) -> Result<Vec<Tensor>> {
    let run = || {
        let args = values(xs)?;
        if let Some(v) = args.iter().find(|v| !v.ty().dtype.is_inexact()) {
            return Err(Error::dtype(format!("only floats have derivatives, not {}", v.ty().dtype)));
        }
        let mut effects = 0;
        let body = Body::trace(&types(&args), site, effects::appended(f, &mut effects))?;
        let captures = body.captures()?;
        let all = [args, captures.clone()].concat();
        effects::noted(tensors(&body.graph(&captures)?.inline(&all)?), effects)
    };
    run().map_err(|e| e.in_op(what).at(site))
}

/// The cotangent a scalar function's gradient starts from.
fn scalar(y: &Tensor) -> Result<Tensor> {
    let ty = y.value()?.ty();
    if ty.shape.count() != 1 || !ty.dtype.is_float() {
        let e = format!("the function must return a float of one element, but it returns {ty}");
        return Err(Error::new(ErrorKind::Gradient, e));
    }
    Ok(y.ones_like())
}

/// A function's value and its gradient with respect to each argument.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::value_and_grad};
/// let f = value_and_grad(|x: &[Tensor]| Ok((&x[0] * &x[0]).sum(..)));
/// let (y, g) = f(&[Tensor::from([1.0f32, 2.0])]).unwrap();
/// assert_eq!(y.item::<f32>().unwrap(), 5.0);
/// assert_eq!(g[0].to_vec::<f32>().unwrap(), [2.0, 4.0]);
/// ```
#[track_caller]
pub fn value_and_grad(f: impl Fn(&[Tensor]) -> Result<Tensor>) -> impl Fn(&[Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
    let all = value_and_grad_aux(move |x: &[Tensor]| Ok((f(x)?, vec![])));
    move |xs| {
        let (y, g, _) = all(xs)?;
        Ok((y, g))
    }
}

/// As [`value_and_grad`], for a function that also returns tensors that are not differentiated:
/// value, gradients and those.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::value_and_grad_aux};
/// let f = value_and_grad_aux(|x: &[Tensor]| Ok((x[0].sum(..), vec![&x[0] * 10.0])));
/// let (_, _, aux) = f(&[Tensor::from([1.0f32, 2.0])]).unwrap();
/// assert_eq!(aux[0].to_vec::<f32>().unwrap(), [10.0, 20.0]);
/// ```
#[track_caller]
pub fn value_and_grad_aux(
    f: impl Fn(&[Tensor]) -> Result<(Tensor, Vec<Tensor>)>,
) -> impl Fn(&[Tensor]) -> Result<(Tensor, Vec<Tensor>, Vec<Tensor>)> {
    let site = Site::here();
    move |xs| {
        let mut got = transform("value_and_grad", site, xs, |x| {
            let (y, aux) = f(x)?;
            let g = vjp(std::slice::from_ref(&y), &[scalar(&y)?], x)?;
            Ok([vec![y], g, aux].concat())
        })?;
        let y = got.remove(0);
        let aux = got.split_off(xs.len());
        Ok((y, got, aux))
    }
}

/// The gradient of a function with respect to each argument, as a function.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::grad_of};
/// let slope = grad_of(|x: &[Tensor]| Ok(x[0].sin()));
/// assert_eq!(slope(&[Tensor::from(0.0f32)]).unwrap()[0].item::<f32>().unwrap(), 1.0);
/// ```
#[track_caller]
pub fn grad_of(f: impl Fn(&[Tensor]) -> Result<Tensor>) -> impl Fn(&[Tensor]) -> Result<Vec<Tensor>> {
    let both = value_and_grad(f);
    move |xs| Ok(both(xs)?.1)
}

/// Jacobian times vector: how the results change as `xs` move along `vs`. The results and their
/// changes come back.
///
/// It is the gradient of a gradient: the vector-Jacobian product is linear in its cotangent, and
/// its own pullback is the product with the Jacobian.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::jvp};
/// let f = |x: &[Tensor]| Ok(vec![&x[0] * &x[0]]);
/// let (_, dy) = jvp(f, &[Tensor::from([1.0f32, 3.0])], &[Tensor::from([1.0f32, 0.5])]).unwrap();
/// assert_eq!(dy[0].to_vec::<f32>().unwrap(), [2.0, 3.0]);
/// ```
#[track_caller]
pub fn jvp(
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    xs: &[Tensor],
    vs: &[Tensor],
) -> Result<(Vec<Tensor>, Vec<Tensor>)> {
    let site = Site::here();
    if xs.len() != vs.len() {
        let e = format!("{} arguments, but {} directions", xs.len(), vs.len());
        return Err(Error::value(e).in_op("jvp").at(site));
    }
    let mut count = 0;
    let mut got = transform("jvp", site, xs, |x| {
        let ys = f(x)?;
        count = ys.len();
        let zero = |y: &Tensor| -> Result<Tensor> {
            let ty = y.value()?.ty();
            Ok(Value::data(Literal::zeros(ty.dtype, ty.shape.clone()), true, site).into())
        };
        let us = ys.iter().map(zero).collect::<Result<Vec<_>>>()?;
        let gs = vjp(&ys, &us, x)?;
        let changes = vjp(&gs, vs, &us)?;
        Ok([ys, changes].concat())
    })?;
    let changes = got.split_off(count);
    Ok((got, changes))
}

/// The Jacobian of a function of one tensor: the shape of the result followed by that of `x`.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::jacobian};
/// let j = jacobian(|x| Ok(x * x), &Tensor::from([1.0f32, 3.0])).unwrap();
/// assert_eq!(j.to_vec::<f32>().unwrap(), [2.0, 0.0, 0.0, 6.0]);
/// ```
#[track_caller]
pub fn jacobian(f: impl FnOnce(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let site = Site::here();
    let mut got = transform("jacobian", site, std::slice::from_ref(x), |x| {
        let y = f(&x[0])?;
        let (shape, dtype) = (y.shape()?, y.dtype()?);
        let full: ir::Shape = shape.iter().chain(x[0].shape()?.iter()).copied().collect();
        if shape.count() == 0 {
            return Ok(vec![Tensor::full_of(full, 0.0, dtype)]);
        }
        let mut each = shape.clone();
        each.insert(0, shape.count());
        let basis = Tensor::eye_of(shape.count(), shape.count(), dtype).reshape(each);
        let rows = over_batch(|c| vjp(std::slice::from_ref(&y), c, x), &[basis], None)?;
        Ok(vec![rows[0].reshape(full)])
    })?;
    Ok(got.swap_remove(0))
}

/// The second derivatives of a scalar function of one tensor: the shape of `x` twice.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::hessian};
/// let h = hessian(|x| Ok((x * x * x).sum(..)), &Tensor::from([1.0f32, 2.0])).unwrap();
/// assert_eq!(h.to_vec::<f32>().unwrap(), [6.0, 0.0, 0.0, 12.0]);
/// ```
#[track_caller]
pub fn hessian(f: impl Fn(&Tensor) -> Result<Tensor>, x: &Tensor) -> Result<Tensor> {
    let slope = grad_of(|x: &[Tensor]| f(&x[0]));
    jacobian(|x| Ok(slope(std::slice::from_ref(x))?.swap_remove(0)), x)
}

/// Hessian times vector, without the Hessian: the gradient of ⟨gradient, vs⟩.
///
/// ```
/// # use talweg_ops::{Tensor, derivatives::hvp};
/// let f = |x: &[Tensor]| Ok((&x[0] * &x[0] * &x[0]).sum(..));
/// let h = hvp(f, &[Tensor::from([1.0f32, 2.0])], &[Tensor::from([1.0f32, 1.0])]).unwrap();
/// assert_eq!(h[0].to_vec::<f32>().unwrap(), [6.0, 12.0]);
/// ```
#[track_caller]
pub fn hvp(f: impl FnOnce(&[Tensor]) -> Result<Tensor>, xs: &[Tensor], vs: &[Tensor]) -> Result<Vec<Tensor>> {
    let site = Site::here();
    if xs.len() != vs.len() {
        let e = format!("{} arguments, but {} directions", xs.len(), vs.len());
        return Err(Error::value(e).in_op("hvp").at(site));
    }
    transform("hvp", site, xs, |x| {
        let y = f(x)?;
        let g = vjp(std::slice::from_ref(&y), &[scalar(&y)?], x)?;
        vjp(&g, vs, x)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::floats;

    /// A function with mixed second derivatives.
    fn f(x: &Tensor) -> Result<Tensor> {
        Ok((x.sin() * x.flip(0)).exp())
    }
    fn at(x: &[f64]) -> Vec<f64> {
        f(&Tensor::from(x.to_vec())).unwrap().to_vec().unwrap()
    }
    fn point() -> Vec<f64> {
        floats([3], 4).to_f64()
    }
    fn close(a: &[f64], b: &[f64], tolerance: f64) {
        assert_eq!(a.len(), b.len());
        for (x, y) in a.iter().zip(b) {
            assert!((x - y).abs() < tolerance * y.abs().max(1.0), "{a:?} {b:?}");
        }
    }
    /// Central differences of `g` along `v`.
    fn differences(g: impl Fn(&[f64]) -> Vec<f64>, x: &[f64], v: &[f64]) -> Vec<f64> {
        let h = 1e-5;
        let moved = |s: f64| -> Vec<f64> { x.iter().zip(v).map(|(x, v)| x + s * v).collect() };
        g(&moved(h)).iter().zip(g(&moved(-h))).map(|(a, b)| (a - b) / (2.0 * h)).collect()
    }
    fn unit(i: usize) -> Vec<f64> {
        (0..3).map(|j| (i == j) as u8 as f64).collect()
    }

    #[test]
    fn jvp_matches_differences() {
        let (x, v) = (point(), vec![0.3, -1.0, 0.5]);
        let (y, dy) = jvp(|x| Ok(vec![f(&x[0])?]), &[x.clone().into()], &[v.clone().into()]).unwrap();
        close(&y[0].to_vec::<f64>().unwrap(), &at(&x), 1e-12);
        close(&dy[0].to_vec::<f64>().unwrap(), &differences(at, &x, &v), 1e-8);
    }

    #[test]
    fn jacobian_matches_differences() {
        let x = point();
        let j = jacobian(f, &Tensor::from(x.clone())).unwrap();
        assert_eq!(j.dims().unwrap(), [3, 3]);
        let columns: Vec<f64> = (0..3).flat_map(|i| differences(at, &x, &unit(i))).collect();
        close(&j.t().to_vec::<f64>().unwrap_or_default(), &columns, 1e-8);
    }

    #[test]
    fn hessian_and_its_products_match_differences() {
        let x = point();
        let sum = |x: &Tensor| Ok(f(x)?.sum(..));
        let slope = |x: &[f64]| {
            let g = grad_of(|x: &[Tensor]| sum(&x[0]));
            g(&[Tensor::from(x.to_vec())]).unwrap()[0].to_vec::<f64>().unwrap()
        };
        let h = hessian(sum, &Tensor::from(x.clone())).unwrap();
        let rows: Vec<f64> = (0..3).flat_map(|i| differences(slope, &x, &unit(i))).collect();
        close(&h.to_vec::<f64>().unwrap(), &rows, 1e-7);
        let v = vec![0.3, -1.0, 0.5];
        let hv = hvp(|x| sum(&x[0]), &[x.clone().into()], &[v.clone().into()]).unwrap();
        close(&hv[0].to_vec::<f64>().unwrap(), &differences(slope, &x, &v), 1e-7);
    }

    #[test]
    fn what_a_function_captures_stays_and_collects() {
        let w = Tensor::from(3.0f64).requires_grad();
        let slope = grad_of(|x: &[Tensor]| Ok(&x[0] * &x[0] * &w));
        let g = slope(&[Tensor::from(2.0f64)]).unwrap().swap_remove(0);
        assert_eq!(g.item::<f64>().unwrap(), 12.0);
        // d(2 x w) / dw
        assert_eq!(crate::grad(&g, std::slice::from_ref(&w)).unwrap()[0].item::<f64>().unwrap(), 4.0);
    }

    #[test]
    fn integers_and_vectors_are_refused() {
        let e = jacobian(|x| Ok(x.clone()), &Tensor::from([1i64])).unwrap_err().to_string();
        assert!(e.contains("only floats have derivatives, not i64"), "{e}");
        let e = grad_of(|x: &[Tensor]| Ok(x[0].clone()))(&[Tensor::from([1.0f32, 2.0])]).unwrap_err().to_string();
        assert!(e.contains("must return a float of one element, but it returns f32[2]"), "{e}");
    }
}
