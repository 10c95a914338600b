//! Lasso by coordinate descent: each worker owns some coordinates, and the residual is shared.

use crate::job::{self, WORKERS, normal};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule, Table};

const SAMPLES: usize = 200;
const COORDINATES: usize = 60;
const PLANTED: usize = 6;
const PENALTY: f32 = 0.1;
const STEPS: usize = 300;

/// What was found.
pub struct Report {
    /// Coordinates that were planted, and those that are not zero.
    pub planted: Vec<usize>,
    /// Coordinates that were found.
    pub found: Vec<usize>,
    /// How far the conditions of the optimum are missed, in units of the penalty.
    pub violation: f32,
}

/// Columns of length √SAMPLES, and what they should explain.
fn data() -> (Vec<Vec<f32>>, Vec<f32>) {
    let mut r = Random::new(2);
    let columns: Vec<Vec<f32>> = (0..COORDINATES).map(|_| (0..SAMPLES).map(|_| normal(&mut r)).collect()).collect();
    let mut y: Vec<f32> = (0..SAMPLES).map(|_| 0.1 * normal(&mut r)).collect();
    for (i, column) in columns.iter().step_by(COORDINATES / PLANTED).enumerate() {
        let weight = if i % 2 == 0 { 1.0 + i as f32 } else { -1.0 - i as f32 };
        y.iter_mut().zip(column).for_each(|(y, x)| *y += weight * x);
    }
    (columns, y)
}
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}
fn shrink(x: f32) -> f32 {
    x.signum() * (x.abs() - PENALTY).max(0.0)
}

pub fn run() -> Result<Report> {
    let table = Table::new(0, SAMPLES, 1, 256)?;
    let parts = job::run(Rule::BSP, move |me, store| {
        let (columns, y) = data();
        store.create(&table, &y)?;
        let mine: Vec<usize> = (me as usize..COORDINATES).step_by(WORKERS as usize).collect();
        let mut weights = vec![0.0; COORDINATES];
        for step in 0..STEPS {
            let residual = store.pull(&[table])?.remove(0);
            let j = mine[step % mine.len()];
            let size = dot(&columns[j], &columns[j]) / SAMPLES as f32;
            let new = shrink(dot(&columns[j], &residual) / SAMPLES as f32 + size * weights[j]) / size;
            let change: Vec<f32> = columns[j].iter().map(|x| (weights[j] - new) * x).collect();
            weights[j] = new;
            store.push(&table, &change, 0.0)?;
            store.clock()?;
        }
        Ok((weights, store.pull(&[table])?.remove(0)))
    })?;
    let weights: Vec<f32> = (0..COORDINATES).map(|j| parts.iter().map(|(w, _)| w[j]).sum()).collect();
    let (columns, residual) = (data().0, &parts[0].1);
    let miss = |j: usize| {
        let slope = dot(&columns[j], residual) / SAMPLES as f32;
        if weights[j] == 0.0 { (slope.abs() - PENALTY).max(0.0) } else { (slope - PENALTY * weights[j].signum()).abs() }
    };
    let violation = (0..COORDINATES).map(miss).fold(0.0, f32::max) / PENALTY;
    let found = (0..COORDINATES).filter(|j| weights[*j] != 0.0).collect();
    Ok(Report { planted: (0..COORDINATES).step_by(COORDINATES / PLANTED).collect(), found, violation })
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (planted, found) = (&self.planted, &self.found);
        write!(f, "lasso: planted {planted:?}, found {found:?}, optimum missed by {:.4} penalties", self.violation)
    }
}
