//! How attention and its gradient are cut: along sequences, heads and queries. Causal attention of a part of the
//! queries is that of each run of them with the keys before it, all seen, and with those of the run itself. Both meet
//! by the logarithms of their sums.

use super::attention::{OP, attrs, joined};
use super::attention_grad;
use crate::rules::expand;
use crate::{Error, Result, Tensor};
use ir::{Call, DType, Factors, Portion, Shape, Value};
use std::ops::Range;

/// The letter of queries.
const QUERIES: char = 'L';

/// The factors of attention, whose optional inputs begin at `first`, or of its gradient. Weights that are dropped are
/// drawn by their place among all, so that nothing is cut.
pub(super) fn factors(c: &Call, first: usize) -> Factors {
    let (q, k, v) = (c.shape(0), c.shape(1), c.shape(2));
    let is_grad = first == 6;
    let rank = q.rank();
    let outs: Vec<ir::Type> = if is_grad {
        c.types[..3].to_vec()
    } else {
        let rows: Shape = q[..rank - 1].into();
        let mut y = rows.clone();
        y.push(v[v.rank() - 1]);
        [y, rows].map(|s| ir::Type::new(c.dtype(0), s)).to_vec()
    };
    let rest = &c.types[first..];
    let is_plain =
        [k, v].iter().all(|s| s.rank() == rank && s[..rank.saturating_sub(3)] == q[..rank.saturating_sub(3)])
            && k[..rank - 1] == v[..rank - 1]
            && rank <= 8
            && rest.iter().all(|t| t.dtype != DType::I64 && (t.dtype == DType::I32 || t.shape.rank() <= rank));
    if !is_plain {
        return Factors::whole(c.types, &outs);
    }
    let has_lengths = rest.iter().any(|t| t.dtype == DType::I32);
    let row = if has_lengths { '.' } else { QUERIES };
    // Sequences, and the heads of queries. Keys that all heads share are whole along heads.
    let lead = |s: &[usize]| -> String {
        let skip = rank - 2 - s.len();
        (0..s.len()).map(|i| if s[i] == 1 { '.' } else { (b'a' + (skip + i) as u8) as char }).collect()
    };
    let on = |s: &Shape, row: char, end: &str| format!("{}{row}{end}", lead(&s[..rank - 2]));
    let (of_q, of_k) = (on(q, row, "."), on(k, '.', "."));
    let mut inputs = vec![of_q.clone(), of_k.clone(), of_k.clone()];
    if is_grad {
        inputs.extend([of_q.clone(), on(q, row, ""), of_q.clone()]);
    }
    for t in rest {
        let s = &t.shape;
        inputs.push(if t.dtype == DType::I32 {
            format!(".{}", lead(&q[..rank - 2]).chars().take(s.rank() - 1).collect::<String>())
        } else {
            let of_row = if s[s.rank() - 2] == 1 { '.' } else { row };
            format!("{}{of_row}.", lead(&s[..s.rank() - 2]))
        });
    }
    let outputs = if is_grad { vec![of_q, of_k.clone(), of_k] } else { vec![of_q, on(q, row, "")] };
    fn as_str(list: &[String]) -> Vec<&str> {
        list.iter().map(String::as_str).collect()
    }
    let f = Factors::of(&as_str(&inputs), &as_str(&outputs));
    let queries = f.inputs[0][rank - 2];
    let is_causal = c.attrs.bool("causal").unwrap_or(true);
    let f = if is_grad { f.summing(queries) } else { f };
    if is_causal && queries.is_some() { f.looked_up(rank - 2) } else { f }
}

/// A run of queries beside keys that they see: those before it, all of them, or those of the run, each up to itself.
struct Piece {
    /// Where the run begins among the queries of the part.
    at: usize,
    queries: usize,
    keys: Range<usize>,
    is_causal: bool,
}

/// What a part of the queries consists of, run by run.
fn pieces(part: &Portion, keys: usize) -> Vec<Vec<Piece>> {
    let mut at = 0;
    let mut one = |r: &Range<usize>| -> Vec<Piece> {
        let piece = |keys: Range<usize>, is_causal: bool| Piece { at, queries: r.len(), keys, is_causal };
        let all = [piece(0..r.start.min(keys), false), piece(r.start.min(keys)..r.end.min(keys), true)];
        at += r.len();
        all.into_iter().filter(|p| !p.keys.is_empty()).collect()
    };
    part.runs.iter().filter(|r| !r.is_empty()).map(&mut one).collect()
}

/// The part of a mask.
fn masked(rest: &[Tensor], p: &Piece) -> Result<Vec<Tensor>> {
    let one = |m: &Tensor| -> Result<Tensor> {
        let s = m.shape()?;
        let along = |t: Tensor, dim: i64, size: usize, r: Range<usize>| {
            if size == 1 { t } else { t.narrow(dim, r.start, r.len()) }
        };
        let rows = along(m.clone(), -2, s[s.rank() - 2], p.at..p.at + p.queries);
        Ok(along(rows, -1, s[s.rank() - 1], p.keys.clone()))
    };
    rest.iter().map(one).collect()
}

