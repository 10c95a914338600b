//! `pad`: a border of one value; negative widths crop.

use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads, reshaped};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Literal, Meaning, Op, Shape};

/// The row of `pad`.
pub static OP: Op = Op {
    name: "pad",
    doc: "A border of one value around the elements: `lo` before and `hi` after, in each dimension; negative \
          widths crop.",
    attrs: &[("lo", AttrKind::Ints), ("hi", AttrKind::Ints), ("value", AttrKind::Float)],
    infer: |c| reshaped(c, out_shape(c)?),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let neg = |name| -> Result<Vec<i64>> { Ok(c.attrs.ints(name)?.iter().map(|x| -x).collect()) };
        grads([c.g(0).pad_raw(&neg("lo")?, &neg("hi")?, 0.0)])
    }),
    batch: Batch::Rule(|c| {
        let with =
            |name| -> Result<Vec<i64>> { Ok(std::iter::once(0).chain(c.attrs.ints(name)?.iter().copied()).collect()) };
        let x = Tensor::from(c.inputs[0].clone());
        Ok(vec![x.pad_raw(&with("lo")?, &with("hi")?, c.attrs.float("value")?).value()?.clone()])
    }),
    complex: on_complex!(pairs::pad),
    shard: ir::Shard::Rule(factors),
    cases: || {
        let by = |lo: &[i64], hi: &[i64], v: f64| Attrs::new().with("lo", lo).with("hi", hi).with("value", v);
        vec![
            Case::new(vec![floats([2, 3], 1)], by(&[1, -1], &[0, 2], 0.5)),
            Case::new(vec![f64s([2], &[1.0, 2.0])], by(&[1], &[2], 4.0))
                .expect(vec![f64s([5], &[4.0, 1.0, 2.0, 4.0, 4.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

/// The dimensions without a border pass.
fn factors(c: &Call) -> Result<ir::Factors> {
    let (lo, hi) = (c.attrs.ints("lo")?, c.attrs.ints("hi")?);
    let mut dims: Vec<char> = ir::shard::letters(c.shape(0), 'a').chars().collect();
    (0..dims.len()).filter(|&i| lo[i] != 0 || hi[i] != 0).for_each(|i| dims[i] = '.');
    let dims: String = dims.into_iter().collect();
    Ok(ir::Factors::of(&[&dims], &[&dims]))
}

fn out_shape(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (lo, hi) = (c.attrs.ints("lo")?, c.attrs.ints("hi")?);
    let shape = c.shape(0);
    if lo.len() != shape.rank() || hi.len() != shape.rank() {
        return Err(Error::value(format!("lo and hi must have one entry for each dimension of {shape}")));
    }
    let size = |i: usize| (shape[i] as i64).checked_add(lo[i])?.checked_add(hi[i]);
    (0..shape.rank())
        .map(|i| match size(i) {
            Some(d) if d >= 0 => Ok(d as usize),
            _ => Err(Error::shape(format!(
                "dimension {i} of size {} cannot be padded by {} and {}",
                shape[i], lo[i], hi[i]
            ))),
        })
        .collect()
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let out = out_shape(c)?;
    let (lo, x) = (c.attrs.ints("lo")?, &args[0]);
    let source = |flat: usize| {
        let (mut rest, mut at, mut step) = (flat, 0, 1);
        for d in (0..out.rank()).rev() {
            let i = (rest % out[d]) as i64 - lo[d];
            rest /= out[d];
            if i < 0 || i >= x.shape()[d] as i64 {
                return None;
            }
            at += i as usize * step;
            step *= x.shape()[d];
        }
        Some(at)
    };
    let value = Literal::scalar_f64(x.dtype(), c.attrs.float("value")?);
    let size = x.dtype().size();
    let mut bytes = Vec::with_capacity(out.count() * size);
    for i in 0..out.count() {
        match source(i) {
            Some(j) => bytes.extend_from_slice(&x.bytes()[j * size..(j + 1) * size]),
            None => bytes.extend_from_slice(value.bytes()),
        }
    }
    Ok(vec![Literal::from_bytes(x.dtype(), out, &bytes)?])
}

impl Tensor {
    /// A border of one value: `lo` before and `hi` after in each dimension; negative widths crop.
    #[track_caller]
    pub fn pad_raw(&self, lo: &[i64], hi: &[i64], value: f64) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("lo", lo).with("hi", hi).with("value", value))
    }
    /// Puts a slice back into zeros: the transpose of `slice`.
    #[track_caller]
    pub(crate) fn unslice(&self, shape: &Shape, starts: &[i64], steps: &[i64]) -> Tensor {
        self.then(|t| {
            if t.shape.count() == 0 {
                return Ok(Tensor::full_of(shape, 0.0, t.dtype));
            }
            // Walk forward, spread out by the step, then put the borders on.
            let back: Vec<i64> = (0..steps.len()).filter(|&i| steps[i] < 0).map(|i| i as i64).collect();
            let mut x = if back.is_empty() { self.clone() } else { self.flip(&back) };
            let (mut lo, mut hi) = (Vec::new(), Vec::new());
            for i in 0..steps.len() {
                let (n, k) = (t.shape[i] as i64, steps[i].abs().max(1));
                x = if n > 1 && k > 1 { x.spread(i, k as usize) } else { x };
                let span = (n - 1) * k + 1;
                let first = if steps[i] < 0 { starts[i] - (n - 1) * k } else { starts[i] };
                lo.push(first);
                hi.push(shape[i] as i64 - first - span);
            }
            Ok(x.pad_raw(&lo, &hi, 0.0))
        })
    }
    /// Puts `step - 1` zeros between neighbors along an axis.
    #[track_caller]
    pub(crate) fn spread(&self, axis: usize, step: usize) -> Tensor {
        self.then(|t| {
            let n = t.shape[axis];
            let mut apart = t.shape.clone();
            apart.insert(axis + 1, 1);
            let rank = apart.rank();
            let (lo, mut hi) = (vec![0; rank], vec![0; rank]);
            hi[axis + 1] = step as i64 - 1;
            let mut flat = t.shape.clone();
            flat.dims_mut()[axis] = n * step;
            let wide = self.reshape(apart).pad_raw(&lo, &hi, 0.0).reshape(flat);
            Ok(wide.narrow(axis as i64, 0, (n - 1) * step + 1))
        })
    }
}
