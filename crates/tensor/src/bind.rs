//! A compiled graph with where each of its inputs comes from at a run.

use crate::exported::{Exported, ExportedInput};
use crate::mesh::{Role, Sharding, current_mesh};
use crate::placing::{Captured, Placing};
use ir::{
    Attr, Attrs, Buffer, CONST, Collect, Error, ErrorKind, FlatNode, Graph, Literal, Result, Site, Source, Value, Var,
    VarGuard, collect,
};
use ops::{engine, generator};
use parking_lot::Mutex;
use passes::partition::Inserted;
use runtime::interrupt::{self, Handling};
use runtime::{Engine, Origins, Placed as SplitProgram, Placement, Program, Revision, placement};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::sync::Arc;

/// Where an input comes from.
pub(crate) enum Input {
    /// The feed with that number.
    Feed(usize),
    /// A variable's value when the run begins.
    Variable(Arc<Var>),
    /// The key of the n-th random draw of the run.
    Key(u64),
    /// A value captured when the graph was made.
    Captured(Value),
}

/// Whether variables are read at each run, or compiled in as they are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weights {
    Live,
    Frozen,
}

impl Input {
    /// Its value, where that is known before a run.
    pub(crate) fn known(&self) -> Option<Buffer> {
        match self {
            Input::Variable(var) => var.current().buffer(),
            Input::Captured(v) => v.buffer(),
            Input::Feed(_) | Input::Key(_) => None,
        }
    }
}

/// The program of one device, with captured values in that device's memory.
#[derive(Clone)]
struct Placed {
    device: String,
    /// How the engine compiled it.
    revision: Revision,
    program: Arc<dyn Program>,
    /// Inputs by number.
    captured: Arc<[(usize, Buffer)]>,
}

/// A graph ready to run many times.
pub(crate) struct Bound {
    /// What its programs are compiled from.
    graph: Arc<Graph>,
    /// The engine for inputs that are all on the host: of the scope in which its nodes were made, or
    /// the current one when it was bound.
    engine: &'static Engine,
    /// By the device that the inputs live on.
    programs: Mutex<Vec<Placed>>,
    inputs: Vec<Input>,
    fetches: usize,
    assigned: Vec<Arc<Var>>,
    /// Variables that are read and assigned, in the order of their ids: the input, and which
    /// assignment. Their memory is lent to the run, so that they are updated in place.
    lent: Vec<(usize, usize)>,
    /// The other assignments.
    set: Vec<usize>,
    draws: u64,
    /// Whether a run is seen by other processes, so that it cannot be repeated.
    has_effects: bool,
    /// How it is cut over a mesh, if the program runs on one.
    sharding: Option<Sharding>,
    /// How it is placed on several devices, if it is.
    placing: Option<Placing>,
    /// Lists of inputs that no run is using.
    spare: Mutex<Vec<Vec<Buffer>>>,
}

