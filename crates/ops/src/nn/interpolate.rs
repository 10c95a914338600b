//! `interpolate`: an image in another size.

use super::adaptive_avg_pool::weights_size;
use super::window::{PerAxis, Sizes, along_axis, table, table_size};
use crate::rules::{expand, expand_wide, f64s, float, floats, one};
use crate::{Error, Result, Tensor};
use ir::{AttrKind, Attrs, Call, Case, Literal, Meaning, Op, Shape, Value};
use smallvec::SmallVec;

/// The row of `interpolate`.
pub static OP: Op = Op {
    name: "interpolate",
    doc: "x[N, C, *S] resampled to spatial sizes `out`. `step` says how far the input moves for one element of the \
          output, in each dimension; with `align_corners` it is (S − 1) / (out − 1) instead, so that the corners \
          meet. Modes: nearest, nearest-exact, linear, cubic, area.",
    attrs: &[
        ("out", AttrKind::Ints),
        ("step", AttrKind::Literal),
        ("mode", AttrKind::Str),
        ("align_corners", AttrKind::Bool),
    ],
    infer: |c| {
        let r = Resampling::new(c)?;
        one(c.dtype(0), c.shape(0)[..2].iter().chain(&r.out).copied().collect::<Shape>())
    },
    meaning: Meaning::Composite(body),
    cases: || {
        let to = |out: &[i64], step: &[f64], mode: &str, align: bool| {
            Attrs::new()
                .with("out", out)
                .with("step", f64s([step.len()], step))
                .with("mode", mode)
                .with("align_corners", align)
        };
        let up = || f64s([1, 1, 2], &[1.0, 3.0]);
        vec![
            Case::new(vec![floats([1, 1, 3, 4], 1)], to(&[4, 2], &[0.75, 2.0], "linear", false)),
            Case::new(vec![floats([1, 2, 4], 2)], to(&[5], &[0.8], "linear", true)),
            Case::new(vec![floats([1, 1, 4, 3], 3)], to(&[3, 5], &[4.0 / 3.0, 0.6], "cubic", false)),
            Case::new(vec![floats([1, 2, 4], 4)], to(&[6], &[0.7], "nearest-exact", false)),
            Case::new(vec![floats([1, 2, 5], 4)], to(&[3], &[1.5], "area", false)),
            Case::new(vec![up()], to(&[4], &[0.5], "nearest", false))
                .expect(vec![f64s([1, 1, 4], &[1.0, 1.0, 3.0, 3.0])], "by hand"),
            Case::new(vec![up()], to(&[4], &[0.5], "linear", false))
                .expect(vec![f64s([1, 1, 4], &[1.0, 1.5, 2.5, 3.0])], "by hand: centers at ¼ and ¾ of the way"),
            Case::new(vec![up()], to(&[3], &[0.5], "linear", true))
                .expect(vec![f64s([1, 1, 3], &[1.0, 2.0, 3.0])], "by hand"),
        ]
    },
    ..Op::DEFAULT
};

/// The attributes, checked against the input.
struct Resampling {
    out: SmallVec<[usize; 4]>,
    step: Vec<f64>,
    mode: Interpolation,
    align: bool,
}

impl Resampling {
    fn new(c: &Call) -> Result<Resampling> {
        c.arity(1)?;
        let (shape, out, step) = (c.shape(0), c.attrs.sizes("out")?, c.attrs.literal("step")?.to_f64());
        let (mode, align) = (Interpolation::parse(c.attrs.str("mode")?)?, c.attrs.bool("align_corners")?);
        if shape.rank() < 3 || out.len() + 2 != shape.rank() || step.len() != out.len() {
            let e = format!("takes [N, C, *S] and a size and step for each of S, not {shape} and {out:?}");
            return Err(Error::shape(e));
        }
        if shape[2..].contains(&0) || out.contains(&0) || step.iter().any(|s| !s.is_finite() || *s < 0.0) {
            let e = format!("sizes must be at least 1 and steps not negative: {shape} to {out:?} by {step:?}");
            return Err(Error::value(e));
        }
        let is_nearest = matches!(mode, Interpolation::Nearest | Interpolation::NearestExact);
        if !is_nearest {
            float(c, 0)?;
        }
        for (&size, &out) in shape[2..].iter().zip(&out) {
            match mode {
                Interpolation::Area => weights_size(size, out)?,
                _ if is_nearest => table_size(&[out])?,
                _ => table_size(&[size, out])?,
            };
        }
        Ok(Resampling { out, step, mode, align })
    }
}

