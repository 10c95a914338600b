//! Seconds of a program on the device at hand without the ranks that it exchanges with: what they would answer is made
//! up. So one process measures any rank of any mesh.

use ir::{Buffer, Call, DType, Error, Graph, Literal, Result, Type};
use runtime::{Engine, Program, RegionWork, trace};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs that count at least, and at most.
const RUNS: (usize, usize) = (5, 40);
/// How long a program is run, unless that is too few runs.
const LONG: Duration = Duration::from_millis(250);

thread_local! {
    /// While a program is rehearsed on this thread: the time that was spent on exchanges.
    static AWAY: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// The result of an exchange with ranks that are not there, in the memory of a rehearsed program; false in all others.
pub(crate) fn exchange(input: Option<&[u8]>, out: &mut [u8]) -> bool {
    let Some(before) = AWAY.get() else { return false };
    let start = Instant::now();
    if let Some(x) = input {
        let known = x.len().min(out.len());
        out[..known].copy_from_slice(&x[..known]);
        out[known..].fill(0);
    }
    AWAY.set(Some(before + start.elapsed()));
    true
}

/// The same for an exchange of values; `None` unless a program is rehearsed.
pub(crate) fn exchanged(op: &str, call: &Call) -> Option<Result<Vec<Literal>>> {
    let before = AWAY.get()?;
    let start = Instant::now();
    let row = ops::find(op).ok_or_else(|| Error::bug(format!("the table has no op {op}")));
    let types = row.and_then(|row| (row.infer)(call));
    let made = types.map(|t| t.iter().map(|t| Literal::zeros(t.dtype, t.shape.clone())).collect());
    AWAY.set(Some(before + start.elapsed()));
    Some(made)
}

/// Seconds of a run, the median of some, while as many `copies` of the program run on the processors that other ranks
/// would use.
pub(crate) fn seconds(engine: &Engine, program: &Arc<dyn Program>, graph: &Graph, copies: usize) -> Result<f64> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 1..copies {
            scope.spawn(|| {
                let mut run = Run::new(engine, program, graph);
                while !is_over.load(Ordering::Relaxed) {
                    if !run.as_mut().is_ok_and(|r| r.once().is_ok()) {
                        break;
                    }
                }
            });
        }
        let measured = Run::new(engine, program, graph).and_then(|mut run| run.median());
        is_over.store(true, Ordering::Relaxed);
        measured
    })
}

/// What a region is in a table of kernels: its ops and its sizes.
pub(crate) fn kernel(name: &str, flops: usize, bytes: usize) -> String {
    format!("{name} {flops} {bytes}")
}

/// Seconds of each region of a program, which together are those of a run. Exchanges take none.
pub(crate) fn regions(
    engine: &Engine,
    program: &Arc<dyn Program>,
    graph: &Graph,
    list: &[RegionWork],
    copies: usize,
) -> Result<Vec<f64>> {
    let whole = seconds(engine, program, graph, copies)?;
    let mut run = Run::new(engine, program, graph)?;
    let (done, recording) = trace::record(|| (0..RUNS.0).try_for_each(|_| run.once().map(drop)));
    done?;
    let mut sums: FxHashMap<String, (f64, usize)> = FxHashMap::default();
    for e in &recording.events {
        let sum = sums.entry(kernel(&e.region.name, e.region.flops, e.region.bytes)).or_default();
        *sum = (sum.0 + e.duration_us * 1e-6, sum.1 + 1);
    }
    let each = |r: &RegionWork| match sums.get(&kernel(&r.name, r.flops, r.bytes)) {
        Some((sum, count)) if r.exchange.is_none() && r.ends.is_none() => sum / *count as f64,
        _ => 0.0,
    };
    Ok(fitted(list.iter().map(each).collect(), whole))
}

/// Times that were measured one by one, less what measuring each cost, so that they add up to `whole`.
fn fitted(mut all: Vec<f64>, whole: f64) -> Vec<f64> {
    /// What is left of a time at least, as its part.
    const LEAST: f64 = 0.1;
    let less = |by: f64| move |t: &f64| (t - by).max(LEAST * t);
    let sum = |by: f64| all.iter().map(less(by)).sum::<f64>();
    let (mut low, mut high) = (0.0, all.iter().copied().fold(0.0, f64::max));
    for _ in 0..60 {
        let by = (low + high) / 2.0;
        if sum(by) > whole { low = by } else { high = by }
    }
    let left = sum(high);
    let scale = if left > 0.0 { whole / left } else { 0.0 };
    all.iter_mut().for_each(|t| *t = less(high)(t) * scale);
    all
}

