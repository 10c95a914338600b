//! `concat`: tensors one after the other along an axis.

use crate::arith::common;
use crate::rules::{GradTensors, f64s, floats, maybe_grads, one, one_dtype};
use crate::{DType, Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Batch, Call, Case, Grad, Literal, Meaning, Op, Shape, Site};

/// The row of `concat`.
pub static OP: Op = Op {
    name: "concat",
    doc: "Tensors one after the other along an axis; the other sizes must be equal.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| one(one_dtype(c)?, out_shape(c)?),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let along = c.attrs.size("axis")?;
        let (g, mut start) = (c.g(0), 0);
        let part = |v: &ir::Value| {
            let n = v.ty().shape[along];
            start += n;
            Some(g.narrow(along as i64, start - n, n))
        };
        maybe_grads(c.inputs.iter().map(part).collect())
    }),
    batch: Batch::Rule(|c| {
        let parts: Vec<Tensor> = c
            .inputs
            .iter()
            .zip(c.batched)
            .map(|(v, &b)| {
                let mut shape = v.ty().shape.clone();
                if !b {
                    shape.insert(0, c.size);
                }
                Tensor::from(v.clone()).broadcast_to(shape)
            })
            .collect();
        Ok(vec![Tensor::concat(&parts, c.attrs.int("axis")? + 1).value()?.clone()])
    }),
    linear: true,
    shard: ir::Shard::Joins,
    cases: || {
        vec![
            Case::new(vec![floats([2, 3], 1), floats([2, 1], 2), floats([2, 2], 3)], Attrs::new().with("axis", 1i64)),
            Case::new(
                vec![f64s([2, 2], &[1.0, 2.0, 3.0, 4.0]), f64s([1, 2], &[5.0, 6.0])],
                Attrs::new().with("axis", 0i64),
            )
            .expect(
                vec![f64s([3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])],
                "NumPy manual: np.concatenate((a, b), axis=0)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<Shape> {
    if c.types.is_empty() {
        return Err(Error::value("at least one tensor is needed"));
    }
    let along = c.axis("axis")?;
    let mut out = c.shape(0).clone();
    for t in &c.types[1..] {
        let fits = t.shape.rank() == out.rank() && (0..out.rank()).all(|d| d == along || t.shape[d] == out[d]);
        if !fits {
            return Err(Error::shape(format!("{} and {} differ beyond axis {along}", c.shape(0), t.shape)));
        }
        out.dims_mut()[along] += t.shape[along];
    }
    Ok(out)
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (along, out) = (c.axis("axis")?, out_shape(c)?);
    let rows: usize = out[..along].iter().product();
    let mut bytes = Vec::with_capacity(out.count() * c.dtype(0).size());
    for r in 0..rows {
        for a in args {
            let row = a.bytes().len() / rows;
            bytes.extend_from_slice(&a.bytes()[r * row..(r + 1) * row]);
        }
    }
    Ok(vec![Literal::from_bytes(c.dtype(0), out, &bytes)?])
}

impl Tensor {
    /// Tensors one after the other along an axis, in their common type.
    #[track_caller]
    pub fn concat(parts: &[Tensor], along: i64) -> Tensor {
        let site = Site::here();
        site.scope(|| {
            let run = || -> Result<Tensor> {
                let first =
                    parts.first().ok_or_else(|| Error::value("at least one tensor is needed").in_op("concat"))?;
                let at = axis(along, first.rank()?).map_err(|e| e.in_op("concat"))?;
                let dtypes: Vec<DType> = parts.iter().map(Tensor::dtype).collect::<Result<_>>()?;
                let dtype = common(&dtypes).map_err(|e| e.in_op("concat"))?;
                let parts: Vec<Tensor> = parts.iter().map(|p| p.cast(dtype)).collect();
                let refs: Vec<&Tensor> = parts.iter().collect();
                Ok(Tensor::apply1(&OP, &refs, Attrs::new().with("axis", at)))
            };
            run().map_err(|e| e.at(site)).into()
        })
    }
}
