//! `le`: less or equal.

crate::binary! {
    /// Whether `a <= b`, elementwise; false where either is NaN.
    le(a, b) -> Bool;
    float: |a, b| (a <= b) as u8 as f64;
    int: |a, b| (a <= b) as i128;
    code: "({0} <= {1})";
    cost: Instruction;
    grad: ir::Grad::Zero;
    example: [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [1.0, 1.0, 0.0], "by hand";
}
