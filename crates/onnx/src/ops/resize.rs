//! Images in other sizes, and sampled at coordinates.

use super::{Outs, Row, axes_of, constant, number, one, row, shape_of};
use crate::run::Call;
use ir::{DType, Error, Literal, Result};
use tensor::Tensor;
use tensor::nn::SampleOptions;

pub static ROWS: &[Row] = &[
    row("Upsample", 7, |c| resize(c, true)),
    row("Resize", 10, |c| resize(c, c.version() < 11)),
    row("GridSample", 16, grid_sample),
    row("AffineGrid", 20, affine_grid),
];

/// How one axis is resampled.
struct Axis<'a> {
    size: usize,
    out: usize,
    scale: f64,
    roi: (f64, f64),
    coordinates: &'a str,
}

impl Axis<'_> {
    /// Where an output element lies in the input; `None` beyond the region of a crop.
    fn place(&self, x: usize) -> Result<Option<f64>> {
        let (n, x) = (self.size as f64, x as f64);
        let width = self.scale * n;
        Ok(Some(match self.coordinates {
            "half_pixel" => (x + 0.5) / self.scale - 0.5,
            "asymmetric" => x / self.scale,
            "align_corners" if width == 1.0 => 0.0,
            "align_corners" => x * (n - 1.0) / (width - 1.0),
            "pytorch_half_pixel" if width == 1.0 => -0.5,
            "pytorch_half_pixel" => (x + 0.5) / self.scale - 0.5,
            "half_pixel_symmetric" => {
                let adjustment = self.out as f64 / width;
                n / 2.0 * (1.0 - adjustment) + (x + 0.5) / self.scale - 0.5
            }
            "tf_half_pixel_for_nn" => (x + 0.5) / self.scale,
            "tf_crop_and_resize" => {
                let (a, b) = self.roi;
                let at = if width == 1.0 { (b - a) * (n - 1.0) / 2.0 } else { x * (b - a) * (n - 1.0) / (width - 1.0) };
                let at = at + a * (n - 1.0);
                return Ok((0.0..=n - 1.0).contains(&at).then_some(at));
            }
            w => return Err(Error::value(format!("coordinate_transformation_mode is {w:?}"))),
        }))
    }
}

