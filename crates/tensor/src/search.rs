//! The search for a plan: every way to cut a train step over so many ranks, what each costs on a cluster, the best.
//!
//! A candidate is partitioned and staged as for a run, and the programs of its ranks are compiled. What they compute,
//! exchange and hold is read off these programs ([`crate::cost`]); the cluster says how long it takes.

use crate::cost::{Costs, Estimate, Kernels};
use crate::mesh::{MeshScope, Role, absent, batch};
use crate::plan::{PIPE, Pipe, Plan};
use ir::{Error, Graph, Mesh, Result, Spec, Type};
use passes::partition::{self, Partitioned, Placed, Request};
use runtime::Engine;
use sim::{Cluster, Kind};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

/// The ranks that a search is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranks {
    /// So many, along any axes.
    Count(usize),
    /// Those of a mesh.
    Mesh(Mesh),
}

impl Ranks {
    /// From text: a number, or the axes of a mesh.
    pub fn parse(text: &str) -> Result<Ranks> {
        match text.trim().parse() {
            Ok(0) => Err(Error::value("a mesh has ranks: 0 is none")),
            Ok(n) => Ok(Ranks::Count(n)),
            Err(_) => Mesh::parse(text).map(Ranks::Mesh),
        }
    }
    /// How many there are.
    pub fn count(&self) -> usize {
        match self {
            Ranks::Count(n) => *n,
            Ranks::Mesh(m) => m.ranks(),
        }
    }
}

/// What is searched, and where the result goes.
#[derive(Clone, Debug)]
pub struct Search {
    /// For which ranks.
    pub ranks: Ranks,
    /// The plan to complete, as lines; `None`: the built-in ones are tried.
    pub base: Option<String>,
    /// The cluster's name and description.
    pub cluster: (String, Cluster),
    /// How many plans are listed.
    pub top: usize,
    /// A folder: `table`, `plan`, `timeline.json` and `kernels`, the regions that were measured, are written there.
    pub folder: PathBuf,
}

/// A candidate and what it costs.
struct Found {
    mesh: Mesh,
    /// The plan's lines, without those that the search adds.
    base: String,
    plan: Plan,
    estimate: Estimate,
}

/// The share of a device's memory that a plan may fill: the rest is the allocator's and the program's.
const USABLE: f64 = 0.92;
/// Microbatches that are tried, as multiples of the stages.
const MULTIPLES: [usize; 4] = [1, 2, 4, 8];
/// Schedules that are tried.
const SCHEDULES: [Kind; 4] = [Kind::OneForwardOneBackward, Kind::GPipe, Kind::Interleaved(2), Kind::ZeroBubble];

/// The step that is cut: its graph, and what its inputs are.
struct Step<'a> {
    graph: &'a Graph,
    types: &'a [Type],
    roles: &'a [Role],
    rows: Option<usize>,
}

/// Searches, and writes the table, the best plan and its timeline.
pub(crate) fn search(s: &Search, graph: &Graph, types: &[Type], roles: &[Role], engine: &Engine) -> Result<()> {
    let step = Step { graph, types, roles, rows: batch(types, roles) };
    let cluster = s.cluster.1.among(s.ranks.count());
    let kernels = RefCell::default();
    let mut all = All { step, cluster: &cluster, engine, kernels: &kernels, found: Vec::new(), tried: 0, failed: None };
    let meshes = match &s.ranks {
        Ranks::Mesh(m) => vec![m.clone()],
        Ranks::Count(n) => meshes(*n)?,
    };
    for mesh in &meshes {
        let built_in = if size(mesh, "tensor") > 1 { "like: megatron" } else { "like: data" };
        all.mesh(mesh, s.base.as_deref().unwrap_or(built_in))?;
    }
    let (tried, least) = (all.tried, all.least_bytes());
    let mut found = all.found;
    found.retain(|f| f.estimate.bytes <= USABLE * cluster.memory);
    found.sort_by(|a, b| {
        a.estimate.step_s.total_cmp(&b.estimate.step_s).then(a.estimate.bytes.total_cmp(&b.estimate.bytes))
    });
    let Some(best) = found.first() else {
        let why = match (least, all.failed) {
            (Some(bytes), _) => format!(
                "the smallest needs {:.1} MB a rank, of {:.1} MB that each device has",
                bytes / 1e6,
                cluster.memory / 1e6
            ),
            (None, Some(e)) => e.to_string(),
            (None, None) => "no axis cuts it".to_string(),
        };
        return Err(Error::value(format!("no plan for {} ranks of {}: {why}", s.ranks.count(), s.cluster.0)));
    };
    let write = |name: &str, text: String| {
        let file = s.folder.join(name);
        std::fs::write(&file, text).map_err(|e| Error::new(ir::ErrorKind::Io, format!("{}: {e}", file.display())))
    };
    let kernels = kernels.take();
    write("kernels", kernels.iter().map(|(what, s)| format!("\"{what}\" = {s:e}\n")).collect())?;
    write("table", table(s, &found, tried, all.step.rows))?;
    write("plan", best.text(&s.cluster.0))?;
    write("timeline.json", best.estimate.timeline())
}