/// A program with inputs that are made up.
struct Run<'a> {
    engine: &'a Engine,
    program: &'a Arc<dyn Program>,
    graph: &'a Graph,
    inputs: Vec<Buffer>,
}

impl<'a> Run<'a> {
    fn new(engine: &'a Engine, program: &'a Arc<dyn Program>, graph: &'a Graph) -> Result<Run<'a>> {
        let input = |i: &u32| engine.device().place(&Buffer::Host(made_up(&graph.nodes[*i as usize].outs[0])));
        let inputs = graph.inputs.iter().map(input).collect::<Result<_>>()?;
        Ok(Run { engine, program, graph, inputs })
    }
    /// Seconds of one run but for its exchanges. Variables are updated where they are, as in a train step.
    fn once(&mut self) -> Result<f64> {
        let is_updated = |k: usize| self.graph.updates.iter().any(|(input, _)| *input as usize == k);
        let nothing = || Buffer::Host(Literal::nothing());
        let given = self.inputs.iter_mut().enumerate();
        let mut inputs: Vec<Buffer> =
            given.map(|(k, b)| if is_updated(k) { std::mem::replace(b, nothing()) } else { b.clone() }).collect();
        AWAY.set(Some(Duration::ZERO));
        let start = Instant::now();
        let done = self.program.run(&mut inputs).and_then(|o| self.engine.device().synchronize().map(|()| o));
        let all = start.elapsed();
        let away = AWAY.replace(None).unwrap_or_default();
        let outputs = done?;
        for &(k, o) in &self.graph.updates {
            self.inputs[k as usize] = outputs[o as usize].clone();
        }
        Ok(all.saturating_sub(away).as_secs_f64())
    }
    fn median(&mut self) -> Result<f64> {
        // The first run finds nothing in caches, and its arena is new.
        self.once()?;
        self.once()?;
        let (start, mut all) = (Instant::now(), Vec::new());
        while all.len() < RUNS.0 || (all.len() < RUNS.1 && start.elapsed() < LONG) {
            all.push(self.once()?);
        }
        all.sort_by(f64::total_cmp);
        Ok(all[all.len() / 2])
    }
}

/// A value of a type: small positive numbers, or zeros, which are an index of anything.
fn made_up(ty: &Type) -> Literal {
    if !matches!(ty.dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16) {
        return Literal::zeros(ty.dtype, ty.shape.clone());
    }
    let data: Vec<f64> = (0..ty.shape.count()).map(|i| 0.01 + 0.001 * (i % 7) as f64).collect();
    Literal::from_f64(ty.dtype, ty.shape.clone(), &data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::Site;

    #[test]
    fn times_of_regions_add_up() {
        for whole in [3.0, 5.0, 9.0, 0.1] {
            let all = fitted(vec![1.0, 0.0, 2.0, 3.0], whole);
            assert!((all.iter().sum::<f64>() - whole).abs() < 1e-9 && all[1] == 0.0, "{all:?}");
        }
        // What each measurement costs is the same for all.
        let all = fitted(vec![1.0, 2.0, 3.0], 4.5);
        assert!(all.iter().zip([0.5, 1.5, 2.5]).all(|(a, b)| (a - b).abs() < 1e-9), "{all:?}");
    }

    #[test]
    fn a_program_runs_without_the_others() {
        let mesh = ir::Mesh::parse("data=4").unwrap();
        let ranks = ops::collective::MeshRanks(crate::mesh::absent(&mesh));
        let mut g = Graph::new();
        let x = g.input("", &Type::new(DType::F32, [64, 64]), Site::UNKNOWN);
        let sum = passes::partition::Exchange::all_reduce(&ranks, &mut g, x, 0, ir::Monoid::Sum, Site::UNKNOWN);
        g.outputs = vec![sum.unwrap()];
        let engine = ops::engine();
        let program = engine.compile(&g).unwrap();
        let long = seconds(engine, &program, &g, 2).unwrap();
        assert!(long > 0.0, "{long}");
        let e = program.run(&mut [Buffer::Host(made_up(&Type::new(DType::F32, [64, 64])))]).err().unwrap();
        assert!(e.to_string().contains("explained, not run"), "{e}");
    }
}
