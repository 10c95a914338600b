//! `floor_divide`: the quotient rounded down.

crate::binary! {
    /// Quotient rounded down, elementwise, as Python's `//`; integer division by 0 gives 0.
    floor_divide(a, b) -> Same;
    float: |a, b| (a / b).floor();
    int: Some(|a, b| if b == 0 { 0 } else { let q = a.wrapping_div(b); if a.wrapping_rem(b) != 0 && (a < 0) != (b < 0) { q - 1 } else { q } });
    code: "floor_divide({0}, {1})";
    neutral: None;
    domain: (0.5, 2.0);
    grad: ir::Grad::Zero;
    example: [7.0, -7.0, 7.0], [2.0, 2.0, -2.0] => [3.0, -4.0, -4.0], "Python manual: // rounds toward minus infinity";
}