impl Found {
    /// A plan file.
    fn text(&self, cluster: &str) -> String {
        let e = &self.estimate;
        format!(
            "# On {cluster}, a step takes {} and {:.1} MB a rank, as predicted.\nmesh: {}\n{}\n{}",
            time(e.step_s),
            e.bytes / 1e6,
            self.mesh,
            self.base.trim_end(),
            self.plan.settings().iter().map(|(k, v)| format!("{k}: {v}\n")).collect::<String>()
        )
    }
    /// The plan in one line, as `--plan` takes it.
    fn line(&self) -> String {
        let name = self.base.strip_prefix("like: ").filter(|n| !n.contains('\n')).unwrap_or("as given");
        let settings: String = self.plan.settings().iter().map(|(k, v)| format!(",{k}={v}")).collect();
        format!("{name}{settings}")
    }
}

/// Seconds for people.
fn time(s: f64) -> String {
    if s < 1.0 { format!("{:.3} ms", s * 1e3) } else { format!("{s:.3} s") }
}

fn table(s: &Search, found: &[Found], tried: usize, rows: Option<usize>) -> String {
    let rows = rows.map_or(String::new(), |n| format!(", batch of {n} rows"));
    let mut out =
        format!("plans for {} ranks of {}{rows}: {tried} tried, {} fit\n", s.ranks.count(), s.cluster.0, found.len());
    out += "   ms/step  MB/rank    state  bubble %    MB sent  $/1000 steps  mesh and plan\n";
    for f in found.iter().take(s.top) {
        let e = &f.estimate;
        out += &format!(
            "{:>10.3} {:>8.2} {:>8.2} {:>9.1} {:>10.3} {:>13.5}  --mesh {} --plan {}\n",
            e.step_s * 1e3,
            e.bytes / 1e6,
            e.state_bytes / 1e6,
            100.0 * e.bubble,
            e.sent_bytes / 1e6,
            1e3 * e.price,
            f.mesh,
            f.line()
        );
    }
    out
}

fn size(mesh: &Mesh, axis: &str) -> usize {
    mesh.axis(axis).map_or(1, |a| mesh.size(a))
}

/// Every mesh of so many ranks. Stages are farthest apart, as they exchange least; parts of a layer are neighbors.
fn meshes(ranks: usize) -> Result<Vec<Mesh>> {
    let divisors = |n: usize| (1..=n).filter(move |d| n.is_multiple_of(*d));
    let mut all = Vec::new();
    for pipe in divisors(ranks).filter(|p| *p <= 64) {
        for tensor in divisors(ranks / pipe) {
            let axes = [(PIPE, pipe), ("data", ranks / pipe / tensor), ("tensor", tensor)];
            let mut used: Vec<(&str, usize)> = axes.into_iter().filter(|(_, n)| *n > 1).collect();
            if used.is_empty() {
                used.push(("data", 1));
            }
            all.push(Mesh::new(&used)?);
        }
    }
    Ok(all)
}

/// A search under way.
struct All<'a> {
    step: Step<'a>,
    cluster: &'a Cluster,
    engine: &'a Engine,
    kernels: &'a RefCell<Kernels>,
    found: Vec<Found>,
    tried: usize,
    failed: Option<Error>,
}

