//! `cumsum`: running sums along an axis.

use super::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, grads, number, same};
use crate::{Result, Tensor, axis};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `cumsum`.
pub static OP: Op = Op {
    name: "cumsum",
    doc: "Running sums along `axis`, from the end if `reverse`. Integers and bool are summed in 64 bits.",
    attrs: &[("axis", AttrKind::Int), ("reverse", AttrKind::Bool)],
    infer: |c| c.arity(1).and_then(|()| number(c, 0)).and_then(|()| c.axis("axis")).and_then(|_| same(c, 0)),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        let attrs = c.attrs.clone().set("reverse", !c.attrs.bool("reverse")?);
        grads([Tensor::apply1(&OP, &[&c.g(0)], attrs)])
    }),
    batch: BATCH_AXIS,
    autocast: ir::Autocast::Wide,
    linear: true,
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64, r: bool| Attrs::new().with("axis", a).with("reverse", r);
        let x = f64s([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], along(1, false)),
            Case::new(vec![floats([2, 3], 2)], along(1, true)),
            // A lane of many tiles.
            Case::new(vec![floats([8300], 3)], along(0, true)).kinked(),
            Case::new(vec![x], along(1, false)).expect(
                vec![f64s([2, 3], &[1.0, 3.0, 6.0, 4.0, 9.0, 15.0])],
                "NumPy manual: np.cumsum([[1, 2, 3], [4, 5, 6]], axis=1)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (lanes, reverse) = (AxisSplit::new(c.shape(0), c.axis("axis")?), c.attrs.bool("reverse")?);
    let (float, dtype, shape) = (c.dtype(0).is_float(), c.dtype(0), c.shape(0).clone());
    let order = |lane: &mut dyn DoubleEndedIterator<Item = usize>| -> Vec<usize> {
        if reverse { lane.rev().collect() } else { lane.collect() }
    };
    Ok(vec![if float {
        let mut x = args[0].to_f64();
        for mut lane in lanes.each() {
            let mut sum = 0.0;
            for i in order(&mut lane) {
                sum += x[i];
                x[i] = sum;
            }
        }
        Literal::from_f64(dtype, shape, &x)
    } else {
        let mut x = args[0].to_i64();
        for mut lane in lanes.each() {
            let mut sum = 0i64;
            for i in order(&mut lane) {
                sum = sum.wrapping_add(x[i]);
                x[i] = sum;
            }
        }
        Literal::from_i64(dtype, shape, &x)
    }])
}

impl Tensor {
    /// Running sums along an axis; integers and bool are summed in 64 bits.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// assert_eq!(Tensor::from([1, 2, 3]).cumsum(0).to_vec::<i64>().unwrap(), [1, 3, 6]);
    /// ```
    #[track_caller]
    pub fn cumsum(&self, along: i64) -> Tensor {
        self.cumsum_in(along, false)
    }
    /// Running sums along an axis from its end.
    #[track_caller]
    pub fn cumsum_reverse(&self, along: i64) -> Tensor {
        self.cumsum_in(along, true)
    }
    #[track_caller]
    fn cumsum_in(&self, along: i64, reverse: bool) -> Tensor {
        self.then(|t| {
            if t.shape.rank() == 0 {
                axis(along, 1).map_err(|e| e.in_op("cumsum"))?;
                return Ok(self.cast(t.dtype.sum_type()));
            }
            let at = axis(along, t.shape.rank()).map_err(|e| e.in_op("cumsum"))?;
            let attrs = Attrs::new().with("axis", at).with("reverse", reverse);
            Ok(Tensor::apply1(&OP, &[&self.cast(t.dtype.sum_type())], attrs))
        })
    }
}
