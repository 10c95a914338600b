//! `LinearCrossEntropyLoss`: cross entropy of a linear map, whose logits are an intermediate result.

use super::linear::Linear;
use super::rows::{Parameter, layer};
use crate::Layer;
use nn_derive::Module;
use tensor::loss::CrossEntropyOptions;
use tensor::{Result, Tensor};

layer! {
    LinearCrossEntropySettings {
        /// Size of the inputs' last dimension.
        in_features: usize;
        /// Number of classes.
        num_classes: usize;
        ..
        /// Sizes of further dimensions of the target, each with its own weights.
        out_features: Vec<usize> = vec![];
        /// Whether a bias is added to the logits.
        bias: bool = false;
    }
}
impl LinearCrossEntropySettings {
    /// None of its own: the logits come from a [`Linear`].
    fn parameters(&self) -> Result<[Parameter; 0]> {
        Ok([])
    }
}

/// Cross entropy of the logits x Wᵀ with class labels or probabilities.
///
/// ```
/// # use talweg_nn::LinearCrossEntropyLoss;
/// # use tensor::Tensor;
/// let loss = LinearCrossEntropyLoss::new(4, 10).unwrap();
/// let y = loss.forward(&Tensor::ones([3, 4]), &Tensor::from([0i64, 5, 9]));
/// assert!(y.dims::<0>().is_ok());
/// ```
#[derive(Module, Debug)]
pub struct LinearCrossEntropyLoss {
    /// `[classes · outputs, in]`.
    pub linear: Linear,
    #[module(skip)]
    shape: Vec<usize>,
    #[module(skip)]
    options: CrossEntropyOptions,
}
impl LinearCrossEntropyLoss {
    /// Without bias, as in PyTorch.
    pub fn new(inputs: usize, classes: usize) -> Result<LinearCrossEntropyLoss> {
        LinearCrossEntropyLoss::with(inputs, classes, &[], false, CrossEntropyOptions::default())
    }
    /// Targets `[N, *outputs]`, or probabilities `[N, classes, *outputs]`.
    pub fn with(
        inputs: usize,
        classes: usize,
        outputs: &[usize],
        bias: bool,
        options: CrossEntropyOptions,
    ) -> Result<LinearCrossEntropyLoss> {
        let rows = outputs.iter().product::<usize>() * classes;
        let linear = if bias { Linear::new(inputs, rows)? } else { Linear::without_bias(inputs, rows)? };
        Ok(LinearCrossEntropyLoss { linear, shape: [&[classes], outputs].concat(), options })
    }
    /// The loss of inputs `[N, in]` or `[in]`.
    #[track_caller]
    pub fn forward(&self, x: &Tensor, target: &Tensor) -> Tensor {
        x.then(|t| {
            let lead = &t.shape[..t.shape.rank().saturating_sub(1)];
            let logits = self.linear.forward(x).reshape([lead, &self.shape].concat());
            Ok(logits.cross_entropy_with(target, self.options.clone()))
        })
    }
}
