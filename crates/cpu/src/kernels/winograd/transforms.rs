//! The one-dimensional transforms of Winograd's minimal filtering, on vectors.
//!
//! `M` outputs of a filter of three taps take `N = M + 2` products: `y = Aᵀ ((G g) · (Bᵀ d))`.
//! Arrays have room for the larger form; only the first `N`, `M` or 3 places count.

use crate::vmath::simd::Vector;

/// Room for the inputs of a tile in one dimension.
pub(crate) const WIDE: usize = 6;
/// Room for its outputs.
pub(crate) const NARROW: usize = 4;

/// One of the two forms.
pub(crate) trait Form: Copy + 'static {
    /// Outputs of a tile in one dimension.
    const M: usize;
    /// Inputs of a tile, and products.
    const N: usize;
    /// `Bᵀ d`.
    fn input<V: Vector<E = f32>>(d: [V; WIDE]) -> [V; WIDE];
    /// `G g`.
    fn filter<V: Vector<E = f32>>(g: [V; 3]) -> [V; WIDE];
    /// `Gᵀ s`.
    fn filter_back<V: Vector<E = f32>>(s: [V; WIDE]) -> [V; 3];
    /// `Aᵀ m`.
    fn output<V: Vector<E = f32>>(m: [V; WIDE]) -> [V; NARROW];
    /// `A y`.
    fn output_back<V: Vector<E = f32>>(y: [V; NARROW]) -> [V; WIDE];
}

/// Two outputs from four products: exact but for ordinary rounding.
#[derive(Clone, Copy)]
pub(crate) struct Two;
/// Four outputs from six products: the factors lose about two more bits.
#[derive(Clone, Copy)]
pub(crate) struct Four;

impl Form for Two {
    const M: usize = 2;
    const N: usize = 4;
    #[inline(always)]
    fn input<V: Vector<E = f32>>(d: [V; WIDE]) -> [V; WIDE] {
        let z = V::zero();
        [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3], z, z]
    }
    #[inline(always)]
    fn filter<V: Vector<E = f32>>(g: [V; 3]) -> [V; WIDE] {
        let (z, half) = (V::zero(), V::splat(0.5));
        let (even, odd) = ((g[0] + g[2]) * half, g[1] * half);
        [g[0], even + odd, even - odd, g[2], z, z]
    }
    #[inline(always)]
    fn filter_back<V: Vector<E = f32>>(s: [V; WIDE]) -> [V; 3] {
        let half = V::splat(0.5);
        let (sum, difference) = ((s[1] + s[2]) * half, (s[1] - s[2]) * half);
        [s[0] + sum, difference, sum + s[3]]
    }
    #[inline(always)]
    fn output<V: Vector<E = f32>>(m: [V; WIDE]) -> [V; NARROW] {
        let z = V::zero();
        [m[0] + m[1] + m[2], m[1] - m[2] - m[3], z, z]
    }
    #[inline(always)]
    fn output_back<V: Vector<E = f32>>(y: [V; NARROW]) -> [V; WIDE] {
        let z = V::zero();
        [y[0], y[0] + y[1], y[0] - y[1], -y[1], z, z]
    }
}

impl Form for Four {
    const M: usize = 4;
    const N: usize = 6;
    #[inline(always)]
    fn input<V: Vector<E = f32>>(d: [V; WIDE]) -> [V; WIDE] {
        let k = |x: f32| V::splat(x);
        let (a, b) = (k(-4.0).fma(d[2], d[4]), k(-4.0).fma(d[1], d[3]));
        let (c, e) = (d[4] - d[2], (d[3] - d[1]) * k(2.0));
        [
            k(4.0).fma(d[0], k(-5.0).fma(d[2], d[4])),
            a + b,
            a - b,
            c + e,
            c - e,
            k(4.0).fma(d[1], k(-5.0).fma(d[3], d[5])),
        ]
    }
    #[inline(always)]
    fn filter<V: Vector<E = f32>>(g: [V; 3]) -> [V; WIDE] {
        let k = |x: f32| V::splat(x);
        let (near, mid) = ((g[0] + g[2]) * k(-1.0 / 6.0), g[1] * k(1.0 / 6.0));
        let (far, odd) = (g[0] * k(1.0 / 24.0) + g[2] * k(1.0 / 6.0), g[1] * k(1.0 / 12.0));
        [g[0] * k(0.25), near - mid, near + mid, far + odd, far - odd, g[2]]
    }
    #[inline(always)]
    fn filter_back<V: Vector<E = f32>>(s: [V; WIDE]) -> [V; 3] {
        let k = |x: f32| V::splat(x);
        let (near, far) = ((s[1] + s[2]) * k(-1.0 / 6.0), s[3] + s[4]);
        [
            s[0] * k(0.25) + near + far * k(1.0 / 24.0),
            (s[2] - s[1]) * k(1.0 / 6.0) + (s[3] - s[4]) * k(1.0 / 12.0),
            near + far * k(1.0 / 6.0) + s[5],
        ]
    }
    #[inline(always)]
    fn output<V: Vector<E = f32>>(m: [V; WIDE]) -> [V; NARROW] {
        let k = |x: f32| V::splat(x);
        let (a, b, c, d) = (m[1] + m[2], m[1] - m[2], m[3] + m[4], m[3] - m[4]);
        [m[0] + a + c, k(2.0).fma(d, b), k(4.0).fma(c, a), k(8.0).fma(d, b) + m[5]]
    }
    #[inline(always)]
    fn output_back<V: Vector<E = f32>>(y: [V; NARROW]) -> [V; WIDE] {
        let k = |x: f32| V::splat(x);
        let (a, b) = (y[0] + y[2], y[1] + y[3]);
        let (c, d) = (k(4.0).fma(y[2], y[0]), k(8.0).fma(y[3], y[1] * k(2.0)));
        [y[0], a + b, a - b, c + d, c - d, y[3]]
    }
}
