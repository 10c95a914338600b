//! What carries collectives between the ranks of a job: one small trait, behind which are the
//! links of this crate ([`MeshCommunicator`]) or those of another library.

use super::{Combine, Element, Mesh};
use crate::membership::Member;
use crate::{Error, Filter, Result};
use net::Header;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

/// Ranks of the job that work together, in their order; every job has the group of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Group {
    /// Numbers in the job.
    ranks: Vec<usize>,
    /// Which of them is this process.
    me: usize,
}

impl Group {
    /// The group of these ranks, seen from rank `me` of `world`.
    pub fn new(ranks: &[usize], me: usize, world: usize) -> Result<Group> {
        if let Some(r) = ranks.iter().find(|r| **r >= world) {
            return Err(Error::value(format!("there is no rank {r} among {world}")));
        }
        if let Some((i, r)) = ranks.iter().enumerate().find(|(i, r)| ranks[..*i].contains(r)) {
            return Err(Error::value(format!("rank {r} stands twice in a group, the second time at {i}")));
        }
        let place = ranks.iter().position(|r| *r == me);
        let me = place.ok_or_else(|| Error::value(format!("rank {me} is not in the group {ranks:?}")))?;
        Ok(Group { ranks: ranks.to_vec(), me })
    }
    /// Numbers of its members in the job.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }
    /// This process's number among them.
    pub fn me(&self) -> usize {
        self.me
    }
    /// How many they are.
    pub fn size(&self) -> usize {
        self.ranks.len()
    }
    /// A number that tells teams apart.
    fn mark(&self) -> u64 {
        self.ranks.iter().fold(0xcbf2_9ce4_8422_2325, |h, r| (h ^ *r as u64).wrapping_mul(0x0100_0000_01b3))
    }
}

/// Which collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// All-reduce: every rank gets the combination.
    AllReduce = 1,
    /// Reduce-scatter: every rank gets its part of the combination.
    ReduceScatter,
    /// All-gather: every rank gets the data of all ranks.
    AllGather,
    /// Broadcast: every rank gets the root's data.
    Broadcast,
    /// The root gets the combination.
    Reduce,
    /// All-to-all: every rank gets its part of every rank's data.
    AllToAll,
    /// From one to another.
    Send,
}

const KINDS: [&str; 8] =
    ["?", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all", "send"];

/// How elements are packed, by the number.
const WIRES: [&str; 5] = ["f32", "bf16", "int8", "1bit", "top"];

/// What a rank is about to do, as the others are told with every message: all must do the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    kind: u8,
    element: u8,
    /// How values are combined, if they are.
    how: Option<Combine>,
    root: u32,
    count: u64,
    /// A hash of the sizes.
    shape: u64,
    /// How elements are packed on the wire; 0: not at all.
    wire: u8,
}

