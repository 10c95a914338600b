//! Plans of Fourier transforms, by `rustfft` and `realfft`.
//!
//! Both libraries are generic, and a fifth of the CPU device's machine code would be theirs. They are instantiated here
//! for [`f32`] and [`f64`], beside the crates that the device waits for.
//!
//! ```
//! use talweg_fft::{Complex, Element};
//!
//! let mut x = [1.0f32, 0.0, 0.0, 0.0].map(Complex::from);
//! let plan = f32::plan(x.len(), false);
//! plan.process(&mut x);
//! assert_eq!(x, [1.0; 4].map(Complex::from));
//! ```

pub use realfft::{ComplexToReal, RealToComplex};
pub use rustfft::num_complex::Complex;
pub use rustfft::{Fft, FftNum};

use realfft::RealFftPlanner;
use rustfft::FftPlanner;
use std::sync::Arc;

/// An element type with transforms.
pub trait Element: FftNum {
    /// The transform of `n` complex numbers, without a factor.
    fn plan(n: usize, is_inverse: bool) -> Arc<dyn Fft<Self>>;
    /// The transform of `n` real numbers to `n / 2 + 1` complex ones.
    fn plan_real(n: usize) -> Arc<dyn RealToComplex<Self>>;
    /// The inverse of [`Element::plan_real`], times `n`.
    fn plan_real_inverse(n: usize) -> Arc<dyn ComplexToReal<Self>>;
}

macro_rules! element {
    ($t:ty) => {
        impl Element for $t {
            fn plan(n: usize, is_inverse: bool) -> Arc<dyn Fft<$t>> {
                let mut planner = FftPlanner::new();
                if is_inverse { planner.plan_fft_inverse(n) } else { planner.plan_fft_forward(n) }
            }
            fn plan_real(n: usize) -> Arc<dyn RealToComplex<$t>> {
                RealFftPlanner::new().plan_fft_forward(n)
            }
            fn plan_real_inverse(n: usize) -> Arc<dyn ComplexToReal<$t>> {
                RealFftPlanner::new().plan_fft_inverse(n)
            }
        }
    };
}
element!(f32);
element!(f64);
