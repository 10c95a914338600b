//! `silu_grad`: the derivative of `silu`.

super::activation! {
    /// The derivative of `silu`, elementwise: s (1 + x (1 - s)) with s = sigmoid(x).
    silu_grad();
    body: |x| {
        let s = x.sigmoid();
        &s * ((1.0 - &s) * x + 1.0)
    };
    grad: |x, _y, g| {
        let s = x.sigmoid();
        g * (&s * (1.0 - &s)) * (x * (1.0 - s * 2.0) + 2.0)
    };
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0986122886681098] => [0.5, 0.9559898041252705], "by hand: 3/4 (1 + log(3) / 4)";
}
