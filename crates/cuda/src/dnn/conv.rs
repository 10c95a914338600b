//! Convolution and its two gradients, each one operation of cuDNN.

use super::{At, Kind, Network, Node, Planned, Window, laid};
use crate::claims::Claim;
use crate::emit::kernels::{self, Operand, depthwise};
use crate::rewrite::rows;
use ir::{Attrs, FlatNode, Shape};
use passes::View;

/// Convolutions, as cuDNN graphs or else as kernels.
pub static CLAIMS: &[Claim] = &[
    Claim {
        network: |attrs, args, outs| conv(Form::Forward, attrs, args, &outs[0]),
        flops: forward_flops,
        is_kernel_better: depthwise::is_better,
        ..Claim::new("conv", kernels::conv::forward)
    },
    Claim {
        network: |attrs, args, outs| conv(Form::Input, attrs, args, &outs[0]),
        flops: input_flops,
        is_kernel_better: depthwise::is_better,
        ..Claim::new("conv_input_grad", kernels::conv::input_grad)
    },
    Claim {
        network: |attrs, args, outs| conv(Form::Weight, attrs, args, &outs[0]),
        flops: weight_flops,
        scratch: depthwise::scratch,
        is_kernel_better: depthwise::is_better,
        ..Claim::new("conv_weight_grad", kernels::conv::weight_grad)
    },
    Claim {
        flops: forward_flops,
        ..Claim::of_network(rows::CONV.name, |attrs, args, outs| conv_last(Form::Forward, attrs, args, &outs[0]))
    },
    Claim {
        flops: input_flops,
        ..Claim::of_network(rows::CONV_INPUT_GRAD.name, |attrs, args, outs| {
            conv_last(Form::Input, attrs, args, &outs[0])
        })
    },
    Claim {
        flops: weight_flops,
        ..Claim::of_network(rows::CONV_WEIGHT_GRAD.name, |attrs, args, outs| {
            conv_last(Form::Weight, attrs, args, &outs[0])
        })
    },
];

/// Each output element takes every weight of its channel.
fn forward_flops(n: &FlatNode, args: &[View]) -> usize {
    2 * n.outs[0].shape.count() * per_channel(&args[1].layout.shape)
}
fn input_flops(_: &FlatNode, args: &[View]) -> usize {
    2 * args[0].layout.shape.count() * per_channel(&args[1].layout.shape)
}
fn weight_flops(n: &FlatNode, args: &[View]) -> usize {
    2 * args[1].layout.shape.count() * per_channel(&n.outs[0].shape)
}
/// Weights of one output channel.
fn per_channel(weights: &Shape) -> usize {
    weights.iter().skip(1).product()
}

/// Which of image, kernel and result is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The result.
    Forward,
    /// The image's gradient.
    Input,
    /// The kernel's gradient.
    Weight,
}

/// A convolution of images and kernels with channels first.
fn conv(form: Form, attrs: &Attrs, args: &[Operand], out: &Operand) -> Planned {
    build(form, attrs, args, out, false)
}

/// A convolution of images `[N, H, W, C]` with kernels `[O, H, W, C / groups]`.
pub fn conv_last(form: Form, attrs: &Attrs, args: &[Operand], out: &Operand) -> Planned {
    build(form, attrs, args, out, true)
}

fn build(form: Form, attrs: &Attrs, args: &[Operand], out: &Operand, is_last: bool) -> Planned {
    let kind = Kind::of(out.ty.dtype)?;
    let mut window = Window {
        stride: attrs.ints("stride").ok()?.to_vec(),
        dilation: attrs.ints("dilation").ok()?.to_vec(),
        padding: attrs.ints("padding_lo").ok()?.to_vec(),
        sum: if kind == Kind::F64 { Kind::F64 } else { Kind::F32 },
    };
    // Among the library's ways for unequal padding are some with wrong results.
    let is_even = attrs.ints("padding_hi").ok()? == window.padding && window.padding.iter().all(|&p| p >= 0);
    if !is_even || args.iter().chain([out]).any(|o| o.ty.shape.count() == 0) {
        return None;
    }
    let mut n = Network { is_measured: true, ..Network::default() };
    let is_line = out.ty.shape.rank() == 3;
    let mut tensor = |o: &Operand, number: usize| {
        let (mut dims, mut strides) = laid(&o.layout);
        if is_last {
            // The library names channels second, wherever they lie.
            [&mut dims, &mut strides].into_iter().for_each(|list| list[1..].rotate_right(1));
        }
        if is_line {
            // Its images have two dimensions at least: a line is one row.
            strides.insert(2, dims[2] * strides[2]);
            dims.insert(2, 1);
        }
        n.tensor(&dims, &strides, kind, At::External(number))
    };
    // Operands come first, then the result.
    let (a, b, y) = (tensor(&args[0], 0), tensor(&args[1], 1), tensor(out, 2));
    if is_line {
        let Window { stride, dilation, padding, .. } = &mut window;
        [(stride, 1), (dilation, 1), (padding, 0)].into_iter().for_each(|(list, one)| list.insert(0, one));
    }
    let (x, w, y) = match form {
        Form::Forward => (a, b, y),
        Form::Input => (y, b, a),
        Form::Weight => (a, y, b),
    };
    n.nodes.push(Node::Conv { form, x, w, y, window });
    Some(n)
}
