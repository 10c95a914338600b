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
mod explain;
mod interrupt;
mod progress;

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
pub use runtime::devices;
pub use tensor::{Profile, autocast, check_numerics, chosen_device, device, profile, set_device};
// Files.
pub use tensor::{files, load, load_npy, save, save_npy};
// Looking inside, and the command line's way with people.
pub use explain::explain;
pub use interrupt::{INTERRUPTED, interrupt};
pub use progress::Bar;

// The layers of a training program.
pub use ::data;
pub use ::dist;
pub use ::nn;
pub use ::nn::parallel as distributed;

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

/// The random generator: [`manual_seed`](crate::manual_seed), its state, and keys for draws of one's own.
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

// For ops, passes and devices of one's own: these follow the inside and change with it.
pub use ::ir;
pub use ::runtime;
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
