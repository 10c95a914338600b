//! A jitted function on a mesh of ranks: its graph is cut as a plan says, and each rank runs its part.
//!
//! The program has a global view: variables and arguments have the shapes that they have on one device, and every rank
//! runs the same script. A variable that the plan cuts is stored in parts; reading it outside of a jitted function
//! gathers it, so every rank has to read it at the same point of the program.

use crate::blocks::{Blocks, OnDisk, Ranges};
use crate::pipeline::Pipeline;
use crate::plan::{PIPE, Pipe, Plan};
use crate::rehearse;
use crate::search::{Search, search};
use ir::{
    Buffer, Call, Collect, FlatNode, Graph, Layout, Literal, Mesh, Peers, PeersHandle, Result, Runs, Shape, Spec,
    Storage, Type, Value, Var, collect,
};
use ops::collective::{MeshRanks, Ranks};
use ops::{Combine, Tensor};
use parking_lot::Mutex;
use passes::partition::{self, Inserted, Partitioned, Placed, Request, time};
use passes::stage::{self, Holding, Staged};
use runtime::Engine;
use std::any::Any;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;

/// A mesh, this process's place in it, and the plan.
#[derive(Debug)]
pub struct MeshScope {
    /// The mesh.
    pub mesh: Mesh,
    /// This process's rank.
    pub rank: usize,
    ranks: MeshRanks,
    /// The pair of this rank and each other one along the axis of a pipeline.
    pairs: Vec<Option<PeersHandle>>,
    plan: Plan,
    task: Task,
}

/// What is done with a train step.
#[derive(Debug)]
enum Task {
    /// It runs.
    Run,
    /// Its exchanges are written to a file.
    Explain(PathBuf),
    /// A plan for it is searched.
    Search(Box<Search>),
}

/// Ranks that were not started: a step can be cut over them and rehearsed, but not run.
pub(crate) struct Absent {
    pub size: usize,
    /// The distance between two of them in the mesh.
    pub stride: usize,
}

impl Peers for Absent {
    fn rank(&self) -> usize {
        0
    }
    fn size(&self) -> usize {
        self.size
    }
    fn run(&self, op: &'static str, call: &Call, _: &[Literal]) -> Result<Vec<Literal>> {
        let absent = || Err(ops::Error::value("the step was explained, not run"));
        rehearse::exchanged(op, call).unwrap_or_else(absent)
    }
    fn run_over(&self, _: &'static str, _: &Call, input: Option<&[u8]>, out: &mut [u8]) -> Result<bool> {
        Ok(rehearse::exchange(input, out))
    }
}

/// The ranks along each axis of a mesh that is not there. Axes of one size and stride have one handle, so that their
/// programs are compiled once.
pub(crate) fn absent(mesh: &Mesh) -> Vec<PeersHandle> {
    static KNOWN: Mutex<Vec<PeersHandle>> = Mutex::new(Vec::new());
    let one = |axis: u8| {
        let (size, stride) = (mesh.size(axis), (axis + 1..mesh.rank() as u8).map(|a| mesh.size(a)).product());
        let mut known = KNOWN.lock();
        let is_same = |h: &&PeersHandle| h.downcast::<Absent>().is_ok_and(|a| (a.size, a.stride) == (size, stride));
        if let Some(found) = known.iter().find(is_same) {
            return found.clone();
        }
        let new = PeersHandle(Arc::new(Absent { size, stride }));
        known.push(new.clone());
        new
    };
    (0..mesh.rank() as u8).map(one).collect()
}

