//! `attention_grad`: gradients of attention for queries, keys and values.

use super::attention::{ATTRS, Heads, attrs, check, joined};
use super::attention_part;
use crate::rules::{expand, f64s, floats, i64s, unbroadcast};
use crate::{Error, Result, Tensor};
use ir::{Call, Case, DType, Literal, Meaning, Op, Value};

/// The row of `attention_grad`.
pub static OP: Op = Op {
    name: "attention_grad",
    doc: "Gradients of `attention` for q, k and v, from these, its two results y and lse, the gradient g of y, and \
          the optional inputs of `attention`.",
    attrs: &ATTRS,
    infer: |c| {
        if !(6..=9).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 6 to 9 inputs, but {} were given", c.types.len())));
        }
        check(c, 6)?;
        if c.types[3] != c.types[5] {
            return Err(Error::shape(format!("the result is {}, but its gradient {}", c.types[3], c.types[5])));
        }
        let rows = c.shape(3).split_last().map(|(_, rows)| rows);
        if rows != Some(c.shape(4).dims()) {
            let e = format!("logarithms must have the shape {} but for its end, not {}", c.shape(3), c.shape(4));
            return Err(Error::shape(e));
        }
        Ok(c.types[..3].iter().cloned().collect())
    },
    meaning: Meaning::Composite(body),
    shard: ir::Shard::Rule(|c| Ok(attention_part::factors(c, 6))),
    on_part: Some(attention_part::backward),
    cases: || {
        let with = |causal: bool, scale: f64| attrs(causal, scale, 0.0);
        // Logarithms above every score, as they are.
        let lse = |n: &[usize]| crate::rules::sample(DType::F64, n, 9, (3.0, 4.0));
        let all = |q: &[usize], k: &[usize]| {
            vec![floats(q, 1), floats(k, 2), floats(k, 3), floats(q, 4), lse(&q[..q.len() - 1]), floats(q, 5)]
        };
        let mut masked = all(&[2, 2], &[2, 2]);
        masked.push(Literal::generate([2, 2], |i| i != 1));
        // Three queries and two keys of three count, and some of the weights.
        let mut dropped = all(&[1, 4, 3, 1], &[1, 2, 3, 1]);
        dropped.extend([Literal::generate([2, 1], |i| 3 - i as i32), i64s([2], &[3, 4])]);
        let two = |a: f64, b: f64| f64s([2, 1], &[a, b]);
        let one = |a: f64| f64s([1, 1], &[a]);
        vec![
            Case::new(all(&[2, 2], &[2, 2]), with(true, 0.7)),
            Case::new(all(&[4, 1, 2], &[2, 2, 2]), with(false, 0.5)),
            Case::new(masked, with(false, 0.5)),
            Case::new(dropped, attrs(true, 0.5, 0.4)),
            Case::new(
                vec![one(0.0), two(0.0, 1.0), two(1.0, 3.0), one(2.0), f64s([1], &[2f64.ln()]), one(1.0)],
                with(false, 1.0),
            )
            .expect(
                vec![one(0.5), two(0.0, 0.0), two(0.5, 0.5)],
                "by hand: weights (1/2, 1/2), of which the scores' gradient is (-1/2, 1/2)",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand(args, |a| {
        let heads = Heads::new(&a[0], &a[1], &a[2], &a[6..], c.attrs)?;
        let parts = heads.parts()?;
        if parts.len() == 1 {
            let Gradients { q, k, v, .. } = gradients(&heads, &a[3], &a[4], &a[5], None)?;
            return Ok(vec![q, k, v]);
        }
        let (mut of_q, mut of_keys, mut of_values) = (Vec::new(), Vec::new(), Vec::new());
        for part in &parts {
            let count = part.q.shape()?[part.q.rank()? - 2];
            let cut = |t: &Tensor, along: i64| t.narrow(along, part.first, count);
            let got = gradients(part, &cut(&a[3], -2), &cut(&a[4], -1), &cut(&a[5], -2), None)?;
            of_q.push(got.q);
            of_keys.push(got.k);
            of_values.push(got.v);
        }
        let keys = a[1].shape()?[a[1].rank()? - 2];
        Ok(vec![joined(of_q, -2), added(&of_keys, keys)?, added(&of_values, keys)?])
    })
}

/// The sum of gradients for the first keys, of which each part has no fewer than the one before, for all `keys`.
fn added(parts: &[Tensor], keys: usize) -> Result<Tensor> {
    let mut sums = Vec::new();
    let mut start = 0;
    for (i, part) in parts.iter().enumerate() {
        let end = part.shape()?[part.rank()? - 2];
        if end > start {
            let cut = parts[i..].iter().map(|p| p.narrow(-2, start, end - start));
            sums.extend(cut.reduce(|a, b| a + b));
            start = end;
        }
    }
    if start < keys {
        // No query sees the last keys.
        let mut rest = parts[0].shape()?;
        let at = rest.rank() - 2;
        rest.dims_mut()[at] = keys - start;
        sums.push(Tensor::full_of(rest, 0.0, parts[0].dtype()?));
    }
    Ok(joined(sums, -2))
}

/// Gradients for each operand of an attention.
pub(super) struct Gradients {
    pub q: Tensor,
    pub k: Tensor,
    pub v: Tensor,
    /// With heads divided as the operands' are.
    pub mask: Option<Tensor>,
}

/// Gradients from the results and the gradients of both results.
pub(super) fn gradients(
    heads: &Heads,
    y: &Tensor,
    lse: &Tensor,
    g: &Tensor,
    of_lse: Option<&Tensor>,
) -> Result<Gradients> {
    let dtype = g.dtype()?;
    let (y, g) = (heads.as_rows(y)?, heads.as_rows(g)?);
    let lse = heads.column(lse)?;
    // The weights again; a query that sees nothing has none.
    let sees = lse.gt(f64::NEG_INFINITY);
    let weights = (heads.scores()? - Tensor::where_(&sees, &lse, 0.0)).exp();
    let weights = Tensor::where_(&sees, &weights, 0.0);
    let along = heads.unfold(&(&g * &y).widened().sum_keep(-1))?;
    let along = match of_lse {
        Some(l) => along - heads.column(l)?,
        None => along,
    };
    let of_weights = heads.dropped(&heads.unfold(&g.matmul(heads.v.t()))?.widened());
    let of_scores = (&weights * (of_weights - along)).cast(dtype);
    let back = |t: Tensor, to: &Tensor| -> Result<Tensor> { Ok(unbroadcast(t, &to.shape()?)) };
    let of_mask = match &heads.mask {
        Some(m) if m.dtype()?.is_float() => Some(back(of_scores.clone(), m)?),
        _ => None,
    };
    let (narrow, weights) = (heads.fold(&of_scores)?, heads.fold(&heads.dropped(&weights).cast(dtype))?);
    Ok(Gradients {
        q: heads.as_queries(&back(narrow.matmul(&heads.k) * heads.scale, &heads.q)?)?,
        k: back(narrow.t().matmul(&heads.q) * heads.scale, &heads.k)?,
        v: back(weights.t().matmul(&g), &heads.v)?,
        mask: of_mask,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::AttentionOptions;

    /// Causal attention is computed in parts of its queries; with the same mask as a tensor, at once.
    #[test]
    fn parts_of_a_causal_attention_agree_with_the_whole() {
        for (queries, keys) in [(520, 520), (520, 300), (512, 600)] {
            let [q, k, v, g] = [(1, queries), (2, keys), (3, keys), (4, queries)]
                .map(|(seed, n)| Tensor::from(floats([1, n, 2], seed)).cast(DType::F64));
            let seen = Tensor::iota(queries, DType::I64).reshape([queries, 1]).ge(Tensor::iota(keys, DType::I64));
            let run = |mask: Option<&Tensor>, causal: bool| -> Vec<Vec<f64>> {
                let rest: Vec<Tensor> = mask.into_iter().cloned().collect();
                let heads = Heads::new(&q, &k, &v, &rest, &attrs(causal, 0.7, 0.0)).unwrap();
                assert_eq!(heads.parts().unwrap().len() > 1, causal);
                let options = AttentionOptions { causal, mask: mask.cloned(), ..AttentionOptions::default() };
                let leaves = [&q, &k, &v].map(|t| t.requires_grad());
                let y = leaves[0].attention(&leaves[1], &leaves[2], options);
                let of = crate::differentiate::grad(&(&y * &g).sum(..), &leaves).unwrap();
                of.into_iter().chain([y]).map(|t| t.to_vec::<f64>().unwrap()).collect()
            };
            for (a, b) in run(None, true).iter().zip(run(Some(&seen), false)) {
                let worst = a.iter().zip(&b).map(|(x, y)| (x - y).abs()).fold(0.0, f64::max);
                assert!(worst < 1e-9, "{queries} × {keys}: {worst}");
            }
        }
    }
}
