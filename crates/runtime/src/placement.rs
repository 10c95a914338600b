//! Which device a graph was asked for on. A node made inside a `device` scope carries the scope's
//! place; what was made outside of all scopes may be computed anywhere.

use crate::Engine;
use ir::{Collected, Slot, Value};
use parking_lot::Mutex;

/// Engines by place, from 1 on.
static ENGINES: Mutex<Vec<&'static Engine>> = Mutex::new(Vec::new());

/// The place of an engine, for [`ir::set_place`].
pub fn place_of(engine: &'static Engine) -> u32 {
    let mut engines = ENGINES.lock();
    let known = engines.iter().position(|e| std::ptr::eq(*e, engine));
    let at = known.unwrap_or_else(|| {
        engines.push(engine);
        engines.len() - 1
    });
    at as u32 + 1
}

fn engine_at(place: u32) -> Option<&'static Engine> {
    ENGINES.lock().get((place as usize).checked_sub(1)?).copied()
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
