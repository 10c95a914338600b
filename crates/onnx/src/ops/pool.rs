//! Pooling.

use super::conv::Window;
use super::{Outs, Row, number, one, row};
use crate::run::Call;
use crate::value::Value;
use ir::{DType, Error, Literal, Result, Shape};
use tensor::Tensor;
use tensor::nn::{AvgPoolOptions, MaxPoolOptions};

pub static ROWS: &[Row] = &[
    row("MaxPool", 1, max_pool),
    row("AveragePool", 1, average_pool),
    row("LpPool", 1, |c| {
        let x = c.x(0)?;
        let p = if c.version() < 2 { c.float("p", 2.0) } else { c.int("p", 2) as f64 };
        let g = Geometry::new(c, &x)?;
        let powers = g.windows(&g.padded(&x.abs().pow(p), 0.0)?)?;
        one(powers.sum(-1).pow(1.0 / p))
    }),
    row("GlobalAveragePool", 1, |c| {
        let x = c.x(0)?;
        one(x.mean_keep(spatial(&x)?))
    }),
    row("GlobalMaxPool", 1, |c| {
        let x = c.x(0)?;
        one(x.max_keep(spatial(&x)?))
    }),
    row("GlobalLpPool", 1, |c| {
        let x = c.x(0)?;
        let p = c.int("p", 2) as f64;
        one(x.abs().pow(p).sum_keep(spatial(&x)?).pow(1.0 / p))
    }),
    row("MaxUnpool", 9, max_unpool),
];

fn spatial(x: &Tensor) -> Result<Vec<i64>> {
    Ok((2..x.rank()? as i64).collect())
}

/// Windows over the spatial dimensions, those of `ceil_mode` included.
struct Geometry {
    window: Window,
    out: Vec<usize>,
    /// Widths after the end, with what the last windows need.
    hi: Vec<i64>,
    sizes: Vec<usize>,
}

