//! The language: the tensor handle, the op table (one file an op), differentiation and batching.
//!
//! To add an op, write one file with its row and method and add one line to the list of its kind;
//! see `CONTRIBUTING.md`.

#[macro_use]
pub mod rules;
mod arith;
mod autocast;
mod batch;
pub mod collective;
pub mod composite;
pub mod control;
pub mod custom;
pub mod derivatives;
mod device;
mod differentiate;
pub mod effects;
pub mod generator;
pub mod index;
mod indexing;
pub mod kernel;
pub mod linalg;
pub mod loss;
mod memo;
pub mod nn;
mod operand;
pub mod pairs;
mod print;
pub mod random;
pub mod reduce;
pub mod scalar;
pub mod shape;
mod tensor;
pub mod view;

pub use autocast::{autocast, autocast_dtype, set_autocast};
pub use batch::{Draws, vmap, vmap_drawing};
pub use custom::custom;
pub use device::{
    chosen_device, colocate_with, device, engine, engine_named, enter_colocation, leave_colocation, set_device,
};
pub use differentiate::{
    Wrt, aliased, backward, collect_gradients, grad, gradients, is_collector, is_trained, stopped, tracked, vjp,
};
pub use generator::manual_seed;
pub use index::scatter_reduce::Combine;
pub use indexing::{Index, Indices, NewAxis};
pub use ir::{
    Attr, Attrs, DType, Element, Error, ErrorKind, Literal, Op, Result, Shape, Site, f8e4m3, f8e5m2, no_grad,
};
pub use operand::{Axes, Nested, Number, Operand, axis};
pub use shape::pad_edges::Pad;
pub use tensor::Tensor;

use std::sync::LazyLock;

#[cfg(test)]
use cpu as _;

/// Every row of the op table.
pub fn table() -> impl Iterator<Item = &'static Op> {
    let parts: [&'static [&'static Op]; 14] = [
        scalar::ROWS,
        view::ROWS,
        reduce::ROWS,
        kernel::ROWS,
        index::ROWS,
        shape::ROWS,
        composite::ROWS,
        nn::ROWS,
        loss::ROWS,
        linalg::ROWS,
        random::ROWS,
        control::ROWS,
        pairs::ROWS,
        collective::ROWS,
    ];
    parts.into_iter().flatten().copied()
}

/// Ways to write an op with others, in the order in which they are to be found.
pub fn patterns() -> &'static [passes::Pattern] {
    static ALL: LazyLock<Vec<passes::Pattern>> =
        LazyLock::new(|| nn::FORMS.iter().chain(&loss::FORMS).chain(&index::FORMS).copied().collect());
    &ALL
}

/// The row with that name.
pub fn find(name: &str) -> Option<&'static Op> {
    [&ir::INPUT, &ir::CONST].into_iter().chain(table()).find(|op| op.name == name)
}
