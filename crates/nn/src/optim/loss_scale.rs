//! `LossScale`: keeps the small gradients of f16 above what f16 can hold.

use super::Optimizer;
use crate::parallel;
use tensor::{Error, ErrorKind, Result, Tensor, Update, Variable, no_grad};

/// Multiplies the loss before it is differentiated and divides the gradients afterward. A step
/// whose gradients are not all finite is left out and halves the factor; `interval` good steps in
/// a row double it. bf16 needs none of this: its range is that of f32.
///
/// ```
/// # use talweg_nn::optim::{LossScale, Optimizer, Sgd};
/// # use tensor::{DType, Tensor, Variable, autocast};
/// let w = Variable::new("w", Tensor::from([[3.0f32]])).unwrap();
/// let optimizer = Optimizer::new(Sgd { lr: 0.1, ..Sgd::default() }, [w.clone()].as_slice()).unwrap();
/// let scale = LossScale::new().unwrap();
/// for _ in 0..40 {
///     let y = autocast(DType::F16, || Tensor::ones([1, 1]).matmul(&w)).unwrap();
///     scale.scaled(&y.cast(DType::F32).square().sum(..)).backward().unwrap();
///     scale.step(&optimizer).unwrap();
/// }
/// assert!(w.tensor().item::<f32>().unwrap().abs() < 0.01);
/// ```
pub struct LossScale {
    factor: Variable,
    /// Good steps since the factor changed.
    good: Variable,
    /// Good steps in a row that double the factor.
    pub interval: u32,
}

impl LossScale {
    /// Starts from 65536 and doubles after 2000 good steps.
    pub fn new() -> Result<LossScale> {
        LossScale::with(65536.0, 2000)
    }
    /// Starts from another factor, or doubles it more or less often.
    pub fn with(factor: f32, interval: u32) -> Result<LossScale> {
        if !(factor > 0.0 && factor.is_finite()) {
            return Err(Error::value(format!("the factor must be positive and finite, not {factor}")));
        }
        Ok(LossScale {
            factor: Variable::buffer("loss_scale", Tensor::from(factor))?,
            good: Variable::buffer("loss_scale_good", Tensor::from(0.0f32))?,
            interval,
        })
    }
    /// The factor now.
    pub fn factor(&self) -> Result<f32> {
        self.factor.tensor().item()
    }
    /// What a checkpoint needs.
    pub fn state(&self) -> Vec<(String, Variable)> {
        [&self.factor, &self.good].map(|v| (v.name().to_string(), v.clone())).to_vec()
    }
    /// The loss to differentiate.
    #[track_caller]
    pub fn scaled(&self, loss: &Tensor) -> Tensor {
        loss * self.factor.tensor()
    }
    /// One step with the gradients that `backward` of the scaled loss has collected, which are
    /// then forgotten.
    #[track_caller]
    pub fn step(&self, optimizer: &Optimizer) -> Result<()> {
        let params = optimizer.parameters();
        let grads: Vec<Option<Tensor>> = params.iter().map(Variable::grad).collect();
        self.update(optimizer, &grads)?.apply()?;
        params.iter().for_each(Variable::zero_grad);
        Ok(())
    }
    /// The assignments of one step, given the gradients of the scaled loss.
    #[track_caller]
    pub fn update(&self, optimizer: &Optimizer, grads: &[Option<Tensor>]) -> Result<Update> {
        no_grad(|| {
            let (factor, good) = (self.factor.tensor(), self.good.tensor());
            let divided: Vec<Option<Tensor>> = grads.iter().map(|g| g.as_ref().map(|g| g / &factor)).collect();
            if parallel::has_store()? {
                let e = "servers take every step that they are sent, and cannot leave one out: train in bf16, which needs no \
                         scale, or launch without --servers";
                return Err(Error::value(e).in_op("LossScale"));
            }
            // All workers leave a step out, or none does.
            let divided = match parallel::mean(&Tensor::from(0.0f32), &divided)? {
                Some(means) => {
                    means.iter().flatten().try_for_each(|g| parallel::note_mean(g.value()?))?;
                    means
                }
                None => divided,
            };
            let finite = divided.iter().flatten().map(|g| g.is_finite().all(..)).reduce(|a, b| a.and(&b));
            let Some(finite) = finite else {
                let e = "no parameter has a gradient: call backward() first";
                return Err(Error::new(ErrorKind::Gradient, e).in_op("step"));
            };
            let mut update = Update::new();
            for (v, next) in optimizer.update(&divided)?.assignments() {
                update.set(v, Tensor::where_(&finite, next, v.tensor()));
            }
            let counted = good + 1.0;
            let is_full = counted.ge(f64::from(self.interval));
            let grown = Tensor::where_(&is_full, &(&factor * 2.0), &factor);
            update.set(&self.factor, Tensor::where_(&finite, &grown, factor * 0.5));
            let zero = Tensor::from(0.0f32);
            update.set(&self.good, Tensor::where_(&finite.and(is_full.not()), &counted, &zero));
            Ok(update)
        })
    }
}
