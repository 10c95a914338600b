//! Collectives on tensors: what model, tensor and pipeline parallelism are made of. The rows are in
//! [`tensor::collective`]; here are the ranks that they exchange with.

use crate::comm::{self, Comm, element};
use crate::job::current;
use crate::status::{failed, lock};
use dist::Filter;
use dist::collective::{
    Backend, Combine as How, Communicator, Element, Group as RankGroup, Kind, Operation, Signature,
};
use ir::{Alone, Call, DevicePeers, Job, Peers, PeersHandle, Pending, Shape};
use std::ops::Deref;
use std::sync::{Arc, Weak};
use std::time::Duration;
use tensor::collective::{Ranks, Wire};
use tensor::{Combine, DType, Error, Literal, Result, Tensor};

/// Ranks that exchange tensors; clones are the same group.
///
/// Every member calls the same collectives in the same order, on tensors of the same type. If one
/// does something else, all get an error that says so; if one is lost, all get an error. A call
/// that waits longer than `TALWEG_TIMEOUT` seconds (300) fails.
///
/// A process alone is a group of one:
/// ```
/// # use cpu as _;
/// # use tensor::{Combine, Tensor};
/// # use talweg_parallel::Group;
/// let world = Group::world()?;
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(world.all_reduce(&x, Combine::Sum).to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Group {
    ranks: Ranks,
    members: Arc<Members>,
}

/// The ranks of a group, and what carries their exchange.
pub(crate) struct Members {
    group: RankGroup,
    comm: Arc<Comm>,
}

impl Deref for Group {
    type Target = Ranks;
    fn deref(&self) -> &Ranks {
        &self.ranks
    }
}

impl Group {
    pub(crate) fn of(comm: &Arc<Comm>, ranks: &[usize]) -> Result<Group> {
        let group = RankGroup::new(ranks, comm.rank, comm.world).map_err(|e| failed(e).in_op("group"))?;
        let mut all = lock(&comm.groups);
        all.retain(|g| g.strong_count() > 0);
        let known = all.iter().filter_map(Weak::upgrade).find(|g| g.group == group);
        let members = known.unwrap_or_else(|| {
            let new = Arc::new(Members { group, comm: comm.clone() });
            all.push(Arc::downgrade(&new));
            new
        });
        Ok(Group { ranks: Ranks(PeersHandle(members.clone())), members })
    }
    /// All workers of the current job; this process if it is alone.
    pub fn world() -> Result<Group> {
        let comm = current()?.0.comm.clone();
        Group::of(&comm, &(0..comm.world).collect::<Vec<_>>())
    }
    /// Groups of threads of this process, for tests.
    pub fn in_process(ranks: usize) -> Result<Vec<Group>> {
        let all: Vec<usize> = (0..ranks).collect();
        Comm::in_process(ranks)?.iter().map(|c| Group::of(c, &all)).collect()
    }
    /// The group of some of its ranks, in the order given, of which this one must be one. It
    /// needs no exchange: members may call it when they need it, the others not at all.
    pub fn part(&self, ranks: &[usize]) -> Result<Group> {
        let outer_ranks = self.members.group.ranks();
        let outer = |r: &usize| {
            let e = || Error::index(format!("there is no rank {r} in a group of {}", outer_ranks.len())).in_op("group");
            outer_ranks.get(*r).copied().ok_or_else(e)
        };
        Group::of(&self.members.comm, &ranks.iter().map(outer).collect::<Result<Vec<_>>>()?)
    }
    /// The group of all that say the same `color`, ordered by `key`, then by rank. Every rank must
    /// call it.
    pub fn split(&self, color: i64, key: i64) -> Result<Group> {
        if tensor::is_tracing() {
            return Err(Error::value("groups are made before a function is traced").in_op("split"));
        }
        let all = self.all_gather(&Tensor::from([color, key]), 0).to_vec::<i64>()?;
        let mut mine: Vec<(i64, usize)> = all
            .chunks_exact(2)
            .enumerate()
            .filter_map(|(rank, said)| (said[0] == color).then_some((said[1], rank)))
            .collect();
        mine.sort_unstable();
        self.part(&mine.iter().map(|(_, rank)| *rank).collect::<Vec<_>>())
    }
    /// Its members' ranks in the job.
    pub fn ranks(&self) -> &[usize] {
        self.members.group.ranks()
    }
    /// The same group, with elements in fewer bytes on the wire.
    ///
    /// ```
    /// # use cpu as _;
    /// # use tensor::{Combine, Tensor};
    /// # use talweg_parallel::{Group, Wire};
    /// let world = Group::world()?;
    /// let sum = world.compressed(Wire::Bf16).all_reduce(&Tensor::from([1.0f32, 2.0]), Combine::Sum);
    /// assert_eq!(sum.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), tensor::Error>(())
    /// ```
    pub fn compressed(&self, wire: Wire) -> Compressed<'_> {
        Compressed { group: self, wire }
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {:?}", self.rank(), self.ranks())
    }
}

