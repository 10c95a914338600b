//! A graph that several devices compute: it is placed, split, and each part compiled by its device.

mod run;
mod text;

use crate::engine::at_largest;
use crate::{Device, Engine, Origins, Placing, Program, Revision, logical::size, placing};
use ir::{Attr, Buffer, Collected, Error, ErrorKind, Graph, Result};
use passes::place::{Candidate, Holding, Placement, Request, place};
use passes::split::{From, Output, Split, split};
use passes::{Snapshot, Watch};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Times that a graph is placed anew, with less room, until the memory that was planned fits.
const ROUNDS: usize = 8;

/// A compiled graph on several devices.
pub struct Placed {
    inner: Arc<Inner>,
    revisions: Vec<Revision>,
}

struct Inner {
    engines: Vec<&'static Engine>,
    /// After all portable stages.
    graph: Graph,
    placement: Placement,
    places: Vec<passes::place::Place>,
    split: Split,
    /// By part; `None` where there is nothing to compute.
    programs: Vec<Option<Arc<dyn Program>>>,
    fails: Vec<bool>,
    /// By part: whether it may overwrite what is lent to it.
    in_place: Vec<bool>,
    /// By part: parts that end before it begins.
    waits: Vec<Vec<usize>>,
    /// By part and result: how many parts read it, and one more where it is a result of the graph.
    uses: Vec<Vec<usize>>,
    /// By device: bytes of memory, as planned.
    peaks: Vec<usize>,
    /// Whether the calling thread runs everything: what it calls back, or other processes, belong to that thread.
    is_inline: bool,
}

/// Places, splits and compiles a graph. `inputs` says what each input is; devices are numbers in `placing.engines`.
///
/// # Errors
/// Where a constraint is not met, or the graph does not fit into the devices' memory.
pub fn compile_placed(placing: Placing, inputs: &[Holding], watch: &mut Watch) -> Result<Placed> {
    struct Restore(u32);
    impl Drop for Restore {
        fn drop(&mut self) {
            ir::set_place(self.0);
        }
    }
    // What an op is expanded to belongs to the op's place, not to that of the caller.
    let _restore = Restore(ir::set_place(0));
    let Placing { graph, engines, places } = placing;
    if passes::has_complex(&graph) {
        let at = graph.nodes.iter().find(|n| n.outs.iter().any(|t| t.dtype.is_complex()));
        let e = Error::new(
            ErrorKind::Device,
            "complex numbers are computed on one device: put the function into one scope",
        );
        return Err(at.map_or(e.clone(), |n| e.in_op(n.op.name).at(n.site)));
    }
    let claims = |n: &ir::FlatNode, types: &[ir::Type]| engines.iter().any(|e| e.device().claims(n, types));
    let graph = engines[0].optimize_placed(&graph, &claims, watch)?;
    let mut candidates: Vec<Candidate> = engines.iter().map(|e| candidate(&**e.device())).collect();
    let refuses = |d: usize, n: &ir::FlatNode, types: &[ir::Type]| engines[d].device().refuses(n, types);
    let is_inline = talks(&graph);
    let mut round = 0;
    loop {
        let request = Request { devices: &candidates, places: &places, inputs, refuses: Some(&refuses) };
        let placement = watch.step("place", || place(&graph, &request), |_| Snapshot::Code)?;
        let cut = watch.step("split_parts", || Ok(split(&graph, &placement, &placement.homes)), |_| Snapshot::Code)?;
        let mut inner = Inner::compile(engines.clone(), &graph, placement, places.clone(), cut, is_inline)?;
        let over = inner.plan_memory(inputs);
        let Some(d) = over else {
            let text = inner.text();
            watch.step("compile_parts", || Ok(text), |t| Snapshot::Text(t))?;
            let revisions = engines.iter().map(|e| e.revision()).collect();
            return Ok(Placed { inner: Arc::new(inner), revisions });
        };
        round += 1;
        let limit = engines[d].device().memory_limit().unwrap_or(usize::MAX);
        if round == ROUNDS {
            return Err(inner.too_large(d, limit));
        }
        // The estimate was too low by this much.
        let room = candidates[d].memory.unwrap_or(limit) as f64;
        candidates[d].memory = Some((room * 0.97 * limit as f64 / inner.peaks[d] as f64) as usize);
    }
}

/// A graph whose inputs live on several logical devices, or `None` if they do not.
pub(crate) fn apart(engine: &Engine, c: &Collected, inputs: &[Buffer]) -> Result<Option<Placed>> {
    let homes: Vec<Option<String>> = inputs.iter().map(home).collect();
    let mut names = homes.iter().flatten();
    let Some(first) = names.next() else { return Ok(None) };
    if !crate::is_logical(first) || names.clone().all(|n| n == first) || !names.all(|n| crate::is_logical(n)) {
        return Ok(None);
    }
    let Some(placing) = placing(&Origins::from(c), &c.graph, engine, &homes)? else { return Ok(None) };
    let holding =
        |h: &Option<String>| Holding { home: number(&placing.engines, h.as_deref()), is_variable: h.is_some() };
    let inputs: Vec<Holding> = homes.iter().map(holding).collect();
    compile_placed(placing, &inputs, &mut Watch::none()).map(Some)
}

