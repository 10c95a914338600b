//! `custom`: an op that a program defines while it runs ([`CustomOp`]): a function of a host language, a kernel in C.
//!
//! Its row is not part of the table: it has no samples of its own, and files cannot hold it.

use crate::batch::{over_batch, repeat};
use crate::{Tensor, effects};
use ir::{
    AttrKind, Attrs, Batch, BatchCall, Call, Custom, CustomOp, Effect, Grad, GradCall, Literal, Meaning, ORDERED, Op,
    Result, Type, Types, Value, Vmap,
};
use smallvec::SmallVec;
use std::sync::Arc;

/// The row of `custom`.
pub static OP: Op = Op {
    name: "custom",
    doc: "What the object `op` computes. An `ordered` one runs once for each time it is called, in program order.",
    attrs: &[("op", AttrKind::Custom), (ORDERED, AttrKind::Bool)],
    infer: |c| named(c.attrs, |op| op.infer(c.types)),
    meaning: Meaning::Kernel(run),
    grad: Grad::Rule(|c| named(c.attrs, |op| op.grad(c))),
    batch: Batch::Rule(batch),
    effect: Effect::Stated,
    ..Op::DEFAULT
};

/// Errors bear the name of the op, not of the row that all such ops share.
fn named<R>(attrs: &Attrs, f: impl FnOnce(&dyn CustomOp) -> Result<R>) -> Result<R> {
    let op = &attrs.custom("op")?.0;
    f(&**op).map_err(|e| e.in_op(op.name()))
}

fn run(c: &Call, inputs: &[Literal]) -> Result<Vec<Literal>> {
    named(c.attrs, |op| {
        let outs: Types = op.infer(c.types)?;
        let mut made: Vec<Literal> = outs.iter().map(|t| Literal::zeros(t.dtype, t.shape.clone())).collect();
        let given: Vec<_> = c.types.iter().zip(inputs.iter().map(Literal::bytes)).collect();
        let room = made.iter_mut().map(|l| l.buffer_mut().expect("a new value has no other holder"));
        op.run(&given, &mut outs.iter().zip(room).collect::<Vec<_>>())?;
        Ok(made)
    })
}

fn batch(c: &BatchCall) -> Result<Vec<Value>> {
    let inner = c.attrs.custom("op")?.0.clone();
    let how = inner.vmap();
    let mut inputs = Vec::with_capacity(c.inputs.len());
    for (v, &is_batched) in c.inputs.iter().zip(c.batched) {
        let (t, size) = (Tensor::from(v.clone()), if how == Vmap::BroadcastAll { c.size } else { 1 });
        inputs.push(if is_batched || how == Vmap::Sequential { t } else { repeat(&t, size)? });
    }
    let is_batched = c.batched.iter().map(|&b| b || how != Vmap::Sequential).collect();
    let shared = c.batched.iter().map(|&b| !b && how == Vmap::ExpandDims).collect();
    let op = Batched { inner, how, size: c.size, is_batched, shared };
    let outs = custom(Arc::new(op), &inputs.iter().collect::<Vec<_>>(), c.attrs.bool(ORDERED)?);
    outs.iter().map(|t| t.value().cloned()).collect()
}

/// An op over a batch.
struct Batched {
    inner: Arc<dyn CustomOp>,
    how: Vmap,
    size: usize,
    /// Which inputs have the batch dimension, first.
    is_batched: Vec<bool>,
    /// Which of those have it with size 1, as all examples share them.
    shared: Vec<bool>,
}

impl Batched {
    /// The type of one example.
    fn single(&self, i: usize, ty: &Type) -> Type {
        let mut one = ty.clone();
        if self.is_batched[i] {
            one.shape.remove(0);
        }
        one
    }
}

