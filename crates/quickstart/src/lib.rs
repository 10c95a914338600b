//! A first training run: [`digits`] trains a perceptron on built-in handwritten digits, shows it in the terminal
//! ([`Bar`]) and stops at Ctrl-C ([`interrupt`]).
//!
//! The binary `quickstart` of this crate links the CPU device and nothing else, so a first result needs a third fewer
//! crates to compile than the `talweg` command, which has the same training as `talweg quickstart`.

mod bar;
pub mod digits;
mod interrupt;

pub use bar::Bar;
pub use interrupt::{INTERRUPTED, interrupt};
