//! `grid_sample`: an image sampled at given coordinates.

use super::grid_sample_grad;
use super::interpolate::CUBIC;
use crate::rules::{GradTensors, by_expansion, expand_wide, f64s, float, floats, maybe_grads, one_dtype, sample};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, DType, Grad, Meaning, Op, Shape, Value};

/// The attributes of `grid_sample` and its gradient.
pub(super) const ATTRS: [(&str, AttrKind); 3] =
    [("mode", AttrKind::Str), ("padding", AttrKind::Str), ("align_corners", AttrKind::Bool)];

/// The row of `grid_sample`.
pub static OP: Op = Op {
    name: "grid_sample",
    doc: "x[N, C, *S] sampled at coordinates grid[N, *Q, D], D the number of spatial dimensions: the last \
          dimension's coordinate comes first, −1 and 1 are the outer edges of the image, or the centers of its corner \
          elements with `align_corners`. Modes: bilinear, nearest, bicubic. Padding: zeros, border, reflection.",
    attrs: &ATTRS,
    infer: |c| {
        check(c, 2)?;
        by_expansion(c, body)
    },
    meaning: Meaning::Composite(body),
    grad: Grad::Rule(|c| {
        let got = Tensor::apply(&grid_sample_grad::OP, &[&c.x(0), &c.x(1), &c.g(0)], c.attrs.clone());
        maybe_grads(got.into_iter().map(Some).collect())
    }),
    cases: || {
        let with = |mode: &str, padding: &str, align: bool| {
            Attrs::new().with("mode", mode).with("padding", padding).with("align_corners", align)
        };
        let grid = |seed| sample(DType::F64, [1, 1, 3, 2], seed, (-1.4, 1.4));
        let x = || f64s([1, 1, 2, 2], &[1.0, 2.0, 3.0, 4.0]);
        vec![
            Case::new(vec![floats([1, 2, 3, 3], 1), grid(2)], with("bilinear", "zeros", false)),
            Case::new(vec![floats([1, 1, 3, 3], 1), grid(3)], with("bilinear", "border", true)),
            Case::new(vec![floats([1, 1, 3, 3], 1), grid(4)], with("bilinear", "reflection", false)),
            Case::new(vec![floats([1, 1, 3, 3], 1), grid(5)], with("nearest", "border", false)),
            Case::new(vec![floats([1, 1, 3, 3], 1), grid(6)], with("bicubic", "zeros", true)),
            Case::new(vec![floats([1, 1, 3, 3], 1), grid(7)], with("bicubic", "reflection", false)),
            Case::new(vec![x(), f64s([1, 1, 3, 2], &[0.0, 0.0, 1.0, -1.0, 5.0, 0.0])], with("bilinear", "zeros", true))
                .expect(
                    vec![f64s([1, 1, 1, 3], &[2.5, 2.0, 0.0])],
                    "by hand: the middle, the upper right corner, outside",
                )
                .kinked(),
        ]
    },
    ..Op::DEFAULT
};

/// The rule for image and coordinates, which are the first two of `arity` inputs.
pub(super) fn check(c: &Call, arity: usize) -> Result<()> {
    c.arity(arity)?;
    float(c, 0)?;
    one_dtype(c)?;
    let (x, grid) = (c.shape(0), c.shape(1));
    let rank = x.rank().saturating_sub(2);
    if !(1..=3).contains(&rank) || grid.rank() != x.rank() || grid[0] != x[0] || grid[grid.rank() - 1] != rank {
        return Err(Error::shape(format!("takes x[N, C, *S] and grid[N, *Q, {rank}], not {x} and {grid}")));
    }
    if x[2..].contains(&0) {
        return Err(Error::shape(format!("an image {x} has nothing to read")));
    }
    Ok(())
}

/// What lies outside of the image.
#[derive(Clone, Copy, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

/// One dimension of the image.
#[derive(Clone, Copy)]
struct Side {
    size: usize,
    outside: Outside,
    align: bool,
}

/// An element to be read along one dimension: its index, its weight, how that changes with the coordinate, and whether
/// the element exists.
pub(super) struct Tap {
    place: Tensor,
    pub weight: Option<Tensor>,
    pub slope: Option<Tensor>,
    inside: Option<Tensor>,
}

