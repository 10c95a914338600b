//! The rules: each the formula of its paper, with PyTorch's defaults.

use super::{Rule, Step};
use tensor::{DType, Shape, Tensor};

/// Stochastic gradient descent, with momentum (Polyak) or Nesterov's, and L2 decay.
#[derive(Clone, Debug)]
pub struct Sgd {
    /// Learning rate.
    pub lr: f64,
    /// Momentum; 0 for none.
    pub momentum: f64,
    /// How much of the gradient does not enter the momentum.
    pub dampening: f64,
    /// Nesterov's look-ahead.
    pub nesterov: bool,
    /// L2 decay, added to the gradient.
    pub weight_decay: f64,
}
impl Default for Sgd {
    fn default() -> Sgd {
        Sgd { lr: 0.01, momentum: 0.0, dampening: 0.0, nesterov: false, weight_decay: 0.0 }
    }
}
/// The gradient with L2 decay added.
fn decayed(s: &Step) -> Tensor {
    if s.weight_decay == 0.0 { s.grad.clone() } else { s.grad + s.param * s.weight_decay }
}
/// A running average, of which the newest value makes up 1 - `decay`.
fn average(old: &Tensor, new: &Tensor, decay: f64) -> Tensor {
    old * decay + new * (1.0 - decay)
}
/// The parameter with decay apart from the gradient.
fn shrunk(s: &Step) -> Tensor {
    if s.weight_decay == 0.0 { s.param.clone() } else { s.param * (1.0 - s.lr * s.weight_decay) }
}
impl Rule for Sgd {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        if self.momentum == 0.0 { vec![] } else { vec![("momentum_buffer", Tensor::zeros(shape))] }
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let g = decayed(s);
        if self.momentum == 0.0 {
            return (s.param - s.lr * g, vec![]);
        }
        // The first step fills the momentum with the whole gradient, undamped.
        let damp = Tensor::where_(&s.t.gt(1.0), &Tensor::from(1.0 - self.dampening as f32), 1.0);
        let m = &s.slots[0] * self.momentum + &g * damp;
        let d = if self.nesterov { g + &m * self.momentum } else { m.clone() };
        (s.param - s.lr * d, vec![m])
    }
}

/// Adagrad (Duchi, Hazan and Singer 2011): steps shrink with the sum of squared gradients.
#[derive(Clone, Debug)]
pub struct Adagrad {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the learning rate with the number of steps.
    pub lr_decay: f64,
    /// L2 decay, added to the gradient.
    pub weight_decay: f64,
    /// What the sums start with.
    pub initial_accumulator: f64,
    /// Added to the root.
    pub eps: f64,
}
impl Default for Adagrad {
    fn default() -> Adagrad {
        Adagrad { lr: 0.01, lr_decay: 0.0, weight_decay: 0.0, initial_accumulator: 0.0, eps: 1e-10 }
    }
}
impl Rule for Adagrad {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        vec![("sum", Tensor::full(shape, self.initial_accumulator as f32))]
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let g = decayed(s);
        let sum = &s.slots[0] + &g * &g;
        let lr = if self.lr_decay == 0.0 { s.lr.clone() } else { s.lr / ((s.t - 1.0) * self.lr_decay + 1.0) };
        (s.param - lr * g / (sum.sqrt() + self.eps), vec![sum])
    }
}

/// Adam (Kingma and Ba 2015), with L2 decay added to the gradient.
#[derive(Clone, Debug)]
pub struct Adam {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the two moments.
    pub betas: (f64, f64),
    /// Added to the root.
    pub eps: f64,
    /// L2 decay.
    pub weight_decay: f64,
}
impl Default for Adam {
    fn default() -> Adam {
        Adam { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0 }
    }
}
/// The corrected step and both moments. Corrections and rate are single numbers and are put
/// together first: one division for each parameter instead of three.
fn adam(s: &Step, g: &Tensor, (b1, b2): (f64, f64), eps: f64) -> (Tensor, Vec<Tensor>) {
    let m = average(&s.slots[0], g, b1);
    let v = average(&s.slots[1], &(g * g), b2);
    let (rate, root) = (s.lr / correction(s, b1), correction(s, b2).rsqrt());
    (&m * rate / (v.sqrt() * root + eps), vec![m, v])
}
/// 1 - b^t: how much of a running average that started at zero is filled.
fn correction(s: &Step, b: f64) -> Tensor {
    // Not 1 - exp: in the first steps that would lose half of the digits.
    -(s.t * b.ln()).expm1()
}
fn two_moments(shape: &Shape) -> Vec<(&'static str, Tensor)> {
    vec![("exp_avg", Tensor::zeros(shape)), ("exp_avg_sq", Tensor::zeros(shape))]
}
impl Rule for Adam {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        two_moments(shape)
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let (step, slots) = adam(s, &decayed(s), self.betas, self.eps);
        (s.param - step, slots)
    }
}

