//! Cuts a graph over a mesh: one walk over the nodes decides how each is computed ([`propagate`]), moves its inputs to
//! the sharding that it needs ([`reshard`]) and appends it to the program of one rank.
//!
//! The graph is that of a whole step, after differentiation: gradients and the optimizer's rule are nodes like others.
//! No op is known by name. What a row does not state is computed whole on every rank, which is always right.

mod factors;
mod generate;
mod overlap;
mod propagate;
mod regather;
mod reshard;
mod scatter;
pub mod time;

pub use factors::factors;
pub use generate::shards;
pub use overlap::{Kind, Overlap};
pub use reshard::{Exchange, Order, Recut, Step};
pub use scatter::scattered;

use crate::decompose::{expansion, graph_of, splice};
use generate::Generated;
use ir::{
    Attrs, CONST, Call, Error, Factors, FlatNode, Graph, INPUT, Meaning, Mesh, OnPart, Op, Portion, Result, Shape,
    Shard, Site, Slot, Spec, Type, Value,
};
use overlap::Candidate;
use propagate::{Given, choose, whole};
use regather::Again;
use reshard::{Moving, cost, steps};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::rc::Rc;

/// An input of the graph, as a plan wants it.
#[derive(Clone, Debug)]
pub struct Placed {
    /// How it is stored between runs.
    pub spec: Spec,
    /// Axes of it that cut only what is stored, as those of ZeRO: what uses the value gathers it first.
    pub stored: Vec<u8>,
    /// Whether the plan says nothing: an input that is updated takes the sharding of its new value.
    pub is_open: bool,
    /// Whether it is a variable.
    pub is_variable: bool,
}

/// What to cut, and for whom.
pub struct Request<'a> {
    /// The mesh.
    pub mesh: &'a Mesh,
    /// The rank whose program it is.
    pub rank: usize,
    /// For each input.
    pub inputs: Vec<Placed>,
    /// Axes along which open inputs that are updated are cut as well: ZeRO.
    pub state: Vec<u8>,
    /// Axes along which gradients of inputs that are updated are scattered, not reduced whole: ZeRO from stage 2 on.
    pub scattered: Vec<u8>,
    /// Axes along which activations `[batch, sequence, width]` are scattered over their sequence, not reduced whole.
    pub sequence: Vec<u8>,
    /// Axes of sequences along which what was gathered for the forward pass is gathered again for the backward pass.
    pub regathered: Vec<u8>,
    /// Whether the first axis is one of microbatches ([`time`]).
    pub in_time: bool,
    /// How ranks exchange.
    pub exchange: &'a dyn Exchange,
    /// How exchanges go on while the rest is computed; `None` if they do not.
    pub overlap: Option<&'a dyn Overlap>,
}

/// A step that was put between two nodes.
#[derive(Clone, Debug)]
pub struct Inserted {
    /// What ranks do.
    pub step: Step,
    /// Bytes that a rank sends.
    pub bytes: f64,
    /// The value, whole.
    pub ty: Type,
    /// How it was held before the step.
    pub from: Spec,
    /// The op and the line that made it; `None` for inputs.
    pub made_by: Option<&'static str>,
    /// Where it was made.
    pub made_at: Site,
    /// The op that needs it so; `None` for results.
    pub used_by: Option<&'static str>,
    /// Whether that op's row states what it does with parts: it needs the value so.
    pub is_stated: bool,
    /// Where it is needed.
    pub used_at: Site,
    /// Number of the node that needs it, in the order of the program.
    pub position: usize,
}

/// The program of one rank.
pub struct Partitioned {
    /// Over parts of the inputs.
    pub graph: Graph,
    /// How each input is cut.
    pub inputs: Vec<Spec>,
    /// How each output is cut.
    pub outputs: Vec<Spec>,
    /// Every exchange that was inserted; slices are not among them.
    pub inserted: Vec<Inserted>,
}

/// How often inputs that the plan leaves open may change their sharding.
const ROUNDS_MAX: usize = 4;

