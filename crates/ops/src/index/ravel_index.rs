//! `ravel_index`: indices along several axes as flat indices.

use super::is_index;
use crate::rules::{i64s, one};
use crate::{DType, Error, Result};
use ir::{AttrKind, Attrs, Call, Case, Grad, Layout, Literal, Meaning, Op, broadcast_shapes};

/// The row of `ravel_index`.
pub static OP: Op = Op {
    name: "ravel_index",
    doc: "Indices along axes of the given `sizes`, one input per axis, as indices of the flattened axes. Negative \
          indices count from the end; one out of range is an error that names the axis by `axes`.",
    attrs: &[("sizes", AttrKind::Ints), ("axes", AttrKind::Ints)],
    infer: |c| {
        let n = c.attrs.sizes("sizes")?.len();
        c.arity(n)?;
        if n == 0 || c.attrs.sizes("axes")?.len() != n {
            return Err(Error::value("sizes and axes must have one entry for each input"));
        }
        (0..n).try_for_each(|i| is_index(c, i))?;
        one(DType::I64, out_shape(c)?)
    },
    meaning: Meaning::Kernel(reference),
    grad: Grad::Zero,
    cases: || {
        let of = |s: &[i64], a: &[i64]| Attrs::new().with("sizes", s).with("axes", a);
        vec![
            Case::new(vec![i64s([3], &[3, 6, 6]), i64s([3], &[4, 5, 1])], of(&[7, 6], &[0, 1])).expect(
                vec![i64s([3], &[22, 41, 37])],
                "NumPy manual: np.ravel_multi_index([[3, 6, 6], [4, 5, 1]], (7, 6))",
            ),
            Case::new(vec![i64s([2, 1], &[-1, 0]), i64s((), &[-2])], of(&[3, 4], &[0, 2]))
                .expect(vec![i64s([2, 1], &[10, 2])], "by hand: 2 · 4 + 2 and 2"),
        ]
    },
    ..Op::DEFAULT
};

fn out_shape(c: &Call) -> Result<ir::Shape> {
    broadcast_shapes(&c.types.iter().map(|t| &t.shape).collect::<Vec<_>>())
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (sizes, axes, shape) = (c.attrs.sizes("sizes")?, c.attrs.sizes("axes")?, out_shape(c)?);
    let mut out = vec![0i64; shape.count()];
    for (k, arg) in args.iter().enumerate() {
        let n = sizes[k] as i64;
        let index = arg.gather(&Layout::contiguous(arg.shape()).broadcast_to(&shape)).to_i64();
        for (slot, i) in out.iter_mut().zip(index) {
            if i < -n || i >= n {
                return Err(Error::index(format!("index {i} is out of range for axis {} of size {n}", axes[k])));
            }
            *slot = *slot * n + if i < 0 { i + n } else { i };
        }
    }
    Ok(vec![Literal::from_i64(DType::I64, shape, &out)])
}
