//! Admission: room in the queue of an engine, held from the moment that the head of a request was read. So bodies that are
//! still on their way and requests that are being decoded count as much as those that the engine already has.

use crate::batcher::{Admitted, Asked, FullBatch, Load, admit};
use crate::failure::{Answered, Failure, Kind};
use crate::margin::Written;
use crate::served::{Served, now_us};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::OnceCell;

/// Measurements that must agree.
const PROBES: usize = 4;

/// How long a connection that is ready waits for a thread, as last measured. The least of the last measurements counts, as
/// in CoDel: a thread that was kept from running once is no overload.
#[derive(Default)]
pub struct Lag {
    last_us: [AtomicU64; PROBES],
    next: AtomicUsize,
}

impl Lag {
    /// Adds a measurement.
    pub fn record(&self, us: u64) {
        self.last_us[self.next.fetch_add(1, Relaxed) % PROBES].store(us, Relaxed);
    }
    /// What all of the last measurements agree on.
    pub fn least_us(&self) -> u64 {
        self.last_us.iter().map(|us| us.load(Relaxed)).min().unwrap_or(0)
    }
    /// The mean of the last measurements.
    pub fn mean_us(&self) -> u64 {
        self.last_us.iter().map(|us| us.load(Relaxed)).sum::<u64>() / PROBES as u64
    }
}

/// The lag of the front end. While it has more to do than its threads can, requests wait in their sockets, where nothing
/// counts them.
#[derive(Default)]
pub struct Front {
    lag: Lag,
    probed_us: AtomicU64,
    /// A connection of the server to itself, where sockets do not tell how long requests wait in them; `None` if there is no
    /// network.
    canary: OnceCell<Option<TcpStream>>,
}

/// How often it is measured while requests come.
const PROBE_US: u64 = 1_000;
/// A measurement as old as this says nothing any more.
const STALE_US: u64 = 100_000;

impl Front {
    /// Measures if it is time to. Where requests are stamped, a task yields: it runs again after those that were ready
    /// before it. Else a few bytes take the way of a request, through the network of the system.
    pub fn probe(self: &Arc<Front>, is_stamped: bool) {
        let (now, last) = (now_us(), self.probed_us.load(Relaxed));
        let is_due = now.saturating_sub(last) >= PROBE_US;
        if !is_due || self.probed_us.compare_exchange(last, now, Relaxed, Relaxed).is_err() {
            return;
        }
        let this = self.clone();
        tokio::spawn(async move {
            let canary = if is_stamped { None } else { this.canary.get_or_init(|| canary(&this)).await.as_ref() };
            let began = now_us();
            // One that does not take them has not delivered those before: their time will tell.
            if canary.is_some_and(|stream| stream.try_write(&began.to_le_bytes()).is_ok()) {
                return;
            }
            tokio::task::yield_now().await;
            this.lag.record(now_us() - began);
        });
    }
    /// What a request has waited in its socket that came just now, as far as measurements tell.
    pub fn waited_us(&self) -> u64 {
        let age = now_us().saturating_sub(self.probed_us.load(Relaxed));
        if age > STALE_US { 0 } else { self.lag.mean_us() }
    }
    /// The time, now.
    pub fn lag_us(&self) -> u64 {
        let age = now_us().saturating_sub(self.probed_us.load(Relaxed));
        if age > STALE_US { 0 } else { self.lag.least_us() }
    }
}

/// A connection of the server to itself, at whose other end times are recorded as they come.
async fn canary(front: &Arc<Front>) -> Option<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.ok()?;
    let near = TcpStream::connect(listener.local_addr().ok()?).await.ok()?;
    let (mut far, from) = listener.accept().await.ok()?;
    near.set_nodelay(true).ok()?;
    // Another process may have been faster to connect.
    if near.local_addr().ok()? != from {
        return None;
    }
    let front = Arc::downgrade(front);
    tokio::spawn(async move {
        let mut stamp = [0; 8];
        while far.read_exact(&mut stamp).await.is_ok() {
            let Some(front) = front.upgrade() else { return };
            front.lag.record(now_us().saturating_sub(u64::from_le_bytes(stamp)));
        }
    });
    Some(near)
}

/// What an engine publishes.
#[derive(Default)]
pub(crate) struct Shared {
    /// Work of all models that waits.
    pub backlog_us: AtomicU64,
    /// When the running batch is expected to end.
    pub busy_until_us: AtomicU64,
    /// When the running step began; 0: none runs.
    pub step_since_us: AtomicU64,
    pub jobs: AtomicUsize,
    pub has_failed: AtomicBool,
}

