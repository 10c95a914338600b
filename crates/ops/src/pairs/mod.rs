//! Complex numbers, as pairs of real ones.
//!
//! Rows are about real numbers. An op that is given a complex tensor is written with the rows for
//! its parts when it is called, here; gradients, batching, fusion and every device follow from
//! theirs. In the graph only [`complex`], [`view_as_real`], [`view_as_complex`] and control flow have
//! complex values, which the pass `pair` takes out.
//!
//! The gradient of a real loss L by z = x + iy is ∂L/∂x + i ∂L/∂y, as in PyTorch: the direction in
//! which L grows fastest.

mod arithmetic;
mod functions;
mod matrices;
mod products;

pub(crate) use arithmetic::{binary, div, mul, one, pow, real, real2, sign, unary};
pub(crate) use functions::{
    acos, acosh, asin, atanh, cosh, exp, expm1, log, log1p, over_i, scaled, sinh, sqrt, tanh, times_i,
};
pub(crate) use matrices::{by_block, cholesky, eliminated, on_pairs, solve, triangular_solve};
pub(crate) use products::{cumprod, matmul, norm, prod, vecdot};

crate::table! {
    complex,
    view_as_complex,
    view_as_real,
}

use crate::{Error, Result, Tensor};
use ir::{Attrs, Batch, Call, ComplexCall, Meaning, OnComplex, Op, Site, Type, Value};

/// The batching rule of ops on all leading dimensions alike.
const BATCH: Batch = Batch::Rule(|c| {
    let x = Tensor::from(c.inputs[0].clone());
    Ok(vec![Tensor::apply1(c.op, &[&x], c.attrs.clone()).value()?.clone()])
});

/// The parts of a complex tensor.
#[derive(Clone)]
pub(crate) struct Pair {
    /// Real parts.
    pub re: Tensor,
    /// Imaginary parts.
    pub im: Tensor,
}

impl Pair {
    /// From its parts.
    pub fn new(re: Tensor, im: Tensor) -> Pair {
        Pair { re, im }
    }
    /// The parts of a complex tensor: those it was made of where it is not computed yet.
    pub fn of(z: &Tensor) -> Pair {
        let Ok(v) = z.value() else { return Pair::new(z.clone(), z.clone()) };
        let node = v.node();
        if let Some(op) = node.op().filter(|_| v.buffer().is_none()) {
            if op == &complex::OP
                && let [re, im] = &node.inputs()[..]
            {
                return Pair::new(re.clone().into(), im.clone().into());
            }
            if op == &ir::CONST
                && let Ok(l) = node.attrs().literal("value")
            {
                let pairs = l.paired();
                let part = |k: usize| -> Tensor {
                    let half = pairs.pick(l.shape(), |i| Some(2 * i + k));
                    Value::constant(half, Site::here()).into()
                };
                return Pair::new(part(0), part(1));
            }
        }
        let both = z.view_as_real();
        Pair::new(both.select(-1, 0), both.select(-1, 1))
    }
    /// The complex tensor.
    pub fn join(&self) -> Tensor {
        Tensor::complex(&self.re, &self.im)
    }
    /// True if it is known to be real: its imaginary parts are the constant 0.
    pub fn is_real(&self) -> bool {
        is_zero(&self.im)
    }
    /// The magnitude; its slope at 0 is 0.
    pub fn abs(&self) -> Tensor {
        if self.is_real() {
            return self.re.abs();
        }
        let is_zero = self.re.eq(0.0).and(self.im.eq(0.0));
        // Off 0 for the gradient alone.
        let re = Tensor::where_(&is_zero, &self.re.ones_like(), &self.re);
        Tensor::where_(&is_zero, &self.re.zeros_like(), re.hypot(&self.im))
    }
    /// The angle; its slope at 0 is 0.
    pub fn angle(&self) -> Tensor {
        let is_zero = self.re.eq(0.0).and(self.im.eq(0.0));
        // What the constant gives at 0 has the sign of both zeros.
        let at_zero = self.im.stop_gradient().atan2(self.re.stop_gradient());
        let re = Tensor::where_(&is_zero, &self.re.ones_like(), &self.re);
        Tensor::where_(&is_zero, &at_zero, self.im.atan2(&re))
    }
}

