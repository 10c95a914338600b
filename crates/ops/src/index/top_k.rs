//! `top_k`: the greatest or least elements along an axis, in order, and their indices.

use crate::rules::{by_expansion, expand, f64s, floats, i64s};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `top_k`.
pub static OP: Op = Op {
    name: "top_k",
    doc: "The `k` largest (or smallest, unless `largest`) elements along `axis`, best first, and their indices.",
    attrs: &[("k", AttrKind::Int), ("axis", AttrKind::Int), ("largest", AttrKind::Bool)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    grad: super::CHOSEN_GRAD,
    cases: || {
        let by = |k: i64, a: i64, l: bool| Attrs::new().with("k", k).with("axis", a).with("largest", l);
        vec![
            Case::new(vec![floats([2, 4], 1)], by(2, 1, true)),
            Case::new(vec![floats([3, 2], 2)], by(2, 0, false)),
            // Few of many are selected.
            Case::new(vec![floats([2, 4200], 3)], by(5, 1, true)).kinked(),
            Case::new(vec![floats([4300, 2], 4)], by(1000, 0, false)).kinked(),
            Case::new(vec![f64s([5], &[1.0, 2.0, 3.0, 4.0, 5.0])], by(3, 0, true)).expect(
                vec![f64s([3], &[5.0, 4.0, 3.0]), i64s([3], &[4, 3, 2])],
                "PyTorch manual: torch.topk(torch.arange(1., 6.), 3)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (k, at, largest) = (c.attrs.size("k")?, c.axis("axis")?, c.attrs.bool("largest")?);
    if k > c.shape(0)[at] {
        return Err(Error::value(format!("axis {at} of {} has no {k} elements", c.shape(0))));
    }
    expand(x, |x| Ok(x[0].sort_in(at as i64, largest).iter().map(|t| t.narrow(at as i64, 0, k)).collect()))
}

impl Tensor {
    /// The `k` largest elements along an axis, largest first, and their indices.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let [values, indices] = Tensor::from([3, 9, 4]).top_k(2, 0);
    /// assert_eq!(values.to_vec::<i32>().unwrap(), [9, 4]);
    /// assert_eq!(indices.to_vec::<i64>().unwrap(), [1, 2]);
    /// ```
    #[track_caller]
    pub fn top_k(&self, k: usize, along: i64) -> [Tensor; 2] {
        self.top_k_in(k, along, true)
    }
    /// The `k` smallest elements along an axis, smallest first, and their indices.
    #[track_caller]
    pub fn bottom_k(&self, k: usize, along: i64) -> [Tensor; 2] {
        self.top_k_in(k, along, false)
    }
    #[track_caller]
    fn top_k_in(&self, k: usize, along: i64, largest: bool) -> [Tensor; 2] {
        self.then2(|t| {
            let (x, at) = self.at_axis("top_k", along)?;
            let attrs = Attrs::new().with("k", k).with("axis", at).with("largest", largest);
            let outs: [Tensor; 2] = Tensor::apply_n(&OP, &[&x], attrs);
            Ok(if t.shape.rank() == 0 && k == 1 { outs.map(|y| y.reshape(())) } else { outs })
        })
    }
    /// The indices that sort an axis in ascending order.
    #[track_caller]
    pub fn argsort(&self, along: i64) -> Tensor {
        let [_, places] = self.sort(along);
        places
    }
    /// The indices that sort an axis in descending order.
    #[track_caller]
    pub fn argsort_descending(&self, along: i64) -> Tensor {
        let [_, places] = self.sort_descending(along);
        places
    }
}
