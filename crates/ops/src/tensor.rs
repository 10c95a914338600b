//! The handle: a value that is computed, to be computed, or the error that prevents it.

use crate::{autocast, engine, pairs};
use ir::{Attrs, DType, Element, Error, ErrorKind, Literal, Op, Result, Shape, Site, Type, Value};
use smallvec::SmallVec;
use std::cell::Cell;
use std::sync::Arc;

/// Pending chains longer than this are computed at every so many nodes, so that a loop that never
/// looks at its result does not eat memory.
const DEPTH_MAX: u32 = 2048;
const DEPTH_EVERY: u32 = 256;

thread_local! {
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `f` without computing anything on the way, however long chains grow: a computed value may
/// forget its inputs, and `f` makes values whose inputs are still asked for.
pub(crate) fn held<R>(f: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            HELD.set(self.0);
        }
    }
    let _restore = Restore(HELD.replace(true));
    f()
}

/// Computes values whose chain of uncomputed nodes became too long; `before` was its length at their inputs.
pub(crate) fn computed_if_long(values: &[Value], before: u32) -> Result<()> {
    let is_long = |v: &Value| {
        let depth = v.node().depth();
        depth >= DEPTH_MAX && depth / DEPTH_EVERY > before / DEPTH_EVERY && !v.node().is_symbolic()
    };
    if values.iter().any(is_long) && !HELD.get() { engine().evaluate(values) } else { Ok(()) }
}

/// A multi-dimensional array: computed, to be computed, or the error that prevents it.
///
/// Ops check types and shapes at the call and return at once; the value is computed when it is
/// looked at. A bad call gives a tensor that carries the error, with the line of the call, up to
/// the first place that needs the value.
///
/// ```
/// # use talweg_ops::Tensor;
/// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
/// let b = (&a * 2.0).matmul(&a).sum(..);
/// assert_eq!(b.item::<f32>().unwrap(), 108.0);
/// let bad = a.matmul(&Tensor::from([1.0f32, 2.0, 3.0])) + 1.0;
/// assert!(bad.eval().unwrap_err().to_string().starts_with("matmul: "));
/// ```
#[derive(Clone)]
pub struct Tensor(std::result::Result<Value, Arc<Error>>);

impl From<Value> for Tensor {
    fn from(v: Value) -> Tensor {
        Tensor(Ok(v))
    }
}
impl From<Error> for Tensor {
    fn from(e: Error) -> Tensor {
        Tensor(Err(Arc::new(e)))
    }
}
impl From<Result<Tensor>> for Tensor {
    fn from(r: Result<Tensor>) -> Tensor {
        r.unwrap_or_else(Tensor::from)
    }
}

impl Tensor {
    /// The results of an op; a single tensor that carries the error if the call is bad.
    #[track_caller]
    pub fn apply(op: &'static Op, inputs: &[&Tensor], attrs: Attrs) -> SmallVec<[Tensor; 1]> {
        if autocast::is_on() {
            let site = Site::here();
            if let Some((op, converted)) = site.scope(|| autocast::converted(op, inputs)) {
                let converted: SmallVec<[&Tensor; 4]> = converted.iter().collect();
                return site.scope(|| autocast::off(|| Tensor::apply(op, &converted, attrs)));
            }
        }
        let mut values = SmallVec::with_capacity(inputs.len());
        for t in inputs {
            match &t.0 {
                Ok(v) => values.push(v.clone()),
                // The first cause wins.
                Err(_) => return SmallVec::from_iter([(*t).clone()]),
            }
        }
        if pairs::is_complex(op, &values, &attrs) {
            let site = Site::here();
            let outs = site.scope(|| pairs::apply(op, inputs, &attrs));
            return outs.map_or_else(|e| SmallVec::from_iter([Tensor::from(e.at(site))]), SmallVec::from_vec);
        }
        match Value::apply(op, values, attrs, Site::here()) {
            Ok(outs) => match computed_if_long(&outs, outs[0].node().depth().saturating_sub(1)) {
                Ok(()) => outs.into_iter().map(Tensor::from).collect(),
                Err(e) => SmallVec::from_iter([Tensor::from(e)]),
            },
            Err(e) => SmallVec::from_iter([Tensor::from(e)]),
        }
    }
    /// The result of an op that has one.
    #[track_caller]
    pub fn apply1(op: &'static Op, inputs: &[&Tensor], attrs: Attrs) -> Tensor {
        Tensor::apply(op, inputs, attrs).swap_remove(0)
    }
    /// The results of an op that has `N`.
    #[track_caller]
    pub fn apply_n<const N: usize>(op: &'static Op, inputs: &[&Tensor], attrs: Attrs) -> [Tensor; N] {
        let outs = Tensor::apply(op, inputs, attrs);
        if outs[0].0.is_err() {
            return std::array::from_fn(|_| outs[0].clone());
        }
        assert_eq!(outs.len(), N, "{} has {} results", op.name, outs.len());
        let mut outs = outs.into_iter();
        std::array::from_fn(|_| outs.next().expect("counted above"))
    }
    /// Continues with the tensor's type in hand; errors, its own or the closure's, are carried on.
    /// Ops made inside are attributed to the caller's line.
    #[track_caller]
    pub fn then(&self, f: impl FnOnce(&Type) -> Result<Tensor>) -> Tensor {
        let site = Site::here();
        match &self.0 {
            Ok(v) => site.scope(|| f(v.ty()).map_err(|e| e.at(site))).into(),
            Err(_) => self.clone(),
        }
    }
    /// The graph value, or the error.
    pub fn value(&self) -> Result<&Value> {
        self.0.as_ref().map_err(|e| (**e).clone())
    }
    /// The error it carries, if it does.
    pub fn error(&self) -> Option<&Error> {
        self.0.as_ref().err().map(|e| &**e)
    }

