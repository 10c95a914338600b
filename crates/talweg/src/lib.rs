//! A machine-learning system. You define a model once. The same definition runs imperatively, as a dataflow graph or
//! jitted, on CPUs and NVIDIA GPUs, in one process or many.
//!
//! # A first model
//! ```
//! use talweg::prelude::*;
//!
//! manual_seed(0);
//! let x = Tensor::randn([64, 1]);
//! let y = &x * 3.0 + 0.5;
//! let model = Linear::new(1, 1)?;
//! let optimizer = Optimizer::new(Adam { lr: 0.1, ..Adam::default() }, &model)?;
//! let mut last = f64::INFINITY;
//! for _ in 0..200 {
//!     let loss = (model.forward(&x) - &y).square().mean(..);
//!     loss.backward()?;
//!     optimizer.step()?;
//!     last = loss.item()?;
//! }
//! assert!(last < 1e-3);
//! # Ok::<(), talweg::Error>(())
//! ```
//! Evaluation is lazy: nothing runs until you read a value (`item`, `to_vec`, `println!`). Loss, gradients and optimizer
//! step are one graph, compiled once and reused by the next iteration.
//!
//! # One definition, three faces
//! ```
//! use talweg::prelude::*;
//!
//! // Imperative: Rust's own control flow, values when you read them.
//! let x = Tensor::randn([32, 4]).requires_grad();
//! let y = x.matmul(&x.t()).tanh().sum(..);
//! y.backward()?;
//! println!("{y} {}", x.grad().unwrap());
//!
//! // Session: placeholders, variables, feeds and fetches.
//! let input = placeholder("x", [32, 4], DType::F32);
//! let w = Variable::new("w", Tensor::zeros([4, 1]))?;
//! let loss = (input.matmul(&w) - 1.0).square().mean(..);
//! let train = Optimizer::new(Sgd::default(), [w].as_slice())?.minimize(&loss)?;
//! let out = Session::new().run(&[&train, &loss], &[(&input, &Tensor::ones([32, 4]))])?;
//! println!("{}", out[0]); // the loss: an update has no result
//!
//! // Jit: traced once, replayed without tracing.
//! let step = jit(|a: &[Tensor]| Ok(vec![a[0].softmax(-1)]));
//! println!("{}", step.call(&[&Tensor::ones([2, 3])])?[0]);
//! # Ok::<(), talweg::Error>(())
//! ```
//!
//! # Gradients of any order
//! ```
//! use talweg::prelude::*;
//!
//! let x = Tensor::from([1.0f32, 2.0]).requires_grad();
//! let loss = (x.square() * &x).sum(..);
//! let slope = grad(&loss, &[x.clone()])?.remove(0);
//! let curvature = grad(&slope.sum(..), &[x.clone()])?.remove(0);
//! assert_eq!(slope.to_vec::<f32>()?, [3.0, 12.0]);
//! assert_eq!(curvature.to_vec::<f32>()?, [6.0, 12.0]);
//! # Ok::<(), talweg::Error>(())
//! ```
//!
//! # Errors
//! An op returns no `Result`. A bad call returns a tensor that carries the error, with its op, shapes and line; the
//! first read returns it.
//! ```
//! use talweg::prelude::*;
//!
//! let y = Tensor::zeros([2, 3]).matmul(&Tensor::zeros([4, 5])) + 1.0;
//! let error = y.eval().unwrap_err().to_string();
//! assert!(error.starts_with("matmul: inner sizes differ: [2, 3] × [4, 5] (at "));
//! ```
//!
//! # Where to look
//!
//! | you want | see |
//! |---|---|
//! | tensors and their ops | [`Tensor`] |
//! | layers, optimizers, schedules, the trainer | [`nn`] |
//! | data sets and loaders | [`data`] |
//! | collectives and tables of the parameter store | [`distributed`] |
//! | rows, graphs and element types | [`ir`] |
//! | devices | [`runtime`] |
//!
//! The repository's `docs` folder is a book: tutorial, concepts, guides, recipes and performance.

// What `derive(Module)` writes names this crate.
extern crate self as talweg;

pub mod cli;
pub mod distributed;
mod explain;
mod interrupt;
mod progress;

pub use ::data;
pub use ::dist;
pub use ::ir;
pub use ::nn;
pub use ::runtime;
pub use cpu::pool::{set_threads, threads};
pub use explain::explain;
pub use interrupt::{INTERRUPTED, interrupt};
pub use progress::Bar;
pub use tensor::*;

/// NVIDIA GPUs: their properties, and the switches that decide how programs are compiled for them.
pub mod gpu {
    pub use cuda::flags::{Flag, is_on, set};
    pub use cuda::{Properties, allow_tf32, properties};
}

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
