//! Convolutions and transposed convolutions of one, two and three spatial dimensions.

use super::rows::{Parameter, Start, layer};
use crate::Layer;
use nn_derive::Module;
use tensor::nn::{ConvOptions, Padding, PerAxis};
use tensor::{Error, Result, Tensor, Variable};

macro_rules! settings {
    (
        $name:ident, $first:ident, $second:ident, $padding:ty = $none:expr
        $(, $(#[doc = $about:literal])* $more:ident: $type:ty)?
    ) => {
        layer! {
            $name {
                /// Channels of the input.
                in_channels: usize;
                /// Channels of the output.
                out_channels: usize;
                /// Sizes of the kernel.
                kernel_size: Vec<usize>;
                ..
                /// Steps of the window.
                stride: PerAxis = ConvOptions::default().stride;
                /// Padding of the input.
                padding: $padding = $none;
                $($(#[doc = $about])* $more: $type = ConvOptions::default().$more;)?
                /// Channels are divided into this many independent groups.
                groups: usize = ConvOptions::default().groups;
                /// Whether a bias is added.
                bias: bool = true;
                /// Steps between the elements of the kernel.
                dilation: PerAxis = ConvOptions::default().dilation;
            }
        }
        impl $name {
            fn parameters(&self) -> Result<[Parameter; 2]> {
                let (groups, inputs, outputs) = (self.groups.max(1), self.in_channels, self.out_channels);
                if inputs % groups != 0 || outputs % groups != 0 {
                    let e = format!("{groups} groups do not divide {inputs} inputs and {outputs} outputs");
                    return Err(Error::value(e));
                }
                let shape = [&[self.$first, self.$second / groups], &self.kernel_size[..]].concat();
                let start = Start::by_inputs(shape[1..].iter().product());
                let bias = Parameter::new("bias", [outputs], start).only_if(self.bias);
                Ok([Parameter::new("weight", shape, start), bias])
            }
        }
    };
}
settings!(ConvSettings, out_channels, in_channels, Padding = ConvOptions::default().padding);
settings!(
    ConvTransposeSettings,
    in_channels,
    out_channels,
    PerAxis = PerAxis::from(0),
    /// Rows added at the end of the output.
    output_padding: PerAxis
);

macro_rules! conv {
    ($name:ident, $settings:ident, $rank:literal, $method:ident, $shape:literal, $doc:expr) => {
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
                let settings = $settings { bias, groups: options.groups, ..$settings::new(sizes[0], sizes[1], kernel) };
                let [weight, bias] = settings.parameters().map_err(|e| e.in_op(stringify!($method)))?;
                Ok($name { weight: weight.variable()?, bias: bias.optional()?, options })
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
        conv!(
            $conv,
            ConvSettings,
            $rank,
            $method,
            "`[out, in / groups, *kernel]`.",
            concat!("Convolution of ", $what, ".")
        );
        conv!(
            $conv_transpose,
            ConvTransposeSettings,
            $rank,
            $transposed,
            "`[in, out / groups, *kernel]`.",
            concat!("Transposed convolution of ", $what, ".")
        );
    };
}
both!(Conv1d, ConvTranspose1d, 1, conv1d, conv_transpose1d, "signals `[N, C, L]`");
both!(Conv2d, ConvTranspose2d, 2, conv2d, conv_transpose2d, "images `[N, C, H, W]`");
both!(Conv3d, ConvTranspose3d, 3, conv3d, conv_transpose3d, "volumes `[N, C, D, H, W]`");
