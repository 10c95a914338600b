//! `attention`: scaled dot-product attention.

use crate::rules::{by_expansion, expand, f64s, float, floats};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, DType, Grad, Literal, Meaning, Op, Shape, Value};

/// The row of `attention`.
pub static OP: Op = Op {
    name: "attention",
    doc: "softmax(scale q kᵀ + mask) v for q[…, H, L, E], k[…, G, S, E], v[…, G, S, F]: G is H or divides it, and then \
          neighboring query heads share keys and values. The optional mask […, L, S] is bool (true takes part) or \
          added; with `causal`, query i sees keys 0 to i. A query that sees nothing gives zeros.",
    attrs: &[("causal", AttrKind::Bool), ("scale", AttrKind::Float)],
    infer: |c| {
        check(c)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Expand,
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
        let v = f64s([2, 1], &[1.0, 3.0]);
        vec![
            Case::new(qkv(&[2, 2], &[3, 2]), with(false, 0.7)),
            Case::new(qkv(&[3, 2], &[3, 2]), with(true, 0.7)),
            Case::new(qkv(&[4, 2, 1], &[2, 2, 1]), with(true, 1.0)),
            Case::new(masked(floats([2, 3], 4), &[3, 2]), with(false, 0.5)),
            Case::new(masked(mask, &[3, 2]), with(false, 0.5)),
            Case::new(masked(none, &[2, 2]), with(false, 0.5)),
            Case::new(vec![f64s([2, 1], &[0.0, 3f64.ln()]), f64s([2, 1], &[0.0, 1.0]), v], with(false, 1.0))
                .expect(vec![f64s([2, 1], &[2.0, 2.5])], "by hand: weights (1/2, 1/2) and (1/4, 3/4)"),
        ]
    },
};

fn check(c: &Call) -> Result<()> {
    if !(3..=4).contains(&c.types.len()) {
        return Err(Error::value(format!("takes 3 or 4 inputs, but {} were given", c.types.len())));
    }
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
        return Err(Error::shape(format!("q[…, L, E], k[…, S, E] and v[…, S, F] are needed, but came {q}, {k} and {v}")));
    }
    match c.types.get(3) {
        Some(m) if m.dtype != DType::Bool && m.dtype != c.dtype(0) => {
            Err(Error::dtype(format!("the mask must be bool or {}, not {}", c.dtype(0), m.dtype)))
        }
        _ => Ok(()),
    }
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let (causal, scale) = (c.attrs.bool("causal")?, c.attrs.float("scale")?);
    expand(args, |a| {
        let groups = shared_heads(c.shape(0), c.shape(1));
        let Some((kept, each)) = groups else {
            return Ok(vec![attend(&a[0], &a[1], &a[2], a.get(3), causal, scale)?]);
        };
        // Heads that share keys get a dimension of their own, along which the keys are broadcast.
        let (q, k, v) = (split(&a[0], kept, each)?, split(&a[1], kept, 1)?, split(&a[2], kept, 1)?);
        let mask = match a.get(3) {
            Some(m) if m.rank()? >= 3 && m.shape()?[m.rank()? - 3] != 1 => Some(split(m, kept, each)?),
            Some(m) if m.rank()? >= 3 => Some(split(m, 1, 1)?),
            other => other.cloned(),
        };
        let y = attend(&q, &k, &v, mask.as_ref(), causal, scale)?;
        let mut shape = y.shape()?;
        let at = shape.rank() - 4;
        shape.remove(at + 1);
        shape.dims_mut()[at] = kept * each;
        Ok(vec![y.reshape(shape)])
    })
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

/// Attention of heads that broadcast against each other.
fn attend(q: &Tensor, k: &Tensor, v: &Tensor, mask: Option<&Tensor>, causal: bool, scale: f64) -> Result<Tensor> {
    let mut scores = (q * scale).matmul(k.t());
    let shape = scores.shape()?;
    let (queries, keys) = (shape[shape.rank() - 2], shape[shape.rank() - 1]);
    // A finite floor: a row without any key must not become NaN, nor its gradient.
    let floor = if scores.dtype()? == DType::F16 { -6e4 } else { -1e30 };
    if causal {
        let rows = Tensor::iota(queries, DType::I64).reshape([queries, 1]);
        scores = Tensor::where_(&rows.ge(Tensor::iota(keys, DType::I64)), &scores, floor);
    }
    match mask {
        Some(m) if m.dtype()? == DType::Bool => scores = Tensor::where_(m, &scores, floor),
        Some(m) => scores = (scores + m).maximum(floor),
        None => {}
    }
    let mut weights = scores.softmax(-1);
    if mask.is_some() {
        weights = Tensor::where_(&scores.max_keep(-1).gt(floor), &weights, 0.0);
    }
    Ok(weights.matmul(v))
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
                let e = format!("{} heads of queries and {} of keys need grouped: true", t.shape[rank - 3], ks[ks.rank() - 3]);
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
            Ok(Tensor::apply1(&OP, &all.iter().collect::<Vec<_>>(), attrs))
        })
    }
}
