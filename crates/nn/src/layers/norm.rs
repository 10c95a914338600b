//! Normalizations.

use super::rows::{Parameter, Start, layer};
use crate::{Layer, Mode};
use nn_derive::Module;
use tensor::{DType, Result, Tensor, Variable};

/// A scale that starts with ones and a shift that starts with zeros.
fn affine(shape: &[usize], has_weight: bool, has_bias: bool) -> [Parameter; 2] {
    let weight = Parameter::new("weight", shape, Start::Ones).only_if(has_weight);
    [weight, Parameter::new("bias", shape, Start::Zeros).only_if(has_weight && has_bias)]
}

layer! {
    LayerNormSettings {
        /// Sizes of the last dimensions, which are normalized.
        normalized_shape: Vec<usize>;
        ..
        /// Added to the variance.
        eps: f64 = 1e-5;
        /// Whether the result is scaled.
        elementwise_affine: bool = true;
        /// Whether it is also shifted.
        bias: bool = true;
    }
}
impl LayerNormSettings {
    fn parameters(&self) -> Result<[Parameter; 2]> {
        Ok(affine(&self.normalized_shape, self.elementwise_affine, self.bias))
    }
}

/// Mean 0 and variance 1 over the last dimensions, then scaled and shifted.
#[derive(Module, Debug)]
pub struct LayerNorm {
    /// Scale.
    pub weight: Variable,
    /// Shift.
    pub bias: Option<Variable>,
    /// Added to the variance.
    pub eps: f64,
}
impl LayerNorm {
    /// Over the last dimensions, which must have these sizes.
    pub fn new(shape: &[usize]) -> Result<LayerNorm> {
        LayerNorm::made(&LayerNormSettings::new(shape))
    }
    /// Scaled, but not shifted.
    pub fn without_bias(shape: &[usize]) -> Result<LayerNorm> {
        LayerNorm::made(&LayerNormSettings { bias: false, ..LayerNormSettings::new(shape) })
    }
    fn made(settings: &LayerNormSettings) -> Result<LayerNorm> {
        let [weight, bias] = settings.parameters()?;
        Ok(LayerNorm { weight: weight.variable()?, bias: bias.optional()?, eps: settings.eps })
    }
}
impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(Variable::tensor);
        x.layer_norm(self.weight.shape().rank(), Some(&self.weight.tensor()), bias.as_ref(), self.eps)
    }
}

layer! {
    RmsNormSettings {
        /// Sizes of the last dimensions, which are normalized.
        normalized_shape: Vec<usize>;
        ..
        /// Added to the mean square; None is the machine epsilon of the input's type.
        eps: Option<f64> = None;
        /// Whether the result is scaled.
        elementwise_affine: bool = true;
    }
}
impl RmsNormSettings {
    fn parameters(&self) -> Result<[Parameter; 1]> {
        let weight = Parameter::new("weight", &self.normalized_shape[..], Start::Ones);
        Ok([weight.only_if(self.elementwise_affine)])
    }
}

/// Divided by the root of the mean square over the last dimensions, then scaled.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// Scale.
    pub weight: Variable,
    /// Added to the mean square; None is the machine epsilon of the input's type.
    pub eps: Option<f64>,
}
impl RmsNorm {
    /// Over the last dimensions, which must have these sizes.
    pub fn new(shape: &[usize]) -> Result<RmsNorm> {
        let settings = RmsNormSettings::new(shape);
        let [weight] = settings.parameters()?;
        Ok(RmsNorm { weight: weight.variable()?, eps: settings.eps })
    }
}
impl Layer for RmsNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let eps = self.eps.unwrap_or_else(|| x.dtype().map_or(f64::EPSILON, epsilon));
        x.rms_norm(self.weight.shape().rank(), Some(&self.weight.tensor()), eps)
    }
}
/// The distance from 1 to the next larger number of a type.
fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        DType::F16 => 2f64.powi(-10),
        DType::BF16 => 2f64.powi(-7),
        _ => f64::from(f32::EPSILON),
    }
}

