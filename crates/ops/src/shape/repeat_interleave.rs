//! `repeat_interleave`: each element repeated along an axis.

use crate::rules::{by_expansion, expand1, f64s, floats};
use crate::{Axes, Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `repeat_interleave`.
pub static OP: Op = Op {
    name: "repeat_interleave",
    doc: "Each element repeated `times` along `axis`.",
    attrs: &[("times", AttrKind::Int), ("axis", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |n: i64, a: i64| Attrs::new().with("times", n).with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], by(2, 0)),
            Case::new(vec![f64s([2, 2], &[1., 2., 3., 4.])], by(3, 1)).expect(
                vec![f64s([2, 6], &[1., 1., 1., 2., 2., 2., 3., 3., 3., 4., 4., 4.])],
                "NumPy manual: np.repeat(x, 3, axis=1)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (times, at) = (c.attrs.size("times")?, c.axis("axis")?);
    let (mut apart, mut wide, mut out) = (c.shape(0).clone(), c.shape(0).clone(), c.shape(0).clone());
    apart.insert(at + 1, 1);
    wide.insert(at + 1, times);
    out.dims_mut()[at] *= times;
    expand1(x, |x| x[0].reshape(apart).broadcast_to(wide).reshape(out))
}

impl Tensor {
    /// Each element repeated along an axis, or of the flattened tensor for `..`.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).repeat_interleave(2, 0).to_vec::<i32>().unwrap(), [1, 1, 2, 2]);
    /// ```
    #[track_caller]
    pub fn repeat_interleave(&self, times: usize, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|_| {
            let (x, at) = self.one_axis(&axes, "repeat_interleave")?;
            Ok(Tensor::apply1(&OP, &[&x], Attrs::new().with("times", times).with("axis", at)))
        })
    }
    /// Each element along an axis repeated as often as `times`, a vector of integers, says.
    ///
    /// The result's size depends on these, so they are computed at once.
    #[track_caller]
    pub fn repeat_interleave_by(&self, times: &Tensor, axes: impl Into<Axes>) -> Tensor {
        let axes = axes.into();
        self.then(|_| {
            let (x, at) = self.one_axis(&axes, "repeat_interleave")?;
            let times = times.as_index("repeat_interleave")?.literal()?.to_i64();
            if times.len() == 1 && times[0] >= 0 {
                return Ok(x.repeat_interleave(times[0] as usize, at));
            }
            if times.len() != x.shape()?[at] || times.iter().any(|&n| n < 0) {
                let e = format!("counts {times:?} do not fit axis {at} of {}", x.shape()?);
                return Err(Error::value(e).in_op("repeat_interleave"));
            }
            let each = times.iter().enumerate();
            let index: Vec<i64> = each.flat_map(|(i, &n)| std::iter::repeat_n(i as i64, n as usize)).collect();
            Ok(x.take(&Tensor::new(index.len(), &index), at as i64))
        })
    }
}