impl MeshScope {
    /// From the groups of ranks along each axis, and the pairs of this rank and each other one of its pipeline.
    pub fn new(
        mesh: Mesh,
        rank: usize,
        groups: Vec<PeersHandle>,
        pairs: Vec<Option<PeersHandle>>,
        plan: Plan,
    ) -> Result<Arc<MeshScope>> {
        plan.check(&mesh)?;
        Ok(Arc::new(MeshScope { mesh, rank, ranks: MeshRanks(groups), pairs, plan, task: Task::Run }))
    }
    /// Rank 0 of a mesh that is not there: the exchanges of each train step are appended to a file.
    pub fn explaining(mesh: Mesh, plan: Plan, report: PathBuf) -> Result<Arc<MeshScope>> {
        plan.check(&mesh)?;
        let ranks = MeshRanks(absent(&mesh));
        let pair = |axis: u8, i: usize| (i > 0).then(|| ranks.0[axis as usize].clone());
        let pairs = mesh.axis(PIPE).map_or(Vec::new(), |a| (0..mesh.size(a)).map(|i| pair(a, i)).collect());
        Ok(Arc::new(MeshScope { mesh, rank: 0, ranks, pairs, plan, task: Task::Explain(report) }))
    }
    /// One process that searches a plan for its train step.
    pub fn searching(search: Search) -> Result<Arc<MeshScope>> {
        let (mesh, task) = (Mesh::new(&[("data", 1)])?, Task::Search(Box::new(search)));
        let ranks = MeshRanks(absent(&mesh));
        Ok(Arc::new(MeshScope { mesh, rank: 0, ranks, pairs: Vec::new(), plan: Plan::default(), task }))
    }
    /// How ranks exchange.
    pub(crate) fn exchange(&self) -> &MeshRanks {
        &self.ranks
    }
    /// How exchanges go on while a device computes, if they do.
    pub(crate) fn overlap(&self, engine: &Engine) -> Option<&dyn partition::Overlap> {
        let is_done = self.plan.has_overlap() && engine.device().computes_meanwhile();
        is_done.then_some(&self.ranks)
    }
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// This rank's place along the axis of a pipeline.
    fn pipe_rank(&self) -> usize {
        self.mesh.axis(PIPE).map_or(0, |a| self.mesh.coordinate(self.rank, a))
    }
    /// Waits for all ranks; whether all of them say yes.
    pub fn all(&self, yes: bool) -> Result<bool> {
        let mut all = yes;
        for peers in &self.ranks.0 {
            let said = Tensor::from(i32::from(all));
            all = Ranks(peers.clone()).all_reduce(&said, Combine::Min).item::<i32>()? == 1;
        }
        Ok(all)
    }
}

/// The mesh that the program was started on. The outermost crate submits one.
pub struct AmbientMesh(pub fn() -> Result<Option<Arc<MeshScope>>>);
inventory::collect!(AmbientMesh);

thread_local! {
    /// The meshes of the scopes that this thread is in, innermost last.
    static SCOPES: RefCell<Vec<Arc<MeshScope>>> = const { RefCell::new(Vec::new()) };
}

/// Runs `f` as one rank of a mesh: on this thread, jitted functions are cut over it.
pub fn with_mesh<T>(scope: Arc<MeshScope>, f: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            SCOPES.with_borrow_mut(Vec::pop);
        }
    }
    SCOPES.with_borrow_mut(|s| s.push(scope));
    let _leave = Leave;
    f()
}

/// The mesh that this thread runs on, if it has more than one rank or microbatch.
pub fn current_mesh() -> Result<Option<Arc<MeshScope>>> {
    let own = SCOPES.with_borrow(|s| s.last().cloned());
    let found = match own {
        Some(scope) => Some(scope),
        None => inventory::iter::<AmbientMesh>().next().map_or(Ok(None), |a| (a.0)())?,
    };
    let is_used = |s: &Arc<MeshScope>| s.mesh.ranks() > 1 || s.plan.is_accumulating() || !matches!(s.task, Task::Run);
    Ok(found.filter(is_used))
}

/// What an input of a graph is to a plan.
pub(crate) enum Role {
    /// An argument of the function.
    Argument,
    /// A variable that is trained, with its name.
    Parameter(Arc<str>),
    /// Another variable, such as an optimizer's state.
    State,
    /// A random key or a captured value.
    Other,
}

