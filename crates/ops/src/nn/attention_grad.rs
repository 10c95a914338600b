//! `attention_grad`: gradients of attention for queries, keys and values.

use super::attention::{ATTRS, Heads, attrs, check};
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
        let Gradients { q, k, v, .. } = gradients(&heads, &a[3], &a[4], &a[5], None)?;
        Ok(vec![q, k, v])
    })
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
