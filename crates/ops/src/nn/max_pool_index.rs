//! `max_pool_index`: where the greatest element of each window is.

use super::window::reach;
use crate::rules::{f64s, i64s, number, one};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Batch, Call, Case, DType, Grad, Literal, Meaning, Op, Shape};
use smallvec::SmallVec;

/// The attributes of max pooling, one entry for each spatial dimension.
pub(super) const ATTRS: [(&str, AttrKind); 5] = [
    ("window", AttrKind::Ints),
    ("stride", AttrKind::Ints),
    ("padding_lo", AttrKind::Ints),
    ("dilation", AttrKind::Ints),
    ("out", AttrKind::Ints),
];

/// The row of `max_pool_index`.
pub static OP: Op = Op {
    name: "max_pool_index",
    doc: "For each of `out` windows over the spatial dimensions of x[N, C, *S], the index of its largest element in \
          the flattened plane: the first of equals, a NaN before all. Indices outside the plane never win.",
    attrs: &ATTRS,
    infer: |c| number(c, 0).and_then(|()| one(DType::I64, Pool::new(c)?.out_shape(c))),
    meaning: Meaning::Kernel(reference),
    grad: Grad::Zero,
    batch: Batch::Rule(|c| {
        let x = Tensor::from(c.inputs[0].clone());
        let mut shape = x.shape()?;
        let size = shape.remove(0);
        shape.dims_mut()[0] *= size;
        let y = Tensor::apply1(c.op, &[&x.reshape(shape)], c.attrs.clone());
        let mut shape = y.shape()?;
        shape.dims_mut()[0] /= size.max(1);
        shape.insert(0, size);
        Ok(vec![y.reshape(shape).value()?.clone()])
    }),
    shard: ir::Shard::Rule(|c| {
        let dims = format!("nc{}", ".".repeat(c.shape(0).rank() - 2));
        Ok(ir::Factors::of(&[&dims], &[&dims]))
    }),
    cases: || {
        let x = f64s([1, 1, 2, 3], &[1.0, 5.0, 2.0, 5.0, 0.0, f64::NAN]);
        vec![
            Case::new(vec![x], attrs(&[2, 2], &[1, 1], &[0, 0], &[1, 1], &[1, 2]))
                .expect(vec![i64s([1, 1, 1, 2], &[1, 5])], "by hand: the first 5, then NaN")
                .kinked(),
            Case::new(vec![f64s([1, 2, 3], &[1.0, 3.0, 2.0, -1.0, -3.0, -2.0])], attrs(&[2], &[2], &[1], &[2], &[2]))
                .expect(vec![i64s([1, 2, 2], &[1, 1, 1, 1])], "by hand: windows {-1, 1} and {1, 3}")
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// Attributes as a row of cases writes them.
pub(super) fn attrs(window: &[i64], stride: &[i64], lo: &[i64], dilation: &[i64], out: &[i64]) -> Attrs {
    Attrs::new()
        .with("window", window)
        .with("stride", stride)
        .with("padding_lo", lo)
        .with("dilation", dilation)
        .with("out", out)
}

/// Windows that start in the padding and might step over the plane are tried one by one, up to
/// this many.
const BEFORE_MAX: usize = 1 << 20;

/// The attributes, checked against the input.
pub(super) struct Pool {
    sizes: SmallVec<[usize; 4]>,
    window: SmallVec<[usize; 4]>,
    stride: SmallVec<[usize; 4]>,
    lo: SmallVec<[usize; 4]>,
    dilation: SmallVec<[usize; 4]>,
    out: SmallVec<[usize; 4]>,
}

impl Pool {
    pub(super) fn new(c: &Call) -> Result<Pool> {
        c.arity(1)?;
        let shape = c.shape(0);
        if shape.rank() < 3 {
            return Err(Error::shape(format!("takes [N, C, *S] with at least one spatial dimension, not {shape}")));
        }
        let [window, stride, lo, dilation, out] =
            ["window", "stride", "padding_lo", "dilation", "out"].map(|n| c.attrs.sizes(n));
        let p = Pool {
            sizes: SmallVec::from_slice(&shape[2..]),
            window: window?,
            stride: stride?,
            lo: lo?,
            dilation: dilation?,
            out: out?,
        };
        let rank = p.sizes.len();
        if [&p.window, &p.stride, &p.lo, &p.dilation, &p.out].iter().any(|l| l.len() != rank) {
            return Err(Error::value(format!("attributes must have one entry for each of {rank} spatial dimensions")));
        }
        if p.window.contains(&0) || p.stride.contains(&0) || p.dilation.contains(&0) {
            return Err(Error::value("window, stride and dilation must be at least 1"));
        }
        for i in 0..rank {
            reach(p.out[i], p.stride[i], p.window[i], p.dilation[i], p.lo[i])?;
            if let Some(q) = p.outside(i)? {
                return Err(Error::shape(format!("window {q} of spatial dimension {i} lies outside of {shape}")));
            }
        }
        Ok(p)
    }
    /// A window along dimension `i` that covers no place, without a look at every window.
    fn outside(&self, i: usize) -> Result<Option<usize>> {
        let [size, step] = [self.sizes[i], self.dilation[i]].map(|x| x as i64);
        let first = |q: usize| (q * self.stride[i]) as i64 - self.lo[i] as i64;
        let misses = |q: usize| {
            // The window's first element that does not lie before the plane.
            let k = (-first(q)).max(0).unsigned_abs().div_ceil(step as u64) as i64;
            k >= self.window[i] as i64 || first(q) + k * step >= size
        };
        let Some(last) = self.out[i].checked_sub(1) else { return Ok(None) };
        // Of the windows that start before the plane, the first is the least likely to reach it;
        // of those that start behind its beginning, the last to start inside.
        if let Some(q) = [0, last].into_iter().find(|&q| misses(q)) {
            return Ok(Some(q));
        }
        // Those before the plane can also step over it.
        let before = self.lo[i].div_ceil(self.stride[i]).min(self.out[i]);
        if step <= size {
            return Ok(None);
        }
        if before > BEFORE_MAX {
            return Err(Error::shape(format!("{before} windows start in the padding of spatial dimension {i}")));
        }
        Ok((0..before).find(|&q| misses(q)))
    }
    pub(super) fn out_shape(&self, c: &Call) -> Shape {
        c.shape(0)[..2].iter().chain(&self.out).copied().collect()
    }
    /// The indices along dimension `i` that window `q` covers.
    fn along(&self, i: usize, q: usize) -> impl Iterator<Item = usize> + '_ {
        let first = q as i64 * self.stride[i] as i64 - self.lo[i] as i64;
        (0..self.window[i]).filter_map(move |k| {
            let at = first + (k * self.dilation[i]) as i64;
            (at >= 0 && at < self.sizes[i] as i64).then_some(at as usize)
        })
    }
    /// The indices in the flattened plane that window `q` covers, in order.
    fn places(&self, mut q: usize) -> Vec<usize> {
        let mut places = vec![0];
        let mut parts = Vec::new();
        for i in (0..self.out.len()).rev() {
            parts.push((i, q % self.out[i]));
            q /= self.out[i];
        }
        for (i, q) in parts.into_iter().rev() {
            places = places.iter().flat_map(|p| self.along(i, q).map(move |a| p * self.sizes[i] + a)).collect();
        }
        places
    }
}

fn reference(c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
    let pool = Pool::new(c)?;
    let (plane, windows) = (pool.sizes.iter().product::<usize>(), pool.out.iter().product::<usize>());
    let places: Vec<Vec<usize>> = (0..windows).map(|q| pool.places(q)).collect();
    let shape = pool.out_shape(c);
    let mut out = Vec::with_capacity(shape.count());
    let (x, whole) = (args[0].to_f64(), args[0].to_i64());
    let (is_float, is_wide) = (c.dtype(0).is_float(), c.dtype(0) == DType::U64);
    for n in 0..c.shape(0)[0] * c.shape(0)[1] {
        let beats = |a: usize, b: usize| {
            let (a, b) = (n * plane + a, n * plane + b);
            match (is_float, is_wide) {
                (true, _) => x[a] > x[b] || (x[a].is_nan() && !x[b].is_nan()),
                (_, true) => whole[a] as u64 > whole[b] as u64,
                _ => whole[a] > whole[b],
            }
        };
        out.extend(places.iter().map(|w| w.iter().fold(w[0], |best, &p| if beats(p, best) { p } else { best }) as i64));
    }
    Ok(vec![Literal::from_i64(DType::I64, shape, &out)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_outside_are_found_as_by_trying_all() {
        let one = |n: usize| SmallVec::from_slice(&[n]);
        for code in 0..4usize.pow(6) {
            let digit = |k: u32| code / 4usize.pow(k) % 4;
            let p = Pool {
                sizes: one(digit(0)),
                window: one(digit(1) + 1),
                stride: one(digit(2) + 1),
                lo: one(2 * digit(3)),
                dilation: one(digit(4) + 1),
                out: one(digit(5)),
            };
            let all = (0..p.out[0]).any(|q| p.along(0, q).next().is_none());
            assert_eq!(p.outside(0).unwrap().is_some(), all, "digits {:?}", [0, 1, 2, 3, 4, 5].map(digit));
        }
    }
}
