//! `rad2deg`: radians to degrees.

super::activation! {
    /// Radians converted to degrees, elementwise.
    rad2deg();
    body: |x| x * (180.0 / std::f64::consts::PI);
    grad: |_x, _y, g| g * (180.0 / std::f64::consts::PI);
    samples: (-4.0, 4.0) => [()];
    example: (), [std::f64::consts::PI, -std::f64::consts::FRAC_PI_2] => [180.0, -90.0], "exact angles";
}