/// A graph that was cut: the program of this rank.
pub(crate) struct Sharding {
    scope: Arc<MeshScope>,
    pub local: Arc<Graph>,
    /// Types and shardings, and the rank of the pipeline that stores the value; `None`: all.
    inputs: Vec<(Type, Spec, Option<usize>)>,
    outputs: Vec<(Type, Spec, Option<usize>)>,
    pub inserted: Vec<Inserted>,
    pub pipeline: Option<Pipeline>,
    names: Vec<Option<Arc<str>>>,
}

impl Sharding {
    /// Cuts a graph, given what its inputs are.
    pub fn new(scope: Arc<MeshScope>, graph: &Graph, roles: &[Role], engine: &Engine) -> Result<Sharding> {
        // Complex numbers are pairs inside of a program only.
        let whole = passes::has_complex(graph);
        let optimized = if whole { graph.clone() } else { engine.optimize(graph)? };
        let types: Vec<Type> = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        if let (Task::Search(s), false) = (&scope.task, graph.updates.is_empty() || whole) {
            search(s, &optimized, &types, roles, engine)?;
            return Err(ops::Error::value("the step was planned, not run"));
        }
        let (mesh, plan) = (&scope.mesh, &scope.plan);
        let place = |(ty, role): (&Type, &Role)| plan.place(ty, role, mesh);
        let inputs: Vec<Placed> = types.iter().zip(roles).map(place).collect::<Result<_>>()?;
        if let (Some(axis), false) = (plan.context(mesh), graph.updates.is_empty())
            && !inputs.iter().any(|p| p.spec.dim_of(axis).is_some())
        {
            let n = mesh.size(axis);
            let e = format!(
                "context={n} cuts sequences, the second dimension of arguments [batch, sequence, …], and no argument \
                 has one whose size is a multiple of {}",
                2 * n
            );
            return Err(ops::Error::value(e).in_op("mesh"));
        }
        let rows = batch(&types, roles);
        let pipe = plan.pipe(mesh).filter(|_| !whole && !graph.updates.is_empty() && rows.is_some());
        let mut pipeline = None;
        let mut owners = (vec![None; types.len()], vec![None; graph.outputs.len()]);
        let Partitioned { graph: local, inputs, outputs, inserted } = if whole {
            let rank = |t: &Type| Spec::whole(t.shape.rank());
            let (inputs, outputs) =
                (types.iter().map(rank).collect(), graph.outputs.iter().map(|&o| rank(graph.ty(o))));
            Partitioned { graph: optimized, inputs, outputs: outputs.collect(), inserted: Vec::new() }
        } else if let Some(pipe) = pipe {
            let done = scope.in_time(&optimized, inputs, rows.unwrap_or(0), roles, pipe)?;
            let staged = scope.staged(done.graph.clone(), roles, pipe)?;
            owners.0.clone_from(&staged.owners);
            for &(k, o) in &graph.updates {
                owners.1[o as usize] = staged.owners[k as usize];
            }
            let pairs = scope.pairs.iter().map(|p| p.clone().map(Ranks)).collect();
            pipeline = Some(Pipeline::new(Arc::new(staged), pipe, scope.pipe_rank(), pairs, plan.has_overlap())?);
            done
        } else {
            let (state, scattered) = plan.zero_axes(mesh);
            let (rank, exchange, sequence) = (scope.rank, &scope.ranks, plan.sequence_axes(mesh));
            let overlap = scope.overlap(engine);
            let (in_time, regathered) = (false, plan.regathered_axes(mesh));
            let request =
                Request { mesh, rank, inputs, state, scattered, sequence, regathered, in_time, exchange, overlap };
            partition::partition(&optimized, &request)?
        };
        let name = |r: &Role| if let Role::Parameter(name) = r { Some(name.clone()) } else { None };
        let with = |(ty, (spec, owner))| (ty, spec, owner);
        let inputs = types.into_iter().zip(inputs.into_iter().zip(owners.0)).map(with).collect();
        let types = graph.outputs.iter().map(|&o| graph.ty(o).clone());
        let outputs = types.zip(outputs.into_iter().zip(owners.1)).map(with).collect();
        let names = roles.iter().map(name).collect();
        let sharding =
            Sharding { local: Arc::new(local), inputs, outputs, inserted, pipeline, names, scope: scope.clone() };
        if let (Task::Explain(file), false) = (&scope.task, graph.updates.is_empty()) {
            let write = |e: std::io::Error| ops::Error::new(ops::ErrorKind::Io, format!("{}: {e}", file.display()));
            std::fs::write(file, sharding.text()).map_err(write)?;
        }
        plan.check_inserted(&sharding.inserted, mesh)?;
        Ok(sharding)
    }

