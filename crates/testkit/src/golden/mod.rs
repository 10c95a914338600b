//! Values, gradients and second-order gradients that PyTorch computed, and what ours give.
//!
//! The data is `cases.json` (argument trees) beside `tensors.safetensors`. Inputs are exact in
//! f32 and the answers were computed in f64, so everything here runs in f64. An *adapter* calls
//! our API from PyTorch's argument tree; `elementwise`, `shape`, `nn`, `loss` and `linalg` hold one arm
//! an operator.

mod arg;
mod check;
mod elementwise;
mod linalg;
mod loss;
mod nn;
mod report;
mod shape;
mod store;

pub use arg::{Arg, Place};
pub use check::{TOLERANCE, Verdict, check};
pub use report::{OpReport, Report, parse_exceptions};
pub use store::{Golden, GoldenCase};

use ops::{Result, Tensor};

/// What our op gives for a case: all results in PyTorch's order. `None`: no adapter knows the
/// operator.
pub fn call(case: &GoldenCase) -> Option<Result<Vec<Tensor>>> {
    elementwise::call(case)
        .or_else(|| shape::call(case))
        .or_else(|| nn::call(case))
        .or_else(|| loss::call(case))
        .or_else(|| linalg::call(case))
}
