//! Attention and what belongs to it.

use super::{Outs, Row, all, number, of, one, row};
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Result};
use tensor::Tensor;
use tensor::control::scan;

pub static ROWS: &[Row] = &[
    row("Attention", 23, attention),
    row("RotaryEmbedding", 23, rotary),
    row("LinearAttention", 27, linear_attention),
    of("ai.onnx.preview", "FlexAttention", 1, flex_attention),
];

/// `[N, L, heads · E]` as `[N, heads, L, E]`.
fn heads(x: &Tensor, heads: i64) -> Result<Tensor> {
    if x.rank()? == 4 {
        return Ok(x.clone());
    }
    let [n, l, width] = x.dims()?;
    let h = usize::try_from(heads).ok().filter(|&h| h > 0 && width % h == 0);
    let h = h.ok_or_else(|| Error::shape(format!("{width} elements do not divide into {heads} heads")))?;
    Ok(x.reshape([n, l, h, width / h]).permute(&[0, 2, 1, 3]))
}

/// Keys or values repeated for each query head that shares them.
fn shared(x: &Tensor, query_heads: usize) -> Result<Tensor> {
    let h = x.shape()?[1];
    if h == query_heads || h == 0 || !query_heads.is_multiple_of(h) {
        return Ok(x.clone());
    }
    Ok(x.repeat_interleave(query_heads / h, 1))
}

fn attention(c: &Call<'_>) -> Outs {
    let (q, is_flat) = (c.x(0)?, c.x(0)?.rank()? == 3);
    let kv = c.int("kv_num_heads", 0);
    let q = heads(&q, c.int("q_num_heads", 0))?;
    let (mut k, mut v) = (heads(&c.x(1)?, kv)?, heads(&c.x(2)?, kv)?);
    let dtype = q.dtype()?;
    let past = c.opt(4)?;
    let mut before = 0;
    if let (Some(pk), Some(pv)) = (&past, c.opt(5)?) {
        before = pk.shape()?[2];
        k = Tensor::concat(&[pk.clone(), k], 2);
        v = Tensor::concat(&[pv, v], 2);
    }
    let ([n, h, l, e], s) = (q.dims()?, k.shape()?[2]);
    let scale = c.maybe_float("scale").unwrap_or(1.0 / (e as f64).sqrt());
    let lengths = c.opt(6)?.map(|t| t.cast(DType::I64).reshape([n, 1, 1, 1]));
    let bias = bias(c, dtype, before, l, s, lengths.as_ref())?;
    let (wide_k, wide_v) = (shared(&k, h)?, shared(&v, h)?);
    let root = number(dtype, scale.sqrt());
    let mut scores = (&q * &root).matmul((wide_k * &root).transpose(-1, -2));
    let mode = c.int("qk_matmul_output_mode", 0);
    let cap = c.float("softcap", 0.0);
    if cap != 0.0 {
        scores = (scores / cap).tanh() * cap;
    }
    let capped = scores.clone();
    if let Some(b) = &bias {
        scores = scores + b;
    }
    let masked = scores.clone();
    let wide = c.elem_attribute("softmax_precision", c.elem(0)?)?.storage().unwrap_or(dtype);
    let mut p = scores.cast(wide).softmax(-1);
    if let Some(b) = &bias {
        // A query that may look at nothing yields zeros.
        let is_blind = b.max_keep(-1).eq(f64::NEG_INFINITY);
        p = Tensor::where_(&is_blind, &p.zeros_like(), &p);
    }
    let y = p.cast(dtype).matmul(&wide_v);
    let y = if is_flat {
        let width = y.shape()?[3];
        y.permute(&[0, 2, 1, 3]).reshape([n, l, h * width])
    } else {
        y
    };
    let seen = match mode {
        0 | 1 => capped,
        2 => masked,
        _ => p.cast(dtype),
    };
    all([y, k, v, seen])
}

/// What is added to the scores: the mask, causality, a window and lengths; `None` for nothing.
fn bias(
    c: &Call<'_>,
    dtype: DType,
    before: usize,
    l: usize,
    s: usize,
    lengths: Option<&Tensor>,
) -> Result<Option<Tensor>> {
    let lowest = number(dtype, f64::NEG_INFINITY);
    let zero = number(dtype, 0.0);
    let either = |mask: &Tensor| Tensor::where_(mask, &zero, &lowest);
    let mut out: Option<Tensor> = None;
    let mut add = |t: Tensor| {
        out = Some(match out.take() {
            Some(o) => o + t,
            None => t,
        });
    };
    if let Some(mask) = c.opt(3)? {
        let shape = mask.shape()?;
        let more = s as i64 - shape.dims().last().copied().unwrap_or(s) as i64;
        let mut hi = vec![0; shape.rank()];
        let mask = if more > 0 {
            *hi.last_mut().ok_or_else(|| Error::shape("the mask is a scalar"))? = more;
            let fill = if mask.dtype()? == DType::Bool { 0.0 } else { f64::NEG_INFINITY };
            mask.pad_raw(&vec![0; shape.rank()], &hi, fill)
        } else {
            mask
        };
        let mask = if mask.dtype()? == DType::Bool { either(&mask) } else { mask };
        add(mask + Tensor::zeros_of([l, s], dtype));
    }
    let i = Tensor::iota(l, DType::I64).reshape([l, 1]);
    let j = Tensor::iota(s, DType::I64).reshape([1, s]);
    let i = match lengths {
        Some(n) if before == 0 => i + (n - l as i64),
        _ => i + before as i64,
    };
    if c.flag("is_causal") {
        add(either(&j.le(&i)));
    }
    let (left, right) = (c.int("left_window_size", -1), c.int("right_window_size", -1));
    if left >= 0 {
        add(either(&j.ge(&i - left)));
    }
    if right >= 0 {
        add(either(&j.le(&i + right)));
    }
    if let Some(n) = lengths {
        add(either(&j.lt(n)));
    }
    Ok(out)
}

