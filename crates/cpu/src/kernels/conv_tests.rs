//! Convolutions against the definition, and gradients against it read backwards.

use super::super::testing::{Noise, assert_close};
use super::*;
use crate::vmath::{Level, level, limit_level};
use half::bf16;

/// Calls `f(output index, input index, weight index)` for every product of the definition.
fn each_product(q: &Conv, mut f: impl FnMut(usize, usize, usize)) {
    let w = &q.window;
    let (cg, og) = q.group();
    for n in 0..q.batch {
        for o in 0..q.out_channels {
            for p in 0..w.output_len() {
                let pos = [p / w.output[2] / w.output[1], p / w.output[2] % w.output[1], p % w.output[2]];
                for c in 0..cg {
                    for t in 0..w.kernel_len() {
                        let tap = [t / w.kernel[2] / w.kernel[1], t / w.kernel[2] % w.kernel[1], t % w.kernel[2]];
                        let mut at = 0;
                        let mut inside = true;
                        for d in 0..3 {
                            let i = (pos[d] * w.stride[d] + tap[d] * w.dilation[d]) as isize - w.pad[d] as isize;
                            inside &= i >= 0 && (i as usize) < w.input[d];
                            at = at * w.input[d] + i.max(0) as usize;
                        }
                        if inside {
                            let x = (n * q.channels + o / og * cg + c) * w.input_len() + at;
                            f((n * q.out_channels + o) * w.output_len() + p, x, (o * cg + c) * w.kernel_len() + t);
                        }
                    }
                }
            }
        }
    }
}

fn random(noise: &mut Noise, round: usize) -> Conv {
    let dims = noise.range(1, 3);
    let pointwise = round.is_multiple_of(6);
    let kernel: Vec<usize> = (0..dims).map(|_| if pointwise { 1 } else { noise.range(1, 4) }).collect();
    let dilation: Vec<usize> = (0..dims).map(|_| noise.range(1, 2)).collect();
    let stride: Vec<usize> = (0..dims).map(|_| if pointwise || noise.flip() { 1 } else { noise.range(1, 3) }).collect();
    let input: Vec<usize> = (0..dims).map(|d| noise.range(1, 9) + dilation[d] * (kernel[d] - 1)).collect();
    let pad: Vec<(usize, usize)> =
        (0..dims).map(|_| if pointwise { (0, 0) } else { (noise.range(0, 2), noise.range(0, 3)) }).collect();
    let window = Window::new(&input, &kernel, &stride, &pad, &dilation);
    let (groups, cg, og) = match round % 4 {
        0 => (noise.range(1, 5), 1, noise.range(1, 2)),
        1 => (noise.range(1, 3), noise.range(1, 4), noise.range(1, 5)),
        _ => (1, noise.range(1, 9), noise.range(1, 9)),
    };
    Conv { batch: noise.range(1, 5), channels: groups * cg, out_channels: groups * og, groups, window }
}

fn check(q: &Conv, noise: &mut Noise, what: &str) {
    check_within(q, noise, 2e-5, what);
}

/// How often each element of a result was handed over.
struct Parts {
    columns: usize,
    seen: std::sync::Mutex<Vec<u8>>,
}

impl Parts {
    fn new(q: &Conv) -> Parts {
        let columns = q.window.output_len();
        Parts { columns, seen: std::sync::Mutex::new(vec![0; q.batch * q.out_channels * columns]) }
    }
    fn add(&self, p: Patch) {
        let mut seen = self.seen.lock().unwrap();
        for row in p.row..p.row + p.rows {
            let first = row * self.columns + p.col;
            seen[first..first + p.cols].iter_mut().for_each(|n| *n += 1);
        }
    }
    /// Every element once.
    fn check(&self, what: &str) {
        assert!(self.seen.lock().unwrap().iter().all(|&n| n == 1), "{what}: parts");
    }
}

