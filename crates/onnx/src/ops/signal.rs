//! Fourier transforms and windows.

use super::{Outs, Row, one, row};
use crate::element::Elem;
use crate::run::Call;
use ir::{DType, Error, Literal, Result};
use tensor::Tensor;
use tensor::linalg::{FftNorm, FftOptions};

pub static ROWS: &[Row] = &[
    row("DFT", 17, |c| {
        let x = c.x(0)?;
        let axis = tensor::axis(c.int("axis", 1), x.rank()?)?;
        dft(c, &x, axis)
    }),
    row("DFT", 20, |c| {
        let x = c.x(0)?;
        let axis = if c.has(2) { c.ints(2)?.first().copied().unwrap_or(-2) } else { -2 };
        dft(c, &x, tensor::axis(axis, x.rank()?)?)
    }),
    row("STFT", 17, stft),
    row("HannWindow", 17, |c| window(c, &[0.5, -0.5])),
    row("HammingWindow", 17, |c| window(c, &[25.0 / 46.0, -21.0 / 46.0])),
    row("BlackmanWindow", 17, |c| window(c, &[0.42, -0.5, 0.08])),
    row("MelWeightMatrix", 17, mel),
];

/// Numbers whose parts lie along the last axis; one part is real.
fn complex(x: &Tensor) -> Result<Tensor> {
    let last = x.rank()? as i64 - 1;
    Ok(match x.shape()?[last as usize] {
        1 => x.squeeze(last).to_complex(),
        2 => Tensor::complex(&x.narrow(last, 0, 1).squeeze(last), &x.narrow(last, 1, 1).squeeze(last)),
        n => return Err(Error::shape(format!("the last axis must have 1 or 2 elements, not {n}"))),
    })
}

fn dft(c: &Call<'_>, x: &Tensor, axis: usize) -> Outs {
    let (is_inverse, is_half) = (c.flag("inverse"), c.flag("onesided"));
    let shape = x.shape()?;
    let n = if c.has(1) {
        usize::try_from(c.ints(1)?.first().copied().unwrap_or(0)).unwrap_or(0)
    } else if is_inverse && is_half {
        2 * shape[axis].saturating_sub(1)
    } else {
        shape[axis]
    };
    c.check_count(x.count()? / shape[axis].max(1) * n * 2, x.dtype()?)?;
    // In double precision: the transform of a short type would lose what its sums cancel.
    let wide = x.cast(DType::F64);
    let o = FftOptions { n: Some(n), axis: axis as i64, norm: FftNorm::Backward };
    let is_real = shape[shape.rank() - 1] == 1;
    let y = match (is_inverse, is_half) {
        (true, true) => complex(&wide)?.irfft(o).unsqueeze(-1),
        (true, false) => complex(&wide)?.ifft(o).view_as_real(),
        (false, true) if is_real => wide.squeeze(-1).rfft(o).view_as_real(),
        (false, half) => {
            let y = complex(&wide)?.fft(o).view_as_real();
            if half { y.narrow(axis as i64, 0, n / 2 + 1) } else { y }
        }
    };
    one(y.cast(x.dtype()?))
}

fn stft(c: &Call<'_>) -> Outs {
    let x = c.x(0)?;
    let rank = x.rank()?;
    let x3 = if rank == 2 { x.unsqueeze(-1) } else { x.clone() };
    let [_, length, parts] = x3.dims()?;
    let size = |i: usize| -> Result<Option<usize>> {
        if !c.has(i) {
            return Ok(None);
        }
        let n = c.ints(i)?.first().copied().unwrap_or(0);
        usize::try_from(n).ok().filter(|&n| n > 0).map(Some).ok_or_else(|| Error::value(format!("input {i} is {n}")))
    };
    let step = size(1)?.ok_or_else(|| Error::value("frame_step is missing"))?;
    let window = c.opt(2)?;
    let frame = match (size(3)?, &window) {
        (Some(n), _) => n,
        (None, Some(w)) => w.count()?,
        (None, None) => length,
    };
    if frame > length {
        return Err(Error::shape(format!("a frame of {frame} is longer than the signal of {length}")));
    }
    // [N, frames, parts, frame]
    let mut frames = x3.unfold(1, frame, step);
    if let Some(w) = window {
        frames = frames * w.cast(x.dtype()?);
    }
    let o = FftOptions { n: Some(frame), axis: -1, norm: FftNorm::Backward };
    let is_half = c.int("onesided", 1) != 0;
    let y = if parts == 1 {
        let real = frames.squeeze(2);
        if is_half { real.rfft(o).view_as_real() } else { real.to_complex().fft(o).view_as_real() }
    } else {
        let z = Tensor::complex(&frames.narrow(2, 0, 1).squeeze(2), &frames.narrow(2, 1, 1).squeeze(2));
        let y = z.fft(o).view_as_real();
        if is_half { y.narrow(2, 0, frame / 2 + 1) } else { y }
    };
    one(y.cast(x.dtype()?))
}

/// A sum of cosines.
fn window(c: &Call<'_>, terms: &[f64]) -> Outs {
    let size = usize::try_from(c.ints(0)?.first().copied().unwrap_or(0)).unwrap_or(0);
    let dtype = c.elem_attribute("output_datatype", Elem::FLOAT)?.storage().unwrap_or(DType::F32);
    c.check_count(size, DType::F64)?;
    let period = if c.int("periodic", 1) != 0 { size } else { size.max(2) - 1 } as f64;
    let at = |i: usize| -> f64 {
        let angle = 2.0 * std::f64::consts::PI * i as f64 / period;
        terms.iter().enumerate().map(|(k, t)| t * (angle * k as f64).cos()).sum()
    };
    let values: Vec<f64> = (0..size).map(at).collect();
    Ok(vec![Literal::from_f64(dtype, [size], &values).into()])
}

fn mel(c: &Call<'_>) -> Outs {
    let number = |i: usize| c.scalar(i);
    let (bins, length, rate, lo, hi) = (number(0)?, number(1)?, number(2)?, number(3)?, number(4)?);
    let (bins, length) = (bins.max(0.0) as usize, length.max(0.0) as usize);
    let rows = length / 2 + 1;
    let dtype = c.elem_attribute("output_datatype", Elem::FLOAT)?.storage().unwrap_or(DType::F32);
    c.check_count(rows.saturating_mul(bins), DType::F64)?;
    let mel = |hz: f64| 2595.0 * (1.0 + hz / 700.0).log10();
    let step = (mel(hi) - mel(lo)) / (bins + 2) as f64;
    let edge = |i: usize| -> usize {
        let hz = 700.0 * (10f64.powf((i as f64 * step + mel(lo)) / 2595.0) - 1.0);
        (((length + 1) as f64 * hz) / rate).floor().max(0.0) as usize
    };
    let mut out = vec![0.0; rows * bins];
    let mut set = |row: usize, bin: usize, v: f64| {
        if row < rows {
            out[row * bins + bin] = v;
        }
    };
    for i in 0..bins {
        let (low, center, high) = (edge(i), edge(i + 1), edge(i + 2));
        if center <= low {
            set(center, i, 1.0);
        } else {
            (low..=center.min(rows)).for_each(|j| set(j, i, (j - low) as f64 / (center - low) as f64));
        }
        (center..high.min(rows)).for_each(|j| set(j, i, (high - j) as f64 / (high - center) as f64));
    }
    Ok(vec![Literal::from_f64(dtype, [rows, bins], &out).into()])
}
