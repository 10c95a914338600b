//! `vector_norm`: the length of vectors, by any order.

use crate::pairs;
use crate::rules::{GradTensors, expand_wide, f64s, floats, grads};
use crate::{Axes, Result, Tensor, reduce};
use ir::{AttrKind, Attrs, Case, DType, Grad, GradCall, Meaning, Op, Site, Value};

/// The row of `vector_norm`.
pub static OP: Op = Op {
    name: "vector_norm",
    doc: "(Σ |x|^ord)^(1/ord) along axes, which keep size 1. Order 0 counts what is not zero, inf and -inf are the \
          maximum and minimum magnitude. At zero the gradient is zero.",
    attrs: &[("axes", AttrKind::Ints), ("ord", AttrKind::Float)],
    infer: |c| {
        c.arity(1)?;
        let ord = c.attrs.float("ord")?;
        crate::rules::float(c, 0)?;
        let mut out = if ord.is_infinite() { reduce::infer_nonempty(c)? } else { reduce::infer(c)? };
        // Of complex numbers it is the norm of their magnitudes.
        out[0].dtype = out[0].dtype.part();
        Ok(out)
    },
    meaning: Meaning::Composite(|c, x| {
        let (ord, axes) = (c.attrs.float("ord")?, c.attrs.ints("axes")?);
        expand_wide(x, |t| {
            let x = &if c.dtype(0).is_complex() { t[0].abs() } else { t[0].clone() };
            Ok(vec![match ord {
                0.0 => x.ne(0.0).cast_like(x).sum_keep(axes),
                1.0 => x.abs().sum_keep(axes),
                2.0 => (x * x).sum_keep(axes).sqrt(),
                f64::INFINITY => x.abs().max_keep(axes),
                f64::NEG_INFINITY => x.abs().min_keep(axes),
                p => x.abs().pow(p).sum_keep(axes).pow(1.0 / p),
            }])
        })
    }),
    grad: Grad::Rule(grad),
    autocast: ir::Autocast::Wide,
    complex: on_complex!(pairs::norm),
    cases: || {
        let by = |a: &[i64], p: f64| Attrs::new().with("axes", a).with("ord", p);
        let mut out: Vec<Case> = [1.0, 2.0, 3.0, 0.5, -1.5, 1.5, f64::INFINITY, f64::NEG_INFINITY]
            .iter()
            .map(|&p| Case::new(vec![floats([2, 3], 1)], by(&[1], p)))
            .collect();
        let a = || vec![f64s([9], &[-4.0, -3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0])];
        let say = "NumPy manual: np.linalg.norm(np.arange(9) - 4, ord)";
        for (p, want) in [
            (2.0, 7.745966692414834),
            (f64::INFINITY, 4.0),
            (f64::NEG_INFINITY, 0.0),
            (1.0, 20.0),
            (3.0, 5.848035476425731),
            (0.0, 8.0),
        ] {
            out.push(Case::new(a(), by(&[0], p)).expect(vec![f64s([1], &[want])], say).kinked());
        }
        out
    },
    ..Op::DEFAULT
};

/// PyTorch's choices where the norm has no derivative: zero at zero, ties share evenly.
fn grad(c: &GradCall) -> Result<Vec<Option<Value>>> {
    let (ord, axes) = (c.attrs.float("ord")?, c.attrs.ints("axes")?);
    let dtype = c.inputs[0].ty().dtype;
    let (x, y, g) = (c.x(0).widened(), c.y(0).widened(), c.g(0).widened());
    if ord == 0.0 {
        return Ok(vec![None]);
    }
    // A norm of zero is set to one where it divides, and what it divides is zero then.
    let is_zero = y.eq(0.0);
    let whole = Tensor::where_(&is_zero, &y.ones_like(), &y);
    let scaled = |t: Tensor| Tensor::where_(&is_zero, &t.zeros_like(), &t);
    let magnitude = x.abs();
    // x |x|^(p - 2), or sign(x) |x|^(p - 1): zero at zero.
    let x_zero = x.eq(0.0);
    let safe = Tensor::where_(&x_zero, &x.ones_like(), &magnitude);
    let masked = |t: Tensor| Tensor::where_(&x_zero, &t.zeros_like(), &t);
    let slope = match ord {
        1.0 => x.sign() * g,
        2.0 => scaled(g / whole) * x,
        p if p.is_infinite() => {
            let hit = magnitude.eq(&y).cast_like(&g);
            x.sign() * (g / hit.sum_keep(axes)) * hit
        }
        p if p < 1.0 => masked(x.sign() * safe.pow(p - 1.0)) * g * y.pow(1.0 - p),
        p if p < 2.0 => masked(x.sign() * safe.pow(p - 1.0)) * scaled(g / whole.pow(p - 1.0)),
        p => &x * masked(safe.pow(p - 2.0)) * scaled(g / whole.pow(p - 1.0)),
    };
    grads([slope.cast(dtype)])
}

impl Tensor {
    /// The length of the vectors along axes (`..` for all), which are removed, by an order: 2 for
    /// Euclid's, 1 for the sum of magnitudes, infinity for the largest, 0 for the number of
    /// elements that are not zero.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([3.0f32, 4.0]).vector_norm(2.0, ..).item::<f32>().unwrap(), 5.0);
    /// ```
    #[track_caller]
    pub fn vector_norm(&self, ord: f64, axes: impl Into<Axes>) -> Tensor {
        let (site, axes) = (Site::here(), axes.into());
        site.scope(|| self.vector_norm_keep(ord, axes.clone()).squeezed_after(self, &axes))
    }
    /// The length of the vectors along axes, which keep size 1.
    #[track_caller]
    pub fn vector_norm_keep(&self, ord: f64, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|t| {
            let x = if t.dtype.is_inexact() { self.clone() } else { self.cast(DType::F32) };
            Ok(x.reduce_with(&OP, &axes, Attrs::new().with("ord", ord)))
        })
    }
    /// The square root of the sum of all squares.
    #[track_caller]
    pub fn norm(&self) -> Tensor {
        self.vector_norm(2.0, ..)
    }
}
