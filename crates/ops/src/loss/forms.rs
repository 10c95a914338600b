//! The cross entropy with class numbers as programs write it out of other ops, for `passes::recognize`.
//!
//! Logarithms of shares, negations and means need no form: fusion makes the same loop of them as of their rows.
//! Picking the class does: `gather` and indexing want all of what they pick from in memory, and their gradients put
//! numbers into a tensor of zeros. Only forms with the same numbers are taken: the greatest logit is subtracted
//! before the exponential, and a label out of range stays an error.

use super::{class_cross_entropy, nll_loss};
use crate::nn::forms::found;
use crate::{DType, Result, Tensor};
use ir::{Attrs, Shape, Slot};
use passes::{Match, Matcher, Pattern};

/// In the order in which they are found.
pub(crate) static FORMS: [Pattern; 5] = [
    Pattern { op: &class_cross_entropy::OP, from: "gather", claimed: false, find: find_loss },
    Pattern { op: &class_cross_entropy::OP, from: "take_along_axis", claimed: false, find: find_loss },
    Pattern { op: &class_cross_entropy::OP, from: "take", claimed: false, find: find_loss },
    Pattern { op: &class_cross_entropy::OP, from: "scatter_add", claimed: false, find: find_gradient },
    Pattern { op: &class_cross_entropy::OP, from: "index_add", claimed: false, find: find_gradient },
];

/// One place along an axis for everything beside it.
struct Pick {
    /// The indices, one for each element beside the axis, in order.
    classes: Slot,
    axis: usize,
    /// Whether negative indices count from the end.
    wraps: bool,
    /// The op that is the error's if a place is none.
    op: &'static str,
}

impl Pick {
    /// An index of `gather` or a scatter into a tensor of this shape.
    fn along(look: &Matcher, pick: Slot, index: Slot, shape: &Shape) -> Option<Pick> {
        let n = look.graph.node(pick);
        let axis = n.attrs.size("axis").ok()?;
        let is_one = look.graph.ty(index).shape == shape.reduce(&[axis], true);
        let wraps = n.op.name == "take_along_axis";
        is_one.then_some(Pick { classes: index, axis, wraps, op: n.op.name })
    }

    /// An index of `take` or `index_add` into a matrix laid out flat: row after row, a place in each. Also the
    /// matrix's shape.
    fn in_rows(look: &Matcher, index: Slot) -> Option<(Pick, Shape)> {
        let n = look.node(plain(look, index), "ravel_index")?;
        let (sizes, [rows, classes]) = (n.attrs.sizes("sizes").ok()?, n.inputs[..].try_into().ok()?);
        let [height, _] = sizes[..] else { return None };
        let is_each = counts_up(look, rows, height) && look.graph.ty(classes).shape.dims() == [height];
        is_each.then_some((Pick { classes, axis: 1, wraps: true, op: "index" }, Shape::new(&sizes)))
    }

    /// The class labels for logits of this shape, without the axis; one that is out of range is an error.
    fn numbers(&self, t: &Tensor, shape: &Shape) -> Tensor {
        let size = shape[self.axis];
        let t = if self.wraps { t.wrapped(size).unwrap_or_else(Tensor::from) } else { t.clone() };
        // Nothing is ignored: 0 is a class.
        t.reshape(shape.reduce(&[self.axis], false)).check_class(size, 0, self.op)
    }
}

/// Ops that keep all elements in order.
const RESHAPES: [&str; 5] = ["reshape", "squeeze", "unsqueeze", "flatten", "unflatten"];

/// What is reshaped, or cast from integers to integers.
fn plain(look: &Matcher, s: Slot) -> Slot {
    let n = look.graph.node(s);
    let is_int = |s: Slot| look.graph.ty(s).dtype.is_int();
    if RESHAPES.contains(&n.op.name) || n.op.name == "cast" && is_int(s) && is_int(n.inputs[0]) {
        return plain(look, n.inputs[0]);
    }
    s
}

/// Whether a value is 0, 1, 2… up to `size`.
fn counts_up(look: &Matcher, s: Slot, size: usize) -> bool {
    let s = plain(look, s);
    if look.graph.ty(s).shape.count() != size {
        return false;
    }
    match look.graph.constant(s) {
        Some(c) => c.to_i64().into_iter().eq(0..size as i64),
        None => look.node(s, "iota").is_some(),
    }
}

/// `log(sum(exp(z)))`: z, and the axis.
fn log_sum(look: &Matcher, s: Slot) -> Option<(Slot, usize)> {
    let [sum] = look.inputs(plain(look, s), "log")?;
    let sum = plain(look, sum);
    let [e] = look.inputs(sum, "sum")?;
    let [axis] = look.node(sum, "sum")?.attrs.sizes("axes").ok()?[..] else { return None };
    let [z] = look.inputs(e, "exp")?;
    Some((z, axis))
}

