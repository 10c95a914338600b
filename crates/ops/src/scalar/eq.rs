//! `eq`: equality.

use crate::pairs;

crate::binary! {
    /// Whether `a` equals `b`, elementwise; NaN equals nothing.
    eq(a, b) -> Bool;
    float: |a, b| (a == b) as u8 as f64;
    int: |a, b| (a == b) as i128;
    code: "({0} == {1})";
    cost: Instruction;
    complex: on_complex!(|u| pairs::real2(u, |a, b| a.re.eq(&b.re).and(a.im.eq(&b.im))));
    grad: ir::Grad::Zero;
    example: [1.0, 2.0], [2.0, 2.0] => [0.0, 1.0], "by hand";
}