impl CustomOp for Batched {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn infer(&self, types: &[Type]) -> Result<Types> {
        let single: Vec<Type> = types.iter().enumerate().map(|(i, t)| self.single(i, t)).collect();
        let mut outs = self.inner.infer(&single)?;
        outs.iter_mut().for_each(|t| t.shape.insert(0, self.size));
        Ok(outs)
    }
    fn run(&self, inputs: &[(&Type, &[u8])], outputs: &mut [(&Type, &mut [u8])]) -> Result<()> {
        if self.how != Vmap::Sequential {
            return self.inner.run(inputs, outputs);
        }
        let types: Vec<Type> = inputs.iter().enumerate().map(|(i, (t, _))| self.single(i, t)).collect();
        let outs = self.inner.infer(&types)?;
        for k in 0..self.size {
            let part = |i: usize| {
                let (bytes, n) = (inputs[i].1, types[i].bytes());
                (&types[i], if self.is_batched[i] { &bytes[k * n..(k + 1) * n] } else { bytes })
            };
            let given: Vec<(&Type, &[u8])> = (0..inputs.len()).map(part).collect();
            let room = outs.iter().zip(outputs.iter_mut()).map(|(t, (_, o))| (t, &mut o[k * t.bytes()..][..t.bytes()]));
            self.inner.run(&given, &mut room.collect::<Vec<_>>())?;
        }
        Ok(())
    }
    /// The rule of one example, over the batch; what all examples share gets the sum.
    fn grad(&self, c: &GradCall) -> Result<Vec<Option<Value>>> {
        let tensor = |v: &Value| Tensor::from(v.clone());
        let inputs: Vec<Tensor> = (c.inputs.iter().zip(&self.shared))
            .map(|(v, &is_shared)| if is_shared { tensor(v).select(0, 0) } else { tensor(v) })
            .collect();
        let is_own: Vec<bool> = self.is_batched.iter().zip(&self.shared).map(|(&b, &s)| b && !s).collect();
        let mut args: Vec<Tensor> = (0..inputs.len()).filter(|&i| is_own[i]).map(|i| inputs[i].clone()).collect();
        args.extend(c.outputs.iter().map(tensor));
        args.extend(c.grads.iter().flatten().map(tensor));
        let mut has = Vec::new();
        let rule = |a: &[Tensor]| {
            let mut a = a.iter().map(|t| t.value().cloned());
            let mut next = || a.next().ok_or_else(|| ir::Error::bug("an argument for each value"))?;
            let one = |i: usize, next: &mut dyn FnMut() -> Result<Value>| {
                if is_own[i] { next() } else { inputs[i].value().cloned() }
            };
            let single = (0..inputs.len()).map(|i| one(i, &mut next)).collect::<Result<Vec<_>>>()?;
            let outputs = c.outputs.iter().map(|_| next()).collect::<Result<Vec<_>>>()?;
            let mut grads = Vec::with_capacity(c.grads.len());
            for g in c.grads {
                grads.push(if g.is_some() { Some(next()?) } else { None });
            }
            let call = GradCall { attrs: c.attrs, inputs: &single, outputs: &outputs, grads: &grads, wanted: c.wanted };
            let found = self.inner.grad(&call)?;
            has = found.iter().map(Option::is_some).collect();
            Ok(found.into_iter().flatten().map(Tensor::from).collect())
        };
        let mut found = over_batch(rule, &args, None)?.into_iter();
        let of = |(i, &is_there): (usize, &bool)| -> Result<Option<Value>> {
            if !is_there {
                return Ok(None);
            }
            let g = found.next().ok_or_else(|| ir::Error::bug("a gradient for each that is there"))?;
            let g = if is_own[i] { g } else { g.sum(0).reshape(c.inputs[i].ty().shape.clone()) };
            g.value().cloned().map(Some)
        };
        has.iter().enumerate().map(of).collect()
    }
    fn vmap(&self) -> Vmap {
        self.how
    }
    fn calls_back(&self) -> bool {
        self.inner.calls_back()
    }
}

/// The results of an op of the program's own. One with effects is `ordered`: it runs each time, after those called
/// before it.
///
/// ```
/// # use cpu as _;
/// # use ir::{CustomOp, Result, Type, Types};
/// # use talweg_ops::{Tensor, custom};
/// # use std::sync::Arc;
/// struct Twice;
/// impl CustomOp for Twice {
///     fn name(&self) -> &str {
///         "twice"
///     }
///     fn infer(&self, types: &[Type]) -> Result<Types> {
///         Ok(types[..1].into())
///     }
///     fn run(&self, inputs: &[(&Type, &[u8])], outputs: &mut [(&Type, &mut [u8])]) -> Result<()> {
///         for (y, x) in outputs[0].1.chunks_exact_mut(4).zip(inputs[0].1.chunks_exact(4)) {
///             y.copy_from_slice(&(2.0 * f32::from_ne_bytes(x.try_into().unwrap())).to_ne_bytes());
///         }
///         Ok(())
///     }
/// }
/// let y = custom(Arc::new(Twice), &[&Tensor::from([1.0f32, 2.0])], false);
/// assert_eq!((&y[0] + 1.0).to_vec::<f32>().unwrap(), [3.0, 5.0]);
/// ```
#[track_caller]
pub fn custom(op: Arc<dyn CustomOp>, inputs: &[&Tensor], ordered: bool) -> SmallVec<[Tensor; 1]> {
    let outs = Tensor::apply(&OP, inputs, Attrs::new().with("op", Custom(op)).with(ORDERED, ordered));
    match if ordered { effects::note(&outs[0]) } else { Ok(()) } {
        Ok(()) => outs,
        Err(e) => SmallVec::from_iter([Tensor::from(e)]),
    }
}
