//! `matmul`: the matrix product.

use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads, number, one, one_dtype, unbroadcast};
use crate::{DType, Error, Operand, Result, Tensor};
use ir::{Attrs, Batch, BatchCall, Call, Case, Factors, Grad, Layout, Literal, Meaning, Op, Shape, Site, Value};

/// The row of `matmul`.
pub static OP: Op = Op {
    name: "matmul",
    doc: "Matrix product of the last two dimensions; leading dimensions broadcast.",
    infer: |c| {
        c.arity(2)?;
        number(c, 0)?;
        one(one_dtype(c)?, checked_shape(c)?)
    },
    meaning: Meaning::Kernel(|c, args| reference(c, args, c.dtype(0))),
    grad: Grad::Rule(|c| {
        let (a, b, g) = (c.x(0), c.x(1), c.g(0));
        // The gradient of a transposed operand is made the other way round, so that it lies in
        // memory as the operand itself does.
        let ga = if is_transpose(&c.inputs[0]) { b.matmul(&g.t()).t() } else { g.matmul(&b.t()) };
        let gb = if is_transpose(&c.inputs[1]) { g.t().matmul(&a).t() } else { a.t().matmul(&g) };
        grads([unbroadcast(ga, &c.inputs[0].ty().shape), unbroadcast(gb, &c.inputs[1].ty().shape)])
    }),
    batch: Batch::Rule(batch),
    autocast: ir::Autocast::Narrow,
    complex: on_complex!(pairs::matmul),
    shard: ir::Shard::Rule(factors),
    linear_in: &[0, 1],
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([3, 4], 2)], Attrs::new()),
            Case::new(vec![floats([2, 1, 2, 3], 1), floats([3, 3, 2], 2)], Attrs::new()),
            Case::new(vec![f64s([2, 2], &[1.0, 0.0, 0.0, 1.0]), f64s([2, 2], &[4.0, 1.0, 2.0, 2.0])], Attrs::new())
                .expect(
                    vec![f64s([2, 2], &[4.0, 1.0, 2.0, 2.0])],
                    "NumPy manual: np.matmul([[1, 0], [0, 1]], [[4, 1], [2, 2]])",
                ),
        ]
    },
    ..Op::DEFAULT
};

/// The batching rule: leading dimensions are aligned.
pub(super) fn batch(c: &BatchCall) -> Result<Vec<Value>> {
    let rank = c.inputs.iter().zip(c.batched).map(|(v, &b)| v.ty().shape.rank() - b as usize).max().unwrap_or(2);
    let aligned: Vec<Tensor> = c
        .inputs
        .iter()
        .zip(c.batched)
        .map(|(v, &b)| {
            let mut shape = v.ty().shape.clone();
            while b && shape.rank() < rank + 1 {
                shape.insert(1, 1);
            }
            Tensor::from(v.clone()).reshape(shape)
        })
        .collect();
    Ok(vec![Tensor::apply1(c.op, &[&aligned[0], &aligned[1]], Attrs::new()).value()?.clone()])
}

/// How a product may be cut: leading dimensions, rows and columns pass, the inner dimension is summed.
pub(super) fn factors(c: &Call) -> Result<Factors> {
    let out = checked_shape(c)?;
    let lead = out.rank() - 2;
    let letters = |s: &Shape, end: &str| -> String {
        let skip = lead + 2 - s.rank();
        let letter = |i: usize| char::from_u32('0' as u32 + (skip + i) as u32).unwrap_or('.');
        (0..s.rank() - 2).map(|i| if s[i] == 1 { '.' } else { letter(i) }).chain(end.chars()).collect()
    };
    let (a, b, y) = (letters(c.shape(0), "mk"), letters(c.shape(1), "kn"), letters(&out, "mn"));
    Ok(Factors::of(&[&a, &b], &[&y]))
}

/// True if a value is another one with its last two dimensions swapped.
fn is_transpose(v: &Value) -> bool {
    let rank = v.ty().shape.rank();
    let swapped: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
    let n = v.node();
    n.op().is_some_and(|op| op.name == "permute") && n.attrs().sizes("axes").is_ok_and(|axes| axes[..] == swapped[..])
}

