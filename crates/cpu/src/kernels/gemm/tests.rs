//! Matrix products against three loops in double precision: random shapes, strides and batches.

use super::super::testing::{Noise, assert_close};
use super::*;
use half::{bf16, f16};

/// A matrix with random strides around `rows * cols` elements: contiguous, transposed or padded.
fn layout(noise: &mut Noise, rows: usize, cols: usize) -> (isize, isize, usize) {
    let pad = noise.range(0, 5);
    match noise.range(0, 3) {
        0 => ((cols + pad) as isize, 1, rows * (cols + pad)),
        1 => (1, (rows + pad) as isize, cols * (rows + pad)),
        2 => (2 * (cols + pad) as isize, 2, 2 * rows * (cols + pad)),
        _ => (cols as isize, 1, rows * cols),
    }
}

struct Shape {
    m: usize,
    n: usize,
    k: usize,
    batch: usize,
}

fn reference(
    s: &Shape,
    a: &dyn Fn(usize, usize, usize) -> f64,
    b: &dyn Fn(usize, usize, usize) -> f64,
    alpha: f64,
    before: &[f64],
) -> Vec<f64> {
    let mut c = Vec::new();
    for t in 0..s.batch {
        for i in 0..s.m {
            for j in 0..s.n {
                let sum: f64 = (0..s.k).map(|p| a(t, i, p) * b(t, p, j)).sum();
                let at = (t * s.m + i) * s.n + j;
                c.push(alpha * sum + before[at]);
            }
        }
    }
    c
}

fn shape(noise: &mut Noise, round: usize) -> Shape {
    let size = |noise: &mut Noise| match noise.range(0, 3) {
        0 => noise.range(1, 4),
        1 => noise.range(1, 40),
        2 => noise.range(1, 130),
        _ => noise.range(1, 17),
    };
    let (m, n, k) = match round % 5 {
        0 => (1, size(noise), size(noise)),
        1 => (size(noise), 1, size(noise)),
        2 => (size(noise), size(noise), noise.range(380, 800)),
        3 if noise.flip() => (size(noise), size(noise), 1),
        _ => (size(noise), size(noise), size(noise)),
    };
    Shape { m, n, k, batch: if noise.flip() { 1 } else { noise.range(1, 4) } }
}

#[test]
fn f32_products() {
    let mut noise = Noise::new(1);
    for round in 0..400 {
        let s = shape(&mut noise, round);
        let (ar, ac, alen) = layout(&mut noise, s.m, s.k);
        let (br, bc, blen) = layout(&mut noise, s.k, s.n);
        let share_b = noise.flip();
        let a = noise.f32s(alen * s.batch);
        let b = noise.f32s(blen * s.batch);
        let before = noise.f32s(s.batch * s.m * s.n);
        let accumulate = noise.flip();
        let alpha = if noise.flip() { 1.0 } else { -0.5 };
        let mut c = before.clone();
        let q = Gemm {
            alpha,
            accumulate,
            batch: s.batch,
            a_batch: alen as isize,
            b_batch: if share_b { 0 } else { blen as isize },
            c_batch: (s.m * s.n) as isize,
            ..Gemm::new(
                s.m,
                s.n,
                s.k,
                Mat { p: a.as_ptr(), row: ar, col: ac },
                Mat { p: b.as_ptr(), row: br, col: bc },
                c.as_mut_ptr(),
            )
        };
        // SAFETY: strides and lengths come from `layout`.
        unsafe { q.run() };
        let at = |t: usize, i: usize, j: usize| a[t * alen + i * ar as usize + j * ac as usize] as f64;
        let bt = |t: usize, i: usize, j: usize| {
            b[if share_b { 0 } else { t * blen } + i * br as usize + j * bc as usize] as f64
        };
        let old: Vec<f64> = before.iter().map(|&x| if accumulate { x as f64 } else { 0.0 }).collect();
        let want = reference(&s, &at, &bt, alpha as f64, &old);
        assert_close(&c, &want, 2e-5, &format!("round {round}: {}x{}x{}", s.m, s.n, s.k));
    }
}

#[test]
fn f64_products() {
    let mut noise = Noise::new(2);
    for round in 0..100 {
        let s = Shape { batch: 1, ..shape(&mut noise, round) };
        let (ar, ac, alen) = layout(&mut noise, s.m, s.k);
        let (br, bc, blen) = layout(&mut noise, s.k, s.n);
        let (a, b) = (noise.f64s(alen), noise.f64s(blen));
        let mut c = vec![0.0; s.m * s.n];
        let (ma, mb) = (Mat { p: a.as_ptr(), row: ar, col: ac }, Mat { p: b.as_ptr(), row: br, col: bc });
        // SAFETY: strides and lengths come from `layout`.
        unsafe { Gemm::new(s.m, s.n, s.k, ma, mb, c.as_mut_ptr()).run() };
        let at = |_: usize, i: usize, j: usize| a[i * ar as usize + j * ac as usize];
        let bt = |_: usize, i: usize, j: usize| b[i * br as usize + j * bc as usize];
        let want = reference(&s, &at, &bt, 1.0, &vec![0.0; c.len()]);
        assert!(c.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-11), "{}x{}x{}", s.m, s.n, s.k);
    }
}

