//! Data-parallel sums that survive the loss of workers.
//!
//! When a member is lost in the middle of a reduction, the others form a group without it and
//! either take the result from somebody who has it already, or reduce again with what they still
//! hold: no step is half done, and the lost worker costs its share of one step.

use crate::collective::{Combine, Element, Group};
use crate::coordinator::Registrar;
use crate::roster::{self, Members};
use crate::{Error, Result};
use net::{Address, Connection, Hello, Listener, Secret};
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long forming one group may take before another is asked for.
const FORMING: Duration = Duration::from_secs(10);
/// How long one reduction may take before the group is formed again: a member that hangs keeps
/// its connections, and only the membership store notices.
const REDUCING: Duration = Duration::from_secs(20);

type Arrivals = Arc<(Mutex<BTreeMap<(u64, u32), Connection>>, Condvar)>;

/// A worker's part in reductions over all workers.
pub struct Reducer {
    rank: u32,
    registrar: Registrar,
    secret: Option<Secret>,
    arrivals: Arrivals,
    group: Option<Group>,
    version: u64,
    /// Reductions that are complete, and the last one's result, for members that missed it.
    done: u64,
    last: Vec<f32>,
    /// No call waits longer.
    pub timeout: Duration,
}

impl Reducer {
    /// Says where this worker listens, waits for the others and forms the first group.
    pub fn join(
        rank: u32,
        listen: &Address,
        registrar: Registrar,
        secret: Option<Secret>,
        timeout: Duration,
    ) -> Result<Reducer> {
        let listener = Listener::bind(listen, secret.clone())?;
        let address = listener.address().to_string();
        let arrivals = Arrivals::default();
        let stash = arrivals.clone();
        std::thread::spawn(move || accept(&listener, &stash));
        let mut r =
            Reducer { rank, registrar, secret, arrivals, group: None, version: 0, done: 0, last: Vec::new(), timeout };
        let deadline = Instant::now() + timeout;
        r.registrar.lease(&roster::worker_key(rank), address.as_bytes(), deadline)?;
        r.form(deadline)?;
        Ok(r)
    }
    /// How many workers reduce together now.
    pub fn workers(&self) -> usize {
        self.group.as_ref().map_or(0, Group::ranks)
    }

    /// Everybody's data becomes the mean of everybody's data. If a worker is lost meanwhile, of
    /// the others'.
    pub fn mean(&mut self, data: &mut [f32]) -> Result<()> {
        let deadline = Instant::now() + self.timeout;
        loop {
            if self.group.is_none() {
                self.form(deadline)?;
                if self.catch_up(data, deadline.min(Instant::now() + REDUCING))? {
                    return Ok(());
                }
                continue;
            }
            let Some(group) = &mut self.group else { continue };
            let n = group.ranks();
            let mut sum = data.to_vec();
            let until = deadline.min(Instant::now() + REDUCING);
            match group.all_reduce(bytemuck::cast_slice_mut(&mut sum), Element::F32, Combine::Sum, until) {
                Ok(()) => {
                    sum.iter_mut().for_each(|x| *x /= n as f32);
                    data.copy_from_slice(&sum);
                    (self.done, self.last) = (self.done + 1, sum);
                    return Ok(());
                }
                Err(e @ (Error::Value(_) | Error::Refused(_))) => return Err(e),
                Err(e) if Instant::now() >= deadline => return Err(e),
                Err(_) => self.leave()?,
            }
        }
    }
    /// Everybody's data becomes that of the first worker.
    pub fn broadcast(&mut self, data: &mut [f32]) -> Result<()> {
        let deadline = Instant::now() + self.timeout;
        let Some(group) = &mut self.group else {
            return Err(Error::value("the first values are shared before a worker is lost, not after"));
        };
        group.broadcast(bytemuck::cast_slice_mut(data), 0, deadline)
    }

    /// Gives the group up and says so.
    fn leave(&mut self) -> Result<()> {
        if let Some(mut group) = self.group.take() {
            group.close();
            let epoch = group.epoch().to_string();
            self.registrar.set(roster::BROKEN, epoch.as_bytes(), Instant::now() + FORMING)?;
        }
        Ok(())
    }

