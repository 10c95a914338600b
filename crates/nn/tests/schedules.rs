//! Schedules give PyTorch's learning rates (`data/schedules.txt`, written by `data/schedules.py`).

use cpu as _;
use talweg_nn::schedule::{Constant, Cosine, Exponential, OneCycle, Plateau, Schedule, StepDecay, Warmup};

fn expected(name: &str) -> Vec<f64> {
    let line = include_str!("data/schedules.txt").lines().find(|l| l.split(' ').next() == Some(name)).unwrap();
    line.split(' ').skip(1).map(|w| w.parse().unwrap()).collect()
}

#[track_caller]
fn check(name: &str, got: impl Fn(usize) -> f64) {
    let want = expected(name);
    assert!(want.len() > 10);
    for (step, want) in want.into_iter().enumerate() {
        let got = got(step);
        assert!((got - want).abs() < 1e-12, "{name} at step {step}: {got}, PyTorch {want}");
    }
}

#[test]
fn functions_of_the_step() {
    check("step", |s| StepDecay { lr: 0.1, every: 3, gamma: 0.5 }.lr(s));
    check("exponential", |s| Exponential { lr: 0.1, gamma: 0.9 }.lr(s));
    check("cosine", |s| Cosine { lr: 0.1, lr_min: 0.01, steps: 10 }.lr(s));
    check("one_cycle", |s| OneCycle::new(0.1, 20).lr(s));
    check("one_cycle_other", |s| OneCycle { lr_max: 0.2, steps: 15, rise: 0.5, div: 10.0, final_div: 100.0 }.lr(s));
    let warm = Warmup { steps: 5, start: 0.2, then: Exponential { lr: 0.1, gamma: 0.9 } };
    check("warmup", |s| warm.lr(s));
}

#[test]
fn after_the_end_nothing_changes() {
    assert_eq!(Cosine { lr: 0.1, lr_min: 0.01, steps: 10 }.lr(1000), 0.01);
    let cycle = OneCycle::new(0.1, 20);
    assert_eq!(cycle.lr(1000), cycle.lr(19));
    assert_eq!(Constant { lr: 0.3 }.lr(7), 0.3);
    // Nothing to divide by.
    assert_eq!(Cosine { lr: 0.1, lr_min: 0.01, steps: 0 }.lr(0), 0.01);
    assert_eq!(Warmup { steps: 0, start: 0.0, then: Constant { lr: 0.3 } }.lr(0), 0.3);
}

#[test]
fn plateaus() {
    let figures = expected("figures");
    let rates = |mut p: Plateau| figures.iter().map(|&f| p.observe(f)).collect::<Vec<_>>();
    let min = Plateau { factor: 0.5, patience: 2, cooldown: 1, lr_min: 0.02, ..Plateau::new(0.1) };
    assert_eq!(rates(min), expected("plateau"));
    let max = Plateau { maximize: true, patience: 3, ..Plateau::new(0.1) };
    assert_eq!(rates(max), expected("plateau_max"));
}

#[test]
fn a_loss_that_is_no_number_never_improves() {
    let mut p = Plateau { patience: 0, ..Plateau::new(0.1) };
    assert_eq!(p.observe(f64::NAN), 0.1 * 0.1);
    assert_eq!(p.best, None);
}
