//! Convolution.

use super::{Outs, Row, one, row};
use crate::run::Call;
use ir::{DType, Error, Literal, Result};
use tensor::Tensor;
use tensor::nn::ConvOptions;

pub static ROWS: &[Row] = &[
    row("Conv", 1, |c| {
        if let Some(y) = super::integers::conv(c)? {
            return Ok(vec![y]);
        }
        let (x, w) = (c.x(0)?, c.x(1)?);
        let bias = c.opt(2)?;
        one(Window::of(c, &x, &w)?.conv(&x, &w, bias.as_ref())?)
    }),
    row("ConvTranspose", 1, conv_transpose),
    row("Col2Im", 18, col2im),
    row("CausalConvWithState", 27, causal_conv),
    row("DeformConv", 19, deform_conv),
];

/// How a window moves.
#[derive(Clone)]
pub struct Window {
    pub kernel: Vec<usize>,
    pub stride: Vec<usize>,
    pub dilation: Vec<usize>,
    pub lo: Vec<i64>,
    pub hi: Vec<i64>,
    pub groups: usize,
}

impl Window {
    /// The attributes for an input of these spatial sizes.
    pub fn new(c: &Call<'_>, sizes: &[usize], kernel: Vec<usize>) -> Result<Window> {
        let rank = sizes.len();
        let stride = c.sizes("strides", rank, 1)?;
        let dilation = c.sizes("dilations", rank, 1)?;
        if kernel.len() != rank || kernel.iter().chain(&stride).chain(&dilation).any(|&n| n == 0 || n > 1 << 30) {
            return Err(Error::value(format!("a window {kernel:?} moves by {stride:?} over {rank} dimensions")));
        }
        let (mut lo, mut hi) = (vec![0; rank], vec![0; rank]);
        match c.text("auto_pad", "NOTSET") {
            "NOTSET" | "" => {
                if let Some(p) = c.list("pads") {
                    if p.len() != 2 * rank || p.iter().any(|&p| p.unsigned_abs() > 1 << 30) {
                        return Err(Error::value(format!("pads are {p:?} for {rank} dimensions")));
                    }
                    (lo, hi) = (p[..rank].to_vec(), p[rank..].to_vec());
                }
            }
            "VALID" => {}
            same @ ("SAME_UPPER" | "SAME_LOWER") => {
                for i in 0..rank {
                    let out = sizes[i].div_ceil(stride[i]);
                    let reach = (kernel[i] - 1) * dilation[i] + 1;
                    let total = ((out.max(1) - 1) * stride[i] + reach).saturating_sub(sizes[i]) as i64;
                    let small = total / 2;
                    (lo[i], hi[i]) = if same == "SAME_UPPER" { (small, total - small) } else { (total - small, small) };
                }
            }
            w => return Err(Error::value(format!("auto_pad is {w:?}"))),
        }
        let groups = usize::try_from(c.int("group", 1)).unwrap_or(0);
        Ok(Window { kernel, stride, dilation, lo, hi, groups })
    }
    /// For a convolution of these tensors.
    pub fn of(c: &Call<'_>, x: &Tensor, w: &Tensor) -> Result<Window> {
        let (xs, ws) = (x.shape()?, w.shape()?);
        if xs.rank() < 3 || ws.rank() != xs.rank() {
            return Err(Error::shape(format!("an image {xs} and a kernel {ws} do not fit")));
        }
        Window::new(c, &xs[2..], ws[2..].to_vec())
    }
    /// How a convolution slides.
    pub fn options(&self) -> ConvOptions {
        let sides: Vec<(i64, i64)> = self.lo.iter().copied().zip(self.hi.iter().copied()).collect();
        ConvOptions::new()
            .stride(self.stride.clone())
            .dilation(self.dilation.clone())
            .padding(sides)
            .groups(self.groups)
    }
    /// The convolution.
    pub fn conv(&self, x: &Tensor, w: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
        Ok(match self.kernel.len() {
            1 => x.conv1d(w, bias, self.options()),
            2 => x.conv2d(w, bias, self.options()),
            3 => x.conv3d(w, bias, self.options()),
            n => return Err(Error::shape(format!("convolutions have 1 to 3 spatial dimensions, not {n}"))),
        })
    }
}