/// Collectives of a group that encode elements in fewer bytes, for `f32` tensors; gradients likewise.
/// The residual of the encoding is lost: a sum over many steps, as of gradients, is better off with
/// `talweg launch --wire`, which adds it to the next one.
#[derive(Clone, Copy, Debug)]
pub struct Compressed<'a> {
    group: &'a Group,
    wire: Wire,
}

impl Compressed<'_> {
    /// [`Ranks::all_reduce`] by sum or mean.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, how: Combine) -> Tensor {
        self.group.all_reduced(x, how, self.wire)
    }
    /// [`Ranks::reduce_scatter`] by sum or mean.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, how: Combine, axis: i64) -> Tensor {
        self.group.reduce_scattered(x, how, axis, self.wire)
    }
    /// [`Ranks::all_gather`]; this rank's own tensor comes back as the others see it.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: i64) -> Tensor {
        self.group.all_gathered(x, axis, self.wire)
    }
}

impl Peers for Members {
    fn rank(&self) -> usize {
        self.group.me()
    }
    fn size(&self) -> usize {
        self.group.size()
    }
    fn run(&self, op: &'static str, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        match op {
            "all_reduce" => match filter(c)? {
                Some(f) => encoded(c, self, op, args, |by, operation, x, out| {
                    out.copy_from_slice(x);
                    by.all_reduce_packed(operation, out, f)
                }),
                None => {
                    let how = how(c)?;
                    exchanged(c, self, op, args, |by, operation, data| {
                        by.all_reduce(operation, data, how).map(|()| 0..data.len())
                    })
                }
            },
            "reduce" => self.reduce(c, args),
            "broadcast_from" => {
                let root = c.attrs.size("root")?;
                exchanged(c, self, op, args, |by, operation, data| {
                    by.broadcast(operation, data, root).map(|()| 0..data.len())
                })
            }
            "reduce_scatter" => match filter(c)? {
                Some(f) => {
                    encoded(c, self, op, args, |by, operation, x, out| by.reduce_scatter_packed(operation, x, f, out))
                }
                None => {
                    let how = how(c)?;
                    exchanged(c, self, op, args, |by, operation, data| by.reduce_scatter(operation, data, how))
                }
            },
            "all_gather" => self.all_gather(c, args),
            "all_to_all" => self.all_to_all(c, args),
            "send" => self.send(c, args),
            "recv" => {
                let from = c.attrs.size("peer")?;
                exchanged(c, self, op, args, |by, operation, data| {
                    by.receive(operation, data, from).map(|()| 0..data.len())
                })
            }
            _ => Err(Error::bug(format!("{op} is no collective"))),
        }
    }
    fn run_over(&self, op: &'static str, c: &Call, input: Option<&[u8]>, out: &mut [u8]) -> Result<bool> {
        let (me, size, x) = (self.group.me(), self.group.size(), input.unwrap_or_default());
        if matches!(op, "send" | "recv") {
            let (peer, signature, element) = (c.attrs.size("peer")?, signature(op, c)?, element(c.dtype(0))?);
            self.comm.run(&self.group, signature, element, |by, operation| match op {
                "send" => by.send(operation, x, peer),
                _ => by.receive(operation, out, peer),
            })?;
            return Ok(true);
        }
        if filter(c)?.is_some() || !matches!(op, "all_reduce" | "reduce_scatter" | "all_gather" | "all_to_all") {
            return Ok(false);
        }
        if input.is_none() && op != "all_reduce" {
            return Err(Error::bug(format!("{op} does not run in place")));
        }
        match op {
            "all_gather" => out[me * x.len()..][..x.len()].copy_from_slice(x),
            _ if input.is_some() && (size == 1 || op == "all_reduce") => out.copy_from_slice(x),
            _ => {}
        }
        if size == 1 {
            return Ok(true);
        }
        let (signature, element) = (signature(op, c)?, element(c.dtype(0))?);
        let how = if c.attrs.str("how").is_ok() { how(c)? } else { How::Sum };
        self.comm.run(&self.group, signature, element, |by, operation| match op {
            "all_reduce" => by.all_reduce(operation, out, how),
            "reduce_scatter" => by.reduce_scatter_into(operation, x, out, how),
            "all_gather" => by.all_gather(operation, out),
            _ => by.all_to_all(operation, x, out),
        })?;
        Ok(true)
    }
    fn start(&self, job: Job) -> Box<dyn Pending> {
        // Alone there is nothing to wait for.
        if self.group.size() > 1 { self.comm.start(job) } else { Alone.start(job) }
    }
    fn abandon(&self) {
        if self.group.size() > 1 {
            self.comm.abandon();
        }
    }
    fn devices(&self) -> Result<Option<&dyn DevicePeers>> {
        Ok(if comm::backend()? == Backend::Nccl { Some(self) } else { None })
    }
}

