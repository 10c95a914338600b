//! `round`: rounding to nearest.

crate::unary! {
    /// The nearest integer, elementwise; ties go to the even neighbor, as in NumPy.
    round(x) -> Same;
    float: f64::round_ties_even;
    int: |x| x;
    code: "rint({0})";
    domain: (-3.0, 3.0);
    cost: Short;
    complex: ir::OnComplex::Parts;
    grad: ir::Grad::Zero;
    example: [0.5, 1.5, -2.5, 2.6] => [0.0, 2.0, -2.0, 3.0], "NumPy manual: 0.5 rounds to 0, 1.5 to 2";
}