fn body(c: &Call, args: &[Value]) -> Result<Vec<Value>> {
    let Resampling { out, step, mode, align } = Resampling::new(c)?;
    if mode == Interpolation::Area {
        return expand(args, |v| Ok(vec![area(&v[0], &out)]));
    }
    let run = |v: &[Tensor]| {
        let mut y = v[0].clone();
        for i in 0..out.len() {
            y = along(&y, i + 2, c.shape(0)[i + 2], out[i], mode, Grid { step: step[i], align });
        }
        Ok(vec![y])
    };
    // The nearest elements are moved, others mixed.
    let is_nearest = matches!(mode, Interpolation::Nearest | Interpolation::NearestExact);
    if is_nearest { expand(args, run) } else { expand_wide(args, run) }
}

fn area(x: &Tensor, out: &[usize]) -> Tensor {
    Tensor::apply1(&super::adaptive_avg_pool::OP, &[x], Attrs::new().with("out", out))
}

/// How output coordinates correspond to input coordinates.
#[derive(Clone, Copy)]
struct Grid {
    step: f64,
    align: bool,
}
impl Grid {
    /// Where the center of output element `i` lies.
    fn center(self, i: usize, size: usize, out: usize) -> f64 {
        match self.align {
            true if out > 1 => i as f64 * (size - 1) as f64 / (out - 1) as f64,
            true => 0.0,
            false => (i as f64 + 0.5) * self.step - 0.5,
        }
    }
}

/// One axis resampled.
fn along(x: &Tensor, axis: usize, size: usize, out: usize, mode: Interpolation, grid: Grid) -> Tensor {
    let last = size as i64 - 1;
    if matches!(mode, Interpolation::Nearest | Interpolation::NearestExact) {
        let shift = if mode == Interpolation::Nearest { 0.0 } else { 0.5 };
        let place = |i: usize| (((i as f64 + shift) * grid.step).floor() as i64).min(last);
        let places: Vec<i64> = (0..out).map(place).collect();
        if places.iter().copied().eq(0..size as i64) {
            return x.clone();
        }
        // A whole factor repeats elements, and its gradient is a sum.
        if out.is_multiple_of(size) && (0..out).all(|i| places[i] == (i / (out / size)) as i64) {
            return x.repeat_interleave(out / size, axis as i64);
        }
        return x.take(&table([out], &places), axis as i64);
    }
    let mut weights = vec![0.0; size * out];
    for i in 0..out {
        let center = grid.center(i, size, out);
        let center = if mode == Interpolation::Linear { center.max(0.0) } else { center };
        let (first, t) = (center.floor(), center - center.floor());
        let taps: &[(i64, f64)] = match mode {
            Interpolation::Linear => &[(0, 1.0 - t), (1, t)],
            _ => &[(-1, far(1.0 + t)), (0, near(t)), (1, near(1.0 - t)), (2, far(2.0 - t))],
        };
        for (k, w) in taps {
            // Beyond the border lies its last element.
            weights[(first as i64).saturating_add(*k).clamp(0, last) as usize * out + i] += w;
        }
    }
    let is_identity = size == out && (0..size * out).all(|i| weights[i] == (i / out == i % out) as u8 as f64);
    if is_identity { x.clone() } else { along_axis(x, axis, &table([size, out], &weights)) }
}

/// The cubic convolution kernel's parameter, as PyTorch and OpenCV have it.
pub(super) const CUBIC: f64 = -0.75;
/// The cubic convolution kernel up to distance 1.
fn near(x: f64) -> f64 {
    ((CUBIC + 2.0) * x - (CUBIC + 3.0)) * x * x + 1.0
}
/// The cubic convolution kernel from distance 1 to 2.
fn far(x: f64) -> f64 {
    ((CUBIC * x - 5.0 * CUBIC) * x + 8.0 * CUBIC) * x - 4.0 * CUBIC
}

