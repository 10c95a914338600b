//! `tile`: the whole repeated along dimensions.

use crate::rules::{by_expansion, expand1, f64s, floats, product};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The row of `tile`.
pub static OP: Op = Op {
    name: "tile",
    doc: "The whole repeated `times` along each dimension; missing counts and missing dimensions in front are 1.",
    attrs: &[("times", AttrKind::Ints)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |t: &[i64]| Attrs::new().with("times", t);
        vec![
            Case::new(vec![floats([2, 2], 1)], by(&[2, 1, 3])),
            Case::new(vec![floats([2, 2, 2], 2)], by(&[2])),
            Case::new(vec![f64s([2, 2], &[1., 2., 3., 4.])], by(&[2]))
                .expect(vec![f64s([2, 4], &[1., 2., 1., 2., 3., 4., 3., 4.])], "NumPy manual: np.tile(b, 2)"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let times = c.attrs.sizes("times")?;
    let rank = times.len().max(c.shape(0).rank());
    let fill =
        |list: &[usize]| -> Vec<usize> { vec![1; rank - list.len()].into_iter().chain(list.iter().copied()).collect() };
    let (dims, times) = (fill(c.shape(0)), fill(&times));
    // Each dimension gets a new one before it, which is repeated.
    let apart: Shape = dims.iter().flat_map(|&d| [1, d]).collect();
    let wide: Shape = dims.iter().zip(&times).flat_map(|(&d, &t)| [t, d]).collect();
    let out: Shape = dims.iter().zip(&times).map(|(&d, &t)| product(&[d, t])).collect::<Result<_>>()?;
    expand1(x, |x| x[0].reshape(apart).broadcast_to(wide).reshape(out))
}

impl Tensor {
    /// The whole repeated along each dimension; missing counts in front are 1.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 2]).tile(&[2]).to_vec::<i32>().unwrap(), [1, 2, 1, 2]);
    /// ```
    #[track_caller]
    pub fn tile(&self, times: &[usize]) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("times", times))
    }
    /// PyTorch's `repeat`: `tile` with a count for each dimension at least. NumPy's `repeat` is
    /// `repeat_interleave`.
    #[track_caller]
    pub fn repeat(&self, times: &[usize]) -> Tensor {
        self.then(|t| {
            if times.len() < t.shape.rank() {
                let e = format!("{} counts for the {} dimensions of {}", times.len(), t.shape.rank(), t.shape);
                return Err(Error::value(e).in_op("repeat"));
            }
            Ok(self.tile(times))
        })
    }
}
