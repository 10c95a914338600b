//! `log_sigmoid`: the logarithm of the sigmoid.

super::activation! {
    /// log(sigmoid(x)) without overflow, elementwise.
    log_sigmoid();
    body: |x| x.clamp_max(0.0) - (-x.abs()).exp().log1p();
    grad: |x, _y, g| g * (-x).sigmoid();
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0986122886681098, -800.0] => [-std::f64::consts::LN_2, -0.2876820724517809, -800.0], "by hand: log(1/2), log(3/4)";
}