/// AdamW (Loshchilov and Hutter 2019): Adam with decay apart from the gradient.
#[derive(Clone, Debug)]
pub struct AdamW {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the two moments.
    pub betas: (f64, f64),
    /// Added to the root.
    pub eps: f64,
    /// Decay of the parameter itself.
    pub weight_decay: f64,
}
impl Default for AdamW {
    fn default() -> AdamW {
        AdamW { lr: 1e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.01 }
    }
}
impl Rule for AdamW {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        two_moments(shape)
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let (step, slots) = adam(s, s.grad, self.betas, self.eps);
        (shrunk(s) - step, slots)
    }
}

/// RMSProp (Hinton 2012): steps divided by a running root mean square of the gradient.
#[derive(Clone, Debug)]
pub struct RmsProp {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the mean square.
    pub alpha: f64,
    /// Added to the root.
    pub eps: f64,
    /// L2 decay, added to the gradient.
    pub weight_decay: f64,
    /// Momentum; 0 for none.
    pub momentum: f64,
    /// Divides by the deviation from the running mean instead.
    pub centered: bool,
}
impl Default for RmsProp {
    fn default() -> RmsProp {
        RmsProp { lr: 0.01, alpha: 0.99, eps: 1e-8, weight_decay: 0.0, momentum: 0.0, centered: false }
    }
}
impl Rule for RmsProp {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        let mut slots = vec![("square_avg", Tensor::zeros(shape))];
        if self.momentum != 0.0 {
            slots.push(("momentum_buffer", Tensor::zeros(shape)));
        }
        if self.centered {
            slots.push(("grad_avg", Tensor::zeros(shape)));
        }
        slots
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let g = decayed(s);
        let square = average(&s.slots[0], &(&g * &g), self.alpha);
        let mean = self.centered.then(|| average(&s.slots[s.slots.len() - 1], &g, self.alpha));
        let variance = mean.as_ref().map_or(square.clone(), |m| &square - m * m);
        let mut direction = g / (variance.sqrt() + self.eps);
        let mut slots = vec![square];
        if self.momentum != 0.0 {
            direction = &s.slots[1] * self.momentum + direction;
            slots.push(direction.clone());
        }
        slots.extend(mean);
        (s.param - s.lr * direction, slots)
    }
}

/// Adadelta (Zeiler 2012): steps in units of earlier steps, so that hardly any learning rate is
/// left to choose.
#[derive(Clone, Debug)]
pub struct Adadelta {
    /// Learning rate.
    pub lr: f64,
    /// Decay of both mean squares.
    pub rho: f64,
    /// Added to the mean squares before their roots.
    pub eps: f64,
    /// L2 decay, added to the gradient.
    pub weight_decay: f64,
}
impl Default for Adadelta {
    fn default() -> Adadelta {
        Adadelta { lr: 1.0, rho: 0.9, eps: 1e-6, weight_decay: 0.0 }
    }
}
impl Rule for Adadelta {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        vec![("square_avg", Tensor::zeros(shape)), ("acc_delta", Tensor::zeros(shape))]
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let g = decayed(s);
        let square = average(&s.slots[0], &(&g * &g), self.rho);
        let delta = (&s.slots[1] + self.eps).sqrt() / (&square + self.eps).sqrt() * g;
        let moved = average(&s.slots[1], &(&delta * &delta), self.rho);
        (s.param - s.lr * delta, vec![square, moved])
    }
}

/// NAdam (Dozat 2016): Adam with Nesterov's look-ahead.
#[derive(Clone, Debug)]
pub struct NAdam {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the two moments.
    pub betas: (f64, f64),
    /// Added to the root.
    pub eps: f64,
    /// L2 decay.
    pub weight_decay: f64,
    /// How fast the momentum grows to its full size.
    pub momentum_decay: f64,
}
impl Default for NAdam {
    fn default() -> NAdam {
        NAdam { lr: 2e-3, betas: (0.9, 0.999), eps: 1e-8, weight_decay: 0.0, momentum_decay: 4e-3 }
    }
}
impl Rule for NAdam {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        let mut slots = two_moments(shape);
        slots.push(("mu_product", Tensor::ones(())));
        slots
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let (g, (b1, b2)) = (decayed(s), self.betas);
        // The momentum of step t: b1 (1 - 0.96^(t · decay) / 2).
        let momentum = |t: &Tensor| b1 - (t * (self.momentum_decay * 0.96f64.ln())).exp() * (0.5 * b1);
        let (mu, mu_next) = (momentum(s.t), momentum(&(s.t + 1.0)));
        let product = &s.slots[2] * &mu;
        let m = average(&s.slots[0], &g, b1);
        let v = average(&s.slots[1], &(&g * &g), b2);
        let root = (&v / correction(s, b2)).sqrt() + self.eps;
        let now = (1.0 - mu) / (1.0 - &product);
        let ahead = &mu_next / (1.0 - &product * &mu_next);
        (s.param - s.lr * (g * now + &m * ahead) / root, vec![m, v, product])
    }
}