fn conv_transpose(c: &Call<'_>) -> Outs {
    let (x, w) = (c.x(0)?, c.x(1)?);
    let (xs, ws) = (x.shape()?, w.shape()?);
    if xs.rank() < 3 || ws.rank() != xs.rank() {
        return Err(Error::shape(format!("an image {xs} and a kernel {ws} do not fit")));
    }
    let rank = xs.rank() - 2;
    let auto = c.text("auto_pad", "NOTSET");
    let stride = c.sizes("strides", rank, 1)?;
    let dilation = c.sizes("dilations", rank, 1)?;
    let more = c.sizes("output_padding", rank, 0)?;
    let pads = c.list("pads").unwrap_or_else(|| vec![0; 2 * rank]);
    if pads.len() != 2 * rank {
        return Err(Error::value(format!("pads are {pads:?} for {rank} dimensions")));
    }
    let groups = usize::try_from(c.int("group", 1)).unwrap_or(0);
    let options = ConvOptions::new().stride(stride.clone()).dilation(dilation.clone()).groups(groups);
    let full = match rank {
        1 => x.conv_transpose1d(&w, None, options),
        2 => x.conv_transpose2d(&w, None, options),
        3 => x.conv_transpose3d(&w, None, options),
        n => return Err(Error::shape(format!("convolutions have 1 to 3 spatial dimensions, not {n}"))),
    };
    let (mut lo, mut hi) = (vec![0i64; rank + 2], vec![0i64; rank + 2]);
    let wanted = c.list("output_shape");
    for i in 0..rank {
        let size = (stride[i] * (xs[i + 2].max(1) - 1) + (ws[i + 2].max(1) - 1) * dilation[i] + 1) as i64;
        let want = match &wanted {
            Some(s) => Some(s[s.len().saturating_sub(rank)..].get(i).copied().unwrap_or(0)),
            None if auto.starts_with("SAME") => Some((xs[i + 2] * stride[i]) as i64),
            None => None,
        };
        (lo[i + 2], hi[i + 2]) = match want {
            Some(want) => {
                let total = size + more[i] as i64 - want;
                // The larger half comes first, unless SAME_UPPER asks for the opposite.
                let half = total.max(0) / 2;
                let first = if auto == "SAME_UPPER" { half } else { total.max(0) - half };
                (-first, want - (size - first))
            }
            None if auto == "VALID" => (0, more[i] as i64),
            None => (-pads[i], more[i] as i64 - pads[i + rank]),
        };
    }
    let y = if lo.iter().chain(&hi).all(|&p| p == 0) { full } else { full.pad_raw(&lo, &hi, 0.0) };
    one(match c.opt(2)? {
        Some(b) => y + super::per_channel(&b, rank + 2)?,
        None => y,
    })
}

fn col2im(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let image: Vec<usize> = super::shape_of(&c.ints(1)?)?.to_vec();
    let block: Vec<usize> = super::shape_of(&c.ints(2)?)?.to_vec();
    let w = Window::new(c, &image, block)?;
    // The borders are part of a larger image, from which they are cut.
    let rank = image.len();
    let padded: Vec<usize> = (0..rank).map(|i| (image[i] as i64 + w.lo[i] + w.hi[i]).max(0) as usize).collect();
    c.check_count(padded.iter().product::<usize>().saturating_mul(x.shape()?[0]), x.dtype()?)?;
    let options = ConvOptions::new().stride(w.stride.clone()).dilation(w.dilation.clone());
    let y = match rank {
        2 => x.col2im(padded, w.kernel.clone(), options),
        1 | 3 => {
            // Each column is put where its window lies: the transpose of a convolution that picks single elements.
            let taps: usize = w.kernel.iter().product();
            let [n, rows, columns] = x.dims()?;
            let reach = |i: usize| (w.kernel[i] - 1) * w.dilation[i] + 1;
            let blocks: Vec<usize> =
                (0..rank).map(|i| (padded[i] + w.stride[i]).saturating_sub(reach(i)) / w.stride[i]).collect();
            if rows % taps.max(1) != 0 || blocks.iter().product::<usize>() != columns {
                let e = format!("columns {} do not fit windows {:?} over {image:?}", x.shape()?, w.kernel);
                return Err(Error::shape(e));
            }
            let channels = rows / taps.max(1);
            let picks = Literal::generate([&[taps, 1], &w.kernel[..]].concat(), |i| f32::from(i / taps == i % taps));
            let picks = super::constant(picks).cast(x.dtype()?);
            let y = x.reshape([&[n * channels, taps], &blocks[..]].concat());
            let y = if rank == 1 {
                y.conv_transpose1d(&picks, None, options)
            } else {
                y.conv_transpose3d(&picks, None, options)
            };
            // What no window reaches.
            let sizes = y.shape()?;
            let rest: Vec<i64> = (0..rank).map(|i| padded[i] as i64 - sizes[i + 2] as i64).collect();
            let y = y.pad_raw(&vec![0; rank + 2], &[&[0, 0], &rest[..]].concat(), 0.0);
            y.reshape([&[n, channels], &padded[..]].concat())
        }
        n => return Err(Error::shape(format!("images have 1 to 3 spatial dimensions, not {n}"))),
    };
    let (mut lo, mut hi) = (vec![0; rank + 2], vec![0; rank + 2]);
    for i in 0..rank {
        (lo[i + 2], hi[i + 2]) = (-w.lo[i], -w.hi[i]);
    }
    one(y.pad_raw(&lo, &hi, 0.0))
}

