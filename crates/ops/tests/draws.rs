//! Random draws inside loops and batches: every iteration and example has its own numbers, which
//! depend on the seed alone.

use cpu as _;
use std::slice::from_ref;
use talweg_ops::control::{ScanOptions, checkpoint, cond, fori_loop, scan, scan_with, while_loop};
use talweg_ops::generator::{next_key, state};
use talweg_ops::{DType, Result, Tensor, grad, manual_seed, vjp, vmap};

fn rows(t: &Tensor) -> Vec<Vec<f32>> {
    t.unbind(0).iter().map(|r| r.to_vec().unwrap()).collect()
}
fn assert_distinct(what: &str, rows: &[Vec<f32>]) {
    for (i, a) in rows.iter().enumerate() {
        assert!(rows[..i].iter().all(|b| a != b), "{what}: row {i} is drawn twice: {rows:?}");
    }
}
/// The same from the same seed, something else from another, and rows that differ.
fn check(what: &str, f: impl Fn() -> Result<Tensor>) {
    let from = |seed: u64| {
        manual_seed(seed);
        let y = f().unwrap();
        (rows(&y), state())
    };
    let (first, again, other) = (from(7), from(7), from(8));
    assert_distinct(what, &first.0);
    assert_eq!(first, again, "{what}");
    assert_ne!(first.0, other.0, "{what}");
}

fn zero() -> Tensor {
    Tensor::from(0.0f32)
}
fn scanned(length: usize, f: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    let options = ScanOptions { length: Some(length), reverse: false };
    Ok(scan_with(options, |c, _| Ok((c.to_vec(), vec![f()?])), &[zero()], &[])?.1.swap_remove(0))
}
fn mapped(size: usize, f: impl FnOnce() -> Result<Tensor>) -> Result<Tensor> {
    Ok(vmap(|_| Ok(vec![f()?]), &[Tensor::zeros([size])])?.swap_remove(0))
}

#[test]
fn every_iteration_draws_numbers_of_its_own() {
    check("scan", || scanned(5, || Ok(Tensor::rand([3]))));
    check("scan of two draws", || scanned(3, || Ok(Tensor::concat(&[Tensor::randn([2]), Tensor::rand([2])], 0))));
    check("fori_loop", || {
        let start = Tensor::zeros([4, 3]);
        let at = |i: &Tensor| Tensor::iota(4, DType::I64).eq(i).unsqueeze(-1);
        let step = |i: &Tensor, c: &[Tensor]| Ok(vec![Tensor::where_(&at(i), &Tensor::rand([3]), &c[0])]);
        Ok(fori_loop(0, 4, step, &[start])?.swap_remove(0))
    });
    check("while_loop", || {
        let at = |i: &Tensor| Tensor::iota(4, DType::I64).eq(i).unsqueeze(-1);
        let body = |c: &[Tensor]| Ok(vec![&c[0] + 1i64, Tensor::where_(&at(&c[0]), &Tensor::rand([3]), &c[1])]);
        let start = [Tensor::from(0i64), Tensor::zeros([4, 3])];
        Ok(while_loop(|c| Ok(c[0].lt(4i64)), body, &start)?.swap_remove(1))
    });
    check("scan in a scan", || {
        let y = scanned(3, || scanned(2, || Ok(Tensor::rand([3]))))?;
        Ok(y.reshape([6, 3]))
    });
    check("cond in a scan", || {
        scanned(3, || {
            let draw = |_: &[Tensor]| Ok(vec![Tensor::rand([3])]);
            Ok(cond(&Tensor::from(true), draw, draw, &[])?.swap_remove(0))
        })
    });
}

#[test]
fn a_condition_may_draw() {
    // The number of trips until a number above 0.9 comes.
    let trips = |seed: u64| {
        manual_seed(seed);
        let test = |_: &[Tensor]| Ok(Tensor::rand(()).lt(0.9f32));
        while_loop(test, |c| Ok(vec![&c[0] + 1i64]), &[Tensor::from(0i64)]).unwrap()[0].item::<i64>().unwrap()
    };
    let counts: Vec<i64> = (0..20).map(trips).collect();
    assert!(counts.iter().any(|&n| n != counts[0]), "{counts:?}");
    assert_eq!(trips(3), counts[3]);
}