    /// How ranks exchange.
    pub fn exchange(&self) -> &MeshRanks {
        &self.scope.ranks
    }
    fn is_mine(&self, owner: Option<usize>) -> bool {
        owner.is_none_or(|o| o == self.scope.pipe_rank())
    }
    /// Computes this rank's part of a variable's first value, which would otherwise be computed whole and cut.
    pub fn initialize(&self, input: usize, var: &Arc<Var>, engine: &Engine) -> Result<()> {
        let (value, (ty, spec, owner)) = (var.current(), &self.inputs[input]);
        if value.is_computed() || (spec.is_whole() && owner.is_none()) || !spec.dealt.is_empty() {
            return Ok(());
        }
        let c = collect(std::slice::from_ref(&value), Collect::Now)?;
        let leaves: Vec<Buffer> = c.leaves.iter().filter_map(Value::buffer).collect();
        let is_on_host = leaves.len() == c.leaves.len() && leaves.iter().all(|b| matches!(b, Buffer::Host(_)));
        let is_plain = !c.graph.nodes.iter().any(FlatNode::is_ordered) && !passes::has_complex(&c.graph);
        if !is_on_host || !is_plain || !c.reads.is_empty() {
            return Ok(());
        }
        let mut local = Buffer::Host(Literal::nothing());
        if self.is_mine(*owner) {
            let MeshScope { mesh, rank, ranks, .. } = &*self.scope;
            let optimized = engine.optimize(&c.graph)?;
            let shards = partition::shards(&optimized, std::slice::from_ref(spec), (mesh, *rank, ranks))?;
            let Some(graph) = shards else { return Ok(()) };
            local = engine.compile(&graph)?.run(&mut { leaves })?.remove(0);
        }
        let whole = self.joined(local, ty, spec, *owner);
        value.node().fill(value.out(), whole.clone());
        var.set_buffer(whole);
        Ok(())
    }
    /// This rank's parts of the inputs.
    pub fn cut(&self, buffers: &mut [Buffer]) -> Result<()> {
        let MeshScope { mesh, rank, .. } = &*self.scope;
        for (k, (b, (ty, spec, owner))) in buffers.iter_mut().zip(&self.inputs).enumerate() {
            if let Some(spread) = storage::<Spread>(b) {
                *b = if spread.spec == *spec && spread.owner == *owner {
                    spread.taken(is_only(b))
                } else {
                    spread.resharded(spec)?
                };
            } else if self.pipeline.as_ref().is_some_and(|p| !p.needs(k)) || !self.is_mine(*owner) {
                // Another rank has it.
            } else if let Some(file) = storage::<OnDisk>(b).filter(|_| spec.dealt.is_empty()) {
                *b = Buffer::Host(file.range(&spec.ranges(&ty.shape, mesh, *rank))?);
            } else if !spec.is_whole() {
                let part = cut(&b.read()?, &ty.shape, spec, mesh, *rank);
                release(std::mem::replace(b, Buffer::Host(part)));
            }
        }
        Ok(())
    }
    /// The outputs as values of the whole program.
    pub fn join(&self, buffers: &mut [Buffer]) {
        for (b, (ty, spec, owner)) in buffers.iter_mut().zip(&self.outputs) {
            let local = std::mem::replace(b, Buffer::Host(Literal::nothing()));
            *b = self.joined(local, ty, spec, *owner);
        }
    }
    fn joined(&self, local: Buffer, ty: &Type, spec: &Spec, owner: Option<usize>) -> Buffer {
        if spec.is_whole() && owner.is_none() {
            return local;
        }
        let (local, spec, scope) = (Mutex::new(local), spec.clone(), self.scope.clone());
        Buffer::Device(Arc::new(Spread { local, spec, owner, ty: ty.clone(), scope }))
    }
    /// An input whose memory was lent to a run, as a value of the whole program; `None` if nothing is left of it.
    pub fn returned(&self, input: usize, left: Buffer) -> Option<Buffer> {
        let (ty, spec, owner) = &self.inputs[input];
        if storage::<Spread>(&left).is_some() {
            return Some(left);
        }
        if !self.is_mine(*owner) {
            return Some(self.joined(Buffer::Host(Literal::nothing()), ty, spec, *owner));
        }
        let part = spec.local(&ty.shape, &self.scope.mesh, self.scope.rank);
        let is_gone = matches!(&left, Buffer::Host(l) if *l.shape() != part);
        (!is_gone).then(|| self.joined(left, ty, spec, *owner))
    }
    /// For people: every exchange, with the lines of the program.
    pub fn text(&self) -> String {
        let names = |k: usize| self.names[k].as_ref().map_or("input".to_string(), |n| n.to_string());
        let stages = self.pipeline.as_ref().map_or(String::new(), |p| p.text(&names));
        stages + &report(&self.inserted, &self.scope.mesh)
    }
}

