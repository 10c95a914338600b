//! Softmax and attention as programs write them out of other ops, for `passes::recognize`.
//!
//! Softmax, norms and activations that are written out need no form: fusion makes the same loop of
//! them as of their rows (losses that pick a class: `loss/forms.rs`). Attention does: its kernels
//! never hold the scores of all queries and keys. Only forms with the same numbers are taken: the greatest score is subtracted before
//! the exponential, what is masked is −∞, and a query that sees nothing stays NaN.

use super::{attention, attention_grad, softmax};
use crate::{DType, Result, Tensor};
use ir::{Slot, Value};
use passes::{Match, Matcher, Pattern, graph_of};

/// In the order in which they are found.
pub(crate) static FORMS: [Pattern; 3] = [
    Pattern { op: &softmax::OP, from: "div", claimed: false, find: find_softmax },
    Pattern { op: &attention::OP, from: "softmax", claimed: true, find: find_attention },
    Pattern { op: &attention_grad::OP, from: "softmax_grad", claimed: true, find: find_gradients },
];

/// What replaces `outs`: tensor code over `inputs`, with the line of the first of them.
pub(crate) fn found(
    look: &Matcher,
    inputs: Vec<Slot>,
    outs: Vec<Slot>,
    f: impl FnOnce(&[Tensor]) -> Vec<Tensor>,
) -> Result<Option<Match>> {
    let site = look.graph.node(outs[0]).site;
    site.scope(|| {
        let args: Vec<Value> = inputs.iter().map(|&s| Value::placeholder("", look.graph.ty(s).clone(), site)).collect();
        let tensors: Vec<Tensor> = args.iter().cloned().map(Tensor::from).collect();
        let values: Result<Vec<Value>> = f(&tensors).iter().map(|t| t.value().cloned()).collect();
        // Shapes that broadcast, which the op does not take, are no form of it.
        let Ok(values) = values else { return Ok(None) };
        Ok(Some(Match { inputs, outs, body: graph_of(&args, &values)? }))
    })
}

/// `e / sum(e)` with `e = exp(x - max(x))`, all along one axis.
fn find_softmax(look: &Matcher, y: Slot) -> Result<Option<Match>> {
    let read = || -> Option<(Slot, usize)> {
        let [e, sum] = look.inputs(y, "div")?;
        let axes = look.node(sum, "sum")?.attrs.sizes("axes").ok()?;
        let [x, max] = look.inputs(look.inputs::<1>(e, "exp")?[0], "sub")?;
        let max = look.inputs::<1>(max, "stop_gradient").map_or(max, |[m]| m);
        let is_form = look.inputs::<1>(sum, "sum")? == [e]
            && look.inputs::<1>(max, "max")? == [x]
            && look.node(max, "max")?.attrs.sizes("axes").ok()? == axes
            && axes.len() == 1
            // What else is needed is computed anyway: nothing would be saved.
            && look.users(e).len() == 2
            && look.users(sum).len() == 1
            && matches!(look.graph.ty(x).dtype, DType::F32 | DType::F64);
        is_form.then_some((x, axes[0]))
    };
    let Some((x, axis)) = read() else { return Ok(None) };
    found(look, vec![x], vec![y], |t| vec![t[0].softmax(axis as i64)])
}

/// What a mask does where it holds.
#[derive(Clone, Copy, PartialEq)]
enum Mask {
    Shows(Slot),
    Hides(Slot),
}

/// `where(mask, x, value)` in any spelling: what it masks, and how; the value is a number that
/// `is_value` knows.
fn masked(look: &Matcher, s: Slot, is_value: impl Fn(f64) -> bool) -> Option<(Slot, Mask)> {
    let is_hidden = |s: Slot| look.number(s).is_some_and(&is_value);
    if let Some([x, mask, value]) = look.inputs(s, "masked_fill") {
        return is_hidden(value).then_some((x, Mask::Hides(mask)));
    }
    let [mask, a, b] = look.inputs(s, "where")?;
    if is_hidden(b) {
        return Some((a, Mask::Shows(mask)));
    }
    is_hidden(a).then_some((b, Mask::Hides(mask)))
}

