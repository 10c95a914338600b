//! Sparse updates as optimizers write them, for `passes::recognize`.
//!
//! The gradient of an embedding is zero but for the rows that were looked up. A step of gradient descent with it needs to
//! move these rows alone: neither the gradient nor the rest of the table is read or written.

use super::index_add;
use crate::nn::forms::found;
use crate::{DType, Result};
use ir::Slot;
use passes::{Match, Matcher, Pattern};

/// In the order in which they are found.
pub(crate) static FORMS: [Pattern; 1] =
    [Pattern { op: &index_add::OP, from: "sub", claimed: false, find: find_descent }];

/// `w - s * index_add(0, index, src)` for a number `s`, where nothing else needs the gradient: `index_add(w, index,
/// -s * src)`. In 16 bits, a sum in place would be rounded after each term.
fn find_descent(look: &Matcher, y: Slot) -> Result<Option<Match>> {
    let read = || -> Option<([Slot; 4], usize)> {
        let [w, scaled] = look.inputs(y, "sub")?;
        let [a, b] = look.inputs(scaled, "mul")?;
        let (s, g) = if look.node(a, "index_add").is_some() { (b, a) } else { (a, b) };
        let [zeros, index, src] = look.inputs(g, "index_add")?;
        let ty = look.graph.ty(y);
        let is_form = matches!(ty.dtype, DType::F32 | DType::F64)
            && [w, g, scaled].iter().all(|&v| look.graph.ty(v) == ty)
            && look.graph.ty(s).shape.count() == 1
            && look.users(g).len() == 1
            && look.users(scaled).len() == 1
            && look.number(zeros) == Some(0.0);
        is_form.then_some(([w, index, src, s], look.node(g, "index_add")?.attrs.size("axis").ok()?))
    };
    let Some((inputs, axis)) = read() else { return Ok(None) };
    found(look, inputs.to_vec(), vec![y], |t| vec![t[0].index_add(axis as i64, &t[1], &(&t[2] * -t[3].reshape(())))])
}
