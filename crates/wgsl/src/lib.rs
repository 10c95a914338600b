//! Graphs as WGSL: what the device `wgpu` launches and what a page runs by WebGPU.
//!
//! Every decision is text and numbers. [`lower::Lowered`] turns a graph into kernels, [`launch::Launches`] says what each
//! launch binds, and [`page`] writes a program that JavaScript runs in a browser. Regions that WebGPU cannot compute
//! (f64, functions it lacks, ops without a kernel) are graphs for the host.
//! [ADR 14](../../../docs/adr/0014-webgpu-emulates-64-bit-integers.md) has the types.

mod claims;
pub mod element;
mod expression;
pub mod host;
pub mod kernel;
mod kernels;
pub mod launch;
mod loops;
pub mod lower;
pub mod page;
