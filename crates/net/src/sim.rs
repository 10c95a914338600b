//! A bad network in a box: messages are lost, delayed, doubled and overtaken, links are cut, nodes
//! crash and their clocks drift. Time is a number and chance comes from a seed, so a failure is a
//! seed, and the same seed is the same run.
//!
//! The simulated program is a set of state machines: take the [`Event`] that is due next, hand it
//! to its node, send what the node answers.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::ops::Range;

/// Number of a node.
pub type Node = u32;
/// Microseconds since the simulation began.
pub type Micros = u64;

/// Random numbers that depend on the seed alone (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    /// A number in the range; its start if the range is empty.
    pub fn within(&mut self, r: Range<u64>) -> u64 {
        if r.is_empty() { r.start } else { r.start + self.bits() % (r.end - r.start) }
    }
    /// True with that probability.
    pub fn chance(&mut self, p: f64) -> bool {
        ((self.bits() >> 11) as f64 / (1u64 << 53) as f64) < p
    }
}

/// How bad the network is.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Probability that a message is lost.
    pub loss: f64,
    /// Probability that a message arrives twice.
    pub double: f64,
    /// How long a message travels.
    pub delay: Range<Micros>,
    /// Probability that a message takes ten times as long, and is overtaken.
    pub late: f64,
    /// How much clocks run fast or slow, in parts of a thousand.
    pub skew: u64,
}

impl Default for Faults {
    /// A quiet network: nothing lost, in order.
    fn default() -> Faults {
        Faults { loss: 0.0, double: 0.0, delay: 100..101, late: 0.0, skew: 0 }
    }
}

/// What happens next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<M> {
    /// A message arrives.
    Message {
        /// Who sent it.
        from: Node,
        /// Who gets it.
        to: Node,
        /// What it says.
        message: M,
    },
    /// A timer that a node has set runs out.
    Timer {
        /// Whose timer.
        node: Node,
        /// What it was set for.
        token: u64,
    },
}

struct Due<M> {
    event: Event<M>,
    /// Life of the receiving node that it was meant for.
    life: u64,
}

/// The network and its clock.
pub struct Network<M> {
    now: Micros,
    random: Random,
    faults: Faults,
    queue: BinaryHeap<Reverse<(Micros, u64)>>,
    due: BTreeMap<u64, Due<M>>,
    sent: u64,
    lives: BTreeMap<Node, u64>,
    down: BTreeSet<Node>,
    cut: BTreeSet<(Node, Node)>,
    rates: BTreeMap<Node, u64>,
}

impl<M: Clone> Network<M> {
    /// A network with nothing in flight.
    pub fn new(seed: u64, faults: Faults) -> Network<M> {
        Network {
            now: 0,
            random: Random::new(seed),
            faults,
            queue: BinaryHeap::new(),
            due: BTreeMap::new(),
            sent: 0,
            lives: BTreeMap::new(),
            down: BTreeSet::new(),
            cut: BTreeSet::new(),
            rates: BTreeMap::new(),
        }
    }
    /// The true time.
    pub fn now(&self) -> Micros {
        self.now
    }
    /// The time a node believes it is.
    pub fn clock(&mut self, node: Node) -> Micros {
        let skew = self.faults.skew;
        let random = &mut self.random;
        let rate = *self.rates.entry(node).or_insert_with(|| 1000 - skew + random.within(0..2 * skew + 1));
        self.now * rate / 1000
    }
    /// Chance, from the seed.
    pub fn random(&mut self) -> &mut Random {
        &mut self.random
    }
    /// Sends a message; the network may do to it what networks do.
    pub fn send(&mut self, from: Node, to: Node, message: M) {
        if self.down.contains(&from) || self.cut.contains(&(from, to)) || self.random.chance(self.faults.loss) {
            return;
        }
        let copies = 1 + usize::from(self.random.chance(self.faults.double));
        for _ in 0..copies {
            let mut delay = self.random.within(self.faults.delay.clone());
            if self.random.chance(self.faults.late) {
                delay *= 10;
            }
            self.schedule(self.now + delay, to, Event::Message { from, to, message: message.clone() });
        }
    }
    /// Sets a timer of a node; it dies with the node.
    pub fn timer(&mut self, node: Node, after: Micros, token: u64) {
        self.schedule(self.now + after, node, Event::Timer { node, token });
    }
    fn schedule(&mut self, at: Micros, node: Node, event: Event<M>) {
        let life = self.lives.get(&node).copied().unwrap_or(0);
        self.queue.push(Reverse((at, self.sent)));
        self.due.insert(self.sent, Due { event, life });
        self.sent += 1;
    }
    /// The next event, and its time becomes now; `None` when nothing is in flight.
    pub fn next_event(&mut self) -> Option<Event<M>> {
        while let Some(Reverse((at, id))) = self.queue.pop() {
            self.now = at;
            let Some(Due { event, life }) = self.due.remove(&id) else { continue };
            let to = match &event {
                Event::Message { from, to, .. } if self.cut.contains(&(*from, *to)) => continue,
                Event::Message { to, .. } => *to,
                Event::Timer { node, .. } => *node,
            };
            if self.down.contains(&to) || self.lives.get(&to).copied().unwrap_or(0) != life {
                continue;
            }
            return Some(event);
        }
        None
    }
    /// Kills a node: what is in flight to it is lost, what it has sent still arrives.
    pub fn crash(&mut self, node: Node) {
        self.down.insert(node);
        *self.lives.entry(node).or_insert(0) += 1;
    }
    /// Starts a node again, with nothing.
    pub fn restart(&mut self, node: Node) {
        self.down.remove(&node);
    }
    /// True while a node is dead.
    pub fn is_down(&self, node: Node) -> bool {
        self.down.contains(&node)
    }
    /// Cuts one direction of a link.
    pub fn cut(&mut self, from: Node, to: Node) {
        self.cut.insert((from, to));
    }
    /// Restores one direction of a link.
    pub fn restore(&mut self, from: Node, to: Node) {
        self.cut.remove(&(from, to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn storm() -> Faults {
        Faults { loss: 0.2, double: 0.2, delay: 10..1000, late: 0.1, skew: 50 }
    }
    fn run(seed: u64) -> Vec<(Micros, Event<u32>)> {
        let mut n = Network::new(seed, storm());
        (0..200).for_each(|i| n.send(i % 5, (i + 1) % 5, i));
        let mut log = Vec::new();
        while let Some(e) = n.next_event() {
            log.push((n.now(), e));
        }
        log
    }

    #[test]
    fn a_seed_is_a_run() {
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
    }

    #[test]
    fn a_storm_loses_doubles_and_reorders() {
        let got: Vec<u32> = run(1)
            .into_iter()
            .filter_map(|(_, e)| if let Event::Message { message, .. } = e { Some(message) } else { None })
            .collect();
        let distinct: BTreeSet<u32> = got.iter().copied().collect();
        assert!(distinct.len() < 200 && got.len() > distinct.len() && !got.is_sorted());
    }

    #[test]
    fn a_dead_node_hears_nothing_and_a_cut_link_carries_nothing() {
        let mut n = Network::new(0, Faults::default());
        n.send(0, 1, 'a');
        n.timer(1, 50, 1);
        n.crash(1);
        n.send(1, 0, 'b');
        n.restart(1);
        n.send(0, 1, 'c');
        n.cut(0, 2);
        n.send(0, 2, 'd');
        assert_eq!(n.next_event(), Some(Event::Message { from: 0, to: 1, message: 'c' }));
        assert_eq!(n.next_event(), None);
    }
}
