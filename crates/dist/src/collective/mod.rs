//! Collectives over a full mesh of links: every rank calls the same functions in the same order.
//!
//! A group belongs to an epoch and numbers its operations; a message of another epoch or
//! operation is refused. Any error breaks the group: it closes its links, so that the other
//! members notice at once instead of waiting, and a new group is formed in the next epoch.

mod communicator;
mod element;
mod exchange;
mod join;
mod mesh;
#[cfg(feature = "mpi")]
mod mpi;
mod overlap;
mod packed;
mod reducer;
mod schedule;

pub use communicator::{Closer, Communicator, Group, Kind, MeshCommunicator, Operation, Signature};
pub use element::{Combine, Element};
pub use join::{Backend, JoinOptions, join};
#[cfg(feature = "mpi")]
pub use mpi::Mpi;
pub use overlap::Overlap;
pub use reducer::{Give, Reducer};
pub use schedule::{Algorithm, part};

use crate::{Error, Filter, Result};
use exchange::Take;
use net::Connection;
use schedule::{halving, rounds};
use std::ops::Range;
use std::time::Instant;

/// Ranks that work together.
pub struct Mesh {
    rank: usize,
    epoch: u64,
    links: Vec<Option<Connection>>,
    operations: u64,
    is_broken: bool,
    /// What the operation is, as the others are told.
    signature: Signature,
    /// Where received data waits to be added; in words, so that any element is aligned.
    scratch: Vec<u64>,
    /// Every rank's version of this rank's part, in words as well.
    parts: Vec<u64>,
    /// A copy of what is sent while the same place receives.
    outgoing: Vec<u8>,
}

