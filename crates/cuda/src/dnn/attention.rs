//! Attention and its gradient as the graphs of matrix products, exponentials and sums that cuDNN
//! knows as flash attention. A mask becomes numbers to add, in rows that are aligned; lengths and the
//! key of a dropout are brought into the library's form: [`Room`] says where, in the scratch space, and
//! [`around`] has the kernels that do it. They also mend what the library has its own way with: a query
//! that sees nothing.

use super::{ALIGN, At, Kind, Network, Node, Planned, Point, accepts, joined, laid, row_major, transposed};
use crate::claims::Claim;
use crate::emit::Kernel;
use crate::emit::kernels::attention::{attention as decode, attention_transposed, flash_mma};
use crate::emit::kernels::{Operand, attention_inputs};
use crate::rewrite::rows;
use ir::{Attrs, DType, FlatNode, Shape, Type};
use passes::View;

/// Attention and its gradient, whose results may have heads next to each other or be parts of one result.
pub static CLAIMS: &[Claim] = &[
    Claim {
        claims: |types| claims(types, false),
        network: attention,
        around: |args, outs| around(args, Some([&outs[0], &outs[1]])),
        ..FORWARD
    },
    Claim {
        op: rows::ATTENTION.name,
        kernels: attention_transposed,
        network: |attrs, args, outs| attention(attrs, args, &transposed(outs, 1)),
        around: |args, outs| around(args, Some([&transposed(outs, 1)[0], &outs[1]])),
        ..FORWARD
    },
    Claim { claims: |types| claims(types, true), network: attention_grad, ..BACKWARD },
    Claim {
        op: rows::ATTENTION_GRAD.name,
        kernels: |c| flash_mma::gradients(c, true),
        network: |attrs, args, outs| attention_grad(attrs, args, &transposed(outs, 3)),
        ..BACKWARD
    },
    Claim {
        op: rows::ATTENTION_GRAD_JOINED.name,
        kernels: |_| None,
        scratch: |_, _| 0,
        network: |attrs, args, outs| attention_grad(attrs, args, &joined(attrs, outs)?),
        results: joined,
        ..BACKWARD
    },
];

/// Log-sum-exps lie one after the other, and so do the operands after the values.
const FORWARD: Claim = Claim {
    accepts: |n, i, l| i < 3 && accepts(l, n.outs[0].dtype.size()),
    // One query needs no library.
    is_kernel_first: true,
    flops,
    ..Claim::new("attention", decode)
};
const BACKWARD: Claim = Claim {
    accepts: |n, i, l| i < 6 && i != 4 && accepts(l, n.outs[0].dtype.size()),
    around: |args, _| around(args, None),
    // Scores, and the gradients of weights, values, keys and queries: five GEMM for two.
    flops: |n, args| flops(n, args) * 5 / 2,
    scratch: flash_mma::scratch,
    is_kernel_first: true,
    ..Claim::new("attention_grad", |c| flash_mma::gradients(c, false))
};

/// Two GEMM over every query and key that meet.
fn flops(n: &FlatNode, args: &[View]) -> usize {
    let [q, k, v] = [0, 1, 2].map(|i| &args[i].layout.shape);
    let [width, keys, outs] = [q.last(), k.iter().nth_back(1), v.last()].map(|d| d.copied().unwrap_or(1));
    let all = 2 * q.count() / width.max(1) * keys * (width + outs);
    if n.attrs.bool("causal").unwrap_or(false) { all / 2 } else { all }
}

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

/// What comes behind the operands that are always there, by their numbers.
#[derive(Clone, Copy, Default)]
struct Beside {
    mask: Option<usize>,
    lengths: Option<usize>,
    key: Option<usize>,
}

impl Beside {
    /// The operands from `first` on; types tell them apart.
    fn new(types: &[&Type], first: usize) -> Option<Beside> {
        let mut at = first;
        let mut next = |is: &dyn Fn(DType) -> bool| {
            let found = types.get(at).filter(|t| is(t.dtype)).map(|_| at);
            at += usize::from(found.is_some());
            found
        };
        let mask = next(&|d| d == DType::Bool || d == types[0].dtype);
        let (lengths, key) = (next(&|d| d == DType::I32), next(&|d| d == DType::I64));
        (at == types.len()).then_some(Beside { mask, lengths, key })
    }
}

