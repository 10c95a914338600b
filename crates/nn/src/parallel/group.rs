//! Collectives on tensors: what model, tensor and pipeline parallelism are made of.
//!
//! In imperative code a collective is carried out where it is called. Under `jit`, and on what
//! depends on a placeholder, it is a node like any other, except that such nodes run in the order
//! of the program; `jit` runs them whether or not their results are used, a member runs those that
//! its fetches need.
//!
//! Gradients are those of the sum of all ranks' losses.

use super::line::{self, Line};
use super::wire::{Packed, Wire};
use super::{lock, rows};
use dist::collective::{Backend, Element, Group as RankGroup, Kind, Signature};
use ir::{Call, Type};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tensor::{Attrs, Combine, Error, Op, Peers, Result, Tensor};

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
/// # use talweg_nn::parallel::Group;
/// let world = Group::world()?;
/// let x = Tensor::from([1.0f32, 2.0]);
/// assert_eq!(world.all_reduce(&x, Combine::Sum).to_vec::<f32>()?, [1.0, 2.0]);
/// # Ok::<(), tensor::Error>(())
/// ```
#[derive(Clone)]
pub struct Group(Arc<Inner>);

pub(super) struct Inner {
    /// The number under which nodes know it.
    id: i64,
    pub team: RankGroup,
    pub line: Arc<Line>,
}

/// Every group there is, by its number. Groups are few and small: none is ever dropped, as compiled
/// programs may name it.
static GROUPS: Mutex<Vec<Arc<Inner>>> = Mutex::new(Vec::new());

/// The group with this number.
pub(super) fn group(id: i64) -> Result<Arc<Inner>> {
    let found = usize::try_from(id).ok().and_then(|i| lock(&GROUPS).get(i).cloned());
    found.ok_or_else(|| Error::value(format!("there is no group {id} in this process")))
}

/// The ranks of a group, for devices that are asked to exchange among themselves.
fn of_devices(id: i64) -> Result<Option<Arc<dyn Peers>>> {
    Ok(if line::asked()? == Backend::Nccl { Some(group(id)?) } else { None })
}

impl Peers for Inner {
    fn rank(&self) -> usize {
        self.team.me()
    }
    fn size(&self) -> usize {
        self.team.size()
    }
    fn gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut all = vec![0; mine.len() * self.team.size()];
        all[self.team.me() * mine.len()..][..mine.len()].copy_from_slice(mine);
        if self.team.size() > 1 {
            let signature = Signature::new(Kind::AllGather, Element::U8, &[mine.len()]);
            self.line.carry(&self.team, signature, Element::U8, |c, deal| c.all_gather(deal, &mut all))?;
        }
        Ok(all.chunks(mine.len().max(1)).map(<[u8]>::to_vec).collect())
    }
    fn agree(&self, op: &str, call: &Call) -> Result<()> {
        if self.team.size() == 1 {
            return Ok(());
        }
        // No data, but every message says what its sender does.
        let (signature, peer) = (rows::signature(op, call)?, call.attrs.size("peer").unwrap_or(0));
        self.line.carry(&self.team, signature, Element::U8, |c, deal| match op {
            "send" => c.send(deal, &[], peer),
            "recv" => c.receive(deal, &mut [], peer),
            _ => c.all_reduce(deal, &mut [], dist::collective::Combine::Sum),
        })
    }
    fn patience(&self) -> Duration {
        // That the variable is a number was found when the job was joined.
        line::timeout().unwrap_or(line::TIMEOUT)
    }
}