/// True for a constant 0, broadcast perhaps.
fn is_zero(t: &Tensor) -> bool {
    let Ok(v) = t.value() else { return false };
    let node = v.node();
    match node.op() {
        Some(op) if op == &ir::CONST => {
            node.attrs().literal("value").is_ok_and(|l| l.count() == 1 && l.to_f64()[0].to_bits() == 0)
        }
        Some(op) if op.is_view() => node.inputs().first().is_some_and(|x| is_zero(&x.clone().into())),
        _ => false,
    }
}

/// True if an op's results have to be written with rows for the parts.
pub(crate) fn is_complex(op: &'static Op, inputs: &[Value], attrs: &Attrs) -> bool {
    let to_complex = || op == &crate::scalar::cast::OP && attrs.dtype("dtype").is_ok_and(|d| d.is_complex());
    let is_carrier =
        matches!(op.meaning, Meaning::Recast | Meaning::Control(_)) || matches!(op.complex, OnComplex::Carry);
    !is_carrier && (inputs.iter().any(|v| v.ty().dtype.is_complex()) || to_complex())
}

/// The results of an op on complex numbers.
pub(crate) fn apply(op: &'static Op, inputs: &[&Tensor], attrs: &Attrs) -> Result<Vec<Tensor>> {
    let refuse = || {
        let dtype = inputs.iter().filter_map(|t| t.dtype().ok()).find(|d| d.is_complex());
        Error::dtype(format!("not defined for {}", dtype.unwrap_or(ir::DType::C64))).in_op(op.name)
    };
    let is_by_parts = op.linear || op.is_view();
    let rule: Option<fn(&ComplexCall) -> Result<Vec<Value>>> = match op.complex {
        OnComplex::Rule(f) => Some(f),
        OnComplex::Parts => Some(|c| written(c, parts)),
        OnComplex::Auto if is_by_parts => Some(|c| written(c, parts)),
        OnComplex::Auto if matches!(op.meaning, Meaning::Composite(_)) => None,
        _ => return Err(refuse()),
    };
    let values: Vec<Value> = inputs.iter().map(|t| t.value().cloned()).collect::<Result<_>>()?;
    let types: Vec<Type> = values.iter().map(|v| v.ty().clone()).collect();
    // What the row says of shapes and attributes holds for the parts.
    let real: Vec<Type> = types.iter().map(|t| Type::new(t.dtype.part(), t.shape.clone())).collect();
    if op != &crate::scalar::cast::OP {
        op.check(&Call { types: &real, attrs })?;
    }
    if let Some(rule) = rule {
        let outs = rule(&ComplexCall { op, inputs: &values, attrs }).map_err(|e| e.in_op(op.name))?;
        return Ok(outs.into_iter().map(Tensor::from).collect());
    }
    let Meaning::Composite(expand) = op.meaning else { return Err(refuse()) };
    match expand(&Call { types: &types, attrs }, &values) {
        Err(e) if e.kind == ir::ErrorKind::DType => Err(refuse()),
        outs => Ok(outs?.into_iter().map(Tensor::from).collect()),
    }
}

/// A use of an op with complex inputs.
pub(crate) struct Use<'a> {
    op: &'static Op,
    inputs: &'a [Tensor],
    attrs: &'a Attrs,
}
impl Use<'_> {
    /// The parts of input `i`.
    fn pair(&self, i: usize) -> Result<Pair> {
        match self.inputs.get(i) {
            Some(z) if z.dtype()?.is_complex() => Ok(Pair::of(z)),
            Some(x) => Ok(Pair::new(x.clone(), x.zeros_like())),
            None => Err(Error::value(format!("input {i} is missing: {} were given", self.inputs.len()))),
        }
    }
}

/// What a row's rule for complex inputs is made of: a function from tensors to tensors.
pub(crate) fn written(c: &ComplexCall, f: fn(&Use) -> Result<Vec<Tensor>>) -> Result<Vec<Value>> {
    let inputs: Vec<Tensor> = c.inputs.iter().cloned().map(Tensor::from).collect();
    f(&Use { op: c.op, inputs: &inputs, attrs: c.attrs })?.iter().map(|t| t.value().cloned()).collect()
}

