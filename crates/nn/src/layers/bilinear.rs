//! `Bilinear`: a map that is linear in each of two inputs.

use super::rows::{Parameter, Start, layer};
use nn_derive::Module;
use tensor::{Result, Tensor, Variable};

layer! {
    BilinearSettings {
        /// Size of the first input's last dimension.
        in1_features: usize;
        /// Size of the second input's last dimension.
        in2_features: usize;
        /// Size of the output's last dimension.
        out_features: usize;
        ..
        /// Whether a bias is added.
        bias: bool = true;
    }
}
impl BilinearSettings {
    fn parameters(&self) -> Result<[Parameter; 2]> {
        let (start, outputs) = (Start::by_inputs(self.in1_features), self.out_features);
        let bias = Parameter::new("bias", [outputs], start).only_if(self.bias);
        Ok([Parameter::new("weight", [outputs, self.in1_features, self.in2_features], start), bias])
    }
}

/// y = x₁ᵀ W x₂ + b on the last dimensions.
///
/// ```
/// # use talweg_nn::Bilinear;
/// # use tensor::Tensor;
/// let layer = Bilinear::new(3, 4, 2).unwrap();
/// assert_eq!(layer.forward(&Tensor::ones([5, 3]), &Tensor::ones([5, 4])).dims().unwrap(), [5, 2]);
/// ```
#[derive(Module, Debug)]
pub struct Bilinear {
    /// `[out, in1, in2]`.
    pub weight: Variable,
    /// `[out]`.
    pub bias: Option<Variable>,
}

impl Bilinear {
    /// With bias; both start uniform in ±1/√in1, as in PyTorch.
    pub fn new(inputs1: usize, inputs2: usize, outputs: usize) -> Result<Bilinear> {
        Bilinear::made(&BilinearSettings::new(inputs1, inputs2, outputs))
    }
    /// Without bias.
    pub fn without_bias(inputs1: usize, inputs2: usize, outputs: usize) -> Result<Bilinear> {
        Bilinear::made(&BilinearSettings { bias: false, ..BilinearSettings::new(inputs1, inputs2, outputs) })
    }
    fn made(settings: &BilinearSettings) -> Result<Bilinear> {
        let [weight, bias] = settings.parameters()?;
        Ok(Bilinear { weight: weight.variable()?, bias: bias.optional()? })
    }
    /// Inputs `[…, in1]` and `[…, in2]` to `[…, out]`.
    #[track_caller]
    pub fn forward(&self, a: &Tensor, b: &Tensor) -> Tensor {
        a.bilinear(b, &self.weight.tensor(), self.bias.as_ref().map(Variable::tensor).as_ref())
    }
}