/// `off` is what the sums may be off by; gradients of weights sum over more.
fn check_within(q: &Conv, noise: &mut Noise, off: f64, what: &str) {
    let x = noise.f32s(q.batch * q.channels * q.window.input_len());
    let w = noise.f32s(q.out_channels * q.depth());
    let dy = noise.f32s(q.batch * q.out_channels * q.window.output_len());
    let (mut want_y, mut want_dx, mut want_dw) = (vec![0f64; dy.len()], vec![0f64; x.len()], vec![0f64; w.len()]);
    each_product(q, |o, i, k| {
        want_y[o] += x[i] as f64 * w[k] as f64;
        want_dx[i] += dy[o] as f64 * w[k] as f64;
        want_dw[k] += dy[o] as f64 * x[i] as f64;
    });
    let mut y = vec![9f32; dy.len()];
    let parts = Parts::new(q);
    q.forward_then(&x, &w, &mut y, &|p| parts.add(p));
    assert_close(&y, &want_y, off, &format!("{what} forward {q:?}"));
    parts.check(what);
    if let Some(weight) = q.prepacked(&Literal::new([w.len()], &w).unwrap()) {
        y.fill(9.0);
        let parts = Parts::new(q);
        q.forward_prepacked_then(&x, &weight, &mut y, &|p| parts.add(p));
        assert_close(&y, &want_y, off, &format!("{what} prepacked {q:?}"));
        parts.check(what);
    }
    if q.finishes() {
        check_finished(q, noise, (&x, &w, &want_y), off, what);
    }
    let mut dx = vec![9f32; x.len()];
    q.grad_input(&dy, &w, &mut dx);
    assert_close(&dx, &want_dx, off, &format!("{what} grad_input {q:?}"));
    let mut dw = vec![9f32; w.len()];
    q.grad_weight(&x, &dy, &mut dw);
    assert_close(&dw, &want_dw, 5.0 * off, &format!("{what} grad_weight {q:?}"));
}

/// Sums that an epilogue takes from registers: with and without its parts, over the residual or elsewhere.
fn check_finished(q: &Conv, noise: &mut Noise, (x, w, sums): (&[f32], &[f32], &[f64]), off: f64, what: &str) {
    let columns = q.window.output_len();
    let (mut bias, beside) = (noise.f32s(q.batch * q.out_channels), noise.f32s(sums.len()));
    for which in 0..4 {
        let (mut y, mut residual) = (vec![9f32; sums.len()], beside.clone());
        let place = |v: &mut [f32]| Shared::new(v.as_mut_ptr().cast::<u8>());
        let plain = Epilogue::plain(columns, y.as_mut_ptr());
        let e = match which {
            0 => plain,
            1 => Epilogue { bias: Some(place(&mut bias)), range: (-0.5, 0.75), ..plain },
            2 => Epilogue { residual: Some(place(&mut residual)), range: (0.0, f32::INFINITY), ..plain },
            _ => {
                let over = place(&mut residual);
                Epilogue { bias: Some(place(&mut bias)), residual: Some(over), to: over, ..plain }
            }
        };
        // SAFETY: all places have the result's size, the bias an element for each row.
        unsafe { q.forward_finished(x, w, &e) };
        let want: Vec<f64> = (0..sums.len())
            .map(|i| {
                let b = if e.bias.is_some() { bias[i / columns] as f64 } else { 0.0 };
                let r = if e.residual.is_some() { beside[i] as f64 } else { 0.0 };
                (sums[i] + b + r).max(e.range.0 as f64).min(e.range.1 as f64)
            })
            .collect();
        let got = if which == 3 { &residual } else { &y };
        assert_close(got, &want, off, &format!("{what} finished {which} {q:?}"));
    }
}

/// Windows of one element: every number of positions beside whole vectors, both ways to cut, rows that fill no tile.
#[test]
fn single_elements() {
    let mut noise = Noise::new(21);
    for (batch, groups, channels, outputs, input) in [
        (1, 1, 33, 19, [7, 7]),
        (2, 1, 16, 8, [1, 1]),
        (1, 1, 20, 9, [5, 5]),
        (1, 2, 24, 40, [4, 13]),
        (1, 1, 17, 23, [14, 14]),
        (3, 1, 48, 70, [3, 15]),
        (1, 1, 16, 33, [33, 35]),
        (2, 2, 18, 10, [40, 26]),
        (1, 1, 40, 12, [32, 33]),
    ] {
        let window = Window::new(&input, &[1; 2], &[1; 2], &[(0, 0); 2], &[1; 2]);
        let q = Conv { batch, channels: groups * channels, out_channels: groups * outputs, groups, window };
        check(&q, &mut noise, "single elements");
    }
}

#[test]
fn random_convolutions() {
    let mut noise = Noise::new(11);
    for round in 0..150 {
        let q = random(&mut noise, round);
        check(&q, &mut noise, &format!("round {round}"));
    }
}