impl Members {
    fn reduce(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        let (how, root) = (how(c)?, c.attrs.size("root")?);
        exchanged(c, self, "reduce", args, |by, operation, data| {
            by.all_reduce(operation, data, how)?;
            if operation.group.me() != root {
                data.fill(0);
            }
            Ok(0..data.len())
        })
    }
    fn all_gather(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        if let Some(f) = filter(c)? {
            let run = |by: &mut dyn Communicator, operation: &Operation, x: &[f32], out: &mut [f32]| {
                by.all_gather_packed(operation, x, f, out)
            };
            return encoded(c, self, "all_gather", args, run);
        }
        let (part, own, element) = (args[0].bytes().len(), self.group.me(), element(args[0].dtype())?);
        let mut out = Literal::zeros(args[0].dtype(), resized(c, |n| n * self.group.size()));
        let data = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
        data[own * part..][..part].copy_from_slice(args[0].bytes());
        if self.group.size() > 1 {
            let signature = signature("all_gather", c)?;
            self.comm.run(&self.group, signature, element, |by, operation| by.all_gather(operation, data))?;
        }
        Ok(vec![out])
    }
    fn all_to_all(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        let element = element(args[0].dtype())?;
        let mut out = args[0].clone();
        if self.group.size() > 1 {
            out = Literal::zeros(args[0].dtype(), args[0].shape().clone());
            let into = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
            let (signature, from) = (signature("all_to_all", c)?, args[0].bytes());
            self.comm.run(&self.group, signature, element, |by, operation| by.all_to_all(operation, from, into))?;
        }
        Ok(vec![out])
    }
    fn send(&self, c: &Call, args: &[Literal]) -> Result<Vec<Literal>> {
        let (to, element, data) = (c.attrs.size("peer")?, element(args[0].dtype())?, args[0].bytes());
        let signature = signature("send", c)?;
        self.comm.run(&self.group, signature, element, |by, operation| by.send(operation, data, to))?;
        Ok(vec![Literal::zeros(args[0].dtype(), Shape::scalar())])
    }
}

impl DevicePeers for Members {
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![0; mine.len() * self.group.size()];
        all[self.group.me() * mine.len()..][..mine.len()].copy_from_slice(mine);
        if self.group.size() > 1 {
            let signature = Signature::new(Kind::AllGather, Element::U8, &[mine.len()]);
            self.comm.run(&self.group, signature, Element::U8, |by, operation| by.all_gather(operation, &mut all))?;
        }
        Ok(all.chunks(mine.len().max(1)).map(<[u8]>::to_vec).collect())
    }
    fn agree(&self, op: &str, call: &Call) -> Result<()> {
        if self.group.size() == 1 {
            return Ok(());
        }
        // No data, but every message carries its sender's signature.
        let (signature, peer) = (signature(op, call)?, call.attrs.size("peer").unwrap_or(0));
        self.comm.run(&self.group, signature, Element::U8, |by, operation| match op {
            "send" => by.send(operation, &[], peer),
            "recv" => by.receive(operation, &mut [], peer),
            _ => by.all_reduce(operation, &mut [], How::Sum),
        })
    }
    fn timeout(&self) -> Duration {
        // That the variable is a number was found when the job was joined.
        comm::timeout().unwrap_or(comm::TIMEOUT)
    }
}

