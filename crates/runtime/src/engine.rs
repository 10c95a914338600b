//! From live values to computed ones: collect what is pending, compile it once, run it.

use crate::lift_constants::{Constants, Lifted};
use crate::placement::{Placement, placement};
use crate::{Device, Program, complex_io, kept, numerics, reference};
use ir::{
    Attr, Buffer, Collect, Error, ErrorKind, FlatNode, Graph, Literal, Meaning, Result, Site, Type, Value, Var, collect,
};
use parking_lot::Mutex;
use passes::{Stage, State, Watch};
use rustc_hash::{FxHashMap, FxHasher};
use std::borrow::Cow;
use std::cell::RefCell;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Plans kept at most; beyond it the cache starts again, which costs one compile each.
const PLANS_MAX: usize = 4096;

/// Finds the engine of a device by the device's name.
pub type FindEngine = fn(&str) -> Result<&'static Engine>;

/// A device with the plans made for it.
pub struct Engine {
    device: Arc<dyn Device>,
    /// Values may live on another device; what uses them is then computed there.
    others: FindEngine,
    plans: Mutex<FxHashMap<u64, Vec<Plan>>>,
    constants: Mutex<Constants>,
    compiled: AtomicUsize,
    passes: Mutex<Vec<(&'static str, Arc<Pass>)>>,
    /// How often passes were added or removed.
    added: AtomicU64,
    patterns: &'static [passes::Pattern],
}

/// A program with what it was compiled from.
struct Plan {
    graph: Graph,
    flags: u64,
    program: Arc<dyn Program>,
}

/// What decides, besides the graph, how an engine compiles it: passes that were added, whether values
/// are checked, the device's flags. A program is good as long as it has not changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revision {
    passes: u64,
    is_checking: bool,
    flags: u64,
}

/// A pass of the user's own.
type Pass = dyn Fn(&Graph) -> Result<Graph> + Send + Sync;

thread_local! {
    /// Variables this thread has assigned a value that is not computed yet.
    static PENDING: RefCell<Vec<Weak<Var>>> = const { RefCell::new(Vec::new()) };
}

/// Notes that a variable was assigned: its value is computed along with whatever is next asked for.
pub fn note_assigned(var: &Arc<Var>) {
    PENDING.with_borrow_mut(|p| p.push(Arc::downgrade(var)));
}

