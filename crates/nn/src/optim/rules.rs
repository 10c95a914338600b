//! The rules: each the formula of its paper, with PyTorch's defaults.

use super::{Rule, Step};
use tensor::{Shape, Tensor};

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
/// Both moments and the corrected direction.
fn adam(s: &Step, g: &Tensor, (b1, b2): (f64, f64), eps: f64) -> (Tensor, Vec<Tensor>) {
    let m = &s.slots[0] * b1 + g * (1.0 - b1);
    let v = &s.slots[1] * b2 + g * g * (1.0 - b2);
    let power = |b: f64| 1.0 - (s.t * b.ln()).exp();
    let direction = &m / power(b1) / ((&v / power(b2)).sqrt() + eps);
    (direction, vec![m, v])
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
        let (d, slots) = adam(s, &decayed(s), self.betas, self.eps);
        (s.param - s.lr * d, slots)
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
        let (d, slots) = adam(s, s.grad, self.betas, self.eps);
        let shrunk = s.param * (1.0 - s.lr * s.weight_decay);
        (shrunk - s.lr * d, slots)
    }
}
