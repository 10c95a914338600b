//! `ne`: inequality.

use crate::pairs;

crate::binary! {
    /// Whether `a` differs from `b`, elementwise; NaN differs from everything.
    ne(a, b) -> Bool;
    float: |a, b| (a != b) as u8 as f64;
    int: |a, b| (a != b) as i128;
    code: "({0} != {1})";
    cost: Instruction;
    complex: on_complex!(|u| pairs::real2(u, |a, b| a.re.ne(&b.re).or(a.im.ne(&b.im))));
    grad: ir::Grad::Zero;
    example: [1.0, 2.0, 3.0], [2.0, 2.0, 2.0] => [1.0, 0.0, 1.0], "by hand";
}
