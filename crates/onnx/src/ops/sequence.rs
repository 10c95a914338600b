//! Sequences and optionals: lists on the host.

use super::{Outs, Row, row};
use crate::run::Call;
use crate::value::Value;
use ir::{Error, Literal, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("SequenceConstruct", 11, |c| Ok(vec![Value::Sequence(c.inputs.clone())])),
    row("SequenceEmpty", 11, |_| Ok(vec![Value::Sequence(Vec::new())])),
    row("SequenceLength", 11, |c| Ok(vec![Literal::scalar(list(c, 0)?.len() as i64).into()])),
    row("SequenceAt", 11, |c| {
        let l = list(c, 0)?;
        Ok(vec![l[place(c, 1, l.len(), false)?].clone()])
    }),
    row("SequenceInsert", 11, |c| {
        let mut l = list(c, 0)?.to_vec();
        let at = if c.has(2) { place(c, 2, l.len(), true)? } else { l.len() };
        l.insert(at, c.value(1).clone());
        Ok(vec![Value::Sequence(l)])
    }),
    row("SequenceErase", 11, |c| {
        let mut l = list(c, 0)?.to_vec();
        let at = if c.has(1) { place(c, 1, l.len(), false)? } else { l.len().wrapping_sub(1) };
        if at >= l.len() {
            return Err(Error::index("the sequence is empty"));
        }
        l.remove(at);
        Ok(vec![Value::Sequence(l)])
    }),
    row("SplitToSequence", 11, split),
    row("ConcatFromSequence", 11, |c| {
        let parts = list(c, 0)?.iter().map(tensor).collect::<Result<Vec<_>>>()?;
        let is_new = c.flag("new_axis");
        let rank = parts.first().ok_or_else(|| Error::value("the sequence is empty"))?.rank()?;
        let along = tensor::axis(c.int("axis", 0), rank + usize::from(is_new))? as i64;
        super::one(if is_new { Tensor::stack(&parts, along) } else { Tensor::concat(&parts, along) })
    }),
    row("SequenceMap", 17, map),
    row("Optional", 15, |c| {
        let v = c.value(0);
        Ok(vec![Value::Optional((!v.is_missing()).then(|| Box::new(v.clone())))])
    }),
    row("OptionalHasElement", 15, |c| {
        let has = !matches!(c.value(0), Value::Missing | Value::Optional(None));
        Ok(vec![Literal::scalar(has).into()])
    }),
    row("OptionalGetElement", 15, |c| match c.value(0) {
        Value::Optional(Some(v)) => Ok(vec![(**v).clone()]),
        Value::Optional(None) | Value::Missing => Err(Error::value("the optional is empty")),
        v => Ok(vec![v.clone()]),
    }),
];

fn tensor(v: &Value) -> Result<Tensor> {
    match v {
        Value::Tensor(t) => Ok(t.tensor.clone()),
        v => Err(Error::dtype(format!("a tensor is needed, not {}", v.describe()))),
    }
}

fn list<'a>(c: &'a Call<'_>, i: usize) -> Result<&'a [Value]> {
    match c.value(i) {
        Value::Sequence(l) => Ok(l),
        Value::Optional(Some(v)) => match &**v {
            Value::Sequence(l) => Ok(l),
            v => Err(Error::dtype(format!("input {i} must be a sequence, not {}", v.describe()))),
        },
        v => Err(Error::dtype(format!("input {i} must be a sequence, not {}", v.describe()))),
    }
}

/// A place in a list, counted from the end if negative.
fn place(c: &Call<'_>, i: usize, len: usize, may_be_end: bool) -> Result<usize> {
    let at = c.ints(i)?.first().copied().unwrap_or(0);
    let n = len as i64;
    let from = if at < 0 { at + n } else { at };
    if from < 0 || from > n || (from == n && !may_be_end) {
        return Err(Error::index(format!("place {at} in a sequence of {len}")));
    }
    Ok(from as usize)
}

fn split(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let along = c.axis(0, x.rank()?)?;
    let n = x.shape()?[along];
    let (sizes, is_kept) = if c.has(1) {
        let l = c.host(1)?;
        let sizes = super::shape_of(&l.to_i64())?.to_vec();
        if l.shape().rank() == 0 {
            let size = sizes[0].max(1);
            ((0..n.div_ceil(size)).map(|i| size.min(n - i * size)).collect(), true)
        } else {
            (sizes, true)
        }
    } else {
        (vec![1; n], c.int("keepdims", 1) != 0)
    };
    if sizes.iter().sum::<usize>() != n {
        return Err(Error::shape(format!("parts {sizes:?} do not add up to {n}")));
    }
    let parts = x.split_sizes(&sizes, along as i64);
    let parts = parts.into_iter().map(|t| if is_kept { t } else { t.squeeze(along as i64) });
    Ok(vec![Value::Sequence(parts.map(Value::from).collect())])
}

fn map(c: &Call<'_>) -> Outs {
    let body = c.graph("body")?;
    let n = list(c, 0)?.len();
    let mut out: Vec<Vec<Value>> = vec![Vec::new(); body.outputs.len()];
    for k in 0..n {
        let mut inputs = Vec::new();
        for i in 0..c.inputs.len() {
            inputs.push(match c.value(i) {
                Value::Sequence(l) => l.get(k).cloned().ok_or_else(|| Error::value("sequences differ in length"))?,
                v => v.clone(),
            });
        }
        let outs = c.scope.graph(&body, inputs)?;
        out.iter_mut().zip(outs).for_each(|(o, v)| o.push(v));
    }
    Ok(out.into_iter().map(Value::Sequence).collect())
}