impl Side {
    /// From coordinates in −1 to 1 to pixel coordinates.
    fn place(self, g: &Tensor) -> Tensor {
        let n = self.size as f64;
        if self.align { (g + 1.0) * ((n - 1.0) / 2.0) } else { ((g + 1.0) * n - 1.0) * 0.5 }
    }
    /// Coordinates outside the image mapped by the padding mode; zeros are left to `tap`.
    fn bring_back(self, x: &Tensor) -> Tensor {
        let last = self.size as f64 - 1.0;
        match self.outside {
            Outside::Zeros => x.clone(),
            Outside::Border => x.clamp_min(0.0).clamp_max(last),
            Outside::Reflection => {
                let (low, span) = if self.align { (0.0, last) } else { (-0.5, last + 1.0) };
                if span == 0.0 {
                    return x.zeros_like();
                }
                let from = (x - low).abs();
                let turns = (&from / span).floor();
                let rest = &from - &turns * span;
                let odd = turns.rem(2.0).eq(1.0);
                let back = Tensor::where_(&odd, &(span - &rest), &rest) + low;
                back.clamp_min(0.0).clamp_max(last)
            }
        }
    }
    /// The derivative of that mapping.
    fn turn(self, x: &Tensor) -> Tensor {
        let (n, last) = (self.size as f64, self.size as f64 - 1.0);
        let step = if self.align { last / 2.0 } else { n / 2.0 };
        let within = |x: &Tensor, turn: Tensor| Tensor::where_(&x.gt(0.0).and(x.lt(last)), &turn, 0.0);
        let even = x.zeros_like() + step;
        match self.outside {
            Outside::Zeros => even,
            Outside::Border => within(x, even),
            Outside::Reflection => {
                let (low, span) = if self.align { (0.0, last) } else { (-0.5, last + 1.0) };
                if span == 0.0 {
                    return x.zeros_like();
                }
                let turns = ((x - low).abs() / span).floor();
                let is_back = turns.rem(2.0).eq(1.0).ne(x.lt(low));
                within(&self.bring_back(x), Tensor::where_(&is_back, &(-&even), &even))
            }
        }
    }
    /// The element at a whole-numbered place.
    fn tap(self, place: &Tensor, weight: Option<Tensor>, slope: Option<Tensor>) -> Tap {
        let last = self.size as f64 - 1.0;
        let inside = (self.outside == Outside::Zeros).then(|| place.ge(0.0).and(place.le(last)));
        // A NaN or far place is read somewhere; its weight or mask decides.
        let place = place.stop_gradient().clamp_min(0.0).clamp_max(last).cast(DType::I64);
        let place = place.clamp_min(0).clamp_max(self.size as i64 - 1);
        Tap { place, weight, slope, inside }
    }
    fn taps(self, mode: &str, g: &Tensor) -> Result<Vec<Tap>> {
        let x = self.place(g);
        Ok(match mode {
            "nearest" => vec![self.tap(&self.bring_back(&x).round(), None, None)],
            "bilinear" => {
                let (x, turn) = (self.bring_back(&x), self.turn(&x));
                let first = x.floor();
                let t = &x - &first;
                let low = self.tap(&first, Some(1.0 - &t), Some(-&turn));
                vec![low, self.tap(&(first + 1.0), Some(t), Some(turn))]
            }
            "bicubic" => {
                // Each neighbor is brought back by itself.
                let first = x.floor();
                let t = &x - &first;
                let near = |x: Tensor| (&x * (CUBIC + 2.0) - (CUBIC + 3.0)) * &x * &x + 1.0;
                let far = |x: Tensor| ((&x * CUBIC - 5.0 * CUBIC) * &x + 8.0 * CUBIC) * &x - 4.0 * CUBIC;
                let weights = [far(&t + 1.0), near(t.clone()), near(1.0 - &t), far(2.0 - &t)];
                let near = |x: Tensor| (&x * (3.0 * (CUBIC + 2.0)) - 2.0 * (CUBIC + 3.0)) * &x;
                let far = |x: Tensor| (&x * (3.0 * CUBIC) - 10.0 * CUBIC) * &x + 8.0 * CUBIC;
                let step = if self.align { (self.size as f64 - 1.0) / 2.0 } else { self.size as f64 / 2.0 };
                let slopes = [far(&t + 1.0), near(t.clone()), -near(1.0 - &t), -far(2.0 - &t)];
                let at = |k: usize| self.bring_back(&(&first + (k as f64 - 1.0)));
                let both = weights.into_iter().zip(slopes).enumerate();
                both.map(|(k, (w, s))| self.tap(&at(k), Some(w), Some(s * step))).collect()
            }
            _ => return Err(Error::value(format!("mode must be bilinear, nearest or bicubic, not {mode:?}"))),
        })
    }
}

