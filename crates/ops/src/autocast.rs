//! Mixed precision: inside a scope, products run in a float of 16 or 8 bits and what would lose too
//! much there in f32. Weights stay f32; they are converted where they are used.

use crate::Tensor;
use crate::nn::{float8_linear, linear};
use crate::scalar::cast;
use ir::{Attrs, Autocast, DType, Error, Op, Result};
use smallvec::SmallVec;
use std::cell::Cell;

thread_local! {
    static CURRENT: Cell<Option<DType>> = const { Cell::new(None) };
}

/// Runs `f` with matrix products, convolutions and attention in a 16-bit float (`bf16` or `f16`),
/// and losses, softmax and sums of exponentials in f32. Variables keep their type, so optimizers
/// work on f32 weights; gradients are computed in the types of the ops they belong to. `f32`
/// switches it off.
///
/// With `f16`, small gradients vanish unless the loss is scaled.
///
/// With `f8e4m3`, linear layers multiply in 8-bit floats, their gradients in `f8e5m2`
/// ([`Tensor::float8_linear`]), where rows, inputs and outputs are multiples of 16, as GPUs want them;
/// everything else is as with `bf16`.
///
/// ```
/// # use talweg_ops::{DType, Tensor, autocast};
/// let (a, b) = (Tensor::ones([2, 3]), Tensor::ones([3, 2]));
/// let y = autocast(DType::BF16, || a.matmul(&b)).unwrap();
/// assert_eq!(y.dtype().unwrap(), DType::BF16);
/// let y = autocast(DType::F8E4M3, || Tensor::ones([16, 32]).linear(&Tensor::ones([48, 32]), None)).unwrap();
/// assert_eq!((y.dtype().unwrap(), y.mean(..).cast(DType::F32).item::<f32>().unwrap()), (DType::BF16, 32.0));
/// assert!(autocast(DType::I32, || ()).is_err());
/// ```
pub fn autocast<R>(dtype: DType, f: impl FnOnce() -> R) -> Result<R> {
    Ok(with(target(dtype)?, f))
}

/// Begins to convert as in a scope of [`autocast`], until told otherwise; returns what the type was
/// before. A scope is better.
pub fn set_autocast(dtype: DType) -> Result<DType> {
    Ok(CURRENT.replace(target(dtype)?).unwrap_or(DType::F32))
}

fn target(dtype: DType) -> Result<Option<DType>> {
    match dtype {
        DType::BF16 | DType::F16 | DType::F8E4M3 => Ok(Some(dtype)),
        DType::F32 => Ok(None),
        other => Err(Error::dtype(format!("products run in f8e4m3, bf16, f16 or f32, not {other}")).in_op("autocast")),
    }
}

/// The type of the scope on this thread, `None` outside of one.
pub fn autocast_dtype() -> Option<DType> {
    CURRENT.get()
}

/// True inside a scope that converts.
pub(crate) fn is_on() -> bool {
    CURRENT.get().is_some()
}

/// Runs `f`, which writes ops as they are meant, without conversions: bodies of composites, and
/// gradients.
pub(crate) fn off<R>(f: impl FnOnce() -> R) -> R {
    if !is_on() { f() } else { with(None, f) }
}

fn with<R>(to: Option<DType>, f: impl FnOnce() -> R) -> R {
    struct Restore(Option<DType>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(to));
    f()
}

/// What products of this many rows, inputs and outputs are multiples of to run in 8 bits.
const EVEN: usize = 16;

/// True for an affine map that can be multiplied in 8 bits.
fn is_even(op: &Op, inputs: &[&Tensor]) -> bool {
    let is_fit = |t: &Tensor| t.dtype().is_ok_and(|d| d.is_float() && d.is_inexact() && d != DType::F64);
    let (Some(Ok(x)), Some(Ok(w))) = (inputs.first().map(|t| t.shape()), inputs.get(1).map(|t| t.shape())) else {
        return false;
    };
    let Some((inner, lead)) = x.dims().split_last() else { return false };
    let sizes = [lead.iter().product(), *inner, w[0]];
    op == &linear::OP
        && w.rank() == 2
        && inputs.iter().all(|t| is_fit(t))
        && sizes.iter().all(|&n: &usize| n > 0 && n.is_multiple_of(EVEN))
}

