//! `avg_pool`: the mean of each window.

use super::avg_pool_grad;
use super::window::{AvgPoolOptions, PerAxis, Sizes, Windows, reach, spatial, table, table_size};
use crate::rules::{GradTensors, expand_wide, f64s, float, floats, grads, one};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Grad, Meaning, Op, Shape, Value};

/// The attributes of average pooling, lists with one entry for each spatial dimension.
pub(super) const ATTRS: [(&str, AttrKind); 6] = [
    ("window", AttrKind::Ints),
    ("stride", AttrKind::Ints),
    ("padding", AttrKind::Ints),
    ("out", AttrKind::Ints),
    ("count_include_pad", AttrKind::Bool),
    ("divisor", AttrKind::Int),
];

/// The row of `avg_pool`.
pub static OP: Op = Op {
    name: "avg_pool",
    doc: "The sum of each of `out` windows over the spatial dimensions of x[N, C, *S], with `padding` zeros on both \
          sides, divided by `divisor`, or if that is 0 by the number of elements, of which those of the padding \
          count if `count_include_pad`.",
    attrs: &ATTRS,
    infer: |c| {
        c.arity(1)?;
        float(c, 0)?;
        let w = windows(c.attrs, c.shape(0))?;
        one(c.dtype(0), c.shape(0)[..2].iter().chain(&w.out).copied().collect::<Shape>())
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(|c| {
        let attrs = c.attrs.clone().with("shape", &c.inputs[0].ty().shape);
        grads([Tensor::apply1(&avg_pool_grad::OP, &[&c.g(0)], attrs)])
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 1, 5], 1)], by(&[3], &[2], &[1], &[3], false, 0)),
            Case::new(vec![floats([1, 2, 3, 4], 2)], by(&[2, 3], &[1, 2], &[1, 1], &[4, 2], true, 0)),
            Case::new(vec![f64s([1, 1, 4], &[1.0, 2.0, 3.0, 4.0])], by(&[2], &[2], &[0], &[2], true, 0))
                .expect(vec![f64s([1, 1, 2], &[1.5, 3.5])], "by hand"),
            Case::new(vec![f64s([1, 1, 4], &[1.0, 2.0, 3.0, 4.0])], by(&[3], &[3], &[1], &[2], false, 0))
                .expect(vec![f64s([1, 1, 2], &[1.5, 3.5])], "by hand: (1 + 2) / 2, (3 + 4) / 2"),
            Case::new(vec![f64s([1, 1, 4], &[1.0, 2.0, 3.0, 4.0])], by(&[3], &[3], &[1], &[2], true, -2))
                .expect(vec![f64s([1, 1, 2], &[-1.5, -3.5])], "by hand: sums divided by -2"),
        ]
    },
    ..Op::DEFAULT
};

/// Attributes as a row of cases writes them.
pub(super) fn by(window: &[i64], stride: &[i64], padding: &[i64], out: &[i64], count: bool, divisor: i64) -> Attrs {
    Attrs::new()
        .with("window", window)
        .with("stride", stride)
        .with("padding", padding)
        .with("out", out)
        .with("count_include_pad", count)
        .with("divisor", divisor)
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let w = windows(c.attrs, c.shape(0))?;
    expand_wide(args, |x| Ok(vec![divided(window_sums(&x[0], c.shape(0), &w), c.attrs, c.shape(0), &w)?]))
}

/// The windows over an input of this shape, checked.
pub(super) fn windows(attrs: &Attrs, shape: &Shape) -> Result<Windows> {
    let rank = shape.rank().saturating_sub(2);
    let list = |name| -> Result<Sizes> { Ok(attrs.sizes(name)?.as_slice().into()) };
    let (window, stride, padding, out) = (list("window")?, list("stride")?, list("padding")?, list("out")?);
    if rank == 0 || [&window, &stride, &padding, &out].iter().any(|l| l.len() != rank) {
        return Err(Error::shape(format!("takes [N, C, *S] and attributes with one entry for each size, not {shape}")));
    }
    if window.contains(&0) || stride.contains(&0) || out.contains(&0) {
        return Err(Error::value("window, stride and out must be at least 1"));
    }
    for i in 0..rank {
        reach(out[i], stride[i], window[i], 1, padding[i])?;
        // The windows' counts of elements.
        table_size(&[out[i]])?;
    }
    Ok(Windows { window, stride, padding, dilation: Sizes::from_elem(1, rank), out })
}

/// Sums of windows divided as the attributes ask.
pub(super) fn divided(sums: Tensor, attrs: &Attrs, shape: &Shape, w: &Windows) -> Result<Tensor> {
    let (count_pad, divisor) = (attrs.bool("count_include_pad")?, attrs.int("divisor")?);
    Ok(if divisor != 0 { sums / divisor as f64 } else { divide_by_counts(sums, &shape[2..], w, count_pad) })
}

