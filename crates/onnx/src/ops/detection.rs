//! Operators of detectors, computed on the host: their results depend on values in size or place.

use super::{Outs, Row, row};
use crate::run::Call;
use ir::{DType, Error, Literal};

pub static ROWS: &[Row] = &[row("NonMaxSuppression", 10, non_max_suppression), row("RoiAlign", 10, roi_align)];

/// The corners (y1, x1, y2, x2) of a box.
fn corners(b: &[f64], is_center: bool) -> [f64; 4] {
    if is_center {
        let (x, y, w, h) = (b[0], b[1], b[2], b[3]);
        return [y - h / 2.0, x - w / 2.0, y + h / 2.0, x + w / 2.0];
    }
    [b[0].min(b[2]), b[1].min(b[3]), b[0].max(b[2]), b[1].max(b[3])]
}

/// The share of the union of two boxes that both cover.
fn overlap(a: &[f64; 4], b: &[f64; 4]) -> f64 {
    let side = |i: usize| (a[i + 2].min(b[i + 2]) - a[i].max(b[i])).max(0.0);
    let area = |x: &[f64; 4]| (x[2] - x[0]) * (x[3] - x[1]);
    let both = side(0) * side(1);
    let union = area(a) + area(b) - both;
    if union > 0.0 { both / union } else { 0.0 }
}

fn non_max_suppression(c: &Call<'_>) -> Outs {
    let (boxes, scores) = (c.host(0)?, c.host(1)?);
    let (bs, ss) = (boxes.shape().clone(), scores.shape().clone());
    if bs.rank() != 3 || ss.rank() != 3 || bs[2] != 4 || bs[0] != ss[0] || bs[1] != ss[2] {
        return Err(Error::shape(format!("boxes {bs} and scores {ss} do not fit")));
    }
    let number = |i: usize, default: f64| if c.has(i) { c.scalar(i) } else { Ok(default) };
    let most = number(2, 0.0)?.max(0.0) as usize;
    let (threshold, least) = (number(3, 0.0)?, if c.has(4) { Some(c.scalar(4)?) } else { None });
    let is_center = c.flag("center_point_box");
    let (boxes, scores) = (boxes.to_f64(), scores.to_f64());
    let (n, classes, count) = (ss[0], ss[1], ss[2]);
    let mut out: Vec<i64> = Vec::new();
    for i in 0..n {
        let all: Vec<[f64; 4]> =
            boxes[i * count * 4..(i + 1) * count * 4].chunks(4).map(|b| corners(b, is_center)).collect();
        for k in 0..classes {
            let s = &scores[(i * classes + k) * count..(i * classes + k + 1) * count];
            let mut order: Vec<usize> = (0..count).filter(|&j| least.is_none_or(|l| s[j] > l)).collect();
            order.sort_by(|&a, &b| s[b].total_cmp(&s[a]).then(a.cmp(&b)));
            let mut kept: Vec<usize> = Vec::new();
            for j in order {
                if kept.len() >= most {
                    break;
                }
                if kept.iter().all(|&o| overlap(&all[o], &all[j]) <= threshold) {
                    kept.push(j);
                }
            }
            kept.iter().for_each(|&j| out.extend([i as i64, k as i64, j as i64]));
        }
    }
    Ok(vec![Literal::from_i64(DType::I64, [out.len() / 3, 3], &out).into()])
}

fn roi_align(c: &Call<'_>) -> Outs {
    let (x, rois, batch) = (c.host(0)?, c.host(1)?, c.ints(2)?);
    let (shape, dtype) = (x.shape().clone(), x.dtype());
    let size = |name: &str| usize::try_from(c.int(name, 1)).unwrap_or(0).max(1);
    let (oh, ow, ratio) = (size("output_height"), size("output_width"), c.int("sampling_ratio", 0));
    let default = if c.version() < 16 { "output_half_pixel" } else { "half_pixel" };
    let is_half = c.text("coordinate_transformation_mode", default) == "half_pixel";
    let is_max = c.text("mode", "avg") == "max";
    let scale = c.float("spatial_scale", 1.0);
    if shape.rank() != 4 || rois.shape().rank() != 2 || rois.shape()[0] != batch.len() {
        return Err(Error::shape(format!("an image {shape} and regions {} do not fit", rois.shape())));
    }
    let (channels, h, w) = (shape[1], shape[2], shape[3]);
    c.check_count(batch.len().saturating_mul(channels * oh * ow), DType::F64)?;
    let (data, rois) = (x.to_f64(), rois.to_f64());
    let mut out = Vec::with_capacity(batch.len() * channels * oh * ow);
    for (r, &b) in batch.iter().enumerate() {
        let b = usize::try_from(b).ok().filter(|&b| b < shape[0]);
        let b = b.ok_or_else(|| Error::index("a region names a picture that is not there"))?;
        let shift = if is_half { 0.5 } else { 0.0 };
        let edge = |i: usize| rois[r * 4 + i] * scale - shift;
        let (x0, y0) = (edge(0), edge(1));
        let (mut width, mut height) = (edge(2) - x0, edge(3) - y0);
        if !is_half {
            (width, height) = (width.max(1.0), height.max(1.0));
        }
        let (bh, bw) = (height / oh as f64, width / ow as f64);
        let samples = |b: f64| if ratio > 0 { ratio as usize } else { b.ceil().clamp(0.0, 4096.0) as usize };
        let (gh, gw) = (samples(bh), samples(bw));
        for ch in 0..channels {
            let plane = &data[(b * channels + ch) * h * w..(b * channels + ch + 1) * h * w];
            for py in 0..oh {
                for px in 0..ow {
                    let (mut sum, mut top) = (0.0, f64::NEG_INFINITY);
                    for iy in 0..gh {
                        for ix in 0..gw {
                            let y = y0 + py as f64 * bh + (iy as f64 + 0.5) * bh / gh as f64;
                            let x = x0 + px as f64 * bw + (ix as f64 + 0.5) * bw / gw as f64;
                            let parts = corners_at(plane, h, w, y, x);
                            sum += parts.iter().sum::<f64>();
                            top = parts.iter().fold(top, |a, &b| a.max(b));
                        }
                    }
                    let count = (gh * gw).max(1) as f64;
                    out.push(if is_max { if gh * gw == 0 { 0.0 } else { top } } else { sum / count });
                }
            }
        }
    }
    Ok(vec![Literal::from_f64(dtype, [batch.len(), channels, oh, ow], &out).into()])
}

/// The four neighbors of a place, times their weights.
fn corners_at(plane: &[f64], h: usize, w: usize, y: f64, x: f64) -> [f64; 4] {
    if y < -1.0 || y > h as f64 || x < -1.0 || x > w as f64 {
        return [0.0; 4];
    }
    let at = |v: f64, n: usize| -> (usize, usize, f64) {
        let v = v.max(0.0);
        let low = v as usize;
        if low + 1 >= n { (n - 1, n - 1, 0.0) } else { (low, low + 1, v - low as f64) }
    };
    let ((ya, yb, ly), (xa, xb, lx)) = (at(y, h), at(x, w));
    let p = |y: usize, x: usize| plane[y * w + x];
    [(1.0 - ly) * (1.0 - lx) * p(ya, xa), (1.0 - ly) * lx * p(ya, xb), ly * (1.0 - lx) * p(yb, xa), ly * lx * p(yb, xb)]
}
