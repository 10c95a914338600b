//! The rules: each the formula of its paper, with PyTorch's names and defaults of settings.

use super::settings::{Row, Settings, settings};
use super::{Rule, Step};
use tensor::{DType, Shape, Tensor};

/// All rules of this file: those listed here are known to Python by their rows.
macro_rules! rows {
    ($($name:ident),* $(,)?) => {
        /// The optimizers that other languages make by name.
        pub static ROWS: &[Row] = &[$(Row {
            name: stringify!($name),
            doc: $name::DOC,
            settings: <$name as Settings>::settings,
            make: |values| Ok(Box::new($name::given(values)?)),
        }),*];
    };
}
rows![Sgd, Adagrad, Adam, AdamW, RmsProp, Adadelta, NAdam, Lion, Adafactor];

/// Where a rule keeps its first learning rate and weight decay.
macro_rules! rates {
    () => {
        fn lr(&self) -> f64 {
            self.lr
        }
        fn weight_decay(&self) -> f64 {
            self.weight_decay
        }
    };
}

settings! {
    /// Stochastic gradient descent, with momentum (Polyak) or Nesterov's, and L2 decay.
    Sgd {
        /// Learning rate.
        lr: f64 = 1e-3;
        /// Momentum; 0 for none.
        momentum: f64 = 0.0;
        /// How much of the gradient does not enter the momentum.
        dampening: f64 = 0.0;
        /// L2 decay, added to the gradient.
        weight_decay: f64 = 0.0;
        /// Nesterov's look-ahead.
        nesterov: bool = false;
    }
}
/// The gradient with L2 decay added.
fn decayed(s: &Step) -> Tensor {
    if s.weight_decay == 0.0 { s.grad.clone() } else { s.grad + s.param * s.weight_decay }
}
/// An exponential moving average with weight 1 - `decay` for the newest value.
fn average(old: &Tensor, new: &Tensor, decay: f64) -> Tensor {
    old * decay + new * (1.0 - decay)
}
/// The parameter with decay apart from the gradient.
fn shrunk(s: &Step) -> Tensor {
    if s.weight_decay == 0.0 { s.param.clone() } else { s.param * (1.0 - s.lr * s.weight_decay) }
}
impl Rule for Sgd {
    rates!();
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

settings! {
    /// Adagrad (Duchi, Hazan and Singer 2011): steps shrink with the sum of squared gradients.
    Adagrad {
        /// Learning rate.
        lr: f64 = 0.01;
        /// Decay of the learning rate with the number of steps.
        lr_decay: f64 = 0.0;
        /// L2 decay, added to the gradient.
        weight_decay: f64 = 0.0;
        /// The initial value of the sums.
        initial_accumulator_value: f64 = 0.0;
        /// Added to the root.
        eps: f64 = 1e-10;
    }
}
impl Rule for Adagrad {
    rates!();
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        vec![("sum", Tensor::full(shape, self.initial_accumulator_value as f32))]
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let g = decayed(s);
        let sum = &s.slots[0] + &g * &g;
        let lr = if self.lr_decay == 0.0 { s.lr.clone() } else { s.lr / ((s.t - 1.0) * self.lr_decay + 1.0) };
        (s.param - lr * g / (sum.sqrt() + self.eps), vec![sum])
    }
}

settings! {
    /// Adam (Kingma and Ba 2015), with L2 decay added to the gradient.
    Adam {
        /// Learning rate.
        lr: f64 = 1e-3;
        /// Decay of the two moments.
        betas: (f64, f64) = (0.9, 0.999);
        /// Added to the root.
        eps: f64 = 1e-8;
        /// L2 decay.
        weight_decay: f64 = 0.0;
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
    rates!();
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        two_moments(shape)
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let (step, slots) = adam(s, &decayed(s), self.betas, self.eps);
        (s.param - step, slots)
    }
}

settings! {
    /// AdamW (Loshchilov and Hutter 2019): Adam with decay apart from the gradient.
    AdamW {
        /// Learning rate.
        lr: f64 = 1e-3;
        /// Decay of the two moments.
        betas: (f64, f64) = (0.9, 0.999);
        /// Added to the root.
        eps: f64 = 1e-8;
        /// Decay of the parameter itself.
        weight_decay: f64 = 0.01;
    }
}
impl Rule for AdamW {
    rates!();
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        two_moments(shape)
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let (step, slots) = adam(s, s.grad, self.betas, self.eps);
        (shrunk(s) - step, slots)
    }
}

