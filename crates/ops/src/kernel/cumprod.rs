//! `cumprod`: running products along an axis.

use super::{BATCH_AXIS, advance, delay};
use crate::pairs;
use crate::rules::{GradTensors, f64s, floats, grads, number, same};
use crate::{Result, Tensor};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op};

/// The row of `cumprod`.
pub static OP: Op = Op {
    name: "cumprod",
    doc: "Running products along `axis`. Integers and bool are multiplied in 64 bits.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| c.arity(1).and_then(|()| number(c, 0)).and_then(|()| c.axis("axis")).and_then(|_| same(c, 0)),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Rule(|c| {
        // An element stands in every later product: its gradient is the product of those before it
        // times r[i] = g[i] + x[i + 1] · r[i + 1]. Nothing is divided, so zeros do no harm.
        let (x, at) = (c.x(0), c.attrs.size("axis")?);
        if x.count()? == 0 {
            return grads([x]);
        }
        let before = delay(&x.cumprod(at as i64), at, 1.0)?;
        grads([before * advance(&x, at, 0.0)?.recur_back(&c.g(0), at)])
    }),
    batch: BATCH_AXIS,
    autocast: ir::Autocast::Wide,
    complex: on_complex!(pairs::cumprod),
    shard: ir::Shard::Lanes,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], along(1)),
            Case::new(vec![f64s([5], &[2.0, 0.0, 3.0, 0.0, -1.5])], along(0)),
            Case::new(vec![f64s([2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])], along(1)).expect(
                vec![f64s([2, 3], &[1.0, 2.0, 6.0, 4.0, 20.0, 120.0])],
                "NumPy manual: np.cumprod([[1, 2, 3], [4, 5, 6]], axis=1)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let lanes = AxisSplit::new(c.shape(0), c.axis("axis")?);
    let (dtype, shape) = (c.dtype(0), c.shape(0).clone());
    Ok(vec![if dtype.is_float() {
        let mut x = args[0].to_f64();
        for lane in lanes.each() {
            lane.fold(1.0, |product, i| {
                x[i] *= product;
                x[i]
            });
        }
        Literal::from_f64(dtype, shape, &x)
    } else {
        let mut x = args[0].to_i64();
        for lane in lanes.each() {
            lane.fold(1i64, |product, i| {
                x[i] = x[i].wrapping_mul(product);
                x[i]
            });
        }
        Literal::from_i64(dtype, shape, &x)
    }])
}

impl Tensor {
    /// Running products along an axis; integers and bool are multiplied in 64 bits.
    #[track_caller]
    pub fn cumprod(&self, along: i64) -> Tensor {
        self.then(|t| {
            let (x, at) = self.cast(t.dtype.sum_type()).at_axis("cumprod", along)?;
            Ok(Tensor::apply1(&OP, &[&x], Attrs::new().with("axis", at)).reshape(&t.shape))
        })
    }
}
