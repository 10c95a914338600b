//! `tanhshrink`: x − tanh(x).

super::activation! {
    /// x - tanh(x), elementwise.
    tanhshrink();
    body: |x| x - x.tanh();
    grad: |x, _y, g| g * x.tanh().square();
    samples: (-4.0, 4.0) => [()];
    example: (), [0.0, 1.0] => [0.0, 0.23840584404423515], "Abramowitz and Stegun, table 4.15";
}
