//! `pixel_shuffle`: channels spread over finer pixels.

use crate::rules::{by_expansion, expand1, f64s, floats, product};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The row of `pixel_shuffle`.
pub static OP: Op = Op {
    name: "pixel_shuffle",
    doc: "Channels spread over pixels `factor` times as fine: [.., c·f², h, w] becomes [.., c, h·f, w·f].",
    attrs: &[("factor", AttrKind::Int)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |f: i64| Attrs::new().with("factor", f);
        vec![
            Case::new(vec![floats([1, 8, 1, 2], 1)], by(2)),
            Case::new(vec![f64s([4, 1, 1], &[1., 2., 3., 4.])], by(2))
                .expect(vec![f64s([1, 2, 2], &[1., 2., 3., 4.])], "by hand, from PyTorch's definition"),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let f = c.attrs.size("factor")?;
    let (lead, [channels, h, w]) = super::planes(c)?;
    let block = product(&[f, f])?;
    if f == 0 || channels % block != 0 {
        return Err(Error::shape(format!("{channels} channels are no multiple of {f}²")));
    }
    let with = |tail: &[usize]| -> Shape { lead.iter().chain(tail).copied().collect() };
    let n = lead.len() as i64;
    let order: Vec<i64> = (0..n).chain([n, n + 3, n + 1, n + 4, n + 2]).collect();
    let k = channels / block;
    let (high, wide) = (product(&[h, f])?, product(&[w, f])?);
    expand1(x, |x| x[0].reshape(with(&[k, f, f, h, w])).permute(&order).reshape(with(&[k, high, wide])))
}

impl Tensor {
    /// Channels spread over pixels `factor` times as fine: `[.., c·f², h, w]` becomes
    /// `[.., c, h·f, w·f]`.
    #[track_caller]
    pub fn pixel_shuffle(&self, factor: usize) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("factor", factor))
    }
}
