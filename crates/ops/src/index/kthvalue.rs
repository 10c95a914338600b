//! `kthvalue`: the k-th least element along an axis and its place.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `kthvalue`.
pub static OP: Op = Op {
    name: "kthvalue",
    doc: "The `k`-th smallest element along `axis`, counted from 1, and its index; the axis keeps size 1.",
    attrs: &[("k", AttrKind::Int), ("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    grad: super::CHOSEN_GRAD,
    cases: || {
        let by = |k: i64, a: i64| Attrs::new().with("k", k).with("axis", a);
        vec![
            Case::new(vec![floats([3, 2], 2)], by(2, 0)),
            Case::new(vec![f64s([5], &[1.0, 2.0, 3.0, 4.0, 5.0])], by(4, 0)).expect(
                vec![f64s([1], &[4.0]), i64s([1], &[3])],
                "PyTorch manual: torch.kthvalue(torch.arange(1., 6.), 4)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (k, at) = (c.attrs.size("k")?, c.axis("axis")?);
    if k == 0 || k > c.shape(0)[at] {
        return Err(Error::value(format!("axis {at} of {} has no element number {k}", c.shape(0))));
    }
    expand(x, |x| Ok(x[0].sort(at as i64).iter().map(|t| t.narrow(at as i64, k - 1, 1)).collect()))
}

impl Tensor {
    /// The `k`-th smallest element along an axis, counted from 1, and its index; the axis is removed.
    #[track_caller]
    pub fn kthvalue(&self, k: usize, along: i64) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.at_axis("kthvalue", along)?;
            let outs: [Tensor; 2] = Tensor::apply_n(&OP, &[&x], Attrs::new().with("k", k).with("axis", at));
            let shape = t.shape.reduce(&[at], false);
            Ok(outs.map(|y| y.reshape(&shape)))
        })
    }
}
