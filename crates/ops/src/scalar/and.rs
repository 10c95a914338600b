//! `and`: logical and, bitwise and.

use crate::{Operand, Tensor};

super::bits! {
    "and", "Logical and of bool, bitwise and of integers, elementwise.";
    int: |a, b| a & b;
    code: "({0} & {1})";
    cost: ir::Cost::Instruction;
    bool: true;
    example: [5, 12], [3, 10] => [1, 8], "by hand: 0101 & 0011, 1100 & 1010";
}

impl Tensor {
    /// Logical and of bool, bitwise and of integers, elementwise.
    #[track_caller]
    pub fn and(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
    /// Whether both differ from 0, elementwise, for any element types.
    #[track_caller]
    pub fn logical_and(&self, other: &Tensor) -> Tensor {
        self.ne(0).and(other.ne(0))
    }
}
