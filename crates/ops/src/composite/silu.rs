//! `silu`: the sigmoid-weighted linear unit.

super::activation! {
    /// x sigmoid(x), elementwise; also known as swish.
    silu();
    body: |x| x * x.sigmoid();
    grad: |x, _y, g| g * x.silu_grad();
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0986122886681098] => [0.0, 0.8239592165010823], "by hand: 3/4 log 3";
}
