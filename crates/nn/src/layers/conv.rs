//! Convolutions of one, two and three spatial dimensions.

use crate::{Layer, init};
use nn_derive::Module;
use tensor::nn::ConvOptions;
use tensor::{Result, Tensor, Variable};

macro_rules! conv {
    ($name:ident, $rank:literal, $method:ident, $doc:literal) => {
        #[doc = $doc]
        #[derive(Module, Debug)]
        pub struct $name {
            /// `[out, in / groups, *kernel]`.
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
            /// With stride, padding, dilation or groups.
            pub fn with(inputs: usize, outputs: usize, kernel: [usize; $rank], options: ConvOptions) -> Result<$name> {
                $name::made(inputs, outputs, kernel, true, options)
            }
            /// Without bias.
            pub fn without_bias(
                inputs: usize,
                outputs: usize,
                kernel: [usize; $rank],
                options: ConvOptions,
            ) -> Result<$name> {
                $name::made(inputs, outputs, kernel, false, options)
            }
            fn made(
                inputs: usize,
                outputs: usize,
                kernel: [usize; $rank],
                bias: bool,
                options: ConvOptions,
            ) -> Result<$name> {
                let groups = options.groups.max(1);
                if inputs % groups != 0 || outputs % groups != 0 {
                    let e = format!("{groups} groups do not divide {inputs} inputs and {outputs} outputs");
                    return Err(tensor::Error::value(e).in_op(stringify!($method)));
                }
                let mut shape = vec![outputs, inputs / groups];
                shape.extend(kernel);
                let bound = 1.0 / ((inputs / groups * kernel.iter().product::<usize>()) as f64).sqrt();
                let weight = Variable::new("weight", init::uniform(shape, bound))?;
                let bias = if bias { Some(Variable::new("bias", init::uniform([outputs], bound))?) } else { None };
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
conv!(Conv1d, 1, conv1d, "Convolution of signals `[N, C, L]`.");
conv!(Conv2d, 2, conv2d, "Convolution of pictures `[N, C, H, W]`.");
conv!(Conv3d, 3, conv3d, "Convolution of volumes `[N, C, D, H, W]`.");