/// The rows of the batch: those of the first argument that has some.
pub(crate) fn batch(types: &[Type], roles: &[Role]) -> Option<usize> {
    let mut arguments = types.iter().zip(roles).filter(|(_, r)| matches!(r, Role::Argument));
    arguments.find_map(|(t, _)| t.shape.first().copied())
}

impl MeshScope {
    /// The program of this rank for each microbatch.
    pub(crate) fn in_time(
        &self,
        graph: &Graph,
        mut inputs: Vec<Placed>,
        rows: usize,
        roles: &[Role],
        pipe: Pipe,
    ) -> Result<Partitioned> {
        if !rows.is_multiple_of(pipe.micros) || rows == 0 {
            let e = format!("a batch of {rows} rows is not cut into {} microbatches of one size", pipe.micros);
            return Err(ops::Error::value(e).in_op("stage"));
        }
        for ((placed, role), &i) in inputs.iter_mut().zip(roles).zip(&graph.inputs) {
            placed.spec = time::in_time(&placed.spec);
            placed.stored.iter_mut().for_each(|a| *a += 1);
            let shape = &graph.nodes[i as usize].outs[0].shape;
            if matches!(role, Role::Argument) && shape.first() == Some(&rows) {
                let mut rest = rows / pipe.micros;
                // A part of no rows is useless.
                placed.spec.dims[0].retain(|a| {
                    let n = self.mesh.size(*a - 1);
                    let fits = rest >= n;
                    rest = if fits { rest / n } else { rest };
                    fits
                });
                placed.spec.dims[0].insert(0, time::TIME);
            }
        }
        let mesh = time::mesh_in_time(&self.mesh, pipe.micros)?;
        let (state, scattered) = self.plan.zero_axes(&self.mesh);
        let up = |axes: Vec<u8>| axes.into_iter().map(|a| a + 1).collect();
        let sequence = up(self.plan.sequence_axes(&self.mesh));
        let request = Request {
            mesh: &mesh,
            rank: self.rank,
            inputs,
            state: up(state),
            scattered: up(scattered),
            sequence,
            regathered: Vec::new(),
            in_time: true,
            exchange: &time::InTime(&self.ranks),
            overlap: None,
        };
        let mut done = partition::partition(graph, &request)?;
        done.inputs = done.inputs.iter().map(time::out_of_time).collect();
        done.outputs = done.outputs.iter().map(time::out_of_time).collect();
        done.inserted = time::exchanges_out_of_time(done.inserted);
        Ok(done)
    }