/// An op on each part alone; inputs that are no such numbers, such as indices, are shared.
fn parts(u: &Use) -> Result<Vec<Tensor>> {
    parts_with(u, u.attrs)
}
fn parts_with(u: &Use, im_attrs: &Attrs) -> Result<Vec<Tensor>> {
    let pair = |(i, t): (usize, &Tensor)| -> Result<Pair> {
        Ok(if t.dtype()?.is_inexact() { u.pair(i)? } else { Pair::new(t.clone(), t.clone()) })
    };
    let pairs: Vec<Pair> = u.inputs.iter().enumerate().map(pair).collect::<Result<_>>()?;
    let re = Tensor::apply(u.op, &pairs.iter().map(|p| &p.re).collect::<Vec<_>>(), u.attrs.clone());
    let im = Tensor::apply(u.op, &pairs.iter().map(|p| &p.im).collect::<Vec<_>>(), im_attrs.clone());
    Ok(re.iter().zip(&im).map(|(re, im)| Tensor::complex(re, im)).collect())
}

/// The border is real.
pub(crate) fn pad(u: &Use) -> Result<Vec<Tensor>> {
    parts_with(u, &u.attrs.clone().set("value", 0.0))
}

/// All parts together.
pub(crate) fn barrier(u: &Use) -> Result<Vec<Tensor>> {
    let complex: Vec<bool> = u.inputs.iter().map(|t| Ok(t.dtype()?.is_complex())).collect::<Result<_>>()?;
    let mut all = Vec::new();
    for (t, &is_complex) in u.inputs.iter().zip(&complex) {
        all.push(if is_complex { t.view_as_real() } else { t.clone() });
    }
    let outs = Tensor::apply(u.op, &all.iter().collect::<Vec<_>>(), u.attrs.clone());
    Ok(outs.iter().zip(&complex).map(|(y, &is)| if is { y.view_as_complex() } else { y.clone() }).collect())
}

pub(crate) fn cast(u: &Use) -> Result<Vec<Tensor>> {
    let (to, x) = (u.attrs.dtype("dtype")?, &u.inputs[0]);
    let from = x.dtype()?;
    Ok(vec![match (from.is_complex(), to.is_complex()) {
        (true, true) => {
            let z = Pair::of(x);
            Tensor::complex(&z.re.cast(to.part()), &z.im.cast(to.part()))
        }
        (false, _) => Tensor::complex(&x.cast(to.part()), &Tensor::full_of((), 0.0, to.part())),
        (true, false) if to == ir::DType::Bool => {
            let z = Pair::of(x);
            z.re.ne(0.0).or(z.im.ne(0.0))
        }
        (true, false) => {
            let e = format!("{from} does not become {to} without losing its imaginary part: take real() or abs()");
            return Err(Error::dtype(e));
        }
    }])
}

impl Tensor {
    /// The real parts; a real tensor itself.
    #[track_caller]
    pub fn real(&self) -> Tensor {
        self.then(|t| Ok(if t.dtype.is_complex() { Pair::of(self).re } else { self.clone() }))
    }
    /// The imaginary parts; zeros of a real tensor.
    #[track_caller]
    pub fn imag(&self) -> Tensor {
        self.then(|t| Ok(if t.dtype.is_complex() { Pair::of(self).im } else { self.zeros_like() }))
    }
    /// The complex conjugates; a real tensor itself.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let z = Tensor::from([[1.0f32, 2.0]]).view_as_complex().conj();
    /// assert_eq!(z.view_as_real().to_vec::<f32>().unwrap(), [1.0, -2.0]);
    /// ```
    #[track_caller]
    pub fn conj(&self) -> Tensor {
        self.then(|t| {
            if !t.dtype.is_complex() {
                return Ok(self.clone());
            }
            let z = Pair::of(self);
            Ok(Tensor::complex(&z.re, &-z.im))
        })
    }
}
