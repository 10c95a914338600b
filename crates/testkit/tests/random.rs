//! Random graphs, optimized and run by a device, against the reference that runs op by op.
//!
//! `TALWEG_SEED=7` runs one graph, `TALWEG_SEEDS=10000` more of them. A failure is shrunk and
//! printed as text with the seed it came from.

use ir::{Buffer, Literal};
use runtime::{Engine, reference};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use talweg_testkit::random::{Sample, random_graph, shrink, with_gradients};

/// Graphs run by default.
const SEEDS: u64 = 300;

fn tolerance(l: &Literal) -> f64 {
    // Rounding is amplified a little at each of a few dozen nodes.
    if l.dtype() == ir::DType::F32 { 2e-4 } else { 1e-9 }
}

const SINGULAR: &str = "the matrix is singular";

/// Where a device and the reference disagree.
fn disagreement(engine: &Engine, s: &Sample) -> Option<String> {
    let want = match reference::run(&s.graph, &s.inputs) {
        Ok(want) => Some(want),
        // Which the gradient of a determinant meets: both must say so.
        Err(e) if e.message.contains(SINGULAR) => None,
        Err(e) => return Some(format!("the reference fails: {e}")),
    };
    let mut inputs: Vec<Buffer> = s.inputs.iter().cloned().map(Buffer::Host).collect();
    let run = AssertUnwindSafe(|| engine.compile(&s.graph).and_then(|p| p.run(&mut inputs)));
    let Ok(got) = catch_unwind(run) else { return Some("the device panics".into()) };
    let got = got.and_then(|all| all.iter().map(Buffer::read).collect::<ir::Result<Vec<Literal>>>());
    let got = match got {
        Ok(got) => got,
        Err(e) if want.is_none() && e.message.contains(SINGULAR) => return None,
        Err(e) => return Some(format!("the device fails: {e}")),
    };
    let Some(want) = want else { return Some("the device finds no singular matrix".into()) };
    for (k, (g, w)) in got.iter().zip(&want).enumerate() {
        if g.dtype() != w.dtype() || g.shape() != w.shape() {
            return Some(format!("output {k}: {}{} instead of {}{}", g.dtype(), g.shape(), w.dtype(), w.shape()));
        }
        for (i, (x, y)) in g.to_f64().into_iter().zip(w.to_f64()).enumerate() {
            let is_same = x == y || (x.is_nan() && y.is_nan());
            let off = (x - y).abs() / y.abs().max(1.0);
            if !is_same && (off.is_nan() || off > tolerance(w)) {
                return Some(format!("output {k}[{i}]: {x} instead of {y}"));
            }
        }
    }
    None
}

fn seeds() -> Vec<u64> {
    let number = |name: &str| std::env::var(name).ok().map(|v| v.parse().expect("an integer"));
    match number("TALWEG_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("TALWEG_SEEDS").unwrap_or(SEEDS)).collect(),
    }
}

fn agrees(engine: &Engine, sample: fn(u64) -> Sample) {
    for seed in seeds() {
        let s = sample(seed);
        if let Some(why) = disagreement(engine, &s) {
            let small = shrink(&s, &|s| disagreement(engine, s).is_some());
            let why_small = disagreement(engine, &small).unwrap_or_default();
            panic!("seed {seed}: {why}\nshrunk: {why_small}\n{small}");
        }
    }
}

#[test]
fn the_engine_agrees_with_the_reference() {
    agrees(ops::engine(), random_graph);
}

#[test]
fn the_cpu_agrees_with_the_reference() {
    agrees(&Engine::new(Arc::new(cpu::Cpu::new())), random_graph);
}

#[test]
fn the_cpu_agrees_with_the_reference_on_gradients() {
    let sample = |seed| with_gradients(&random_graph(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    agrees(&Engine::new(Arc::new(cpu::Cpu::new())), sample);
}

#[test]
fn random_graphs_keep_the_rules_and_are_varied() {
    let mut ops = std::collections::BTreeSet::new();
    let (mut nodes, mut empty) = (0, 0);
    for seed in 0..SEEDS {
        let s = random_graph(seed);
        s.graph.verify().unwrap_or_else(|e| panic!("seed {seed}: {e}\n{s}"));
        assert_eq!(s.graph, random_graph(seed).graph, "the same graph for the same seed");
        nodes += s.graph.nodes.len();
        empty += usize::from(s.graph.nodes.iter().any(|n| n.outs[0].shape.count() == 0));
        ops.extend(s.graph.nodes.iter().map(|n| n.op.name));
    }
    assert!(ops.len() > 50, "{} ops: {ops:?}", ops.len());
    assert!(nodes > 15 * SEEDS as usize, "{nodes} nodes");
    assert!((50..200).contains(&empty), "{empty} graphs with zero-size values");
}

#[test]
fn shrinking_finds_the_culprit() {
    // Pretend that every graph with a matrix product is wrong: little else must be left.
    let has = |s: &Sample| s.graph.nodes.iter().any(|n| n.op.name == "matmul");
    let is_asked = |s: &Sample| has(&Sample { graph: passes::prune(&s.graph), inputs: Vec::new() });
    let s = (0..).map(random_graph).find(|s| is_asked(s) && s.graph.nodes.len() > 30).unwrap();
    let small = shrink(&s, &|s| has(s) && reference::run(&s.graph, &s.inputs).is_ok());
    assert!(has(&small) && small.graph.nodes.len() <= 12, "{small}");
}