/// A value times a number: the value and the number.
fn scaled(look: &Matcher, s: Slot) -> Option<(Slot, f64)> {
    if let Some([a, b]) = look.inputs(s, "mul") {
        return look.number(b).map(|c| (a, c)).or_else(|| look.number(a).map(|c| (b, c)));
    }
    let [a, b] = look.inputs(s, "div")?;
    look.number(b).map(|c| (a, 1.0 / c))
}

/// The scores of queries and keys, before the softmax.
struct Scores {
    q: Slot,
    k: Slot,
    scale: f64,
    mask: Option<Mask>,
}

impl Scores {
    /// Mask, scale, product; the first two may be missing. The intermediate values have no other consumer.
    fn read(look: &Matcher, scores: Slot) -> Option<Scores> {
        let (mut s, mut scale, mut mask) = (scores, 1.0, None);
        let is_private = |s: Slot| look.users(s).len() == 1;
        if let Some((x, m)) = masked(look, s, |v| v == f64::NEG_INFINITY) {
            (s, mask) = (x, Some(m));
        }
        if let Some((x, c)) = scaled(look, s) {
            (s, scale) = (x, c);
        }
        let [q, transposed] = look.inputs(s, "matmul")?;
        let k = look.swapped(transposed)?;
        (is_private(scores) && is_private(s)).then_some(Scores { q, k, scale, mask })
    }
}

/// The values of a gradient through an attention.
struct Backward {
    /// The gradient of the result.
    g: Slot,
    /// The gradient of the scores before the softmax.
    of_softmax: Slot,
    /// The weights, transposed.
    transposed: Slot,
    dq: Slot,
    dk: Slot,
    dv: Slot,
}

impl Backward {
    fn read(look: &Matcher, weights: Slot, s: &Scores, v: Slot) -> Option<Backward> {
        let of_softmax = look.user(weights, "softmax_grad")?;
        let [_, of_weights] = look.inputs(of_softmax, "softmax_grad")?;
        let [g, v_turned] = look.inputs(of_weights, "matmul")?;
        let transposed = transposed(look, weights)?;
        let dv = look.user(transposed, "matmul").filter(|&m| look.inputs(m, "matmul") == Some([transposed, g]))?;
        // Back through mask and scale, in this order.
        let mut ds = of_softmax;
        if s.mask.is_some() {
            let next = only_user(look, ds)?;
            let (x, mask) = masked(look, next, |v| v == 0.0)?;
            (x == ds && Some(mask) == s.mask).then(|| ds = next)?;
        }
        if s.scale != 1.0 {
            let next = only_user(look, ds)?;
            let (x, scale) = scaled(look, next)?;
            (x == ds && scale == s.scale).then(|| ds = next)?;
        }
        let ds_transposed = self::transposed(look, ds)?;
        let dq = look.user(ds, "matmul").filter(|&m| look.inputs(m, "matmul") == Some([ds, s.k]))?;
        let dk = only_user(look, ds_transposed).filter(|&m| look.inputs(m, "matmul") == Some([ds_transposed, s.q]))?;
        let is_whole = look.swapped(v_turned)? == v
            && look.users(of_weights).len() == 1
            && look.users(transposed).len() == 1
            && look.users(ds).len() == 2;
        is_whole.then_some(Backward { g, of_softmax, transposed, dq, dk, dv })
    }
}

/// The one node that takes a value.
fn only_user(look: &Matcher, s: Slot) -> Option<Slot> {
    let [user] = look.users(s) else { return None };
    ((*user as usize) < look.graph.nodes.len()).then_some(Slot { node: *user, out: 0 })
}

/// A view among a value's users that swaps its last two dimensions.
fn transposed(look: &Matcher, s: Slot) -> Option<Slot> {
    let nodes = look.users(s).iter().filter(|&&i| (i as usize) < look.graph.nodes.len());
    nodes.map(|&node| Slot { node, out: 0 }).find(|&t| look.swapped(t) == Some(s))
}

