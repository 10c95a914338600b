//! Floating-point operations of kernels, for `explain` and profiles.

use ir::{FlatNode, Shape};
use passes::View;

/// Floating-point operations of a kernel. A variant of an op has the op's name with an ending.
pub fn flops(n: &FlatNode, args: &[View]) -> usize {
    let out = n.outs[0].shape.count();
    let is = |name: &str| n.op.name == name || n.op.name.strip_prefix(name).is_some_and(|end| end.starts_with('_'));
    match n.op.name {
        "int_matmul" | "scaled_product" => gemm_flops(out, args),
        _ if is("matmul") => gemm_flops(out, args),
        _ if is("conv_input_grad") => 2 * args[0].layout.shape.count() * per_channel(&args[1].layout.shape),
        _ if is("conv_weight_grad") => 2 * args[1].layout.shape.count() * per_channel(&n.outs[0].shape),
        // Each output element takes every weight of its channel.
        "conv" | "conv_last" => 2 * out * per_channel(&args[1].layout.shape),
        // Scores, and the gradients of weights, values, keys and queries: five GEMM for two.
        _ if is("attention_grad") => attention_flops(n, args) * 5 / 2,
        _ if is("attention") => attention_flops(n, args),
        _ => out,
    }
}

fn gemm_flops(out: usize, args: &[View]) -> usize {
    2 * out * args[0].layout.shape.last().copied().unwrap_or(1)
}

/// Two GEMM over every query and key that meet.
fn attention_flops(n: &FlatNode, args: &[View]) -> usize {
    let [q, k, v] = [0, 1, 2].map(|i| &args[i].layout.shape);
    let [width, keys, outs] = [q.last(), k.iter().nth_back(1), v.last()].map(|d| d.copied().unwrap_or(1));
    let all = 2 * q.count() / width.max(1) * keys * (width + outs);
    if n.attrs.bool("causal").unwrap_or(false) { all / 2 } else { all }
}

/// Weights of one output channel.
fn per_channel(weights: &Shape) -> usize {
    weights.iter().skip(1).product()
}
