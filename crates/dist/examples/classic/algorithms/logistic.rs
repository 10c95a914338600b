//! Sparse logistic regression by stochastic gradients: a worker reads and changes only the weights
//! of the features that its samples have.

use crate::job::{self, WORKERS, normal};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule, Table};

const FEATURES: usize = 500;
const SAMPLES: usize = 1200;
const ACTIVE: usize = 12;
const STEPS: usize = 150;
const BATCH: usize = 16;
const RATE: f32 = 0.5;

/// What was found.
pub struct Report {
    /// Share of the samples on the right side.
    pub accuracy: f32,
    /// Mean loss with the weights at the end, and with zeros.
    pub loss: (f32, f32),
}

struct Sample {
    features: Vec<usize>,
    values: Vec<f32>,
    label: f32,
}

fn samples() -> Vec<Sample> {
    let mut r = Random::new(1);
    let truth: Vec<f32> = (0..FEATURES).map(|_| normal(&mut r)).collect();
    (0..SAMPLES)
        .map(|_| {
            let features: Vec<usize> = (0..ACTIVE).map(|_| r.within(0..FEATURES as u64) as usize).collect();
            let values: Vec<f32> = features.iter().map(|_| normal(&mut r)).collect();
            let score: f32 = features.iter().zip(&values).map(|(f, v)| truth[*f] * v).sum();
            Sample { features, values, label: if score > 0.0 { 1.0 } else { 0.0 } }
        })
        .collect()
}
fn probability(s: &Sample, weights: &[f32]) -> f32 {
    let score: f32 = s.values.iter().zip(weights).map(|(v, w)| v * w).sum();
    1.0 / (1.0 + (-score).exp())
}

pub fn run(rule: Rule) -> Result<Report> {
    let table = Table::new(0, FEATURES, 1, 256)?;
    let ends = job::run(rule, move |me, store| {
        store.create(&table, &[0.0; FEATURES])?;
        let mine: Vec<Sample> = samples().into_iter().skip(me as usize).step_by(WORKERS as usize).collect();
        for step in 0..STEPS {
            let batch: Vec<&Sample> = (0..BATCH).map(|i| &mine[(step * BATCH + i) % mine.len()]).collect();
            let rows: Vec<usize> = batch.iter().flat_map(|s| s.features.iter().copied()).collect();
            let weights = store.pull_rows(&table, &rows)?;
            let mut change = Vec::with_capacity(rows.len());
            for (s, w) in batch.iter().zip(weights.chunks(ACTIVE)) {
                let error = s.label - probability(s, w);
                change.extend(s.values.iter().map(|v| RATE * error * v / (WORKERS as f32).sqrt()));
            }
            store.push_rows(&table, &rows, &change, 0.0)?;
            store.clock()?;
        }
        store.wait()?;
        Ok(store.pull(&[table])?.remove(0))
    })?;
    let (weights, all) = (&ends[0], samples());
    let at = |s: &Sample| probability(s, &s.features.iter().map(|f| weights[*f]).collect::<Vec<_>>());
    let loss = |s: &Sample| -(if s.label > 0.5 { at(s) } else { 1.0 - at(s) }).max(1e-7).ln();
    let right = all.iter().filter(|s| (at(s) > 0.5) == (s.label > 0.5)).count();
    let mean = all.iter().map(loss).sum::<f32>() / SAMPLES as f32;
    Ok(Report { accuracy: right as f32 / SAMPLES as f32, loss: (mean, 2f32.ln()) })
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (end, zero) = self.loss;
        write!(f, "logistic regression: {:.1} % right, loss {end:.3} (zeros: {zero:.3})", 100.0 * self.accuracy)
    }
}
