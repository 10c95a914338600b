//! What a model is made of and how it is trained: modules, layers, initial values, optimizers,
//! schedules, metrics.

// The derive macro names this crate by its full name, also here.
extern crate self as talweg_nn;

mod batch;
pub mod init;
pub mod layers;
pub mod metrics;
mod module;
pub mod optim;
pub mod parallel;
pub mod schedule;
pub mod train;

#[cfg(test)]
use cpu as _;

pub use batch::{column, tensor_of};
pub use layers::*;
pub use module::{Entry, Layer, Mode, Module, Parameters, Visitor, join};
pub use nn_derive::Module;
// Programs see this crate in the place of the ops' module of the same name.
pub use tensor::nn::{
    AttentionOptions, AvgPoolOptions, ConvOptions, InterpolateOptions, Interpolation, MaxPoolOptions, Padding, PerAxis,
    Resize, SampleOptions,
};