/// How many operands are always there.
fn always(is_grad: bool) -> usize {
    if is_grad { 6 } else { 3 }
}

/// True if attention (or its gradient) of these types may run as one graph.
fn claims(types: &[Type], is_grad: bool) -> bool {
    let [q, k, v, ..] = types else { return false };
    let is_half = matches!(q.dtype, DType::BF16 | DType::F16);
    let rank = q.shape.rank();
    if !is_half || !(2..=4).contains(&rank) || [k, v].iter().any(|t| t.shape.rank() != rank) {
        return false;
    }
    let Some(beside) = Beside::new(&types.iter().collect::<Vec<_>>(), always(is_grad)) else { return false };
    // Leading dimensions are the same but for heads, which keys and values may have fewer of.
    let (q, k, v) = (&q.shape, &k.shape, &v.shape);
    let scores: Shape = q[..rank - 1].iter().copied().chain([k[rank - 2]]).collect();
    let has_fit = beside.mask.is_none_or(|i| types[i].shape.broadcasts_to(&scores));
    let fits = rank < 4 || (q[0] == k[0] && k[0] == v[0]);
    let heads = rank < 3 || (k[rank - 3] == v[rank - 3] && q[rank - 3].is_multiple_of(k[rank - 3]));
    let width = |n: usize| n.is_multiple_of(8) && n <= WIDTH_MAX;
    let lengths = q[rank - 2] >= LENGTH_MIN && k[rank - 2] >= LENGTH_MIN;
    fits && has_fit && heads && lengths && width(q[rank - 1]) && width(v[rank - 1]) && q.count() * k.count() > 0
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

/// Below every score: what hides a key.
fn floor(dtype: DType) -> f64 {
    if dtype == DType::F16 { -6e4 } else { -1e30 }
}

/// Where things lie in the scratch space.
struct Room {
    beside: Beside,
    /// Numbers to add, in aligned rows, and their sizes.
    bias: Option<(usize, [i64; 4])>,
    /// Numbers of queries, and of keys.
    lengths: Option<[usize; 2]>,
    /// The seed and the offset of the library's generator.
    seed: Option<[usize; 2]>,
    /// Logarithms of sums, for the gradient.
    logs: Option<usize>,
    bytes: usize,
}

impl Room {
    fn new(args: &[Operand], is_grad: bool) -> Option<Room> {
        let s = Sizes::new(args);
        let beside = Beside::new(&args.iter().map(|o| &o.ty).collect::<Vec<_>>(), always(is_grad))?;
        let mut bytes = 0;
        let mut take = |n: i64| {
            let at = bytes;
            bytes += (n as usize).next_multiple_of(256);
            at
        };
        let bias = beside.mask.map(|i| {
            let mut dims = four(&args[i]).0;
            dims[3] = (s.keys as usize).next_multiple_of(ALIGN / 2) as i64;
            (take(2 * dims.iter().product::<i64>()), [dims[0], dims[1], dims[2], dims[3]])
        });
        let lengths = beside.lengths.map(|_| [take(4 * s.batch), take(4 * s.batch)]);
        let seed = beside.key.map(|_| [take(8), take(8)]);
        let has_unseen = bias.is_some() || lengths.is_some();
        let logs = (is_grad && has_unseen).then(|| take(4 * s.batch * s.heads * s.queries));
        Some(Room { beside, bias, lengths, seed, logs, bytes })
    }
}

/// The kernels before and after the graph. `results`: the result and the log-sum-exps of the forward pass.
fn around(args: &[Operand], results: Option<[&Operand; 2]>) -> Option<[Vec<Kernel>; 2]> {
    let (s, room) = (Sizes::new(args), Room::new(args, results.is_none())?);
    let hidden = floor(args[0].ty.dtype);
    let mut before = Vec::new();
    if let (Some(i), Some((at, dims))) = (room.beside.mask, room.bias) {
        before.extend(attention_inputs::bias(&args[i], args[0].ty.dtype, dims, s.keys, hidden, at)?);
    }
    let lengths = room.beside.lengths.zip(room.lengths).map(|(i, at)| (&args[i], at));
    let key = room.beside.key.zip(room.seed).map(|(i, at)| (&args[i], at));
    if lengths.is_some() || key.is_some() {
        before.extend(attention_inputs::numbers(lengths, [s.queries, s.keys], key)?);
    }
    if let Some(at) = room.logs {
        before.extend(attention_inputs::logs(&args[4], hidden, at)?);
    }
    let mut after = Vec::new();
    if let Some([y, lse]) = results.filter(|_| room.bias.is_some() || room.lengths.is_some()) {
        let by = four(y).1;
        after.extend(attention_inputs::unseen(y, &by, s.scores(), lse, lengths.map(|(l, _)| l), hidden)?);
    }
    Some([before, after])
}

/// Tensors of what comes beside.
#[derive(Clone, Copy, Default)]
struct Seen {
    bias: Option<usize>,
    /// Queries and keys of each sequence.
    lengths: Option<[usize; 2]>,
    /// Which weights are kept, and the part that is.
    keep: Option<(usize, f32)>,
}

impl Network {
    /// An operand or result, with its last two dimensions swapped if asked for.
    fn given(&mut self, o: &Operand, number: usize, is_swapped: bool) -> Option<usize> {
        let (mut dims, mut strides) = four(o);
        if is_swapped {
            dims.swap(2, 3);
            strides.swap(2, 3);
        }
        Some(self.tensor(&dims, &strides, Kind::of(o.ty.dtype)?, At::External(number)))
    }
    fn beside(&mut self, room: &Room, s: &Sizes, half: Kind, dropout: f64) -> Seen {
        self.scratch = room.bytes;
        let bias = room.bias.map(|(at, [b, h, rows, row])| {
            // A row that all queries share is read again for each: the library's own way to broadcast it has
            // wrong gradients.
            let strides = [h * rows * row, rows * row, if rows == 1 { 0 } else { row }, 1];
            self.tensor(&[b, h, s.queries, s.keys], &strides, half, At::Scratch(at))
        });
        let lengths =
            room.lengths.map(|l| l.map(|at| self.tensor(&[s.batch, 1, 1, 1], &[1; 4], Kind::I32, At::Scratch(at))));
        let keep = room.seed.map(|l| {
            let [seed, offset] = l.map(|at| self.tensor(&[1; 4], &[1; 4], Kind::I64, At::Scratch(at)));
            let keep = self.inside(&s.scores(), Kind::F32);
            self.nodes.push(Node::Random { seed, offset, y: keep, probability: 1.0 - dropout });
            (keep, (1.0 - dropout) as f32)
        });
        Seen { bias, lengths, keep }
    }
    /// Logarithms of sums, one for each query.
    fn logarithms(&mut self, s: &Sizes, at: At) -> usize {
        self.tensor(&s.rows(), &row_major(&s.rows()), Kind::F32, at)
    }
    fn index(&mut self, scores: usize, s: &Sizes, axis: i64) -> usize {
        let y = self.inside(&s.scores(), Kind::I32);
        self.nodes.push(Node::Point(Point::Index(axis), vec![scores], y, Kind::I32));
        y
    }
    fn flag(&mut self, p: Point, a: usize, b: usize, s: &Sizes) -> usize {
        let y = self.inside(&s.scores(), Kind::Bool);
        self.nodes.push(Node::Point(p, vec![a, b], y, Kind::Bool));
        y
    }
    /// Scores that are behind the ends of their sequences, or whose keys lie behind their query, hidden.
    fn hidden(&mut self, mut scores: usize, s: &Sizes, b: &Seen, is_causal: bool) -> usize {
        if let Some([queries, keys]) = b.lengths {
            let (row, column) = (self.index(scores, s, 2), self.index(scores, s, 3));
            let (a, b) = (self.flag(Point::Less, row, queries, s), self.flag(Point::Less, column, keys, s));
            let sees = self.flag(Point::And, a, b, s);
            let hidden = self.number(HIDDEN);
            scores = self.point(Point::Select, &[scores, hidden, sees]);
        }
        if is_causal {
            let (row, column) = (self.index(scores, s, 2), self.index(scores, s, 3));
            let sees = self.flag(Point::AtLeast, row, column, s);
            let hidden = self.number(HIDDEN);
            scores = self.point(Point::Select, &[scores, hidden, sees]);
        }
        scores
    }
    /// scale · q kᵀ + bias, and the scale.
    fn scaled(&mut self, q: usize, kt: usize, scale: f32, s: &Sizes, b: &Seen) -> (usize, usize) {
        let scores = self.inside(&s.scores(), Kind::F32);
        let ends = b.lengths.map_or([None; 3], |[q, k]| [Some(q), Some(k), None]);
        self.nodes.push(Node::Matmul { of: [q, kt, scores], ends, is_filled: b.lengths.is_some() });
        let scale = self.number(scale);
        let scores = self.point(Point::Mul, &[scores, scale]);
        let scores = b.bias.map_or(scores, |bias| self.point(Point::Add, &[scores, bias]));
        (scores, scale)
    }
    /// A product whose rows, columns and sums end where the lengths with these numbers do.
    fn matmul(&mut self, a: usize, b: usize, c: usize, seen: &Seen, ends: [Option<usize>; 3]) {
        let end = |which: Option<usize>| which.and_then(|w| seen.lengths.map(|l| l[w]));
        self.nodes.push(Node::Matmul { of: [a, b, c], ends: ends.map(end), is_filled: false });
    }
}

/// Of the two lengths, which.
const QUERIES: Option<usize> = Some(0);
const KEYS: Option<usize> = Some(1);

/// y and the logarithms of the sums of exponentials.
fn attention(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Planned {
    let (s, half) = (Sizes::new(args), Kind::of(args[0].ty.dtype)?);
    let mut n = Network::default();
    let b = n.beside(&Room::new(args, false)?, &s, half, attrs.float("dropout").ok()?);
    let (q, kt, v) = (n.given(&args[0], 0, false)?, n.given(&args[1], 1, true)?, n.given(&args[2], 2, false)?);
    let (y, lse) = (n.given(&outs[0], args.len(), false)?, n.logarithms(&s, At::External(args.len() + 1)));
    let (scores, _) = n.scaled(q, kt, attrs.float("scale").ok()? as f32, &s, &b);
    let scores = n.hidden(scores, &s, &b, attrs.bool("causal").ok()?);
    let greatest = n.inside(&s.rows(), Kind::F32);
    n.nodes.push(Node::Max(scores, greatest));
    let below = n.point(Point::Sub, &[scores, greatest]);
    let e = n.point(Point::Exp, &[below]);
    let sum = n.inside(&s.rows(), Kind::F32);
    n.nodes.push(Node::Sum(e, sum));
    let log = n.point(Point::Log, &[sum]);
    n.nodes.push(Node::Point(Point::Add, vec![greatest, log], lse, Kind::F32));
    // The last step before the product gives what it multiplies.
    let weights = n.inside(&s.scores(), half);
    match b.keep {
        None => n.nodes.push(Node::Point(Point::Div, vec![e, sum], weights, Kind::F32)),
        Some((keep, part)) => {
            let all = n.point(Point::Div, &[e, sum]);
            let kept = n.point(Point::Mul, &[all, keep]);
            let factor = n.number(1.0 / part);
            n.nodes.push(Node::Point(Point::Mul, vec![kept, factor], weights, Kind::F32));
        }
    }
    n.matmul(weights, v, y, &b, [QUERIES, None, KEYS]);
    Some(n)
}

/// Gradients of q, k and v, from these, y, the logarithms and the gradient of y.
fn attention_grad(attrs: &Attrs, args: &[Operand], outs: &[Operand]) -> Planned {
    let (s, half) = (Sizes::new(args), Kind::of(args[0].ty.dtype)?);
    let room = Room::new(args, true)?;
    let mut n = Network::default();
    let b = n.beside(&room, &s, half, attrs.float("dropout").ok()?);
    let (q, kt, vt) = (n.given(&args[0], 0, false)?, n.given(&args[1], 1, true)?, n.given(&args[2], 2, true)?);
    let lse = n.logarithms(&s, room.logs.map_or(At::External(4), At::Scratch));
    let (y, g) = (n.given(&args[3], 3, false)?, n.given(&args[5], 5, false)?);
    let mut to = |k: usize| n.given(&outs[k], args.len() + k, false);
    let [dq, dk, dv] = [to(0)?, to(1)?, to(2)?];
    // What each query's gradient has along its result.
    let product = n.point(Point::Mul, &[g, y]);
    let along = n.inside(&s.rows(), Kind::F32);
    n.nodes.push(Node::Sum(product, along));
    let (part, total) = (n.number(b.keep.map_or(1.0, |(_, part)| part)), n.kept(&s.rows()));
    n.nodes.push(Node::Point(Point::Mul, vec![along, part], total, Kind::F32));
    // The weights again.
    let (scores, scale) = n.scaled(q, kt, attrs.float("scale").ok()? as f32, &s, &b);
    let below = n.point(Point::Sub, &[scores, lse]);
    let below = n.hidden(below, &s, &b, attrs.bool("causal").ok()?);
    let weights = n.point(Point::Exp, &[below]);
    let keep = b.keep.map(|(keep, part)| (keep, n.number(1.0 / part)));
    let left = keep.map_or(weights, |(keep, factor)| {
        let kept = n.point(Point::Mul, &[weights, keep]);
        n.point(Point::Mul, &[kept, factor])
    });
    let transposed = [s.batch, s.heads, s.keys, s.queries];
    let turn = |n: &mut Network, x: usize| {
        let strides = [s.heads * s.queries * s.keys, s.queries * s.keys, 1, s.keys];
        let y = n.tensor(&transposed, &strides, half, At::Inside);
        n.nodes.push(Node::Reshape(x, y));
        y
    };
    let left_t = turn(&mut n, left);
    summed(&mut n, [left_t, g, dv], &s, s.depth, &b);
    // From the weights' gradient to the scores'.
    let of_weights = n.inside(&s.scores(), Kind::F32);
    n.matmul(g, vt, of_weights, &b, [QUERIES, KEYS, None]);
    let of_weights = keep.map_or(of_weights, |(keep, _)| n.point(Point::Mul, &[of_weights, keep]));
    let off = n.point(Point::Sub, &[of_weights, total]);
    let of_scores = n.point(Point::Mul, &[off, weights]);
    let of_scores = keep.map_or(of_scores, |(_, factor)| n.point(Point::Mul, &[of_scores, factor]));
    let of_scores = n.point(Point::Mul, &[of_scores, scale]);
    let of_scores_t = turn(&mut n, of_scores);
    summed(&mut n, [of_scores_t, q, dk], &s, s.width, &b);
    let (dims, strides) = four(&args[1]);
    let k = n.tensor(&dims, &strides, half, At::Inside);
    n.nodes.push(Node::Reshape(kt, k));
    let sums = n.kept(&[s.batch, s.heads, s.queries, s.width]);
    n.matmul(of_scores, k, sums, &b, [QUERIES, None, KEYS]);
    n.nodes.push(Node::Point(Point::Same, vec![sums], dq, Kind::F32));
    Some(n)
}

/// A product for keys or values; heads that share them are added up.
fn summed(n: &mut Network, [a, b, to]: [usize; 3], s: &Sizes, width: i64, seen: &Seen) {
    let ends = [KEYS, None, QUERIES];
    if s.heads == s.kept {
        return n.matmul(a, b, to, seen, ends);
    }
    let each = n.inside(&[s.batch, s.heads, s.keys, width], n.tensors[to].kind);
    n.matmul(a, b, each, seen, ends);
    n.nodes.push(Node::Sum(each, to));
}
