//! Data-parallel sums that survive the loss of workers and take in new ones.
//!
//! Operations are counted. When a member is lost in the middle of one, the others form a group
//! without it and either take the result from a member that has it already, or repeat the
//! operation with what they still hold: no step is half done, and the lost worker costs its share
//! of the steps until its replacement is there. A replacement is let in between two steps, where
//! the others can say what they know ([`Reducer::meet`]).

use crate::collective::mesh::{Acceptor, ViewWatcher, mesh};
use crate::collective::{Combine, Element, Mesh};
use crate::filter::{ResidualKey, Residuals};
use crate::membership::Member;
use crate::membership::controller::{self, View};
use crate::{Error, Filter, Result, merge, pool};
use net::{Address, Secret};
use std::time::{Duration, Instant};

/// Of a member's state: it has computed nothing yet,
const NEW: u64 = 1;
/// it can say what it knows, being between two steps,
const GIVES: u64 = 2;
/// it came when others had computed already.
const LATE: u64 = 4;

/// How often the remaining members check whether a worker has come.
const STAY_EVERY: Duration = Duration::from_millis(20);
/// How long to wait before a group is tried again whose members could not be reached, at first and at
/// most: the membership store notices a dead member in the meantime.
const AGAIN: Duration = Duration::from_millis(5);
const AGAIN_MAX: Duration = Duration::from_millis(500);

/// What one member tells the others when a group is formed.
#[derive(Clone, Copy, Debug, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Status {
    done: u64,
    flags: u64,
}
impl Status {
    fn is(self, flag: u64) -> bool {
        self.flags & flag != 0
    }
}

/// What forming a group has brought.
enum Met {
    /// Nothing was missing.
    Even,
    /// The result of the operation that this member was in is the last one now.
    Result,
    /// What a new member has to know.
    State(Vec<u8>),
}

/// Makes the bytes of everything that a new member has to know.
pub type Give<'a> = &'a mut dyn FnMut() -> Result<Vec<u8>>;

/// A worker's part in reductions over all workers.
pub struct Reducer {
    rank: u32,
    address: Address,
    member: Member,
    secret: Option<Secret>,
    acceptor: Acceptor,
    watch: ViewWatcher,
    group: Option<Mesh>,
    version: u64,
    /// Operations that are complete, and the last one's result, for members that missed it.
    done: u64,
    last: Vec<f32>,
    /// The result before that, whose memory is used again.
    scratch: Vec<f32>,
    /// How elements travel, if not as they are, and what packing has left out so far, by bucket.
    filter: Option<Filter>,
    residuals: Residuals,
    is_new: bool,
    is_late: bool,
    /// A worker waits to join: all members have agreed on it in the last operation.
    admits: bool,
    /// How long to wait before the next group that does not work is complained of.
    again: Duration,
    /// No call waits longer.
    pub timeout: Duration,
}