/// The program of one rank. Outputs are whole, but for new values of inputs, which are stored as these are.
pub fn partition(graph: &Graph, request: &Request) -> Result<Partitioned> {
    let mut placed = request.inputs.clone();
    let mut once = vec![false; graph.nodes.len()];
    let mut round = 0;
    loop {
        let (mut done, natural, origins, candidates) = Walk::run(graph, request, &placed, &once, None)?;
        if request.in_time
            && let Err((user, late)) = time::when(&done.graph)
        {
            // What a microbatch waits for is computed once, if it can be known before.
            let user = &done.graph.nodes[user];
            let late = origins[time::gathered(&done.graph, late).node as usize].min(graph.nodes.len() - 1);
            if once[late] || !mark_cone(graph, &request.inputs, late, &mut once) {
                return Err(time::waits(&graph.nodes[late], user.site));
            }
            continue;
        }
        let mut is_settled = true;
        for &(k, o) in &graph.updates {
            let (p, new) = (&mut placed[k as usize], &natural[o as usize]);
            let shape = &graph.ty(graph.outputs[o as usize]).shape;
            // What is stored follows no sequence.
            let is_kept = |a: &u8| !new.deal(*a).is_zigzag;
            let mut wanted = Spec { dims: new.dims.clone(), dealt: new.dealt.clone(), ..Spec::default() };
            wanted.dims.iter_mut().for_each(|d| d.retain(|a| is_kept(a)));
            wanted.dealt.retain(|(_, deal)| !deal.is_zigzag);
            if request.in_time {
                wanted.dims.iter_mut().for_each(|d| d.retain(|a| *a != time::TIME));
            }
            for &axis in request.state.iter().filter(|&&a| new.dim_of(a).is_none()) {
                wanted = scattered(&wanted, shape, axis, request.mesh).unwrap_or(wanted);
            }
            if p.is_open && p.spec != wanted {
                (p.spec, is_settled) = (wanted, false);
            }
        }
        if is_settled || round == ROUNDS_MAX {
            if let Some(by) = request.overlap {
                done.graph = overlap::overlap(done.graph, graph, &origins, &candidates, by)?;
            }
            return Ok(done);
        }
        round += 1;
    }
}

/// Marks a node and all that it is computed from; false if a variable is among it.
fn mark_cone(graph: &Graph, inputs: &[Placed], node: usize, marks: &mut [bool]) -> bool {
    let mut stack = vec![node];
    while let Some(i) = stack.pop() {
        if let Some(k) = graph.inputs.iter().position(|&at| at as usize == i)
            && inputs[k].is_variable
        {
            return false;
        }
        if !std::mem::replace(&mut marks[i], true) {
            stack.extend(graph.nodes[i].inputs.iter().map(|s| s.node as usize));
        }
    }
    true
}

/// A value of the whole graph, and how this rank holds it.
struct Held {
    ty: Type,
    versions: SmallVec<[(Spec, Slot); 2]>,
    stored: Vec<u8>,
    uses: u32,
    is_zero: bool,
    /// Whether it is a parameter that the plan cuts for computation, or a view of one.
    is_pinned: bool,
    made_by: Option<&'static str>,
    made_at: Site,
    /// How parts of it are computed from positions, if they are.
    generated: Option<Rc<Generated>>,
}

/// What the factors of a call depend on.
type Key = (usize, Attrs, SmallVec<[Type; 3]>);

struct Walk<'a> {
    request: &'a Request<'a>,
    out: Graph,
    held: Vec<Held>,
    inserted: Vec<Inserted>,
    known: FxHashMap<Key, Rc<Factors>>,
    /// Shapes of inputs that are updated.
    updated: Vec<Shape>,
    position: usize,
    /// Nodes of the whole graph that are computed once, not in each microbatch.
    once: &'a [bool],
    /// The node of the whole graph that is walked over, and that of each node of the program.
    origin: usize,
    origins: Vec<usize>,
    /// Exchanges that may go on while the rest is computed.
    candidates: Vec<Candidate>,
}