impl Shared {
    /// What is left of the running batch. One that takes longer than expected is given as much time again.
    pub fn running_us(&self) -> u64 {
        if self.step_since_us.load(Relaxed) == 0 { 0 } else { self.busy_until_us.load(Relaxed).abs_diff(now_us()) }
    }
}

/// Room in the queue, returned when the request is answered or dropped.
pub struct Ticket {
    pub(crate) served: Arc<Served>,
    shared: Arc<Shared>,
    /// The engine.
    pub(crate) lane: usize,
    /// When the request came to the server.
    pub(crate) arrived_us: u64,
    is_refusable: bool,
    rows: usize,
    bytes: usize,
    /// Work in the backlog, unless it runs.
    work_us: u64,
    has_started: AtomicBool,
}

impl Ticket {
    /// Takes room for a request that came at this time, as far as that is known, or refuses it at once.
    pub(crate) fn take(
        served: &Arc<Served>,
        shared: &Arc<Shared>,
        lane: usize,
        front: &Front,
        asked: Asked,
        arrived_us: Option<u64>,
    ) -> Answered<Ticket> {
        let front_us = front.lag_us();
        let arrived_us = arrived_us.unwrap_or_else(|| now_us().saturating_sub(front.waited_us()).max(1));
        let Admitted { is_refusable } = admitted(served, shared, lane, front_us, arrived_us, asked)?;
        let mut ticket = Ticket {
            served: served.clone(),
            shared: shared.clone(),
            lane,
            arrived_us,
            is_refusable,
            rows: 0,
            bytes: 0,
            work_us: 0,
            has_started: AtomicBool::new(false),
        };
        served.lanes[lane].requests.fetch_add(1, Relaxed);
        shared.jobs.fetch_add(1, Relaxed);
        ticket.set(asked);
        Ok(ticket)
    }

    /// States what the request turned out to be once it was read. If that is more than was thought, it may be refused.
    pub(crate) fn correct(&mut self, front: &Front, asked: Asked) -> Answered<()> {
        if (asked.rows, asked.bytes) == (self.rows, self.bytes) {
            return Ok(());
        }
        let is_more = asked.rows > self.rows;
        self.set(Asked { rows: 0, bytes: 0 });
        if is_more {
            let admitted = admitted(&self.served, &self.shared, self.lane, front.lag_us(), self.arrived_us, asked)?;
            self.is_refusable = admitted.is_refusable;
        }
        self.set(asked);
        Ok(())
    }
    /// States that the rest of the request came at this time: what a client takes to send it is no latency of the server.
    pub(crate) fn completed(&mut self, us: u64) {
        self.arrived_us = self.arrived_us.max(us);
    }
    /// What counts the answer.
    pub(crate) fn receipt(&self) -> Receipt {
        let (served, lane) = (self.served.clone(), Some(self.lane));
        let (arrived_us, is_refusable) = (self.arrived_us, self.is_refusable);
        Receipt { served, lane, arrived_us, done_us: 0, written_us: None, is_refusable }
    }

    fn set(&mut self, Asked { rows, bytes }: Asked) {
        self.clear();
        let lane = &self.served.lanes[self.lane];
        self.work_us = lane.batch_us.load(Relaxed) * rows as u64 / lane.batch_rows.load(Relaxed).max(1) as u64;
        (self.rows, self.bytes) = (rows, bytes);
        lane.rows.fetch_add(rows, Relaxed);
        lane.bytes.fetch_add(bytes, Relaxed);
        lane.backlog_us.fetch_add(self.work_us, Relaxed);
        self.shared.backlog_us.fetch_add(self.work_us, Relaxed);
        self.has_started.store(false, Relaxed);
    }
    fn clear(&mut self) {
        self.start();
        self.served.lanes[self.lane].bytes.fetch_sub(self.bytes, Relaxed);
        (self.rows, self.bytes, self.work_us) = (0, 0, 0);
    }
    /// The request runs: its work is no more waiting.
    pub(crate) fn start(&self) {
        if self.has_started.swap(true, Relaxed) {
            return;
        }
        let lane = &self.served.lanes[self.lane];
        lane.rows.fetch_sub(self.rows, Relaxed);
        lane.backlog_us.fetch_sub(self.work_us, Relaxed);
        self.shared.backlog_us.fetch_sub(self.work_us, Relaxed);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.clear();
        self.served.lanes[self.lane].requests.fetch_sub(1, Relaxed);
        self.shared.jobs.fetch_sub(1, Relaxed);
    }
}