/// Causal attention of a part of the queries.
pub(super) fn forward(c: &Call, args: &[Value], part: &Portion) -> Result<Vec<Value>> {
    let (scale, keys) = (c.attrs.float("scale")?, c.shape(1)[c.shape(1).rank() - 2]);
    expand(args, |a| {
        let (mut y, mut lse) = (Vec::new(), Vec::new());
        for run in pieces(part, keys) {
            let mut found: Option<[Tensor; 2]> = None;
            for p in &run {
                let q = a[0].narrow(-2, p.at, p.queries);
                let [k, v] = [1, 2].map(|i| a[i].narrow(-2, p.keys.start, p.keys.len()));
                let rest = masked(&a[3..], p)?;
                let all: Vec<&Tensor> = [&q, &k, &v].into_iter().chain(&rest).collect();
                let got: [Tensor; 2] = Tensor::apply_n(&OP, &all, attrs(p.is_causal, scale, 0.0));
                found = Some(match found {
                    Some(before) => merged(&before, &got, c.dtype(0)),
                    None => got,
                });
            }
            let [of_run, sums] = found.ok_or_else(|| Error::bug("a run of queries that sees no key"))?;
            y.push(of_run);
            lse.push(sums);
        }
        Ok(vec![joined(y, -2), joined(lse, -1)])
    })
}

/// Attention to two sets of keys as one: outputs weighted by their sums of exponentials.
fn merged(a: &[Tensor; 2], b: &[Tensor; 2], dtype: DType) -> [Tensor; 2] {
    let most = a[1].maximum(&b[1]);
    // A query that sees nothing has no greatest score.
    let most = Tensor::where_(&most.gt(f64::NEG_INFINITY), &most, 0.0);
    let (of_a, of_b) = ((&a[1] - &most).exp(), (&b[1] - &most).exp());
    let sum = &of_a + &of_b;
    let least = Tensor::where_(&sum.gt(0.0), &sum, 1.0);
    let share = |x: &Tensor, of: &Tensor| x.widened() * (of / &least).unsqueeze(-1);
    [(share(&a[0], &of_a) + share(&b[0], &of_b)).cast(dtype), most + sum.log()]
}

/// Its gradients: those of queries are parts, those of keys and values terms.
pub(super) fn backward(c: &Call, args: &[Value], part: &Portion) -> Result<Vec<Value>> {
    let (scale, keys) = (c.attrs.float("scale")?, c.shape(1)[c.shape(1).rank() - 2]);
    expand(args, |a| {
        let (mut of_q, mut of_k, mut of_v) = (Vec::new(), Vec::new(), Vec::new());
        for run in pieces(part, keys) {
            let mut sum: Option<Tensor> = None;
            for p in &run {
                let rows = |i: usize| a[i].narrow(if i == 4 { -1 } else { -2 }, p.at, p.queries);
                let [q, y, lse, g] = [0, 3, 4, 5].map(rows);
                let [k, v] = [1, 2].map(|i| a[i].narrow(-2, p.keys.start, p.keys.len()));
                let rest = masked(&a[6..], p)?;
                let all: Vec<&Tensor> = [&q, &k, &v, &y, &lse, &g].into_iter().chain(&rest).collect();
                let [q, k, v] = Tensor::apply_n(&attention_grad::OP, &all, attrs(p.is_causal, scale, 0.0));
                sum = Some(sum.map_or(q.clone(), |s| s + q));
                of_k.push((p.keys.clone(), k));
                of_v.push((p.keys.clone(), v));
            }
            of_q.extend(sum);
        }
        Ok(vec![joined(of_q, -2), spread(&of_k, keys)?, spread(&of_v, keys)?])
    })
}

/// The sum of what ranges of keys have, for all keys.
fn spread(parts: &[(Range<usize>, Tensor)], keys: usize) -> Result<Tensor> {
    let mut ends: Vec<usize> = parts.iter().flat_map(|(r, _)| [r.start, r.end]).chain([0, keys]).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut all = Vec::new();
    for w in ends.windows(2) {
        let has = |(r, _): &&(Range<usize>, Tensor)| r.start <= w[0] && w[1] <= r.end;
        let cut = |(r, t): &(Range<usize>, Tensor)| t.narrow(-2, w[0] - r.start, w[1] - w[0]);
        all.push(match parts.iter().filter(has).map(cut).reduce(|a, b| a + b) {
            Some(sum) => sum,
            None => {
                let mut shape = parts[0].1.shape()?;
                let at = shape.rank() - 2;
                shape.dims_mut()[at] = w[1] - w[0];
                Tensor::full_of(shape, 0.0, parts[0].1.dtype()?)
            }
        });
    }
    Ok(joined(all, -2))
}
