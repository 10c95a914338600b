//! `unbind`: the slices along an axis, one tensor each.

use crate::rules::{expand, f64s, floats};
use crate::{Error, Result, Tensor, axis};
use ir::{AttrKind, Attrs, Case, Meaning, Op, Type};

/// Each result is its own value in the graph: more of them than this is a mistake, and would
/// fill the memory before anything is computed.
const RESULTS_MAX: usize = 1 << 20;

/// The row of `unbind`.
pub static OP: Op = Op {
    name: "unbind",
    doc: "The slices along `axis`, one result each, without the axis.",
    attrs: &[("axis", AttrKind::Int)],
    infer: |c| {
        c.arity(1)?;
        let at = c.axis("axis")?;
        if c.shape(0)[at] == 0 {
            return Err(Error::shape(format!("axis {at} of {} is empty: there are no slices", c.shape(0))));
        }
        if c.shape(0)[at] > RESULTS_MAX {
            let e = format!("axis {at} of {} has more than {RESULTS_MAX} slices", c.shape(0));
            return Err(Error::shape(e));
        }
        let slice = Type::new(c.dtype(0), c.shape(0).reduce(&[at], false));
        Ok(std::iter::repeat_n(slice, c.shape(0)[at]).collect())
    },
    meaning: Meaning::Composite(|c, x| {
        let at = c.axis("axis")?;
        expand(x, |x| Ok((0..c.shape(0)[at]).map(|i| x[0].select(at as i64, i as i64)).collect()))
    }),
    cases: || {
        let along = |a: i64| Attrs::new().with("axis", a);
        vec![
            Case::new(vec![floats([2, 3], 1)], along(1)),
            Case::new(vec![f64s([2, 2], &[1., 2., 3., 4.])], along(0))
                .expect(vec![f64s([2], &[1., 2.]), f64s([2], &[3., 4.])], "PyTorch manual: torch.unbind"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The slices along an axis, one tensor each, without the axis; none along an empty axis.
    #[track_caller]
    pub fn unbind(&self, along: i64) -> Vec<Tensor> {
        let site = ir::Site::here();
        let slices = || -> Result<Vec<Tensor>> {
            let shape = self.shape()?;
            let at = axis(along, shape.rank()).map_err(|e| e.in_op("unbind"))?;
            if shape[at] == 0 {
                return Ok(vec![]);
            }
            Ok(Tensor::apply(&OP, &[self], Attrs::new().with("axis", at)).into_vec())
        };
        site.scope(slices).unwrap_or_else(|e| vec![e.at(site).into()])
    }
}