impl<'a> Walk<'a> {
    /// The program, how each output was held before it was moved to where it is stored, the node of the graph that each
    /// node of the program comes from, and the exchanges. Outputs are whole or stored like the inputs that they update,
    /// unless `wanted` says how they are cut.
    fn run(
        graph: &Graph,
        request: &'a Request<'a>,
        placed: &[Placed],
        once: &'a [bool],
        wanted: Option<&[Spec]>,
    ) -> Result<(Partitioned, Vec<Spec>, Vec<usize>, Vec<Candidate>)> {
        let out = Graph { updates: graph.updates.clone(), ..Graph::new() };
        let input_ty = |k: u32| graph.nodes[graph.inputs[k as usize] as usize].outs[0].shape.clone();
        let updated = graph.updates.iter().map(|&(k, _)| input_ty(k)).collect();
        let (held, inserted, known) = (Vec::new(), Vec::new(), FxHashMap::default());
        let (origin, origins, candidates) = (0, Vec::new(), Vec::new());
        let mut walk =
            Walk { request, out, held, inserted, known, updated, position: 0, once, origin, origins, candidates };
        let uses = graph.uses();
        let (mut args, mut inputs) = (Vec::new(), Vec::new());
        for (&i, p) in graph.inputs.iter().zip(placed) {
            let n = &graph.nodes[i as usize];
            let name = n.attrs.str("name").unwrap_or_default();
            // Every rank has all of an argument that is cut into microbatches: each of these is then cut over ranks.
            let cut = if request.in_time { p.spec.dim_of(time::TIME) } else { None };
            let mut spec = p.spec.clone();
            if let Some(dim) = cut {
                spec.dims[dim].clear();
            }
            inputs.push(spec.clone());
            let local = spec.local(&n.outs[0].shape, request.mesh, request.rank);
            let at = walk.out.input(name, &Type::new(n.outs[0].dtype, local), n.site);
            let held = walk.hold(n, 0, spec, at, uses[i as usize]);
            if let Some(dim) = cut {
                walk.microbatch(held, dim, at, &p.spec)?;
            }
            walk.held[held].stored = p.stored.clone();
            let is_cut = p.spec.dims.iter().flatten().any(|a| !p.stored.contains(a));
            walk.held[held].is_pinned = p.is_variable && !p.is_open && is_cut;
            walk.held[held].made_by = None;
            args.push(held);
        }
        let outs = walk.nodes(graph, &args, true)?;
        let natural: Vec<Spec> = outs.iter().map(|&h| walk.held[h].versions[0].0.clone()).collect();
        let whole = || outs.iter().map(|&h| Spec::whole(walk.held[h].ty.shape.rank())).collect();
        let mut wanted: Vec<Spec> = wanted.map_or_else(whole, <[Spec]>::to_vec);
        for &(k, o) in &graph.updates {
            wanted[o as usize] = placed[k as usize].spec.clone();
        }
        walk.position = usize::MAX;
        walk.origins.resize(walk.out.nodes.len(), walk.origin);
        walk.origin = graph.nodes.len();
        for (h, want) in outs.into_iter().zip(&wanted) {
            let site = walk.held[h].made_at;
            let at = walk.moved(h, want, None, site)?;
            walk.out.outputs.push(at);
        }
        walk.origins.resize(walk.out.nodes.len(), walk.origin);
        let done = Partitioned { graph: walk.out, inputs, outputs: wanted, inserted: walk.inserted };
        Ok((done, natural, walk.origins, walk.candidates))
    }

    /// The part of a microbatch, and of that the part of this rank: how an argument is held first of all.
    fn microbatch(&mut self, held: usize, dim: usize, at: Slot, wanted: &Spec) -> Result<()> {
        let Request { mesh, rank, exchange, .. } = *self.request;
        let (shape, site) = (self.held[held].ty.shape.clone(), self.held[held].made_at);
        let mut spec = wanted.clone();
        spec.dims[dim].truncate(1);
        let range = spec.runs(dim, shape[dim], mesh, rank)[0].clone();
        let part = exchange.slice(&mut self.out, at, time::TIME, dim, range, site)?;
        self.held[held].versions.insert(0, (spec, part));
        self.moved(held, wanted, None, site)?;
        let versions = &mut self.held[held].versions;
        let first = versions.iter().position(|(s, _)| s == wanted).unwrap_or(0);
        versions[..=first].rotate_right(1);
        Ok(())
    }

