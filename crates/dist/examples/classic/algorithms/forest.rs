//! A random forest, grown level by level: each worker adds up how the labels of its samples are
//! distributed over the bins of each feature, the store adds over the workers, and all of them choose the
//! same splits (as in PLANET, Panda and others 2009).
//!
//! Trees see bootstrap samples: a sample counts in a tree as often as a Poisson variable of its number
//! says, so that no worker needs the samples of the others.

use crate::job::{self, WORKERS};
use data::Digits;
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule, Table};

const DEPTH: u32 = 10;
const BINS: usize = 4;
const CLASSES: usize = 10;
/// Pixels of an image after 2 × 2 of them became one, and how many of them a split may choose from.
const FEATURES: usize = 196;
const TRIED: usize = 14;
const SAMPLES: usize = 6000;
const HELD: usize = 1000;

/// What was found.
pub struct Report {
    /// Accuracy on held-out images, of one tree and of all.
    pub accuracy: (f32, f32),
    /// Whether all workers have grown the same forest.
    pub is_same: bool,
}

struct Sample {
    bins: [u8; FEATURES],
    label: usize,
}

/// Images of the built-in digits, their pixels in few bins.
fn sample(set: &Digits, index: usize) -> Sample {
    let (pixels, label) = set.image(index);
    let at = |f: usize| {
        let (y, x) = (f / 14 * 2, f % 14 * 2);
        let sum: usize =
            [(0, 0), (0, 1), (1, 0), (1, 1)].iter().map(|(i, j)| pixels[(y + i) * 28 + x + j] as usize).sum();
        (sum * BINS / (4 * 256)) as u8
    };
    Sample { bins: std::array::from_fn(at), label: label as usize }
}

/// A node of a tree: it sends a sample on, or answers.
#[derive(Clone, PartialEq)]
enum Node {
    Split { feature: usize, last_left: u8 },
    Leaf { label: usize },
}
/// Nodes by place: the children of node i are 2 i + 1 and 2 i + 2.
type Tree = Vec<Option<Node>>;

/// Where a sample ends, and the answer there if the tree is grown that far.
fn follow(tree: &Tree, s: &Sample) -> (usize, Option<usize>) {
    let mut at = 0;
    loop {
        match tree.get(at).and_then(Option::as_ref) {
            Some(Node::Split { feature, last_left }) => at = 2 * at + 1 + usize::from(s.bins[*feature] > *last_left),
            Some(Node::Leaf { label }) => return (at, Some(*label)),
            None => return (at, None),
        }
    }
}

/// How often a sample counts in a tree.
fn times(tree: usize, index: usize) -> f32 {
    let mut r = Random::new(((tree as u64) << 32) + index as u64);
    let (mut product, mut count) = (job::uniform(&mut r), 0.0);
    // Poisson of mean 1, by Knuth.
    while product > (-1.0f32).exp() {
        product *= job::uniform(&mut r);
        count += 1.0;
    }
    count
}
/// The features that a node may choose from.
fn tried(tree: usize, node: usize) -> Vec<usize> {
    let mut r = Random::new(1 << 60 | (tree as u64) << 32 | node as u64);
    (0..TRIED).map(|_| r.within(0..FEATURES as u64) as usize).collect()
}

/// The sum over both sides of Σ count² / total, which is greatest where classes are told apart best.
fn purity(left: &[f32], right: &[f32]) -> f32 {
    let side = |counts: &[f32]| {
        let total: f32 = counts.iter().sum();
        if total > 0.0 { counts.iter().map(|c| c * c).sum::<f32>() / total } else { 0.0 }
    };
    side(left) + side(right)
}
/// The node that the counts of labels by feature tried, bin and class ask for.
fn decide(counts: &[f32], features: &[usize], is_last: bool) -> Node {
    let bins = |f: usize| &counts[f * BINS * CLASSES..][..BINS * CLASSES];
    let total = |f: usize, bins_of: std::ops::Range<usize>| {
        let of = |c: usize| bins_of.clone().map(|b| bins(f)[b * CLASSES + c]).sum::<f32>();
        (0..CLASSES).map(of).collect::<Vec<f32>>()
    };
    let all = total(0, 0..BINS);
    let label = (0..CLASSES).max_by(|a, b| all[*a].total_cmp(&all[*b]).then(b.cmp(a))).unwrap_or(0);
    let mut best = (purity(&all, &[]) * 1.0001, None);
    for (f, feature) in features.iter().enumerate().filter(|_| !is_last) {
        for last_left in 0..BINS - 1 {
            let found = purity(&total(f, 0..last_left + 1), &total(f, last_left + 1..BINS));
            if found > best.0 {
                best = (found, Some(Node::Split { feature: *feature, last_left: last_left as u8 }));
            }
        }
    }
    best.1.unwrap_or(Node::Leaf { label })
}

