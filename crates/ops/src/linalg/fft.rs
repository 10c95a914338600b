//! `fft`: the discrete Fourier transform.
//!
//! The row works on the parts: a last dimension of size 2, real and imaginary, which axes do not
//! count. The methods take and give complex tensors.

use crate::kernel::BATCH_AXIS;
use crate::rules::{GradTensors, f64s, floats, grads, same};
use crate::{DType, Error, Result, Tensor, axis};
use ir::AxisSplit;
use ir::{AttrKind, Attrs, Call, Case, Grad, Literal, Meaning, Op, Site, Type, Value};
use std::f64::consts::PI;

/// The row of `fft`.
pub static OP: Op = Op {
    name: "fft",
    doc: "Discrete Fourier transform of pairs (last dimension: real, imaginary) along `axis`, not scaled; \
          `inverse` turns the other way round.",
    attrs: &[("axis", AttrKind::Int), ("inverse", AttrKind::Bool)],
    infer: |c| {
        c.arity(1)?;
        crate::rules::float(c, 0)?;
        let shape = c.shape(0);
        if shape.rank() < 2 || shape[shape.rank() - 1] != 2 {
            return Err(Error::shape(format!("a complex tensor ends in a dimension of size 2, but this is {shape}")));
        }
        if c.attrs.size("axis")? >= shape.rank() - 1 {
            let e = format!("axis {} is out of range for a complex tensor of shape {shape}", c.attrs.size("axis")?);
            return Err(Error::index(e));
        }
        same(c, 0)
    },
    meaning: Meaning::Kernel(reference),
    // The transform is linear; its transpose in real numbers turns the other way.
    grad: Grad::Rule(|c| grads([c.g(0).transformed(c.attrs.size("axis")?, !c.attrs.bool("inverse")?)])),
    batch: BATCH_AXIS,
    cases: || {
        let by = |a: i64, inverse: bool| Attrs::new().with("axis", a).with("inverse", inverse);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], by(1, false)),
            Case::new(vec![floats([4, 2], 2)], by(0, true)),
            Case::new(vec![f64s([4, 2], &[1.0, 0.0, 2.0, 0.0, 3.0, 0.0, 4.0, 0.0])], by(0, false))
                .expect(vec![f64s([4, 2], &[10.0, 0.0, -2.0, 2.0, -2.0, 0.0, -2.0, -2.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let (at, inverse) = (c.attrs.size("axis")?, c.attrs.bool("inverse")?);
    let mut data = args[0].to_f64();
    let shape = c.shape(0);
    let complex: ir::Shape = shape[..shape.rank() - 1].iter().copied().collect();
    let plan = Plan::new(complex[at], inverse);
    for lane in AxisSplit::new(&complex, at).each() {
        let mut x: Vec<(f64, f64)> = lane.clone().map(|i| (data[2 * i], data[2 * i + 1])).collect();
        plan.run(&mut x);
        for (i, (re, im)) in lane.zip(x) {
            (data[2 * i], data[2 * i + 1]) = (re, im);
        }
    }
    Ok(vec![Literal::from_f64(c.dtype(0), shape.clone(), &data)])
}

type C = (f64, f64);
fn times(a: C, b: C) -> C {
    (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
}
/// e^(i sign 2π k / n), with k reduced first: large angles lose digits.
fn unit(k: usize, n: usize, sign: f64) -> C {
    let a = sign * 2.0 * PI * (k % n) as f64 / n as f64;
    (a.cos(), a.sin())
}

/// A transform of one size: powers of two by halving, others as a convolution (Bluestein).
enum Plan {
    Halving { n: usize, roots: Vec<C> },
    Chirp { n: usize, chirp: Vec<C>, kernel: Vec<C>, forward: Box<Plan>, back: Box<Plan> },
}

impl Plan {
    fn new(n: usize, inverse: bool) -> Plan {
        let sign = if inverse { 1.0 } else { -1.0 };
        if n <= 1 || n.is_power_of_two() {
            return Plan::Halving { n, roots: (0..n / 2).map(|k| unit(k, n, sign)).collect() };
        }
        let m = (2 * n - 1).next_power_of_two();
        // k² mod 2n: the angle is π k² / n.
        let chirp: Vec<C> = (0..n).map(|k| unit(k * k % (2 * n), 2 * n, sign)).collect();
        let mut kernel = vec![(0.0, 0.0); m];
        for k in 0..n {
            let c = (chirp[k].0, -chirp[k].1);
            kernel[k] = c;
            kernel[(m - k) % m] = c;
        }
        let (forward, back) = (Box::new(Plan::new(m, false)), Box::new(Plan::new(m, true)));
        forward.run(&mut kernel);
        Plan::Chirp { n, chirp, kernel, forward, back }
    }

    fn run(&self, x: &mut [C]) {
        match self {
            Plan::Halving { n, roots } => halve(x, *n, roots),
            Plan::Chirp { n, chirp, kernel, forward, back } => {
                let m = kernel.len();
                let mut y = vec![(0.0, 0.0); m];
                (0..*n).for_each(|k| y[k] = times(x[k], chirp[k]));
                forward.run(&mut y);
                y.iter_mut().zip(kernel).for_each(|(y, k)| *y = times(*y, *k));
                back.run(&mut y);
                for k in 0..*n {
                    let (re, im) = times(y[k], chirp[k]);
                    x[k] = (re / m as f64, im / m as f64);
                }
            }
        }
    }
}

/// In place, for a power of two.
fn halve(x: &mut [C], n: usize, roots: &[C]) {
    if n <= 1 {
        return;
    }
    let bits = n.trailing_zeros();
    for i in 0..n {
        let j = i.reverse_bits() >> (usize::BITS - bits);
        if i < j {
            x.swap(i, j);
        }
    }
    let mut half = 1;
    while half < n {
        let step = n / (2 * half);
        for start in (0..n).step_by(2 * half) {
            for k in 0..half {
                let (a, b) = (x[start + k], times(x[start + k + half], roots[k * step]));
                x[start + k] = (a.0 + b.0, a.1 + b.1);
                x[start + k + half] = (a.0 - b.0, a.1 - b.1);
            }
        }
        half *= 2;
    }
}

/// How transforms are scaled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FftNorm {
    /// The inverse by 1/n.
    #[default]
    Backward,
    /// Both by 1/√n.
    Ortho,
    /// The forward transform by 1/n.
    Forward,
}
impl FftNorm {
    pub(super) fn word(self) -> &'static str {
        match self {
            FftNorm::Backward => "backward",
            FftNorm::Ortho => "ortho",
            FftNorm::Forward => "forward",
        }
    }
    /// NumPy's and PyTorch's word for it.
    pub fn parse(word: &str) -> Result<FftNorm> {
        [FftNorm::Backward, FftNorm::Ortho, FftNorm::Forward]
            .into_iter()
            .find(|n| n.word() == word)
            .ok_or_else(|| Error::value(format!("norm must be backward, ortho or forward, not {word:?}")))
    }
    pub(super) fn scale(self, n: usize, inverse: bool) -> f64 {
        match (self, inverse) {
            (FftNorm::Ortho, _) => 1.0 / (n as f64).sqrt(),
            (FftNorm::Backward, true) | (FftNorm::Forward, false) => 1.0 / n as f64,
            _ => 1.0,
        }
    }
}

/// Size, axis and scale of a transform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FftOptions {
    /// Elements along the axis: cut off or filled up with zeros to this many. For `irfft` the
    /// size of the result.
    pub n: Option<usize>,
    /// Axis.
    pub axis: i64,
    /// Scale.
    pub norm: FftNorm,
}
impl Default for FftOptions {
    fn default() -> FftOptions {
        FftOptions { n: None, axis: -1, norm: FftNorm::Backward }
    }
}

/// Cut off or filled up with zeros along an axis.
pub(super) fn resized(x: &Tensor, at: usize, n: usize) -> Result<Tensor> {
    let shape = x.shape()?;
    let (lo, mut hi) = (vec![0; shape.rank()], vec![0; shape.rank()]);
    hi[at] = n as i64 - shape[at] as i64;
    Ok(if hi[at] == 0 { x.clone() } else { x.pad_raw(&lo, &hi, 0.0) })
}
/// The axis and size of a transform of a tensor whose axes are `rank` many.
pub(super) fn place(
    o: FftOptions,
    t: &Type,
    rank: usize,
    op: &str,
    size: impl Fn(usize) -> usize,
) -> Result<(usize, usize)> {
    let at = axis(o.axis, rank).map_err(|e| e.in_op(op))?;
    match o.n.unwrap_or_else(|| size(t.shape[at])) {
        0 => Err(Error::value("a transform of no elements").in_op(op)),
        n => Ok((at, n)),
    }
}
/// How many axes pairs have, their last dimension left out.
pub(super) fn pairs_rank(t: &Type) -> Result<usize> {
    match t.shape.rank() {
        r if r > 1 && t.shape[r - 1] == 2 => Ok(r - 1),
        _ => Err(Error::shape(format!("pairs end in a dimension of size 2, but this is {}", t.shape))),
    }
}
/// Real numbers as pairs.
pub(super) fn paired(x: &Tensor) -> Tensor {
    Tensor::stack(&[x.clone(), x.zeros_like()], -1)
}

impl Tensor {
    /// As a complex tensor: itself, or the real parts of one.
    #[track_caller]
    pub fn to_complex(&self) -> Tensor {
        self.then(|t| Ok(self.cast(t.dtype.to_complex())))
    }
    pub(super) fn transformed(&self, at: usize, inverse: bool) -> Tensor {
        Tensor::apply1(&OP, &[self], Attrs::new().with("axis", at).with("inverse", inverse))
    }
    fn transform(&self, o: FftOptions, inverse: bool, op: &'static str) -> Tensor {
        self.then(|t| {
            let (at, n) = place(o, t, t.shape.rank(), op, |d| d)?;
            let y = resized(&self.to_complex().view_as_real(), at, n)?.transformed(at, inverse);
            let scale = o.norm.scale(n, inverse);
            Ok(if scale == 1.0 { y } else { y * scale }.view_as_complex())
        })
    }
    /// Discrete Fourier transform; the result is complex.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, linalg::FftOptions};
    /// let y = Tensor::from([1.0f32, 2.0, 3.0, 4.0]).fft(FftOptions::default());
    /// assert_eq!(y.real().to_vec::<f32>().unwrap(), [10.0, -2.0, -2.0, -2.0]);
    /// assert_eq!(y.imag().to_vec::<f32>().unwrap(), [0.0, 2.0, 0.0, -2.0]);
    /// ```
    #[track_caller]
    pub fn fft(&self, options: FftOptions) -> Tensor {
        Site::here().scope(|| self.transform(options, false, "fft"))
    }
    /// The inverse of [`Tensor::fft`].
    #[track_caller]
    pub fn ifft(&self, options: FftOptions) -> Tensor {
        Site::here().scope(|| self.transform(options, true, "ifft"))
    }
    /// [`Tensor::fft`] along several axes, one after the other.
    #[track_caller]
    pub fn fftn(&self, axes: &[i64], norm: FftNorm) -> Tensor {
        Site::here().scope(|| {
            axes.iter().fold(self.clone(), |x, &axis| x.transform(FftOptions { axis, norm, n: None }, false, "fftn"))
        })
    }
    /// [`Tensor::ifft`] along several axes, one after the other.
    #[track_caller]
    pub fn ifftn(&self, axes: &[i64], norm: FftNorm) -> Tensor {
        Site::here().scope(|| {
            axes.iter().fold(self.clone(), |x, &axis| x.transform(FftOptions { axis, norm, n: None }, true, "ifftn"))
        })
    }
}

/// 1 and -1 along the last dimension: multiplies to the complex conjugate.
pub(super) fn conjugation(dtype: DType) -> Tensor {
    Value::constant(Literal::from_f64(dtype, [2], &[1.0, -1.0]), Site::here()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_matches_the_definition() {
        for n in [1, 2, 3, 5, 6, 7, 8, 12, 31, 33] {
            let x = floats([n, 2], n as u64).to_f64();
            let mut got: Vec<C> = x.chunks(2).map(|p| (p[0], p[1])).collect();
            Plan::new(n, false).run(&mut got);
            for (k, g) in got.iter().enumerate() {
                let want = (0..n).fold((0.0, 0.0), |s, j| {
                    let t = times((x[2 * j], x[2 * j + 1]), unit(j * k, n, -1.0));
                    (s.0 + t.0, s.1 + t.1)
                });
                assert!((g.0 - want.0).abs() + (g.1 - want.1).abs() < 1e-12, "n {n} k {k}: {g:?} {want:?}");
            }
        }
    }

    #[test]
    fn the_inverse_gives_back() {
        let x = Tensor::from(floats([3, 5, 2], 1)).view_as_complex();
        let o = FftOptions { axis: 0, ..Default::default() };
        let y = x.fft(o).ifft(o).fftn(&[0, 1], FftNorm::Ortho).ifftn(&[0, 1], FftNorm::Ortho);
        let off = (y - &x).abs().max(..).item::<f64>().unwrap();
        assert!(off < 1e-14, "{off}");
    }

    #[test]
    fn a_complex_tensor_has_no_real_transform() {
        let e = Tensor::zeros([4, 3]).to_complex().rfft(FftOptions::default()).eval().unwrap_err().to_string();
        assert!(e.starts_with("rfft: expected real numbers, not c64"), "{e}");
    }
}
