//! NaN hunting names the line that made the first bad value. A separate test file, because the switch
//! is one for the whole process.

use cpu as _;
use talweg_tensor::{ErrorKind, Tensor, check_numerics, jit};

#[test]
fn the_first_value_that_is_not_finite_is_named() {
    let x = Tensor::from([1.0f32, 0.0]);
    let y = x.log(); // -inf is made here, line 10
    let z = (&y * 0.0).exp();
    check_numerics(true);
    let e = z.eval().unwrap_err();
    assert_eq!(e.kind, ErrorKind::Numerics);
    assert!(e.to_string().starts_with("log: ") && e.to_string().contains("numerics.rs:10:"), "{e}");

    let f = jit(|a: &[Tensor]| Ok(vec![a[0].sqrt() + 1.0]));
    assert!(f.call(&[&Tensor::from([4.0f32])]).is_ok());
    let e = f.call(&[&Tensor::from([-4.0f32])]).unwrap_err();
    assert!(e.to_string().starts_with("sqrt: "), "{e}");
    check_numerics(false);
    assert!(Tensor::from([-1.0f32]).sqrt().eval().is_ok());
}
