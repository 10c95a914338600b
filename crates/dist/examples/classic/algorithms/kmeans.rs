//! k-means: each worker sums the points nearest to each coordinator, the store over the workers.

use crate::job::{self, Sums, WORKERS, normal};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule};

const TRUTH: [[f32; 2]; 4] = [[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]];
const POINTS: usize = 2000;
const STEPS: usize = 12;

/// What was found.
pub struct Report {
    /// The largest distance between a coordinator and the nearest true one.
    pub distance: f32,
    /// Sum of squared distances to the nearest coordinator, step by step.
    pub inertia: Vec<f32>,
}

fn points() -> Vec<[f32; 2]> {
    let mut r = Random::new(4);
    (0..POINTS).map(|i| TRUTH[i % 4].map(|c| c + 0.6 * normal(&mut r))).collect()
}
fn distance(a: [f32; 2], b: [f32; 2]) -> f32 {
    (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2)
}
fn nearest(x: [f32; 2], centers: &[[f32; 2]]) -> (usize, f32) {
    let all = centers.iter().map(|c| distance(x, *c)).enumerate();
    all.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

pub fn run() -> Result<Report> {
    let mut all = job::run(Rule::BSP, |me, store| {
        let mine: Vec<[f32; 2]> = points().into_iter().skip(me as usize).step_by(WORKERS as usize).collect();
        let mut sums = Sums::create(store, 0, 5, 3)?;
        let mut centers = vec![[1.0, 1.0], [3.0, 1.0], [1.0, 3.0], [3.0, 3.5]];
        let mut inertia = Vec::new();
        for _ in 0..STEPS {
            let mut s = [0.0; 15];
            for x in &mine {
                let (k, d) = nearest(*x, &centers);
                (0..2).for_each(|i| s[3 * k + i] += x[i]);
                s[3 * k + 2] += 1.0;
                s[12] += d;
            }
            let s = sums.reduce(store, &s)?;
            for (k, c) in centers.iter_mut().enumerate().filter(|(k, _)| s[3 * k + 2] > 0.5) {
                *c = [s[3 * k] / s[3 * k + 2], s[3 * k + 1] / s[3 * k + 2]];
            }
            inertia.push(s[12]);
        }
        let distance = centers.iter().map(|c| nearest(*c, &TRUTH).1.sqrt()).fold(0.0, f32::max);
        Ok(Report { distance, inertia })
    })?;
    Ok(all.swap_remove(0))
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.inertia[0], self.inertia[self.inertia.len() - 1]);
        write!(f, "k-means: inertia {first:.0} → {last:.0}, centers within {:.3} of the true ones", self.distance)
    }
}
