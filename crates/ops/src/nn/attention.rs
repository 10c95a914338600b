//! `attention`: scaled dot-product attention.

use super::attention_grad::{self, Gradients};
use super::attention_part;
use crate::rules::{GradTensors, by_expansion, expand, f64s, float, floats, i64s, maybe_grads};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Grad, Literal, Meaning, Op, Shape, Value};

/// The attributes of attention and its gradient.
pub(super) const ATTRS: [(&str, AttrKind); 3] =
    [("causal", AttrKind::Bool), ("scale", AttrKind::Float), ("dropout", AttrKind::Float)];

/// The row of `attention`.
pub static OP: Op = Op {
    name: "attention",
    doc: "softmax(scale q kᵀ + mask) v for q[…, H, L, E], k[…, G, S, E], v[…, G, S, F]: G is H or divides it, and \
          then neighboring query heads share keys and values. Optional inputs follow, in this order: a mask […, L, S], \
          bool (true takes part) or added; lengths i32[2, …], how many queries and how many keys of each sequence \
          count; a key i64[2] or i64[3], if weights are dropped with probability `dropout`. With `causal`, query i \
          sees keys 0 to i. A query that sees no key returns zeros. The second result […, H, L] is the logarithm of \
          the sum of each query's exponentials (−∞ for a query that sees nothing), from which the gradient finds the \
          weights again; for 16-bit floats it is f32.",
    attrs: &ATTRS,
    infer: |c| {
        if !(3..=6).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 3 to 6 inputs, but {} were given", c.types.len())));
        }
        check(c, 3)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(|c| {
        let (q, k, v, y, lse, g) = (c.x(0), c.x(1), c.x(2), c.y(0), c.y(1), c.g(0));
        let rest: Vec<Tensor> = c.inputs[3..].iter().cloned().map(Tensor::from).collect();
        let has_mask = Beside::new(&rest)?.mask.is_some();
        let others = rest.len() - usize::from(has_mask);
        if !(has_mask && c.wanted[3]) && c.grads[1].is_none() {
            let all: Vec<&Tensor> = [&q, &k, &v, &y, &lse, &g].into_iter().chain(&rest).collect();
            let got = Tensor::apply(&attention_grad::OP, &all, c.attrs.clone());
            let mut got: Vec<Option<Tensor>> = got.into_iter().map(Some).collect();
            got.extend(rest.iter().map(|_| None));
            return maybe_grads(got);
        }
        let heads = Heads::new(&q, &k, &v, &rest, c.attrs)?;
        let of_lse = c.grads[1].as_ref().map(|g| Tensor::from(g.clone()));
        let Gradients { q, k, v, mask } = attention_grad::gradients(&heads, &y, &lse, &g, of_lse.as_ref())?;
        let mut got = vec![Some(q), Some(k), Some(v)];
        if has_mask {
            got.push(mask.map(|g| g.reshape(&c.inputs[3].ty().shape)));
        }
        got.extend((0..others).map(|_| None));
        maybe_grads(got)
    }),
    autocast: ir::Autocast::Narrow,
    shard: ir::Shard::Rule(|c| Ok(attention_part::factors(c, 3))),
    on_part: Some(attention_part::forward),
    cases: || {
        let with = |causal: bool, scale: f64| attrs(causal, scale, 0.0);
        let qkv = |q: &[usize], k: &[usize]| vec![floats(q, 1), floats(k, 2), floats(k, 3)];
        let mask = Literal::generate([2, 3], |i| i % 2 == 0);
        let none = Literal::generate([2, 2], |i| i >= 2);
        let masked = |m: Literal, k: &[usize]| {
            let mut all = qkv(&[1, 2, 2], k);
            all.push(m);
            all
        };
        let (q, k, v) = (f64s([2, 1], &[0.0, 3f64.ln()]), f64s([2, 1], &[0.0, 1.0]), f64s([2, 1], &[1.0, 3.0]));
        let unseen = Literal::generate([2, 2], |i| i < 2);
        // One sequence whole but for a key, and one of a query and two keys.
        let lengths = || Literal::generate([2, 2], |i| [3, 1, 2, 2][i]);
        let key = || i64s([2], &[3, 4]);
        let beside = |rest: Vec<Literal>, causal: bool, dropout: f64| {
            let all = [floats([2, 4, 3, 2], 1), floats([2, 2, 3, 2], 2), floats([2, 2, 3, 1], 3)];
            Case::new(all.into_iter().chain(rest).collect(), attrs(causal, 0.7, dropout))
        };
        vec![
            Case::new(qkv(&[2, 2], &[3, 2]), with(false, 0.7)),
            Case::new(qkv(&[3, 2], &[3, 2]), with(true, 0.7)),
            Case::new(qkv(&[4, 2, 1], &[2, 2, 1]), with(true, 1.0)),
            Case::new(qkv(&[2, 2], &[2, 2, 2]), with(false, 1.0)),
            Case::new(masked(floats([2, 3], 4), &[3, 2]), with(false, 0.5)),
            Case::new(masked(mask, &[3, 2]), with(false, 0.5)),
            // Infinities are no matter for finite differences.
            Case::new(masked(none, &[2, 2]), with(false, 0.5)).kinked(),
            beside(vec![lengths()], false, 0.0).kinked(),
            beside(vec![floats([2, 1, 1, 3], 4), lengths()], true, 0.0).kinked(),
            beside(vec![key()], true, 0.4),
            beside(vec![floats([4, 3, 3], 4), lengths(), key()], true, 0.4).kinked(),
            Case::new(vec![q.clone(), k.clone(), v.clone()], with(false, 1.0)).expect(
                vec![f64s([2, 1], &[2.0, 2.5]), f64s([2], &[2f64.ln(), 4f64.ln()])],
                "by hand: weights (1/2, 1/2) and (1/4, 3/4)",
            ),
            Case::new(vec![q, k, v, unseen], with(false, 1.0))
                .expect(
                    vec![f64s([2, 1], &[2.0, 0.0]), f64s([2], &[2f64.ln(), f64::NEG_INFINITY])],
                    "by hand: the second query sees nothing",
                )
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// The attributes of an attention.
pub(super) fn attrs(causal: bool, scale: f64, dropout: f64) -> Attrs {
    Attrs::new().with("causal", causal).with("scale", scale).with("dropout", dropout)
}

/// What comes behind the operands that are always there.
#[derive(Clone, Copy)]
pub(super) struct Beside<T> {
    /// Bool, or numbers to add.
    mask: Option<T>,
    /// Queries and keys of each sequence.
    lengths: Option<T>,
    /// Which weights are dropped.
    key: Option<T>,
}

impl<'a> Beside<&'a Tensor> {
    fn new(rest: &'a [Tensor]) -> Result<Self> {
        let dtypes = rest.iter().map(Tensor::dtype).collect::<Result<Vec<DType>>>()?;
        let at = |i: usize| &rest[i];
        let Beside { mask, lengths, key } = beside(&dtypes)?;
        Ok(Beside { mask: mask.map(at), lengths: lengths.map(at), key: key.map(at) })
    }
}

/// Which is which among operands of these types.
fn beside(dtypes: &[DType]) -> Result<Beside<usize>> {
    let mut left = dtypes.iter().copied().enumerate().peekable();
    let mut next = |is: &dyn Fn(DType) -> bool| left.next_if(|&(_, d)| is(d)).map(|(i, _)| i);
    let mask = next(&|d| d.is_float() || d == DType::Bool);
    let (lengths, key) = (next(&|d| d == DType::I32), next(&|d| d == DType::I64));
    match left.next() {
        None => Ok(Beside { mask, lengths, key }),
        Some((_, d)) => Err(Error::dtype(format!(
            "a mask (bool or float), lengths (i32) and a key (i64) may come behind the other inputs, in this order, \
             but {d} came"
        ))),
    }
}

/// What attention and its gradient need; what is optional begins at input `first`.
pub(super) fn check(c: &Call, first: usize) -> Result<()> {
    float(c, 0)?;
    let (q, k, v) = (c.shape(0), c.shape(1), c.shape(2));
    if c.dtype(1) != c.dtype(0) || c.dtype(2) != c.dtype(0) {
        return Err(Error::dtype(format!("q, k and v differ in type: {}, {}, {}", c.dtype(0), c.dtype(1), c.dtype(2))));
    }
    let fits = [q, k, v].iter().all(|s| s.rank() >= 2)
        && q[q.rank() - 1] == k[k.rank() - 1]
        && k[k.rank() - 2] == v[v.rank() - 2]
        && (shared_heads(q, k).is_none() || shared_heads(q, k) == shared_heads(q, v));
    if !fits {
        return Err(Error::shape(format!(
            "q[…, L, E], k[…, S, E] and v[…, S, F] are needed, but came {q}, {k} and {v}"
        )));
    }
    let rest = &c.types[first..];
    let Beside { mask, lengths, key } = beside(&rest.iter().map(|t| t.dtype).collect::<Vec<_>>())?;
    match mask.map(|i| &rest[i]) {
        Some(m) if m.dtype != DType::Bool && m.dtype != c.dtype(0) => {
            return Err(Error::dtype(format!("the mask must be bool or {}, not {}", c.dtype(0), m.dtype)));
        }
        Some(m) if m.shape.rank() < 2 => {
            return Err(Error::shape(format!("the mask must have at least two dimensions, but is {}", m.shape)));
        }
        _ => {}
    }
    if let Some(l) = lengths.map(|i| &rest[i].shape) {
        let want: Shape = [2].iter().chain(sequences(q)).copied().collect();
        if *l != want {
            return Err(Error::shape(format!("lengths of queries {q} must be {want}, not {l}")));
        }
    }
    let p = c.attrs.float("dropout")?;
    if !(0.0..=1.0).contains(&p) {
        return Err(Error::value(format!("dropout is a probability, from 0 to 1, not {p}")));
    }
    match key.map(|i| &rest[i]) {
        Some(k) if !matches!(*k.shape.dims(), [2 | 3]) => {
            let key = "a key is i64[2], a seed and a counter, or i64[3] with the rows before";
            Err(Error::value(format!("{key}; this is {k}")))
        }
        Some(_) if p == 0.0 => Err(Error::value("a key, but nothing is dropped")),
        None if p > 0.0 => Err(Error::value("dropout needs a key")),
        _ => Ok(()),
    }
}

/// The dimensions of queries before those of heads.
fn sequences(q: &Shape) -> &[usize] {
    &q[..q.rank().saturating_sub(3)]
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand(args, |a| {
        let heads = Heads::new(&a[0], &a[1], &a[2], &a[3..], c.attrs)?;
        let (mut y, mut lse) = (Vec::new(), Vec::new());
        for part in heads.parts()? {
            let (weights, sums) = part.weights()?;
            y.push(part.fold(&part.dropped(&weights).cast(c.dtype(0)))?.matmul(&part.v));
            lse.push(sums);
        }
        Ok(vec![heads.as_queries(&joined(y, -2))?, heads.join(&joined(lse, -1))?])
    })
}

/// Parts along an axis as one.
pub(super) fn joined(mut parts: Vec<Tensor>, along: i64) -> Tensor {
    if parts.len() == 1 { parts.remove(0) } else { Tensor::concat(&parts, along) }
}

/// Queries of a causal attention from which on they are taken in parts, the most parts, and the least queries of one.
const PARTED_MIN: usize = 512;
const PARTS_MAX: usize = 8;
const PART_MIN: usize = 128;

/// Queries, keys and values with as many heads each. The queries of heads that share keys are rows
/// of one matrix; their scores have a dimension for the heads that share.
#[derive(Clone)]
pub(super) struct Heads {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub mask: Option<Tensor>,
    pub scale: f64,
    causal: bool,
    /// The number of the first query.
    pub first: usize,
    /// Queries and keys of each sequence, with dimensions for heads, queries and keys.
    lengths: Option<[Tensor; 2]>,
    /// The probability that a weight is dropped, and which are.
    dropout: Option<(f64, Tensor)>,
    /// How many heads share keys, how many queries each has, if they do.
    shared: Option<(usize, usize)>,
}

impl Heads {
    /// `rest` is what may come behind queries, keys and values.
    pub(super) fn new(q: &Tensor, k: &Tensor, v: &Tensor, rest: &[Tensor], attrs: &Attrs) -> Result<Heads> {
        let (causal, scale, p) = (attrs.bool("causal")?, attrs.float("scale")?, attrs.float("dropout")?);
        let (k, v, shape) = (k.clone(), v.clone(), q.shape()?);
        let Beside { mask, lengths, key } = Beside::new(rest)?;
        let shared = shared_heads(&shape, &k.shape()?);
        let lengths = lengths.map(|l| {
            let ones = shape.rank() - sequences(&shape).len() + usize::from(shared.is_some());
            let each: Shape = sequences(&shape).iter().copied().chain((0..ones).map(|_| 1)).collect();
            [0, 1].map(|i| l.select(0, i).reshape(&each))
        });
        let dropout = key.map(|key| (p, key.clone()));
        let heads =
            Heads { q: q.clone(), k, v, mask: mask.cloned(), scale, causal, first: 0, lengths, dropout, shared: None };
        let Some((kept, each)) = shared else { return Ok(heads) };
        let mask = match mask {
            Some(m) if m.rank()? >= 3 && m.shape()?[m.rank()? - 3] != 1 => Some(split(m, kept, each)?),
            Some(m) if m.rank()? >= 3 => Some(split(m, 1, 1)?),
            other => other.cloned(),
        };
        let heads = Heads { mask, shared: Some((each, shape[shape.rank() - 2])), ..heads };
        Ok(Heads { q: heads.fold(&split(q, kept, each)?)?, ..heads })
    }
    /// Long causal attention in parts of neighboring queries, each with the keys that they see: almost half of the
    /// scores are never computed. Others are one part.
    pub(super) fn parts(&self) -> Result<Vec<Heads>> {
        let (q, k) = (self.q.shape()?, self.k.shape()?);
        let (queries, keys) = (q[q.rank() - 2], k[k.rank() - 2]);
        let is_plain = self.mask.is_none() && self.lengths.is_none() && self.dropout.is_none() && self.shared.is_none();
        if !self.causal || !is_plain || queries < PARTED_MIN || keys < PART_MIN {
            return Ok(vec![self.clone()]);
        }
        let each = queries.div_ceil(PARTS_MAX).max(PART_MIN).next_multiple_of(64);
        let part = |first: usize| {
            let (count, seen) = (each.min(queries - first), (first + each).min(keys));
            let [k, v] = [&self.k, &self.v].map(|t| t.narrow(-2, 0, seen));
            Heads { q: self.q.narrow(-2, first, count), k, v, first, ..self.clone() }
        };
        Ok((0..queries).step_by(each).map(part).collect())
    }
    /// Weights, or what becomes of their gradient, but for those that are dropped.
    pub(super) fn dropped(&self, weights: &Tensor) -> Tensor {
        match &self.dropout {
            Some((p, key)) => weights.dropout(*p, key),
            None => weights.clone(),
        }
    }
    /// Below every score: what hides a key. It is finite, so that a query that sees nothing does
    /// not become NaN, nor its gradient.
    pub(super) fn floor(&self) -> Result<f64> {
        Ok(if self.q.dtype()? == DType::F16 { -6e4 } else { -1e30 })
    }
    /// Scores of every query and key, those hidden at the floor; 16-bit floats become f32.
    pub(super) fn scores(&self) -> Result<Tensor> {
        let mut scores = self.unfold(&(&self.q * self.scale).matmul(self.k.t()))?.widened();
        let shape = scores.shape()?;
        let (queries, keys) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
        let floor = self.floor()?;
        if self.causal {
            let rows = Tensor::iota(queries, DType::I64).reshape([queries, 1]) + self.first as i64;
            scores = Tensor::where_(&rows.ge(Tensor::iota(keys, DType::I64)), &scores, floor);
        }
        match &self.mask {
            Some(m) if m.dtype()? == DType::Bool => scores = Tensor::where_(m, &scores, floor),
            Some(m) => scores = (scores + m).maximum(floor),
            None => {}
        }
        if let Some([of_queries, of_keys]) = &self.lengths {
            let rows = Tensor::iota(queries, DType::I32).reshape([queries, 1]).lt(of_queries);
            let columns = Tensor::iota(keys, DType::I32).lt(of_keys);
            scores = Tensor::where_(&rows.logical_and(&columns), &scores, floor);
        }
        Ok(scores)
    }
    /// The weight of every key for every query, and the logarithms of the sums of exponentials.
    fn weights(&self) -> Result<(Tensor, Tensor)> {
        let scores = self.scores()?;
        let (weights, lse) = (scores.softmax(-1), scores.logsumexp(-1));
        if self.mask.is_none() && self.lengths.is_none() {
            return Ok((weights, lse));
        }
        let sees = scores.max_keep(-1).gt(self.floor()?);
        let lse = Tensor::where_(&sees.squeeze(-1), &lse, f64::NEG_INFINITY);
        Ok((Tensor::where_(&sees, &weights, 0.0), lse))
    }
    /// What heads that share keys have, `[…, kept, each, L, *]`, as rows of one matrix.
    pub(super) fn fold(&self, x: &Tensor) -> Result<Tensor> {
        let Some((each, _)) = self.shared else { return Ok(x.clone()) };
        let mut shape = x.shape()?;
        let at = shape.rank() - 3;
        shape.remove(at);
        shape.dims_mut()[at] *= each;
        Ok(x.reshape(shape))
    }
    /// Rows of one matrix as what each of the heads has that share keys.
    pub(super) fn unfold(&self, x: &Tensor) -> Result<Tensor> {
        let Some((each, queries)) = self.shared else { return Ok(x.clone()) };
        let mut shape = x.shape()?;
        let at = shape.rank() - 2;
        shape.dims_mut()[at] = queries;
        shape.insert(at, each);
        Ok(x.reshape(shape))
    }
    /// Rows of one matrix in the shape of queries: `[…, H, L, *]`.
    pub(super) fn as_queries(&self, x: &Tensor) -> Result<Tensor> {
        let Some((each, queries)) = self.shared else { return Ok(x.clone()) };
        let mut shape = x.shape()?;
        let at = shape.rank() - 3;
        shape.dims_mut()[at] *= each;
        shape.dims_mut()[at + 1] = queries;
        Ok(x.reshape(shape))
    }
    /// What is in the shape of queries as rows of one matrix.
    pub(super) fn as_rows(&self, x: &Tensor) -> Result<Tensor> {
        let Some((each, queries)) = self.shared else { return Ok(x.clone()) };
        let mut shape = x.shape()?;
        let at = shape.rank() - 3;
        shape.dims_mut()[at] /= each;
        shape.dims_mut()[at + 1] = each * queries;
        Ok(x.reshape(shape))
    }
    /// A number for each query, `[…, kept, each, L]`, as `[…, H, L]`.
    fn join(&self, x: &Tensor) -> Result<Tensor> {
        let Some((each, _)) = self.shared else { return Ok(x.clone()) };
        let mut shape = x.shape()?;
        let at = shape.rank() - 3;
        shape.remove(at + 1);
        shape.dims_mut()[at] *= each;
        Ok(x.reshape(shape))
    }
    /// A number for each query, `[…, H, L]`, beside the scores: `[…, kept, each, L, 1]`.
    pub(super) fn column(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = x.shape()?;
        if let Some((each, _)) = self.shared {
            let at = shape.rank() - 2;
            shape.dims_mut()[at] /= each;
            shape.insert(at + 1, each);
        }
        shape.push(1);
        Ok(x.widened().reshape(shape))
    }
}

/// Heads divided into `kept` times `each`.
fn split(t: &Tensor, kept: usize, each: usize) -> Result<Tensor> {
    let mut shape = t.shape()?;
    let at = shape.rank() - 3;
    shape.dims_mut()[at] = kept;
    shape.insert(at + 1, each);
    Ok(t.reshape(shape))
}

/// How many heads of keys there are and how many query heads share each, if they do.
fn shared_heads(q: &Shape, k: &Shape) -> Option<(usize, usize)> {
    if q.rank() < 3 || k.rank() < 3 {
        return None;
    }
    let (heads, kept) = (q[q.rank() - 3], k[k.rank() - 3]);
    (kept > 1 && heads > kept && heads.is_multiple_of(kept)).then(|| (kept, heads / kept))
}

/// What attention takes beside queries, keys and values.
#[derive(Clone, Debug, Default)]
pub struct AttentionOptions {
    /// Bool (true takes part) or numbers that are added to the scores; broadcast to `[…, L, S]`.
    pub mask: Option<Tensor>,
    /// Query i sees keys 0 to i.
    pub causal: bool,
    /// What scores are multiplied by; 1 / √E if `None`.
    pub scale: Option<f64>,
    /// There may be fewer heads of keys and values than of queries, which then share them.
    pub grouped: bool,
    /// Probability that a weight is dropped, and the key that says which (see [`Tensor::dropout`]).
    pub dropout: Option<(f64, Tensor)>,
    /// How many queries of each sequence count, integers in the shape of the dimensions before
    /// heads; those behind give zeros.
    pub query_lengths: Option<Tensor>,
    /// How many keys of each sequence count, as above; those behind are not seen.
    pub key_lengths: Option<Tensor>,
}

impl AttentionOptions {
    /// Lengths of queries `q` and keys `k` as the row takes them, if there are any.
    fn lengths(&self, q: &Shape, k: &Shape) -> Result<Option<Tensor>> {
        if self.query_lengths.is_none() && self.key_lengths.is_none() {
            return Ok(None);
        }
        let lead: Shape = sequences(q).iter().copied().collect();
        let of = |given: &Option<Tensor>, what: &str, shape: &Shape| -> Result<Tensor> {
            let whole = shape.iter().rev().nth(1).copied().unwrap_or(0);
            let Some(l) = given else { return Ok(Tensor::full_of(lead.clone(), whole as f64, DType::I32)) };
            if l.shape()? != lead || !l.dtype()?.is_int() {
                let (ty, l) = (l.dtype()?, l.shape()?);
                return Err(Error::shape(format!("{what} must be integers of shape {lead}, not {ty}{l}")));
            }
            Ok(l.cast(DType::I32))
        };
        let [a, b] = [of(&self.query_lengths, "query_lengths", q)?, of(&self.key_lengths, "key_lengths", k)?];
        Ok(Some(Tensor::stack(&[a, b], 0)))
    }
}

impl Tensor {
    /// Scaled dot-product attention of these queries `[…, H, L, E]` with keys `[…, H, S, E]` and
    /// values `[…, H, S, F]`.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::AttentionOptions};
    /// let (q, v) = (Tensor::zeros([2, 4]), Tensor::from([[1.0f32], [3.0]]));
    /// let y = q.attention(&q, &v, AttentionOptions { causal: true, ..Default::default() });
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 2.0]);
    /// ```
    #[track_caller]
    pub fn attention(&self, k: &Tensor, v: &Tensor, options: AttentionOptions) -> Tensor {
        self.then(|t| {
            let fail = |e: Error| e.in_op("attention");
            let rank = t.shape.rank();
            let ks = k.shape()?;
            if !options.grouped && shared_heads(&t.shape, &ks).is_some() {
                let e = format!(
                    "{} heads of queries and {} of keys need grouped: true",
                    t.shape[rank - 3],
                    ks[ks.rank() - 3]
                );
                return Err(fail(Error::shape(e)));
            }
            let dtype = t.dtype.promote(k.dtype()?).promote(v.dtype()?);
            let width = t.shape.last().copied().unwrap_or(1).max(1);
            let scale = options.scale.unwrap_or(1.0 / (width as f64).sqrt());
            let mut all = vec![self.cast(dtype), k.cast(dtype), v.cast(dtype)];
            if let Some(m) = &options.mask {
                all.push(if m.dtype()? == DType::Bool { m.clone() } else { m.cast(dtype) });
            }
            all.extend(options.lengths(&t.shape, &ks).map_err(fail)?);
            let p = options.dropout.as_ref().map_or(0.0, |(p, _)| *p);
            all.extend(options.dropout.as_ref().filter(|(p, _)| *p > 0.0).map(|(_, key)| key.clone()));
            let [y, _] = Tensor::apply_n(&OP, &all.iter().collect::<Vec<_>>(), attrs(options.causal, scale, p));
            Ok(y)
        })
    }
}