impl Group {
    fn of(line: &Arc<Line>, ranks: &[usize]) -> Result<Group> {
        let team =
            RankGroup::new(ranks, line.rank, line.world).map_err(|e| Error::value(e.to_string()).in_op("group"))?;
        let mut all = lock(&GROUPS);
        if let Some(known) = all.iter().find(|g| Arc::ptr_eq(&g.line, line) && g.team == team) {
            return Ok(Group(known.clone()));
        }
        tensor::offer_peers(of_devices);
        let inner = Arc::new(Inner { id: all.len() as i64, team, line: line.clone() });
        all.push(inner.clone());
        Ok(Group(inner))
    }
    /// All workers of the job; this process if it is alone.
    pub fn world() -> Result<Group> {
        let line = Line::of_job()?;
        Group::of(&line, &(0..line.world).collect::<Vec<_>>())
    }
    /// Groups of threads of this process, for tests.
    pub fn in_process(ranks: usize) -> Result<Vec<Group>> {
        let all: Vec<usize> = (0..ranks).collect();
        Line::in_process(ranks)?.iter().map(|l| Group::of(l, &all)).collect()
    }
    /// The group of some of its ranks, in the order given, of which this one must be one. Nobody
    /// else has to be asked: members may call it when they need it, the others not at all.
    pub fn part(&self, ranks: &[usize]) -> Result<Group> {
        let team = self.0.team.ranks();
        let outer = |r: &usize| {
            let e = || Error::index(format!("there is no rank {r} in a group of {}", team.len())).in_op("group");
            team.get(*r).copied().ok_or_else(e)
        };
        Group::of(&self.0.line, &ranks.iter().map(outer).collect::<Result<Vec<_>>>()?)
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
    /// This process's number in the group.
    pub fn rank(&self) -> usize {
        self.0.team.me()
    }
    /// How many ranks it has.
    pub fn size(&self) -> usize {
        self.0.team.size()
    }
    /// Its members' numbers in the job.
    pub fn ranks(&self) -> &[usize] {
        self.0.team.ranks()
    }

    /// The combination of everybody's tensor, for everybody. Where the greatest or least is equal
    /// on several ranks, they share its gradient.
    #[track_caller]
    pub fn all_reduce(&self, x: &Tensor, how: Combine) -> Tensor {
        self.all_reduced(x, how, Wire::Exact)
    }
    #[track_caller]
    pub(super) fn all_reduced(&self, x: &Tensor, how: Combine, wire: Wire) -> Tensor {
        self.combined(&rows::ALL_REDUCE, x, how, Attrs::new().with("wire", wire.name()))
    }
    /// The combination for rank `root`; zeros for the others. Only sums and means have gradients.
    #[track_caller]
    pub fn reduce(&self, x: &Tensor, root: usize, how: Combine) -> Tensor {
        self.combined(&rows::REDUCE, x, how, Attrs::new().with("root", root as i64))
    }
    /// Each rank's part of the combination: rank `i` gets part `i` along an axis, whose size must be
    /// a multiple of the number of ranks. Only sums and means have gradients.
    #[track_caller]
    pub fn reduce_scatter(&self, x: &Tensor, how: Combine, axis: i64) -> Tensor {
        self.reduce_scattered(x, how, axis, Wire::Exact)
    }
    #[track_caller]
    pub(super) fn reduce_scattered(&self, x: &Tensor, how: Combine, axis: i64, wire: Wire) -> Tensor {
        x.then(|t| {
            let (at, attrs) = (place(axis, t, "reduce_scatter")?, Attrs::new().with("wire", wire.name()));
            Ok(self.combined(&rows::REDUCE_SCATTER, &x.moveaxis(&[at], &[0]), how, attrs).moveaxis(&[0], &[at]))
        })
    }
    /// Everybody's tensors one after the other along an axis.
    #[track_caller]
    pub fn all_gather(&self, x: &Tensor, axis: i64) -> Tensor {
        self.all_gathered(x, axis, Wire::Exact)
    }
    #[track_caller]
    pub(super) fn all_gathered(&self, x: &Tensor, axis: i64, wire: Wire) -> Tensor {
        x.then(|t| {
            let (at, attrs) = (place(axis, t, "all_gather")?, Attrs::new().with("wire", wire.name()));
            Ok(self.applied(&rows::ALL_GATHER, &x.moveaxis(&[at], &[0]), attrs).moveaxis(&[0], &[at]))
        })
    }
    /// The same group, with elements in fewer bytes on the wire.
    ///
    /// ```
    /// # use cpu as _;
    /// # use tensor::{Combine, Tensor};
    /// # use talweg_nn::parallel::{Group, Wire};
    /// let world = Group::world()?;
    /// let sum = world.packed(Wire::Bf16).all_reduce(&Tensor::from([1.0f32, 2.0]), Combine::Sum);
    /// assert_eq!(sum.to_vec::<f32>()?, [1.0, 2.0]);
    /// # Ok::<(), tensor::Error>(())
    /// ```
    pub fn packed(&self, wire: Wire) -> Packed<'_> {
        Packed { group: self, wire }
    }
    /// Rank `root`'s tensor, for everybody; the others' give the type.
    #[track_caller]
    pub fn broadcast(&self, x: &Tensor, root: usize) -> Tensor {
        self.applied(&rows::BROADCAST, x, Attrs::new().with("root", root as i64))
    }
    /// Cuts the tensor into as many parts as there are ranks along one axis, sends part `i` to rank
    /// `i`, and joins what came along another axis, in the order of ranks.
    #[track_caller]
    pub fn all_to_all(&self, x: &Tensor, split_axis: i64, concat_axis: i64) -> Tensor {
        x.then(|t| {
            let (split, join) = (place(split_axis, t, "all_to_all")?, place(concat_axis, t, "all_to_all")?);
            let (n, mut sizes) = (self.size(), t.shape.to_vec());
            let rest = sizes.remove(split as usize) / n;
            let came = self.applied(&rows::ALL_TO_ALL, &x.moveaxis(&[split], &[0]), Attrs::new());
            // From whom, then the tensor with a part of the axis that was cut.
            let parts = came.reshape([&[n, rest][..], &sizes].concat().as_slice()).moveaxis(&[1], &[split + 1]);
            sizes.insert(split as usize, rest);
            sizes[join as usize] *= n;
            Ok(parts.moveaxis(&[0], &[join]).reshape(sizes.as_slice()))
        })
    }
    /// Sends a tensor to rank `to`, which must receive it. The result is a zero that stands for it:
    /// in a loss, it brings the gradient that comes back.
    #[track_caller]
    pub fn send(&self, x: &Tensor, to: usize) -> Tensor {
        self.applied(&rows::SEND, x, Attrs::new().with("peer", to as i64))
    }
    /// The tensor that rank `from` sends; `like` gives the type. If `like` collects a gradient, the
    /// result's is sent back, and the sender must ask for it.
    #[track_caller]
    pub fn recv(&self, like: &Tensor, from: usize) -> Tensor {
        self.applied(&rows::RECV, like, Attrs::new().with("peer", from as i64))
    }
    /// Nobody leaves before everybody has come.
    #[track_caller]
    pub fn barrier(&self) -> Result<()> {
        self.all_reduce(&Tensor::from(0i32), Combine::Sum).value().map(|_| ())
    }