    fn hold(&mut self, n: &FlatNode, out: usize, spec: Spec, at: Slot, uses: u32) -> usize {
        let (ty, made_by, made_at) = (n.outs[out].clone(), Some(n.op.name), n.site);
        let versions = SmallVec::from_iter([(spec, at)]);
        let (stored, is_zero, is_pinned) = (Vec::new(), false, false);
        let generated = None;
        self.held.push(Held { ty, versions, stored, uses, is_zero, is_pinned, made_by, made_at, generated });
        self.held.len() - 1
    }

    /// Walks over the nodes of a graph whose inputs are held so; answers how its outputs are.
    fn nodes(&mut self, graph: &Graph, args: &[usize], is_whole: bool) -> Result<Vec<usize>> {
        let uses = graph.uses();
        let mut map: Vec<SmallVec<[usize; 1]>> = Vec::with_capacity(graph.nodes.len());
        let mut again = Again::new(graph, is_whole && !self.request.in_time);
        let mut args = args.iter();
        for (i, n) in graph.nodes.iter().enumerate() {
            if n.op == &INPUT {
                let held: SmallVec<[usize; 1]> = args.next().copied().into_iter().collect();
                again.stored.push(held.iter().any(|&h| !self.held[h].stored.is_empty()));
                map.push(held);
                continue;
            }
            if again.is_due(n) {
                // What ZeRO gathered for the forward pass is not kept.
                for &h in graph.inputs.iter().flat_map(|&k| map.get(k as usize).into_iter().flatten()) {
                    let kept = if self.held[h].stored.is_empty() { usize::MAX } else { 1 };
                    self.held[h].versions.truncate(kept);
                }
                let request = self.request;
                let is_cut = |s: &Spec| request.regathered.iter().any(|&a| s.dim_of(a).is_some());
                for held in self.held.iter_mut().filter(|h| is_cut(&h.versions[0].0)) {
                    held.versions.retain(|(s, _)| is_cut(s));
                }
            }
            for j in again.views(n) {
                let from: SmallVec<[usize; 3]> =
                    graph.nodes[j].inputs.iter().map(|s| map[s.node as usize][0]).collect();
                map[j] = self.node(&graph.nodes[j], &from, uses[j])?;
            }
            let inputs: SmallVec<[usize; 3]> = n.inputs.iter().map(|s| map[s.node as usize][s.out as usize]).collect();
            if is_whole {
                self.origins.resize(self.out.nodes.len(), self.origin);
                self.origin = i;
            }
            let outs = self.node(n, &inputs, uses[i])?;
            map.push(outs);
        }
        Ok(graph.outputs.iter().map(|s| map[s.node as usize][s.out as usize]).collect())
    }