/// A depthwise convolution that looks back, with the rows that the next call needs.
fn causal_conv(c: &Call<'_>) -> Outs {
    let (x, w) = (c.x(0)?, c.x(1)?);
    let ([n, channels, _], [_, _, k]) = (x.dims()?, w.dims()?);
    let past = match c.opt(3)? {
        Some(p) => p,
        None => Tensor::zeros_of([n, channels, k.max(1) - 1], x.dtype()?),
    };
    let padded = Tensor::concat(&[past, x.clone()], 2);
    let y = padded.conv1d(&w, c.opt(2)?.as_ref(), ConvOptions::new().groups(channels));
    let y = match c.text("activation", "none") {
        "none" => y,
        "silu" | "swish" => {
            let wide = y.cast(DType::F32);
            (&wide * wide.sigmoid()).cast(x.dtype()?)
        }
        a => return Err(Error::value(format!("activation is {a:?}"))),
    };
    let all = padded.shape()?[2];
    super::all([y, padded.narrow(2, all - (k.max(1) - 1), k.max(1) - 1)])
}

/// A convolution whose taps are moved by offsets: each tap is sampled, then all are one product.
fn deform_conv(c: &Call<'_>) -> Outs {
    let (x, w, offset) = (c.x(0)?, c.x(1)?, c.x(2)?);
    let window = Window::of(c, &x, &w)?;
    let ([n, ch, h, wd], [o, cg, kh, kw]) = (x.dims()?, w.dims()?);
    let shape = offset.shape()?;
    let (oh, ow) = (shape[2], shape[3]);
    let groups = usize::try_from(c.int("offset_group", 1)).unwrap_or(1).max(1);
    let taps = kh * kw;
    let dtype = x.dtype()?;
    let offset = offset.reshape([n, groups, taps, 2, oh, ow]);
    let mask = match c.opt(4)? {
        Some(m) => m.reshape([n, groups, taps, oh, ow]),
        None => Tensor::ones_of([n, groups, taps, oh, ow], dtype),
    };
    let place = |axis: usize, size: usize, kernel: usize| -> Result<Tensor> {
        let s = window.stride[axis] as f64;
        let start = Tensor::iota(size, dtype) * s - window.lo[axis] as f64;
        let tap = Tensor::iota(kernel, dtype) * window.dilation[axis] as f64;
        let (start, tap) = if axis == 0 {
            (start.reshape([1, size, 1]), tap.reshape([kernel, 1]).broadcast_to([kh, kw]))
        } else {
            (start.reshape([1, 1, size]), tap.reshape([1, kernel]).broadcast_to([kh, kw]))
        };
        Ok(start + tap.reshape([taps, 1, 1]))
    };
    let ys = offset.narrow(3, 0, 1).squeeze(3) + place(0, oh, kh)?;
    let xs = offset.narrow(3, 1, 1).squeeze(3) + place(1, ow, kw)?;
    // Coordinates as grid_sample takes them, with the corners' centers at -1 and 1.
    let scaled = |t: Tensor, size: usize| t * (2.0 / (size.max(2) - 1) as f64) - 1.0;
    let (gx, gy) = (scaled(xs, wd), scaled(ys, h));
    let grid = Tensor::stack(&[gx, gy], -1).reshape([n * groups, taps * oh, ow, 2]);
    let image = x.reshape([n * groups, ch / groups, h, wd]);
    let options = tensor::nn::SampleOptions { mode: "bilinear".into(), padding: "zeros".into(), align_corners: true };
    let sampled = image.grid_sample(&grid, options).reshape([n, groups, ch / groups, taps, oh * ow]);
    let sampled = sampled * mask.reshape([n, groups, 1, taps, oh * ow]);
    let g = window.groups.max(1);
    let columns = sampled.reshape([n, g, cg * taps, oh * ow]);
    let y = w.reshape([1, g, o / g, cg * taps]).matmul(&columns).reshape([n, o, oh, ow]);
    one(match c.opt(3)? {
        Some(b) => y + super::per_channel(&b, 4)?,
        None => y,
    })
}