fn rotary(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let shape = x.shape()?;
    let is_flat = shape.rank() == 3;
    let x = heads(&x, c.int("num_heads", 0))?;
    let [n, h, l, e] = x.dims()?;
    let width = usize::try_from(c.int("rotary_embedding_dim", 0)).ok().filter(|&w| w > 0).unwrap_or(e);
    let table = |i: usize| -> Result<Tensor> {
        let t = c.x(i)?;
        let t = match c.opt(3)? {
            Some(p) => t.take(&p.cast(DType::I64), 0),
            None => t,
        };
        Ok(t.reshape([n, 1, l, width / 2]))
    };
    let (cos, sin) = (table(1)?, table(2)?);
    let turned = x.narrow(3, 0, width);
    let is_interleaved = c.flag("interleaved");
    let (a, b) = if is_interleaved {
        let pairs = turned.reshape([n, h, l, width / 2, 2]);
        (pairs.narrow(4, 0, 1).squeeze(4), pairs.narrow(4, 1, 1).squeeze(4))
    } else {
        (turned.narrow(3, 0, width / 2), turned.narrow(3, width / 2, width / 2))
    };
    let (re, im) = (&cos * &a - &sin * &b, &sin * &a + &cos * &b);
    let y = if is_interleaved {
        Tensor::stack(&[re, im], 4).reshape([n, h, l, width])
    } else {
        Tensor::concat(&[re, im], 3)
    };
    let y = if width < e { Tensor::concat(&[y, x.narrow(3, width, e - width)], 3) } else { y };
    one(if is_flat { y.permute(&[0, 2, 1, 3]).reshape(shape) } else { y })
}

fn flex_attention(c: &Call<'_>) -> Outs {
    let (q, k, v) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let [_, h, _, e] = q.dims()?;
    let (k, wide_v) = (shared(&k, h)?, shared(&v, h)?);
    let scale = c.maybe_float("scale").unwrap_or(1.0 / (e as f64).sqrt());
    let root = number(q.dtype()?, scale.sqrt());
    let own = if q.dtype()? == DType::F64 { DType::F64 } else { DType::F32 };
    let wide = match c.int("softmax_precision", 0) {
        0 => own,
        n => crate::element::Elem::known(n)?.storage().unwrap_or(own),
    };
    let scores = (&q * &root).matmul((k * &root).transpose(-1, -2)).cast(wide);
    let changed = |name: &str, x: Tensor| -> Result<Tensor> {
        if c.attribute(name).is_none() {
            return Ok(x);
        }
        match c.scope.graph(&*c.graph(name)?, vec![x.into()])?.into_iter().next() {
            Some(Value::Tensor(t)) => Ok(t.tensor.cast(wide)),
            _ => Err(Error::dtype(format!("{name} must return a tensor"))),
        }
    };
    let p = changed("prob_mod", changed("score_mod", scores)?.softmax(-1))?;
    one(p.matmul(wide_v.cast(wide)).cast(v.dtype()?))
}

/// Attention with a state instead of a cache: each step decays it, corrects the value, adds and reads.
fn linear_attention(c: &Call<'_>) -> Outs {
    let (q, k, v) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let (dtype, kv) = (q.dtype()?, c.int("kv_num_heads", 0));
    let rule = c.text("update_rule", "gated_delta");
    let (gates, corrects) = match rule {
        "linear" => (false, false),
        "gated" => (true, false),
        "delta" => (false, true),
        "gated_delta" => (true, true),
        r => return Err(Error::value(format!("update_rule is {r:?}"))),
    };
    let wide = |t: Tensor, n: i64| -> Result<Tensor> { Ok(heads(&t, n)?.cast(DType::F32).permute(&[2, 0, 1, 3])) };
    let (q, k, v) = (wide(q, c.int("q_num_heads", 0))?, wide(k, kv)?, wide(v, kv)?);
    let ([t, n, hq, dk], [_, _, hk, dv]) = (q.dims()?, v.dims()?);
    let mut rows = vec![q, k, v];
    for (i, wanted) in [(4, gates), (5, corrects)] {
        if wanted {
            let x = c.x(i)?;
            let last = x.shape()?[2];
            let per = if i == 4 && last == hk * dk && last != hk { hk } else { last };
            rows.push(wide(x, per as i64)?);
        }
    }
    let state = match c.opt(3)? {
        Some(s) => s,
        None => Tensor::zeros_of([n, hk, dk, dv], dtype),
    };
    let state_type = state.dtype()?;
    let scale = match c.float("scale", 0.0) {
        0.0 => 1.0 / (dk as f64).sqrt(),
        s => s,
    };
    let step = |s: &[Tensor], r: &[Tensor]| {
        let mut state = s[0].clone();
        if gates {
            state = state * r[3].exp().unsqueeze(-1);
        }
        let mut new = r[2].clone();
        if corrects {
            let found = r[1].unsqueeze(2).matmul(&state).squeeze(2);
            new = &r[if gates { 4 } else { 3 }] * (new - found);
        }
        state = state + r[1].unsqueeze(-1) * new.unsqueeze(-2);
        let y = r[0].unsqueeze(2).matmul(shared(&state, hq)?).squeeze(2) * scale;
        Ok((vec![state], vec![y]))
    };
    let (last, ys) = scan(step, &[state.cast(DType::F32)], &rows)?;
    let y = ys[0].permute(&[1, 0, 2, 3]).reshape([n, t, hq * dv]).cast(dtype);
    all([y, last[0].cast(state_type)])
}