impl Geometry {
    fn new(c: &Call<'_>, x: &Tensor) -> Result<Geometry> {
        let shape = x.shape()?;
        if shape.rank() < 3 {
            return Err(Error::shape(format!("pooling takes [N, C, *S], not {shape}")));
        }
        let sizes = shape[2..].to_vec();
        let kernel = c.sizes("kernel_shape", sizes.len(), 1)?;
        let mut window = Window::new(c, &sizes, kernel)?;
        let is_ceil = c.flag("ceil_mode") && !c.text("auto_pad", "").starts_with("SAME");
        let mut out = Vec::new();
        let mut hi = window.hi.clone();
        for i in 0..sizes.len() {
            let reach = ((window.kernel[i] - 1) * window.dilation[i] + 1) as i64;
            let (n, s) = (sizes[i] as i64, window.stride[i] as i64);
            let room = n + window.lo[i] + window.hi[i] - reach;
            if room <= -s && !is_ceil {
                return Err(Error::shape(format!("a window {:?} does not fit into {shape}", window.kernel)));
            }
            let mut count = room.max(0) / s + 1;
            if is_ceil {
                count = (room.max(0) + s - 1) / s + 1;
                // The last window must begin before the end of the image.
                if (count - 1) * s >= n + window.lo[i] {
                    count -= 1;
                }
            }
            hi[i] = (count - 1) * s + reach - n - window.lo[i];
            out.push(count.max(0) as usize);
        }
        // A window that is larger than its image by less than a step is cut off, as ONNX Runtime does it.
        if !is_ceil {
            hi.iter_mut().zip(&window.hi).for_each(|(h, w)| *h = if *h > *w { *h } else { *w });
        }
        window.groups = 1;
        Ok(Geometry { window, out, hi, sizes })
    }
    /// Whether the windows are those of Talweg's own pooling: borders alike on both sides, and small.
    fn even(&self) -> Option<Vec<usize>> {
        let w = &self.window;
        let is_even =
            w.lo == w.hi && w.hi == self.hi && w.lo.iter().zip(&w.kernel).all(|(&p, &k)| p >= 0 && 2 * p <= k as i64);
        (is_even && w.kernel.len() <= 3).then(|| w.lo.iter().map(|&p| p as usize).collect())
    }
    fn padded(&self, x: &Tensor, value: f64) -> Result<Tensor> {
        self.padded_by(x, &self.hi, value)
    }
    fn padded_by(&self, x: &Tensor, hi: &[i64], value: f64) -> Result<Tensor> {
        let lo = [&[0, 0], &self.window.lo[..]].concat();
        let hi = [&[0, 0], hi].concat();
        Ok(if lo.iter().chain(&hi).all(|&p| p == 0) { x.clone() } else { x.pad_raw(&lo, &hi, value) })
    }
    /// The largest byte of each window of `[N, C, *S]`, computed with channels last.
    fn largest_bytes(&self, x: &Tensor) -> Result<Tensor> {
        let rank = self.sizes.len() as i64 + 2;
        let last: Vec<i64> = std::iter::once(0).chain(2..rank).chain([1]).collect();
        let first: Vec<i64> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
        let around = |sides: &[i64]| [&[0], sides, &[0]].concat();
        let mut y = x.permute(&last);
        if self.window.lo.iter().chain(&self.hi).any(|&p| p != 0) {
            y = y.pad_raw(&around(&self.window.lo), &around(&self.hi), 0.0);
        }
        for i in 0..self.sizes.len() {
            let (w, shape) = (&self.window, y.shape()?);
            let tap = |k: usize| {
                let (mut starts, mut steps) = (vec![0; shape.rank()], vec![1; shape.rank()]);
                let mut sizes: Vec<i64> = shape.iter().map(|&d| d as i64).collect();
                starts[i + 1] = (k * w.dilation[i]) as i64;
                steps[i + 1] = w.stride[i] as i64;
                sizes[i + 1] = self.out[i] as i64;
                y.slice_raw(&starts, &sizes, &steps)
            };
            y = (1..w.kernel[i]).fold(tap(0), |a, k| a.maximum(tap(k)));
        }
        Ok(y.permute(&first))
    }
    /// `[N, C, *out, K]`: the elements of each window.
    fn windows(&self, x: &Tensor) -> Result<Tensor> {
        let rank = self.sizes.len();
        let mut y = x.clone();
        for i in 0..rank {
            let reach = (self.window.kernel[i] - 1) * self.window.dilation[i] + 1;
            y = y.unfold(2 + i as i64, reach, self.window.stride[i]);
            let mut shape: Vec<i64> = y.shape()?.iter().map(|&d| d as i64).collect();
            shape[2 + i] = self.out[i] as i64;
            let last = shape.len() - 1;
            shape[last] = self.window.kernel[i] as i64;
            let mut steps = vec![1; shape.len()];
            steps[last] = self.window.dilation[i] as i64;
            y = y.slice_raw(&vec![0; shape.len()], &shape, &steps);
        }
        let shape = y.shape()?;
        let mut flat: Shape = shape[..2 + rank].into();
        flat.push(shape[2 + rank..].iter().product());
        Ok(y.reshape(flat))
    }
}

fn max_pool(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let g = Geometry::new(c, &x)?;
    let dtype = x.dtype()?;
    if let (Some(steps), false) = (&c.item(0)?.steps, c.wants(1))
        && let (Some((scale, zero)), DType::U8) = (steps.whole(), steps.bytes.dtype()?)
    {
        // Numbers keep their order as bytes, and zero is the least of them.
        let mut y = super::integers::dequantized(g.largest_bytes(&steps.bytes)?, scale, zero);
        if let Value::Tensor(t) = &mut y {
            t.is_channels_last = true;
        }
        return Ok(vec![y]);
    }
    if dtype == DType::U8 && !c.wants(1) {
        return one(g.largest_bytes(&x)?);
    }
    if let (Some(padding), false) = (g.even(), c.wants(1)) {
        let w = &g.window;
        let options = MaxPoolOptions::new().stride(w.stride.clone()).padding(padding).dilation(w.dilation.clone());
        if dtype.is_float() {
            let k = w.kernel.clone();
            return one(match w.kernel.len() {
                1 => x.max_pool1d(k, options),
                2 => x.max_pool2d(k, options),
                _ => x.max_pool3d(k, options),
            });
        }
    }
    let least = crate::element::Elem::of(dtype).range().map_or(f64::NEG_INFINITY, |(lo, _)| lo as f64);
    let windows = g.windows(&g.padded(&x, least)?)?;
    let y = windows.max(-1);
    if !c.wants(1) {
        return one(y);
    }
    // The place of each element in the whole tensor, in the order that is asked for.
    let shape = x.shape()?;
    let mut plane = Tensor::iota(shape.count(), DType::I64).reshape(&shape);
    if c.flag("storage_order") {
        let (rank, area) = (shape.rank(), shape[2..].iter().product::<usize>());
        let mut turned: Vec<usize> = shape.to_vec();
        turned[2..].reverse();
        let axes: Vec<i64> = (0..2).chain((2..rank as i64).rev()).collect();
        let within = Tensor::iota(area, DType::I64).reshape(&turned[2..]);
        let back: Vec<i64> = (0..rank as i64 - 2).rev().collect();
        let start = Tensor::iota(shape[0] * shape[1], DType::I64) * area as i64;
        let mut sizes = vec![1; rank];
        (sizes[0], sizes[1]) = (shape[0], shape[1]);
        debug_assert!(axes.len() == rank);
        plane = start.reshape(sizes) + within.permute(&back);
    }
    let places = g.windows(&g.padded(&plane, -1.0)?)?;
    let at = windows.argmax_keep(-1);
    let index = places.gather(-1, &at.cast(DType::I64)).squeeze(-1);
    super::all([y, index])
}