    /// The same in the stages of a pipeline.
    pub(crate) fn staged(&self, graph: Graph, roles: &[Role], pipe: Pipe) -> Result<Staged> {
        let holding = |r: &Role| match r {
            Role::Parameter(name) => Holding::Parameter { name: name.clone(), stage: self.plan.stage(name) },
            Role::State => Holding::State,
            Role::Argument | Role::Other => Holding::Shared,
        };
        let inputs = roles.iter().map(holding).collect();
        let (chunks, is_split) = (pipe.kind.chunks(), pipe.kind == sim::Kind::ZeroBubble);
        // The last stage goes back at once: what it keeps is no more than what it would compute again.
        let is_last_kept = !matches!(pipe.kind, sim::Kind::GPipe);
        let stages = pipe.ranks * chunks - usize::from(is_last_kept);
        let recomputed = if pipe.recompute { stages } else { 0 };
        stage::stage(graph, &stage::Request { ranks: pipe.ranks, chunks, is_split, recomputed, inputs })
    }
}

/// A table of exchanges: what, along which axis, bytes that a rank sends, the value, the line that needs it, and why.
pub fn report(inserted: &[Inserted], mesh: &Mesh) -> String {
    let mut out = String::new();
    for i in inserted {
        let (axis, value) = (mesh.name(i.step.axis()), i.from.text(&i.ty.shape, mesh));
        let by = i.used_by.unwrap_or("result");
        let from = i.made_by.map_or("input".to_string(), |op| format!("{op} at {}", i.made_at));
        let step = i.step.to_string();
        out += &format!(
            "{step:<14} {axis:<8} {:>10} B  {}{value} for {by} at {}, from {from}\n",
            i.bytes.round(),
            i.ty.dtype,
            i.used_at
        );
    }
    out
}

/// The storage of a value, if it is of that kind.
fn storage<T: 'static>(b: &Buffer) -> Option<&T> {
    match b {
        Buffer::Device(s) => s.as_any().downcast_ref(),
        Buffer::Host(_) => None,
    }
}

/// The blocks of a value that ranks of a mesh hold in parts.
pub fn blocks_of(b: &Buffer) -> Result<Option<Blocks>> {
    let Some(s) = storage::<Spread>(b) else { return Ok(None) };
    let MeshScope { mesh, rank, .. } = &*s.scope;
    if !s.spec.dealt.is_empty() {
        // Parts of many ranges: one block is written by the first rank.
        let (whole, full) = (s.read()?, s.ty.shape.iter().map(|n| 0..*n).collect());
        return Ok(Some(Blocks { ty: s.ty.clone(), all: vec![(0, full)], mine: (*rank == 0).then_some(whole) }));
    }
    let mut all: Vec<(usize, Ranges)> = Vec::new();
    let pipe = mesh.axis(PIPE);
    let has_it = |r: &usize| s.owner.is_none_or(|o| pipe.is_none_or(|a| mesh.coordinate(*r, a) == o));
    for r in (0..mesh.ranks()).filter(has_it) {
        let ranges = s.spec.ranges(&s.ty.shape, mesh, r).to_vec();
        if !ranges.iter().any(|r| r.is_empty()) && !all.iter().any(|(_, known)| *known == ranges) {
            all.push((r, ranges));
        }
    }
    let is_mine = all.iter().any(|(r, _)| r == rank);
    let mine = is_mine.then(|| s.local().read()).transpose()?;
    Ok(Some(Blocks { ty: s.ty.clone(), all, mine }))
}

