//! `pad_edges`: a border continued from the elements; and padding in PyTorch's terms.

use crate::rules::{by_expansion, expand1, f64s, floats};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Meaning, Op, Value};

/// The row of `pad_edges`.
pub static OP: Op = Op {
    name: "pad_edges",
    doc: "A border continued from the elements, `lo` before and `hi` after in each dimension: `mode` is reflect \
          (mirrored at the outermost element), replicate (the outermost element) or circular (from the other end); \
          negative widths crop.",
    attrs: &[("lo", AttrKind::Ints), ("hi", AttrKind::Ints), ("mode", AttrKind::Str)],
    infer: |c| by_expansion(c, body),
    meaning: Meaning::Composite(body),
    cases: || {
        let by = |lo: &[i64], hi: &[i64], m: &str| Attrs::new().with("lo", lo).with("hi", hi).with("mode", m);
        let x = f64s([5], &[1., 2., 3., 4., 5.]);
        vec![
            Case::new(vec![floats([2, 3], 1)], by(&[1, -1], &[0, 1], "reflect")),
            Case::new(vec![floats([2, 3], 2)], by(&[1, 2], &[3, -1], "replicate")),
            Case::new(vec![floats([2, 3], 3)], by(&[0, 2], &[2, 1], "circular")),
            Case::new(vec![f64s([4], &[0., 1., 2., 3.])], by(&[-1], &[1], "circular"))
                .expect(vec![f64s([4], &[1., 2., 3., 1.])], "PyTorch 2.15: F.pad(arange(4.), (-1, 1), 'circular')"),
            Case::new(vec![x.clone()], by(&[2], &[3], "reflect")).expect(
                vec![f64s([10], &[3., 2., 1., 2., 3., 4., 5., 4., 3., 2.])],
                "NumPy manual: np.pad(a, (2, 3), 'reflect')",
            ),
            Case::new(vec![x.clone()], by(&[2], &[3], "replicate")).expect(
                vec![f64s([10], &[1., 1., 1., 2., 3., 4., 5., 5., 5., 5.])],
                "NumPy manual: np.pad(a, (2, 3), 'edge')",
            ),
            Case::new(vec![x], by(&[2], &[3], "circular")).expect(
                vec![f64s([10], &[4., 5., 1., 2., 3., 4., 5., 1., 2., 3.])],
                "NumPy manual: np.pad(a, (2, 3), 'wrap')",
            ),
        ]
    },
    ..Op::DEFAULT
};

fn body(c: &Call, x: &[Value]) -> Result<Vec<Value>> {
    c.arity(1)?;
    let (lo, hi, mode) = (c.attrs.ints("lo")?, c.attrs.ints("hi")?, c.attrs.str("mode")?);
    let shape = c.shape(0);
    if lo.len() != shape.rank() || hi.len() != shape.rank() {
        return Err(Error::value(format!("lo and hi must have one entry for each dimension of {shape}")));
    }
    for (d, &size) in shape.iter().enumerate() {
        let most = match mode {
            "reflect" => size as i64 - 1,
            "replicate" if size > 0 => i64::MAX,
            "replicate" => 0,
            // The border comes from what is left after cropping.
            "circular" => (size as i64).saturating_add(lo[d].min(0)).saturating_add(hi[d].min(0)),
            _ => return Err(Error::value(format!("mode must be reflect, replicate or circular, not {mode}"))),
        };
        if lo[d].max(hi[d]) > most.max(0) {
            let e = format!("{mode} cannot pad dimension {d} of size {size} by {} and {}", lo[d], hi[d]);
            return Err(Error::shape(e));
        }
    }
    let crops = lo.iter().chain(hi).any(|&w| w < 0);
    let negative = |w: &[i64]| -> Vec<i64> { w.iter().map(|&w| w.min(0)).collect() };
    let cropped = |x: Tensor| if crops { x.pad_raw(&negative(lo), &negative(hi), 0.0) } else { x };
    let widened = |x: Tensor| {
        (0..shape.rank()).fold(x, |x, d| {
            let (before, after) = (lo[d].max(0) as usize, hi[d].max(0) as usize);
            if before + after == 0 { x } else { widen(&x, d, before, after, mode) }
        })
    };
    // As in PyTorch, a circular border comes from the cropped axis, the others from the whole one.
    expand1(x, |x| {
        let x = x[0].clone();
        if mode == "circular" { widened(cropped(x)) } else { cropped(widened(x)) }
    })
}

fn widen(x: &Tensor, d: usize, before: usize, after: usize, mode: &str) -> Tensor {
    x.then(|t| {
        let (a, size) = (d as i64, t.shape[d]);
        let edge = |start: usize, times: usize| {
            let mut wide = t.shape.clone();
            wide.dims_mut()[d] = times;
            x.narrow(a, start, 1).broadcast_to(wide)
        };
        let (left, right) = match mode {
            "reflect" => (x.narrow(a, 1, before).flip(a), x.narrow(a, size - 1 - after, after).flip(a)),
            "replicate" => (edge(0, before), edge(size - 1, after)),
            _ => (x.narrow(a, size - before, before), x.narrow(a, 0, after)),
        };
        let parts: Vec<Tensor> = [(left, before), (x.clone(), 1), (right, after)]
            .into_iter()
            .filter(|(_, n)| *n > 0)
            .map(|(p, _)| p)
            .collect();
        Ok(Tensor::concat(&parts, a))
    })
}

/// What a border is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pad {
    /// One value.
    Constant(f64),
    /// The elements mirrored at the outermost one, which is not repeated.
    Reflect,
    /// The outermost element.
    Replicate,
    /// The elements from the other end.
    Circular,
}

impl Tensor {
    /// A border around the elements, its widths in PyTorch's order: before and after in the last
    /// dimension, then in the one before it, and so on; negative widths crop.
    ///
    /// ```
    /// # use talweg_ops::{Pad, Tensor};
    /// let x = Tensor::from([1, 2, 3]);
    /// assert_eq!(x.pad(&[1, 0], Pad::Constant(9.0)).to_vec::<i32>().unwrap(), [9, 1, 2, 3]);
    /// assert_eq!(x.pad(&[0, 2], Pad::Reflect).to_vec::<i32>().unwrap(), [1, 2, 3, 2, 1]);
    /// ```
    #[track_caller]
    pub fn pad(&self, widths: &[i64], mode: Pad) -> Tensor {
        self.then(|t| {
            let rank = t.shape.rank();
            if !widths.len().is_multiple_of(2) || widths.len() / 2 > rank {
                let e = format!("widths come in pairs, at most one for each dimension of {}: {widths:?}", t.shape);
                return Err(Error::value(e).in_op("pad"));
            }
            let (mut lo, mut hi) = (vec![0; rank], vec![0; rank]);
            for (i, pair) in widths.chunks_exact(2).enumerate() {
                (lo[rank - 1 - i], hi[rank - 1 - i]) = (pair[0], pair[1]);
            }
            let name = match mode {
                Pad::Constant(value) => return Ok(self.pad_raw(&lo, &hi, value)),
                Pad::Reflect => "reflect",
                Pad::Replicate => "replicate",
                Pad::Circular => "circular",
            };
            let attrs = Attrs::new().with("lo", &lo).with("hi", &hi).with("mode", name);
            Ok(Tensor::apply1(&OP, &[self], attrs))
        })
    }
}