#[test]
fn larger_planes_are_cut_into_spans() {
    let mut noise = Noise::new(12);
    let window = Window::new(&[40, 33], &[3, 3], &[1, 1], &[(1, 1), (1, 1)], &[1, 1]);
    check(&Conv { batch: 2, channels: 24, out_channels: 10, groups: 1, window }, &mut noise, "cut");
    let window = Window::new(&[61, 70], &[5, 5], &[2, 2], &[(2, 2), (2, 2)], &[1, 1]);
    check(&Conv { batch: 3, channels: 3, out_channels: 20, groups: 1, window }, &mut noise, "cut");
    // Rows that follow each other in the plane as in the matrix, and padding on one side alone.
    let window = Window::new(&[4, 15, 14], &[3, 3, 3], &[1, 1, 1], &[(1, 1), (1, 1), (1, 1)], &[1, 1, 1]);
    check(&Conv { batch: 1, channels: 17, out_channels: 9, groups: 1, window }, &mut noise, "cut");
    let window = Window::new(&[21, 18], &[3, 3], &[1, 1], &[(0, 3), (4, 0)], &[2, 2]);
    check(&Conv { batch: 2, channels: 20, out_channels: 6, groups: 2, window }, &mut noise, "cut");
}

/// Products of `bf16` as they are stored, against sums of the same numbers.
#[test]
fn narrow_products() {
    let mut noise = Noise::new(19);
    for round in 0..40 {
        let q = random(&mut noise, round);
        let mut some = |n: usize| noise.f32s(n).into_iter().map(bf16::from_f32).collect::<Vec<bf16>>();
        let x = some(q.batch * q.channels * q.window.input_len());
        let w = some(q.out_channels * q.depth());
        let dy = some(q.batch * q.out_channels * q.window.output_len());
        let (mut want_y, mut want_dx, mut want_dw) = (vec![0f64; dy.len()], vec![0f64; x.len()], vec![0f64; w.len()]);
        each_product(&q, |o, i, k| {
            want_y[o] += x[i].to_f64() * w[k].to_f64();
            want_dx[i] += dy[o].to_f64() * w[k].to_f64();
            want_dw[k] += dy[o].to_f64() * x[i].to_f64();
        });
        let (mut y, mut dx, mut dw) = (vec![9f32; dy.len()], vec![9f32; x.len()], vec![9f32; w.len()]);
        let parts = Parts::new(&q);
        q.forward_by_products(&x, &w, &mut y, &|p| parts.add(p));
        parts.check("narrow");
        q.grad_input_by_products(&dy, &w, &mut dx);
        q.grad_weight_by_products(&x, &dy, &mut dw);
        for (got, want, what) in
            [(&y, &want_y, "forward"), (&dx, &want_dx, "grad_input"), (&dw, &want_dw, "grad_weight")]
        {
            assert_close(got, want, 1e-4, &format!("narrow {what} {q:?}"));
        }
    }
}

/// Groups of few channels, each with its own weight, of every width of a band and both widths of a line.
#[test]
fn groups_of_few_channels() {
    let mut noise = Noise::new(15);
    for (batch, groups, cg, og, size, k, stride) in [
        (3, 4, 3, 2, [9, 40], 3, 1),
        (11, 5, 4, 4, [7, 7], 3, 1),
        (2, 3, 2, 13, [20, 6], 5, 1),
        (1, 2, 5, 9, [8, 20], 7, 1),
        (3, 2, 4, 7, [9, 70], 3, 2),
        (9, 3, 3, 8, [14, 11], 5, 2),
        (2, 2, 20, 5, [16, 34], 7, 2),
    ] {
        let window = Window::new(&size, &[k, k], &[stride; 2], &[(k / 2, k / 2); 2], &[1, 1]);
        let q = Conv { batch, channels: groups * cg, out_channels: groups * og, groups, window };
        assert!(q.is_direct::<f32>());
        check(&q, &mut noise, "grouped");
    }
}

#[test]
fn doubles() {
    let mut noise = Noise::new(13);
    for round in 0..10 {
        let q = random(&mut noise, round);
        let x = noise.f64s(q.batch * q.channels * q.window.input_len());
        let w = noise.f64s(q.out_channels * q.depth());
        let mut y = vec![0f64; q.batch * q.out_channels * q.window.output_len()];
        q.forward(&x, &w, &mut y);
        let mut want = vec![0f64; y.len()];
        each_product(&q, |o, i, k| want[o] += x[i] * w[k]);
        assert!(y.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-12), "{q:?}");
    }
}

#[test]
#[should_panic(expected = "2 groups do not divide 3 input and 4 output channels")]
fn groups_must_divide() {
    let window = Window::new(&[4], &[1], &[1], &[(0, 0)], &[1]);
    let q = Conv { batch: 1, channels: 3, out_channels: 4, groups: 2, window };
    q.forward::<f32>(&[0.0; 12], &[0.0; 4], &mut [0.0; 16]);
}

