//! Strings, and operators of ONNX's machine-learning domain that look things up.

use super::{Outs, Row, of, row};
use crate::graph::Attribute;
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result, Shape};
use rustc_hash::FxHashMap;

const ML: &str = "ai.onnx.ml";

pub static ROWS: &[Row] = &[
    row("StringConcat", 20, |c| {
        let ((sa, a), (sb, b)) = (c.strings(0)?, c.strings(1)?);
        let shape = sa.broadcast(sb).ok_or_else(|| Error::shape(format!("{sa} and {sb} do not broadcast")))?;
        c.check_count(shape.count(), DType::F64)?;
        let (la, lb) = (places(sa, &shape), places(sb, &shape));
        let joined = (0..shape.count()).map(|i| format!("{}{}", a[la[i]], b[lb[i]])).collect();
        Ok(vec![Value::strings(shape, joined)])
    }),
    row("StringSplit", 20, split),
    row("StringNormalizer", 10, normalize),
    row("TfIdfVectorizer", 9, tf_idf),
    of(ML, "LabelEncoder", 1, label_encoder),
    of(ML, "ArrayFeatureExtractor", 1, |c| {
        let (x, at) = (c.x(0)?, c.x(1)?.ravel());
        let last = x.rank()?.max(1) as i64 - 1;
        let y = x.take(&at.cast(DType::I64), last);
        super::one(if last == 0 { y.unsqueeze(0) } else { y })
    }),
    of(ML, "Binarizer", 1, |c| {
        let x = c.x(0)?;
        super::one(x.gt(c.float("threshold", 0.0)).cast(x.dtype()?))
    }),
];

/// Where each element of a broadcast tensor comes from.
pub fn places(from: &Shape, to: &Shape) -> Vec<usize> {
    let layout = ir::Layout::contiguous(from).broadcast_to(to);
    (0..to.count()).map(|i| layout.position(i)).collect()
}

fn split(c: &Call<'_>) -> Outs {
    let (shape, strings) = c.strings(0)?;
    let (by, most) = (c.text("delimiter", ""), c.attribute("maxsplit").map(|_| c.int("maxsplit", 0).max(0) as usize));
    let cut = |s: &String| -> Vec<String> {
        if !by.is_empty() {
            let parts = most.map_or(usize::MAX, |m| m.saturating_add(1));
            return s.splitn(parts, by).map(str::to_string).collect();
        }
        let mut out = Vec::new();
        let mut rest = s.trim_start();
        while !rest.is_empty() {
            let end = if most.is_some_and(|m| out.len() >= m) { None } else { rest.find(char::is_whitespace) };
            let Some(end) = end else {
                out.push(rest.trim_end().to_string());
                break;
            };
            out.push(rest[..end].to_string());
            rest = rest[end..].trim_start();
        }
        out
    };
    let lists: Vec<Vec<String>> = strings.iter().map(cut).collect();
    let width = lists.iter().map(Vec::len).max().unwrap_or(0);
    c.check_count(width.saturating_mul(lists.len()), DType::F64)?;
    let counts: Vec<i64> = lists.iter().map(|l| l.len() as i64).collect();
    let mut wide = shape.clone();
    wide.push(width);
    let padded = lists.into_iter().flat_map(|mut l| {
        l.resize(width, String::new());
        l
    });
    let counts = Literal::from_i64(DType::I64, shape.clone(), &counts);
    Ok(vec![Value::strings(wide, padded.collect()), counts.into()])
}

fn normalize(c: &Call<'_>) -> Outs {
    let (shape, strings) = c.strings(0)?;
    let (action, is_exact) = (c.text("case_change_action", "NONE"), c.flag("is_case_sensitive"));
    let changed = |s: &str| match action {
        "LOWER" => s.to_lowercase(),
        "UPPER" => s.to_uppercase(),
        _ => s.to_string(),
    };
    let stop: Vec<String> = c.texts("stopwords").unwrap_or_default().to_vec();
    let is_stop = |s: &str| {
        if is_exact { stop.iter().any(|w| w == s) } else { stop.iter().any(|w| w.to_lowercase() == s.to_lowercase()) }
    };
    let kept: Vec<String> = strings.iter().filter(|s| !is_stop(s)).map(|s| changed(s)).collect();
    let kept = if kept.is_empty() { vec![String::new()] } else { kept };
    let out: Shape = match shape.rank() {
        1 => [kept.len()].into(),
        2 if shape[0] == 1 => [1, kept.len()].into(),
        _ => return Err(Error::shape(format!("strings [C] or [1, C] are needed, not {shape}"))),
    };
    Ok(vec![Value::strings(out, kept)])
}