layer! {
    GroupNormSettings {
        /// Number of groups.
        num_groups: usize;
        /// Number of channels.
        num_channels: usize;
        ..
        /// Added to the variance.
        eps: f64 = 1e-5;
        /// Whether the result is scaled.
        affine: bool = true;
        /// Whether it is also shifted.
        bias: bool = true;
    }
}
impl GroupNormSettings {
    fn parameters(&self) -> Result<[Parameter; 2]> {
        Ok(affine(&[self.num_channels], self.affine, self.bias))
    }
}

/// Mean 0 and variance 1 over groups of channels, then scaled and shifted.
#[derive(Module, Debug)]
pub struct GroupNorm {
    /// Number of groups.
    pub groups: usize,
    /// Scale of each channel.
    pub weight: Variable,
    /// Shift of each channel.
    pub bias: Variable,
    /// Added to the variance.
    pub eps: f64,
}
impl GroupNorm {
    /// `channels` in `groups`.
    pub fn new(groups: usize, channels: usize) -> Result<GroupNorm> {
        let settings = GroupNormSettings::new(groups, channels);
        let [weight, bias] = settings.parameters()?;
        Ok(GroupNorm { groups, weight: weight.variable()?, bias: bias.variable()?, eps: settings.eps })
    }
}
impl Layer for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.groups, Some(&self.weight.tensor()), Some(&self.bias.tensor()), self.eps)
    }
}

layer! {
    BatchNormSettings {
        /// Number of channels.
        num_features: usize;
        ..
        /// Added to the variance.
        eps: f64 = 1e-5;
        /// Weight of the newest batch in the running averages.
        momentum: f64 = 0.1;
        /// Whether the result is scaled.
        affine: bool = true;
        /// Whether there are running averages.
        track_running_stats: bool = true;
        /// Whether the result is also shifted.
        bias: bool = true;
    }
}
impl BatchNormSettings {
    fn parameters(&self) -> Result<[Parameter; 4]> {
        let shape = [self.num_features];
        let [weight, bias] = affine(&shape, self.affine, self.bias);
        let buffer = |name, start| Parameter::buffer(name, shape, start).only_if(self.track_running_stats);
        Ok([weight, bias, buffer("running_mean", Start::Zeros), buffer("running_var", Start::Ones)])
    }
}

/// Batch normalization (Ioffe and Szegedy 2015) of channels at axis 1: by the batch's own
/// statistics in training, by running averages in inference.
#[derive(Module, Debug)]
pub struct BatchNorm {
    /// Scale of each channel.
    pub weight: Variable,
    /// Shift of each channel.
    pub bias: Variable,
    /// Running mean.
    pub running_mean: Variable,
    /// Running variance.
    pub running_var: Variable,
    /// Weight of the newest batch in the running averages.
    pub momentum: f64,
    /// Added to the variance.
    pub eps: f64,
    mode: Mode,
}
impl BatchNorm {
    /// For `channels`.
    pub fn new(channels: usize) -> Result<BatchNorm> {
        let settings = BatchNormSettings::new(channels);
        let [weight, bias, running_mean, running_var] = settings.parameters()?;
        Ok(BatchNorm {
            weight: weight.variable()?,
            bias: bias.variable()?,
            running_mean: running_mean.variable()?,
            running_var: running_var.variable()?,
            momentum: settings.momentum,
            eps: settings.eps,
            mode: Mode::default(),
        })
    }
}
impl Layer for BatchNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let (w, b) = (self.weight.tensor(), self.bias.tensor());
        let (mean, var) = (self.running_mean.tensor(), self.running_var.tensor());
        if !self.mode.is_training() {
            return x.batch_norm(&mean, &var, Some(&w), Some(&b), self.eps);
        }
        let [y, mean, var] = x.batch_norm_train([&mean, &var], Some(&w), Some(&b), self.momentum, self.eps);
        let kept = self.running_mean.assign(&mean).and_then(|()| self.running_var.assign(&var));
        kept.map(|()| y).into()
    }
}