/// The name of the device that a value lives on; `None` for the host and for what ranks of a mesh hold in parts.
pub(crate) fn home(b: &Buffer) -> Option<String> {
    match b {
        Buffer::Device(s) if !s.is_spread() => Some(s.device().to_string()),
        _ => None,
    }
}

fn number(engines: &[&'static Engine], name: Option<&str>) -> Option<usize> {
    engines.iter().position(|e| Some(e.device().name()) == name)
}

fn candidate(device: &dyn Device) -> Candidate {
    let s = device.speed();
    Candidate {
        name: device.name().to_string(),
        flops: s.flops,
        bandwidth: s.bandwidth,
        launch: s.launch,
        latency: s.latency,
        rate: s.rate,
        is_host: s.is_host,
        memory: device.memory_limit(),
    }
}

/// Whether a graph calls back into the program or talks to other processes.
fn talks(graph: &Graph) -> bool {
    let is_call = |a: &Attr| match a {
        Attr::Custom(c) => c.0.calls_back(),
        Attr::Graph(g) => talks(g),
        _ => false,
    };
    graph.nodes.iter().any(|n| n.is_ordered() || n.attrs.iter().any(|(_, a)| is_call(a)))
}

impl Inner {
    fn compile(
        engines: Vec<&'static Engine>,
        graph: &Graph,
        placement: Placement,
        places: Vec<passes::place::Place>,
        split: Split,
        is_inline: bool,
    ) -> Result<Inner> {
        let mut programs = Vec::with_capacity(split.parts.len());
        for p in &split.parts {
            let is_needed = !p.graph.outputs.is_empty() || p.graph.nodes.iter().any(ir::FlatNode::is_ordered);
            let program = is_needed.then(|| engines[p.device].compile_part(&p.graph)).transpose();
            programs.push(program.map_err(|e| on(engines[p.device], e))?);
        }
        let fails: Vec<bool> = programs.iter().map(|p| p.as_ref().is_some_and(|p| p.may_fail())).collect();
        // From the last part that may fail on, variables are overwritten; those parts wait for all that may fail.
        let last = fails.iter().rposition(|f| *f).unwrap_or(0);
        let in_place: Vec<bool> =
            split.parts.iter().enumerate().map(|(p, o)| p >= last && !o.lent.is_empty()).collect();
        let waits = (0..split.parts.len()).map(|p| {
            let part = &split.parts[p];
            let made =
                part.inputs.iter().filter_map(|f| if let From::Part { part, .. } = f { Some(*part) } else { None });
            let mut list: Vec<usize> = made.collect();
            if in_place[p] {
                list.extend(&part.after);
                list.extend((0..p).filter(|&q| fails[q]));
            }
            list.sort_unstable();
            list.dedup();
            list
        });
        let waits = waits.collect();
        let mut uses: Vec<Vec<usize>> = split.parts.iter().map(|p| vec![0; p.outputs.len()]).collect();
        let read = split.parts.iter().flat_map(|p| p.inputs.iter().copied());
        let results = split.outputs.iter().filter_map(|o| if let Output::From(f) = o { Some(*f) } else { None });
        for f in read.chain(results) {
            if let From::Part { part, out } = f {
                uses[part][out] += 1;
            }
        }
        let peaks = vec![0; engines.len()];
        let graph = graph.clone();
        Ok(Inner { engines, graph, placement, places, split, programs, fails, in_place, waits, uses, peaks, is_inline })
    }

    /// Plans the memory of each device; the first that has too little.
    fn plan_memory(&mut self, inputs: &[Holding]) -> Option<usize> {
        for d in 0..self.engines.len() {
            self.peaks[d] = self.peak(d, inputs);
        }
        (0..self.engines.len()).find(|&d| self.engines[d].device().memory_limit().is_some_and(|l| self.peaks[d] > l))
    }

    /// The most bytes that a device holds at once: its variables, values that later parts read, and what a part needs
    /// for itself.
    fn peak(&self, d: usize, inputs: &[Holding]) -> usize {
        let parts = &self.split.parts;
        let own: Vec<usize> =
            (0..parts.len()).filter(|&p| parts[p].device == d && self.programs[p].is_some()).collect();
        let input_bytes = |k: usize| self.graph.nodes[self.graph.inputs[k] as usize].outs[0].bytes();
        let is_resident = |k: usize| inputs[k].is_variable && self.placement.homes[k] == Some(d);
        let resident: usize = (0..inputs.len()).filter(|&k| is_resident(k)).map(input_bytes).sum();
        let is_result: FxHashSet<From> =
            self.split.outputs.iter().filter_map(|o| if let Output::From(f) = o { Some(*f) } else { None }).collect();
        // By value: the stretch of the device's parts in which it is held besides what a part needs for itself.
        let mut spans: FxHashMap<From, (usize, usize, usize)> = FxHashMap::default();
        for (at, &p) in own.iter().enumerate() {
            for (f, ty) in parts[p].inputs.iter().zip(Split::types(&parts[p])) {
                if !matches!(f, From::Input(k) if is_resident(*k)) {
                    spans.entry(*f).or_insert((at, at, ty.bytes())).1 = at + 1;
                }
            }
            for (out, s) in parts[p].outputs.iter().enumerate() {
                let f = From::Part { part: p, out };
                let end = if is_result.contains(&f) { own.len() } else { at };
                spans.insert(f, (at + 1, end, self.graph.ty(*s).bytes()));
            }
        }
        let mut held = vec![0isize; own.len() + 2];
        for &(from, to, bytes) in spans.values().filter(|s| s.0 < s.1) {
            held[from] += bytes as isize;
            held[to] -= bytes as isize;
        }
        let mut live = 0isize;
        let one = |(at, &p): (usize, &usize)| {
            let memory = self.programs[p].as_ref().and_then(|p| p.work()).map(|w| w.memory).unwrap_or_default();
            let given: usize = Split::types(&parts[p]).map(ir::Type::bytes).sum();
            let constants = memory.given.saturating_sub(given);
            let lent: usize = parts[p].lent.iter().map(|&k| input_bytes(k)).sum();
            let in_place = if self.in_place[p] { memory.in_place } else { memory.in_place.saturating_sub(lent) };
            live += held[at];
            resident + live as usize + constants + memory.arena + memory.results - in_place
        };
        own.iter().enumerate().map(one).max().unwrap_or(resident)
    }

    fn too_large(&self, d: usize, limit: usize) -> Error {
        let others = self.engines.iter().zip(&self.peaks).enumerate().filter(|(o, _)| *o != d);
        let others: Vec<String> = others
            .map(|(_, (e, peak))| match e.device().memory_limit() {
                Some(l) => format!("{} needs {} of {}", e.device().name(), size(*peak), size(l)),
                None => format!("{} needs {}", e.device().name(), size(*peak)),
            })
            .collect();
        let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        let name = self.engines[d].device().name();
        let e = format!("{name} needs {}, and its memory limit is {}{others}", size(self.peaks[d]), size(limit));
        let own = self.split.parts.iter().filter(|p| p.device == d);
        let largest = own.max_by_key(|p| p.graph.nodes.iter().flat_map(|n| &n.outs).map(ir::Type::bytes).max());
        let e = Error::new(ErrorKind::Device, e);
        largest.map_or(e.clone(), |p| at_largest(e, &p.graph))
    }
}

/// An error that names the device.
fn on(engine: &Engine, e: Error) -> Error {
    let name = engine.device().name();
    if e.message.contains(name) { e } else { Error { message: format!("{} (on {name})", e.message), ..e } }
}

impl Placed {
    /// Whether it is what would be compiled now, for inputs that live on these devices.
    pub fn holds(&self, homes: &[Option<String>]) -> bool {
        let engines = &self.inner.engines;
        let is_home = |(h, at): (&Option<String>, &Option<usize>)| match (h, at) {
            (Some(h), Some(d)) => h == engines[*d].device().name(),
            _ => true,
        };
        engines.iter().zip(&self.revisions).all(|(e, r)| e.revision() == *r)
            && homes.iter().zip(&self.inner.placement.homes).all(is_home)
    }
    /// The device that an input is to live on, if it is one.
    pub fn device_of(&self, input: usize) -> Option<&Arc<dyn Device>> {
        Some(self.inner.engines[self.inner.placement.homes[input]?].device())
    }
    /// The graph after all portable stages, and where its nodes are.
    pub fn placement(&self) -> (&Graph, &Placement) {
        (&self.inner.graph, &self.inner.placement)
    }
    /// Its parts and what is sent between them.
    pub fn split(&self) -> &Split {
        &self.inner.split
    }
    /// Names of the devices.
    pub fn devices(&self) -> Vec<String> {
        self.inner.engines.iter().map(|e| e.device().name().to_string()).collect()
    }
    /// By device: bytes of memory, as planned.
    pub fn peaks(&self) -> &[usize] {
        &self.inner.peaks
    }
    /// The placement alone, for people: devices, parts and what is sent.
    pub fn text(&self) -> String {
        self.inner.text()
    }
}

impl Program for Placed {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        run::run(&self.inner, inputs)
    }
    fn explain(&self) -> String {
        let i = &self.inner;
        let parts = i.split.parts.iter().zip(&i.programs).enumerate();
        let each = parts.filter_map(|(p, (part, program))| {
            let name = i.engines[part.device].device().name();
            program.as_ref().map(|o| format!("== part {p} on {name}\n{}", o.explain()))
        });
        i.text() + &each.collect::<String>()
    }
    fn sources(&self) -> String {
        self.inner.programs.iter().flatten().map(|p| p.sources()).collect()
    }
    fn may_fail(&self) -> bool {
        self.inner.fails.contains(&true)
    }
}
