//! A mixture of Gaussians by expectation and maximization: each worker sums over its points, the
//! store over the workers.

use crate::job::{self, Sums, WORKERS, normal};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule};

const TRUTH: [(f32, f32, f32); 3] = [(0.5, -4.0, 0.7), (0.3, 0.0, 0.5), (0.2, 3.0, 1.0)];
const POINTS: usize = 3000;
const STEPS: usize = 40;

/// What was found.
pub struct Report {
    /// Weight, mean and deviation of each part, by mean.
    pub parts: Vec<(f32, f32, f32)>,
    /// Mean logarithm of the density, step by step.
    pub likelihood: Vec<f32>,
}

fn points() -> Vec<f32> {
    let mut r = Random::new(3);
    let mut one = |i: usize| {
        let u = i as f32 / POINTS as f32;
        let (_, mean, deviation) = TRUTH[if u < 0.5 { 0 } else { usize::from(u >= 0.8) + 1 }];
        mean + deviation * normal(&mut r)
    };
    (0..POINTS).map(&mut one).collect()
}
fn density(x: f32, (weight, mean, deviation): (f32, f32, f32)) -> f32 {
    let z = (x - mean) / deviation;
    weight * (-0.5 * z * z).exp() / (deviation * std::f32::consts::TAU.sqrt())
}

pub fn run() -> Result<Report> {
    let mut all = job::run(Rule::BSP, |me, store| {
        let mine: Vec<f32> = points().into_iter().skip(me as usize).step_by(WORKERS as usize).collect();
        // For each part the sums of shares, shares × points and shares × squares; last the likelihood.
        let mut sums = Sums::create(store, 0, 10, 1)?;
        let mut parts = vec![(0.4, -2.0, 2.0), (0.3, 0.5, 2.0), (0.3, 2.0, 2.0)];
        let mut likelihood = Vec::new();
        for _ in 0..STEPS {
            let mut mine_sums = [0.0; 10];
            for x in &mine {
                let each: Vec<f32> = parts.iter().map(|p| density(*x, *p)).collect();
                let total: f32 = each.iter().sum::<f32>().max(1e-30);
                for (k, d) in each.iter().enumerate() {
                    let share = d / total;
                    mine_sums[3 * k] += share;
                    mine_sums[3 * k + 1] += share * x;
                    mine_sums[3 * k + 2] += share * x * x;
                }
                mine_sums[9] += total.ln();
            }
            let s = sums.reduce(store, &mine_sums)?;
            for (k, p) in parts.iter_mut().enumerate() {
                let mean = s[3 * k + 1] / s[3 * k];
                let variance = (s[3 * k + 2] / s[3 * k] - mean * mean).max(1e-4);
                *p = (s[3 * k] / POINTS as f32, mean, variance.sqrt());
            }
            likelihood.push(s[9] / POINTS as f32);
        }
        Ok(Report { parts, likelihood })
    })?;
    let mut report = all.swap_remove(0);
    report.parts.sort_by(|a, b| a.1.total_cmp(&b.1));
    Ok(report)
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mixture (made from {TRUTH:?}):")?;
        let gain = self.likelihood.last().zip(self.likelihood.first()).map_or(0.0, |(b, a)| b - a);
        write!(f, " likelihood up by {gain:.2},")?;
        self.parts.iter().try_for_each(|(w, m, d)| write!(f, " {w:.2} of N({m:.2}, {d:.2})"))
    }
}
