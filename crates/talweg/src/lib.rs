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
//! let train = Optimizer::new(Sgd::default(), &[w])?.minimize(&loss)?;
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
//! | exported models, to be served | [`export`] |
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
pub mod export;

// A tensor and what makes one.
pub use tensor::{
    Axes, Combine, DType, Element, Index, Indices, Literal, Nested, NewAxis, Number, Operand, Pad, Shape, Tensor,
    f8e4m3, f8e5m2, manual_seed,
};
// Errors, with the line of the program.
pub use tensor::{Error, ErrorKind, Result};
// State, and the faces of a graph.
pub use tensor::{Fetch, Jit, Session, Update, Variable, jit, placeholder};
// Differentiation and batching.
pub use tensor::{Draws, Wrt, backward, grad, no_grad, vjp, vmap, vmap_drawing};
// Where and how a program computes.
pub use cpu::pool::{set_threads, threads};
pub use runtime::{LogicalDevice, devices, logical_devices, set_logical_devices};
pub use tensor::{Mesh, MeshScope, Plan, with_mesh};
pub use tensor::{
    Placed, Profile, autocast, check_numerics, chosen_device, colocate_with, device, profile, set_device,
};
// Files.
pub use tensor::{files, load, load_npy, save, save_npy};
// Looking inside, and runs in the terminal.
pub use explain::explain;
pub use quickstart::{Bar, INTERRUPTED, interrupt};

// The layers of a training program.
pub use ::data;
pub use ::dist;
pub use ::nn;
pub use ::onnx;

/// Loops, branches and functions as parts of a graph.
pub mod control {
    pub use tensor::control::{
        Backward, ScanOptions, associative_scan, checkpoint, cond, custom_gradient, fori_loop, function, map, scan,
        scan_with, while_loop, while_loop_within,
    };
}

/// Derivatives of functions of tensors.
pub mod derivatives {
    pub use tensor::derivatives::{grad_of, hessian, hvp, jacobian, jvp, value_and_grad, value_and_grad_aux};
}

/// The random generator: [`manual_seed`], its state, and keys for custom draws.
pub mod generator {
    pub use tensor::generator::{next_key, set_state, state};
}

/// Options of losses.
pub mod loss {
    pub use tensor::loss::{CrossEntropyOptions, CtcOptions, NllOptions, PoissonOptions, Reduction, TripletOptions};
}

/// Options of linear algebra.
pub mod linalg {
    pub use tensor::linalg::{FftNorm, FftOptions, MatrixNorm, Triangle, TriangularOptions};
}

// For custom ops, passes and devices: these follow the inside and change with it.
pub use ::ir;
pub use ::runtime;
#[cfg(feature = "wgpu")]
use talweg_wgpu as _;
pub use tensor::{custom, engine, engine_named, find, table};

/// Helpers of op rows: type rules and gradient rules.
pub mod rules {
    pub use tensor::rules::{GradTensors, binary_grad, expand, expand1, grads, one_dtype, same, unary_grad};
}

/// NVIDIA GPUs: their properties, and the switches that decide how programs are compiled for them.
pub mod gpu {
    pub use cuda::flags::{Flag, is_on, set};
    pub use cuda::{Properties, allow_tf32, properties};
}

/// What most programs use.
pub mod prelude {
    pub use data::{Dataset, Loader};
    pub use nn::optim::{Adagrad, Adam, AdamW, Optimizer, Sgd};
    pub use nn::train::{Checkpoints, Every, Trainer};
    pub use nn::{
        Activation, BatchNorm, Columns, Conv2d, ConvOptions, Dropout, Embedding, Flatten, Layer, LayerNorm, Linear,
        MaxPool2d, Module, Relu, Sequential,
    };
    pub use tensor::{
        DType, Error, Result, Session, Tensor, Update, Variable, autocast, device, grad, jit, manual_seed, no_grad,
        placeholder, vmap,
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
