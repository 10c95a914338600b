//! Which device a graph was asked for on. A node made inside a `device` scope carries the scope's
//! place; what was made outside of all scopes may be computed anywhere.

use crate::{Engine, is_divided, is_logical, logical_names};
use ir::{Collected, Error, ErrorKind, Graph, Result, Slot, Source, Value};
use parking_lot::Mutex;
use passes::place::Place;
use rustc_hash::FxHashMap;

/// What a place stands for.
#[derive(Clone, Copy)]
enum Known {
    /// The device of a scope.
    Engine(&'static Engine),
    /// Where a value is computed: the node, and the variable that it reads.
    With(u64, Option<u64>),
}

/// By place, from 1 on.
static PLACES: Mutex<Vec<Known>> = Mutex::new(Vec::new());

fn number(new: Known, is_same: impl Fn(&Known) -> bool) -> u32 {
    let mut places = PLACES.lock();
    let at = places.iter().position(is_same).unwrap_or_else(|| {
        places.push(new);
        places.len() - 1
    });
    at as u32 + 1
}

/// The place of an engine, for [`ir::set_place`].
pub fn place_of(engine: &'static Engine) -> u32 {
    number(Known::Engine(engine), |k| matches!(k, Known::Engine(e) if std::ptr::eq(*e, engine)))
}

/// The place of a value, wherever that is computed, for [`ir::set_place`].
pub fn place_with(value: &Value) -> u32 {
    let node = value.node().id();
    let var = if let Source::Read(var) = value.node().source() { Some(var.id()) } else { None };
    number(Known::With(node, var), |k| matches!(k, Known::With(n, v) if *n == node || var.is_some() && *v == var))
}

fn known(place: u32) -> Option<Known> {
    PLACES.lock().get((place as usize).checked_sub(1)?).copied()
}

fn engine_at(place: u32) -> Option<&'static Engine> {
    match known(place)? {
        Known::Engine(e) => Some(e),
        Known::With(..) => None,
    }
}

/// A graph that several devices compute, with what is known about them.
pub struct Placing {
    /// The graph; [`ir::Site::place`] of its nodes are numbers of `places`.
    pub graph: Graph,
    /// The devices.
    pub engines: Vec<&'static Engine>,
    /// Constraints, by number from 1.
    pub places: Vec<Place>,
}

/// Which values a collected graph came from, without holding on to them.
#[derive(Default)]
pub struct Origins {
    /// By input: the node, and the variable that it reads.
    leaves: Vec<(u64, Option<u64>)>,
    /// By node; 0 for inputs.
    nodes: Vec<u64>,
}

impl From<&Collected> for Origins {
    fn from(c: &Collected) -> Origins {
        let var = |v: &Value| if let Source::Read(var) = v.node().source() { Some(var.id()) } else { None };
        let leaves = c.leaves.iter().map(|v| (v.node().id(), var(v))).collect();
        Origins { leaves, nodes: c.nodes.iter().map(|n| n.as_ref().map_or(0, |n| n.id())).collect() }
    }
}

/// What is to be placed: `None` where one device computes everything. `graph` has the nodes of what was collected `from`; `homes`
/// are the devices that its inputs live on, and `current` is the device of what has no constraint.
///
/// # Errors
/// For more than 64 devices.
pub fn placing(from: &Origins, graph: &Graph, current: &Engine, homes: &[Option<String>]) -> Result<Option<Placing>> {
    let mut asked: Vec<&'static Engine> = Vec::new();
    let mut is_colocated = false;
    for n in graph.nodes.iter().filter(|n| n.site.place != 0 && n.op != &ir::INPUT && n.op != &ir::CONST) {
        match known(n.site.place) {
            Some(Known::Engine(e)) if !asked.iter().any(|a| std::ptr::eq(*a, e)) => asked.push(e),
            Some(Known::With(..)) => is_colocated = true,
            _ => {}
        }
    }
    let name = |e: &Engine| e.device().name().to_string();
    let mut exact: Vec<String> = asked.iter().map(|e| name(e)).filter(|n| !is_divided(n)).collect();
    let scopes = exact.len();
    for home in homes.iter().flatten() {
        if !exact.contains(home) {
            exact.push(home.clone());
        }
    }
    let is_automatic = is_divided(current.device().name());
    // Ops follow their inputs, unless those are on a logical device.
    let is_followed = exact.len() == 2 && scopes == 1 && !exact.iter().any(|n| is_logical(n));
    if !is_automatic && (exact.len() < 2 || is_followed) {
        return Ok(None);
    }
    let mut names = if is_automatic || asked.iter().any(|e| is_divided(e.device().name())) {
        logical_names()
    } else if is_colocated && exact.is_empty() {
        vec![name(current)]
    } else {
        Vec::new()
    };
    exact.iter().filter(|n| !names.contains(n)).cloned().collect::<Vec<_>>().into_iter().for_each(|n| names.push(n));
    if names.len() > 64 {
        let e = format!("a graph is placed on 64 devices at most, not on {}", names.len());
        return Err(Error::new(ErrorKind::Device, e));
    }
    let engines = names.iter().map(|n| current.named(n)).collect::<Result<Vec<_>>>()?;
    let mut numbers = Numbers { engines: &engines, places: Vec::new(), of: FxHashMap::default() };
    let mut graph = graph.clone();
    numbers.write(from, &mut graph);
    let places = numbers.places;
    Ok(Some(Placing { graph, engines, places }))
}

