//! `attention`: scaled dot-product attention.

use super::attention_grad::{self, Gradients};
use crate::rules::{GradTensors, by_expansion, expand, f64s, float, floats, maybe_grads};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, DType, Grad, Literal, Meaning, Op, Shape, Value};

/// The attributes of attention and its gradient.
pub(super) const ATTRS: [(&str, AttrKind); 2] = [("causal", AttrKind::Bool), ("scale", AttrKind::Float)];

/// The row of `attention`.
pub static OP: Op = Op {
    name: "attention",
    doc: "softmax(scale q kᵀ + mask) v for q[…, H, L, E], k[…, G, S, E], v[…, G, S, F]: G is H or divides it, and then \
          neighboring query heads share keys and values. The optional mask […, L, S] is bool (true takes part) or \
          added; with `causal`, query i sees keys 0 to i. A query that sees nothing gives zeros. The second result \
          […, H, L] is the logarithm of the sum of each query's exponentials (−∞ for a query that sees nothing), \
          from which the gradient finds the weights again; for 16-bit floats it is f32.",
    attrs: &ATTRS,
    infer: |c| {
        if !(3..=4).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 3 or 4 inputs, but {} were given", c.types.len())));
        }
        check(c, 3)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(|c| {
        let (q, k, v, y, lse, g) = (c.x(0), c.x(1), c.x(2), c.y(0), c.y(1), c.g(0));
        let mask = c.inputs.get(3).map(|m| Tensor::from(m.clone()));
        let mask_wanted = mask.is_some() && c.wanted[3];
        if !mask_wanted && c.grads[1].is_none() {
            let mut all = vec![&q, &k, &v, &y, &lse, &g];
            all.extend(&mask);
            let got = Tensor::apply(&attention_grad::OP, &all, c.attrs.clone());
            let mut got: Vec<Option<Tensor>> = got.into_iter().map(Some).collect();
            got.extend(mask.map(|_| None));
            return maybe_grads(got);
        }
        let heads = Heads::new(&q, &k, &v, mask.as_ref(), c.attrs)?;
        let of_lse = c.grads[1].as_ref().map(|g| Tensor::from(g.clone()));
        let Gradients { q, k, v, mask } = attention_grad::gradients(&heads, &y, &lse, &g, of_lse.as_ref())?;
        let mut got = vec![Some(q), Some(k), Some(v)];
        got.extend(c.inputs.get(3).map(|m| mask.map(|g| g.reshape(&m.ty().shape))));
        maybe_grads(got)
    }),
    batch: Batch::Auto,
    cases: || {
        let with = |causal: bool, scale: f64| Attrs::new().with("causal", causal).with("scale", scale);
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
        vec![
            Case::new(qkv(&[2, 2], &[3, 2]), with(false, 0.7)),
            Case::new(qkv(&[3, 2], &[3, 2]), with(true, 0.7)),
            Case::new(qkv(&[4, 2, 1], &[2, 2, 1]), with(true, 1.0)),
            Case::new(qkv(&[2, 2], &[2, 2, 2]), with(false, 1.0)),
            Case::new(masked(floats([2, 3], 4), &[3, 2]), with(false, 0.5)),
            Case::new(masked(mask, &[3, 2]), with(false, 0.5)),
            // Infinities are no matter for finite differences.
            Case::new(masked(none, &[2, 2]), with(false, 0.5)).kinked(),
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
};

/// What attention and its gradient need; the mask, if there is one, is input `mask`.
pub(super) fn check(c: &Call, mask: usize) -> Result<()> {
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
    match c.types.get(mask) {
        Some(m) if m.dtype != DType::Bool && m.dtype != c.dtype(0) => {
            Err(Error::dtype(format!("the mask must be bool or {}, not {}", c.dtype(0), m.dtype)))
        }
        Some(m) if m.shape.rank() < 2 => {
            Err(Error::shape(format!("the mask must have at least two dimensions, but is {}", m.shape)))
        }
        _ => Ok(()),
    }
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand(args, |a| {
        let heads = Heads::new(&a[0], &a[1], &a[2], a.get(3), c.attrs)?;
        let (weights, lse) = heads.weights()?;
        let y = heads.fold(&weights.cast(c.dtype(0)))?.matmul(&heads.v);
        Ok(vec![heads.as_queries(&y)?, heads.join(&lse)?])
    })
}

/// Queries, keys and values with as many heads each. The queries of heads that share keys are rows
/// of one matrix; their scores have a dimension for the heads that share.
pub(super) struct Heads {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    pub mask: Option<Tensor>,
    pub scale: f64,
    causal: bool,
    /// How many heads share keys, how many queries each has, if they do.
    shared: Option<(usize, usize)>,
}

impl Heads {
    pub(super) fn new(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, attrs: &Attrs) -> Result<Heads> {
        let (causal, scale) = (attrs.bool("causal")?, attrs.float("scale")?);
        let (k, v, shape) = (k.clone(), v.clone(), q.shape()?);
        let Some((kept, each)) = shared_heads(&shape, &k.shape()?) else {
            return Ok(Heads { q: q.clone(), k, v, mask: mask.cloned(), scale, causal, shared: None });
        };
        let mask = match mask {
            Some(m) if m.rank()? >= 3 && m.shape()?[m.rank()? - 3] != 1 => Some(split(m, kept, each)?),
            Some(m) if m.rank()? >= 3 => Some(split(m, 1, 1)?),
            other => other.cloned(),
        };
        let heads = Heads { q: q.clone(), k, v, mask, scale, causal, shared: Some((each, shape[shape.rank() - 2])) };
        Ok(Heads { q: heads.fold(&split(q, kept, each)?)?, ..heads })
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
            let rows = Tensor::iota(queries, DType::I64).reshape([queries, 1]);
            scores = Tensor::where_(&rows.ge(Tensor::iota(keys, DType::I64)), &scores, floor);
        }
        match &self.mask {
            Some(m) if m.dtype()? == DType::Bool => scores = Tensor::where_(m, &scores, floor),
            Some(m) => scores = (scores + m).maximum(floor),
            None => {}
        }
        Ok(scores)
    }
    /// The weight of every key for every query, and the logarithms of the sums of exponentials.
    fn weights(&self) -> Result<(Tensor, Tensor)> {
        let scores = self.scores()?;
        let (weights, lse) = (scores.softmax(-1), scores.logsumexp(-1));
        if self.mask.is_none() {
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
    /// All weights are then kept at once, `[…, H, L, S]`.
    pub dropout: Option<(f64, Tensor)>,
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
            let attrs = Attrs::new().with("causal", options.causal).with("scale", scale);
            let [y, _] = Tensor::apply_n(&OP, &all.iter().collect::<Vec<_>>(), attrs.clone());
            let Some((p, key)) = &options.dropout else { return Ok(y) };
            // What was applied has checked the shapes; it is never computed.
            y.value()?;
            let heads = Heads::new(&all[0], &all[1], &all[2], all.get(3), &attrs)?;
            let (weights, _) = heads.weights()?;
            heads.as_queries(&heads.fold(&weights.dropout(*p, key).cast(dtype))?.matmul(&heads.v))
        })
    }
}