fn tf_idf(c: &Call<'_>) -> Outs {
    let starts = c.list("ngram_counts").unwrap_or_default();
    let columns = c.list("ngram_indexes").unwrap_or_default();
    let (least, most) =
        (c.int("min_gram_length", 1).max(1) as usize, c.int("max_gram_length", 1).clamp(0, 64) as usize);
    let skips = c.int("max_skip_count", 0).clamp(0, 1 << 20) as usize;
    // Words and numbers are compared as text.
    let (shape, items): (Shape, Vec<String>) = match c.value(0) {
        Value::Strings(s, v) => (s.clone(), v.to_vec()),
        _ => {
            let l = c.host(0)?;
            (l.shape().clone(), l.to_i64().iter().map(i64::to_string).collect())
        }
    };
    let pool: Vec<String> = match (c.texts("pool_strings"), c.list("pool_int64s")) {
        (Some(p), _) => p.to_vec(),
        (_, Some(p)) => p.iter().map(i64::to_string).collect(),
        _ => return Err(Error::value("there is no pool of n-grams")),
    };
    let mut grams: FxHashMap<&[String], usize> = FxHashMap::default();
    let mut next = 0;
    for (k, &start) in starts.iter().enumerate() {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = starts.get(k + 1).map_or(pool.len(), |&e| usize::try_from(e).unwrap_or(0));
        let part = pool.get(start..end).ok_or_else(|| Error::value("ngram_counts do not fit the pool"))?;
        for gram in part.chunks_exact(k + 1) {
            grams.insert(gram, next);
            next += 1;
        }
    }
    let width = columns.iter().copied().max().map_or(0, |m| usize::try_from(m).unwrap_or(0) + 1);
    let (rows, length) = match shape.dims() {
        [] => (1, 1),
        [n] => (1, *n),
        [b, n] => (*b, *n),
        _ => return Err(Error::shape(format!("items [C] or [B, C] are needed, not {shape}"))),
    };
    c.check_count(rows.saturating_mul(width), DType::F32)?;
    let weights = c.float_list("weights");
    let mode = c.text("mode", "TF");
    let mut out = vec![0f64; rows * width];
    for r in 0..rows {
        let row = &items[r * length..(r + 1) * length];
        for size in least..=most {
            // Single items do not depend on the distance.
            let distances = if size == 1 { 1 } else { skips + 1 };
            for d in 1..=distances.min(length.max(1)) {
                for i in 0..length.saturating_sub((size - 1) * d) {
                    let gram: Vec<String> = (0..size).map(|k| row[i + k * d].clone()).collect();
                    if let Some(&g) = grams.get(gram.as_slice())
                        && let Some(col) = columns.get(g).and_then(|&col| usize::try_from(col).ok())
                    {
                        out[r * width + col] += 1.0;
                    }
                }
            }
        }
        for (g, &col) in columns.iter().enumerate() {
            let at = r * width + usize::try_from(col).unwrap_or(0);
            let w = weights.as_ref().and_then(|w| w.get(g)).map_or(1.0, |&w| f64::from(w));
            out[at] = match mode {
                "TF" => out[at],
                "IDF" => {
                    if out[at] > 0.0 {
                        w
                    } else {
                        0.0
                    }
                }
                "TFIDF" => out[at] * w,
                m => return Err(Error::value(format!("mode is {m:?}"))),
            };
        }
    }
    let shape: Shape = if shape.rank() == 2 { [rows, width].into() } else { [width].into() };
    Ok(vec![Literal::from_f64(DType::F32, shape, &out).into()])
}

/// Labels as text, with what they are made of.
fn labels(c: &Call<'_>, which: &str) -> Option<(Vec<String>, DType)> {
    if let Some(t) = c.texts(&format!("{which}_strings")) {
        return Some((t.to_vec(), DType::U8));
    }
    if let Some(l) = c.list(&format!("{which}_int64s")) {
        return Some((l.iter().map(i64::to_string).collect(), DType::I64));
    }
    if let Some(l) = c.float_list(&format!("{which}_floats")) {
        return Some((l.iter().map(f32::to_string).collect(), DType::F32));
    }
    match c.attribute(&format!("{which}_tensor")) {
        Some(Attribute::Value(Value::Strings(_, s))) => Some((s.to_vec(), DType::U8)),
        Some(Attribute::Value(Value::Tensor(t))) => t.host.as_ref().map(|l| (written(l), l.dtype())),
        _ => None,
    }
}

fn written(l: &Literal) -> Vec<String> {
    match l.dtype() {
        DType::F32 => l.to_f64().iter().map(|&x| (x as f32).to_string()).collect(),
        d if d.is_float() => l.to_f64().iter().map(f64::to_string).collect(),
        _ => l.to_i64().iter().map(i64::to_string).collect(),
    }
}

fn label_encoder(c: &Call<'_>) -> Outs {
    let missing = || Error::value("keys or values are missing");
    let ((keys, _), (values, kind)) =
        (labels(c, "keys").ok_or_else(missing)?, labels(c, "values").ok_or_else(missing)?);
    let table: FxHashMap<&String, &String> = keys.iter().zip(&values).collect();
    let (shape, items) = match c.value(0) {
        Value::Strings(s, v) => (s.clone(), v.to_vec()),
        _ => {
            let l = c.host(0)?;
            (l.shape().clone(), written(&l))
        }
    };
    let other = match (kind, c.attribute("default_tensor")) {
        (_, Some(Attribute::Value(Value::Strings(_, s)))) => s.first().cloned().unwrap_or_default(),
        (_, Some(Attribute::Value(Value::Tensor(t)))) => {
            t.host.as_ref().and_then(|l| written(l).into_iter().next()).unwrap_or_default()
        }
        (DType::U8, _) => c.text("default_string", "_Unused").to_string(),
        (DType::F32, _) => c.float("default_float", -0.0).to_string(),
        _ => c.int("default_int64", -1).to_string(),
    };
    let found: Vec<String> =
        items.iter().map(|k| table.get(k).map_or_else(|| other.clone(), |v| (*v).clone())).collect();
    if kind == DType::U8 {
        return Ok(vec![Value::strings(shape, found)]);
    }
    let numbers = found.iter().map(|s| s.parse::<f64>().map_err(|_| Error::value(format!("{s:?} is not a number"))));
    Ok(vec![Literal::from_f64(kind, shape, &numbers.collect::<Result<Vec<_>>>()?).into()])
}
