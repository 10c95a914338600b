//! Every optimizer follows PyTorch's parameters over 50 steps of a small problem
//! (`data/optimizers.txt`, written by `data/optimizers.py`).

use cpu as _;
use std::collections::BTreeSet;
use std::sync::Arc;
use talweg_nn::optim::{
    Adadelta, Adafactor, Adagrad, Adam, AdamW, Lbfgs, LbfgsOptions, Lion, NAdam, Optimizer, RmsProp, Rule, Sgd,
};
use tensor::{Result, Tensor, Variable, jit};

const EXPECTED: &str = include_str!("data/optimizers.txt");
const TOLERANCE: f32 = 2e-5;

/// The same settings as in `optimizers.py`.
fn rules() -> Vec<(&'static str, Box<dyn Rule>)> {
    let momentum = Sgd { lr: 0.05, momentum: 0.9, ..Sgd::default() };
    let nesterov = Sgd { momentum: 0.8, nesterov: true, weight_decay: 0.01, ..momentum.clone() };
    let dampening = Sgd { lr: 0.1, momentum: 0.9, dampening: 0.5, weight_decay: 0.1, nesterov: false };
    let adagrad = Adagrad { lr: 0.1, ..Adagrad::default() };
    let adagrad_decay =
        Adagrad { lr_decay: 0.05, weight_decay: 0.1, initial_accumulator_value: 0.5, ..adagrad.clone() };
    let adam = Adam { lr: 0.02, ..Adam::default() };
    let adam_decay = Adam { betas: (0.8, 0.95), weight_decay: 0.1, ..adam.clone() };
    let rms_momentum = RmsProp { lr: 0.005, alpha: 0.9, momentum: 0.5, weight_decay: 0.1, ..RmsProp::default() };
    let rms_centered = RmsProp { lr: 0.005, momentum: 0.5, centered: true, ..RmsProp::default() };
    let nadam = NAdam { lr: 0.02, ..NAdam::default() };
    let nadam_decay = NAdam { weight_decay: 0.1, momentum_decay: 0.1, ..nadam.clone() };
    let factor_decay = Adafactor { lr: 0.2, beta2_decay: -0.5, d: 1.25, weight_decay: 0.1, ..Adafactor::default() };
    vec![
        ("sgd", Box::new(Sgd { lr: 0.1, ..Sgd::default() })),
        ("sgd_momentum", Box::new(momentum)),
        ("sgd_nesterov", Box::new(nesterov)),
        ("sgd_dampening", Box::new(dampening)),
        ("adagrad", Box::new(adagrad)),
        ("adagrad_decay", Box::new(adagrad_decay)),
        ("adam", Box::new(adam)),
        ("adam_decay", Box::new(adam_decay)),
        ("adamw", Box::new(AdamW { lr: 0.02, weight_decay: 0.1, ..AdamW::default() })),
        ("rmsprop", Box::new(RmsProp::default())),
        ("rmsprop_momentum", Box::new(rms_momentum)),
        ("rmsprop_centered", Box::new(rms_centered)),
        ("adadelta", Box::new(Adadelta::default())),
        ("adadelta_decay", Box::new(Adadelta { lr: 0.5, rho: 0.8, weight_decay: 0.1, ..Adadelta::default() })),
        ("nadam", Box::new(nadam)),
        ("nadam_decay", Box::new(nadam_decay)),
        ("lion", Box::new(Lion { lr: 0.01, ..Lion::default() })),
        ("lion_decay", Box::new(Lion { lr: 0.01, betas: (0.8, 0.95), weight_decay: 0.5 })),
        ("adafactor", Box::new(Adafactor::default())),
        ("adafactor_decay", Box::new(factor_decay)),
    ]
}

/// Two words and the numbers after them, for each line.
fn lines() -> impl Iterator<Item = (&'static str, &'static str, Vec<f32>)> {
    EXPECTED.lines().map(|line| {
        let mut words = line.split(' ');
        let (a, b) = (words.next().unwrap(), words.next().unwrap());
        (a, b, words.map(|w| w.parse().unwrap()).collect())
    })
}

fn data(name: &str, shape: &[usize]) -> Tensor {
    let (_, _, values) = lines().find(|(kind, n, _)| *kind == "data" && *n == name).unwrap();
    Tensor::new(shape, &values)
}

/// The small problem.
struct Problem {
    x: Tensor,
    y: Tensor,
    w: Variable,
    b: Variable,
}
impl Problem {
    fn new() -> Problem {
        let w = Variable::new("w", data("w", &[2, 3])).unwrap();
        let b = Variable::new("b", data("b", &[3])).unwrap();
        Problem { x: data("x", &[4, 2]), y: data("y", &[4, 3]), w, b }
    }
    fn params(&self) -> Vec<Variable> {
        vec![self.w.clone(), self.b.clone()]
    }
    fn loss(&self) -> Tensor {
        (self.x.matmul(self.w.tensor()).tanh() + self.b.tensor() - &self.y).square().mean(..)
    }
    /// Largest difference from PyTorch's parameters at any recorded step.
    fn follow(&self, name: &str, step: impl Fn() -> Result<()>) -> f32 {
        let mut off = 0f32;
        for number in 1..=50 {
            step().unwrap();
            let Some((_, _, want)) = lines().find(|(n, s, _)| *n == name && *s == number.to_string()) else { continue };
            let got = [self.w.tensor().to_vec::<f32>().unwrap(), self.b.tensor().to_vec::<f32>().unwrap()].concat();
            assert_eq!(got.len(), want.len(), "{name}");
            off = got.iter().zip(&want).fold(off, |m, (g, w)| if (g - w).abs() <= m { m } else { (g - w).abs() });
        }
        off
    }
}