    fn node(&mut self, n: &FlatNode, inputs: &[usize], uses: u32) -> Result<SmallVec<[usize; 1]>> {
        self.position += 1;
        if n.op == &CONST {
            let at = self.out.push_typed(n.op, SmallVec::new(), n.attrs.clone(), n.outs.clone(), n.site);
            let h = self.hold(n, 0, Spec::whole(n.outs[0].shape.rank()), at, uses);
            self.held[h].is_zero = n.attrs.literal("value")?.bytes().iter().all(|b| *b == 0);
            return Ok(SmallVec::from_iter([h]));
        }
        let types: SmallVec<[Type; 3]> = inputs.iter().map(|&h| self.held[h].ty.clone()).collect();
        let factors = self.factors(n, &types)?;
        self.scatter_gradients(n, inputs)?;
        self.scatter_sequences(n, inputs)?;
        let (mut choice, gathers) = {
            let given = self.given(inputs);
            let time = self.request.in_time.then_some((time::TIME, self.once[self.origin]));
            let choice = choose(n, &factors, &given, self.request.mesh, time);
            // A row that states what it does with parts gathers what it needs whole.
            let is_stated = matches!(n.op.shard, Shard::Rule(_)) && !choice.idles(&given);
            let gathers = choice.gathers(&given) && !is_stated;
            (choice, gathers)
        };
        if let (Meaning::Composite(expand), true) = (n.op.meaning, gathers) {
            let body = expansion(n, &types, expand)?;
            let inner = body.uses();
            for (&h, &i) in inputs.iter().zip(&body.inputs) {
                self.held[h].uses = (self.held[h].uses + inner[i as usize]).saturating_sub(1);
            }
            let outs = self.nodes(&body, inputs, false)?;
            outs.iter().for_each(|&h| self.held[h].uses = self.held[h].uses.max(uses));
            return Ok(outs.into_iter().collect());
        }
        let mut local = self.local(n, &types, &choice.outputs, &choice.inputs);
        if local.is_err() {
            // The row's attributes do not fit parts.
            choice = whole(n, types.iter());
            local = self.local(n, &types, &choice.outputs, &choice.inputs);
        }
        let (attrs, outs) = local?;
        let is_time = |a: u8| self.request.in_time && a == time::TIME;
        let mut summed = choice.summed.iter().filter(|a| !is_time(**a));
        let is_first = summed.all(|&a| self.request.mesh.coordinate(self.request.rank, a) == 0);
        let is_added_once = choice.summed.iter().any(|a| is_time(*a));
        let is_zero = !inputs.is_empty()
            && matches!(n.op.meaning, Meaning::View(_))
            && inputs.iter().all(|&h| self.held[h].is_zero);
        let mut args: SmallVec<[Slot; 3]> = SmallVec::new();
        for (i, (&h, want)) in inputs.iter().zip(&choice.inputs).enumerate() {
            let at = if !is_first && factors.once.contains(&i) && !self.held[h].is_zero {
                let ty = Type::new(types[i].dtype, want.local(&types[i].shape, self.request.mesh, self.request.rank));
                self.request.exchange.zeros(&mut self.out, &ty, n.site)?
            } else {
                let at = self.moved(h, want, Some(n.op), n.site)?;
                let is_first_only = is_added_once && factors.once.contains(&i) && !self.held[h].is_zero;
                if is_first_only { time::first(&mut self.out, at, n.site) } else { at }
            };
            args.push(at);
        }
        let generated = self.generated(n, inputs, &choice).map(Rc::new);
        let is_pinned = n.op.is_view() && inputs.iter().any(|&h| self.held[h].is_pinned);
        let slots = match self.portion(n, &factors, &types, &choice.inputs) {
            Some((on_part, part)) => self.on_part(n, &args, &attrs, on_part, &part)?,
            None => {
                let at = self.out.push_typed(n.op, args, attrs, outs, n.site);
                (0..n.outs.len()).map(|o| Slot { node: at.node, out: o as u32 }).collect()
            }
        };
        let held: SmallVec<[usize; 1]> = choice
            .outputs
            .into_iter()
            .zip(slots)
            .enumerate()
            .map(|(o, (spec, s))| self.hold(n, o, spec, s, uses))
            .collect();
        for &h in &held {
            (self.held[h].is_zero, self.held[h].is_pinned) = (is_zero, is_pinned);
            self.held[h].generated.clone_from(&generated);
            self.deal_back(n, (inputs, &choice.inputs), h, &choice.summed)?;
        }
        Ok(held)
    }

    /// Terms of a result that is like an input which was gathered from a zigzag, as the gradient of keys: each rank
    /// takes its part again.
    fn deal_back(
        &mut self,
        n: &FlatNode,
        (inputs, wanted): (&[usize], &[Spec]),
        h: usize,
        summed: &[u8],
    ) -> Result<()> {
        for &axis in summed {
            let (ty, spec) = (&self.held[h].ty, &self.held[h].versions[0].0);
            let gathered = inputs.iter().zip(wanted).filter(|(_, want)| !want.uses(axis)).map(|(&i, _)| &self.held[i]);
            let like = gathered.filter(|i| i.ty == *ty).map(|i| &i.versions[0].0);
            let cut = like.filter(|s| s.deal(axis).is_zigzag).find_map(|s| Some((s.dim_of(axis)?, s.deal(axis))));
            if let Some((dim, deal)) = cut.filter(|_| spec.is_partial(axis)) {
                let mut to = spec.clone();
                to.partial.retain(|(a, _)| *a != axis);
                to.push(dim, axis, deal);
                let at = self.moved(h, &to, Some(n.op), n.site)?;
                self.held[h].versions = SmallVec::from_iter([(to, at)]);
            }
        }
        Ok(())
    }