/// What an op and its inputs become; `None` where nothing changes.
pub(crate) fn converted(op: &'static Op, inputs: &[&Tensor]) -> Option<(&'static Op, SmallVec<[Tensor; 4]>)> {
    let scope = CURRENT.get()?;
    let low = if scope == DType::F8E4M3 { DType::BF16 } else { scope };
    if scope == DType::F8E4M3 && is_even(op, inputs) {
        // The weight is rounded from what it is.
        let each = |(i, t): (usize, &&Tensor)| if i == 1 { (*t).clone() } else { off(|| convert(t, low)) };
        return Some((&float8_linear::OP, inputs.iter().enumerate().map(each).collect()));
    }
    let to = |wanted: DType, from: fn(DType) -> bool| {
        let convert = |t: &&Tensor| match t.dtype() {
            Ok(d) if from(d) && d != wanted => off(|| convert(t, wanted)),
            _ => (*t).clone(),
        };
        Some((op, inputs.iter().map(convert).collect()))
    };
    match op.autocast {
        Autocast::Narrow => to(low, |d| d.is_inexact() && d.is_float() && d != DType::F64),
        Autocast::Wide => to(DType::F32, is_half),
        Autocast::Promote => None,
    }
}

fn is_half(d: DType) -> bool {
    matches!(d, DType::BF16 | DType::F16)
}

/// The 16-bit value that an f32 value is a conversion of.
fn narrower(v: &ir::Value) -> Option<ir::Value> {
    let is_cast = v.node().op().is_some_and(|op| op.name == cast::OP.name) && v.ty().dtype == DType::F32;
    if !is_cast {
        return None;
    }
    v.node().inputs().into_iter().next().filter(|x| is_half(x.ty().dtype))
}

/// A tensor in another type; one that was only widened is taken as it was.
fn convert(t: &Tensor, to: DType) -> Tensor {
    match t.value().ok().and_then(narrower) {
        Some(x) if x.ty().dtype == to => x.into(),
        _ if t.dtype().is_ok_and(|d| d == to) => t.clone(),
        _ => Tensor::apply1(&cast::OP, &[t], Attrs::new().with("dtype", to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_wide() {
        for op in crate::loss::ROWS {
            assert_eq!(op.autocast, Autocast::Wide, "{}", op.name);
        }
    }

    #[test]
    fn products_are_narrow_and_losses_wide() {
        let (x, w) = (Tensor::ones([2, 3]), Tensor::ones([4, 3]));
        let (y, loss) = autocast(DType::BF16, || {
            let y = x.linear(&w, None).relu();
            let loss = y.cross_entropy(&Tensor::from([0i64, 1]));
            (y, loss)
        })
        .unwrap();
        assert_eq!((y.dtype().unwrap(), loss.dtype().unwrap()), (DType::BF16, DType::F32));
        assert!((loss.item::<f32>().unwrap() - 4f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn gradients_have_the_type_of_the_weights() {
        let w = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).requires_grad();
        let x = Tensor::from([[1.0f32, 1.0]]);
        autocast(DType::F16, || x.matmul(&w).sum(..).backward()).unwrap().unwrap();
        let g = w.grad().unwrap();
        assert_eq!(g.dtype().unwrap(), DType::F32);
        assert_eq!(g.to_vec::<f32>().unwrap(), [1.0; 4]);
    }

    #[test]
    fn linear_maps_of_even_sizes_run_in_8_bits() {
        let names = |rows: usize| {
            let (x, w) = (Tensor::ones([2, rows, 16]), Tensor::ones([32, 16]));
            let y = autocast(DType::F8E4M3, || x.linear(&w, Some(&Tensor::ones([32])))).unwrap();
            assert_eq!((y.dtype().unwrap(), y.shape().unwrap().dims()), (DType::BF16, &[2, rows, 32][..]));
            assert_eq!(y.to_vec::<ir::bf16>().unwrap()[5].to_f32(), 17.0);
            y.value().unwrap().node().op().unwrap().name
        };
        assert_eq!((names(8), names(9)), ("float8_linear", "linear"));
        let y = autocast(DType::F8E4M3, || Tensor::ones([16, 16]).matmul(Tensor::ones([16, 16]))).unwrap();
        assert_eq!(y.dtype().unwrap(), DType::BF16);
        assert!(autocast(DType::F8E5M2, || ()).is_err());
    }

    #[test]
    fn bodies_of_composites_are_computed_as_written() {
        // Attention multiplies by its weights in the type of its inputs; f64 stays f64.
        let q = Tensor::from([[0.5f64, 1.0], [1.0, 0.25]]);
        let want = q.attention(&q, &q, Default::default()).to_vec::<f64>().unwrap();
        let got = autocast(DType::BF16, || q.attention(&q, &q, Default::default()).to_vec::<f64>()).unwrap();
        assert_eq!(got.unwrap(), want);
    }
}