impl Bound {
    /// What its programs are compiled from.
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }
    /// The same, whose inputs have the names that its variables have now.
    pub fn named_graph(&self) -> Graph {
        let mut graph = (*self.graph).clone();
        for (input, &at) in self.inputs.iter().zip(&self.graph.inputs) {
            let Input::Variable(var) = input else { continue };
            let node = &mut graph.nodes[at as usize];
            node.attrs = node.attrs.clone().set("name", &*var.name());
        }
        graph
    }
    /// The graph with what each of its inputs is.
    pub fn exported(&self, refuse: impl Fn(String) -> Error) -> Result<Exported> {
        let one = |(input, &at): (&Input, &u32)| match input {
            Input::Feed(i) => Ok(ExportedInput::Argument(*i)),
            Input::Variable(var) => {
                Ok(ExportedInput::Weight { name: var.name().to_string(), value: current(var)?.read()? })
            }
            Input::Captured(v) => {
                let value = v.buffer().ok_or_else(|| Error::bug("a captured value was lost"))?.read()?;
                Ok(ExportedInput::Weight { name: String::new(), value })
            }
            Input::Key(_) => {
                let e = "the function draws random numbers: call eval() on the model before exporting it";
                let user = self.graph.nodes.iter().find(|n| n.inputs.iter().any(|s| s.node == at));
                Err(refuse(e.into()).at(user.map_or(Site::UNKNOWN, |n| n.site)))
            }
        };
        let inputs = self.inputs.iter().zip(&self.graph.inputs).map(one).collect::<Result<Vec<_>>>()?;
        Ok(Exported { graph: (*self.graph).clone(), inputs })
    }
    /// Whether a gradient may flow through its results when its feeds need none: it reads something
    /// that is trained. A run that assigns or is seen elsewhere is no function of its inputs.
    pub fn is_trained(&self) -> bool {
        let is_trained = |i: &Input| match i {
            Input::Variable(var) => var.is_trainable(),
            Input::Captured(v) => v.node().needs_grad(),
            Input::Feed(_) | Input::Key(_) => false,
        };
        self.is_function() && self.inputs.iter().any(is_trained)
    }
    /// Whether a run does nothing but compute its results. Ranks of a mesh exchange parts of them, which is no effect
    /// of the program.
    pub fn is_function(&self) -> bool {
        let has_effects = if self.sharding.is_some() { has_effects(&self.graph) } else { self.has_effects };
        self.assigned.is_empty() && !has_effects
    }
    /// The keys of one run's random draws.
    pub fn keys(&self) -> (u64, u64) {
        generator::take(self.draws)
    }
    /// The values that a run with these keys takes its inputs from.
    pub fn sources(&self, feeds: &[Value], (seed, first): (u64, u64), site: Site) -> Vec<Value> {
        let source = |input: &Input| match input {
            Input::Feed(i) => feeds[*i].clone(),
            Input::Variable(var) => var.read(site),
            Input::Key(n) => Value::key(key(seed, first + n), site),
            Input::Captured(v) => v.clone(),
        };
        self.inputs.iter().map(source).collect()
    }
    /// Compiles the graph of `fetches` and the assignments; `feeds` are the leaves given at a run.
    pub fn new(
        fetches: &[Value],
        assigned: &[(Arc<Var>, Value)],
        feeds: &[Value],
        mode: Collect,
        weights: Weights,
    ) -> Result<Bound> {
        let mut wanted = fetches.to_vec();
        wanted.extend(assigned.iter().map(|(_, v)| v.clone()));
        let c = collect(&wanted, mode)?;
        // The device of the only scope around its nodes, if there is one.
        let engine = match placement(&c) {
            Placement::Here(engine) if !runtime::is_divided(engine.device().name()) => engine,
            _ => ops::engine(),
        };
        let mut draws = 0;
        let mut inputs = Vec::with_capacity(c.leaves.len());
        let key = |v: &Value| (v.node().id(), v.out());
        // The first of equals.
        let fed: FxHashMap<(u64, usize), usize> = feeds.iter().enumerate().rev().map(|(i, f)| (key(f), i)).collect();
        for leaf in &c.leaves {
            inputs.push(match (fed.get(&key(leaf)).copied(), leaf.node().source()) {
                (Some(i), _) => Input::Feed(i),
                (None, Source::Read(var)) => Input::Variable(var.clone()),
                (None, Source::Key) => {
                    draws += 1;
                    Input::Key(draws - 1)
                }
                (None, Source::Placeholder(name)) => {
                    let e = format!("placeholder {name:?} of type {} is needed, but was not fed", leaf.ty());
                    return Err(Error::new(ErrorKind::Feed, e).at(leaf.node().site()));
                }
                (None, _) => {
                    ops::engine().evaluate(std::slice::from_ref(leaf))?;
                    Input::Captured(leaf.clone())
                }
            });
        }
        let assigned: Vec<Arc<Var>> = assigned.iter().map(|(v, _)| v.clone()).collect();
        let from = Origins::from(&c);
        let mut graph = c.graph;
        if weights == Weights::Frozen {
            inputs = freeze(&mut graph, inputs, &assigned)?;
        }
        let lent = if calls_back(&graph) { Vec::new() } else { lent(&inputs, &assigned) };
        graph.updates = lent.iter().map(|&(k, a)| (k as u32, (fetches.len() + a) as u32)).collect();
        graph.updates.sort_unstable();
        let sharding = match current_mesh()? {
            None => None,
            Some(scope) => {
                let roles: Vec<Role> = inputs.iter().map(role).collect();
                Some(Sharding::new(scope, &graph, &roles, engine)?)
            }
        };
        let placing = Placing::new(from, &graph, &inputs, engine, sharding.is_some())?;
        let mut is_lent = vec![false; assigned.len()];
        lent.iter().for_each(|&(_, a)| is_lent[a] = true);
        let set = (0..assigned.len()).filter(|&a| !is_lent[a]).collect();
        let (programs, spare) = (Mutex::default(), Mutex::default());
        let fetches = fetches.len();
        // The sends of a pipeline are no ops.
        let is_pipeline = sharding.as_ref().is_some_and(|s| s.pipeline.is_some());
        let has_effects = is_pipeline || has_effects(sharding.as_ref().map_or(&graph, |s| &s.local));
        let graph = Arc::new(graph);
        let bound = Bound {
            graph,
            engine,
            programs,
            inputs,
            fetches,
            assigned,
            lent,
            set,
            draws,
            has_effects,
            sharding,
            placing,
            spare,
        };
        // What does not compile should say so now, not at the first run.
        let known: Vec<Buffer> = bound.inputs.iter().filter_map(Input::known).collect();
        match bound.sharding.as_ref().and_then(|s| Some((s, s.pipeline.as_ref()?))) {
            Some((s, p)) => p.compile(bound.engine.of(&known)?, s.exchange())?,
            None if bound.placing.is_some() => drop(bound.split_program()?),
            None => drop(bound.program(&known)?),
        }
        Ok(bound)
    }

    /// The program for the device that these inputs live on.
    fn program(&self, inputs: &[Buffer]) -> Result<Placed> {
        let engine = self.engine.of(inputs)?;
        let revision = engine.revision();
        let mut programs = self.programs.lock();
        let is_here = |p: &Placed| p.device == engine.device().name();
        if let Some(p) = programs.iter().find(|p| p.revision == revision && is_here(p)) {
            return Ok(p.clone());
        }
        programs.retain(|p| !is_here(p));
        let mut captured = Vec::new();
        for (k, input) in self.inputs.iter().enumerate() {
            if let Input::Captured(v) = input {
                let value = v.buffer().ok_or_else(|| Error::bug("a captured value was lost"))?;
                captured.push((k, engine.device().place(&value)?));
            }
        }
        let (device, program) = (engine.device().name().to_string(), engine.compile(self.compiled())?);
        let placed = Placed { device, revision, program, captured: captured.into() };
        programs.push(placed.clone());
        Ok(placed)
    }

    /// The graph that runs: on a mesh, that of this rank.
    fn compiled(&self) -> &Graph {
        self.sharding.as_ref().map_or(&self.graph, |s| &s.local)
    }

    /// Every variable it reads.
    pub fn variables(&self) -> impl Iterator<Item = &Arc<Var>> {
        self.inputs.iter().filter_map(|i| if let Input::Variable(v) = i { Some(v) } else { None })
    }

    /// Runs it: reads see the values from before, then the assignments happen together. If it
    /// fails, all variables are as they were.
    pub fn run(&self, feeds: &[Buffer], keys: (u64, u64)) -> Result<Vec<Buffer>> {
        if self.lent.is_empty() {
            return self.attempt(feeds, keys);
        }
        if !self.has_effects {
            // A signal handler may read the variables that the run has locked: the run gives them
            // back first, and is repeated if the handler lets it go on.
            let done = interrupt::handling(Handling::Outside, || self.attempt(feeds, keys));
            if done.is_ok() || !interrupt::was_ended()? {
                return done;
            }
        }
        interrupt::handling(Handling::Later, || self.attempt(feeds, keys))
    }

    fn attempt(&self, feeds: &[Buffer], (seed, first): (u64, u64)) -> Result<Vec<Buffer>> {
        let spare = self.spare.lock().pop();
        let mut inputs = spare.unwrap_or_default();
        if let Some(s) = &self.sharding {
            for (k, input) in self.inputs.iter().enumerate() {
                if let Input::Variable(var) = input {
                    s.initialize(k, var, self.engine)?;
                }
            }
        }
        for input in &self.inputs {
            inputs.push(match input {
                Input::Feed(i) => feeds[*i].clone(),
                Input::Variable(var) => current(var)?,
                Input::Key(n) => Buffer::Host(key(seed, first + n)),
                Input::Captured(v) => v.buffer().ok_or_else(|| Error::bug("a captured value was lost"))?,
            });
        }
        if self.placing.is_some() {
            return self.attempt_placed(inputs);
        }
        let sharding = self.sharding.as_ref();
        let mut loan = Loan { inputs, held: SmallVec::new(), sharding };
        // A part is cut off a variable's value, which is then the part's only owner.
        if let Some(s) = sharding {
            self.lend(&mut loan);
            s.cut(&mut loan.inputs)?;
            if let Some(p) = &s.pipeline {
                let mut results = p.run(self.engine.of(&loan.inputs)?, s.exchange(), &mut loan.inputs)?;
                s.join(&mut results);
                self.give_back(&mut loan, &mut results);
                return Ok(self.stored(results));
            }
        }
        let Placed { program, captured, .. } = self.program(&loan.inputs)?;
        captured.iter().for_each(|(k, b)| loan.inputs[*k] = b.clone());
        if sharding.is_none() {
            self.lend(&mut loan);
        }
        let mut results = program.run(&mut loan.inputs).map_err(|e| engine().own_line(self.compiled(), e))?;
        if let Some(s) = &self.sharding {
            s.join(&mut results);
        }
        self.give_back(&mut loan, &mut results);
        Ok(self.stored(results))
    }

    /// Runs the parts of several devices.
    fn attempt_placed(&self, inputs: Vec<Buffer>) -> Result<Vec<Buffer>> {
        let (placed, captured) = self.split_program()?;
        let mut loan = Loan { inputs, held: SmallVec::new(), sharding: None };
        captured.iter().for_each(|(k, b)| loan.inputs[*k] = b.clone());
        self.lend(&mut loan);
        let mut results = placed.run(&mut loan.inputs)?;
        self.give_back(&mut loan, &mut results);
        Ok(self.stored(results))
    }

    /// Gives variables whose memory was lent their new values.
    fn give_back(&self, loan: &mut Loan, results: &mut [Buffer]) {
        let nothing = || Buffer::Host(Literal::nothing());
        for ((hold, _, is_taken), &(_, a)) in loan.held.iter_mut().zip(&self.lent) {
            hold.put(std::mem::replace(&mut results[self.fetches + a], nothing()));
            *is_taken = false;
        }
        loan.held.clear();
        let mut inputs = std::mem::take(&mut loan.inputs);
        inputs.clear();
        self.spare.lock().push(inputs);
    }

    /// The program on several devices. Variables come to live where it computes with them.
    fn split_program(&self) -> Result<(Arc<SplitProgram>, Captured)> {
        let Some(placing) = &self.placing else { return Err(Error::bug("the graph is not placed")) };
        placing.program(&self.graph, &self.inputs, self.engine)
    }

    /// On several devices: what is computed where.
    pub fn placed(&self) -> Option<Arc<SplitProgram>> {
        self.split_program().ok().map(|p| p.0)
    }

    /// Lends the memory of variables that are updated in place.
    fn lend<'a>(&'a self, loan: &mut Loan<'a>) {
        for &(k, a) in &self.lent {
            let mut hold = self.assigned[a].lock();
            let is_taken = hold.take(&mut loan.inputs[k]);
            loan.held.push((hold, k, is_taken));
        }
    }

    /// Gives variables that are not updated in place their new values; returns what was fetched.
    fn stored(&self, mut results: Vec<Buffer>) -> Vec<Buffer> {
        let nothing = || Buffer::Host(Literal::nothing());
        for &a in &self.set {
            self.assigned[a].set_buffer(std::mem::replace(&mut results[self.fetches + a], nothing()));
        }
        results.truncate(self.fetches);
        results
    }

    /// On a mesh with a pipeline: the most microbatches of which this rank held values at once.
    pub fn microbatches_held(&self) -> usize {
        self.sharding.as_ref().and_then(|s| s.pipeline.as_ref()).map_or(0, |p| p.peak())
    }

    /// On a mesh: what ranks exchange.
    pub fn exchanges(&self) -> Vec<Inserted> {
        self.sharding.as_ref().map_or(Vec::new(), |s| s.inserted.clone())
    }

    /// What was compiled, for people.
    pub fn explain(&self) -> String {
        let exchanges = self.sharding.as_ref().map_or(String::new(), Sharding::text);
        let programs: String = self.programs.lock().iter().map(|p| p.program.explain()).collect();
        let pipeline = self.sharding.as_ref().and_then(|s| s.pipeline.as_ref()).map_or(String::new(), |p| p.explain());
        let placed = self.placed().map_or(String::new(), |p| p.explain());
        exchanges + &placed + &programs + &pipeline
    }
}