impl Reducer {
    /// Says where this worker listens, waits for the others and forms the first group. If others
    /// have begun without this worker, it is let in at its first [`Reducer::meet`].
    pub fn join(
        rank: u32,
        listen: &Address,
        member: Member,
        secret: Option<Secret>,
        timeout: Duration,
    ) -> Result<Reducer> {
        let deadline = Instant::now() + timeout;
        let (acceptor, address) = Acceptor::open(listen, secret.clone())?;
        let watch = ViewWatcher::start(member.duplicate(deadline)?);
        let (_, group) = member.get(controller::GROUP, deadline)?;
        let is_late = group.map(|g| View::decode(&g)).transpose()?.is_some_and(|g| !g.workers.is_empty());
        let mut r = Reducer {
            rank,
            address,
            member,
            secret,
            acceptor,
            watch,
            group: None,
            version: 0,
            done: 0,
            last: Vec::new(),
            scratch: Vec::new(),
            filter: None,
            residuals: Residuals::default(),
            is_new: true,
            is_late,
            admits: false,
            again: AGAIN,
            timeout,
        };
        if !is_late {
            r.present(deadline)?;
            while r.is_new {
                r.form(deadline)?;
                r.agree(None, deadline)?;
            }
        }
        Ok(r)
    }
    /// Operations that are complete.
    pub fn done(&self) -> u64 {
        self.done
    }
    /// How many workers reduce together now.
    pub fn workers(&self) -> usize {
        self.group.as_ref().map_or(0, Mesh::ranks)
    }
    /// True if no worker of a lower rank reduces with this one.
    pub fn is_first(&self) -> bool {
        self.group.as_ref().map_or(self.rank == 0, |g| g.rank() == 0)
    }
    /// True if this worker has to be told what the others know before it can take part.
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// Packs what is sent from now on, as every member must; what that leaves out is added to the next
    /// mean of the same bucket.
    pub fn pack(&mut self, filter: Filter) {
        self.filter = Some(filter);
    }
    /// What packing has left out so far, for a checkpoint of this worker.
    pub fn residuals(&self) -> Vec<u8> {
        self.residuals.encode()
    }
    /// Takes up what packing had left out.
    pub fn restore_residuals(&mut self, bytes: &[u8]) -> Result<()> {
        self.residuals = Residuals::decode(bytes)?;
        Ok(())
    }
    /// Every member's data becomes the mean over members. If a worker is lost meanwhile, of
    /// the others'.
    pub fn mean(&mut self, data: &mut [f32]) -> Result<()> {
        self.mean_of(0, 1.0, data)
    }
    /// As [`Reducer::mean`], of one of several buckets in turn and with this worker's data counting so
    /// much. Data with weight 0 is not read.
    pub fn mean_of(&mut self, bucket: usize, weight: f32, data: &mut [f32]) -> Result<()> {
        let waits = if self.watch.waits() { 1.0 } else { 0.0 };
        if let Some(filter) = self.filter {
            return self.packed_mean(filter, bucket, [waits, weight], data);
        }
        self.counted(data, |group, data, sum, deadline| {
            // The element after the data says whether a member knows of a worker that waits: all must know.
            sum.extend_from_slice(&merge::weighted(data, weight));
            sum.extend([waits, weight]);
            group.all_reduce(bytemuck::cast_slice_mut(sum), Element::F32, Combine::Sum, deadline)?;
            let n = counts(sum[data.len() + 1]);
            sum[..data.len()].iter_mut().for_each(|x| *x /= n);
            Ok(())
        })?;
        self.admits = self.last.get(data.len()).is_some_and(|w| *w > 0.0);
        data.copy_from_slice(&self.last[..data.len()]);
        Ok(())
    }
    fn packed_mean(&mut self, filter: Filter, bucket: usize, said: [f32; 2], data: &mut [f32]) -> Result<()> {
        let key = ResidualKey::Block(0, bucket as u64);
        let mut owed = std::mem::take(self.residuals.0.entry(key).or_default());
        owed.resize(data.len(), 0.0);
        let mut next = pool::copy(&owed);
        let done = self.counted(data, |group, data, sum, deadline| {
            // Of what breaks off nothing counts.
            let next = pool::make_mut(&mut next);
            next.copy_from_slice(&owed);
            sum.extend_from_slice(&merge::weighted(data, said[1]));
            group.all_reduce_packed(sum, filter, next, deadline)?;
            let mut all = said;
            group.all_reduce(bytemuck::cast_slice_mut(&mut all), Element::F32, Combine::Sum, deadline)?;
            let n = counts(all[1]);
            sum.iter_mut().for_each(|x| *x /= n);
            sum.extend(all);
            Ok(())
        });
        if done.is_ok() {
            owed.copy_from_slice(&next);
        }
        pool::give(next);
        self.residuals.0.insert(key, owed);
        done?;
        self.admits = self.last.get(data.len()).is_some_and(|w| *w > 0.0);
        data.copy_from_slice(&self.last[..data.len()]);
        Ok(())
    }
    /// Every member's data becomes that of the first worker.
    pub fn broadcast(&mut self, data: &mut [f32]) -> Result<()> {
        self.counted(data, |group, data, first, deadline| {
            first.extend_from_slice(data);
            group.broadcast(bytemuck::cast_slice_mut(first), 0, deadline)
        })?;
        data.copy_from_slice(&self.last[..data.len()]);
        Ok(())
    }
    /// All members' data, in the order of ranks; all must have the same length.
    pub fn gather(&mut self, data: &[f32]) -> Result<Vec<Vec<f32>>> {
        self.counted(data, |group, data, all, deadline| {
            let (me, each) = (group.rank(), data.len());
            all.resize(group.ranks() * each, 0.0);
            all[me * each..][..each].copy_from_slice(data);
            group.all_gather(bytemuck::cast_slice_mut(all), size_of_val(data), deadline)
        })?;
        Ok(self.last.chunks(data.len().max(1)).map(<[f32]>::to_vec).collect())
    }
    /// Between two steps: lets in workers that wait, with what `give` says. A worker that came
    /// late waits here until it is let in, and is answered what the others gave.
    pub fn meet(&mut self, give: Give) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + self.timeout;
        self.watch.check()?;
        if self.is_late {
            return self.enter(deadline).map(Some);
        }
        if !std::mem::take(&mut self.admits) {
            return Ok(None);
        }
        self.give_up(controller::ADMIT, "", deadline)?;
        while self.group.is_none() {
            self.form(deadline)?;
            self.agree(Some(&mut *give), deadline)?;
        }
        Ok(None)
    }
    /// After the last step: no member leaves before all have come, since one may need the last result;
    /// no call waits longer than `limit`. Workers that are missing but may still come are waited for, for
    /// so long at most, and let in with what `give` says, so that every worker has its part in the end.
    pub fn finish(&mut self, give: Give, missing: Duration, limit: Duration) -> Result<()> {
        let timeout = std::mem::replace(&mut self.timeout, limit);
        let done = self.stay(give, missing);
        self.timeout = timeout;
        done
    }
    fn stay(&mut self, give: Give, limit: Duration) -> Result<()> {
        let mut until = None;
        loop {
            let flag = |is: bool| if is { 1.0 } else { 0.0 };
            let absent = self.watch.absent();
            self.counted(&[0.0; 2], |group, _, sum, deadline| {
                // Read at each attempt: a member lost in one is missing from the next.
                let (waits, misses) = absent(group.epoch(), deadline);
                let is_early = misses && Instant::now() < *until.get_or_insert_with(|| Instant::now() + limit);
                sum.extend([flag(waits), flag(is_early)]);
                group.all_reduce(bytemuck::cast_slice_mut(sum), Element::F32, Combine::Sum, deadline)
            })?;
            self.admits = self.last[0] > 0.0;
            match (self.admits, self.last[1] > 0.0) {
                (true, _) => drop(self.meet(give)?),
                (false, true) => std::thread::sleep(STAY_EVERY),
                (false, false) => return Ok(()),
            }
        }
    }
    fn enter(&mut self, deadline: Instant) -> Result<Vec<u8>> {
        loop {
            self.present(deadline)?;
            self.form(deadline)?;
            if let Met::State(state) = self.agree(None, deadline)? {
                return Ok(state);
            }
            // The others were in the middle of a step: be new once more.
            self.group.take().iter_mut().for_each(Mesh::close);
            self.member.delete(&controller::worker_key(self.rank), deadline)?;
        }
    }
    fn present(&self, deadline: Instant) -> Result<()> {
        self.member.lease(&controller::worker_key(self.rank), self.address.to_string().as_bytes(), deadline)
    }

    /// Runs an operation, which fills an empty list, until it is done by all, in whatever group; the
    /// result is the last one then.
    fn counted(
        &mut self,
        data: &[f32],
        mut operation: impl FnMut(&mut Mesh, &[f32], &mut Vec<f32>, Instant) -> Result<()>,
    ) -> Result<()> {
        if self.is_late {
            let e = "this worker replaces one that was lost: it must be told what the others know before its first \
                     step; Trainer does it, a custom loop calls nn::parallel::meet";
            return Err(Error::value(e));
        }
        let deadline = Instant::now() + self.timeout;
        loop {
            let Some(group) = &mut self.group else {
                self.form(deadline)?;
                if let Met::Result = self.agree(None, deadline)? {
                    let len = self.last.len();
                    if len < data.len() {
                        return Err(Error::refused(format!("{} elements, but others had {len}", data.len())));
                    }
                    return Ok(());
                }
                continue;
            };
            self.scratch.clear();
            match operation(group, data, &mut self.scratch, deadline) {
                Ok(()) => {
                    std::mem::swap(&mut self.scratch, &mut self.last);
                    (self.done, self.again) = (self.done + 1, AGAIN);
                    return Ok(());
                }
                Err(e @ (Error::Value(_) | Error::Refused(_))) => return Err(e),
                Err(e) if Instant::now() >= deadline => return Err(e),
                Err(e) => self.give_up(controller::BROKEN, &e.to_string(), deadline)?,
            }
        }
    }

    /// Gives the group up and says why. Groups that fail one after the other, as two members cannot
    /// reach each other, are formed ever more slowly.
    fn give_up(&mut self, key: &str, why: &str, deadline: Instant) -> Result<()> {
        self.watch.check()?;
        if let Some(mut group) = self.group.take() {
            group.close();
            self.say_over(key, group.epoch(), why, deadline)?;
        }
        Ok(())
    }
    fn say_over(&mut self, key: &str, epoch: u64, why: &str, deadline: Instant) -> Result<()> {
        if key == controller::BROKEN {
            self.pause(epoch);
        }
        let why = if why.is_empty() { String::new() } else { format!(" worker {}: {why}", self.rank) };
        self.member.set(key, format!("{epoch}{why}").as_bytes(), deadline)
    }

    /// Before a group that does not work is complained of: each time longer, but no longer than until
    /// there is another. A lost member is missed by the membership store in the meantime, so that the
    /// next group is without it, instead of many with it.
    fn pause(&mut self, epoch: u64) {
        let until = Instant::now() + self.again;
        while Instant::now() < until && !self.watch.is_over(epoch) {
            std::thread::sleep(AGAIN);
        }
        self.again = (2 * self.again).min(AGAIN_MAX);
    }

    /// Forms the newest group that this worker is in.
    fn form(&mut self, deadline: Instant) -> Result<()> {
        loop {
            self.watch.check()?;
            let (version, bytes) = self.member.wait(controller::GROUP, self.version, deadline)?;
            self.version = version;
            let view = View::decode(&bytes)?;
            let own = self.address.to_string();
            if !view.workers.iter().any(|(r, a)| *r == self.rank && *a == own) {
                if self.is_new {
                    continue;
                }
                return Err(Error::Lost(format!("worker {} was taken for dead: the others went on", self.rank)));
            }
            match mesh(&view, self.rank, &self.acceptor, &self.watch, self.secret.as_ref(), deadline) {
                Ok(group) => {
                    self.group = Some(group);
                    return Ok(());
                }
                Err(e) if Instant::now() >= deadline => return Err(e),
                Err(_) if self.watch.is_over(view.epoch) => {}
                // Members that got further must not wait for this worker.
                Err(e) => self.say_over(controller::BROKEN, view.epoch, &e.to_string(), deadline)?,
            }
        }
    }

    /// Tells the members of a new group from each other: who lacks the last result takes it from
    /// one who has it, who is new takes the state from one who can give it. If the group breaks
    /// meanwhile, it is given up.
    fn agree(&mut self, give: Option<Give>, deadline: Instant) -> Result<Met> {
        let Some(mut group) = self.group.take() else { return Ok(Met::Even) };
        let met = self.exchange(&mut group, give, deadline);
        self.group = Some(group);
        match met {
            Ok(met) => return Ok(met),
            Err(e @ (Error::Value(_) | Error::Refused(_) | Error::Lost(_))) => return Err(e),
            Err(e) if Instant::now() >= deadline => return Err(e),
            Err(e) => self.give_up(controller::BROKEN, &e.to_string(), deadline)?,
        }
        Ok(Met::Even)
    }
    fn exchange(&mut self, group: &mut Mesh, give: Option<Give>, deadline: Instant) -> Result<Met> {
        let me = group.rank();
        let mut all = vec![Status::default(); group.ranks()];
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(self.is_new, NEW) | flag(self.is_late, LATE) | flag(give.is_some(), GIVES);
        all[me] = Status { done: self.done, flags };
        group.all_gather(bytemuck::cast_slice_mut(&mut all), size_of::<Status>(), deadline)?;
        if all.iter().all(|s| s.is(NEW)) {
            if self.is_late {
                let e = "every worker that knew the state is gone: this one must begin again";
                return Err(Error::Lost(e.to_string()));
            }
            self.is_new = false;
            return Ok(Met::Even);
        }
        let most = all.iter().filter(|s| !s.is(NEW)).map(|s| s.done).max().unwrap_or(0);
        let has = |s: &Status| !s.is(NEW) && s.done == most;
        let mut met = Met::Even;
        if let (Some(giver), true) = (all.iter().position(has), all.iter().any(|s| !s.is(NEW) && s.done < most)) {
            for to in (0..all.len()).filter(|i| !all[*i].is(NEW) && all[*i].done < most) {
                if me == giver {
                    send(group, to, bytemuck::cast_slice(&self.last), deadline)?;
                } else if me == to {
                    let result = receive(group, giver, deadline)?;
                    self.last = bytemuck::pod_collect_to_vec(&result);
                    (self.done, met) = (most, Met::Result);
                }
            }
        }
        if let Some(giver) = all.iter().position(|s| has(s) && s.is(GIVES)) {
            let state = if me == giver { give.map(|g| g()).transpose()?.unwrap_or_default() } else { Vec::new() };
            for to in (0..all.len()).filter(|i| all[*i].is(NEW)) {
                if me == giver {
                    send(group, to, &state, deadline)?;
                } else if me == to {
                    met = Met::State(receive(group, giver, deadline)?);
                    (self.done, self.is_new, self.is_late) = (most, false, false);
                }
            }
        }
        Ok(met)
    }
}

/// The sum of all members' weights; where it is 0, the mean is 0.
fn counts(weights: f32) -> f32 {
    if weights > 0.0 { weights } else { 1.0 }
}
/// Sends bytes with their number.
fn send(group: &mut Mesh, to: usize, bytes: &[u8], deadline: Instant) -> Result<()> {
    group.send(to, &(bytes.len() as u64).to_le_bytes(), deadline)?;
    group.send(to, bytes, deadline)
}
/// Receives what [`send`] sends.
fn receive(group: &mut Mesh, from: usize, deadline: Instant) -> Result<Vec<u8>> {
    let mut length = [0; 8];
    group.receive(from, &mut length, deadline)?;
    let length = usize::try_from(u64::from_le_bytes(length)).map_err(|_| Error::refused("a state is too long"))?;
    let mut out = vec![0; length];
    group.receive(from, &mut out, deadline)?;
    Ok(out)
}