    /// The part of the dimension along which positions count, if it is cut, and how a node is computed on it.
    fn portion(&self, n: &FlatNode, f: &Factors, types: &[Type], wanted: &[Spec]) -> Option<(OnPart, Portion)> {
        let (k, on_part) = (f.positions?, n.op.on_part?);
        let dim = f.inputs[0].iter().position(|d| *d == Some(k))?;
        if wanted[0].dims[dim].is_empty() {
            return None;
        }
        let size = types[0].shape[dim];
        Some((on_part, Portion { runs: wanted[0].runs(dim, size, self.request.mesh, self.request.rank), size }))
    }
    /// Appends what a node is on that part.
    fn on_part(&mut self, n: &FlatNode, args: &[Slot], attrs: &Attrs, f: OnPart, part: &Portion) -> Result<Vec<Slot>> {
        self.body(n, args, attrs, |c, given| f(c, given, part))
    }
    /// Appends what a rule makes of a node.
    fn body(
        &mut self,
        n: &FlatNode,
        args: &[Slot],
        attrs: &Attrs,
        rule: impl FnOnce(&Call, &[Value]) -> Result<Vec<Value>>,
    ) -> Result<Vec<Slot>> {
        let types: Vec<Type> = args.iter().map(|&s| self.out.ty(s).clone()).collect();
        let body = n.site.scope(|| {
            let given: Vec<Value> = types.iter().map(|t| Value::placeholder("", t.clone(), n.site)).collect();
            let made = rule(&Call { types: &types, attrs }, &given).map_err(|e| e.in_op(n.op.name).at(n.site))?;
            graph_of(&given, &made)
        })?;
        Ok(splice(&mut self.out, &body, args))
    }

    /// Attributes and result types of the node on parts.
    fn local(&self, n: &FlatNode, types: &[Type], outs: &[Spec], ins: &[Spec]) -> Result<(Attrs, ir::Types)> {
        let (mesh, rank) = (self.request.mesh, self.request.rank);
        if outs.iter().chain(ins).all(|s| s.dims.iter().all(|d| d.is_empty())) {
            return Ok((n.attrs.clone(), n.outs.clone()));
        }
        // Whether the attributes fit must not depend on the rank: uneven parts are tried on the first and the last.
        for r in [0, mesh.ranks() - 1] {
            self.local_on(n, types, outs, ins, r)?;
        }
        self.local_on(n, types, outs, ins, rank)
    }
    fn local_on(
        &self,
        n: &FlatNode,
        types: &[Type],
        outs: &[Spec],
        ins: &[Spec],
        rank: usize,
    ) -> Result<(Attrs, ir::Types)> {
        let mesh = self.request.mesh;
        let on = |t: &Type, s: &Spec| Type::new(t.dtype, s.local(&t.shape, mesh, rank));
        let parts: SmallVec<[Type; 3]> = types.iter().zip(ins).map(|(t, s)| on(t, s)).collect();
        let expected: ir::Types = n.outs.iter().zip(outs).map(|(t, s)| on(t, s)).collect();
        let shapes: Vec<Shape> = expected.iter().map(|t| t.shape.clone()).collect();
        let attrs = match n.op.resize {
            Some(resize) => resize(&Call { types, attrs: &n.attrs }, &parts, &shapes)?,
            None => n.attrs.clone(),
        };
        let got = n.op.check(&Call { types: &parts, attrs: &attrs }).map_err(|e| e.at(n.site))?;
        if got != expected {
            return Err(Error::bug(format!("{got:?} on a part, but {expected:?} is its part")).in_op(n.op.name));
        }
        Ok((attrs, expected))
    }