#[test]
fn half_products_sum_in_f32() {
    let mut noise = Noise::new(3);
    for round in 0..60 {
        let s = Shape { batch: 1, ..shape(&mut noise, round) };
        let (ar, ac, alen) = layout(&mut noise, s.m, s.k);
        let (br, bc, blen) = layout(&mut noise, s.k, s.n);
        let a: Vec<bf16> = noise.f32s(alen).into_iter().map(bf16::from_f32).collect();
        let b: Vec<bf16> = noise.f32s(blen).into_iter().map(bf16::from_f32).collect();
        let (ma, mb) = (Mat { p: a.as_ptr(), row: ar, col: ac }, Mat { p: b.as_ptr(), row: br, col: bc });
        let mut c = vec![0f32; s.m * s.n];
        let mut h = vec![bf16::ONE; s.m * s.n];
        // SAFETY: strides and lengths come from `layout`.
        unsafe {
            Gemm::new(s.m, s.n, s.k, ma, mb, c.as_mut_ptr()).run();
            Gemm { accumulate: true, ..Gemm::new(s.m, s.n, s.k, ma, mb, h.as_mut_ptr()) }.run();
        }
        let at = |_: usize, i: usize, j: usize| a[i * ar as usize + j * ac as usize].to_f64();
        let bt = |_: usize, i: usize, j: usize| b[i * br as usize + j * bc as usize].to_f64();
        let want = reference(&s, &at, &bt, 1.0, &vec![0.0; c.len()]);
        assert_close(&c, &want, 2e-5, "bf16 to f32");
        for (h, w) in h.iter().zip(&want) {
            assert!((h.to_f64() - (w + 1.0)).abs() <= 0.01 * (w + 1.0).abs().max(1.0), "{h} {w}");
        }
    }
}

#[test]
fn integers_wrap() {
    let a: Vec<i32> = (0..35).map(|i| i * 0x0377_1234).collect();
    let b: Vec<i32> = (0..28).map(|i| i * 0x0191_4321).collect();
    let mut c = vec![1i32; 20];
    // SAFETY: 5x7 times 7x4.
    unsafe {
        gemm_int(5, 4, 7, Mat::row_major(a.as_ptr(), 7), Mat::row_major(b.as_ptr(), 4), c.as_mut_ptr(), 4, true);
    }
    for i in 0..5 {
        for j in 0..4 {
            let want: i64 =
                1 + (0..7).map(|p| (a[i * 7 + p] as i64).wrapping_mul(b[p * 4 + j] as i64)).fold(0, i64::wrapping_add);
            assert_eq!(c[i * 4 + j], want as i32);
        }
    }
}

/// Every way a product can be cut, and every edge: each element of C against a sum in double
/// precision over the same integers, which all types hold exactly.
fn exact<S: Multiply, C: Output<S::Acc>>(
    s: &Shape,
    transposed: (bool, bool),
    of: fn(i32) -> S,
    read: fn(C) -> f64,
    one: C,
) {
    let number = |seed: usize, i: usize| ((i * 2654435761 + seed * 40503) >> 7) as i32 % 5 - 2;
    let (a, b): (Vec<S>, Vec<S>) =
        ((0..s.m * s.k).map(|i| of(number(1, i))).collect(), (0..s.k * s.n).map(|i| of(number(2, i))).collect());
    let mut c = vec![one; s.m * s.n];
    let ma = if transposed.0 { Mat::row_major(a.as_ptr(), s.m).t() } else { Mat::row_major(a.as_ptr(), s.k) };
    let mb = if transposed.1 { Mat::row_major(b.as_ptr(), s.k).t() } else { Mat::row_major(b.as_ptr(), s.n) };
    // SAFETY: dense matrices of these sizes.
    unsafe { Gemm { accumulate: s.batch > 1, ..Gemm::new(s.m, s.n, s.k, ma, mb, c.as_mut_ptr()) }.run() };
    let at = |i: usize, p: usize| number(1, if transposed.0 { p * s.m + i } else { i * s.k + p });
    let bt = |p: usize, j: usize| number(2, if transposed.1 { j * s.k + p } else { p * s.n + j });
    // All of C would take long: some rows and columns, the last ones included.
    for i in (0..s.m).step_by(s.m.div_ceil(13)).chain([s.m - 1]) {
        for j in (0..s.n).step_by(s.n.div_ceil(29)).chain([s.n - 1]) {
            let sum: i32 = (0..s.k).map(|p| at(i, p) * bt(p, j)).sum();
            let want = f64::from(sum) + if s.batch > 1 { 1.0 } else { 0.0 };
            let got = read(c[i * s.n + j]);
            assert!(got == want, "{}x{}x{} {transposed:?} at ({i}, {j}): {got}, not {want}", s.m, s.n, s.k);
        }
    }
}

