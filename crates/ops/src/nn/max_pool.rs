//! `max_pool`: the greatest element of each window.

use super::max_pool_grad;
use super::max_pool_index::{self, ATTRS, Pool, attrs};
use super::window::{MaxPoolOptions, PerAxis, Windows, spatial};
use crate::Tensor;
use crate::rules::{GradTensors, expand, f64s, floats, grads, i64s};
use ir::{Attrs, Case, DType, Grad, Meaning, Op, Type};

/// The row of `max_pool`.
pub static OP: Op = Op {
    name: "max_pool",
    doc: "The largest element of each of `out` windows over the spatial dimensions of x[N, C, *S], and its index in \
          the flattened plane.",
    attrs: &ATTRS,
    infer: |c| {
        let shape = Pool::new(c)?.out_shape(c);
        Ok([Type::new(c.dtype(0), &shape), Type::new(DType::I64, shape)].into_iter().collect())
    },
    meaning: Meaning::Composite(|c, v| {
        expand(v, |v| {
            let index = Tensor::apply1(&max_pool_index::OP, &[&v[0]], c.attrs.clone());
            let shape = index.shape()?;
            let flat = |t: &Tensor| t.flatten(2, -1);
            Ok(vec![flat(&v[0]).gather(2, &flat(&index)).reshape(shape), index])
        })
    }),
    grad: Grad::Rule(|c| {
        // To the indices of the forward pass; they need not be computed again.
        let attrs = Attrs::new().with("shape", &c.inputs[0].ty().shape);
        grads([Tensor::apply1(&max_pool_grad::OP, &[&c.y(1), &c.g(0)], attrs)])
    }),
    cases: || {
        vec![
            Case::new(vec![floats([2, 1, 5], 1)], attrs(&[2], &[2], &[1], &[1], &[3])),
            Case::new(vec![floats([1, 2, 3, 4], 2)], attrs(&[2, 2], &[1, 2], &[0, 1], &[2, 1], &[1, 2])),
            Case::new(
                vec![f64s([1, 1, 2, 4], &[1.0, 3.0, 2.0, 4.0, 5.0, 0.0, 8.0, 6.0])],
                attrs(&[2, 2], &[2, 2], &[0, 0], &[1, 1], &[1, 2]),
            )
            .expect(vec![f64s([1, 1, 1, 2], &[5.0, 8.0]), i64s([1, 1, 1, 2], &[4, 6])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

impl Tensor {
    /// The largest element of each window of `[N, C, L]` (or `[C, L]`).
    #[track_caller]
    pub fn max_pool1d(&self, window: impl Into<PerAxis>, options: MaxPoolOptions) -> Tensor {
        let [y, _] = self.max_pool_nd(1, "max_pool1d", &window.into(), &options);
        y
    }
    /// The largest element of each window of `[N, C, H, W]` (or `[C, H, W]`).
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::MaxPoolOptions};
    /// let x = Tensor::from([[[1.0f32, 2.0], [4.0, 3.0]]]);
    /// let y = x.max_pool2d(2, MaxPoolOptions::new());
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [4.0]);
    /// ```
    #[track_caller]
    pub fn max_pool2d(&self, window: impl Into<PerAxis>, options: MaxPoolOptions) -> Tensor {
        let [y, _] = self.max_pool_nd(2, "max_pool2d", &window.into(), &options);
        y
    }
    /// The largest element of each window of `[N, C, D, H, W]` (or `[C, D, H, W]`).
    #[track_caller]
    pub fn max_pool3d(&self, window: impl Into<PerAxis>, options: MaxPoolOptions) -> Tensor {
        let [y, _] = self.max_pool_nd(3, "max_pool3d", &window.into(), &options);
        y
    }
    /// [`Tensor::max_pool1d`] with the index of each largest element.
    #[track_caller]
    pub fn max_pool1d_index(&self, window: impl Into<PerAxis>, options: MaxPoolOptions) -> [Tensor; 2] {
        self.max_pool_nd(1, "max_pool1d", &window.into(), &options)
    }
    /// [`Tensor::max_pool2d`] with the index of each largest element in the flattened plane.
    #[track_caller]
    pub fn max_pool2d_index(&self, window: impl Into<PerAxis>, options: MaxPoolOptions) -> [Tensor; 2] {
        self.max_pool_nd(2, "max_pool2d", &window.into(), &options)
    }
    /// [`Tensor::max_pool3d`] with the index of each largest element in the flattened volume.
    #[track_caller]
    pub fn max_pool3d_index(&self, window: impl Into<PerAxis>, options: MaxPoolOptions) -> [Tensor; 2] {
        self.max_pool_nd(3, "max_pool3d", &window.into(), &options)
    }
    #[track_caller]
    fn max_pool_nd(&self, rank: usize, op: &str, window: &PerAxis, options: &MaxPoolOptions) -> [Tensor; 2] {
        let o = options;
        spatial(self, rank, op, |x, ty| {
            let w = Windows::new(&ty.shape[2..], window, o.stride.as_ref(), &o.padding, &o.dilation, o.ceil_mode)?;
            let attrs = Attrs::new()
                .with("window", w.window.as_slice())
                .with("stride", w.stride.as_slice())
                .with("padding_lo", w.padding.as_slice())
                .with("dilation", w.dilation.as_slice())
                .with("out", w.out.as_slice());
            Ok(Tensor::apply_n(&OP, &[x], attrs))
        })
    }
}