/// Grows a forest of so many trees on every worker's samples.
pub fn run(trees: usize) -> Result<Report> {
    let forests = job::run(Rule::BSP, move |me, store| {
        let set = Digits::new(1, SAMPLES);
        let mine: Vec<(usize, Sample)> =
            (me as usize..SAMPLES).step_by(WORKERS as usize).map(|i| (i, sample(&set, i))).collect();
        let each = TRIED * BINS * CLASSES;
        let mut forest: Vec<Tree> = vec![vec![None; (2 << DEPTH) - 1]; trees];
        // A row for each node of a tree's widest level; a step grows one level of one tree. What is pushed
        // is added, so a step's sum is the difference to what was there.
        let table = Table::new(0, 1 << DEPTH, each, 1 << 20)?;
        let mut before = vec![0.0; each << DEPTH];
        store.create(&table, &before)?;
        for (t, tree) in forest.iter_mut().enumerate() {
            let often: Vec<f32> = mine.iter().map(|(i, _)| times(t, *i)).collect();
            for level in 0..=DEPTH {
                let first = (1usize << level) - 1;
                let features: Vec<Vec<usize>> = (0..=first).map(|n| tried(t, first + n)).collect();
                let mut counts = vec![0.0; each << level];
                for ((_, s), often) in mine.iter().zip(&often) {
                    let (at, answer) = follow(tree, s);
                    if answer.is_some() {
                        continue;
                    }
                    let row = &mut counts[(at - first) * each..][..each];
                    for (f, feature) in features[at - first].iter().enumerate() {
                        row[(f * BINS + s.bins[*feature] as usize) * CLASSES + s.label] += often;
                    }
                }
                let rows: Vec<usize> = (0..features.len()).collect();
                store.push_rows(&table, &rows, &counts, 0.0)?;
                store.clock()?;
                let now = store.pull_rows(&table, &rows)?;
                let counts: Vec<f32> = now.iter().zip(&before).map(|(a, b)| a - b).collect();
                before[..now.len()].copy_from_slice(&now);
                for (n, features) in features.iter().enumerate() {
                    let row = &counts[n * each..][..each];
                    let is_reached = row.iter().any(|c| *c > 0.5);
                    tree[first + n] = is_reached.then(|| decide(row, features, level == DEPTH));
                }
            }
        }
        Ok(forest)
    })?;
    let (forest, held) = (&forests[0], Digits::new(2, HELD));
    let mut right = (0, 0);
    for s in (0..HELD).map(|i| sample(&held, i)) {
        let mut votes = [0; CLASSES];
        forest.iter().filter_map(|t| follow(t, &s).1).for_each(|label| votes[label] += 1);
        let chosen = (0..CLASSES).max_by_key(|c| (votes[*c], std::cmp::Reverse(*c)));
        right.0 += usize::from(follow(&forest[0], &s).1 == Some(s.label));
        right.1 += usize::from(chosen == Some(s.label));
    }
    let share = |n: usize| n as f32 / HELD as f32;
    Ok(Report { accuracy: (share(right.0), share(right.1)), is_same: forests.iter().all(|f| f == forest) })
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (one, all) = self.accuracy;
        let (all, one) = (100.0 * all, 100.0 * one);
        write!(f, "random forest: {all:.1} % of {HELD} digits, {one:.1} % by one tree alone")?;
        if self.is_same { Ok(()) } else { write!(f, "; the workers' forests differ") }
    }
}
