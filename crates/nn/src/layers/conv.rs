//! Convolutions and transposed convolutions of one, two and three spatial dimensions.

use crate::{Layer, init};
use nn_derive::Module;
use tensor::nn::ConvOptions;
use tensor::{Error, Result, Tensor, Variable};

/// Weight and bias with PyTorch's initial distribution; a transposed convolution has its inputs first.
fn parameters(
    op: &str,
    [inputs, outputs]: [usize; 2],
    kernel: &[usize],
    bias: bool,
    options: &ConvOptions,
    is_transposed: bool,
) -> Result<(Variable, Option<Variable>)> {
    let groups = options.groups.max(1);
    if inputs % groups != 0 || outputs % groups != 0 {
        let e = format!("{groups} groups do not divide {inputs} inputs and {outputs} outputs");
        return Err(Error::value(e).in_op(op));
    }
    let (first, second) = if is_transposed { (inputs, outputs) } else { (outputs, inputs) };
    let shape = [&[first, second / groups], kernel].concat();
    let bound = 1.0 / (shape[1..].iter().product::<usize>() as f64).sqrt();
    let weight = Variable::new("weight", init::uniform(shape, bound))?;
    Ok((weight, if bias { Some(Variable::new("bias", init::uniform([outputs], bound))?) } else { None }))
}

macro_rules! conv {
    ($name:ident, $rank:literal, $method:ident, $is_transposed:literal, $shape:literal, $doc:expr) => {
        #[doc = $doc]
        #[derive(Module, Debug)]
        pub struct $name {
            #[doc = $shape]
            pub weight: Variable,
            /// `[out]`.
            pub bias: Option<Variable>,
            #[module(skip)]
            options: ConvOptions,
        }
        impl $name {
            /// With bias, stride 1 and no padding; starts as in PyTorch.
            pub fn new(inputs: usize, outputs: usize, kernel: [usize; $rank]) -> Result<$name> {
                $name::with(inputs, outputs, kernel, ConvOptions::default())
            }
            /// With stride, padding, dilation or groups; a transposed convolution also with output padding.
            pub fn with(inputs: usize, outputs: usize, kernel: [usize; $rank], options: ConvOptions) -> Result<$name> {
                $name::made([inputs, outputs], kernel, true, options)
            }
            /// Without bias.
            pub fn without_bias(
                inputs: usize,
                outputs: usize,
                kernel: [usize; $rank],
                options: ConvOptions,
            ) -> Result<$name> {
                $name::made([inputs, outputs], kernel, false, options)
            }
            fn made(sizes: [usize; 2], kernel: [usize; $rank], bias: bool, options: ConvOptions) -> Result<$name> {
                let op = stringify!($method);
                let (weight, bias) = parameters(op, sizes, &kernel, bias, &options, $is_transposed)?;
                Ok($name { weight, bias, options })
            }
        }
        impl Layer for $name {
            #[track_caller]
            fn forward(&self, x: &Tensor) -> Tensor {
                let bias = self.bias.as_ref().map(Variable::tensor);
                x.$method(&self.weight.tensor(), bias.as_ref(), self.options.clone())
            }
        }
    };
}
macro_rules! both {
    ($conv:ident, $conv_transpose:ident, $rank:literal, $method:ident, $transposed:ident, $what:literal) => {
        conv!($conv, $rank, $method, false, "`[out, in / groups, *kernel]`.", concat!("Convolution of ", $what, "."));
        conv!(
            $conv_transpose,
            $rank,
            $transposed,
            true,
            "`[in, out / groups, *kernel]`.",
            concat!("Transposed convolution of ", $what, ".")
        );
    };
}
both!(Conv1d, ConvTranspose1d, 1, conv1d, conv_transpose1d, "signals `[N, C, L]`");
both!(Conv2d, ConvTranspose2d, 2, conv2d, conv_transpose2d, "images `[N, C, H, W]`");
both!(Conv3d, ConvTranspose3d, 3, conv3d, conv_transpose3d, "volumes `[N, C, D, H, W]`");
