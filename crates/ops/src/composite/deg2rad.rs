//! `deg2rad`: degrees to radians.

super::activation! {
    /// Degrees converted to radians, elementwise.
    deg2rad();
    body: |x| x * (std::f64::consts::PI / 180.0);
    grad: |_x, _y, g| g * (std::f64::consts::PI / 180.0);
    samples: (-4.0, 4.0) => [()];
    example: (), [180.0, -90.0] => [std::f64::consts::PI, -std::f64::consts::FRAC_PI_2], "exact angles";
}
