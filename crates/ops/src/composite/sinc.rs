//! `sinc`: the sine cardinal.

use crate::Tensor;

use std::f64::consts::PI;

super::activation! {
    /// sin(πx) / (πx), elementwise; 1 at 0.
    sinc();
    body: |x| {
        let safe = Tensor::where_(&x.eq(0.0), &x.ones_like(), x);
        // The sine of a multiple of π keeps its digits if whole turns are taken out before.
        let turn = &safe - (&safe * 0.5).round() * 2.0;
        let turn = Tensor::where_(&turn.abs().gt(0.5), &(turn.sign() - &turn), &turn);
        Tensor::where_(&x.eq(0.0), &x.ones_like(), (turn * PI).sin() / (safe * PI))
    };
    grad: |x, _y, g| {
        let z = &x * PI;
        let safe = Tensor::where_(&x.eq(0.0), &x.ones_like(), &z);
        let slope = (&safe * safe.cos() - safe.sin()) / (safe.square() / PI);
        g * Tensor::where_(&x.eq(0.0), &x.zeros_like(), slope)
    };
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 0.5, 1.5] => [1.0, std::f64::consts::FRAC_2_PI, -0.2122065907891938], "by hand: 2/π, -2/(3π)";
}