    /// Members may differ by one reduction: who lacks the last takes it from one who has it.
    /// True if `data` now holds its result.
    fn catch_up(&mut self, data: &mut [f32], deadline: Instant) -> Result<bool> {
        let Some(group) = &mut self.group else { return Ok(false) };
        let (n, me) = (group.ranks(), group.rank());
        let mut done = vec![0u64; n];
        done[me] = self.done;
        let caught = group.all_gather(bytemuck::cast_slice_mut(&mut done), 8, deadline).and_then(|()| {
            let most = done.iter().copied().max().unwrap_or(0);
            let Some(giver) = done.iter().position(|d| *d == most).filter(|_| done.iter().any(|d| *d < most)) else {
                return Ok(false);
            };
            let is_behind = self.done < most;
            let mut result = if is_behind { vec![0.0; data.len()] } else { self.last.clone() };
            group.broadcast(bytemuck::cast_slice_mut(&mut result), giver, deadline)?;
            if is_behind {
                data.copy_from_slice(&result);
                (self.done, self.last) = (most, result);
            }
            Ok(is_behind)
        });
        match caught {
            Ok(is_done) => Ok(is_done),
            Err(e @ Error::Value(_)) => Err(e),
            Err(_) => {
                self.leave()?;
                Ok(false)
            }
        }
    }

    /// Forms the newest group.
    fn form(&mut self, deadline: Instant) -> Result<()> {
        loop {
            let (version, bytes) = self.registrar.wait(roster::GROUP, self.version, deadline)?;
            self.version = version;
            let members = Members::decode(&bytes)?;
            let Some(me) = members.workers.iter().position(|(r, _)| *r == self.rank) else {
                return Err(Error::Lost(format!("worker {} was taken for dead: the others went on", self.rank)));
            };
            match self.mesh(&members, me, deadline.min(Instant::now() + FORMING)) {
                Ok(group) => {
                    self.group = Some(group);
                    return Ok(());
                }
                Err(e) if Instant::now() >= deadline => return Err(e),
                Err(_) => {
                    // Whoever got further must not wait for this worker.
                    self.arrivals.0.lock().retain(|(epoch, _), _| *epoch > members.epoch);
                    let epoch = members.epoch.to_string();
                    self.registrar.set(roster::BROKEN, epoch.as_bytes(), deadline)?;
                }
            }
        }
    }
    /// Calls the members before this one and waits for those after it.
    fn mesh(&mut self, members: &Members, me: usize, deadline: Instant) -> Result<Group> {
        let role = format!("peer {}", members.epoch);
        let mut links = Vec::with_capacity(members.workers.len());
        for (i, (rank, address)) in members.workers.iter().enumerate() {
            links.push(match i {
                i if i < me => {
                    let hello = Hello::new(&role, self.rank);
                    Some(Connection::connect(&address.parse()?, &hello, self.secret.as_ref(), deadline)?)
                }
                i if i > me => Some(self.arrival(members.epoch, *rank, deadline)?),
                _ => None,
            });
        }
        // Calls for epochs that are over have nobody to answer them.
        self.arrivals.0.lock().retain(|(epoch, _), _| *epoch > members.epoch);
        Group::new(me, members.epoch, links)
    }
    fn arrival(&mut self, epoch: u64, rank: u32, deadline: Instant) -> Result<Connection> {
        let (lock, bell) = &*self.arrivals;
        let mut arrived = lock.lock();
        loop {
            if let Some(c) = arrived.remove(&(epoch, rank)) {
                return Ok(c);
            }
            // A newer group makes this one pointless.
            let until = deadline.min(Instant::now() + Duration::from_millis(100));
            if bell.wait_until(&mut arrived, until).timed_out() {
                let newest = self.registrar.get(roster::GROUP, deadline)?;
                if newest.0 > self.version || Instant::now() >= deadline {
                    return Err(Error::Deadline(format!("waiting for worker {rank}")));
                }
            }
        }
    }
}

fn accept(listener: &Listener, arrivals: &Arrivals) {
    while let Ok(pending) = listener.accept() {
        let arrivals = arrivals.clone();
        std::thread::spawn(move || {
            // Who cannot prove itself, or is no peer, is simply not let in.
            let Ok(c) = pending.handshake(Instant::now() + FORMING) else { return };
            let epoch = c.peer().role.strip_prefix("peer ").and_then(|e| e.parse().ok());
            if let Some(epoch) = epoch {
                let rank = c.peer().id;
                arrivals.0.lock().insert((epoch, rank), c);
                arrivals.1.notify_all();
            }
        });
    }
}
