//! `QuantizedLinear`: a trained affine map with a weight of 8-bit integers, for inference.

use super::Linear;
use crate::Layer;
use nn_derive::Module;
use tensor::{Result, Tensor, Variable};

/// y = x Wᵀ + b on the last dimension, with W as `i8` and a scale for each output: a quarter of the
/// memory of [`Linear`], and on processors that multiply bytes several times as fast. Each row of x is
/// quantized as it comes; nothing has to be calibrated.
///
/// ```
/// # use cpu as _;
/// # use talweg_nn::{Layer, Linear, QuantizedLinear};
/// # use tensor::{Tensor, jit};
/// # fn main() -> tensor::Result<()> {
/// let trained = Linear::new(64, 32)?;
/// let small = QuantizedLinear::new(&trained)?;
/// // Frozen, the weight is packed once.
/// let f = jit(|a: &[Tensor]| Ok(vec![small.forward(&a[0])])).frozen();
/// let x = Tensor::randn([8, 64]);
/// let off = (&f.call(&[&x])?[0] - trained.forward(&x)).abs().max(..).item::<f32>()?;
/// assert!(off < 0.1);
/// # Ok(())
/// # }
/// ```
#[derive(Module, Debug)]
pub struct QuantizedLinear {
    /// `[out, in]`, of `i8`.
    pub weight: Variable,
    /// `[out, 1]`: the scale of each row of the weight.
    pub scale: Variable,
    /// `[out]`.
    pub bias: Option<Variable>,
}

impl QuantizedLinear {
    /// The quantized form of a layer, which stays as it is.
    pub fn new(linear: &Linear) -> Result<QuantizedLinear> {
        let [weight, scale] = linear.weight.tensor().stop_gradient().quantize(-1);
        let bias = linear.bias.as_ref().map(|b| Variable::buffer("bias", b.tensor().stop_gradient())).transpose()?;
        Ok(QuantizedLinear {
            weight: Variable::buffer("weight", weight)?,
            scale: Variable::buffer("scale", scale)?,
            bias,
        })
    }
}
impl Layer for QuantizedLinear {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(Variable::tensor);
        x.quantized_linear(&self.weight.tensor(), &self.scale.tensor(), bias.as_ref())
    }
}