/// Of matrices whose rows are an odd number of elements apart.
#[test]
fn products_of_no_step_are_zeros() {
    let (x, w, mut y, mut z) = ([bf16::ONE; 20], [1f32; 20], [7f32; 6], [7f32; 6]);
    let (mat, wide) = (Mat { p: x.as_ptr(), row: 5, col: 1 }, Mat { p: w.as_ptr(), row: 5, col: 1 });
    // SAFETY: no element is read.
    unsafe {
        Gemm::new(2, 3, 0, mat, mat.t(), y.as_mut_ptr()).run();
        Gemm::new(2, 3, 0, wide, wide.t(), z.as_mut_ptr()).run();
    }
    assert_eq!((y, z), ([0.0; 6], [0.0; 6]));
}

#[test]
fn every_shape_class_transposition_and_type() {
    let shapes = [
        (1, 300, 200),
        (300, 1, 200),
        (3, 500, 1100),
        (500, 3, 300),
        (16, 700, 130),
        (9, 33, 1030),
        (128, 130, 784),
        (256, 256, 256),
        (100, 784, 128),
        (300, 200, 100),
        (513, 77, 1025),
        (270, 4200, 40),
        (40, 2100, 1050),
        (5, 5, 5),
        (64, 64, 1),
    ];
    for (round, (m, n, k)) in shapes.into_iter().enumerate() {
        for transposed in [(false, false), (false, true), (true, false), (true, true)] {
            let s = Shape { m, n, k, batch: 1 + round % 2 };
            exact::<f32, f32>(&s, transposed, |x| x as f32, f64::from, 1.0);
            if round % 2 == 0 {
                exact::<f64, f64>(&s, transposed, f64::from, |x| x, 1.0);
                exact::<bf16, f32>(&s, transposed, |x| bf16::from_f32(x as f32), f64::from, 1.0);
            } else {
                exact::<f16, f32>(&s, transposed, |x| f16::from_f32(x as f32), f64::from, 1.0);
            }
        }
    }
    // Of one step: small enough for 16 bits.
    for (m, n) in [(70, 600), (1, 20), (33, 1), (40, 1030)] {
        for transposed in [(false, false), (true, true)] {
            let s = Shape { m, n, k: 1, batch: 1 };
            exact::<bf16, bf16>(&s, transposed, |x| bf16::from_f32(x as f32), f64::from, bf16::ONE);
            exact::<f16, f16>(&s, transposed, |x| f16::from_f32(x as f32), f64::from, f16::ONE);
        }
    }
}

#[test]
fn results_do_not_depend_on_threads_or_on_the_run() {
    let mut noise = Noise::new(4);
    for (m, n, k) in
        [(200, 700, 500), (1, 3000, 900), (64, 512, 2048), (100, 784, 128), (600, 40, 1500), (300, 330, 1310)]
    {
        for transposed in [(false, false), (false, true), (true, false)] {
            let (a, b) = (noise.f32s(m * k), noise.f32s(k * n));
            let run = |threads| {
                pool::set_threads(threads);
                let mut c = vec![0f32; m * n];
                let a = if transposed.0 { Mat::row_major(a.as_ptr(), m).t() } else { Mat::row_major(a.as_ptr(), k) };
                let b = if transposed.1 { Mat::row_major(b.as_ptr(), k).t() } else { Mat::row_major(b.as_ptr(), n) };
                // SAFETY: dense matrices of these sizes.
                unsafe { Gemm::new(m, n, k, a, b, c.as_mut_ptr()).run() };
                pool::set_threads(0);
                c
            };
            let once = run(1);
            // From eight threads on, products are cut both ways.
            let is_same = [4, 3, 4, 8, 16].into_iter().all(|threads| run(threads) == once);
            assert!(is_same, "{m}x{n}x{k} {transposed:?}");
        }
    }
}

