//! `mish`: a self-regularized activation.

super::activation! {
    /// x tanh(softplus(x)), elementwise.
    mish();
    body: |x| x * x.softplus(1.0, 20.0).tanh();
    grad: |x, _y, g| {
        let t = x.softplus(1.0, 20.0).tanh();
        let slope = (1.0 - t.square()) * x.sigmoid();
        g * (t + x * slope)
    };
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0986122886681098] => [0.0, 0.969363784118920], "by hand: tanh(log 4) = 15/17";
}
