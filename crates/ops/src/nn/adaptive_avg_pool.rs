//! `adaptive_avg_pool`: means of windows chosen so that a given number of them cover the input.

use super::window::{PerAxis, along_axis, spatial, table, table_size};
use crate::rules::{expand_wide, f64s, float, floats, one};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Shape, Value};
use std::ops::Range;

/// The row of `adaptive_avg_pool`.
pub static OP: Op = Op {
    name: "adaptive_avg_pool",
    doc: "The means of `out` windows that cover the spatial dimensions of x[N, C, *S]: window i goes from ⌊i S / out⌋ \
          to ⌈(i + 1) S / out⌉.",
    attrs: &[("out", AttrKind::Ints)],
    infer: |c| {
        let shape = check(c)?;
        float(c, 0)?;
        for (&size, &out) in c.shape(0)[2..].iter().zip(&shape[2..]) {
            weights_size(size, out)?;
        }
        one(c.dtype(0), shape)
    },
    meaning: Meaning::Composite(body),
    cases: || {
        let out = |n: &[i64]| Attrs::new().with("out", n);
        vec![
            Case::new(vec![floats([1, 2, 5], 1)], out(&[3])),
            Case::new(vec![floats([1, 1, 4, 5], 2)], out(&[2, 3])),
            Case::new(vec![floats([2, 1, 3], 3)], out(&[5])),
            Case::new(vec![f64s([1, 1, 5], &[1.0, 2.0, 3.0, 4.0, 5.0])], out(&[3]))
                .expect(vec![f64s([1, 1, 3], &[1.5, 3.0, 4.5])], "by hand: windows 0..2, 1..4, 3..5"),
        ]
    },
    ..Op::DEFAULT
};

/// One input with a spatial dimension for each entry of `out`; the result's shape.
pub(super) fn check(c: &Call) -> Result<Shape> {
    c.arity(1)?;
    let (shape, out) = (c.shape(0), c.attrs.sizes("out")?);
    if shape.rank() < 3 || out.len() + 2 != shape.rank() || shape[2..].contains(&0) {
        return Err(Error::shape(format!("takes [N, C, *S] and a size for each of S, not {shape} and {out:?}")));
    }
    Ok(shape[..2].iter().chain(&out).copied().collect())
}

/// Where window `i` of `out` over `size` elements lies.
pub(super) fn window(i: usize, size: usize, out: usize) -> Range<usize> {
    i * size / out..((i + 1) * size).div_ceil(out)
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let out = c.attrs.sizes("out")?;
    let shape = c.shape(0);
    // Windows of one size that do not overlap are means of all axes at once.
    if out.iter().zip(&shape[2..]).all(|(&n, &size)| n > 0 && size.is_multiple_of(n)) {
        let cut: Vec<usize> = out.iter().zip(&shape[2..]).flat_map(|(&n, &size)| [n, size / n]).collect();
        let whole: Vec<usize> = [&shape[..2], &cut].concat();
        let axes: Vec<i64> = (0..out.len()).map(|i| 2 * i as i64 + 3).collect();
        return expand_wide(args, |v| Ok(vec![v[0].reshape(whole).mean(&axes[..])]));
    }
    expand_wide(args, |v| {
        let mut y = v[0].clone();
        for (i, &n) in out.iter().enumerate() {
            y = along(&y, i + 2, n)?;
        }
        Ok(vec![y])
    })
}

/// Windows lie side by side: no weights are needed.
fn is_even(size: usize, out: usize) -> bool {
    out > 0 && size.is_multiple_of(out)
}

/// How many weights take `size` elements to `out` means, refused where they are too many.
pub(super) fn weights_size(size: usize, out: usize) -> Result<usize> {
    if is_even(size, out) { Ok(0) } else { table_size(&[size, out]) }
}

/// Means of `out` windows along one axis.
fn along(x: &Tensor, axis: usize, out: usize) -> Result<Tensor> {
    let mut shape = x.shape()?;
    let size = shape[axis];
    if size == out {
        return Ok(x.clone());
    }
    if is_even(size, out) {
        shape.dims_mut()[axis] = out;
        shape.insert(axis + 1, size / out);
        return Ok(x.reshape(shape).sum(axis + 1) / (size / out) as f64);
    }
    let mut weights = vec![0.0; weights_size(size, out)?];
    for i in 0..out {
        let w = window(i, size, out);
        w.clone().for_each(|s| weights[s * out + i] = 1.0 / w.len() as f64);
    }
    Ok(along_axis(x, axis, &table([size, out], &weights)))
}

impl Tensor {
    /// The means of `out` windows that cover `[N, C, L]` (or `[C, L]`).
    #[track_caller]
    pub fn adaptive_avg_pool1d(&self, out: impl Into<PerAxis>) -> Tensor {
        self.adaptive_avg_pool_nd(1, "adaptive_avg_pool1d", &out.into())
    }
    /// The means of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`).
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// let x = Tensor::from([[[1.0f32, 2.0], [4.0, 3.0]]]);
    /// assert_eq!(x.adaptive_avg_pool2d(1).to_vec::<f32>().unwrap(), [2.5]);
    /// ```
    #[track_caller]
    pub fn adaptive_avg_pool2d(&self, out: impl Into<PerAxis>) -> Tensor {
        self.adaptive_avg_pool_nd(2, "adaptive_avg_pool2d", &out.into())
    }
    /// The means of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`).
    #[track_caller]
    pub fn adaptive_avg_pool3d(&self, out: impl Into<PerAxis>) -> Tensor {
        self.adaptive_avg_pool_nd(3, "adaptive_avg_pool3d", &out.into())
    }
    #[track_caller]
    fn adaptive_avg_pool_nd(&self, rank: usize, op: &str, out: &PerAxis) -> Tensor {
        let [y] = spatial(self, rank, op, |x, _| {
            let out = out.resolve(rank, "out")?;
            Ok([Tensor::apply1(&OP, &[x], Attrs::new().with("out", out.as_slice()))])
        });
        y
    }
    /// The mean of each channel of `[N, C, *S]`: `[N, C]`.
    #[track_caller]
    pub fn global_avg_pool(&self) -> Tensor {
        self.then(|t| Ok(self.mean((2..t.shape.rank().max(2)).collect::<Vec<usize>>())))
    }
    /// The largest element of each channel of `[N, C, *S]`: `[N, C]`.
    #[track_caller]
    pub fn global_max_pool(&self) -> Tensor {
        self.then(|t| Ok(self.max((2..t.shape.rank().max(2)).collect::<Vec<usize>>())))
    }
}
