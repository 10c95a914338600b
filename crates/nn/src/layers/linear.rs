//! `Linear`: an affine map of the last dimension.

use crate::{Layer, init};
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

impl Linear {
    /// With bias; both start uniform in ±1/√in, as in PyTorch.
    pub fn new(inputs: usize, outputs: usize) -> Result<Linear> {
        let mut l = Linear::without_bias(inputs, outputs)?;
        l.bias = Some(Variable::new("bias", init::uniform([outputs], 1.0 / (inputs as f64).sqrt()))?);
        Ok(l)
    }
    /// Without bias.
    pub fn without_bias(inputs: usize, outputs: usize) -> Result<Linear> {
        let weight = Variable::new("weight", init::uniform([outputs, inputs], 1.0 / (inputs as f64).sqrt()))?;
        Ok(Linear { weight, bias: None })
    }
}
impl Layer for Linear {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(Variable::tensor);
        x.linear(&self.weight.tensor(), bias.as_ref())
    }
}