#[test]
fn every_example_draws_numbers_of_its_own() {
    check("vmap", || mapped(5, || Ok(Tensor::rand([3]))));
    check("dropout", || {
        let x = Tensor::ones([4, 64]);
        Ok(vmap(|a| Ok(vec![a[0].dropout(0.5, &next_key())]), &[x])?.swap_remove(0))
    });
    check("vmap of vmap", || Ok(mapped(3, || mapped(2, || Ok(Tensor::rand([3]))))?.reshape([6, 3])));
    check("scan in vmap", || Ok(mapped(3, || scanned(2, || Ok(Tensor::rand([3]))))?.reshape([6, 3])));
    check("vmap in scan", || Ok(scanned(3, || mapped(2, || Ok(Tensor::rand([3]))))?.reshape([6, 3])));
    let kinds: [(&str, fn() -> Tensor); 5] = [
        ("normal", || Tensor::randn([3])),
        ("integers", || Tensor::randint([3], 0..1 << 20).cast(DType::F32)),
        ("permutation", || Tensor::randperm(40).cast(DType::F32)),
        ("exponential", || Tensor::random_exponential(&next_key(), [3])),
        ("categorical", || Tensor::random_categorical(&next_key(), &Tensor::zeros([999]), 9).cast(DType::F32)),
    ];
    for (what, f) in kinds {
        check(what, || mapped(3, || Ok(f())));
    }
    // A key that is given means the same numbers for all.
    let key = Tensor::from([3i64, 4]);
    let same = rows(&mapped(2, || Ok(Tensor::random_uniform(&key, [3], 0.0, 1.0))).unwrap());
    assert_eq!(same[0], same[1]);
}

#[test]
fn draws_outside_are_as_before() {
    // What stands outside a loop is not changed by the loop's draws but for their number.
    manual_seed(1);
    let (a, b) = (Tensor::rand([3]), Tensor::rand([3]));
    let c = Tensor::rand([3]);
    manual_seed(1);
    let (d, _) = (Tensor::rand([3]), scanned(4, || Ok(Tensor::rand([2]))).unwrap());
    let e = Tensor::rand([3]);
    let of = |t: &Tensor| t.to_vec::<f32>().unwrap();
    assert_eq!((of(&a), of(&c)), (of(&d), of(&e)));
    assert_ne!(of(&b), of(&c));
}

#[test]
fn the_gradient_of_a_loop_has_the_masks_of_the_loop() {
    // y = Σ mask_t ⊙ x: the gradient by x is the sum of the masks, which y shows at x = 1.
    for (what, is_saved) in [("saved", true), ("run again", false)] {
        manual_seed(3);
        let x = Tensor::ones([50]);
        let x = if is_saved { x.requires_grad() } else { x };
        let run = |x: &Tensor| -> Result<(Tensor, Tensor)> {
            let options = ScanOptions { length: Some(4), reverse: false };
            let body = |c: &[Tensor], _: &[Tensor]| {
                let dropped = x.tanh().dropout(0.5, &next_key()) / 1f32.tanh();
                Ok((vec![&c[0] + &dropped], vec![dropped]))
            };
            let (last, rows) = scan_with(options, body, &[Tensor::zeros([50])], &[])?;
            Ok((last[0].clone(), rows[0].clone()))
        };
        let (y, masks, g) = if is_saved {
            let (y, masks) = run(&x).unwrap();
            let g = grad(&y.sum(..), from_ref(&x)).unwrap().swap_remove(0);
            (y, masks, g)
        } else {
            let all = talweg_ops::derivatives::value_and_grad_aux(|x: &[Tensor]| {
                let (y, masks) = run(&x[0])?;
                Ok((y.sum(..), vec![y, masks]))
            })(from_ref(&x))
            .unwrap();
            (all.2[0].clone(), all.2[1].clone(), all.1[0].clone())
        };
        assert_distinct(what, &rows(&masks));
        let slope = 1.0 - 1f32.tanh().powi(2);
        let want: Vec<f32> = y.to_vec::<f32>().unwrap().iter().map(|m| m * slope / 1f32.tanh()).collect();
        let got = g.to_vec::<f32>().unwrap();
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "{what}: {got:?} instead of {want:?}");
    }
}

