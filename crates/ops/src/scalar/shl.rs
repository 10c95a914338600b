//! `shl`: shift to the left.

use crate::{Operand, Tensor};

super::bits! {
    "shl", "Bits of `a` shifted left by `b`, elementwise; 0 for shifts above 63 or below 0.";
    int: |a, b| if (0..64).contains(&b) { a << b } else { 0 };
    code: "shl({0}, {1})";
    cost: ir::Cost::Short;
    bool: false;
    example: [5, 1], [1, 4] => [10, 16], "by hand";
}

impl Tensor {
    /// Bits of `a` shifted left by `b`, elementwise; 0 for shifts above 63 or below 0.
    #[track_caller]
    pub fn shl(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
}
