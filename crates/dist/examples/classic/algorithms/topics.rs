//! Latent Dirichlet allocation by Gibbs sampling: how often each word has each topic is shared,
//! a worker keeps the topics of its documents' words.

use crate::job::{self, WORKERS, uniform};
use net::sim::Random;
use std::fmt;
use talweg_dist::{Result, Rule, Table};

const TOPICS: usize = 3;
const WORDS: usize = 30;
const DOCUMENTS: usize = 60;
const LENGTH: usize = 50;
const SWEEPS: usize = 120;
const ALPHA: f32 = 0.1;
const BETA: f32 = 0.02;

/// What was found.
pub struct Report {
    /// Share of the words' counts that lie in the topic most of their true topic's words have.
    pub purity: f32,
    /// All counts together, which no sweep may change.
    pub total: f32,
}

/// Documents of mostly one topic; topic t has the words from 10 t to 10 t + 9.
fn document(d: usize) -> Vec<usize> {
    let mut r = Random::new(600 + d as u64);
    let per = WORDS / TOPICS;
    let topic = |r: &mut Random| if uniform(r) < 0.9 { d % TOPICS } else { r.within(0..TOPICS as u64) as usize };
    (0..LENGTH).map(|_| topic(&mut r) * per + r.within(0..per as u64) as usize).collect()
}

pub fn run(rule: Rule) -> Result<Report> {
    let table = Table::new(0, WORDS, TOPICS, 64)?;
    let ends = job::run(rule, move |me, store| {
        store.create(&table, &[0.0; WORDS * TOPICS])?;
        let mut r = Random::new(7 + u64::from(me));
        let documents: Vec<Vec<usize>> = (me as usize..DOCUMENTS).step_by(WORKERS as usize).map(document).collect();
        let mut topics: Vec<Vec<usize>> =
            documents.iter().map(|d| d.iter().map(|_| r.within(0..TOPICS as u64) as usize).collect()).collect();
        for sweep in 0..=SWEEPS {
            let mut counts = store.pull(&[table])?.remove(0);
            let mut change = vec![0.0; WORDS * TOPICS];
            for (words, topics) in documents.iter().zip(&mut topics) {
                let mut here = [0.0f32; TOPICS];
                topics.iter().for_each(|t| here[*t] += 1.0);
                for (word, topic) in words.iter().zip(topics.iter_mut()) {
                    if sweep == 0 {
                        // The first step brings the counts there are.
                        change[word * TOPICS + *topic] += 1.0;
                        continue;
                    }
                    let old = *topic;
                    counts[word * TOPICS + old] -= 1.0;
                    here[old] -= 1.0;
                    let total = |t: usize| (0..WORDS).map(|w| counts[w * TOPICS + t]).sum::<f32>();
                    // Counts of others may be late, and then a little below zero.
                    let weight = |t: usize| {
                        let share =
                            (counts[word * TOPICS + t].max(0.0) + BETA) / (total(t).max(0.0) + BETA * WORDS as f32);
                        (here[t] + ALPHA) * share
                    };
                    let weights: [f32; TOPICS] = std::array::from_fn(weight);
                    let mut left = uniform(&mut r) * weights.iter().sum::<f32>();
                    let new = weights.iter().position(|w| {
                        left -= w;
                        left < 0.0
                    });
                    *topic = new.unwrap_or(TOPICS - 1);
                    counts[word * TOPICS + *topic] += 1.0;
                    here[*topic] += 1.0;
                    change[word * TOPICS + old] -= 1.0;
                    change[word * TOPICS + *topic] += 1.0;
                }
            }
            store.push(&table, &change, 0.0)?;
            store.clock()?;
        }
        store.wait()?;
        Ok(topics.into_iter().zip(documents).collect::<Vec<_>>())
    })?;
    let mut counts = [[0.0f32; TOPICS]; TOPICS];
    for (topics, words) in ends.iter().flatten() {
        words.iter().zip(topics).for_each(|(w, t)| counts[w / (WORDS / TOPICS)][*t] += 1.0);
    }
    let total: f32 = counts.iter().flatten().sum();
    let best: f32 = counts.iter().map(|row| row.iter().copied().fold(0.0, f32::max)).sum();
    Ok(Report { purity: best / total, total })
}
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topics: {:.1} % of {} words are in the topic of their kind", 100.0 * self.purity, self.total)
    }
}
