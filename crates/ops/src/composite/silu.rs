//! `silu`: the sigmoid-weighted linear unit.

super::activation! {
    /// x sigmoid(x), elementwise; also known as swish.
    silu();
    body: |x| x * x.sigmoid();
    grad: |x, _y, g| {
        let s = x.sigmoid();
        g * (&s * ((1.0 - &s) * x + 1.0))
    };
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0986122886681098] => [0.0, 0.8239592165010823], "by hand: 3/4 log 3";
}