    /// Shape.
    pub fn shape(&self) -> Result<Shape> {
        Ok(self.value()?.ty().shape.clone())
    }
    /// Element type.
    pub fn dtype(&self) -> Result<DType> {
        Ok(self.value()?.ty().dtype)
    }
    /// Number of dimensions.
    pub fn rank(&self) -> Result<usize> {
        Ok(self.value()?.ty().shape.rank())
    }
    /// Number of elements.
    pub fn count(&self) -> Result<usize> {
        Ok(self.value()?.ty().shape.count())
    }
    /// The sizes of exactly `N` dimensions.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [rows, columns] = Tensor::from([[1.0f32, 2.0, 3.0]]).dims().unwrap();
    /// assert_eq!((rows, columns), (1, 3));
    /// ```
    #[track_caller]
    pub fn dims<const N: usize>(&self) -> Result<[usize; N]> {
        let site = Site::here();
        let shape = self.shape()?;
        shape.dims().try_into().map_err(|_| {
            Error::shape(format!("expected {N} dimensions, but the tensor has shape {shape}")).in_op("dims").at(site)
        })
    }

    /// Computes the value now, if it was not yet.
    pub fn eval(&self) -> Result<&Tensor> {
        let v = self.value()?;
        if v.buffer().is_none() {
            engine().evaluate(std::slice::from_ref(v)).map_err(|e| v.blame(e))?;
        }
        Ok(self)
    }
    /// The value on the host.
    pub fn literal(&self) -> Result<Literal> {
        self.eval()?;
        let v = self.value()?;
        v.buffer().ok_or_else(|| v.blame(Error::bug("evaluated, but without a value")))?.read()
    }
    /// The elements in row-major order; the type must be the tensor's.
    #[track_caller]
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        let site = Site::here();
        self.literal()?.to_vec().map_err(|e| e.in_op("to_vec").at(site))
    }
    /// The only element, converted to `T`.
    #[track_caller]
    pub fn item<T: Element>(&self) -> Result<T> {
        let site = Site::here();
        let l = self.literal()?;
        if l.count() != 1 {
            let e = format!("only a tensor of one element has an item, but the shape is {}", l.shape());
            return Err(Error::new(ErrorKind::Shape, e).in_op("item").at(site));
        }
        Ok(match l.dtype() {
            d if d.is_complex() => T::from_complex(l.to_complex()[0]),
            d if d.is_float() => T::from_f64(l.to_f64()[0]),
            _ => T::from_int(l.to_ints()[0]),
        })
    }
    /// Computes several tensors together, sharing what they have in common.
    pub fn eval_all(tensors: &[&Tensor]) -> Result<()> {
        let values: Vec<Value> = tensors.iter().map(|t| t.value().cloned()).collect::<Result<_>>()?;
        engine().evaluate(&values)
    }

    /// The same value as a leaf: gradients stop here, and how it was computed is forgotten once
    /// it is known.
    #[track_caller]
    pub fn detach(&self) -> Tensor {
        match self.value() {
            Ok(v) => match v.buffer() {
                Some(b) => Value::computed(v.ty().clone(), b, false, Site::here()).into(),
                None => self.stop_gradient(),
            },
            Err(_) => self.clone(),
        }
    }
    /// A leaf with this value that collects a gradient in `backward`, also while a graph is made.
    #[track_caller]
    pub fn requires_grad(&self) -> Tensor {
        let site = Site::here();
        self.then(|t| {
            t.dtype.check_computes().map_err(|e| e.in_op("requires_grad"))?;
            if !t.dtype.is_inexact() {
                let e = format!("only floats have gradients, not {}", t.dtype);
                return Err(Error::dtype(e).in_op("requires_grad"));
            }
            if self.value()?.node().is_symbolic() {
                return Ok(Value::tracked(&crate::composite::leaf::OP, self.value()?.clone(), site).into());
            }
            Ok(Value::data(self.literal()?, true, site).into())
        })
    }
}
