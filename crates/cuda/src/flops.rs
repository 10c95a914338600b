//! Floating-point operations of kernels, for `explain` and profiles.

use crate::claims::claim;
use crate::library::epilogue::Epilogue;
use ir::{FlatNode, Shape};
use passes::View;

/// Floating-point operations of a call: its claim's, a GEMM's with an epilogue, or one an element.
pub fn flops(n: &FlatNode, args: &[View]) -> usize {
    match claim(n.op.name) {
        Some(c) => (c.flops)(n, args),
        None if Epilogue::of(n.op.name, n.outs.len()).is_some() => gemm(n, args),
        None => elements(n, args),
    }
}

/// One operation an element.
pub fn elements(n: &FlatNode, _: &[View]) -> usize {
    n.outs[0].shape.count()
}

/// A GEMM.
pub fn gemm(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * args[0].layout.shape.last().copied().unwrap_or(1)
}

/// A convolution: each output element takes every weight of its channel.
pub fn conv(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * per_channel(&args[1].layout.shape)
}
/// The input gradient of a convolution.
pub fn conv_input_grad(_: &FlatNode, args: &[View]) -> usize {
    2 * args[0].layout.shape.count() * per_channel(&args[1].layout.shape)
}
/// The weight gradient of a convolution.
pub fn conv_weight_grad(n: &FlatNode, args: &[View]) -> usize {
    2 * args[1].layout.shape.count() * per_channel(&n.outs[0].shape)
}

/// Attention: two GEMMs over every query and key that meet.
pub fn attention(n: &FlatNode, args: &[View]) -> usize {
    let [q, k, v] = [0, 1, 2].map(|i| &args[i].layout.shape);
    let [width, keys, outs] = [q.last(), k.iter().nth_back(1), v.last()].map(|d| d.copied().unwrap_or(1));
    let all = 2 * q.count() / width.max(1) * keys * (width + outs);
    if n.attrs.bool("causal").unwrap_or(false) { all / 2 } else { all }
}
/// Its gradient: scores, and the gradients of weights, values, keys and queries, five GEMMs for two.
pub fn attention_grad(n: &FlatNode, args: &[View]) -> usize {
    attention(n, args) * 5 / 2
}

/// Weights of one output channel.
fn per_channel(weights: &Shape) -> usize {
    weights.iter().skip(1).product()
}