impl Signature {
    /// A collective on elements of this shape.
    pub fn new(kind: Kind, element: Element, shape: &[usize]) -> Signature {
        let hash = |h: u64, n: &usize| (h ^ *n as u64).wrapping_mul(0x0100_0000_01b3);
        Signature {
            kind: kind as u8,
            element: element as u8,
            how: None,
            root: 0,
            count: shape.iter().product::<usize>() as u64,
            shape: shape.iter().fold(0xcbf2_9ce4_8422_2325, hash),
            wire: 0,
        }
    }
    /// That combines in this way.
    pub fn by(self, how: Combine) -> Signature {
        Signature { how: Some(how), ..self }
    }
    /// With this root.
    pub fn rooted(self, root: usize) -> Signature {
        Signature { root: root as u32, ..self }
    }
    /// Whose elements are packed on the wire.
    pub fn packed(self, filter: Filter) -> Signature {
        Signature { wire: filter.code() as u8, ..self }
    }
    /// Writes it into a header.
    pub(super) fn write(&self, h: &mut Header) {
        let how = self.how.map_or(0, |h| h as u32 + 1);
        h.table = u32::from(self.kind) | u32::from(self.element) << 8 | how << 16 | u32::from(self.wire) << 24;
        (h.count, h.key, h.clock) = (self.root, self.count, self.shape);
    }
    /// From a header.
    pub(super) fn read(h: &Header) -> Signature {
        let how = match h.table >> 16 & 0xff {
            1 => Some(Combine::Sum),
            2 => Some(Combine::Prod),
            3 => Some(Combine::Max),
            4 => Some(Combine::Min),
            _ => None,
        };
        let (kind, element, wire) = (h.table as u8, (h.table >> 8) as u8, (h.table >> 24) as u8);
        Signature { kind, element, how, root: h.count, count: h.key, shape: h.clock, wire }
    }
    /// Its bytes, for carriers whose messages have no header.
    pub fn encode(&self) -> [u64; 3] {
        let mut h = Header::default();
        self.write(&mut h);
        [u64::from(h.table) | u64::from(h.count) << 32, h.key, h.clock]
    }
    /// From its bytes.
    pub fn decode(words: [u64; 3]) -> Signature {
        let (table, count) = (words[0] as u32, (words[0] >> 32) as u32);
        Signature::read(&Header { table, count, key: words[1], clock: words[2], ..Header::default() })
    }
    /// An error unless another rank does what this one does.
    pub fn check(&self, rank: usize, theirs: &Signature) -> Result<()> {
        if self == theirs {
            return Ok(());
        }
        let same = *self == Signature { shape: self.shape, ..*theirs };
        let more = if same { " in another shape" } else { "" };
        Err(Error::refused(format!(
            "rank {rank} calls {theirs}{more}, this rank calls {self}: all ranks must call the same collectives in \
             the same order"
        )))
    }
}
impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = KINDS.get(self.kind as usize).unwrap_or(&"?");
        write!(f, "{kind} of {} elements of {}", self.count, Element::named(self.element))?;
        if let Some(how) = self.how {
            write!(f, " by {}", how.name())?;
        }
        if self.kind == Kind::Broadcast as u8 || self.kind == Kind::Reduce as u8 {
            write!(f, " with root {}", self.root)?;
        }
        if let Some(wire) = WIRES.get(usize::from(self.wire)).filter(|_| self.wire > 0) {
            write!(f, " sent as {wire}")?;
        }
        Ok(())
    }
}

/// One call of a collective.
#[derive(Clone, Copy)]
pub struct Operation<'a> {
    /// Who takes part.
    pub group: &'a Group,
    /// What it is.
    pub signature: Signature,
    /// Elements.
    pub element: Element,
    /// When it is given up.
    pub deadline: Instant,
}

/// Carries collectives. All members of a group call the same ones in the same order; ranks are
/// those of the group. After an error nothing more can be carried.
pub trait Communicator: Send {
    /// All-reduce: every rank ends with the combination of all ranks' data.
    fn all_reduce(&mut self, operation: &Operation, data: &mut [u8], how: Combine) -> Result<()>;
    /// Each rank ends with its part of the combination, in place; returns which bytes that is. The
    /// data are as many equal parts as there are ranks.
    fn reduce_scatter(&mut self, operation: &Operation, data: &mut [u8], how: Combine) -> Result<Range<usize>>;
    /// The same from `data` into `out`, which has the length of a part.
    fn reduce_scatter_into(&mut self, operation: &Operation, data: &[u8], out: &mut [u8], how: Combine) -> Result<()> {
        let mut all = vec![0u64; data.len().div_ceil(8)];
        let all: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut all)[..data.len()];
        all.copy_from_slice(data);
        let mine = self.reduce_scatter(operation, all, how)?;
        out.copy_from_slice(&all[mine]);
        Ok(())
    }
    /// Rank `i` brings part `i` of as many equal parts; every rank ends with all.
    fn all_gather(&mut self, operation: &Operation, data: &mut [u8]) -> Result<()>;
    /// Every rank ends with the root's data.
    fn broadcast(&mut self, operation: &Operation, data: &mut [u8], root: usize) -> Result<()>;
    /// Rank `i`'s part `j` becomes rank `j`'s part `i`.
    fn all_to_all(&mut self, operation: &Operation, send: &[u8], receive: &mut [u8]) -> Result<()>;
    /// Sends to one rank, which must receive.
    fn send(&mut self, operation: &Operation, data: &[u8], to: usize) -> Result<()>;
    /// Receives from one rank.
    fn receive(&mut self, operation: &Operation, data: &mut [u8], from: usize) -> Result<()>;
    /// What ends an operation that is under way on another thread, on all ranks; `None` if nothing does.
    fn closer(&mut self) -> Result<Option<Closer>> {
        Ok(None)
    }
}

/// Ends what is under way ([`Communicator::closer`]).
pub type Closer = Box<dyn Fn() + Send>;

/// Collectives over this crate's links. Teams share the links of the job: as every process calls
/// its collectives in program order, so do both ends of each link.
pub struct MeshCommunicator {
    all: Mesh,
    /// How many operations each group has done.
    counts: BTreeMap<Group, u64>,
    /// Kept: what this process has said in the membership store hangs on it.
    _line: Option<Member>,
}