/// What an input is to the plan of a mesh.
fn role(input: &Input) -> Role {
    match input {
        Input::Feed(_) => Role::Argument,
        Input::Variable(var) if var.is_parameter() => Role::Parameter(var.name()),
        Input::Variable(_) => Role::State,
        Input::Key(_) | Input::Captured(_) => Role::Other,
    }
}

/// The key of a random draw.
fn key(seed: u64, draw: u64) -> Literal {
    let key = [seed as i64, draw as i64];
    Literal::generate([2], |i| key[i])
}

/// Whether computing a graph is seen by other processes.
fn has_effects(graph: &Graph) -> bool {
    let inner = |n: &FlatNode| n.attrs.iter().any(|(_, a)| matches!(a, Attr::Graph(g) if has_effects(g)));
    graph.nodes.iter().any(|n| n.is_ordered() || inner(n))
}

/// Whether computing a graph calls back into the program, which may then look at any variable.
fn calls_back(graph: &Graph) -> bool {
    let is_call = |a: &Attr| match a {
        Attr::Custom(c) => c.0.calls_back(),
        Attr::Graph(g) => calls_back(g),
        _ => false,
    };
    graph.nodes.iter().any(|n| n.attrs.iter().any(|(_, a)| is_call(a)))
}

/// Which assigned variables are read by exactly one input.
fn lent(inputs: &[Input], assigned: &[Arc<Var>]) -> Vec<(usize, usize)> {
    let mut readers: FxHashMap<u64, (usize, usize)> = FxHashMap::default();
    for (k, input) in inputs.iter().enumerate() {
        if let Input::Variable(v) = input {
            let (count, _) = readers.get(&v.id()).copied().unwrap_or_default();
            readers.insert(v.id(), (count + 1, k));
        }
    }
    let sole = |(a, var): (usize, &Arc<Var>)| match readers.get(&var.id()) {
        Some(&(1, k)) => Some((k, a)),
        _ => None,
    };
    let mut out: Vec<(usize, usize)> = assigned.iter().enumerate().filter_map(sole).collect();
    out.sort_by_key(|&(_, a)| assigned[a].id());
    out
}