#[test]
fn the_gradient_of_a_batch_has_the_masks_of_the_batch() {
    manual_seed(5);
    let x = Tensor::ones([3, 40]).requires_grad();
    let y = vmap(|a| Ok(vec![a[0].square().dropout(0.5, &next_key())]), from_ref(&x)).unwrap().swap_remove(0);
    let g = vjp(from_ref(&y), &[y.ones_like()], from_ref(&x)).unwrap().swap_remove(0);
    assert_eq!((y * 2.0f32).to_vec::<f32>().unwrap(), g.to_vec::<f32>().unwrap());
}

#[test]
fn a_checkpoint_draws_the_same_numbers_again() {
    for in_loop in [false, true] {
        manual_seed(9);
        let x = Tensor::ones([30]).requires_grad();
        let step = |x: &Tensor| -> Result<Tensor> {
            let f = |a: &[Tensor]| Ok(vec![a[0].square().dropout(0.5, &next_key())]);
            Ok(checkpoint(f, from_ref(x))?.swap_remove(0))
        };
        let y = if in_loop {
            scan(
                |c, r| Ok((vec![&c[0] + step(&r[0])?], vec![])),
                &[Tensor::zeros([30])],
                &[Tensor::stack(&[x.clone(), x.clone(), x.clone()], 0)],
            )
            .unwrap()
            .0
            .swap_remove(0)
        } else {
            step(&x).unwrap()
        };
        let g = grad(&y.sum(..), from_ref(&x)).unwrap().swap_remove(0);
        assert_eq!((y * 2.0f32).to_vec::<f32>().unwrap(), g.to_vec::<f32>().unwrap(), "in a loop: {in_loop}");
    }
}

#[test]
fn samples_have_the_bits_of_their_type_and_stay_in_their_interval() {
    let key = Tensor::from([5i64, 6]);
    let of = |lo: f64, hi: f64, dtype: DType| {
        let x = Tensor::random_uniform_of(&key, [200_000], lo, hi, dtype).cast(DType::F64).to_vec::<f64>().unwrap();
        assert!(x.iter().all(|&x| lo <= x && x < hi), "{dtype} in [{lo}, {hi})");
        x
    };
    for dtype in [DType::BF16, DType::F16, DType::F32, DType::F64] {
        for (lo, hi) in [(0.0, 1.0), (-1.0, 1.0), (-3.0, 0.0), (1000.0, 1001.0 + 7.0)] {
            of(lo, hi, dtype);
        }
    }
    // Not multiples of 2⁻²⁴.
    let mut x = of(0.0, 1.0, DType::F64);
    assert!(x.iter().any(|x| (x * (1u64 << 24) as f64).fract() != 0.0));
    x.sort_by(f64::total_cmp);
    assert!(x.windows(2).all(|w| w[0] != w[1]));
}

#[test]
fn huge_ranges_are_drawn_evenly() {
    let key = Tensor::from([5i64, 6]);
    let n = 40_000;
    for range in [3i64 << 61, (1 << 62) + 12345, i64::MAX, (1 << 32) + 1, 1 << 40] {
        let x = Tensor::random_integers(&key, [n], 0..range).to_vec::<i64>().unwrap();
        assert!(x.iter().all(|x| (0..range).contains(x)), "{range}");
        for quarter in 0..4 {
            let inside = |x: &&i64| (**x as f64 / range as f64 * 4.0) as usize == quarter;
            let share = x.iter().filter(inside).count() as f64 / n as f64;
            // Five standard deviations.
            assert!((share - 0.25).abs() < 0.011, "{range}: quarter {quarter} has {share}");
        }
    }
    let low = Tensor::random_integers(&key, [n], i64::MIN / 2..i64::MAX / 2).to_vec::<i64>().unwrap();
    assert!(low.iter().any(|&x| x < 0) && low.iter().any(|&x| x > 0));
}