fn average_pool(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let g = Geometry::new(c, &x)?;
    let counts_border = c.flag("count_include_pad");
    if let Some(padding) = g.even()
        && g.window.dilation.iter().all(|&d| d == 1)
    {
        let w = &g.window;
        let options = AvgPoolOptions::new().stride(w.stride.clone()).padding(padding).count_include_pad(counts_border);
        let k = w.kernel.clone();
        return one(match w.kernel.len() {
            1 => x.avg_pool1d(k, options),
            2 => x.avg_pool2d(k, options),
            _ => x.avg_pool3d(k, options),
        });
    }
    let ones = Tensor::ones_of([&[1, 1], &g.sizes[..]].concat(), x.dtype()?);
    let ones = if counts_border {
        // What `ceil_mode` adds does not count.
        let inner = g.padded_by(&ones, &g.window.hi, 1.0)?;
        let rest: Vec<i64> = g.hi.iter().zip(&g.window.hi).map(|(a, b)| a - b).collect();
        inner.pad_raw(&vec![0; rest.len() + 2], &[&[0, 0], &rest[..]].concat(), 0.0)
    } else {
        g.padded(&ones, 0.0)?
    };
    let sums = g.windows(&g.padded(&x, 0.0)?)?.sum(-1);
    one(sums / g.windows(&ones)?.sum(-1))
}

fn max_unpool(c: &Call<'_>) -> Outs {
    let (x, index) = (c.x(0)?, c.x(1)?);
    let shape = x.shape()?;
    let rank = shape.rank().saturating_sub(2);
    let kernel = c.sizes("kernel_shape", rank, 1)?;
    let stride = c.sizes("strides", rank, 1)?;
    let pads = c.list("pads").unwrap_or_else(|| vec![0; 2 * rank]);
    let natural: Vec<i64> = (0..rank)
        .map(|i| (shape[i + 2] as i64 - 1) * stride[i] as i64 - pads[i] - pads[i + rank] + kernel[i] as i64)
        .collect();
    let mut sizes: Vec<i64> = shape[..2].iter().map(|&d| d as i64).collect();
    sizes.extend(&natural);
    let flat = super::shape_of(&sizes)?;
    c.check_count(flat.count(), x.dtype()?)?;
    let zeros = Tensor::zeros_of([flat.count()], x.dtype()?);
    let mut at = index.cast(DType::I64).ravel();
    let out = if c.has(2) { super::shape_of(&c.ints(2)?)? } else { flat.clone() };
    if out == flat {
        return one(zeros.scatter(0, &at, &x.ravel()).reshape(out));
    }
    // Places are those in the natural size; the larger result has them at its beginning.
    c.check_count(out.count(), x.dtype()?)?;
    let mut place = number(DType::I64, 0.0);
    for a in (0..flat.rank()).rev() {
        let inner: usize = out[a + 1..].iter().product();
        place = place + at.rem(flat[a] as i64) * inner as i64;
        at = at.floor_divide(flat[a] as i64);
    }
    let zeros = Value::from(Literal::zeros(x.dtype()?, [out.count()]));
    let Value::Tensor(zeros) = zeros else { return Err(Error::bug("a literal is a tensor")) };
    one(zeros.tensor.scatter(0, &place, &x.ravel()).reshape(out))
}
