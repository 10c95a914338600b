//! Attention and its gradient as the graphs of matrix products, exponentials and sums that cuDNN
//! knows as flash attention.

use super::{At, Kind, Network, Node, Planned, Point, laid, row_major};
use crate::emit::kernels::Operand;
use ir::{Attrs, DType, Type};

/// Longest rows of queries, keys and values.
const WIDTH_MAX: usize = 128;
/// Fewer queries or keys are computed as fast in other ways.
const LENGTH_MIN: usize = 64;
/// Hides a key: below every score.
const HIDDEN: f32 = -1e30;

/// Sizes of an attention.
#[derive(Clone, Copy)]
struct Sizes {
    batch: i64,
    heads: i64,
    /// Heads of keys and values.
    kept: i64,
    queries: i64,
    keys: i64,
    width: i64,
    /// Width of a value.
    depth: i64,
}

/// True if attention (or its gradient) of these types runs as one graph.
pub fn claims(types: &[Type], is_grad: bool) -> bool {
    let [q, k, v, ..] = types else { return false };
    let has_mask = types.len() != if is_grad { 6 } else { 3 };
    let is_half = matches!(q.dtype, DType::BF16 | DType::F16);
    let rank = q.shape.rank();
    if has_mask || !is_half || !(2..=4).contains(&rank) || [k, v].iter().any(|t| t.shape.rank() != rank) {
        return false;
    }
    // Leading dimensions are the same but for heads, which keys and values may have fewer of.
    let (q, k, v) = (&q.shape, &k.shape, &v.shape);
    let fits = rank < 4 || (q[0] == k[0] && k[0] == v[0]);
    let heads = rank < 3 || (k[rank - 3] == v[rank - 3] && q[rank - 3].is_multiple_of(k[rank - 3]));
    let width = |n: usize| n.is_multiple_of(8) && n <= WIDTH_MAX;
    let lengths = q[rank - 2] >= LENGTH_MIN && k[rank - 2] >= LENGTH_MIN;
    fits && heads && lengths && width(q[rank - 1]) && width(v[rank - 1]) && q.count() * k.count() > 0
}

/// Four dimensions, strides of those that were missing being those of a whole.
fn four(o: &Operand) -> (Vec<i64>, Vec<i64>) {
    let (mut dims, mut strides) = laid(&o.layout);
    while dims.len() < 4 {
        let whole = dims.iter().zip(&strides).map(|(d, s)| d * s).max().unwrap_or(1);
        dims.insert(0, 1);
        strides.insert(0, whole);
    }
    (dims, strides)
}

impl Sizes {
    fn new(args: &[Operand]) -> Sizes {
        let (q, k, v) = (four(&args[0]).0, four(&args[1]).0, four(&args[2]).0);
        let (batch, heads, queries, width) = (q[0], q[1], q[2], q[3]);
        Sizes { batch, heads, kept: k[1], queries, keys: k[2], width, depth: v[3] }
    }
    fn scores(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, self.keys]
    }
    fn rows(&self) -> [i64; 4] {
        [self.batch, self.heads, self.queries, 1]
    }
}

impl Network {
    /// An operand or result, with its last two dimensions swapped if asked for.
    fn given(&mut self, o: &Operand, number: usize, is_swapped: bool) -> Option<usize> {
        let (mut dims, mut strides) = four(o);
        if is_swapped {
            dims.swap(2, 3);
            strides.swap(2, 3);
        }
        Some(self.tensor(&dims, &strides, Kind::of(o.ty.dtype)?, At::Given(number)))
    }
    /// Logarithms of sums, one for each query.
    fn logarithms(&mut self, s: &Sizes, number: usize) -> usize {
        self.tensor(&s.rows(), &row_major(&s.rows()), Kind::F32, At::Given(number))
    }
    /// Scores whose keys lie behind their query, hidden.
    fn causal(&mut self, scores: usize, s: &Sizes) -> usize {
        let index = |n: &mut Network, axis: i64| {
            let y = n.inside(&s.scores(), Kind::I32);
            n.nodes.push(Node::Point(Point::Index(axis), vec![scores], y, Kind::I32));
            y
        };
        let (row, column) = (index(self, 2), index(self, 3));
        let sees = self.inside(&s.scores(), Kind::Bool);
        self.nodes.push(Node::Point(Point::AtLeast, vec![row, column], sees, Kind::Bool));
        let hidden = self.number(HIDDEN);
        self.point(Point::Select, &[scores, hidden, sees])
    }
    /// scale · q kᵀ.
    fn scaled(&mut self, q: usize, kt: usize, scale: f32, s: &Sizes) -> (usize, usize) {
        let scores = self.inside(&s.scores(), Kind::F32);
        self.matmul(q, kt, scores);
        let scale = self.number(scale);
        (self.point(Point::Mul, &[scores, scale]), scale)
    }
}

