//! `softmin`: softmax of the negative.

use crate::Tensor;
use crate::kernel::BATCH_AXIS;
use crate::rules::{expand1, f64s, float, floats, same};
use ir::{AttrKind, Attrs, Case, Meaning, Op};

/// The row of `softmin`.
pub static OP: Op = Op {
    name: "softmin",
    doc: "Softmax of the negative along an axis.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        c.axis("axis")?;
        same(c, 0)
    },
    meaning: Meaning::Composite(|c, x| {
        let axis = c.axis("axis")? as i64;
        expand1(x, |x| (-&x[0]).softmax(axis))
    }),
    batch: BATCH_AXIS,
    autocast: ir::Autocast::Wide,
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], along(1)),
            Case::new(vec![f64s([2], &[0.0, 1.0986122886681098])], along(0))
                .expect(vec![f64s([2], &[0.75, 0.25])], "by hand: 3 to 1"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// Softmax of the negative along an axis.
    #[track_caller]
    pub fn softmin(&self, along: i64) -> Tensor {
        self.then(|t| {
            let (x, at) = self.cast(t.dtype.to_float()).at_axis("softmin", along)?;
            Ok(Tensor::apply1(&OP, &[&x], Attrs::new().with("axis", at)).reshape(&t.shape))
        })
    }
}
