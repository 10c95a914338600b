//! Gradients where functions have none: PyTorch's choices.

use cpu as _;
use talweg_ops::{Result, Tensor, grad};

fn slopes(f: impl Fn(&[Tensor]) -> Tensor, xs: &[&[f64]]) -> Vec<Vec<f64>> {
    let leaves: Vec<Tensor> = xs.iter().map(|x| Tensor::new(x.len(), x).requires_grad()).collect();
    let gs = grad(&f(&leaves).sum(..), &leaves).unwrap();
    gs.iter().map(|g| g.to_vec().unwrap()).collect()
}

#[test]
fn equal_operands_share() {
    let nan = f64::NAN;
    let (a, b) = ([1.0, 1.0, nan, 2.0], [1.0, 2.0, 1.0, nan]);
    assert_eq!(slopes(|x| x[0].fmax(&x[1]), &[&a, &b]), [[0.5, 0.0, 0.0, 1.0], [0.5, 1.0, 1.0, 0.0]]);
    assert_eq!(slopes(|x| x[0].fmin(&x[1]), &[&a, &b]), [[0.5, 1.0, 0.0, 1.0], [0.5, 0.0, 1.0, 0.0]]);
}

#[test]
fn a_bound_that_is_a_number_gives_nothing_and_a_tensor_shares() {
    let x = [0.0, 0.5, 1.0, 2.0, -1.0];
    assert_eq!(slopes(|x| x[0].clamp(0.0, 1.0), &[&x]), [[0.0, 1.0, 0.0, 0.0, 0.0]]);
    assert_eq!(slopes(|x| x[0].clamp_min(0.0), &[&[0.0, 0.5]]), [[0.0, 1.0]]);
    let (lo, hi) = ([0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    let x = [0.0, 0.5, 1.0, 2.0, -1.0, 0.5];
    let want = [[0.5, 1.0, 0.5, 0.0, 0.0, 0.0], [0.5, 0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.5, 1.0, 0.0, 1.0]];
    assert_eq!(slopes(|x| x[0].clamp(&x[1], &x[2]), &[&x, &lo, &hi]), want);
    assert_eq!(slopes(|x| x[0].clamp_min(&x[1]), &[&[0.0, 0.5, -1.0], &[0.0; 3]]), [[0.5, 1.0, 0.0], [0.5, 0.0, 1.0]]);
    assert_eq!(slopes(|x| x[0].clamp_max(&x[1]), &[&[0.0, 0.5, -1.0], &[0.0; 3]]), [[0.5, 0.0, 1.0], [0.5, 1.0, 0.0]]);
}

#[test]
fn the_angle_of_the_origin_does_not_move() {
    assert_eq!(slopes(|x| x[0].atan2(&x[1]), &[&[0.0, 1.0], &[0.0, 1.0]]), [[0.0, 0.5], [0.0, -0.5]]);
}

#[test]
fn equal_elements_share_the_middle_of_all() -> Result<()> {
    let x = [1.0, 2.0, 2.0, 3.0, 2.0];
    let third = 1.0 / 3.0;
    assert_eq!(slopes(|x| x[0].median(..), &[&x]), [[0.0, third, third, 0.0, third]]);
    assert_eq!(slopes(|x| x[0].nanmedian(..), &[&x]), [[0.0, third, third, 0.0, third]]);
    let along = slopes(|x| x[0].median(0), &[&x]);
    assert_eq!(along[0].iter().sum::<f64>(), 1.0);
    assert_eq!(along[0].iter().filter(|&&g| g != 0.0).count(), 1);
    let odd = Tensor::from([f64::NEG_INFINITY, f64::NEG_INFINITY, 1.0]);
    assert_eq!(odd.median(..).item::<f64>()?, f64::NEG_INFINITY);
    assert!(Tensor::from([1.0, f64::NAN, 2.0]).median(..).item::<f64>()?.is_nan());
    assert_eq!(Tensor::from([3, 1, 2]).median(..).item::<i32>()?, 2);
    Ok(())
}

#[test]
fn an_empty_index_has_a_gradient_of_zeros() -> Result<()> {
    let none = Tensor::zeros([0]).cast(talweg_ops::DType::I64);
    let x = Tensor::from([1.0, 2.0, 3.0]).requires_grad();
    x.gather(0, &none).sum(..).backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [0.0; 3]);
    x.zero_grad();
    x.take_along_axis(&none, 0).sum(..).backward()?;
    assert_eq!(x.grad().unwrap().to_vec::<f64>()?, [0.0; 3]);
    Ok(())
}