fn follow(name: &str, rule: Box<dyn Rule>) -> f32 {
    let problem = Problem::new();
    let optimizer = Optimizer::new(rule, problem.params().as_slice()).unwrap();
    problem.follow(name, || {
        problem.loss().backward()?;
        optimizer.step()
    })
}

/// The same settings as in `optimizers.py`.
fn quasi_newton() -> [(&'static str, LbfgsOptions); 3] {
    let base = LbfgsOptions::default();
    [
        ("lbfgs", LbfgsOptions { lr: 0.1, max_iter: 1, history_size: 5, ..base.clone() }),
        ("lbfgs_many", LbfgsOptions { lr: 0.05, max_iter: 3, history_size: 100, ..base.clone() }),
        (
            "lbfgs_wolfe",
            LbfgsOptions { lr: 0.8, max_iter: 2, max_eval: Some(50), history_size: 3, strong_wolfe: true, ..base },
        ),
    ]
}

#[test]
fn parameters_follow_pytorch() {
    let expected: BTreeSet<&str> = lines().map(|l| l.0).filter(|n| *n != "data").collect();
    let known = rules().iter().map(|r| r.0).chain(quasi_newton().iter().map(|q| q.0)).collect::<BTreeSet<_>>();
    assert_eq!(expected, known);
    let lbfgs = quasi_newton().map(|(name, options)| {
        let problem = Problem::new();
        let optimizer = Lbfgs::new(options, problem.params().as_slice()).unwrap();
        (name, problem.follow(name, || optimizer.step(|| Ok(problem.loss())).map(|_| ())))
    });
    let wrong: Vec<String> = rules()
        .into_iter()
        .map(|(name, rule)| (name, follow(name, rule)))
        .chain(lbfgs)
        .filter(|(_, off)| off.is_nan() || *off > TOLERANCE)
        .map(|(name, off)| format!("{name}: off by {off:e}"))
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn lbfgs_goes_on_from_its_state() {
    let options = || LbfgsOptions { max_iter: 2, strong_wolfe: true, ..LbfgsOptions::default() };
    let (whole, parts) = (Problem::new(), Problem::new());
    let optimizer = Lbfgs::new(options(), whole.params().as_slice()).unwrap();
    for _ in 0..4 {
        optimizer.step(|| Ok(whole.loss())).unwrap();
    }
    let mut saved: Vec<Tensor> = Vec::new();
    for _ in 0..2 {
        let optimizer = Lbfgs::new(options(), parts.params().as_slice()).unwrap();
        optimizer.state().iter().zip(&saved).for_each(|((_, v), t)| v.assign(t).unwrap());
        for _ in 0..2 {
            optimizer.step(|| Ok(parts.loss())).unwrap();
        }
        saved = optimizer.state().iter().map(|(_, v)| v.tensor()).collect();
    }
    assert_eq!(whole.w.tensor().to_vec::<f32>().unwrap(), parts.w.tensor().to_vec::<f32>().unwrap());
}

#[test]
fn lbfgs_refuses_what_it_cannot_join() {
    let mixed = [Variable::new("a", Tensor::ones([2])).unwrap(), Variable::new("b", Tensor::from([1.0f64])).unwrap()];
    let e = Lbfgs::new(LbfgsOptions::default(), mixed.as_slice()).err().unwrap().to_string();
    assert!(e.contains("b is f64, not f32"), "{e}");
}

#[test]
fn other_settings_count_from_the_next_step_on_also_under_jit() {
    let sgd = |momentum| Sgd { lr: 0.1, momentum, ..Sgd::default() };
    let trained = |is_jitted: bool| {
        let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
        let optimizer = Optimizer::new(sgd(0.9), [w.clone()].as_slice()).unwrap();
        let step = |_: &[Tensor]| {
            // A gradient of 1.
            w.tensor().sum(..).backward()?;
            optimizer.step()?;
            Ok(Vec::new())
        };
        let jitted = jit(step);
        for momentum in [0.9, 0.5, 0.5, 0.25] {
            assert!(optimizer.tune(0, Arc::new(sgd(momentum)), 0.0).unwrap());
            if is_jitted {
                jitted.call(&[]).unwrap()
            } else {
                step(&[]).unwrap()
            };
        }
        assert!(!optimizer.tune(0, Arc::new(sgd(0.0)), 0.0).unwrap(), "without momentum it would keep no state");
        w.tensor().item::<f32>().unwrap()
    };
    // The momentum becomes 1, 1.5, 1.75, 1.4375.
    for is_jitted in [false, true] {
        assert!((trained(is_jitted) - (1.0 - 0.1 * 5.6875)).abs() < 1e-6, "{is_jitted}: {}", trained(is_jitted));
    }
}

#[test]
fn groups_have_rules_of_their_own() {
    let [a, b] = ["a", "b"].map(|name| Variable::new(name, Tensor::from([1.0f32])).unwrap());
    let plain = Sgd { lr: 0.1, ..Sgd::default() };
    let mut optimizer = Optimizer::new(plain.clone(), [a.clone()].as_slice()).unwrap();
    let rule = Arc::new(Sgd { momentum: 0.5, ..plain });
    optimizer.add_group_with(rule, [b.clone()].as_slice(), 0.1, 0.0).unwrap();
    for _ in 0..2 {
        (a.tensor() + b.tensor()).sum(..).backward().unwrap();
        optimizer.step().unwrap();
    }
    let ends = [&a, &b].map(|v| v.tensor().item::<f32>().unwrap());
    assert!((ends[0] - 0.8).abs() < 1e-6 && (ends[1] - 0.75).abs() < 1e-6, "{ends:?}");
}
