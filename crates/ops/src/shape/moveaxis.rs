//! `moveaxis`: axes moved to other positions.

use crate::rules::{by_expansion, expand1, f64s, floats};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `moveaxis`.
pub static OP: Op = Op {
    name: "moveaxis",
    doc: "The axes `from` moved to the positions `to`; the others keep their order.",
    attrs: &[("from", AttrKind::Ints), ("to", AttrKind::Ints)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |a: &[i64], b: &[i64]| Attrs::new().with("from", a).with("to", b);
        let x = f64s([3, 2, 1], &[1., 2., 3., 4., 5., 6.]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], by(&[2, 0], &[0, 1])),
            Case::new(vec![x], by(&[1], &[0])).expect(
                vec![f64s([2, 3, 1], &[1., 3., 5., 2., 4., 6.])],
                "PyTorch manual: the shape of torch.movedim(t, 1, 0)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (from, to, rank) = (c.attrs.sizes("from")?, c.attrs.sizes("to")?, c.shape(0).rank());
    let distinct = |list: &[usize]| list.iter().enumerate().all(|(i, a)| *a < rank && !list[..i].contains(a));
    if from.len() != to.len() || !distinct(&from) || !distinct(&to) {
        return Err(Error::value(format!("axes {from:?} of {} cannot be moved to {to:?}", c.shape(0))));
    }
    let mut rest = (0..rank).filter(|a| !from.contains(a));
    let order: Vec<i64> = (0..rank)
        .map(|d| match to.iter().position(|&t| t == d) {
            Some(i) => from[i] as i64,
            None => rest.next().unwrap_or(0) as i64,
        })
        .collect();
    expand1(x, |x| x[0].permute(&order))
}

impl Tensor {
    /// Axes moved to other positions; the others keep their order.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::zeros([3, 4, 5]).moveaxis(&[0], &[-1]).shape().unwrap().dims(), [4, 5, 3]);
    /// ```
    #[track_caller]
    pub fn moveaxis(&self, from: &[i64], to: &[i64]) -> Tensor {
        self.then(|t| {
            let all = |list: &[i64]| -> Result<Vec<usize>> {
                list.iter().map(|&a| axis(a, t.shape.rank())).collect::<Result<_>>().map_err(|e| e.in_op("moveaxis"))
            };
            Ok(Tensor::apply1(&OP, &[self], Attrs::new().with("from", &all(from)?).with("to", &all(to)?)))
        })
    }
    /// Two axes swapped: NumPy's name of `transpose(a, b)`.
    #[track_caller]
    pub fn swapaxes(&self, a: i64, b: i64) -> Tensor {
        self.transpose(a, b)
    }
}
