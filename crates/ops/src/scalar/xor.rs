//! `xor`: exclusive or.

use crate::{Operand, Tensor};

super::bits! {
    "xor", "Exclusive or of bool, bitwise exclusive or of integers, elementwise.";
    int: |a, b| a ^ b;
    code: "({0} ^ {1})";
    cost: ir::Cost::Instruction;
    bool: true;
    example: [5, 12], [3, 10] => [6, 6], "by hand: 0101 ^ 0011, 1100 ^ 1010";
}

impl Tensor {
    /// Exclusive or of bool, bitwise exclusive or of integers, elementwise.
    #[track_caller]
    pub fn xor(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
    /// Whether exactly one differs from 0, elementwise, for any element types.
    #[track_caller]
    pub fn logical_xor(&self, other: &Tensor) -> Tensor {
        self.ne(0).xor(other.ne(0))
    }
}
