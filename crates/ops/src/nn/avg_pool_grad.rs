//! `avg_pool_grad`: the gradient of average pooling.

use super::avg_pool::{self, ATTRS, borders, by, divided, windows};
use super::conv_input_grad::{shape, without_shape};
use crate::rules::{GradTensors, expand_wide, f64s, float, floats, grads, one};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Call, Case, Grad, Meaning, Op, Value};

/// The row of `avg_pool_grad`.
pub static OP: Op = Op {
    name: "avg_pool_grad",
    doc: "The gradient of `avg_pool` for an input of shape `shape`, from the gradient of its result: each window's is \
          spread over its elements. Its transpose.",
    attrs: &[ATTRS[0], ATTRS[1], ATTRS[2], ATTRS[3], ATTRS[4], ATTRS[5], ("shape", AttrKind::Ints)],
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        let to = shape(c.attrs)?;
        let w = windows(c.attrs, &to)?;
        let want: ir::Shape = to[..2].iter().chain(&w.out).copied().collect();
        if *c.shape(0) != want {
            return Err(Error::shape(format!("the result of pooling is {want}, but its gradient {}", c.shape(0))));
        }
        one(c.dtype(0), to)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(|c| grads([Tensor::apply1(&avg_pool::OP, &[&c.g(0)], without_shape(c.attrs))])),
    cases: || {
        let to = |s: &[i64], attrs: ir::Attrs| attrs.with("shape", s);
        vec![
            Case::new(vec![floats([2, 1, 3], 1)], to(&[2, 1, 5], by(&[3], &[2], &[1], &[3], false, 0))),
            Case::new(
                vec![floats([1, 2, 4, 2], 2)],
                to(&[1, 2, 3, 4], by(&[2, 3], &[1, 2], &[1, 1], &[4, 2], true, 0)),
            ),
            Case::new(vec![f64s([1, 1, 2], &[2.0, 4.0])], to(&[1, 1, 5], by(&[2], &[2], &[0], &[2], true, 0)))
                .expect(vec![f64s([1, 1, 5], &[1.0, 1.0, 2.0, 2.0, 0.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let to = shape(c.attrs)?;
    let w = windows(c.attrs, &to)?;
    expand_wide(args, |g| {
        let rank = w.window.len();
        let share = divided(g[0].clone(), c.attrs, &to, &w)?;
        let mut wide = share.shape()?;
        (0..rank).for_each(|_| wide.push(1));
        let each: ir::Shape = share.shape()?.iter().chain(&w.window).copied().collect();
        let mut y = share.reshape(wide).broadcast_to(each);
        for i in (0..rank).rev() {
            y = y.fold(i as i64 + 2, w.stride[i], (w.out[i] - 1) * w.stride[i] + w.window[i]);
        }
        let (lo, hi) = borders(&to, &w);
        let cut = |pads: Vec<i64>| pads.iter().map(|p| -p).collect::<Vec<_>>();
        let is_whole = lo.iter().chain(&hi).all(|&p| p == 0);
        Ok(vec![if is_whole { y } else { y.pad_raw(&cut(lo), &cut(hi), 0.0) }])
    })
}