/// Numbers of constraints within one graph.
struct Numbers<'a> {
    engines: &'a [&'static Engine],
    places: Vec<Place>,
    of: FxHashMap<u32, u32>,
}

impl Numbers<'_> {
    fn all(&self) -> u64 {
        if self.engines.len() >= 64 { u64::MAX } else { (1 << self.engines.len()) - 1 }
    }
    fn add(&mut self, place: Place) -> u32 {
        self.places.push(place);
        self.places.len() as u32
    }
    /// The number of a scope's device.
    fn engine(&mut self, place: u32, e: &'static Engine) -> u32 {
        if let Some(&known) = self.of.get(&place) {
            return known;
        }
        let name = e.device().name();
        let is_it =
            |o: &&'static Engine| if is_divided(name) { is_logical(o.device().name()) } else { std::ptr::eq(*o, e) };
        let bits = self.engines.iter().enumerate().filter(|(_, o)| is_it(o));
        let allowed = bits.fold(0, |mask, (d, _)| mask | 1 << d);
        let number = self.add(Place { allowed, is_one: false, text: format!("device({name:?})") });
        self.of.insert(place, number);
        number
    }
    /// Writes numbers into the lines of a graph.
    fn write(&mut self, from: &Origins, graph: &mut Graph) {
        let asked: Vec<u32> = graph.nodes.iter().map(|n| n.site.place).collect();
        let mut targets: Vec<(u32, usize)> = Vec::new();
        for (i, n) in graph.nodes.iter_mut().enumerate() {
            let is_input = n.op == &ir::INPUT;
            n.site.place = match known(asked[i]).filter(|_| !is_input) {
                Some(Known::Engine(e)) => self.engine(asked[i], e),
                _ => 0,
            };
        }
        let leaves = graph.inputs.iter().zip(&from.leaves);
        for place in asked.iter().enumerate().filter(|(i, _)| graph.nodes[*i].op != &ir::INPUT).map(|(_, p)| *p) {
            let Some(Known::With(node, var)) = known(place) else { continue };
            if targets.iter().any(|(p, _)| *p == place) {
                continue;
            }
            let is_it = |(n, v): &(u64, Option<u64>)| *n == node || var.is_some() && *v == var;
            let leaf = leaves.clone().find(|(_, l)| is_it(l)).map(|(&i, _)| i as usize);
            let inner = || from.nodes.iter().position(|n| *n == node);
            if let Some(at) = leaf.or_else(inner) {
                targets.push((place, at));
            }
        }
        for (place, at) in targets {
            // Its own constraint, or that of another group, is that of the group.
            let own = graph.nodes[at].site.place;
            let number = if own != 0 && self.places[own as usize - 1].is_one {
                own
            } else {
                let allowed = if own == 0 { self.all() } else { self.places[own as usize - 1].allowed };
                let with = graph.nodes[at].site;
                self.add(Place { allowed, is_one: true, text: format!("colocate_with the value of {with}") })
            };
            graph.nodes[at].site.place = number;
            asked.iter().enumerate().filter(|(i, p)| **p == place && *i != at).for_each(|(i, _)| {
                if graph.nodes[i].op != &ir::INPUT {
                    graph.nodes[i].site.place = number;
                }
            });
        }
    }
}

/// Where a graph is to be computed.
pub enum Placement {
    /// On the device of the scope in which its nodes were made.
    Here(&'static Engine),
    /// Anywhere.
    Anywhere,
    /// Its nodes were made in several scopes: these values first, on this device. What depends on
    /// them follows them.
    First(&'static Engine, Vec<Value>),
}

/// Where a graph is to be computed.
pub fn placement(c: &Collected) -> Placement {
    let place = |i: usize| c.nodes[i].as_ref().filter(|n| n.op().is_some()).map_or(0, |n| n.place());
    let mut places = (0..c.nodes.len()).map(place).filter(|p| *p != 0);
    let Some(first) = places.next() else { return Placement::Anywhere };
    let Some(engine) = engine_at(first) else { return Placement::Anywhere };
    if places.all(|p| p == first) {
        return Placement::Here(engine);
    }
    // Nodes that need nothing of another place, and whether they need the first one.
    let (mut is_pure, mut is_placed) = (vec![false; c.nodes.len()], vec![false; c.nodes.len()]);
    for (i, n) in c.graph.nodes.iter().enumerate() {
        is_pure[i] = [0, first].contains(&place(i)) && n.inputs.iter().all(|s| is_pure[s.node as usize]);
        is_placed[i] = is_pure[i] && (place(i) == first || n.inputs.iter().any(|s| is_placed[s.node as usize]));
    }
    let foreign = c.graph.nodes.iter().enumerate().filter(|(i, _)| !is_pure[*i]).flat_map(|(_, n)| n.inputs.iter());
    let mut asked: Vec<Slot> =
        foreign.chain(&c.graph.outputs).filter(|s| is_placed[s.node as usize]).copied().collect();
    asked.sort();
    asked.dedup();
    let value = |s: &Slot| Some(Value::from_node(c.nodes[s.node as usize].clone()?).sibling(s.out as usize));
    Placement::First(engine, asked.iter().filter_map(value).collect())
}