/// Tiles of both sizes, whole and cut off, with every padding.
#[test]
fn transformed_windows() {
    let mut noise = Noise::new(14);
    for (batch, size, pad) in
        [(1, [5, 7], (1, 1)), (3, [8, 8], (1, 1)), (2, [9, 6], (0, 0)), (8, [33, 18], (1, 1)), (13, [17, 19], (2, 1))]
    {
        let window = Window::new(&size, &[3, 3], &[1, 1], &[pad, (pad.1, pad.0)], &[1, 1]);
        let q = Conv { batch, channels: noise.range(16, 20), out_channels: noise.range(16, 20), groups: 1, window };
        check_within(&q, &mut noise, 1e-4, "transformed");
    }
}

/// Weights that are packed beforehand: groups, strides, dilation, rows of any width.
#[test]
fn prepacked_weights() {
    let mut noise = Noise::new(16);
    for (groups, channels, outputs, input, kernel, stride, pad, dilation) in [
        (1, 100, 150, [11, 13], [3, 3], [2, 2], [(1, 1), (1, 1)], [1, 1]),
        (1, 64, 256, [9, 9], [3, 3], [1, 1], [(0, 0), (4, 4)], [2, 2]),
        (2, 75, 230, [6, 21], [2, 4], [1, 3], [(1, 0), (2, 1)], [1, 1]),
        (1, 260, 70, [7, 5], [3, 3], [2, 1], [(1, 1), (1, 1)], [1, 1]),
    ] {
        let window = Window::new(&input, &kernel, &stride, &pad, &dilation);
        let q = Conv { batch: 2, channels: groups * channels, out_channels: groups * outputs, groups, window };
        assert!(q.prepacked(&Literal::zeros(ir::DType::F32, [q.out_channels * q.depth()])).is_some());
        check_within(&q, &mut noise, 5e-5, "prepacked");
    }
}

/// One channel a group: strides, dilation, several outputs a channel, every width of windows.
#[test]
fn depthwise_windows() {
    let mut noise = Noise::new(17);
    for round in 0..40 {
        let kernel = [noise.range(1, 5), [3, 5, 7, 2][round % 4]];
        let (stride, dilation) = ([noise.range(1, 3), noise.range(1, 4)], [noise.range(1, 2), noise.range(1, 2)]);
        let input = [0, 1].map(|d| noise.range(1, 30) + dilation[d] * (kernel[d] - 1));
        let pads = [0, 1].map(|d| (noise.range(0, kernel[d]), noise.range(0, kernel[d])));
        let window = Window::new(&input, &kernel, &stride, &pads, &dilation);
        let (groups, many) = (noise.range(2, 5), noise.range(1, 2));
        let q = Conv { batch: noise.range(1, 3), channels: groups, out_channels: groups * many, groups, window };
        check(&q, &mut noise, "depthwise");
    }
}

/// The usual depthwise windows: lines narrower and wider than a vector, odd sizes, more channels than one turn has.
#[test]
fn depthwise_lines() {
    let (mut noise, most) = (Noise::new(18), level());
    for round in 0..36 {
        let (k, stride) = ([3, 5, 7][round % 3], 1 + round / 3 % 2);
        let input = [noise.range(1, 20) + k, if round % 4 < 2 { noise.range(1, 9) } else { noise.range(10, 45) } + k];
        let pads = [0, 1].map(|_| (noise.range(0, k - 1), noise.range(0, k)));
        let window = Window::new(&input, &[k, k], &[stride; 2], &pads, &[1, 1]);
        let channels = noise.range(2, 40);
        let q = Conv { batch: noise.range(1, 2), channels, out_channels: channels, groups: channels, window };
        // With masks, and with planes between zeros; no higher than the threads of the pool.
        for least in Level::ALL.iter().filter(|l| **l <= most) {
            limit_level(*least);
            check(&q, &mut noise, "lines");
        }
    }
}

/// Few channels, every group of outputs, lines shorter and longer than vectors.
#[test]
fn direct_windows() {
    let mut noise = Noise::new(15);
    for round in 0..24 {
        let kernel = [noise.range(1, 7), [3, 5, 7][round % 3]];
        let input = [noise.range(1, 12) + kernel[0], noise.range(1, 40) + kernel[1]];
        let mut pad = |k: usize| (noise.range(0, k - 1), noise.range(0, k - 1));
        let pads = [pad(kernel[0]), pad(kernel[1])];
        let stride = [[1; 2], [2; 2]][round / 3 % 2];
        let window = Window::new(&input, &kernel, &stride, &pads, &[1, 1]);
        let q = Conv {
            batch: noise.range(1, 11),
            channels: noise.range(1, 7),
            out_channels: noise.range(1, 21),
            groups: 1,
            window,
        };
        check(&q, &mut noise, "direct");
    }
}
