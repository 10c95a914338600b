//! `or`: logical or, bitwise or.

use crate::{Operand, Tensor};

super::bits! {
    "or", "Logical or of bool, bitwise or of integers, elementwise.";
    int: |a, b| a | b;
    code: "({0} | {1})";
    cost: ir::Cost::Instruction;
    bool: true;
    example: [5, 12], [3, 10] => [7, 14], "by hand: 0101 | 0011, 1100 | 1010";
}

impl Tensor {
    /// Logical or of bool, bitwise or of integers, elementwise.
    #[track_caller]
    pub fn or(&self, other: impl Operand) -> Tensor {
        self.binary(&OP, other)
    }
    /// Whether either differs from 0, elementwise, for any element types.
    #[track_caller]
    pub fn logical_or(&self, other: &Tensor) -> Tensor {
        self.ne(0).or(other.ne(0))
    }
}