settings! {
    /// RMSProp (Hinton 2012): steps divided by a running root mean square of the gradient.
    RmsProp {
        /// Learning rate.
        lr: f64 = 0.01;
        /// Decay of the mean square.
        alpha: f64 = 0.99;
        /// Added to the root.
        eps: f64 = 1e-8;
        /// L2 decay, added to the gradient.
        weight_decay: f64 = 0.0;
        /// Momentum; 0 for none.
        momentum: f64 = 0.0;
        /// Divides by the deviation from the running mean instead.
        centered: bool = false;
    }
}
impl Rule for RmsProp {
    rates!();
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

settings! {
    /// Adadelta (Zeiler 2012): steps in units of earlier steps, so that hardly any learning rate is
    /// left to choose.
    Adadelta {
        /// Learning rate.
        lr: f64 = 1.0;
        /// Decay of both mean squares.
        rho: f64 = 0.9;
        /// Added to the mean squares before their roots.
        eps: f64 = 1e-6;
        /// L2 decay, added to the gradient.
        weight_decay: f64 = 0.0;
    }
}
impl Rule for Adadelta {
    rates!();
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

settings! {
    /// NAdam (Dozat 2016): Adam with Nesterov's look-ahead.
    NAdam {
        /// Learning rate.
        lr: f64 = 2e-3;
        /// Decay of the two moments.
        betas: (f64, f64) = (0.9, 0.999);
        /// Added to the root.
        eps: f64 = 1e-8;
        /// L2 decay.
        weight_decay: f64 = 0.0;
        /// How fast the momentum grows to its full size.
        momentum_decay: f64 = 4e-3;
    }
}
impl Rule for NAdam {
    rates!();
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

settings! {
    /// Lion (Chen and others 2023): the sign of a momentum, with decay apart from the gradient. Learning
    /// rates are three to ten times smaller than Adam's.
    Lion {
        /// Learning rate.
        lr: f64 = 1e-4;
        /// Decay of the momentum as it is used, and as it is kept.
        betas: (f64, f64) = (0.9, 0.99);
        /// Decay of the parameter itself.
        weight_decay: f64 = 0.0;
    }
}
impl Rule for Lion {
    rates!();
    fn slots(&self, shape: &Shape) -> Vec<(&'static str, Tensor)> {
        vec![("exp_avg", Tensor::zeros(shape))]
    }
    fn step(&self, s: &Step) -> (Tensor, Vec<Tensor>) {
        let direction = average(&s.slots[0], s.grad, self.betas.0).sign();
        (shrunk(s) - s.lr * direction, vec![average(&s.slots[0], s.grad, self.betas.1)])
    }
}

settings! {
    /// Adafactor (Shazeer and Stern 2018) without momentum: second moments of matrices kept as a row and
    /// a column only, steps relative to the size of the parameter.
    Adafactor {
        /// Largest learning rate; steps are at most 1/√t times the parameter's size.
        lr: f64 = 0.01;
        /// The second moment forgets by t to this power.
        beta2_decay: f64 = -0.8;
        /// Smallest root of a second moment (`None`: the parameter type's epsilon), and smallest scale of a parameter.
        eps: (Option<f64>, f64) = (None, 1e-3);
        /// Root mean square above which a step is scaled down.
        d: f64 = 1.0;
        /// Decay of the parameter itself.
        weight_decay: f64 = 0.0;
    }
}
impl Rule for Adafactor {
    rates!();
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
        let eps = self.eps.0.unwrap_or_else(|| spacing(s.param));
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
        let rate = s.lr.minimum(1.0 / s.t.sqrt()) * size(s.param).maximum(self.eps.1);
        let clipped = (size(&direction) / self.d).maximum(1.0);
        (shrunk(s) - direction * (rate / clipped), slots)
    }
}
/// The machine epsilon of the parameter's type.
fn spacing(param: &Tensor) -> f64 {
    match param.dtype() {
        Ok(DType::F64) => f64::EPSILON,
        Ok(DType::F16) => 2f64.powi(-10),
        Ok(DType::BF16) => 2f64.powi(-7),
        _ => f32::EPSILON as f64,
    }
}
