//! The words everything else is written in: element types, shapes, values on the host, the row
//! type of the op table, the live graph a program builds, the flat graph that is compiled, and
//! the one error type.
//!
//! This crate knows no op by name, runs nothing and knows no device.

mod attr;
mod binary;
pub mod blocks;
mod buffer;
mod bytes;
mod custom;
pub mod drawing;
mod dtype;
mod error;
mod float8;
mod graph;
mod link;
mod literal;
mod node;
mod op;
mod peers;
mod rewrite;
mod setting;
mod shape;
pub mod shard;
mod site;
mod text;
mod verify;
mod watch;

pub use attr::{Attr, AttrKind, Attrs};
pub use buffer::{Buffer, DeviceMemory, Storage};
pub use bytes::{Bytes, ForeignMemory, OUT_OF_MEMORY, Outside, Reserve};
pub use custom::{CudaSource, Custom, CustomOp, Vmap};
pub use dtype::{DType, Element};
pub use error::{Error, ErrorKind, Result, Site};
pub use float8::{f8e4m3, f8e5m2};
pub use graph::{Collect, Collected, FlatNode, Graph, Slot, broadcast_shapes, collect};
pub use half::{bf16, f16};
pub use link::{IS_GENERAL, is_linked, unlinked};
pub use literal::Literal;
pub use node::{Node, Source, Value, Var, VarGuard, VarStorage, is_grad_on, mark, no_grad, set_grad, set_place};
pub use num_complex::Complex;
pub use op::{
    Autocast, Batch, BatchCall, CONST, Call, Case, ComplexCall, Cost, Effect, Grad, GradCall, INPUT, Meaning, Monoid,
    ORDERED, OnComplex, Op, Out, RunGraph, Scalar, Type, Types,
};
pub use peers::{Alone, DevicePeers, Job, Peers, PeersHandle, Pending};
pub use setting::{Setting, SettingRead, record_settings};
pub use shape::{AxisSplit, Layout, Shape};
pub use shard::{Deal, Factors, Generate, Kind, Mesh, OnPart, Portion, Resize, Runs, Shard, Spec};
pub use text::Find;
pub use watch::{AfterHook, GradHook, Pullback, Watch};
