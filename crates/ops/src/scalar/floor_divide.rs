//! `floor_divide`: the quotient rounded down.

crate::binary! {
    /// Quotient rounded down, elementwise, as Python's `//`: of floats, `a - a % b` divided by b. An infinite dividend
    /// gives an infinite quotient, as the array API wants; integer division by 0 returns 0.
    floor_divide(a, b) -> Same;
    float: quotient;
    int: |a, b| if b == 0 { 0 } else { let q = a.wrapping_div(b); if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q } };
    code: "floor_divide({0}, {1})";
    domain: (0.5, 2.0);
    grad: ir::Grad::Zero;
    example: [7.0, -7.0, 7.0], [2.0, 2.0, -2.0] => [3.0, -4.0, -4.0], "Python manual: // rounds toward minus infinity";
}

/// CPython's float division: the rounded quotient `a / b` may be an integer above the true one.
fn quotient(a: f64, b: f64) -> f64 {
    if b == 0.0 || a.is_infinite() {
        return a / b;
    }
    let r = a % b;
    let q = (a - r) / b - if r != 0.0 && (r < 0.0) != (b < 0.0) { 1.0 } else { 0.0 };
    if q == 0.0 {
        return 0f64.copysign(a / b);
    }
    let floor = q.floor();
    if q - floor > 0.5 { floor + 1.0 } else { floor }
}

#[cfg(test)]
mod tests {
    use crate::Tensor;

    #[test]
    fn floats_divide_as_in_python() {
        let inf = f64::INFINITY;
        // (a, b, a // b, a % b), by CPython 3.11.
        let known: [(f64, f64, f64, f64); 11] = [
            (1.0, 0.1, 9.0, 0.09999999999999995),
            (-1.0, 0.1, -10.0, 5.551115123125783e-17),
            (-1.0, inf, -1.0, inf),
            (1.0, -inf, -1.0, -inf),
            (1.0, inf, 0.0, 1.0),
            (6.0, -3.0, -2.0, -0.0),
            (-6.0, 3.0, -2.0, 0.0),
            (0.0, -3.0, -0.0, -0.0),
            (-0.0, 3.0, -0.0, 0.0),
            (7.5, -2.0, -4.0, -0.5),
            (1e300, 3.0, 3.3333333333333335e299, 0.0),
        ];
        for (a, b, q, r) in known {
            let (x, y) = (Tensor::from([a]), Tensor::from([b]));
            let got = (x.floor_divide(&y).to_vec::<f64>().unwrap()[0], x.rem(&y).to_vec::<f64>().unwrap()[0]);
            assert_eq!((got.0.to_bits(), got.1.to_bits()), (q.to_bits(), r.to_bits()), "{a} by {b}: {got:?}");
        }
        let x = Tensor::from([1.0f32]).floor_divide(&Tensor::from([0.1f32]));
        assert_eq!(x.to_vec::<f32>().unwrap(), [9.0]);
    }
}
