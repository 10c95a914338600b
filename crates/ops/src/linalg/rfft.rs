//! `rfft`: the Fourier transform of real numbers.

use super::FftOptions;
use super::fft::{FftNorm, paired, place, resized};
use crate::rules::{GradTensors, f64s, floats, maybe_grads};
use crate::{Error, Tensor};
use ir::{Attrs, Case, Grad, Shape};

super::composite!(
    "rfft",
    "Discrete Fourier transform of a real tensor along `axis`, cut off or filled up to `n`: the n/2 + 1 frequencies \
     that determine the others, as pairs (a new last dimension: real, imaginary).",
    1,
    [("n", Int), ("axis", Int), ("norm", Str)],
    |c, t| {
        crate::rules::float(c, 0)?;
        let (n, at) = (c.attrs.size("n")?, c.axis("axis")?);
        let scale = FftNorm::parse(c.attrs.str("norm")?)?.scale(n, false);
        if n == 0 {
            return Err(Error::value("a transform of no elements"));
        }
        let y = paired(&resized(&t[0], at, n)?).transformed(at, false).narrow(at as i64, 0, n / 2 + 1);
        Ok(if scale == 1.0 { y } else { y * scale })
    },
    || {
        let by = |n: i64, a: i64, norm: &str| Attrs::new().with("n", n).with("axis", a).with("norm", norm);
        let want = f64s([3, 2], &[1.0, 0.0, 0.0, -1.0, -1.0, 0.0]);
        vec![
            Case::new(vec![floats([2, 3], 1)], by(3, 1, "ortho")),
            Case::new(vec![floats([3, 2], 1)], by(5, 0, "forward")),
            Case::new(vec![f64s([4], &[0.0, 1.0, 0.0, 0.0])], by(4, 0, "backward"))
                .expect(vec![want], "NumPy manual: np.fft.rfft([0, 1, 0, 0])"),
        ]
    },
    grad: Grad::Rule(|c| {
        let (n, at, g) = (c.attrs.size("n")?, c.attrs.size("axis")?, c.g(0));
        let scale = FftNorm::parse(c.attrs.str("norm")?)?.scale(n, false) * n as f64;
        // `irfft` takes each frequency but the first, and the last of an even number, for two.
        let half = n / 2 + 1;
        let is_once = |k: usize| k == 0 || 2 * k == n;
        let shares: Vec<f64> = (0..half).map(|k| if is_once(k) { scale } else { scale / 2.0 }).collect();
        let mut shape = Shape::new(&vec![1; g.rank()?]);
        shape.dims_mut()[at] = half;
        let attrs = Attrs::new().with("n", n).with("axis", at).with("norm", "backward");
        let h = &g * Tensor::new(shape, &shares).cast_like(&g);
        let full = Tensor::apply1(&super::irfft::OP, &[&h], attrs);
        maybe_grads(vec![Some(resized(&full, at, c.x(0).shape()?[at])?)])
    })
);

impl Tensor {
    /// Discrete Fourier transform of a real tensor: the n/2 + 1 frequencies that determine the
    /// others, which are complex.
    #[track_caller]
    pub fn rfft(&self, options: FftOptions) -> Tensor {
        self.then(|t| {
            if t.dtype.is_complex() {
                return Err(Error::dtype(format!("expected real numbers, not {}", t.dtype)).in_op("rfft"));
            }
            let x = self.cast(t.dtype.to_complex().part());
            let (at, n) = place(options, t, t.shape.rank(), "rfft", |d| d)?;
            let attrs = Attrs::new().with("n", n).with("axis", at).with("norm", options.norm.word());
            Ok(Tensor::apply1(&OP, &[&x], attrs).view_as_complex())
        })
    }
}