#[test]
fn parts_are_reported_once_and_cover_the_result() {
    for (m, n, k) in [(5, 7, 3), (128, 1024, 64), (1024, 128, 64), (300, 5000, 20), (64, 4096, 600)] {
        for transposed in [false, true] {
            let (a, b) = (vec![1f32; m * k], vec![1f32; k * n]);
            let mut c = vec![0f32; m * n];
            let b = if transposed { Mat::row_major(b.as_ptr(), k).t() } else { Mat::row_major(b.as_ptr(), n) };
            let seen: Vec<std::sync::atomic::AtomicU32> = (0..m * n).map(|_| 0.into()).collect();
            let (pc, relaxed) = (Shared::new(c.as_mut_ptr()), std::sync::atomic::Ordering::Relaxed);
            // SAFETY: dense matrices of these sizes; finished parts are only read.
            unsafe {
                let q = Gemm::new(m, n, k, Mat::row_major(a.as_ptr(), k), b, c.as_mut_ptr());
                Oriented::new(&q, q.a, q.b, q.c, q.c_row).run(&|p: Patch| {
                    for i in p.row..p.row + p.rows {
                        for j in p.col..p.col + p.cols {
                            assert!(*pc.get().add(i * n + j) == k as f32, "({i}, {j}) is reported too early");
                            seen[i * n + j].fetch_add(1, relaxed);
                        }
                    }
                });
            }
            assert!(seen.iter().all(|x| x.load(relaxed) == 1), "{m}x{n}x{k}");
        }
    }
}

/// A broadcast operand has rows that are 0 apart, which once was taken for a packed one.
#[test]
fn rows_that_are_repeated() {
    for (m, n, k) in [(3, 3, 8), (40, 70, 30), (300, 64, 100)] {
        let x: Vec<f32> = (0..n.max(k)).map(|i| (i % 7) as f32 - 3.0).collect();
        let ones = vec![1f32; m.max(n) * k];
        let mut c = vec![0f32; m * n];
        // SAFETY: one row of each repeated operand, dense matrices otherwise.
        unsafe {
            Gemm::new(m, n, k, Mat::row_major(x.as_ptr(), 0), Mat::row_major(ones.as_ptr(), n), c.as_mut_ptr()).run()
        };
        let sum: f32 = x[..k].iter().sum();
        assert!(c.iter().all(|&y| y == sum), "left, {m}x{n}x{k}");
        // SAFETY: as above.
        unsafe {
            Gemm::new(m, n, k, Mat::row_major(ones.as_ptr(), k), Mat::row_major(x.as_ptr(), 0), c.as_mut_ptr()).run()
        };
        assert!(c.iter().enumerate().all(|(i, &y)| y == k as f32 * x[i % n]), "right, {m}x{n}x{k}");
    }
}

#[test]
fn empty_products() {
    let a = [1f32; 4];
    let mut c = [7f32; 4];
    // SAFETY: nothing is read for k = 0.
    unsafe { Gemm::new(2, 2, 0, Mat::row_major(a.as_ptr(), 0), Mat::row_major(a.as_ptr(), 2), c.as_mut_ptr()).run() };
    assert_eq!(c, [0.0; 4]);
    // SAFETY: as above; one row goes another way.
    unsafe { Gemm::new(1, 4, 0, Mat::row_major(a.as_ptr(), 0), Mat::row_major(a.as_ptr(), 4), c.as_mut_ptr()).run() };
    assert_eq!(c, [0.0; 4]);
    let a = [bf16::ONE; 4];
    let mut c = [bf16::ONE; 4];
    // SAFETY: as above.
    unsafe { Gemm::new(2, 2, 0, Mat::row_major(a.as_ptr(), 0), Mat::row_major(a.as_ptr(), 2), c.as_mut_ptr()).run() };
    assert_eq!(c, [bf16::ZERO; 4]);
}

#[test]
fn parts_of_a_product_are_reported_once_whatever_lies_beside_it() {
    let mut noise = Noise::new(17);
    for (m, n, k, is_transposed) in
        [(96, 100, 1100, true), (40, 48, 300, false), (200, 33, 64, true), (9, 700, 129, true)]
    {
        let (a, b) = (noise.f32s(m * k), noise.f32s(k * n));
        let left = if is_transposed { Mat::row_major(a.as_ptr(), m).t() } else { Mat::row_major(a.as_ptr(), k) };
        let mut plain = vec![0f32; m * n];
        let mut c = vec![f32::NAN; m * n];
        let beside = noise.f32s(m * n);
        let times = std::sync::Mutex::new(vec![0; m * n]);
        let q = |c: &mut [f32]| Gemm::new(m, n, k, left, Mat::row_major(b.as_ptr(), n), c.as_mut_ptr());
        let count = |p: Patch| {
            let mut times = times.lock().unwrap();
            (p.row..p.row + p.rows).for_each(|i| times[i * n + p.col..][..p.cols].iter_mut().for_each(|t| *t += 1));
        };
        let (x, none) = (beside.as_ptr(), std::ptr::null());
        // SAFETY: vectors of these sizes; what lies beside is only brought closer.
        unsafe {
            q(&mut plain).run();
            q(&mut c).run_then([x, x, x, none], &count);
        }
        assert_eq!(c, plain, "{m}×{n}×{k}");
        assert!(times.into_inner().unwrap().iter().all(|&t| t == 1), "{m}×{n}×{k}");
    }
}
