//! `frac`: the part behind the point.

super::activation! {
    /// x less its whole part, with the sign of x, elementwise.
    frac();
    body: |x| x - x.trunc();
    grad: |_x, _y, g| g;
    samples: (-4.0, 4.0) => [()];
    example: (), [1.25, -2.5] => [0.25, -0.5], "by hand";
}