/// Zeros needed before and after each dimension so that every window lies inside.
pub(super) fn borders(shape: &Shape, w: &Windows) -> (Vec<i64>, Vec<i64>) {
    let (mut lo, mut hi) = (vec![0; shape.rank()], vec![0; shape.rank()]);
    for i in 0..w.window.len() {
        let reach = (w.out[i] - 1) * w.stride[i] + w.window[i];
        lo[i + 2] = w.padding[i] as i64;
        hi[i + 2] = reach as i64 - shape[i + 2] as i64 - lo[i + 2];
    }
    (lo, hi)
}

/// The sum of each window, zeros around.
fn window_sums(x: &Tensor, shape: &Shape, w: &Windows) -> Tensor {
    let rank = w.window.len();
    let (lo, hi) = borders(shape, w);
    let mut y = if lo.iter().chain(&hi).all(|&p| p == 0) { x.clone() } else { x.pad_raw(&lo, &hi, 0.0) };
    let count: usize = w.window.iter().product();
    if count <= SLICES_MAX {
        return slice_sums(&y, shape, w, count);
    }
    for i in 0..rank {
        y = y.unfold(i as i64 + 2, w.window[i], w.stride[i]);
    }
    y.sum((rank + 2..2 * rank + 2).collect::<Vec<usize>>())
}

/// The most elements of a window that are added up one by one.
const SLICES_MAX: usize = 16;

/// The sums of small windows: one element of each window after the other, each a strided view of the whole.
fn slice_sums(x: &Tensor, shape: &Shape, w: &Windows, count: usize) -> Tensor {
    let (rank, lead) = (w.window.len(), [0i64, 0]);
    let sizes: Vec<i64> = shape[..2].iter().chain(&w.out).map(|&n| n as i64).collect();
    let steps: Vec<i64> = [1, 1].into_iter().chain(w.stride.iter().map(|&s| s as i64)).collect();
    let slice = |mut k: usize| {
        let mut starts = [&lead[..], &vec![0; rank]].concat();
        for i in (0..rank).rev() {
            starts[i + 2] = (k % w.window[i]) as i64;
            k /= w.window[i];
        }
        x.slice_raw(&starts, &sizes, &steps)
    };
    (1..count).fold(slice(0), |sum, k| sum + slice(k))
}

/// Divides sums by how many elements each window has.
fn divide_by_counts(sums: Tensor, sizes: &[usize], w: &Windows, count_pad: bool) -> Tensor {
    let (mut y, mut common) = (sums, 1.0);
    for i in 0..sizes.len() {
        let (size, pad) = (sizes[i] as i64, w.padding[i] as i64);
        let count = |q: usize| {
            let start = (q * w.stride[i]) as i64 - pad;
            let end = (start + w.window[i] as i64).min(size + pad);
            (if count_pad { end - start } else { end.min(size) - start.max(0) }) as f64
        };
        let counts: Vec<f64> = (0..w.out[i]).map(count).collect();
        if counts.iter().all(|&n| n == counts[0]) {
            common *= counts[0];
            continue;
        }
        let mut shape = Shape::new(&vec![1; sizes.len() + 2]);
        shape.dims_mut()[i + 2] = counts.len();
        y = y.then(|t| Ok(&y / table(shape, &counts).cast(t.dtype)));
    }
    if common == 1.0 { y } else { y / common }
}

impl Tensor {
    /// The mean of each window of `[N, C, L]` (or `[C, L]`).
    #[track_caller]
    pub fn avg_pool1d(&self, window: impl Into<PerAxis>, options: AvgPoolOptions) -> Tensor {
        self.avg_pool_nd(1, "avg_pool1d", &window.into(), &options)
    }
    /// The mean of each window of `[N, C, H, W]` (or `[C, H, W]`).
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::AvgPoolOptions};
    /// let x = Tensor::from([[[1.0f32, 2.0], [4.0, 3.0]]]);
    /// let y = x.avg_pool2d(2, AvgPoolOptions::new());
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [2.5]);
    /// ```
    #[track_caller]
    pub fn avg_pool2d(&self, window: impl Into<PerAxis>, options: AvgPoolOptions) -> Tensor {
        self.avg_pool_nd(2, "avg_pool2d", &window.into(), &options)
    }
    /// The mean of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`).
    #[track_caller]
    pub fn avg_pool3d(&self, window: impl Into<PerAxis>, options: AvgPoolOptions) -> Tensor {
        self.avg_pool_nd(3, "avg_pool3d", &window.into(), &options)
    }
    #[track_caller]
    fn avg_pool_nd(&self, rank: usize, op: &str, window: &PerAxis, options: &AvgPoolOptions) -> Tensor {
        let o = options;
        let [y] = spatial(self, rank, op, |x, ty| {
            if o.divisor_override == Some(0) {
                return Err(Error::value("divisor_override must not be 0"));
            }
            let w = Windows::new(&ty.shape[2..], window, o.stride.as_ref(), &o.padding, &1.into(), o.ceil_mode)?;
            let attrs = Attrs::new()
                .with("window", w.window.as_slice())
                .with("stride", w.stride.as_slice())
                .with("padding", w.padding.as_slice())
                .with("out", w.out.as_slice())
                .with("count_include_pad", o.count_include_pad)
                .with("divisor", o.divisor_override.unwrap_or(0));
            Ok([Tensor::apply1(&OP, &[x], attrs)])
        });
        y
    }
}