/// How values between the elements are found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Interpolation {
    /// The element that the start of the output element falls into.
    #[default]
    Nearest,
    /// The element that the center of the output element falls into.
    NearestExact,
    /// Straight lines between neighbors, in every dimension.
    Linear,
    /// Cubic convolution over four neighbors, in every dimension.
    Cubic,
    /// Means over the area that an output element covers.
    Area,
}
impl Interpolation {
    /// The word for it in attributes.
    pub fn name(self) -> &'static str {
        match self {
            Interpolation::Nearest => "nearest",
            Interpolation::NearestExact => "nearest-exact",
            Interpolation::Linear => "linear",
            Interpolation::Cubic => "cubic",
            Interpolation::Area => "area",
        }
    }
    /// The mode with that name; PyTorch's names for more dimensions are understood too.
    pub fn parse(name: &str) -> Result<Interpolation> {
        match name {
            "nearest" => Ok(Interpolation::Nearest),
            "nearest-exact" => Ok(Interpolation::NearestExact),
            "linear" | "bilinear" | "trilinear" => Ok(Interpolation::Linear),
            "cubic" | "bicubic" => Ok(Interpolation::Cubic),
            "area" => Ok(Interpolation::Area),
            _ => Err(Error::value(format!("mode must be nearest, nearest-exact, linear, cubic or area, not {name:?}"))),
        }
    }
}

/// The size of an interpolated image.
#[derive(Clone, Debug, PartialEq)]
pub enum Resize {
    /// These spatial sizes.
    To(PerAxis),
    /// The input's sizes times one factor for all dimensions, or one for each, rounded down.
    By(Vec<f64>),
}

/// How an image is interpolated.
#[derive(Clone, Debug, PartialEq)]
pub struct InterpolateOptions {
    /// How values between the elements are found.
    pub mode: Interpolation,
    /// The centers of the corner elements meet, instead of their outer edges.
    pub align_corners: bool,
    /// With factors: coordinates follow from the rounded sizes, not from the factors.
    pub recompute_factor: bool,
}
impl Default for InterpolateOptions {
    fn default() -> InterpolateOptions {
        InterpolateOptions { mode: Interpolation::Nearest, align_corners: false, recompute_factor: false }
    }
}

impl Tensor {
    /// An image `[N, C, *S]` in another size.
    ///
    /// ```
    /// # use talweg_ops::{Tensor, nn::{InterpolateOptions, Interpolation, Resize}};
    /// let x = Tensor::from([[[1.0f32, 3.0]]]);
    /// let options = InterpolateOptions { mode: Interpolation::Linear, ..Default::default() };
    /// let y = x.interpolate(Resize::By(vec![2.0]), options);
    /// assert_eq!(y.to_vec::<f32>().unwrap(), [1.0, 1.5, 2.5, 3.0]);
    /// ```
    #[track_caller]
    pub fn interpolate(&self, size: Resize, options: InterpolateOptions) -> Tensor {
        self.then(|t| {
            let run = || -> Result<Tensor> {
                if t.shape.rank() < 3 {
                    return Err(Error::shape(format!("takes [N, C, *S], not {}", t.shape)));
                }
                let (out, step) = resized(&t.shape[2..], &size, options.recompute_factor)?;
                let attrs = Attrs::new()
                    .with("out", out.as_slice())
                    .with("step", Literal::new(step.len(), &step)?)
                    .with("mode", options.mode.name())
                    .with("align_corners", options.align_corners);
                Ok(Tensor::apply1(&OP, &[self], attrs))
            };
            run().map_err(|e| e.in_op("interpolate"))
        })
    }
}

/// The sizes of the output, and how far the input moves for one of its elements.
fn resized(sizes: &[usize], to: &Resize, recompute: bool) -> Result<(Sizes, Vec<f64>)> {
    let ratio = |out: &Sizes| sizes.iter().zip(out).map(|(&s, &n)| s as f64 / n.max(1) as f64).collect();
    match to {
        Resize::To(n) => {
            let out = n.resolve_positive(sizes.len(), "size")?;
            let step = ratio(&out);
            Ok((out, step))
        }
        Resize::By(factors) => {
            let n = sizes.len();
            if (factors.len() != 1 && factors.len() != n) || factors.iter().any(|f| !f.is_finite() || *f <= 0.0) {
                return Err(Error::value(format!("{n} positive factors (or one for all) are needed, not {factors:?}")));
            }
            let factor = |i: usize| factors[if factors.len() == 1 { 0 } else { i }];
            let out: Sizes = (0..n).map(|i| (sizes[i] as f64 * factor(i)).floor() as usize).collect();
            let step = if recompute { ratio(&out) } else { (0..n).map(|i| 1.0 / factor(i)).collect() };
            Ok((out, step))
        }
    }
}