/// The taps of each dimension for coordinates `grid` into images `shape`.
pub(super) fn taps(attrs: &Attrs, shape: &Shape, grid: &Tensor) -> Result<Vec<Vec<Tap>>> {
    let (mode, align) = (attrs.str("mode")?, attrs.bool("align_corners")?);
    let outside = match attrs.str("padding")? {
        "zeros" => Outside::Zeros,
        "border" => Outside::Border,
        "reflection" => Outside::Reflection,
        other => return Err(Error::value(format!("padding must be zeros, border or reflection, not {other:?}"))),
    };
    let sizes = &shape[2..];
    let along = |i: usize| {
        let g = grid.select(-1, (sizes.len() - 1 - i) as i64);
        Side { size: sizes[i], outside, align }.taps(mode, &g)
    };
    (0..sizes.len()).map(along).collect()
}

/// Every combination of one tap from each dimension.
pub(super) fn combinations(taps: &[Vec<Tap>]) -> impl Iterator<Item = Vec<&Tap>> {
    (0..taps.iter().map(Vec::len).product()).map(move |mut k: usize| {
        let chosen = taps.iter().map(|t| {
            let tap = &t[k % t.len()];
            k /= t.len();
            tap
        });
        chosen.collect()
    })
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let shape = c.shape(0);
    expand_wide(args, |v| {
        let sizes = &shape[2..];
        let taps = taps(c.attrs, shape, &v[1])?;
        let flat = v[0].flatten(2, -1);
        let q: usize = c.shape(1)[1..sizes.len() + 1].iter().product();
        let mut sum: Option<Tensor> = None;
        for chosen in combinations(&taps) {
            let part = read(&flat, shape, q, &chosen);
            sum = Some(match sum {
                Some(s) => s + part,
                None => part,
            });
        }
        let out: Shape = shape[..2].iter().chain(&c.shape(1)[1..sizes.len() + 1]).copied().collect();
        let sum = sum.ok_or_else(|| Error::bug("no taps"))?;
        Ok(vec![sum.reshape(out)])
    })
}

/// The elements that one tap in each dimension leads to, weighted: [N, C, Q].
fn read(flat: &Tensor, shape: &Shape, q: usize, taps: &[&Tap]) -> Tensor {
    let mut value = flat.gather(2, &index(shape, q, taps));
    if let Some(w) = taps.iter().filter_map(|t| t.weight.clone()).reduce(|a, b| a * b) {
        value = value * w.reshape([shape[0], 1, q]);
    }
    inside(&value, shape, q, taps)
}
/// Which elements of each channel one tap in each dimension leads to.
pub(super) fn index(shape: &Shape, q: usize, taps: &[&Tap]) -> Tensor {
    let mut index = Tensor::full_of((), 0.0, DType::I64);
    for (tap, &size) in taps.iter().zip(&shape[2..]) {
        index = index * size as i64 + &tap.place;
    }
    index.reshape([shape[0], 1, q]).broadcast_to([shape[0], shape[1], q])
}
/// Values `[N, C, Q]` where the elements exist, else zeros.
pub(super) fn inside(value: &Tensor, shape: &Shape, q: usize, taps: &[&Tap]) -> Tensor {
    match taps.iter().filter_map(|t| t.inside.clone()).reduce(|a, b| a.and(b)) {
        Some(m) => Tensor::where_(&m.reshape([shape[0], 1, q]), value, 0.0),
        None => value.clone(),
    }
}

/// How an image is sampled at coordinates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleOptions {
    /// `bilinear`, `nearest` or `bicubic`.
    pub mode: String,
    /// What lies outside: `zeros`, `border` or `reflection`.
    pub padding: String,
    /// −1 and 1 are the centers of the corner elements, not the outer edges.
    pub align_corners: bool,
}
impl Default for SampleOptions {
    fn default() -> SampleOptions {
        SampleOptions { mode: "bilinear".into(), padding: "zeros".into(), align_corners: false }
    }
}

impl Tensor {
    /// An image `[N, C, *S]` sampled at coordinates `[N, *Q, D]`; see the row for their meaning.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::SampleOptions};
    /// let x = Tensor::from([[[[1.0f32, 2.0], [3.0, 4.0]]]]);
    /// let y = x.grid_sample(&Tensor::zeros([1, 1, 1, 2]), SampleOptions::default());
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [2.5]);
    /// ```
    #[track_caller]
    pub fn grid_sample(&self, grid: &Tensor, options: SampleOptions) -> Tensor {
        self.then(|_| {
            let (x, g) = self.promoted(grid)?;
            let attrs = Attrs::new()
                .with("mode", options.mode.as_str())
                .with("padding", options.padding.as_str())
                .with("align_corners", options.align_corners);
            Ok(Tensor::apply1(&OP, &[&x, &g], attrs))
        })
    }
}
