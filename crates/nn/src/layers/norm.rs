//! Normalizations.

use crate::{Layer, Mode};
use nn_derive::Module;
use tensor::{Result, Tensor, Variable};

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
        let bias = Some(Variable::new("bias", Tensor::zeros(shape))?);
        Ok(LayerNorm { bias, ..LayerNorm::without_bias(shape)? })
    }
    /// Scaled, but not shifted.
    pub fn without_bias(shape: &[usize]) -> Result<LayerNorm> {
        Ok(LayerNorm { weight: Variable::new("weight", Tensor::ones(shape))?, bias: None, eps: 1e-5 })
    }
}
impl Layer for LayerNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        let bias = self.bias.as_ref().map(Variable::tensor);
        x.layer_norm(self.weight.shape().rank(), Some(&self.weight.tensor()), bias.as_ref(), self.eps)
    }
}

/// Divided by the root of the mean square over the last dimensions, then scaled.
#[derive(Module, Debug)]
pub struct RmsNorm {
    /// Scale.
    pub weight: Variable,
    /// Added to the mean square.
    pub eps: f64,
}
impl RmsNorm {
    /// Over the last dimensions, which must have these sizes.
    pub fn new(shape: &[usize]) -> Result<RmsNorm> {
        Ok(RmsNorm { weight: Variable::new("weight", Tensor::ones(shape))?, eps: 1e-6 })
    }
}
impl Layer for RmsNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.rms_norm(self.weight.shape().rank(), Some(&self.weight.tensor()), self.eps)
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
        Ok(GroupNorm {
            groups,
            weight: Variable::new("weight", Tensor::ones([channels]))?,
            bias: Variable::new("bias", Tensor::zeros([channels]))?,
            eps: 1e-5,
        })
    }
}
impl Layer for GroupNorm {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Tensor {
        x.group_norm(self.groups, Some(&self.weight.tensor()), Some(&self.bias.tensor()), self.eps)
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
        Ok(BatchNorm {
            weight: Variable::new("weight", Tensor::ones([channels]))?,
            bias: Variable::new("bias", Tensor::zeros([channels]))?,
            running_mean: Variable::buffer("running_mean", Tensor::zeros([channels]))?,
            running_var: Variable::buffer("running_var", Tensor::ones([channels]))?,
            momentum: 0.1,
            eps: 1e-5,
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
