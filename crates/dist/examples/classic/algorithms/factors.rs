//! Matrix factorization by stochastic gradients: a worker keeps its users, the items are shared.

use crate::job::{self, WORKERS, normal, uniform};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule, Table};

const USERS: usize = 90;
const ITEMS: usize = 60;
const RANK: usize = 3;
const STEPS: usize = 150;
const RATE: f32 = 0.05;

/// What was found.
pub struct Report {
    /// Root of the mean squared error over known ratings at the beginning and at the end, and over
    /// ratings that were held back.
    pub errors: (f32, f32, f32),
}

/// (user, item, rating); every fifth is held back.
fn ratings() -> Vec<(usize, usize, f32)> {
    let mut r = Random::new(5);
    let users: Vec<f32> = (0..USERS * RANK).map(|_| normal(&mut r)).collect();
    let items: Vec<f32> = (0..ITEMS * RANK).map(|_| normal(&mut r)).collect();
    let mut out = Vec::new();
    for u in 0..USERS {
        for i in 0..ITEMS {
            if uniform(&mut r) < 0.5 {
                let dot: f32 = (0..RANK).map(|k| users[u * RANK + k] * items[i * RANK + k]).sum();
                out.push((u, i, dot + 0.05 * normal(&mut r)));
            }
        }
    }
    out
}
fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

pub fn run(rule: Rule) -> Result<Report> {
    let table = Table::new(0, ITEMS, RANK, 64)?;
    let errors = job::run(rule, move |me, store| {
        let mut r = Random::new(50);
        let items: Vec<f32> = (0..ITEMS * RANK).map(|_| 0.3 * normal(&mut r)).collect();
        let mut users: Vec<f32> = (0..USERS * RANK).map(|_| 0.3 * normal(&mut r)).collect();
        store.create(&table, &items)?;
        let all = ratings().into_iter().enumerate();
        let mine: Vec<_> = all.filter(|(_, (u, ..))| u % WORKERS as usize == me as usize).collect();
        let error = |users: &[f32], items: &[f32], held: bool| {
            let of = mine.iter().filter(|(n, _)| (n % 5 == 0) == held);
            let each =
                of.map(|(_, (u, i, y))| (y - dot(&users[u * RANK..][..RANK], &items[i * RANK..][..RANK])).powi(2));
            each.fold((0.0, 0), |(sum, n), e| (sum + e, n + 1))
        };
        let before = error(&users, &items, false);
        for _ in 0..STEPS {
            let mut items = store.pull(&[table])?.remove(0);
            let start = items.clone();
            for (_, (u, i, y)) in mine.iter().filter(|(n, _)| n % 5 != 0) {
                let (user, item) = (&mut users[u * RANK..][..RANK], &mut items[i * RANK..][..RANK]);
                let miss = y - dot(user, item);
                for (a, b) in user.iter_mut().zip(item) {
                    (*a, *b) = (*a + RATE * miss * *b, *b + RATE * miss * *a);
                }
            }
            let change: Vec<f32> = items.iter().zip(&start).map(|(a, b)| (a - b) / WORKERS as f32).collect();
            store.push(&table, &change, 0.0)?;
            store.clock()?;
        }
        store.wait()?;
        let items = store.pull(&[table])?.remove(0);
        Ok([before, error(&users, &items, false), error(&users, &items, true)])
    })?;
    let root = |k: usize| {
        let (sum, n) = errors.iter().fold((0.0, 0), |(s, n), e| (s + e[k].0, n + e[k].1));
        (sum / n as f32).sqrt()
    };
    Ok(Report { errors: (root(0), root(1), root(2)) })
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, after, held) = self.errors;
        write!(f, "matrix factorization: error {before:.2} → {after:.3}, {held:.3} on ratings held back (noise 0.05)")
    }
}