/// Counts an answer when it is dropped: once the answer was written, or would have been if the client read it. Held from
/// when there is an answer.
pub struct Receipt {
    served: Arc<Served>,
    /// The engine; `None` if the cache has answered.
    lane: Option<usize>,
    arrived_us: u64,
    /// When the engine had the answer, and when it has written it, if it has.
    done_us: u64,
    written_us: Option<u64>,
    is_refusable: bool,
}

impl Receipt {
    /// Of an answer of the cache.
    pub(crate) fn cached(served: &Arc<Served>, arrived_us: u64) -> Receipt {
        Receipt { served: served.clone(), lane: None, arrived_us, done_us: 0, written_us: None, is_refusable: false }
    }
    /// Of an answer that the engine had at `done_us`, and wrote at `written_us` if it did.
    pub(crate) fn done(self, done_us: u64, written_us: Option<u64>) -> Counted {
        Counted(Receipt { done_us, written_us, ..self })
    }
}

/// A receipt of an answer that there is.
pub struct Counted(Receipt);

impl Drop for Counted {
    fn drop(&mut self) {
        let Receipt { served, lane, arrived_us, done_us, written_us, is_refusable } = &self.0;
        let written_us = written_us.unwrap_or_else(now_us);
        served.stats.written(written_us.saturating_sub(*arrived_us));
        if let Some(lane) = lane {
            served.stats.send_us.fetch_add(written_us.saturating_sub(*done_us), Relaxed);
            let answer = Written { arrived_us: *arrived_us, written_us, is_refusable: *is_refusable };
            served.lanes[*lane].written(&served.policy, *done_us, answer);
        }
    }
}

fn admitted(
    served: &Served,
    shared: &Shared,
    lane: usize,
    front_us: u64,
    arrived_us: u64,
    asked: Asked,
) -> Answered<Admitted> {
    let own = &served.lanes[lane];
    let load = Load {
        requests: own.requests.load(Relaxed),
        bytes: own.bytes.load(Relaxed),
        rows: own.rows.load(Relaxed),
        others_us: shared.backlog_us.load(Relaxed).saturating_sub(own.backlog_us.load(Relaxed)),
        running_us: shared.running_us(),
        batch: FullBatch {
            us: own.batch_us.load(Relaxed),
            spread_us: own.batch_spread_us.load(Relaxed),
            rows: own.batch_rows.load(Relaxed),
        },
        target_us: own.target_us.load(Relaxed),
        front_us,
        waited_us: now_us().saturating_sub(arrived_us),
        out_us: own.out_us.load(Relaxed),
        margin_us: own.margin_us.load(Relaxed),
    };
    admit(&served.policy, &load, asked).map_err(|refusal| {
        let seconds = refusal.retry_us.div_ceil(1_000_000);
        let failure = Failure::new(Kind::Overloaded, format!("{}: {}", served.name, refusal.reason));
        Failure { retry_seconds: Some(seconds), ..failure }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_a_front_end_that_stays_late_counts() {
        let front = Arc::new(Front::default());
        front.probe(true);
        tokio::task::yield_now().await;
        (0..PROBES).for_each(|_| front.lag.record(9_000));
        assert_eq!(front.lag_us(), 9_000);
        front.lag.record(20);
        assert_eq!(front.lag_us(), 20, "one connection was served at once");
        (1..PROBES).for_each(|_| front.lag.record(9_000));
        assert_eq!(front.lag_us(), 20);
        front.lag.record(8_000);
        assert_eq!(front.lag_us(), 8_000);
        front.probed_us.store(1, Relaxed);
        tokio::time::sleep(std::time::Duration::from_micros(STALE_US + 10_000)).await;
        assert_eq!(front.lag_us(), 0, "there was no request for long");
    }

    /// Tasks that are ready before a probe run before it ends.
    #[tokio::test]
    async fn a_probe_waits_behind_what_is_ready() {
        let front = Arc::new(Front::default());
        // The clock may begin with the first probe, which is then not due.
        for _ in 0..=PROBES {
            front.probe(true);
            for _ in 0..4 {
                tokio::spawn(async { std::thread::sleep(std::time::Duration::from_millis(1)) });
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert!(front.lag_us() >= 3_000, "{}", front.lag_us());
    }

    /// Bytes that wait in a socket while the front end is busy tell for how long.
    #[tokio::test]
    async fn a_canary_measures_what_waits_in_a_socket() {
        let front = Arc::new(Front::default());
        for _ in 0..=PROBES {
            front.probe(false);
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            front.probe(false);
            tokio::task::yield_now().await;
            std::thread::sleep(std::time::Duration::from_millis(4));
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert!(front.canary.get().is_some_and(Option::is_some), "there is a loopback network");
        assert!(front.waited_us() >= 1_000, "{}", front.waited_us());
    }
}