impl All<'_> {
    fn least_bytes(&self) -> Option<f64> {
        self.found.iter().map(|f| f.estimate.bytes).min_by(f64::total_cmp)
    }

    /// Every plan for a mesh.
    fn mesh(&mut self, mesh: &Mesh, base: &str) -> Result<()> {
        let plan = Plan::parse(base)?.on(mesh.clone());
        plan.check(mesh)?;
        // Nothing is gained by an axis that cuts nothing.
        let inputs = self.step.types.iter().zip(self.step.roles);
        let placed = inputs.map(|(ty, role)| plan.place(ty, role, mesh)).collect::<Result<Vec<Placed>>>()?;
        let is_used = |a: u8| mesh.name(a) == PIPE || mesh.size(a) == 1 || placed.iter().any(|p| p.spec.uses(a));
        if !(0..mesh.rank() as u8).all(is_used) {
            return Ok(());
        }
        let zeros: Vec<u8> = match (plan.zero(), size(mesh, "data")) {
            (0, n) if n > 1 => vec![0, 1, 2, 3],
            (stage, _) => vec![stage],
        };
        let stages = size(mesh, PIPE);
        for zero in zeros {
            let plan = plan.clone().with_zero(zero);
            let micros: Vec<usize> = match (plan.microbatches(), self.step.rows) {
                (Some(m), _) => vec![m],
                (None, Some(rows)) if stages > 1 => {
                    let fits = |m: &usize| rows.is_multiple_of(*m) && rows / m >= size(mesh, "data");
                    MULTIPLES.iter().map(|k| k * stages).filter(fits).collect()
                }
                _ => vec![1],
            };
            for m in micros {
                let plan = if m > 1 { plan.clone().with_microbatches(m) } else { plan.clone() };
                self.partitioned(mesh, base, &plan)?;
            }
            // Gradients are accumulated only where a plan does not fit otherwise.
            let is_full = |f: &Found| f.mesh == *mesh && f.estimate.bytes > USABLE * self.cluster.memory;
            if stages == 1 && plan.microbatches().is_none() && self.found.last().is_some_and(is_full) {
                let rows = self.step.rows.unwrap_or(1);
                for m in [2, 4, 8].into_iter().filter(|m| rows.is_multiple_of(*m) && rows / m >= size(mesh, "data")) {
                    self.partitioned(mesh, base, &plan.clone().with_microbatches(m))?;
                }
            }
        }
        Ok(())
    }

    /// The schedules of a plan whose microbatches are decided. What does not fit the model is passed over.
    fn partitioned(&mut self, mesh: &Mesh, base: &str, plan: &Plan) -> Result<()> {
        let scope = MeshScope::new(mesh.clone(), 0, absent(mesh), Vec::new(), plan.clone())?;
        let Step { graph, types, roles, rows } = self.step;
        let inputs =
            types.iter().zip(roles).map(|(ty, role)| plan.place(ty, role, mesh)).collect::<Result<Vec<Placed>>>()?;
        let is_variable = |k: &usize| matches!(roles[*k], Role::Parameter(_) | Role::State);
        let stored = |specs: &[Spec], is_mine: &dyn Fn(usize) -> bool| -> f64 {
            let bytes = |k: usize| types[k].dtype.size() * specs[k].local(&types[k].shape, mesh, 0).count();
            (0..types.len()).filter(|k| is_variable(k) && is_mine(*k)).map(|k| bytes(k) as f64).sum()
        };
        let costs = Costs::new(self.cluster, self.engine, mesh.ranks(), self.kernels);
        let Some(pipe) = plan.pipe(mesh) else {
            let (state_axes, scattered) = plan.zero_axes(mesh);
            let (exchange, sequence) = (scope.exchange(), plan.sequence_axes(mesh));
            // Ranks that share a processor have none for exchanges beside their own.
            let overlap = scope.overlap(self.engine).filter(|_| !self.cluster.is_shared);
            let (state, in_time) = (state_axes, false);
            let regathered = plan.regathered_axes(mesh);
            let request =
                Request { mesh, rank: 0, inputs, state, scattered, sequence, regathered, in_time, exchange, overlap };
            self.tried += 1;
            let done = partition::partition(graph, &request)?;
            let estimate = costs.program(&done.graph, mesh.ranks(), stored(&done.inputs, &|_| true))?;
            self.keep(mesh, base, plan.clone(), Ok(estimate));
            return Ok(());
        };
        let done: Partitioned = match scope.in_time(graph, inputs, rows.unwrap_or(0), roles, pipe) {
            Ok(done) => done,
            Err(e) => {
                self.failed.get_or_insert(e);
                return Ok(());
            }
        };
        let kinds: Vec<Kind> =
            if pipe.ranks == 1 || plan.has_schedule() { vec![pipe.kind] } else { SCHEDULES.to_vec() };
        let stride = mesh.axis(PIPE).map_or(1, |a| (a as usize + 1..mesh.rank()).map(|i| mesh.size(i as u8)).product());
        for kind in kinds {
            for recompute in [false, true] {
                let is_tried = !recompute || pipe.ranks > 1 && kind != Kind::ZeroBubble;
                if !is_tried || plan.recompute() && !recompute {
                    continue;
                }
                let pipe = Pipe { kind, recompute, ..pipe };
                let mut plan = plan.clone();
                if pipe.ranks > 1 {
                    plan = plan.with_schedule(kind).with_recompute(recompute);
                }
                let of =
                    |owners: &[Option<usize>], r: usize| stored(&done.inputs, &|k| owners[k].is_none_or(|o| o == r));
                let ranks = (scope.exchange() as &dyn passes::partition::Exchange, plan.has_overlap());
                let estimate = scope
                    .staged(done.graph.clone(), roles, pipe)
                    .and_then(|staged| costs.pipeline(Arc::new(staged), pipe, (stride, mesh.ranks()), ranks, &of));
                self.tried += 1;
                self.keep(mesh, base, plan, estimate);
            }
        }
        Ok(())
    }

    fn keep(&mut self, mesh: &Mesh, base: &str, plan: Plan, estimate: Result<Estimate>) {
        match estimate {
            Ok(estimate) => self.found.push(Found { mesh: mesh.clone(), base: base.to_string(), plan, estimate }),
            Err(e) => drop(self.failed.get_or_insert(e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meshes_are_all_products() {
        let all: Vec<String> = meshes(4).unwrap().iter().map(Mesh::to_string).collect();
        assert_eq!(all, ["data=4", "data=2,tensor=2", "tensor=4", "pipe=2,data=2", "pipe=2,tensor=2", "pipe=4"]);
        assert_eq!(meshes(1).unwrap()[0].to_string(), "data=1");
        assert_eq!(Ranks::parse("8").unwrap().count(), 8);
        assert_eq!(Ranks::parse("data=2,tensor=2").unwrap().count(), 4);
        assert!(Ranks::parse("0").is_err() && Ranks::parse("data").is_err());
    }
}
