//! `shr`: shift to the right.

use crate::{Operand, Tensor};

super::bits! {
    "shr", "Bits of `a` shifted right by `b`, arithmetically, elementwise: `a / 2ᵇ` rounded down; by 63 at most.";
    int: |a, b| a >> b.clamp(0, 127);
    code: "shr({0}, {1})";
    cost: ir::Cost::Short;
    bool: false;
    example: [10, -5], [1, 1] => [5, -3], "by hand";
}

impl Tensor {
    /// Bits of `a` shifted right by `b`, keeping the sign, elementwise: `a / 2ᵇ` rounded down; larger shifts count as 63.
    #[track_caller]
    pub fn shr(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
}