impl Mesh {
    /// A group over links to all others: `links[rank]` is `None`, every other is there.
    pub fn new(rank: usize, epoch: u64, links: Vec<Option<Connection>>) -> Result<Mesh> {
        let is_mesh = rank < links.len() && links.iter().enumerate().all(|(i, l)| l.is_some() == (i != rank));
        if !is_mesh {
            return Err(Error::value(format!(
                "rank {rank} needs a link to each of the other ranks and none to itself"
            )));
        }
        let (scratch, parts, outgoing) = (Vec::new(), Vec::new(), Vec::new());
        let signature = Signature::default();
        Ok(Mesh { rank, epoch, links, operations: 0, is_broken: false, signature, scratch, parts, outgoing })
    }
    /// The group of some members, which has their links until [`Mesh::rejoin`]. `mark` tells such
    /// groups apart, `operations` is what it has done before.
    fn part(&mut self, ranks: &[usize], me: usize, mark: u64, operations: u64) -> Result<Mesh> {
        let links = ranks.iter().map(|r| self.links[*r].take()).collect();
        let mut part = Mesh::new(me, self.epoch ^ mark, links)?;
        (part.operations, part.is_broken) = (operations, self.is_broken);
        std::mem::swap(&mut part.scratch, &mut self.scratch);
        std::mem::swap(&mut part.parts, &mut self.parts);
        std::mem::swap(&mut part.outgoing, &mut self.outgoing);
        Ok(part)
    }
    /// Takes the links of some members back; what broke their group breaks this one.
    fn rejoin(&mut self, part: Mesh, ranks: &[usize]) {
        let Mesh { links, is_broken, scratch, parts, outgoing, .. } = part;
        ranks.iter().zip(links).for_each(|(r, l)| self.links[*r] = l);
        (self.scratch, self.parts, self.outgoing) = (scratch, parts, outgoing);
        if is_broken && !self.is_broken {
            self.close();
        }
    }
    /// Says what the next operation is: others who do something else are told.
    pub fn sign(&mut self, signature: Signature) {
        self.signature = signature;
    }
    /// How many operations it has done.
    fn operations(&self) -> u64 {
        self.operations
    }
    /// Groups of threads of this process, for tests and for one machine.
    pub fn in_process(ranks: usize) -> Result<Vec<Mesh>> {
        let mut links: Vec<Vec<Option<Connection>>> = (0..ranks).map(|_| (0..ranks).map(|_| None).collect()).collect();
        for a in 0..ranks {
            for b in a + 1..ranks {
                let (x, y) = Connection::pair()?;
                (links[a][b], links[b][a]) = (Some(x), Some(y));
            }
        }
        links.into_iter().enumerate().map(|(rank, l)| Mesh::new(rank, 1, l)).collect()
    }
    /// This process's number.
    pub fn rank(&self) -> usize {
        self.rank
    }
    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.links.len()
    }
    /// The epoch it belongs to.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
    /// True after an error: a new group must be formed.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }
    /// Handles with which another thread can end what is in progress.
    pub(crate) fn handles(&mut self) -> Result<Vec<net::Sender>> {
        self.links.iter_mut().flatten().map(|l| Ok(l.halves().0.try_clone()?)).collect()
    }
    /// Ends the group; the others notice at once.
    pub fn close(&mut self) {
        self.is_broken = true;
        for link in self.links.iter_mut().flatten() {
            link.halves().0.close();
        }
    }

    /// Runs one operation; an error breaks the group.
    fn operation<T>(&mut self, f: impl FnOnce(&mut Mesh) -> Result<T>) -> Result<T> {
        if self.is_broken {
            return Err(Error::value("the group is broken: form a new one"));
        }
        self.operations += 1;
        let done = f(self);
        if let Err(e) = &done {
            self.tell(e);
            self.close();
        }
        done
    }

    /// All-reduce: every rank ends with the combination of all ranks' data.
    pub fn all_reduce(&mut self, data: &mut [u8], element: Element, how: Combine, deadline: Instant) -> Result<()> {
        let way = Algorithm::choose(self.ranks(), data.len());
        self.all_reduce_by(way, data, element, how, deadline)
    }
    /// As [`Mesh::all_reduce`], in a given way.
    pub fn all_reduce_by(
        &mut self,
        way: Algorithm,
        data: &mut [u8],
        element: Element,
        how: Combine,
        deadline: Instant,
    ) -> Result<()> {
        let size = element.size();
        if !data.len().is_multiple_of(size) {
            return Err(Error::value(format!("{} bytes are not whole elements of {size}", data.len())));
        }
        let (rank, ranks, len) = (self.rank, self.ranks(), data.len() / size);
        let bytes = move |r: &Range<usize>| r.start * size..r.end * size;
        let take = Take::Combine(element, how);
        self.operation(|g| {
            match way {
                _ if ranks == 1 => {}
                Algorithm::Doubling => {
                    let mut distance = 1;
                    while distance < ranks {
                        let peer = rank ^ distance;
                        g.swap(peer, peer, data, 0..len * size, 0..len * size, take, deadline)?;
                        distance *= 2;
                    }
                }
                Algorithm::Halving => {
                    let swaps = halving(rank, ranks, len);
                    let Some((last, rest)) = swaps.split_last() else { return Ok(()) };
                    for s in rest {
                        g.swap(s.peer, s.peer, data, bytes(&s.send), bytes(&s.receive), take, deadline)?;
                    }
                    g.halves(last.peer, data, bytes(&last.send), bytes(&last.receive), take, deadline)?;
                    for s in rest.iter().rev() {
                        g.swap(s.peer, s.peer, data, bytes(&s.receive), bytes(&s.send), Take::Copy, deadline)?;
                    }
                }
                Algorithm::Direct => {
                    g.scatter_sum(data, element, how, deadline)?;
                    g.gather(data, size, deadline)?;
                }
            }
            Ok(())
        })
    }
    /// Every rank ends with the sum of what all ranks pack: fewer bytes for less accuracy. What
    /// packing leaves out stays in `residual` and is added to the next call's data. All ranks end
    /// with the same bits. NaN stays NaN, perhaps with its neighbors, and is not in the residual.
    pub fn all_reduce_packed(
        &mut self,
        data: &mut [f32],
        filter: Filter,
        residual: &mut [f32],
        deadline: Instant,
    ) -> Result<()> {
        packed::all_reduce(&mut (self, deadline), data, filter, Some(residual))
    }
    /// Each rank ends with the combination of its part of all ranks' data, in place; returns
    /// which bytes that is.
    pub fn reduce_scatter(
        &mut self,
        data: &mut [u8],
        element: Element,
        how: Combine,
        deadline: Instant,
    ) -> Result<Range<usize>> {
        let size = element.size();
        if !data.len().is_multiple_of(size) {
            return Err(Error::value(format!("{} bytes are not whole elements of {size}", data.len())));
        }
        let mine = part(data.len() / size, self.ranks(), self.rank);
        self.operation(|g| g.scatter_sum(data, element, how, deadline))?;
        Ok(mine.start * size..mine.end * size)
    }
    /// As [`Mesh::reduce_scatter`], from `data` into `out`, which has the length of this rank's part.
    pub fn reduce_scatter_into(
        &mut self,
        data: &[u8],
        out: &mut [u8],
        element: Element,
        how: Combine,
        deadline: Instant,
    ) -> Result<()> {
        let (rank, ranks, size) = (self.rank, self.ranks(), element.size());
        let at = |i: usize| {
            let r = part(data.len() / size, ranks, i);
            r.start * size..r.end * size
        };
        if !data.len().is_multiple_of(size) || out.len() != at(rank).len() {
            let e = format!("{} bytes in elements of {size} do not become {} bytes", data.len(), out.len());
            return Err(Error::value(e));
        }
        self.operation(|g| {
            // Of two, each adds what it receives where it lies: a sum of two has one order.
            if ranks == 2 && how == Combine::Sum {
                let other = 1 - rank;
                out.copy_from_slice(&data[at(rank)]);
                return g.trade(other, other, &data[at(other)], out, Take::Combine(element, how), deadline);
            }
            g.scatter_sum_into(data, out, element, how, deadline)
        })
    }
    /// All-gather: every rank ends with all parts: rank `i` brings part `i` of `ranks` nearly equal
    /// parts of `data`, counted in elements of `size` bytes.
    pub fn all_gather(&mut self, data: &mut [u8], size: usize, deadline: Instant) -> Result<()> {
        if size == 0 || !data.len().is_multiple_of(size) {
            return Err(Error::value(format!("{} bytes are not whole elements of {size}", data.len())));
        }
        self.operation(|g| g.gather(data, size, deadline))
    }
    /// Every rank ends with the root's data.
    pub fn broadcast(&mut self, data: &mut [u8], root: usize, deadline: Instant) -> Result<()> {
        let ranks = self.ranks();
        if root >= ranks {
            return Err(Error::value(format!("there is no rank {root} among {ranks}")));
        }
        // A binomial tree over ranks counted from the root.
        let me = (self.rank + ranks - root) % ranks;
        let real = |r: usize| (r + root) % ranks;
        self.operation(|g| {
            let mut distance = 1;
            while distance < ranks {
                if me < distance && me + distance < ranks {
                    g.send_pieces(real(me + distance), data, deadline)?;
                } else if me >= distance && me < 2 * distance {
                    g.receive_pieces(real(me - distance), data, Take::Copy, None, deadline)?;
                }
                distance *= 2;
            }
            Ok(())
        })
    }
    /// Rank `i`'s part `j` becomes rank `j`'s part `i`; all parts have one length.
    pub fn all_to_all(&mut self, send: &[u8], receive: &mut [u8], deadline: Instant) -> Result<()> {
        let ranks = self.ranks();
        if send.len() != receive.len() || !send.len().is_multiple_of(ranks) {
            let e = format!("{} bytes to send and {} to receive, for {ranks} equal parts", send.len(), receive.len());
            return Err(Error::value(e));
        }
        let (rank, each) = (self.rank, send.len() / ranks);
        let at = |i: usize| i * each..(i + 1) * each;
        receive[at(rank)].copy_from_slice(&send[at(rank)]);
        self.operation(|g| {
            for (to, from) in rounds(rank, ranks) {
                g.trade(to, from, &send[at(to)], &mut receive[at(from)], Take::Copy, deadline)?;
            }
            Ok(())
        })
    }
    /// Barrier: no rank returns before every rank has called.
    pub fn barrier(&mut self, deadline: Instant) -> Result<()> {
        let mut token = [0; 4];
        self.all_reduce(&mut token, Element::I32, Combine::Sum, deadline)
    }
    /// Sends to one rank, which must receive. Not a collective: the others take no part.
    pub fn send(&mut self, to: usize, data: &[u8], deadline: Instant) -> Result<()> {
        self.check_peer(to)?;
        self.between(|g| g.send_pieces(to, data, deadline))
    }
    /// Receives from one rank exactly as many bytes as `into` has.
    pub fn receive(&mut self, from: usize, into: &mut [u8], deadline: Instant) -> Result<()> {
        self.check_peer(from)?;
        self.between(|g| g.receive_pieces(from, into, Take::Copy, None, deadline))
    }
    fn check_peer(&self, peer: usize) -> Result<()> {
        if peer < self.ranks() && peer != self.rank {
            return Ok(());
        }
        Err(Error::value(format!("rank {} of {} cannot talk to rank {peer}", self.rank, self.ranks())))
    }
    /// An operation of two: it has no number, as the others do not count it.
    fn between<T>(&mut self, f: impl FnOnce(&mut Mesh) -> Result<T>) -> Result<T> {
        let counted = std::mem::replace(&mut self.operations, u64::MAX - 1);
        let done = self.operation(f);
        self.operations = counted;
        done
    }

    /// Each rank gets its part from every rank and adds in tree order.
    fn scatter_sum(&mut self, data: &mut [u8], element: Element, how: Combine, deadline: Instant) -> Result<()> {
        let (rank, ranks, size) = (self.rank, self.ranks(), element.size());
        let mine = part(data.len() / size, ranks, rank);
        let mut out = std::mem::take(&mut self.outgoing);
        out.resize(mine.len() * size, 0);
        let done = self.scatter_sum_into(data, &mut out, element, how, deadline);
        data[mine.start * size..mine.end * size].copy_from_slice(&out);
        self.outgoing = out;
        done
    }
    /// The same, from one place into another.
    fn scatter_sum_into(
        &mut self,
        data: &[u8],
        out: &mut [u8],
        element: Element,
        how: Combine,
        deadline: Instant,
    ) -> Result<()> {
        let (rank, ranks, size) = (self.rank, self.ranks(), element.size());
        let at = |i: usize| {
            let r = part(data.len() / size, ranks, i);
            r.start * size..r.end * size
        };
        let mine = at(rank);
        let stride = mine.len().div_ceil(8);
        let mut parts = std::mem::take(&mut self.parts);
        parts.resize(stride * ranks, 0);
        for (to, from) in rounds(rank, ranks) {
            let all: &mut [u8] = bytemuck::cast_slice_mut(&mut parts);
            let into = &mut all[from * stride * 8..][..mine.len()];
            self.trade(to, from, &data[at(to)], into, Take::Copy, deadline)?;
        }
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut parts);
        all[rank * stride * 8..][..mine.len()].copy_from_slice(&data[mine.clone()]);
        let mut distance = 1;
        while distance < ranks {
            for i in (0..ranks - distance).step_by(2 * distance) {
                let (left, right) = all.split_at_mut((i + distance) * stride * 8);
                element.combine(how, &mut left[i * stride * 8..][..mine.len()], &right[..mine.len()]);
            }
            distance *= 2;
        }
        out.copy_from_slice(&all[..mine.len()]);
        self.parts = parts;
        Ok(())
    }
    fn gather(&mut self, data: &mut [u8], size: usize, deadline: Instant) -> Result<()> {
        let (rank, ranks) = (self.rank, self.ranks());
        let len = data.len() / size;
        let at = |i: usize| {
            let r = part(len, ranks, i);
            r.start * size..r.end * size
        };
        for (to, from) in rounds(rank, ranks) {
            self.swap(to, from, data, at(rank), at(from), Take::Copy, deadline)?;
        }
        Ok(())
    }
}