/// Variables whose memory a run has; they get back what is left of it, whatever happens.
struct Loan<'a> {
    inputs: Vec<Buffer>,
    /// The variable, its input, and whether its value was taken.
    held: SmallVec<[(VarGuard<'a>, usize, bool); 64]>,
    /// How parts become values of the whole program again.
    sharding: Option<&'a Sharding>,
}
impl Drop for Loan<'_> {
    fn drop(&mut self) {
        for (hold, k, is_taken) in &mut self.held {
            let left = std::mem::replace(&mut self.inputs[*k], Buffer::Host(Literal::nothing()));
            // A panic in the middle of the update leaves nothing: the variable then says so.
            let is_whole = |l: &Buffer| !matches!(l, Buffer::Host(l) if l.shape() != &hold.var().ty().shape);
            let left = match self.sharding {
                Some(s) => s.returned(*k, left),
                None => Some(left).filter(is_whole),
            };
            if let (true, Some(left)) = (*is_taken, left) {
                hold.put(left);
            }
        }
    }
}

/// Puts constants in place of the inputs that are variables or captured values, but for variables
/// that are assigned; gives the inputs that are left.
fn freeze(graph: &mut Graph, inputs: Vec<Input>, assigned: &[Arc<Var>]) -> Result<Vec<Input>> {
    let (mut kept, mut left) = (Vec::new(), Vec::new());
    for (input, &node) in inputs.into_iter().zip(&graph.inputs) {
        let value = match &input {
            Input::Variable(var) if !assigned.iter().any(|a| Arc::ptr_eq(a, var)) => Some(current(var)?),
            Input::Captured(v) => v.buffer(),
            _ => None,
        };
        match value {
            Some(value) => {
                let n = &mut graph.nodes[node as usize];
                (n.op, n.attrs) = (&CONST, Attrs::new().with("value", value.read()?));
            }
            None => {
                left.push(node);
                kept.push(input);
            }
        }
    }
    graph.inputs = left;
    Ok(kept)
}

/// A variable's computed value, computing it first if it is pending.
pub(crate) fn current(var: &Arc<Var>) -> Result<Buffer> {
    let v = var.current();
    if let Some(b) = v.buffer() {
        return Ok(b);
    }
    engine().evaluate(&[])?;
    let v = var.current();
    if v.buffer().is_none() {
        engine().evaluate(std::slice::from_ref(&v))?;
    }
    v.buffer().ok_or_else(|| Error::bug(format!("variable {} has no value", var.name())))
}
