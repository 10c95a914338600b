//! `bilinear`: a map that is linear in each of two inputs.

use crate::rules::{by_expansion, expand_wide, f64s, floats, one_dtype};
use crate::{Error, Result, Tensor};
use ir::{Attrs, Call, Case, Meaning, Op, Shape, Value};

/// The row of `bilinear`.
pub static OP: Op = Op {
    name: "bilinear",
    doc: "y[…, o] = a[…, i] w[o, i, j] b[…, j] summed over i and j, plus optionally a bias [O].",
    infer: |c| {
        if !(3..=4).contains(&c.types.len()) {
            return Err(Error::value(format!("takes 3 or 4 inputs, but {} were given", c.types.len())));
        }
        one_dtype(c)?;
        let (a, b, w) = (c.shape(0), c.shape(1), c.shape(2));
        let fits = a.rank() > 0
            && b.rank() == a.rank()
            && a[..a.rank() - 1] == b[..b.rank() - 1]
            && w.rank() == 3
            && [w[1], w[2]] == [a[a.rank() - 1], b[b.rank() - 1]]
            && c.types.get(3).is_none_or(|t| t.shape.dims() == [w[0]]);
        if !fits {
            let all: Vec<String> = c.types.iter().map(|t| t.shape.to_string()).collect();
            let e = format!("a[…, I], b[…, J], w[O, I, J] and a bias [O] are needed, but came {}", all.join(", "));
            return Err(Error::shape(e));
        }
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    autocast: ir::Autocast::Narrow,
    cases: || {
        vec![
            Case::new(vec![floats([2, 2], 1), floats([2, 3], 2), floats([2, 2, 3], 3), floats([2], 4)], Attrs::new()),
            Case::new(vec![floats([2], 1), floats([2], 2), floats([1, 2, 2], 3)], Attrs::new()),
            Case::new(
                vec![f64s([2], &[1.0, 2.0]), f64s([2], &[3.0, 4.0]), f64s([1, 2, 2], &[1.0, 10.0, 100.0, 1000.0])],
                Attrs::new(),
            )
            .expect(vec![f64s([1], &[8643.0])], "by hand: 1·3 + 10·4 + 100·6 + 1000·8"),
        ]
    },
    ..Op::DEFAULT
};

fn body(_: &Call, args: &[Value]) -> Result<Vec<Value>> {
    expand_wide(args, |v| {
        let (a, b, w) = (v[0].shape()?, v[1].shape()?, v[2].shape()?);
        let rows: usize = a[..a.rank() - 1].iter().product();
        // One matrix product over the first input, then a weighted sum over the second.
        let wide = v[2].permute(&[1, 0, 2]).reshape([w[1], w[0] * w[2]]);
        let half = v[0].reshape([rows, w[1]]).matmul(&wide).reshape([rows, w[0], w[2]]);
        let y = (half * v[1].reshape([rows, 1, b[b.rank() - 1]])).sum(2);
        let shape: Shape = a[..a.rank() - 1].iter().copied().chain([w[0]]).collect();
        let y = y.reshape(shape);
        Ok(vec![if let Some(bias) = v.get(3) { y + bias } else { y }])
    })
}

impl Tensor {
    /// A map linear in this and another tensor: y[…, o] = a[…, i] w[o, i, j] b[…, j], plus a bias `[O]`.
    #[track_caller]
    pub fn bilinear(&self, other: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Tensor {
        self.then(|t| {
            let mut all = vec![self, other, weight];
            all.extend(bias);
            let mut dtype = t.dtype;
            for t in &all {
                dtype = dtype.promote(t.dtype()?);
            }
            let all: Vec<Tensor> = all.into_iter().map(|t| t.cast(dtype)).collect();
            Ok(Tensor::apply1(&OP, &all.iter().collect::<Vec<_>>(), Attrs::new()))
        })
    }
}