fn resize(c: &Call<'_>, is_old: bool) -> Outs {
    let x = c.x(0)?;
    let (shape, dtype) = (x.shape()?, x.dtype()?);
    let mode = c.text("mode", "nearest");
    let coordinates = if is_old { "asymmetric" } else { c.text("coordinate_transformation_mode", "half_pixel") };
    let nearest = if is_old { "floor" } else { c.text("nearest_mode", "round_prefer_floor") };
    let (scales_at, sizes_at) = if is_old { (1, usize::MAX) } else { (2, 3) };
    let axes = match c.list("axes") {
        Some(a) => axes_of(&a, shape.rank())?,
        None => (0..shape.rank()).collect(),
    };
    let scales = match c.float_list("scales") {
        Some(s) => s.iter().map(|&s| f64::from(s)).collect(),
        None if c.has(scales_at) => c.floats(scales_at)?,
        None => Vec::new(),
    };
    let roi = if !is_old && c.has(1) { c.floats(1)? } else { Vec::new() };
    let mut plan: Vec<(usize, Axis<'_>)> = Vec::new();
    let made = if scales.len() == axes.len() && !axes.is_empty() {
        let out = |a: usize, s: f64| (shape[a] as f64 * s + 1e-9).floor();
        axes.iter().zip(&scales).map(|(&a, &s)| (a, out(a, s), s)).collect::<Vec<_>>()
    } else if sizes_at != usize::MAX && c.has(sizes_at) {
        by_sizes(c, &c.ints(sizes_at)?, &axes, &shape)?
    } else {
        return Err(Error::value(format!("{} scales for {} axes, and no sizes", scales.len(), axes.len())));
    };
    let mut count = x.count()? as f64;
    for (i, &(a, out, scale)) in made.iter().enumerate() {
        if !(out >= 0.0 && scale > 0.0 && out < 1e9) || shape[a] == 0 {
            return Err(Error::value(format!("axis {a} of shape {shape} is scaled by {scale}")));
        }
        count *= out / shape[a] as f64;
        c.check_count(if count < 1e18 { count as usize } else { usize::MAX }, dtype)?;
        let n = axes.len();
        let roi = if roi.len() == 2 * n { (roi[i], roi[i + n]) } else { (0.0, 1.0) };
        plan.push((a, Axis { size: shape[a], out: out as usize, scale, roi, coordinates }));
    }
    let mut y = if mode == "nearest" { x } else { x.cast(if dtype == DType::F64 { DType::F64 } else { DType::F32 }) };
    for (a, axis) in &plan {
        y = along(c, &y, *a, axis, mode, nearest)?;
    }
    let is_rounded = dtype.is_int() && mode != "nearest";
    one(if is_rounded { y.round().cast(dtype) } else { y.cast(dtype) })
}

/// Sizes that are asked for, perhaps with the proportions kept.
fn by_sizes(c: &Call<'_>, sizes: &[i64], axes: &[usize], shape: &ir::Shape) -> Result<Vec<(usize, f64, f64)>> {
    if sizes.len() != axes.len() {
        return Err(Error::value(format!("{} sizes for {} axes", sizes.len(), axes.len())));
    }
    let each = axes.iter().zip(sizes).map(|(&a, &s)| (a, s as f64, s as f64 / shape[a].max(1) as f64));
    let policy = c.text("keep_aspect_ratio_policy", "stretch");
    let scales = each.clone().map(|(_, _, s)| s);
    let scale = match policy {
        "stretch" => return Ok(each.collect()),
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        p => return Err(Error::value(format!("keep_aspect_ratio_policy is {p:?}"))),
    };
    Ok(axes.iter().map(|&a| (a, (scale * shape[a] as f64 + 0.5).floor(), scale)).collect())
}

/// One axis resampled.
fn along(c: &Call<'_>, x: &Tensor, a: usize, axis: &Axis<'_>, mode: &str, nearest: &str) -> Result<Tensor> {
    let places = (0..axis.out).map(|i| axis.place(i)).collect::<Result<Vec<_>>>()?;
    let last = axis.size as i64 - 1;
    let is_same = axis.size == axis.out && places.iter().enumerate().all(|(i, p)| *p == Some(i as f64));
    if is_same {
        return Ok(x.clone());
    }
    let indices = |f: &dyn Fn(f64) -> i64| -> Tensor {
        let list: Vec<i64> = places.iter().map(|p| f(p.unwrap_or(0.0)).clamp(0, last)).collect();
        constant(Literal::from_i64(DType::I64, [axis.out], &list))
    };
    let y = if mode == "nearest" {
        let round: &dyn Fn(f64) -> f64 = match nearest {
            "round_prefer_floor" => &|p| (p - 0.5).ceil(),
            "round_prefer_ceil" => &|p| (p + 0.5).floor(),
            "floor" | "" => &|p| p.floor(),
            "ceil" => &|p| p.ceil(),
            w => return Err(Error::value(format!("nearest_mode is {w:?}"))),
        };
        x.take(&indices(&|p| round(p) as i64), a as i64)
    } else {
        weighted(c, x, a, axis, mode, &places)?
    };
    if axis.coordinates != "tf_crop_and_resize" {
        return Ok(y);
    }
    let mut sizes = vec![1; x.rank()?];
    sizes[a] = axis.out;
    let inside = constant(Literal::generate::<bool>(sizes, |i| places[i].is_some()));
    Ok(Tensor::where_(&inside, &y, &number(y.dtype()?, c.float("extrapolation_value", 0.0))))
}

/// Sums of neighbors times weights.
fn weighted(c: &Call<'_>, x: &Tensor, a: usize, axis: &Axis<'_>, mode: &str, places: &[Option<f64>]) -> Result<Tensor> {
    let cubic = c.float("cubic_coeff_a", -0.75);
    let kernel: Box<dyn Fn(f64) -> f64> = match mode {
        "linear" | "bilinear" => Box::new(|t: f64| (1.0 - t.abs()).max(0.0)),
        "cubic" => Box::new(move |t: f64| {
            let t = t.abs();
            if t <= 1.0 {
                ((cubic + 2.0) * t - (cubic + 3.0)) * t * t + 1.0
            } else if t < 2.0 {
                ((cubic * t - 5.0 * cubic) * t + 8.0 * cubic) * t - 4.0 * cubic
            } else {
                0.0
            }
        }),
        w => return Err(Error::value(format!("mode is {w:?}"))),
    };
    let shrink = if c.flag("antialias") { axis.scale.min(1.0) } else { 1.0 };
    let reach = (if mode == "cubic" { 2.0 } else { 1.0 }) / shrink;
    let taps = 2 * reach.ceil() as usize + 1;
    let mut index = vec![vec![0i64; axis.out]; taps];
    let mut weight = vec![vec![0f64; axis.out]; taps];
    for (i, p) in places.iter().enumerate() {
        let p = p.unwrap_or(0.0);
        let first = (p - reach).ceil() as i64;
        for k in 0..taps {
            let at = first + k as i64;
            let is_outside = at < 0 || at >= axis.size as i64;
            weight[k][i] = kernel((at as f64 - p) * shrink);
            if is_outside && c.flag("exclude_outside") {
                weight[k][i] = 0.0;
            }
            index[k][i] = at.clamp(0, axis.size as i64 - 1);
        }
        let sum: f64 = weight.iter().map(|w| w[i]).sum();
        if sum != 0.0 && (shrink < 1.0 || c.flag("exclude_outside")) {
            weight.iter_mut().for_each(|w| w[i] /= sum);
        }
    }
    let dtype = x.dtype()?;
    let mut sizes = vec![1; x.rank()?];
    sizes[a] = axis.out;
    let mut y: Option<Tensor> = None;
    for k in (0..taps).filter(|&k| weight[k].iter().any(|&w| w != 0.0)) {
        let at = constant(Literal::from_i64(DType::I64, [axis.out], &index[k]));
        let w = constant(Literal::from_f64(dtype, sizes.clone(), &weight[k]));
        let term = x.take(&at, a as i64) * w;
        y = Some(match y {
            Some(y) => y + term,
            None => term,
        });
    }
    Ok(y.unwrap_or_else(|| x.narrow(a as i64, 0, 0)))
}

fn grid_sample(c: &Call<'_>) -> Outs {
    let (x, grid) = (c.x(0)?, c.x(1)?);
    let mode = match c.text("mode", if c.version() < 20 { "bilinear" } else { "linear" }) {
        "linear" | "bilinear" => "bilinear",
        "cubic" | "bicubic" => "bicubic",
        "nearest" => "nearest",
        m => return Err(Error::value(format!("mode is {m:?}"))),
    };
    let padding = c.text("padding_mode", "zeros").to_string();
    let options = SampleOptions { mode: mode.into(), padding, align_corners: c.flag("align_corners") };
    one(x.grid_sample(&grid.cast(x.dtype()?), options))
}

fn affine_grid(c: &Call<'_>) -> Outs {
    let theta = c.x(0)?;
    let size = shape_of(&c.ints(1)?)?;
    let dtype = theta.dtype()?;
    let spatial = size.get(2..).unwrap_or(&[]);
    let (n, d) = (size[0], spatial.len());
    if d != 2 && d != 3 {
        return Err(Error::shape(format!("a size {size} has neither 2 nor 3 spatial dimensions")));
    }
    let points: usize = spatial.iter().product();
    c.check_count(points.saturating_mul(n * (d + 1)), dtype)?;
    let line = |n: usize| -> Tensor {
        let i = Tensor::iota(n, dtype);
        match c.flag("align_corners") {
            true if n > 1 => i * (2.0 / (n - 1) as f64) - 1.0,
            true => i,
            false => (i * 2.0 + 1.0) / n as f64 - 1.0,
        }
    };
    // The last dimension's coordinate comes first.
    let mut rows = Vec::new();
    for a in (0..d).rev() {
        let mut s = vec![1; d];
        s[a] = spatial[a];
        rows.push(line(spatial[a]).reshape(s).broadcast_to(spatial).reshape([points]));
    }
    rows.push(Tensor::ones_of([points], dtype));
    let y = theta.matmul(Tensor::stack(&rows, 0)).permute(&[0, 2, 1]);
    one(y.reshape([&[n], spatial, &[d]].concat()))
}