impl Engine {
    /// An engine for one device that knows no other.
    pub fn new(device: Arc<dyn Device>) -> Engine {
        Engine::among(device, |name| Err(Error::new(ErrorKind::Device, format!("device {name} is not known here"))))
    }
    /// An engine for one device among others.
    pub fn among(device: Arc<dyn Device>, others: FindEngine) -> Engine {
        Engine {
            device,
            others,
            plans: Mutex::default(),
            constants: Mutex::default(),
            compiled: AtomicUsize::new(0),
            passes: Mutex::default(),
            added: AtomicU64::new(0),
            patterns: &[],
        }
    }
    /// Looks for ops that are written in these patterns.
    pub fn with_patterns(self, patterns: &'static [passes::Pattern]) -> Engine {
        Engine { patterns, ..self }
    }
    /// Its device.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The engine of another device.
    pub fn named(&self, name: &str) -> Result<&'static Engine> {
        (self.others)(name)
    }

    /// The engine that computes what uses these values: that of the device they live on, or this
    /// one if they are on the host, from where they go anywhere.
    pub fn of<'a>(&'a self, values: &[Buffer]) -> Result<&'a Engine> {
        let mut names = values.iter().filter_map(|b| match b {
            // Parts of a value on a mesh are gathered on the host.
            Buffer::Device(s) if !s.is_spread() => Some(s.device()),
            _ => None,
        });
        let Some(first) = names.next() else { return Ok(self) };
        if let Some(other) = names.find(|n| *n != first) {
            let e = format!("values live on {first} and on {other}: move some with `to`");
            return Err(Error::new(ErrorKind::Device, e));
        }
        if first == self.device.name() { Ok(self) } else { (self.others)(first) }
    }

    /// Adds a pass that every graph goes through from now on, after those added before and before
    /// the engine's own: it sees the ops as the program wrote them. Its result must compute outputs
    /// of the same types from the same inputs. [`Engine::remove_pass`] takes it away again.
    pub fn add_pass(&self, name: &'static str, pass: impl Fn(&Graph) -> Result<Graph> + Send + Sync + 'static) {
        self.passes.lock().push((name, Arc::new(pass)));
        self.added.fetch_add(1, Ordering::Relaxed);
        // What was compiled has not gone through it.
        self.plans.lock().clear();
    }

    /// Removes the pass that was added last under this name; true if there was one.
    pub fn remove_pass(&self, name: &str) -> bool {
        {
            let mut passes = self.passes.lock();
            let Some(i) = passes.iter().rposition(|(n, _)| *n == name) else { return false };
            passes.remove(i);
        }
        // Its own number: what was compiled with the pass must not be found again.
        self.added.fetch_add(1, Ordering::Relaxed);
        self.plans.lock().clear();
        true
    }

    /// What a program compiled now depends on besides its graph.
    pub fn revision(&self) -> Revision {
        let passes = self.added.load(Ordering::Relaxed);
        Revision { passes, is_checking: numerics::is_checking(), flags: self.device.flags() }
    }

    /// The graph after every stage that does not depend on the device's memory or code.
    pub fn optimize(&self, graph: &Graph) -> Result<Graph> {
        self.optimize_watched(graph, &mut Watch::none())
    }

    fn optimize_watched(&self, graph: &Graph, watch: &mut Watch) -> Result<Graph> {
        let claims = |n: &FlatNode, types: &[Type]| self.device.claims(n, types);
        let added = self.passes.lock().clone();
        let user = |(name, pass): (&'static str, Arc<Pass>)| Stage::graph(name, move |g| checked(name, &*pass, g));
        let mut stages: Vec<Stage> = added.into_iter().map(user).collect();
        stages.extend(passes::portable_stages(self.patterns, &claims, &reference::run_node));
        passes::run(&stages, State::Graph(Cow::Borrowed(graph)), watch)?.into_graph()
    }

    /// The same for a graph that several devices compute, with `claims` of all of them.
    pub(crate) fn optimize_placed(&self, graph: &Graph, claims: passes::Claims, watch: &mut Watch) -> Result<Graph> {
        let added = self.passes.lock().clone();
        let user = |(name, pass): (&'static str, Arc<Pass>)| Stage::graph(name, move |g| checked(name, &*pass, g));
        let mut stages: Vec<Stage> = added.into_iter().map(user).collect();
        stages.extend(passes::placed_stages(self.patterns, claims, &reference::run_node));
        passes::run(&stages, State::Graph(Cow::Borrowed(graph)), watch)?.into_graph()
    }

    /// Compiles a graph again and shows each stage to an observer, the device's own stages included.
    pub fn compile_watched(&self, graph: &Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        let optimized = self.optimize_watched(graph, watch)?;
        Ok(complex_io::around(graph, self.device.compile_watched(optimized, watch)?))
    }

    /// The program of a graph, from the cache where the same structure was compiled before.
    pub fn compile(&self, graph: &Graph) -> Result<Arc<dyn Program>> {
        let compiled = self.compiled();
        let program = self.compile_part(graph)?;
        if let (Some(limit), true) = (self.device.memory_limit(), self.compiled() > compiled) {
            within_limit(&*self.device, limit, graph, &*program)?;
        }
        Ok(program)
    }

    /// The same without a look at the limit of the device's memory: others share it.
    pub(crate) fn compile_part(&self, graph: &Graph) -> Result<Arc<dyn Program>> {
        if numerics::is_checking() {
            return Ok(Arc::new(numerics::Checked::new(graph, |g| self.built(g))?));
        }
        // Not held while compiling: a child forked during it would wait for it forever.
        let lifted = self.constants.lock().lift(graph);
        match lifted {
            None => self.cached(graph),
            Some((general, extra)) => Ok(Arc::new(Lifted { program: self.cached(&general)?, extra })),
        }
    }

    /// The program of a graph some of whose inputs have the same value at every run, such as the weights of a model that
    /// only answers: `fixed` has those values, by input. A device may bring them into the form of its kernels here, once.
    pub fn compile_fixed(&self, graph: &Graph, fixed: &[Option<Literal>]) -> Result<Arc<dyn Program>> {
        if numerics::is_checking() || !self.device.packs_weights() {
            return self.compile(graph);
        }
        let optimized = self.optimize(graph)?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        Ok(complex_io::around(graph, self.device.compile_fixed(optimized, fixed)?))
    }

    fn cached(&self, graph: &Graph) -> Result<Arc<dyn Program>> {
        let mut h = FxHasher::default();
        graph.hash(&mut h);
        let (key, flags) = (h.finish(), self.device.flags());
        let known = |m: &FxHashMap<u64, Vec<Plan>>| {
            m.get(&key)?.iter().find(|p| p.flags == flags && p.graph == *graph).map(|p| p.program.clone())
        };
        if let Some(p) = known(&self.plans.lock()) {
            return Ok(p);
        }
        let program = self.built(graph)?;
        self.compiled.fetch_add(1, Ordering::Relaxed);
        let mut plans = self.plans.lock();
        if plans.len() >= PLANS_MAX {
            plans.clear();
        }
        plans.entry(key).or_default().push(Plan { graph: graph.clone(), flags, program: program.clone() });
        Ok(program)
    }

    fn built(&self, graph: &Graph) -> Result<Arc<dyn Program>> {
        self.compile_watched(graph, &mut Watch::none())
    }

    /// An error of a program that was perhaps compiled for other lines of the user's program, with
    /// the line it has in this graph, which has the same structure.
    #[cold]
    pub fn own_line(&self, graph: &Graph, mut e: ir::Error) -> ir::Error {
        let lifted = self.constants.lock().lift(graph);
        let graph = lifted.as_ref().map_or(graph, |(general, _)| general);
        let plans = self.plans.lock();
        if let Some(plan) = plans.values().flatten().find(|p| p.graph == *graph) {
            let (mut theirs, mut ours) = (Vec::new(), Vec::new());
            lines(&plan.graph, &mut theirs);
            lines(graph, &mut ours);
            let at = |is_op: &dyn Fn(&str) -> bool| {
                theirs.iter().position(|(op, site)| e.site.as_ref() == Some(site) && is_op(op))
            };
            let same_op = at(&|op| e.op.as_deref() == Some(op));
            if same_op.is_none() {
                // The op that the program wrote, if only one on its line can have become the one that failed.
                let mut written: Vec<&str> = composites(&plan.graph, e.site);
                written.dedup();
                if let [name] = written[..] {
                    e.op = Some(name.into());
                }
            }
            if let Some(i) = same_op.or_else(|| at(&|_| true)) {
                e.site = Some(ours[i].1);
            }
        }
        e
    }

    /// How many programs are kept.
    pub fn kept(&self) -> usize {
        self.plans.lock().values().map(Vec::len).sum()
    }

    /// How many programs have been compiled so far.
    pub fn compiled(&self) -> usize {
        self.compiled.load(Ordering::Relaxed)
    }

    /// Computes the values, and with them every pending assignment of this thread: what was made in a
    /// `device` scope on its device, what was made outside of all scopes on this one.
    pub fn evaluate(&self, values: &[Value]) -> Result<()> {
        let vars: Vec<Arc<Var>> = PENDING.take().iter().filter_map(Weak::upgrade).collect();
        let done = self.evaluate_with(values, &vars);
        if let Err(e) = &done {
            let left = self.recover(vars, e);
            PENDING.with_borrow_mut(|p| p.extend(left.iter().map(Arc::downgrade)));
        }
        done
    }

    /// After a failed evaluation: what stays pending. The error may lie in the fetches, so the
    /// assignments are tried without them. If they cannot be computed either, because of their
    /// data, the variables go back to their newest computed values: a failed step changes nothing.
    fn recover(&self, vars: Vec<Arc<Var>>, e: &Error) -> Vec<Arc<Var>> {
        let is_of_data = |e: &Error| matches!(e.kind, ErrorKind::Index | ErrorKind::Numerics);
        let is_pending = |v: &Arc<Var>| !v.current().is_computed();
        if !is_of_data(e) || self.has_effects(&vars) {
            return vars;
        }
        match self.evaluate_with(&[], &vars) {
            Ok(()) => Vec::new(),
            Err(e) if is_of_data(&e) => vars.into_iter().filter(|v| is_pending(v) && !v.roll_back()).collect(),
            Err(_) => vars,
        }
    }

    /// Whether other processes take part in computing the variables.
    fn has_effects(&self, vars: &[Arc<Var>]) -> bool {
        let values: Vec<Value> = vars.iter().map(|v| v.current()).filter(|v| !v.is_computed()).collect();
        collect(&values, Collect::Now).is_ok_and(|c| c.graph.nodes.iter().any(ir::FlatNode::is_ordered))
    }

    fn evaluate_with(&self, values: &[Value], vars: &[Arc<Var>]) -> Result<()> {
        let assigned: Vec<(&Arc<Var>, Value)> =
            vars.iter().map(|v| (v, v.current())).filter(|(_, c)| c.buffer().is_none()).collect();
        let mut fetches: Vec<Value> = values.iter().filter(|v| v.buffer().is_none()).cloned().collect();
        fetches.extend(assigned.iter().map(|(_, c)| c.clone()));
        if fetches.is_empty() {
            return Ok(());
        }
        let mut c = collect(&fetches, Collect::Now)?;
        let engine = match placement(&c) {
            Placement::Anywhere => self,
            Placement::Here(engine) => engine,
            Placement::First(engine, first) => {
                engine.evaluate_with(&first, &[])?;
                return self.evaluate_with(values, vars);
            }
        };
        let asked = c.graph.outputs.len();
        c.graph.updates = updates(&c, &assigned, asked - assigned.len());
        let kept = kept::inside(&c, assigned.iter().map(|(var, _)| *var));
        c.graph.outputs.extend(&kept);
        c.graph.outputs.extend(c.reads.iter().map(|(_, s)| *s));

        let mut inputs = Vec::with_capacity(c.leaves.len());
        for leaf in &c.leaves {
            inputs.push(leaf.buffer().ok_or_else(|| Error::bug(format!("leaf {leaf:?} lost its value")))?);
        }
        let mut results = match crate::placed::apart(engine, &c, &inputs)? {
            Some(placed) => placed.run(&mut inputs)?,
            None => {
                let engine = engine.of(&inputs)?;
                let program = engine.compile(&c.graph)?;
                program.run(&mut inputs).map_err(|e| engine.own_line(&c.graph, e))?
            }
        }
        .into_iter();
        for (v, b) in fetches.iter().zip(results.by_ref().take(asked)) {
            v.node().fill(v.out(), b);
        }
        for (s, b) in kept.iter().zip(results.by_ref().take(kept.len())) {
            if let Some(n) = &c.nodes[s.node as usize] {
                n.fill(s.out as usize, b);
            }
        }
        for ((read, _), b) in c.reads.iter().zip(results) {
            read.node().fill(read.out(), b);
        }
        for (var, value) in assigned {
            if let (true, Some(b)) = (var.current().is_same(&value), value.buffer()) {
                // The variable forgets how its value came about.
                var.set_buffer(b);
            }
        }
        Ok(())
    }
}

/// An error if a program needs more memory than its device has.
fn within_limit(device: &dyn Device, limit: usize, graph: &Graph, program: &dyn Program) -> Result<()> {
    let Some(m) = program.work().map(|w| w.memory).filter(|m| m.peak() > limit) else { return Ok(()) };
    let size = crate::logical::size;
    let e = format!(
        "{} needs {} for this program, and its memory limit is {}: {} are given, {} are values inside, {} are new results",
        device.name(),
        size(m.peak()),
        size(limit),
        size(m.given),
        size(m.arena),
        size(m.results - m.in_place)
    );
    Err(at_largest(Error::new(ErrorKind::Device, e), graph))
}

/// An error with the op and line of the largest value that is computed.
pub(crate) fn at_largest(e: Error, graph: &Graph) -> Error {
    let computed = graph.nodes.iter().filter(|n| n.op != &ir::INPUT && n.op != &ir::CONST);
    let bytes = |n: &&FlatNode| n.outs.iter().map(Type::bytes).sum::<usize>();
    match computed.max_by_key(bytes) {
        Some(n) => e.in_op(n.op.name).at(n.site),
        None => e,
    }
}

/// The result of a user's pass, which must be sound and keep the types of inputs and outputs.
fn checked(name: &str, pass: &Pass, g: &Graph) -> Result<Graph> {
    let next = pass(g).and_then(|next| next.verify().map(|()| next));
    let next = next.map_err(|e| Error { message: format!("pass {name}: {}", e.message), ..e })?;
    let types = |g: &Graph| -> Vec<Type> {
        let inputs = g.inputs.iter().map(|&i| g.nodes[i as usize].outs[0].clone());
        inputs.chain(g.outputs.iter().map(|&o| g.ty(o).clone())).collect()
    };
    if (next.inputs.len(), types(&next)) != (g.inputs.len(), types(g)) {
        return Err(Error::value(format!("pass {name}: the graph's inputs or outputs have other types")));
    }
    Ok(Graph { updates: g.updates.clone(), ..next })
}

/// The variables of a graph that it reads once and assigns: the inputs, and the outputs from
/// `first` on.
fn updates(c: &ir::Collected, assigned: &[(&Arc<Var>, Value)], first: usize) -> Vec<(u32, u32)> {
    let mut readers: FxHashMap<u64, (usize, u32)> = FxHashMap::default();
    for (k, leaf) in c.leaves.iter().enumerate() {
        if let ir::Source::Read(var) = leaf.node().source() {
            let (count, at) = readers.entry(var.id()).or_default();
            (*count, *at) = (*count + 1, k as u32);
        }
    }
    let pair = |(a, (var, _)): (usize, &(&Arc<Var>, Value))| match readers.get(&var.id()) {
        Some(&(1, k)) => Some((k, (first + a) as u32)),
        _ => None,
    };
    let mut pairs: Vec<(u32, u32)> = assigned.iter().enumerate().filter_map(pair).collect();
    pairs.sort_unstable();
    pairs
}

/// Names of the composites of a line, sorted.
fn composites(graph: &Graph, site: Option<Site>) -> Vec<&'static str> {
    let of_line = graph.nodes.iter().filter(|n| Some(n.site) == site && matches!(n.op.meaning, Meaning::Composite(_)));
    let mut names: Vec<&str> = of_line.map(|n| n.op.name).collect();
    names.sort_unstable();
    names
}