/// The shape of a product, or why there is none.
pub(crate) fn checked_shape(c: &Call) -> Result<Shape> {
    let (a, b) = (c.shape(0), c.shape(1));
    if a.rank() < 2 || b.rank() < 2 {
        return Err(Error::shape(format!("both sides must have at least two dimensions: {a} × {b}")));
    }
    if a[a.rank() - 1] != b[b.rank() - 2] {
        return Err(Error::shape(format!("inner sizes differ: {a} × {b}")));
    }
    out_shape(a, b).ok_or_else(|| Error::shape(format!("leading sizes do not broadcast: {a} × {b}")))
}

fn out_shape(a: &Shape, b: &Shape) -> Option<Shape> {
    let lead = |s: &Shape| Shape::new(&s[..s.rank() - 2]);
    let mut out = lead(a).broadcast(&lead(b))?;
    out.push(a[a.rank() - 2]);
    out.push(b[b.rank() - 1]);
    Some(out)
}

/// Row by column, summed in f64 or i64, as numbers of type `to`.
pub(super) fn reference(c: &Call, args: &[Literal], to: DType) -> Result<Vec<Literal>> {
    let out = out_shape(c.shape(0), c.shape(1)).ok_or_else(|| Error::bug("checked by the type rule"))?;
    let (m, n) = (out[out.rank() - 2], out[out.rank() - 1]);
    let k = c.shape(0)[c.shape(0).rank() - 1];
    let full = |s: &Shape, r: usize, q: usize| {
        let mut whole = Shape::new(&out[..out.rank() - 2]);
        whole.push(r);
        whole.push(q);
        Layout::contiguous(s).broadcast_to(&whole)
    };
    let (a, b) = (args[0].gather(&full(c.shape(0), m, k)), args[1].gather(&full(c.shape(1), k, n)));
    // Element i of the result is row i / n of the stacked left side and column i % n of its batch.
    let at = |i: usize, j: usize| ((i / n) * k + j, (i / (m * n)) * k * n + j * n + i % n);
    Ok(vec![if to.is_float() {
        let (a, b) = (a.to_f64(), b.to_f64());
        let data: Vec<f64> =
            (0..out.count()).map(|i| (0..k).map(|j| at(i, j)).map(|(p, q)| a[p] * b[q]).sum()).collect();
        Literal::from_f64(to, out, &data)
    } else {
        let (a, b) = (a.to_i64(), b.to_i64());
        let dot = |i| (0..k).map(|j| at(i, j)).fold(0i64, |s, (p, q)| s.wrapping_add(a[p].wrapping_mul(b[q])));
        Literal::from_i64(to, out.clone(), &(0..out.count()).map(dot).collect::<Vec<_>>())
    }])
}

impl Tensor {
    /// Matrix product with NumPy's rules: vectors are rows on the left and columns on the right,
    /// leading dimensions broadcast.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let a = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]);
    /// assert_eq!(a.matmul(&Tensor::from([1.0f32, 1.0])).to_vec::<f32>().unwrap(), [3.0, 7.0]);
    /// ```
    #[track_caller]
    pub fn matmul(&self, other: impl Operand) -> Tensor {
        let site = Site::here();
        site.scope(|| {
            let (a, b) = match self.promoted(other) {
                Ok(ab) => ab,
                Err(e) => return e.into(),
            };
            a.then(|ta| {
                let tb = b.value()?.ty();
                let (va, vb) = (ta.shape.rank() == 1, tb.shape.rank() == 1);
                if ta.shape.rank() == 0 || tb.shape.rank() == 0 {
                    return Err(Error::shape(format!("scalars have no matrix product: {} × {}", ta.shape, tb.shape))
                        .in_op("matmul"));
                }
                let left = if va { a.reshape([1, ta.shape[0]]) } else { a.clone() };
                let right = if vb { b.reshape([tb.shape[0], 1]) } else { b.clone() };
                let y = Tensor::apply1(&OP, &[&left, &right], Attrs::new());
                let mut shape = y.shape()?;
                if vb {
                    shape.remove(shape.rank() - 1);
                }
                if va {
                    let at = shape.rank() - 1 - !vb as usize;
                    shape.remove(at);
                }
                Ok(y.reshape(shape))
            })
        })
    }
}
