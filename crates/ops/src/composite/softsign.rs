//! `softsign`: a rational sigmoid.

super::activation! {
    /// x / (1 + |x|), elementwise.
    softsign();
    body: |x| x / (x.abs() + 1.0);
    grad: |x, _y, g| g / (x.abs() + 1.0).square();
    samples: (-4.0, 4.0) => [()];
    example: (), [-1.0, 0.0, 3.0] => [-0.5, 0.0, 0.75], "by hand";
}