/// What a value is the largest of, along an axis.
fn greatest(look: &Matcher, s: Slot, axis: usize) -> Option<Slot> {
    let s = plain(look, s);
    let s = look.inputs::<1>(s, "stop_gradient").map_or(s, |[m]| plain(look, m));
    let is_it = look.node(s, "max")?.attrs.sizes("axes").ok()?[..] == [axis];
    look.inputs::<1>(s, "max").filter(|_| is_it).map(|[x]| x)
}

/// The logits of which a value is the logarithm of the softmax, and the axis.
fn logits(look: &Matcher, s: Slot) -> Option<(Slot, usize)> {
    let read = || -> Option<(Slot, usize, Slot)> {
        if let Some(n) = look.node(s, "log_softmax") {
            return Some((n.inputs[0], n.attrs.size("axis").ok()?, s));
        }
        let [a, b] = look.inputs(s, "sub")?;
        if let Some(n) = look.node(plain(look, b), "logsumexp") {
            let [axis] = n.attrs.sizes("axes").ok()?[..] else { return None };
            return (n.inputs[0] == a).then_some((a, axis, b));
        }
        if let Some((z, axis)) = log_sum(look, b) {
            let [x, m] = look.inputs(z, "sub")?;
            return (z == a && greatest(look, m, axis)? == x).then_some((x, axis, b));
        }
        // The greatest logit is added again to the logarithm of the sum.
        let [p, q] = look.inputs(plain(look, b), "add")?;
        let (sum, m) = if log_sum(look, p).is_some() { (p, q) } else { (q, p) };
        let (z, axis) = log_sum(look, sum)?;
        let [x, n] = look.inputs(z, "sub")?;
        let is_form = x == a && greatest(look, m, axis)? == x && greatest(look, n, axis)? == x;
        is_form.then_some((x, axis, b))
    };
    let (x, axis, beside) = read()?;
    let ty = look.graph.ty(x);
    let is_beside = beside == s || look.graph.ty(beside).shape == ty.shape.reduce(&[axis], true);
    (is_beside && matches!(ty.dtype, DType::F32 | DType::F64)).then_some((x, axis))
}

/// The logarithm of a softmax at one class.
fn find_loss(look: &Matcher, y: Slot) -> Result<Option<Match>> {
    let read = || -> Option<(Slot, Pick)> {
        let n = look.graph.node(y);
        let [from, index] = n.inputs[..].try_into().ok()?;
        if n.op.name != "take" {
            let (x, axis) = logits(look, from)?;
            let pick = Pick::along(look, y, index, &look.graph.ty(x).shape)?;
            return (pick.axis == axis).then_some((x, pick));
        }
        let (pick, shape) = Pick::in_rows(look, index)?;
        let (x, axis) = logits(look, plain(look, from))?;
        (axis == pick.axis && look.graph.ty(x).shape == shape).then_some((x, pick))
    };
    let Some((x, pick)) = read() else { return Ok(None) };
    let (shape, out) = (look.graph.ty(x).shape.clone(), look.graph.ty(y).shape.clone());
    found(look, vec![x, pick.classes], vec![y], |t| {
        let attrs = Attrs::new().with("axis", pick.axis);
        let loss = Tensor::apply1(&class_cross_entropy::OP, &[&t[0], &pick.numbers(&t[1], &shape)], attrs);
        vec![-loss.reshape(out)]
    })
}

/// Numbers put at one place each along an axis of zeros, as the gradient of a pick is: compared with every place,
/// they need no memory.
fn find_gradient(look: &Matcher, y: Slot) -> Result<Option<Match>> {
    let read = || -> Option<(Slot, Pick, Shape)> {
        let n = look.graph.node(y);
        let [zeros, index, g] = n.inputs[..].try_into().ok()?;
        // Minus zero would show.
        let is_zero = look.number(zeros).is_some_and(|z| z == 0.0 && z.is_sign_positive());
        let (pick, shape) = if n.op.name == "index_add" {
            Pick::in_rows(look, index)?
        } else {
            let shape = look.graph.ty(y).shape.clone();
            (Pick::along(look, y, index, &shape)?, shape)
        };
        let is_form = is_zero && look.graph.ty(y).dtype.is_float() && look.graph.ty(y).shape.count() == shape.count();
        is_form.then_some((g, pick, shape))
    };
    let Some((g, pick, shape)) = read() else { return Ok(None) };
    let out = look.graph.ty(y).shape.clone();
    found(look, vec![pick.classes, g], vec![y], |t| {
        let thin = shape.reduce(&[pick.axis], true);
        let numbers = pick.numbers(&t[0], &shape).reshape(&thin);
        let places = nll_loss::along(&Tensor::iota(shape[pick.axis], DType::I64), pick.axis, shape.rank());
        let put = Tensor::where_(&numbers.eq(places), &t[1].reshape(&thin), 0.0);
        vec![put.reshape(out)]
    })
}