    fn factors(&mut self, n: &FlatNode, types: &SmallVec<[Type; 3]>) -> Result<Rc<Factors>> {
        let key = (n.op as *const Op as usize, n.attrs.clone(), types.clone());
        if let Some(f) = self.known.get(&key) {
            return Ok(f.clone());
        }
        let f = Rc::new(factors(n, types)?);
        self.known.insert(key, f.clone());
        Ok(f)
    }

    fn given(&self, inputs: &[usize]) -> Vec<Given<'_>> {
        let one = |&h: &usize| {
            let held = &self.held[h];
            Given {
                ty: &held.ty,
                specs: held.versions.iter().map(|(s, _)| s).collect(),
                stored: &held.stored,
                is_last: held.uses <= 1,
                is_zero: held.is_zero,
                is_pinned: held.is_pinned,
            }
        };
        inputs.iter().map(one).collect()
    }

    /// Keeps in mind that the last node that other ranks see is this step.
    fn note(&mut self, step: Step, from: &Spec, to: &Spec, ty: &Type) {
        let part = |s: &Spec| {
            let cuts: usize = s.dims.iter().flatten().map(|&a| self.request.mesh.size(a)).product();
            ty.bytes() / cuts
        };
        if let Some(node) = self.out.nodes.iter().rposition(FlatNode::is_ordered) {
            let (operand, result) = (part(from), part(to));
            self.candidates.push(Candidate { node, axis: step.axis(), operand, result, needed: self.origin });
        }
    }

    /// The value as a use wants it.
    fn moved(&mut self, h: usize, want: &Spec, used_by: Option<&'static Op>, used_at: Site) -> Result<Slot> {
        let held = &self.held[h];
        if let Some((_, at)) = held.versions.iter().find(|(s, _)| s == want) {
            return Ok(*at);
        }
        if let Some(at) = self.generate(h, want)? {
            return Ok(at);
        }
        let (held, mesh) = (&self.held[h], self.request.mesh);
        let ways = held.versions.iter().filter_map(|(from, at)| {
            let list = steps(from, want, &held.ty.shape, mesh)?;
            Some((cost(&list, from, &held.ty, mesh), list, from.clone(), *at))
        });
        let best = ways.min_by(|a, b| a.0.total_cmp(&b.0));
        let (_, list, mut now, mut at) = best.ok_or_else(|| Error::bug(format!("no way to {want:?}")).at(used_at))?;
        let (ty, made_by, made_at) = (held.ty.clone(), held.made_by, held.made_at);
        let Request { rank, exchange, .. } = *self.request;
        let moving = Moving { mesh, rank, exchange, shape: &ty.shape, site: used_at };
        for step in list {
            let from = now.clone();
            at = moving.take(&mut self.out, at, &mut now, step)?;
            let is_in_time = self.request.in_time && step.axis() == time::TIME;
            if !is_in_time && !matches!(step, Step::Slice { .. }) {
                let bytes = cost(&[step], &from, &ty, mesh);
                self.note(step, &from, &now, &ty);
                let is_stated = used_by.is_some_and(|op| op.on_part.is_some());
                let (ty, position, used_by) = (ty.clone(), self.position, used_by.map(|op| op.name));
                let new = Inserted { step, bytes, ty, from, made_by, made_at, used_by, is_stated, used_at, position };
                self.inserted.push(new);
            }
            self.held[h].versions.push((now.clone(), at));
        }
        Ok(at)
    }
}

/// A graph that takes a value, held so by this rank, to another sharding.
pub fn reshard(ty: &Type, from: &Spec, to: &Spec, request: (&Mesh, usize, &dyn Exchange)) -> Result<Graph> {
    let (mesh, rank, exchange) = request;
    let (mut g, site) = (Graph::new(), Site::UNKNOWN);
    let mut at = g.input("", &Type::new(ty.dtype, from.local(&ty.shape, mesh, rank)), site);
    let list = steps(from, to, &ty.shape, mesh).ok_or_else(|| Error::bug("a whole value does not become terms"))?;
    let (moving, mut now) = (Moving { mesh, rank, exchange, shape: &ty.shape, site }, from.clone());
    for step in list {
        at = moving.take(&mut g, at, &mut now, step)?;
    }
    g.outputs.push(at);
    Ok(g)
}