fn how(c: &Call) -> Result<How> {
    c.attrs.str("how")?.parse().map_err(failed)
}
/// How elements are encoded on the wire, if they are.
fn filter(c: &Call) -> Result<Option<Filter>> {
    Ok(match Wire::of_node(c.attrs)? {
        Wire::Exact => None,
        Wire::Bf16 => Some(Filter::Bf16),
        Wire::Int8 => Some(Filter::Int8),
    })
}
/// The shape of the input with another size of the first axis.
fn resized(c: &Call, size: impl FnOnce(usize) -> usize) -> Shape {
    let mut sizes = c.shape(0).to_vec();
    sizes[0] = size(sizes[0]);
    Shape::from(sizes.as_slice())
}

/// The signature that the other ranks compare with theirs.
fn signature(op: &str, c: &Call) -> Result<Signature> {
    let kind = match op {
        "all_reduce" => Kind::AllReduce,
        "reduce" => Kind::Reduce,
        "broadcast_from" => Kind::Broadcast,
        "reduce_scatter" => Kind::ReduceScatter,
        "all_gather" => Kind::AllGather,
        "all_to_all" => Kind::AllToAll,
        "send" | "recv" => Kind::Send,
        _ => return Err(Error::bug(format!("{op} is no collective"))),
    };
    let mut signature = Signature::new(kind, element(c.dtype(0))?, c.shape(0));
    if c.attrs.str("how").is_ok() {
        signature = signature.by(how(c)?);
    }
    if let Some(filter) = filter(c)? {
        signature = signature.packed(filter);
    }
    Ok(c.attrs.size("root").map_or(signature, |root| signature.rooted(root)))
}

/// Exchanges the elements of the first argument in place; the returned range of bytes is the result.
fn exchanged(
    c: &Call,
    members: &Members,
    op: &str,
    args: &[Literal],
    f: impl FnOnce(&mut dyn Communicator, &Operation, &mut [u8]) -> dist::Result<std::ops::Range<usize>>,
) -> Result<Vec<Literal>> {
    let x = &args[0];
    if members.group.size() == 1 {
        return Ok(vec![x.clone()]);
    }
    let element: Element = element(x.dtype())?;
    let signature = signature(op, c)?;
    let mut out = Literal::from_bytes(x.dtype(), x.shape().clone(), x.bytes())?;
    let data = out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?;
    let part = members.comm.run(&members.group, signature, element, |by, operation| f(by, operation, data))?;
    if part.len() == data.len() {
        return Ok(vec![out]);
    }
    let shape = resized(c, |n| n / members.group.size());
    Ok(vec![Literal::from_bytes(x.dtype(), shape, &out.bytes()[part])?])
}

/// Exchanges elements that are encoded on the wire.
fn encoded(
    c: &Call,
    members: &Members,
    op: &str,
    args: &[Literal],
    f: impl FnOnce(&mut dyn Communicator, &Operation, &[f32], &mut [f32]) -> dist::Result<()>,
) -> Result<Vec<Literal>> {
    let x = &args[0];
    if members.group.size() == 1 {
        return Ok(vec![x.clone()]);
    }
    let (n, signature) = (members.group.size(), signature(op, c)?);
    let shape = match op {
        "all_gather" => resized(c, |rows| rows * n),
        "reduce_scatter" => resized(c, |rows| rows / n),
        _ => x.shape().clone(),
    };
    let mut out = Literal::zeros(DType::F32, shape);
    let data = bytemuck::cast_slice_mut(out.buffer_mut().ok_or_else(|| Error::bug("new, but shared"))?);
    let run = |by: &mut dyn Communicator, operation: &Operation| f(by, operation, x.stored::<f32>(), data);
    members.comm.run(&members.group, signature, Element::F32, run)?;
    Ok(vec![out])
}
