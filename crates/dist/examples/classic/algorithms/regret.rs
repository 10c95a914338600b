//! The regret of stochastic subgradients under bounded staleness, against the bound of the theory:
//! with P workers, T steps of all together, staleness s, subgradients of length at most L and
//! distances of at most F√2, the regret is at most 4 F L √(2 (s + 1) P T) (Ho et al., 2013).

use crate::job::{self, WORKERS, normal};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule, Table};

const SIZE: usize = 8;
const STEPS: usize = 4000;

/// What was found.
pub struct Report {
    /// The staleness that was allowed.
    pub staleness: u64,
    /// Loss of all steps together; the best fixed point has none.
    pub regret: f32,
    /// What the theory allows.
    pub bound: f32,
    /// The loss without any learning.
    pub idle: f32,
}

fn unit(r: &mut Random) -> Vec<f32> {
    let x: Vec<f32> = (0..SIZE).map(|_| normal(r)).collect();
    let length = dot(&x, &x).sqrt();
    x.iter().map(|v| v / length).collect()
}
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub fn run(staleness: u64) -> Result<Report> {
    let table = Table::new(0, SIZE, 1, 1 << 20)?;
    let (p, total) = (WORKERS as f32, (STEPS * WORKERS as usize) as f32);
    // The answer has length 1 and the beginning is 0, so D = ‖x − x*‖² / 2 stays below F² = 1.
    let scale = 1.0 / (2.0 * (staleness + 1) as f32 * p).sqrt();
    let losses = job::run(Rule::ssp(staleness), move |me, store| {
        store.create(&table, &[0.0; SIZE])?;
        let answer = unit(&mut Random::new(8));
        let mut r = Random::new(80 + u64::from(me));
        let (mut lost, mut idle) = (0.0, 0.0);
        for step in 0..STEPS {
            // f(x) = |a·x − a·x*|: convex, with subgradients of length 1.
            let a = unit(&mut r);
            let x = store.pull(&[table])?.remove(0);
            let miss = dot(&a, &x) - dot(&a, &answer);
            (lost, idle) = (lost + miss.abs(), idle + dot(&a, &answer).abs());
            let rate = scale / ((step * WORKERS as usize + me as usize + 1) as f32).sqrt();
            let change: Vec<f32> = a.iter().map(|v| -rate * miss.signum() * v).collect();
            store.push(&table, &change, 0.0)?;
            store.clock()?;
        }
        Ok((lost, idle))
    })?;
    let (regret, idle) = losses.iter().fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    Ok(Report { staleness, regret, bound: 4.0 * (2.0 * (staleness + 1) as f32 * p * total).sqrt(), idle })
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { staleness, regret, bound, idle } = self;
        write!(f, "regret under ssp:{staleness}: {regret:.0}, theory allows {bound:.0} (never learning: {idle:.0})")
    }
}