/// A rank's part of a value.
fn cut(whole: &Literal, shape: &Shape, spec: &Spec, mesh: &Mesh, rank: usize) -> Literal {
    if !spec.dealt.is_empty() {
        let runs: Vec<Runs> = (0..shape.rank()).map(|d| spec.runs(d, shape[d], mesh, rank)).collect();
        let own: Vec<Vec<usize>> = runs.iter().map(|r| r.iter().cloned().flatten().collect()).collect();
        let (local, strides) = (spec.local(shape, mesh, rank), shape.strides());
        let steps = local.strides();
        let place = |i: usize| {
            let one = |d: usize| own[d][i / steps[d] as usize % local[d]] * strides[d] as usize;
            Some((0..local.rank()).map(one).sum())
        };
        return whole.pick(&local, place);
    }
    let (ranges, strides) = (spec.ranges(shape, mesh, rank), shape.strides());
    let offset = ranges.iter().zip(&strides).map(|(r, &s)| r.start * s as usize).sum();
    whole.gather(&Layout { shape: ranges.iter().map(std::ops::Range::len).collect(), strides, offset })
}

/// A value whose parts are on the ranks of a mesh.
struct Spread {
    /// This rank's part; nothing where another rank of the pipeline stores the value, and after a run took it.
    local: Mutex<Buffer>,
    spec: Spec,
    /// The rank of the pipeline that stores it; `None`: all.
    owner: Option<usize>,
    ty: Type,
    scope: Arc<MeshScope>,
}

/// Gives the memory of a whole value without other references back to the system: nothing asks for as much again.
fn release(whole: Buffer) {
    if let Buffer::Host(l) = whole
        && let Ok(bytes) = Arc::try_unwrap(l.into_buffer())
    {
        bytes.release();
    }
}

/// Whether this is the only reference to the value.
fn is_only(b: &Buffer) -> bool {
    matches!(b, Buffer::Device(s) if Arc::strong_count(s) == 1)
}

impl Spread {
    fn local(&self) -> Buffer {
        self.local.lock().clone()
    }
    /// The part; moved out if this is the only reference, so that its memory may be written.
    fn taken(&self, is_only: bool) -> Buffer {
        let nothing = Buffer::Host(Literal::nothing());
        if is_only { std::mem::replace(&mut *self.local.lock(), nothing) } else { self.local() }
    }
    /// The value as all ranks hold it.
    fn resharded(&self, to: &Spec) -> Result<Buffer> {
        let MeshScope { mesh, rank, ranks, .. } = &*self.scope;
        let (Some(owner), Some(axis)) = (self.owner, mesh.axis(PIPE)) else { return self.resharded_here(to) };
        let own = if owner == self.scope.pipe_rank() {
            self.resharded_here(to)?.read()?
        } else {
            Literal::zeros(self.ty.dtype, to.local(&self.ty.shape, mesh, *rank))
        };
        Ok(Buffer::Host(Ranks(ranks.0[axis as usize].clone()).broadcast_value(&own, owner)?))
    }
    /// The same among the ranks that store it.
    fn resharded_here(&self, to: &Spec) -> Result<Buffer> {
        let MeshScope { mesh, rank, ranks, .. } = &*self.scope;
        let local = self.local();
        if self.spec == *to {
            return Ok(local);
        }
        let graph = partition::reshard(&self.ty, &self.spec, to, (mesh, *rank, ranks))?;
        let program = ops::engine().of(std::slice::from_ref(&local))?.compile(&graph)?;
        Ok(program.run(&mut [local])?.remove(0))
    }
}

impl Storage for Spread {
    fn device(&self) -> &str {
        "mesh"
    }
    fn read(&self) -> Result<Literal> {
        self.resharded(&Spec::whole(self.ty.shape.rank()))?.read()
    }
    fn retyped(&self, ty: Type) -> Arc<dyn Storage> {
        // Complex values are not cut, and no other value has two types.
        let (local, spec, scope) = (Mutex::new(self.local()), self.spec.clone(), self.scope.clone());
        Arc::new(Spread { local, spec, owner: self.owner, ty, scope })
    }
    fn is_spread(&self) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}