/// y and the logarithms of the sums of exponentials.
pub fn attention(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Planned {
    let s = Sizes::new(args);
    let mut n = Network::default();
    let (q, kt, v) = (n.given(&args[0], 0, false)?, n.given(&args[1], 1, true)?, n.given(&args[2], 2, false)?);
    let (y, lse) = (n.given(&outs[0], 3, false)?, n.logarithms(&s, 4));
    let (mut scores, _) = n.scaled(q, kt, attrs.float("scale").ok()? as f32, &s);
    if attrs.bool("causal").ok()? {
        scores = n.causal(scores, &s);
    }
    let greatest = n.inside(&s.rows(), Kind::F32);
    n.nodes.push(Node::Max(scores, greatest));
    let below = n.point(Point::Sub, &[scores, greatest]);
    let e = n.point(Point::Exp, &[below]);
    let sum = n.inside(&s.rows(), Kind::F32);
    n.nodes.push(Node::Sum(e, sum));
    let log = n.point(Point::Log, &[sum]);
    n.nodes.push(Node::Point(Point::Add, vec![greatest, log], lse, Kind::F32));
    let weights = n.inside(&s.scores(), Kind::of(args[0].ty.dtype)?);
    n.nodes.push(Node::Point(Point::Div, vec![e, sum], weights, Kind::F32));
    n.matmul(weights, v, y);
    Some(n)
}

/// Gradients of q, k and v, from these, y, the logarithms and the gradient of y.
pub fn attention_grad(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Planned {
    let s = Sizes::new(args);
    let half = Kind::of(args[0].ty.dtype)?;
    let mut n = Network::default();
    let (q, kt, vt) = (n.given(&args[0], 0, false)?, n.given(&args[1], 1, true)?, n.given(&args[2], 2, true)?);
    let (y, lse, g) = (n.given(&args[3], 3, false)?, n.logarithms(&s, 4), n.given(&args[5], 5, false)?);
    let [dq, dk, dv] = [n.given(&outs[0], 6, false)?, n.given(&outs[1], 7, false)?, n.given(&outs[2], 8, false)?];
    // What each query's gradient has along its result.
    let product = n.point(Point::Mul, &[g, y]);
    let along = n.inside(&s.rows(), Kind::F32);
    n.nodes.push(Node::Sum(product, along));
    let (one, total) = (n.number(1.0), n.kept(&s.rows()));
    n.nodes.push(Node::Point(Point::Mul, vec![along, one], total, Kind::F32));
    // The weights again.
    let (scores, scale) = n.scaled(q, kt, attrs.float("scale").ok()? as f32, &s);
    let mut below = n.point(Point::Sub, &[scores, lse]);
    if attrs.bool("causal").ok()? {
        below = n.causal(below, &s);
    }
    let weights = n.point(Point::Exp, &[below]);
    let turned = [s.batch, s.heads, s.keys, s.queries];
    let turn = |n: &mut Network, x: usize| {
        let strides = [s.heads * s.queries * s.keys, s.queries * s.keys, 1, s.keys];
        let y = n.tensor(&turned, &strides, half, At::Inside);
        n.nodes.push(Node::Reshape(x, y));
        y
    };
    let weights_t = turn(&mut n, weights);
    summed(&mut n, weights_t, g, dv, &s, s.depth);
    // From the weights' gradient to the scores'.
    let of_weights = n.inside(&s.scores(), Kind::F32);
    n.matmul(g, vt, of_weights);
    let off = n.point(Point::Sub, &[of_weights, total]);
    let of_scores = n.point(Point::Mul, &[off, weights]);
    let of_scores = n.point(Point::Mul, &[of_scores, scale]);
    let of_scores_t = turn(&mut n, of_scores);
    summed(&mut n, of_scores_t, q, dk, &s, s.width);
    let (dims, strides) = four(&args[1]);
    let k = n.tensor(&dims, &strides, half, At::Inside);
    n.nodes.push(Node::Reshape(kt, k));
    let sums = n.kept(&[s.batch, s.heads, s.queries, s.width]);
    n.matmul(of_scores, k, sums);
    n.nodes.push(Node::Point(Point::Same, vec![sums], dq, Kind::F32));
    Some(n)
}

/// A product for keys or values; heads that share them are added up.
fn summed(n: &mut Network, a: usize, b: usize, to: usize, s: &Sizes, width: i64) {
    if s.heads == s.kept {
        return n.matmul(a, b, to);
    }
    let each = n.inside(&[s.batch, s.heads, s.keys, width], n.tensors[to].kind);
    n.matmul(a, b, each);
    n.nodes.push(Node::Sum(each, to));
}
