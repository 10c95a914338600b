//! `irfft`: the real numbers whose Fourier transform is given.

use super::FftOptions;
use super::fft::{FftNorm, conjugation, pairs_rank, place, resized};
use crate::rules::{f64s, floats};
use crate::{Error, Tensor};
use ir::{Attrs, Case};

super::composite!(
    "irfft",
    "The `n` real numbers along `axis` whose transform starts with the given n/2 + 1 frequencies, as pairs \
     (last dimension: real, imaginary).",
    1,
    [("n", Int), ("axis", Int), ("norm", Str)],
    |c, t| {
        crate::rules::float(c, 0)?;
        let (n, at) = (c.attrs.size("n")?, c.axis("axis")?);
        let scale = FftNorm::parse(c.attrs.str("norm")?)?.scale(n, true);
        if n == 0 || at >= pairs_rank(&c.types[0])? {
            return Err(Error::value(format!("{n} elements along axis {at} of pairs {}", c.shape(0))));
        }
        let half = n / 2 + 1;
        let x = resized(&t[0], at, half)?;
        // The other frequencies are the conjugates of these, from the back.
        let tail = x.narrow(at as i64, 1, n - half).flip(at) * conjugation(c.dtype(0));
        let y = Tensor::concat(&[x, tail], at as i64).transformed(at, true).select(-1, 0);
        Ok(if scale == 1.0 { y } else { y * scale })
    },
    || {
        let by = |n: i64, a: i64, norm: &str| Attrs::new().with("n", n).with("axis", a).with("norm", norm);
        let x = f64s([3, 2], &[1.0, 0.0, 0.0, -1.0, -1.0, 0.0]);
        vec![
            Case::new(vec![floats([2, 3, 2], 1)], by(5, 1, "ortho")),
            Case::new(vec![floats([2, 2, 2], 1)], by(4, 0, "forward")),
            Case::new(vec![x], by(4, 0, "backward"))
                .expect(vec![f64s([4], &[0.0, 1.0, 0.0, 0.0])], "NumPy manual: np.fft.irfft([1, -1j, -1])"),
        ]
    }
);

impl Tensor {
    /// The real numbers whose Fourier transform starts with these frequencies:
    /// the inverse of [`Tensor::rfft`]. Without `n` there are twice as many as frequencies, less 2.
    #[track_caller]
    pub fn irfft(&self, options: FftOptions) -> Tensor {
        self.then(|t| {
            let (at, n) = place(options, t, t.shape.rank(), "irfft", |d| 2 * d.saturating_sub(1))?;
            let attrs = Attrs::new().with("n", n).with("axis", at).with("norm", options.norm.word());
            Ok(Tensor::apply1(&OP, &[&self.to_complex().view_as_real()], attrs))
        })
    }
}
