//! Talweg: a machine-learning system. A model is defined once, imperatively or as a dataflow
//! graph, and the same definition is differentiated, compiled and trained.
//!
//! ```
//! use talweg::prelude::*;
//!
//! let x = Tensor::from([[0.0f32, 1.0], [1.0, 0.0]]);
//! let w = Variable::new("w", Tensor::ones([2, 1]))?;
//! let loss = (x.matmul(&w) - 3.0).square().mean(..);
//! loss.backward()?;
//! assert_eq!(w.grad().unwrap().to_vec::<f32>()?, [-2.0, -2.0]);
//! # Ok::<(), talweg::Error>(())
//! ```

// What `derive(Module)` writes names this crate.
extern crate self as talweg;

pub mod cli;
pub mod distributed;
mod explain;
mod interrupt;
mod progress;

use {cpu as _, cuda as _};

pub use ::data;
pub use ::dist;
pub use ::ir;
pub use ::nn;
pub use ::runtime;
pub use explain::explain;
pub use interrupt::{INTERRUPTED, interrupt};
pub use progress::Bar;
pub use tensor::*;

/// What most programs use.
pub mod prelude {
    pub use nn::optim::{Adagrad, Adam, AdamW, Optimizer, Sgd};
    pub use nn::{Activation, Layer, Linear, Module, Sequential};
    pub use tensor::{
        DType, Error, Result, Session, Tensor, Update, Variable, grad, jit, manual_seed, no_grad, placeholder, vmap,
    };
}

/// The programs in the README run as they stand there.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// And those of the guide to training.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/training.md")]
struct Training;

/// So do those in the page on looking inside.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/observability.md")]
struct Observability;

/// And of the tutorial.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial.md")]
struct Tutorial;

/// And of the pages on extending and debugging.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/extending.md")]
struct Extending;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/debugging.md")]
struct Debugging;
