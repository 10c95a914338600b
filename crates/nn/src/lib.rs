//! Modules, layers, initializers, optimizers, schedules, metrics and the trainer. Programs use it as `talweg::nn`.
//!
//! # A module
//! A module is a struct of modules, variables and settings. `derive(Module)` finds its parameters and names them after
//! the fields.
//! ```
//! # use cpu as _; // the device
//! use talweg_nn::{Dropout, Layer, Linear, Module};
//! use tensor::Tensor;
//!
//! #[derive(Module)]
//! struct Net {
//!     fc1: Linear,
//!     dropout: Dropout,
//!     fc2: Linear,
//! }
//! impl Layer for Net {
//!     fn forward(&self, x: &Tensor) -> Tensor {
//!         self.fc2.forward(&self.dropout.forward(&self.fc1.forward(x).relu()))
//!     }
//! }
//!
//! let net = Net { fc1: Linear::new(8, 16)?, dropout: Dropout::new(0.1), fc2: Linear::new(16, 2)? };
//! let names: Vec<String> = net.named_parameters().into_iter().map(|(name, _)| name).collect();
//! assert_eq!(names, ["fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"]);
//! net.train(false); // evaluation mode: no dropout
//! assert_eq!(net.forward(&Tensor::ones([4, 8])).dims()?, [4, 2]);
//! # Ok::<(), tensor::Error>(())
//! ```
//!
//! # A training step
//! An optimizer's rule is tensor code, so loss, gradients and step compile into one program.
//! ```
//! # use cpu as _; // the device
//! use talweg_nn::optim::{Adam, Optimizer, clip_grad_norm};
//! use talweg_nn::{Layer, Linear};
//! use tensor::Tensor;
//!
//! let model = Linear::new(4, 3)?;
//! let optimizer = Optimizer::new(Adam { lr: 1e-2, ..Adam::default() }, &model)?;
//! let (x, labels) = (Tensor::randn([16, 4]), Tensor::full([16], 1i64));
//! let mut losses = Vec::new();
//! for _ in 0..20 {
//!     let loss = model.forward(&x).cross_entropy(&labels);
//!     loss.backward()?;
//!     clip_grad_norm(&optimizer.parameters(), 1.0)?;
//!     optimizer.step()?;
//!     losses.push(loss.item::<f64>()?);
//! }
//! assert!(losses[19] < losses[0]);
//! # Ok::<(), tensor::Error>(())
//! ```
//!
//! # What there is
//!
//! | module | content |
//! |---|---|
//! | [`layers`] | linear, convolution, pooling, norms, dropout, embeddings, recurrent, attention, transformer, graph layers, [`Sequential`] |
//! | [`init`] | initializers: Xavier, Kaiming and others |
//! | [`optim`] | SGD, Adam, AdamW, Adagrad, RMSProp, Lion, Adafactor, L-BFGS; custom rules; clipping and loss scaling |
//! | [`schedule`] | learning-rate schedules |
//! | [`metrics`] | accuracy and others, accumulated over batches |
//! | [`train`] | the trainer, checkpoints, logs |

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

pub use batch::{Columns, tensor_of};
pub use layers::*;
pub use module::{Entry, Layer, Mode, Module, Parameters, Visitor, join};
pub use nn_derive::Module;
// Programs see this crate in the place of the ops' module of the same name.
pub use tensor::nn::{
    AttentionOptions, AvgPoolOptions, ConvOptions, InterpolateOptions, Interpolation, MaxPoolOptions, Padding, PerAxis,
    Resize, SampleOptions,
};