/// Softmax weights along the last dimension, times values.
fn find_attention(look: &Matcher, weights: Slot) -> Result<Option<Match>> {
    let read = || -> Option<(Slot, Slot, Scores)> {
        let axis = look.node(weights, "softmax")?.attrs.size("axis").ok()?;
        let rank = look.graph.ty(weights).shape.rank();
        let scores = Scores::read(look, look.inputs::<1>(weights, "softmax")?[0])?;
        let is_first = |m: &Slot| look.inputs::<2>(*m, "matmul").is_some_and(|[a, _]| a == weights);
        let users = look.users(weights).iter().filter(|&&i| (i as usize) < look.graph.nodes.len());
        let y = users.map(|&node| Slot { node, out: 0 }).find(is_first)?;
        let [_, v] = look.inputs(y, "matmul")?;
        // The weights are needed for nothing but what is replaced.
        let is_private = look.users(weights).len() == 1
            || Backward::read(look, weights, &scores, v).is_some_and(|b| {
                let known = [y, b.of_softmax, b.transposed];
                look.users(weights).iter().all(|i| known.iter().any(|k| k.node == *i))
            });
        (axis + 1 == rank && is_private).then_some((y, v, scores))
    };
    let Some((y, v, s)) = read() else { return Ok(None) };
    let mut inputs = vec![s.q, s.k, v];
    inputs.extend(s.mask.map(|m| match m {
        Mask::Shows(m) | Mask::Hides(m) => m,
    }));
    found(look, inputs, vec![y], |t| {
        let mut all = t.to_vec();
        if let Some(m) = all.get_mut(3) {
            let shown = if matches!(s.mask, Some(Mask::Hides(_))) { m.logical_not() } else { m.clone() };
            *m = over_keys(&shown, &t[0], &t[1]).unwrap_or_else(Tensor::from);
        }
        let attrs = attention::attrs(false, s.scale, 0.0);
        let [y, lse] = Tensor::apply_n(&attention::OP, &all.iter().collect::<Vec<_>>(), attrs);
        if s.mask.is_none() {
            return vec![y];
        }
        let sees = lse.unsqueeze(-1).gt(f64::NEG_INFINITY);
        vec![Tensor::where_(&sees, &y, f64::NAN)]
    })
}

/// A mask with a row for each query and a column for each key.
fn over_keys(mask: &Tensor, q: &Tensor, k: &Tensor) -> Result<Tensor> {
    let rows = |t: &Tensor| t.shape().map(|s| s[s.rank() - 2]);
    let (mut shape, last) = (mask.shape()?, [rows(q)?, rows(k)?]);
    while shape.rank() < 2 {
        shape.insert(0, 1);
    }
    let at = shape.rank() - 2;
    shape.dims_mut()[at..].copy_from_slice(&last);
    Ok(mask.broadcast_to(shape))
}

/// The gradients of an attention that was found before.
fn find_gradients(look: &Matcher, of_softmax: Slot) -> Result<Option<Match>> {
    let read = || -> Option<(Vec<Slot>, Backward, f64)> {
        let [weights, of_weights] = look.inputs(of_softmax, "softmax_grad")?;
        let s = Scores::read(look, look.inputs::<1>(weights, "softmax")?[0])?;
        let v = look.swapped(look.inputs::<2>(of_weights, "matmul")?[1])?;
        let b = Backward::read(look, weights, &s, v)?;
        let is_it = |n: &ir::FlatNode| {
            n.op == &attention::OP
                && n.inputs[..3] == [s.q, s.k, v]
                && n.inputs.len() == 3 + s.mask.is_some() as usize
                && n.attrs.float("scale").is_ok_and(|c| c == s.scale)
        };
        let at = look.graph.nodes.iter().position(is_it)?;
        let forward = &look.graph.nodes[at];
        let mut inputs = vec![s.q, s.k, v, Slot::new(at, 0), Slot::new(at, 1), b.g];
        inputs.extend(forward.inputs.get(3));
        Some((inputs, b, s.scale))
    };
    let Some((inputs, b, scale)) = read() else { return Ok(None) };
    found(look, inputs, vec![b.dq, b.dk, b.dv], |t| {
        let attrs = attention::attrs(false, scale, 0.0);
        Tensor::apply(&attention_grad::OP, &t.iter().collect::<Vec<_>>(), attrs).into_vec()
    })
}
