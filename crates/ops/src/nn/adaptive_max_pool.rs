//! `adaptive_max_pool`: greatest elements of windows chosen so that a given number of them cover
//! the input.

use super::adaptive_avg_pool::{check, window};
use super::max_pool;
use super::window::{PerAxis, spatial, table, table_size};
use crate::rules::{expand, f64s, floats, i64s};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Meaning, Op, Shape, Type, Value};

/// The row of `adaptive_max_pool`.
pub static OP: Op = Op {
    name: "adaptive_max_pool",
    doc: "The largest elements of `out` windows that cover the spatial dimensions of x[N, C, *S], and their indices \
          in the flattened plane: window i goes from ⌊i S / out⌋ to ⌈(i + 1) S / out⌉.",
    attrs: &[("out", AttrKind::Ints)],
    infer: |c| {
        let shape = check(c)?;
        if shape[2..].contains(&0) {
            return Err(Error::value("out must be at least 1 in each dimension"));
        }
        if !is_even(&c.shape(0)[2..], &shape[2..]) {
            places_size(&c.shape(0)[2..], &shape[2..])?;
        }
        Ok([Type::new(c.dtype(0), &shape), Type::new(DType::I64, shape)].into_iter().collect())
    },
    meaning: Meaning::Composite(body),
    cases: || {
        let out = |n: &[i64]| Attrs::new().with("out", n);
        let x = f64s([1, 1, 2, 3], &[1.0, 6.0, 2.0, 5.0, 4.0, 3.0]);
        vec![
            Case::new(vec![floats([1, 2, 5], 1)], out(&[3])),
            Case::new(vec![floats([1, 1, 4, 5], 2)], out(&[2, 3])),
            Case::new(vec![floats([1, 1, 4, 4], 2)], out(&[2, 1])),
            Case::new(vec![x], out(&[1, 2])).expect(
                vec![f64s([1, 1, 1, 2], &[6.0, 6.0]), i64s([1, 1, 1, 2], &[1, 1])],
                "by hand: columns 0..2 and 1..3",
            ),
        ]
    },
    ..Op::DEFAULT
};

/// Windows lie side by side in every dimension.
fn is_even(sizes: &[usize], out: &[usize]) -> bool {
    sizes.iter().zip(out).all(|(s, n)| s.is_multiple_of(*n))
}

/// Fails where the indices of all windows are too many for a table.
fn places_size(sizes: &[usize], out: &[usize]) -> Result<usize> {
    // A window has at most two elements more than the sizes' ratio.
    let along = |(&size, &n): (&usize, &usize)| n.saturating_mul(size / n + 2);
    table_size(&sizes.iter().zip(out).map(along).collect::<Vec<_>>())
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let out = c.attrs.sizes("out")?;
    let sizes = &c.shape(0)[2..];
    if is_even(sizes, &out) {
        let windows: Vec<usize> = sizes.iter().zip(&out).map(|(s, n)| s / n).collect();
        let attrs = Attrs::new()
            .with("window", &windows)
            .with("stride", &windows)
            .with("padding_lo", vec![0usize; out.len()].as_slice())
            .with("dilation", vec![1usize; out.len()].as_slice())
            .with("out", out.as_slice());
        return expand(args, |v| Ok(Tensor::apply(&max_pool::OP, &[&v[0]], attrs).to_vec()));
    }
    places_size(sizes, &out)?;
    let (places, windows, most) = places(sizes, &out);
    expand(args, |v| {
        let lead = &c.shape(0)[..2];
        let full: Shape = lead.iter().copied().chain([windows, most]).collect();
        let shape: Shape = lead.iter().copied().chain(out.iter().copied()).collect();
        let flat = v[0].flatten(2, -1);
        let places = table([windows, most], &places);
        let which = flat.take(&places, 2).argmax_keep(3);
        let index = places.broadcast_to(full).gather(3, &which).reshape([lead[0], lead[1], windows]);
        Ok(vec![flat.gather(2, &index).reshape(&shape), index.reshape(&shape)])
    })
}

/// For each window the indices it covers in the flattened plane, the last one repeated up to the
/// largest count; how many windows, and that count. Repeats stand after what they repeat, so the
/// first maximum is the true one.
fn places(sizes: &[usize], out: &[usize]) -> (Vec<i64>, usize, usize) {
    let mut all: Vec<Vec<i64>> = vec![vec![0]];
    for (&size, &n) in sizes.iter().zip(out) {
        let longest = (0..n).map(|i| window(i, size, n).len()).max().unwrap_or(1);
        let along = |i: usize| {
            let w = window(i, size, n);
            (0..longest).map(move |k| (w.start + k.min(w.len() - 1)) as i64)
        };
        let join = |base: &Vec<i64>, i: usize| -> Vec<i64> {
            base.iter().flat_map(|b| along(i).map(move |a| b * size as i64 + a)).collect()
        };
        all = all.iter().flat_map(|base| (0..n).map(move |i| (base, i))).map(|(base, i)| join(base, i)).collect();
    }
    let (windows, most) = (all.len(), all[0].len());
    (all.concat(), windows, most)
}

impl Tensor {
    /// The largest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`), and their indices.
    #[track_caller]
    pub fn adaptive_max_pool1d_index(&self, out: impl Into<PerAxis>) -> [Tensor; 2] {
        self.adaptive_max_pool_nd(1, "adaptive_max_pool1d", &out.into())
    }
    /// The largest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`), and their
    /// indices in the flattened plane.
    #[track_caller]
    pub fn adaptive_max_pool2d_index(&self, out: impl Into<PerAxis>) -> [Tensor; 2] {
        self.adaptive_max_pool_nd(2, "adaptive_max_pool2d", &out.into())
    }
    /// The largest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`), and
    /// their indices in the flattened volume.
    #[track_caller]
    pub fn adaptive_max_pool3d_index(&self, out: impl Into<PerAxis>) -> [Tensor; 2] {
        self.adaptive_max_pool_nd(3, "adaptive_max_pool3d", &out.into())
    }
    /// The largest elements of `out` windows that cover `[N, C, L]` (or `[C, L]`).
    #[track_caller]
    pub fn adaptive_max_pool1d(&self, out: impl Into<PerAxis>) -> Tensor {
        let [y, _] = self.adaptive_max_pool1d_index(out);
        y
    }
    /// The largest elements of `out` windows that cover `[N, C, H, W]` (or `[C, H, W]`).
    #[track_caller]
    pub fn adaptive_max_pool2d(&self, out: impl Into<PerAxis>) -> Tensor {
        let [y, _] = self.adaptive_max_pool2d_index(out);
        y
    }
    /// The largest elements of `out` windows that cover `[N, C, D, H, W]` (or `[C, D, H, W]`).
    #[track_caller]
    pub fn adaptive_max_pool3d(&self, out: impl Into<PerAxis>) -> Tensor {
        let [y, _] = self.adaptive_max_pool3d_index(out);
        y
    }
    #[track_caller]
    fn adaptive_max_pool_nd(&self, rank: usize, op: &str, out: &PerAxis) -> [Tensor; 2] {
        spatial(self, rank, op, |x, _| {
            let out = out.resolve(rank, "out")?;
            Ok(Tensor::apply_n(&OP, &[x], Attrs::new().with("out", out.as_slice())))
        })
    }
}