    #[track_caller]
    fn combined(&self, op: &'static Op, x: &Tensor, how: Combine, attrs: Attrs) -> Tensor {
        let name = match how {
            Combine::Sum | Combine::Mean => "sum",
            Combine::Prod => "prod",
            Combine::Max => "max",
            Combine::Min => "min",
        };
        let attrs = attrs.with("how", name);
        if how != Combine::Mean {
            return self.applied(op, x, attrs);
        }
        x.then(|t| {
            if !t.dtype.is_float() {
                return Err(Error::dtype(format!("the mean is of floats, not of {}", t.dtype)).in_op(op.name));
            }
            Ok(self.applied(op, x, attrs) / self.size() as f64)
        })
    }
    #[track_caller]
    pub(super) fn applied(&self, op: &'static Op, x: &Tensor, attrs: Attrs) -> Tensor {
        carried(Tensor::apply1(op, &[x], attrs.with("group", self.0.id).with(ir::ORDERED, true)))
    }
    /// The group of a node.
    pub(super) fn of_node(attrs: &Attrs) -> Result<Group> {
        Ok(Group(group(attrs.int("group")?)?))
    }
}

impl std::fmt::Debug for Group {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank {} of {:?}", self.rank(), self.ranks())
    }
}

/// An axis, counted from the front.
fn place(a: i64, t: &Type, op: &str) -> Result<i64> {
    tensor::axis(a, t.shape.rank()).map(|a| a as i64).map_err(|e| e.in_op(op))
}

/// Carries a collective out, unless it is part of a graph that is run later.
pub(super) fn carried(out: Tensor) -> Tensor {
    if tensor::is_tracing() {
        tensor::note_effect(&out);
        return out;
    }
    if out.value().is_ok_and(|v| !v.node().is_symbolic())
        && let Err(e) = out.eval()
    {
        return Tensor::from(e);
    }
    out
}