impl MeshCommunicator {
    /// Over the links of all ranks.
    pub fn new(all: Mesh) -> MeshCommunicator {
        MeshCommunicator { all, counts: BTreeMap::new(), _line: None }
    }
    pub(super) fn with_line(self, line: Member) -> MeshCommunicator {
        MeshCommunicator { _line: Some(line), ..self }
    }
    /// Runs an operation in the group of a group.
    fn within<T>(&mut self, operation: &Operation, f: impl FnOnce(&mut Mesh) -> Result<T>) -> Result<T> {
        let group = operation.group;
        if group.size() == self.all.ranks() && group.ranks.is_sorted() {
            self.all.sign(operation.signature);
            return f(&mut self.all);
        }
        let count = self.counts.entry(group.clone()).or_insert(0);
        let mut part = self.all.part(group.ranks(), group.me, group.mark(), *count)?;
        part.sign(operation.signature);
        let done = f(&mut part);
        *count = part.operations();
        self.all.rejoin(part, group.ranks());
        done
    }
}

impl Communicator for MeshCommunicator {
    fn all_reduce(&mut self, operation: &Operation, data: &mut [u8], how: Combine) -> Result<()> {
        self.within(operation, |g| g.all_reduce(data, operation.element, how, operation.deadline))
    }
    fn reduce_scatter(&mut self, operation: &Operation, data: &mut [u8], how: Combine) -> Result<Range<usize>> {
        self.within(operation, |g| g.reduce_scatter(data, operation.element, how, operation.deadline))
    }
    fn reduce_scatter_into(&mut self, operation: &Operation, data: &[u8], out: &mut [u8], how: Combine) -> Result<()> {
        self.within(operation, |g| g.reduce_scatter_into(data, out, operation.element, how, operation.deadline))
    }
    fn all_gather(&mut self, operation: &Operation, data: &mut [u8]) -> Result<()> {
        self.within(operation, |g| g.all_gather(data, operation.element.size(), operation.deadline))
    }
    fn broadcast(&mut self, operation: &Operation, data: &mut [u8], root: usize) -> Result<()> {
        self.within(operation, |g| g.broadcast(data, root, operation.deadline))
    }
    fn all_to_all(&mut self, operation: &Operation, send: &[u8], receive: &mut [u8]) -> Result<()> {
        self.within(operation, |g| g.all_to_all(send, receive, operation.deadline))
    }
    fn send(&mut self, operation: &Operation, data: &[u8], to: usize) -> Result<()> {
        self.within(operation, |g| g.send(to, data, operation.deadline))
    }
    fn receive(&mut self, operation: &Operation, data: &mut [u8], from: usize) -> Result<()> {
        self.within(operation, |g| g.receive(from, data, operation.deadline))
    }
    fn closer(&mut self) -> Result<Option<Closer>> {
        let handles = self.all.handles()?;
        Ok(Some(Box::new(move || handles.iter().for_each(net::Sender::close))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_survive_their_bytes_and_tell_what_differs() {
        let a = Signature::new(Kind::AllReduce, Element::Bf16, &[2, 3]).by(Combine::Max);
        assert_eq!(Signature::decode(a.encode()), a);
        let b = Signature::new(Kind::Broadcast, Element::F32, &[3, 2]).rooted(1);
        assert_eq!(Signature::decode(b.encode()), b);
        let e = a.check(1, &b).unwrap_err().to_string();
        assert!(
            e.contains("rank 1 calls broadcast of 6 elements of f32 with root 1, this rank calls all_reduce"),
            "{e}"
        );
        let c = Signature::new(Kind::AllReduce, Element::Bf16, &[3, 2]).by(Combine::Max);
        assert!(a.check(1, &c).unwrap_err().to_string().contains("in another shape"));
        let d = Signature::new(Kind::AllReduce, Element::F32, &[6]).packed(Filter::Int8);
        assert_eq!(Signature::decode(d.encode()), d);
        assert!(d.to_string().ends_with("sent as int8"), "{d}");
    }

    #[test]
    fn teams_are_checked() {
        assert_eq!(Group::new(&[3, 1], 1, 4).unwrap().me(), 1);
        for (ranks, me, text) in
            [(&[0, 4][..], 0, "no rank 4"), (&[0, 0], 0, "twice"), (&[0, 2], 1, "rank 1 is not in")]
        {
            assert!(Group::new(ranks, me, 4).unwrap_err().to_string().contains(text));
        }
    }
}
