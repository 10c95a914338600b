//! `pixel_unshuffle`: blocks of pixels gathered into channels.

use crate::rules::{by_expansion, expand1, f64s, floats, product};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The row of `pixel_unshuffle`.
pub static OP: Op = Op {
    name: "pixel_unshuffle",
    doc: "Blocks of `factor` × `factor` pixels gathered into channels: [.., c, h·f, w·f] becomes [.., c·f², h, w].",
    attrs: &[("factor", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |f: i64| Attrs::new().with("factor", f);
        vec![
            Case::new(vec![floats([1, 1, 2, 4], 1)], by(2)),
            Case::new(vec![f64s([1, 2, 2], &[1., 2., 3., 4.])], by(2))
                .expect(vec![f64s([4, 1, 1], &[1., 2., 3., 4.])], "by hand, from PyTorch's definition"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let f = c.attrs.size("factor")?;
    let (lead, [k, h, w]) = super::planes(c)?;
    if f == 0 || h % f != 0 || w % f != 0 {
        return Err(Error::shape(format!("{h} × {w} pixels do not fall into blocks of {f} × {f}")));
    }
    let with = |tail: &[usize]| -> Shape { lead.iter().chain(tail).copied().collect() };
    let n = lead.len() as i64;
    let order: Vec<i64> = (0..n).chain([n, n + 2, n + 4, n + 1, n + 3]).collect();
    let channels = product(&[k, f, f])?;
    let apart = with(&[k, h / f, f, w / f, f]);
    expand1(x, |x| x[0].reshape(apart).permute(&order).reshape(with(&[channels, h / f, w / f])))
}

impl Tensor {
    /// Blocks of `factor` × `factor` pixels gathered into channels: the inverse of `pixel_shuffle`.
    #[track_caller]
    pub fn pixel_unshuffle(&self, factor: usize) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("factor", factor))
    }
}
