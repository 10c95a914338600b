//! `lgamma`: the logarithm of the gamma function.

use crate::rules::unary_grad;

crate::unary! {
    /// Logarithm of the absolute value of the gamma function, elementwise.
    lgamma(x) -> Float;
    float: libm::lgamma;
    code: "lgamma({0})";
    domain: (0.3, 4.0);
    grad: ir::Grad::Rule(|c| unary_grad(c, |x, _, g| g * x.digamma()));
    example: [1.0, 5.0, 0.5, -0.5] => [0.0, 3.1780538303479458, 0.5723649429247001, 1.2655121234846454], "log 4!, log sqrt(π), log(2 sqrt(π))";
}

/// The most dimensions of `mvlgamma`.
const DIMENSION_MAX: u32 = 4096;

impl crate::Tensor {
    /// Logarithm of the multivariate gamma function of dimension `p`, elementwise:
    /// p (p - 1) / 4 log π + Σ lgamma(x - i / 2) for i from 0 to p - 1.
    ///
    /// ```
    /// # use talweg_ops::Tensor;
    /// // Γ₂(3/2) = sqrt(π) Γ(3/2) Γ(1) = π / 2.
    /// let y = Tensor::from([1.5f64]).mvlgamma(2).item::<f64>().unwrap();
    /// assert!((y - (std::f64::consts::PI / 2.0).ln()).abs() < 1e-14);
    /// ```
    #[track_caller]
    pub fn mvlgamma(&self, p: u32) -> crate::Tensor {
        self.then(|t| {
            // A term for each dimension: more would take for ever.
            if !(1..=DIMENSION_MAX).contains(&p) {
                let e = format!("the dimension must be from 1 to {DIMENSION_MAX}, not {p}");
                return Err(ir::Error::value(e).in_op("mvlgamma"));
            }
            let x = self.cast(t.dtype.to_float());
            let start = f64::from(p) * f64::from(p - 1) / 4.0 * std::f64::consts::PI.ln();
            Ok((1..p).fold(x.lgamma() + start, |sum, i| sum + (&x - f64::from(i) / 2.0).lgamma()))
        })
    }
}