/// The op and line of every node, those of sub-graphs included.
fn lines(graph: &Graph, list: &mut Vec<(&'static str, Site)>) {
    for n in &graph.nodes {
        list.push((n.op.name, n.site));
        for (_, attr) in n.attrs.iter() {
            if let Attr::Graph(g) = attr {
                lines(g, list);
            }
        }
    }
}

/// The device that runs the op table's own meanings, op by op: slow, and always right.
pub struct Reference;
impl Device for Reference {
    fn name(&self) -> &str {
        "reference"
    }
    fn claims(&self, _: &ir::FlatNode, _: &[ir::Type]) -> bool {
        false
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(ReferenceProgram(graph)))
    }
}
struct ReferenceProgram(Graph);
impl Program for ReferenceProgram {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        let inputs = inputs.iter().map(Buffer::read).collect::<Result<Vec<_>>>()?;
        Ok(reference::run(&self.0, &inputs)?.into_iter().map(Buffer::Host).collect())
    }
    fn explain(&self) -> String {
        self.0.nodes.iter().map(|n| format!("{}\n", n.op.name)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::DType;

    /// A graph that returns its input.
    fn same(size: usize) -> Graph {
        let mut g = Graph::new();
        let x = g.input("x", &Type::new(DType::F32, [size]), Site::UNKNOWN);
        g.outputs.push(x);
        g
    }

    #[test]
    fn plans_are_kept_up_to_a_bound() {
        let engine = Engine::new(Arc::new(Reference));
        for size in 0..PLANS_MAX + 100 {
            engine.compile(&same(size)).unwrap();
            assert!((1..=PLANS_MAX).contains(&engine.kept()));
        }
        assert_eq!(engine.compiled(), PLANS_MAX + 100);
        engine.compile(&same(PLANS_MAX + 99)).unwrap();
        assert_eq!(engine.compiled(), PLANS_MAX + 100, "the last plan is known");
    }
}
