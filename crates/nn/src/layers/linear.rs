//! `Linear`: an affine map of the last dimension.

use super::rows::{Parameter, Start, layer};
use crate::Layer;
use nn_derive::Module;
use tensor::{Result, Tensor, Variable};

/// y = x Wᵀ + b on the last dimension.
#[derive(Module, Debug)]
pub struct Linear {
    /// `[out, in]`.
    pub weight: Variable,
    /// `[out]`.
    pub bias: Option<Variable>,
}

layer! {
    LinearSettings {
        /// Size of the inputs' last dimension.
        in_features: usize;
        /// Size of the outputs' last dimension.
        out_features: usize;
        ..
        /// Whether a bias is added.
        bias: bool = true;
    }
}
impl LinearSettings {
    fn parameters(&self) -> Result<[Parameter; 2]> {
        let start = Start::by_inputs(self.in_features);
        let bias = Parameter::new("bias", [self.out_features], start).only_if(self.bias);
        Ok([Parameter::new("weight", [self.out_features, self.in_features], start), bias])
    }
}

impl Linear {
    /// With bias; both start uniform in ±1/√in, as in PyTorch.
    pub fn new(inputs: usize, outputs: usize) -> Result<Linear> {
        Linear::made(&LinearSettings::new(inputs, outputs))
    }
    /// Without bias.
    pub fn without_bias(inputs: usize, outputs: usize) -> Result<Linear> {
        Linear::made(&LinearSettings { bias: false, ..LinearSettings::new(inputs, outputs) })
    }
    fn made(settings: &LinearSettings) -> Result<Linear> {
        let [weight, bias] = settings.parameters()?;
        Ok(Linear { weight: weight.variable()?, bias: bias.optional()? })
    }
}
impl Layer for Linear {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(Variable::tensor);
        x.linear(&self.weight.tensor(), bias.as_ref())
    }
}