/// Lion (Chen and others 2023): the sign of a momentum, with decay apart from the gradient. Learning
/// rates are three to ten times smaller than Adam's.
#[derive(Clone, Debug)]
pub struct Lion {
    /// Learning rate.
    pub lr: f64,
    /// Decay of the momentum as it is used, and as it is kept.
    pub betas: (f64, f64),
    /// Decay of the parameter itself.
    pub weight_decay: f64,
}
impl Default for Lion {
    fn default() -> Lion {
        Lion { lr: 1e-4, betas: (0.9, 0.99), weight_decay: 0.0 }
    }
}
impl Rule for Lion {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        vec![("exp_avg", Tensor::zeros(shape))]
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let direction = average(&s.slots[0], s.grad, self.betas.0).sign();
        (shrunk(s) - s.lr * direction, vec![average(&s.slots[0], s.grad, self.betas.1)])
    }
}

/// Adafactor (Shazeer and Stern 2018) without momentum: second moments of matrices kept as a row and
/// a column only, steps relative to the size of the parameter.
#[derive(Clone, Debug)]
pub struct Adafactor {
    /// Largest learning rate; steps are at most 1/√t times the parameter's size.
    pub lr: f64,
    /// The second moment forgets by t to this power.
    pub beta2_decay: f64,
    /// Smallest second moment (its root); the smallest difference of the parameter's type if `None`.
    pub eps: Option<f64>,
    /// Smallest size a parameter counts with.
    pub scale_min: f64,
    /// Root mean square above which a step is scaled down.
    pub clip: f64,
    /// Decay of the parameter itself.
    pub weight_decay: f64,
}
impl Default for Adafactor {
    fn default() -> Adafactor {
        Adafactor { lr: 0.01, beta2_decay: -0.8, eps: None, scale_min: 1e-3, clip: 1.0, weight_decay: 0.0 }
    }
}
impl Rule for Adafactor {
    fn lr(&self) -> f64 {
        self.lr
    }
    fn weight_decay(&self) -> f64 {
        self.weight_decay
    }
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        let rank = shape.rank();
        if rank < 2 {
            return vec![("variance", Tensor::zeros(shape))];
        }
        let (mut row, mut column) = (shape.clone(), shape.clone());
        row.dims_mut()[rank - 1] = 1;
        column.dims_mut()[rank - 2] = 1;
        vec![("row_var", Tensor::zeros(row)), ("col_var", Tensor::zeros(column))]
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let eps = self.eps.unwrap_or_else(|| spacing(s.param));
        let newest = (s.t.log() * self.beta2_decay).exp();
        let mix = |old: &Tensor, new: Tensor| old + (new - old) * &newest;
        let squares = s.grad * s.grad;
        let (variance, slots) = if let [row, column] = s.slots {
            let row = mix(row, squares.mean_keep(-1));
            let column = mix(column, squares.mean_keep(-2));
            (&row * &column / row.mean_keep(-2).maximum(eps), vec![row, column])
        } else {
            let v = mix(&s.slots[0], squares);
            (v.clone(), vec![v])
        };
        let direction = s.grad / variance.maximum(eps * eps).sqrt();
        let size = |x: &Tensor| (x * x).mean(..).sqrt();
        let rate = s.lr.minimum(1.0 / s.t.sqrt()) * size(s.param).maximum(self.scale_min);
        let clipped = (size(&direction) / self.clip).maximum(1.0);
        (shrunk(s) - direction * (rate / clipped), slots)
    }
}
/// The difference between 1 and the next number of the parameter's type.
fn spacing(param: &Tensor) -> f64 {
    match param.dtype() {
        Ok(DType::F64) => f64::EPSILON,
        Ok(DType::F16) => 2f64.powi(-10),
        Ok(DType::BF16) => 2f64.powi(-7),
        _ => f32::EPSILON as f64,
    }
}
