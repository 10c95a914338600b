//! Losses.

use super::{Row, row};
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Result};
use tensor::Tensor;

pub static ROWS: &[Row] = &[
    row("NegativeLogLikelihoodLoss", 12, |c| {
        let x = c.x(0)?;
        Ok(vec![likelihood(c, &x)?.into()])
    }),
    row("SoftmaxCrossEntropyLoss", 12, |c| {
        let x = c.x(0)?;
        let log = x.log_softmax(1);
        Ok(vec![likelihood(c, &log)?.into(), Value::from(log)])
    }),
];

/// The weighted mean, sum or list of the negative logarithms at the targets.
fn likelihood(c: &Call<'_>, log: &Tensor) -> Result<Tensor> {
    let dtype = log.dtype()?;
    let target = c.x(1)?.cast(DType::I64);
    let ignored = c.attribute("ignore_index").map(|_| c.int("ignore_index", -1));
    let is_used = ignored.map(|i| target.ne(i));
    let at = match &is_used {
        Some(u) => Tensor::where_(u, &target, &target.zeros_like()),
        None => target.clone(),
    };
    let picked = -log.gather(1, &at.unsqueeze(1)).squeeze(1);
    let mut weight = c.opt(2)?.map(|w| w.take(&at, 0));
    if let Some(u) = &is_used {
        let used = u.cast(dtype);
        weight = Some(match weight {
            Some(w) => w * used,
            None => used,
        });
    }
    let loss = match &weight {
        Some(w) => &picked * w,
        None => picked,
    };
    Ok(match c.text("reduction", "mean") {
        "none" => loss,
        "sum" => loss.sum(..),
        "mean" => match weight {
            Some(w) => loss.sum(..) / w.sum(..),
            None => loss.mean(..),
        },
        r => return Err(Error::value(format!("reduction is {r:?}"))),
    })
}
