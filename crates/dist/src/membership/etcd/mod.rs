//! The membership store in an etcd cluster, where it outlives every process of the job.
//!
//! Keys are `talweg/JOB/…`, versions are etcd's revisions, leases are etcd's leases. The process that is
//! elected among the job's processes does what the embedded coordinator does: it runs the
//! [`Controller`] on what it sees and publishes groups and maps. What it writes counts only while it
//! is elected, so that the epoch has one writer at a time; when it dies another takes over from
//! what is published.
//!
//! A cluster may be away: calls wait for it until their deadline. When it comes back it may have let
//! all leases lapse, as it could not receive their renewals. Processes that were alive meanwhile take new
//! leases and write their keys again; the elected coordinator leaves them the time for it.

mod client;
mod http;
#[cfg_attr(not(feature = "tls"), path = "no_tls.rs")]
mod tls;

use crate::membership::controller::{Controller, left_key, left_value};
use crate::membership::kv::{KeyEvent, Kv, Reply, Request};
use crate::membership::publisher::FOREVER;
use crate::membership::{Cluster, Coordinator, Expired, Transport};
use crate::{Error, Result};
use client::{Client, Event, PAUSE, has_value, put, was_changed};
use http::Access;
pub(crate) use http::ETCD_VARS;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a launcher waits for the cluster when it says that a worker is gone.
const SET_LIMIT: Duration = Duration::from_secs(600);
/// How old may be what a launcher shows.
const LOOK: Duration = Duration::from_millis(250);
/// Key of the elected coordinator, and the prefix of the candidates' keys.
const KEEPER: &str = "keeper";

impl Cluster {
    fn prefix(&self) -> String {
        format!("talweg/{}/", self.job)
    }
    fn client(&self) -> Result<Client> {
        Ok(Client::new(&self.endpoints, &Access::from_env(|name| std::env::var(name).ok())?))
    }
    /// Whether a process is a candidate in a job of this name.
    pub fn is_running(&self, deadline: Instant) -> Result<bool> {
        Ok(!self.client()?.list(&(self.prefix() + KEEPER), deadline)?.1.is_empty())
    }
    /// Forgets what an earlier job of this name has left behind; an error if it still runs.
    pub fn begin(&self, deadline: Instant) -> Result<()> {
        if self.is_running(deadline)? {
            return Err(Error::value(format!("a job {:?} is running: choose another name", self.job)));
        }
        self.end(deadline)
    }
    /// Removes everything of this job.
    pub fn end(&self, deadline: Instant) -> Result<()> {
        self.client()?.delete_all(&self.prefix(), deadline)
    }
}

/// What is known of a lease.
struct Known {
    id: i64,
    /// Keys that hang on it.
    keys: BTreeMap<String, Vec<u8>>,
    /// When the cluster last answered.
    heard: Instant,
    /// Until when what others' leases say is in doubt, as the cluster was away.
    doubt: Option<Instant>,
    /// Why it is over, if it is.
    over: Option<String>,
}

/// A lease that a thread keeps alive, and takes again when the cluster has lost it.
struct Lease {
    ttl: Duration,
    client: Client,
    known: Mutex<Known>,
    bell: Condvar,
}

impl Lease {
    fn take(client: &Client, ttl: Duration, deadline: Instant) -> Result<Arc<Lease>> {
        let client = client.duplicate();
        let id = client.grant(ttl, deadline)?;
        let known = Known { id, keys: BTreeMap::new(), heard: Instant::now(), doubt: None, over: None };
        let lease = Arc::new(Lease { ttl, client, known: Mutex::new(known), bell: Condvar::new() });
        let beating = Arc::clone(&lease);
        let spawned = std::thread::Builder::new().name("etcd".into()).spawn(move || beating.beat());
        spawned.map_err(Error::io("starting a thread that keeps a lease"))?;
        Ok(lease)
    }
    fn over(&self) -> Option<String> {
        self.known.lock().over.clone()
    }
    fn end(&self, why: &str) {
        self.known.lock().over.get_or_insert(why.to_string());
        self.bell.notify_all();
        self.client.close();
    }
    /// True if the cluster was away a moment ago, or is: then other processes' leases may have lapsed
    /// although they live.
    fn doubts(&self) -> bool {
        let known = self.known.lock();
        known.heard.elapsed() > self.ttl / 2 || known.doubt.is_some_and(|until| Instant::now() < until)
    }
    /// Puts a key that vanishes with the lease.
    fn put(&self, client: &Client, key: &str, value: &[u8], deadline: Instant) -> Result<Reply> {
        self.known.lock().keys.insert(key.to_string(), value.to_vec());
        loop {
            let id = self.known.lock().id;
            match client.put(key, value, Some(id), deadline) {
                // It is taken again.
                Err(Error::Lost(e)) if e.contains("lease not found") && self.over().is_none() => {
                    std::thread::sleep(PAUSE);
                }
                done => return done,
            }
        }
    }
    /// Keeps the lease alive until it is over.
    fn beat(&self) {
        let mut ran = Instant::now();
        loop {
            {
                let mut known = self.known.lock();
                if known.over.is_none() {
                    self.bell.wait_for(&mut known, self.ttl / 5);
                }
                if known.over.is_some() {
                    break;
                }
            }
            // A process that did not run for so long is taken for dead by right.
            let was_stopped = ran.elapsed() > self.ttl;
            let (id, attempt) = (self.known.lock().id, self.ttl.max(Duration::from_secs(1)) / 2);
            let kept = self.client.keep_alive(id, Instant::now() + attempt);
            ran = Instant::now();
            match kept {
                Ok(true) => self.heard(),
                Ok(false) if was_stopped => self.end("etcd has taken this process for dead"),
                Ok(false) => self.renew(),
                Err(Error::Lost(e)) if e.contains("lease not found") && !was_stopped => self.renew(),
                // A cluster that is away is waited for.
                Err(e) if e.is_late() => {}
                Err(e) => self.end(&e.to_string()),
            }
        }
        // A process that learns of it before the lease lapses need not wait for that.
        let id = self.known.lock().id;
        let _ = self.client.duplicate().revoke(id, Instant::now() + self.ttl.min(Duration::from_secs(2)));
    }
    fn heard(&self) {
        let mut known = self.known.lock();
        if known.heard.elapsed() > self.ttl / 2 {
            known.doubt = Some(Instant::now() + self.ttl + Duration::from_secs(2));
        }
        known.heard = Instant::now();
    }
    /// The cluster has lost the lease while this process was alive: takes another and says again what
    /// hung on it, unless another process has taken its place.
    fn renew(&self) {
        let deadline = Instant::now() + FOREVER;
        let renewed = self.client.grant(self.ttl, deadline).and_then(|id| {
            let keys = {
                let mut known = self.known.lock();
                known.id = id;
                known.keys.clone()
            };
            for (key, value) in &keys {
                let mine = [put(key, value, Some(id))];
                let (done, now) = self.client.swap(&was_changed(key, 0), &mine, key, deadline)?;
                // It may have been put again, under the new lease, by a writer of a new value.
                let is_own = || self.known.lock().keys.get(key).map(Vec::as_slice) == now.1.as_deref();
                if !done && !is_own() && !is_old(&now, &keys, key) {
                    return Err(Error::Lost(format!("another process has taken the place of {key}")));
                }
            }
            Ok(())
        });
        match renewed {
            Ok(()) => self.heard(),
            Err(e) => self.end(&e.to_string()),
        }
    }
}
fn is_old(now: &Reply, keys: &BTreeMap<String, Vec<u8>>, key: &str) -> bool {
    now.1.as_ref() == keys.get(key)
}

/// A process's line to the cluster, with its own lease.
pub(crate) struct EtcdTransport {
    cluster: Cluster,
    client: Client,
    lease: Arc<Lease>,
}

impl EtcdTransport {
    pub fn connect(cluster: &Cluster, deadline: Instant) -> Result<EtcdTransport> {
        let client = cluster.client()?;
        let lease = Lease::take(&client, cluster.ttl, deadline)?;
        Ok(EtcdTransport { cluster: cluster.clone(), client, lease })
    }
    fn key(&self, key: &str) -> String {
        self.cluster.prefix() + key
    }
    fn ask(&self, ask: &Request<'_>, deadline: Instant) -> Result<Reply> {
        let c = &self.client;
        match ask {
            Request::Heartbeat => Ok((0, None)),
            Request::Get(key) => c.get(&self.key(key), deadline),
            Request::Wait(key, after) => self.wait(&self.key(key), *after, deadline),
            Request::Set(key, value) => c.put(&self.key(key), value, None, deadline),
            Request::Lease(key, value) => self.lease.put(c, &self.key(key), value, deadline),
            Request::Delete(key) => {
                let key = self.key(key);
                self.lease.known.lock().keys.remove(&key);
                c.delete(&key, deadline)
            }
            Request::CompareSet(key, expected, value) => {
                let key = self.key(key);
                let is = expected.map_or_else(|| was_changed(&key, 0), |e| has_value(&key, e));
                Ok(c.swap(&is, &[put(&key, value, None)], &key, deadline)?.1)
            }
            Request::Add(key, n) => loop {
                let key = self.key(key);
                let (version, old) = c.get(&key, deadline)?;
                let number = old.as_deref().and_then(|v| std::str::from_utf8(v).ok()?.parse::<i64>().ok()).unwrap_or(0);
                let is = was_changed(&key, if old.is_some() { version } else { 0 });
                let sum = number.wrapping_add(*n).to_string();
                if let (true, now) = c.swap(&is, &[put(&key, sum.as_bytes(), None)], &key, deadline)? {
                    return Ok(now);
                }
            },
        }
    }
    /// Waits until a key is newer than `after`.
    fn wait(&self, key: &str, after: u64, deadline: Instant) -> Result<Reply> {
        loop {
            let (version, value) = self.client.get(key, deadline)?;
            if value.is_some() && version > after {
                return Ok((version, value));
            }
            // Of a key that is there, the revision is its own: nothing newer is missed.
            let changed = self.client.watch(key, false, version, deadline).and_then(|mut watch| {
                loop {
                    let Some(events) = watch.next(deadline)? else {
                        return Err(Error::Deadline("waiting for a key in etcd".to_string()));
                    };
                    if let Some(e) = events.into_iter().rfind(|e| e.is_put) {
                        return Ok((e.pair.changed, Some(e.pair.value)));
                    }
                }
            });
            match changed {
                // The cluster is away, or has ended the watch: ask again.
                Err(Error::Net(e)) if e.is_gone() => std::thread::sleep(PAUSE),
                done => return done,
            }
        }
    }
}

impl Transport for EtcdTransport {
    fn call(&self, ask: &Request<'_>, deadline: Instant) -> Result<Reply> {
        let over = |why: &str| Error::Lost(format!("the line to the membership store has ended: {why}"));
        if let Some(why) = self.lease.over() {
            return Err(over(&why));
        }
        let done = self.ask(ask, deadline);
        match (done, self.lease.over()) {
            (Err(_), Some(why)) => Err(over(&why)),
            (done, _) => done,
        }
    }
    fn duplicate(&self, deadline: Instant) -> Result<Box<dyn Transport>> {
        Ok(Box::new(EtcdTransport::connect(&self.cluster, deadline)?))
    }
    fn close(&self) {
        self.lease.end("it was closed");
        self.client.close();
    }
}
impl Drop for EtcdTransport {
    fn drop(&mut self) {
        self.close();
    }
}

/// Stands for election in this process, and does the coordinator's work when it is elected.
pub struct EtcdCoordinator {
    line: EtcdTransport,
    is_over: Arc<AtomicBool>,
    /// The line on which it stands, to be ended with it.
    standing: Arc<Mutex<Option<Arc<EtcdTransport>>>>,
    seen: Mutex<Seen>,
}

/// What was seen of the job when it was last checked.
#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    keys: BTreeMap<String, Vec<u8>>,
    /// When each process's key was last there.
    alive: BTreeMap<String, Instant>,
}

impl EtcdCoordinator {
    /// From now on this process is a candidate. `controller` is recreated at each election; `report`
    /// hears what happens while this process is elected.
    pub fn start(
        cluster: &Cluster,
        controller: impl Fn() -> Controller + Send + Sync + 'static,
        report: impl Fn(&str) + Send + Sync + 'static,
        deadline: Instant,
    ) -> Result<EtcdCoordinator> {
        let line = EtcdTransport::connect(cluster, deadline)?;
        let (is_over, standing) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let first = Arc::new(stand(cluster, deadline)?);
        *standing.lock() = Some(first);
        let (over, place, cluster) = (is_over.clone(), standing.clone(), cluster.clone());
        let reigning = move || {
            while !over.load(Ordering::Relaxed) {
                let now = place.lock().clone();
                let stood = now.map_or_else(|| stand(&cluster, Instant::now() + FOREVER).map(Arc::new), Ok);
                let reigned = stood.and_then(|line| {
                    *place.lock() = Some(line.clone());
                    reign(&line, &controller, &report, &over)
                });
                *place.lock() = None;
                // Not elected any more, or the cluster is away: stand again.
                if let Err(Error::Refused(e)) = reigned {
                    report(&e);
                }
                std::thread::sleep(PAUSE);
            }
        };
        let spawned = std::thread::Builder::new().name("keeper".into()).spawn(reigning);
        spawned.map_err(Error::io("starting a thread that stands for election"))?;
        Ok(EtcdCoordinator { line, is_over, standing, seen: Mutex::default() })
    }
    /// Looks at the job's keys again if it is time.
    fn look(&self) -> parking_lot::MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock();
        if seen.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return seen;
        }
        let (own, ttl) = (self.line.cluster.prefix(), self.line.cluster.ttl);
        let all = self.line.client.list(&own, Instant::now() + ttl);
        let now = Instant::now();
        seen.looked = Some(now);
        match all {
            Ok((_, all)) => {
                let named = |p: client::Pair| Some((p.key.strip_prefix(&own)?.to_string(), p.value));
                seen.keys = all.into_iter().filter_map(named).collect();
                let Seen { keys, alive, .. } = &mut *seen;
                let owned = keys.keys().filter(|k| role(k).is_some());
                alive.extend(owned.map(|k| (k.clone(), now)));
                if self.line.lease.doubts() {
                    // Their leases may have lapsed with all others.
                    alive.values_mut().for_each(|at| *at = now);
                }
            }
            // It is the cluster that is away, not the processes.
            Err(_) => seen.alive.values_mut().for_each(|at| *at = now),
        }
        seen
    }
}

/// The key by which a process is known to be alive, as its role and number.
fn role(key: &str) -> Option<(&'static str, u32)> {
    [("progress/", "worker"), ("server/", "server")]
        .iter()
        .find_map(|(prefix, role)| Some((*role, key.strip_prefix(prefix)?.parse().ok()?)))
}

impl Coordinator for EtcdCoordinator {
    fn list(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let seen = self.look();
        let from = seen.keys.range(prefix.to_string()..);
        from.take_while(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.look().keys.get(key).cloned()
    }
    fn refresh(&self) {
        self.seen.lock().looked = None;
    }
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.line.call(&Request::Set(key, value), Instant::now() + SET_LIMIT).map(drop)
    }
    fn left(&self, rank: u32, is_done: bool) -> Result<()> {
        self.set(&left_key(rank), &left_value(is_done))
    }
    fn expired(&self) -> Vec<Expired> {
        let (mut seen, ttl) = (self.look(), self.line.cluster.ttl);
        let gone: Vec<(String, Instant)> =
            seen.alive.iter().filter(|(_, at)| at.elapsed() > ttl).map(|(k, at)| (k.clone(), *at)).collect();
        seen.alive.retain(|_, at| at.elapsed() <= ttl);
        let named = gone.iter().filter_map(|(k, at)| role(k).map(|(role, id)| (role, id, *at)));
        named.map(|(role, id, since)| Expired { role: role.to_string(), id, since }).collect()
    }
    fn end(&self) {
        // A cluster that is away keeps some keys for longer; the next job of this name removes them.
        let _ = self.line.cluster.end(Instant::now() + self.line.cluster.ttl);
    }
}

impl Drop for EtcdCoordinator {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.standing.lock().iter().for_each(|line| line.close());
    }
}

/// Becomes a candidate.
fn stand(cluster: &Cluster, deadline: Instant) -> Result<EtcdTransport> {
    let line = EtcdTransport::connect(cluster, deadline)?;
    let id = line.lease.known.lock().id;
    line.call(&Request::Lease(&format!("{KEEPER}/{id:x}"), b""), deadline)?;
    Ok(line)
}

/// Waits to be elected; returns the revision that made it so.
fn elected(line: &EtcdTransport) -> Result<u64> {
    let (name, forever) = (line.key(KEEPER), Instant::now() + FOREVER);
    loop {
        let id = line.lease.known.lock().id;
        let own = [put(&name, std::process::id().to_string().as_bytes(), Some(id))];
        let (done, (version, _)) = line.client.swap(&was_changed(&name, 0), &own, &name, forever)?;
        if done {
            return Ok(version);
        }
        // Until the elected coordinator is gone; a broken watch is as good a reason to ask.
        if let Ok(mut watch) = line.client.watch(&name, false, version, forever) {
            while watch.next(forever)?.is_some_and(|events| events.iter().all(|e| e.is_put)) {}
        } else {
            std::thread::sleep(PAUSE);
        }
        if let Some(why) = line.lease.over() {
            return Err(Error::Lost(why));
        }
    }
}

/// Waits to be elected, then watches the job and publishes groups and maps until that is over.
fn reign(
    line: &EtcdTransport,
    controller: &impl Fn() -> Controller,
    report: &impl Fn(&str),
    is_over: &AtomicBool,
) -> Result<()> {
    let by = elected(line)?;
    let (prefix, forever) = (line.cluster.prefix(), Instant::now() + FOREVER);
    // Those whose leases have lapsed with the last keeper's get the time to take others.
    await_members(line)?;
    let (mut revision, all) = line.client.list(&prefix, forever)?;
    let mut kv = Kv::default();
    for p in &all {
        take(&mut kv, &prefix, &p.key, Some(&p.value))?;
    }
    kv.changes();
    let (mut controller, mut changes) = controller().resume(&kv)?;
    let mut acted = view(&kv);
    let mut watch = line.client.watch(&prefix, true, revision, forever)?;
    while !is_over.load(Ordering::Relaxed) {
        // What may be the cluster's own doing is waited for.
        let is_held = line.lease.doubts() && acted.keys().any(|k| kv.get(k).1.is_none());
        if !is_held && !changes.is_empty() {
            let net = without_returned(std::mem::take(&mut changes), &acted, &kv);
            controller.react(&mut kv, &net)?;
            acted = view(&kv);
            let set = kv.changes().into_iter().filter_map(|change| match change {
                KeyEvent::Set(key) => Some(put(&format!("{prefix}{key}"), &kv.get(&key).1?, None)),
                KeyEvent::Gone(_) => None,
            });
            let puts: Vec<_> = set.collect();
            let keeper = line.key(KEEPER);
            if !puts.is_empty() && !line.client.duplicate().swap(&was_changed(&keeper, by), &puts, &keeper, forever)?.0
            {
                return Ok(());
            }
            controller.notes().iter().for_each(|n| report(n));
        }
        let until = if is_held { Instant::now() + 2 * PAUSE } else { forever };
        for e in watch.next(until)?.unwrap_or_default() {
            let Event { pair, is_put } = e;
            revision = revision.max(pair.changed);
            take(&mut kv, &prefix, &pair.key, is_put.then_some(pair.value.as_slice()))?;
        }
        changes.extend(kv.changes());
    }
    Ok(())
}

/// Waits a moment until all members are there that the last coordinator has published.
fn await_members(line: &EtcdTransport) -> Result<()> {
    let (prefix, until) = (line.cluster.prefix(), Instant::now() + line.cluster.ttl);
    loop {
        let mut kv = Kv::default();
        for p in line.client.list(&prefix, Instant::now() + FOREVER)?.1 {
            take(&mut kv, &prefix, &p.key, Some(&p.value))?;
        }
        let (_, gone) = Controller::new(1, 1, 1).resume(&kv)?;
        if !gone.iter().any(|c| matches!(c, KeyEvent::Gone(_))) || Instant::now() >= until {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The processes that are there, by their keys.
fn view(kv: &Kv) -> BTreeMap<String, Vec<u8>> {
    let of = |prefix| kv.list(prefix).into_iter().map(|(k, v)| (k.to_string(), v.to_vec()));
    of("worker/").chain(of("server/")).collect()
}
/// Changes without those of processes that were gone and are back as they were.
fn without_returned(changes: Vec<KeyEvent>, acted: &BTreeMap<String, Vec<u8>>, kv: &Kv) -> Vec<KeyEvent> {
    let has_returned = |key: &str, gone: bool| {
        let now = kv.get(key).1;
        gone && now.is_some() && acted.get(key) == now.as_ref()
    };
    let is_gone = |c: &KeyEvent| if let KeyEvent::Gone(k) = c { Some(k.clone()) } else { None };
    let gone: Vec<Arc<str>> = changes.iter().filter_map(is_gone).collect();
    let keeps = |c: &KeyEvent| match c {
        KeyEvent::Set(k) | KeyEvent::Gone(k) => !has_returned(k, gone.contains(k)),
    };
    changes.into_iter().filter(keeps).collect()
}

/// Repeats a change of the cluster in a kv of this process.
fn take(kv: &mut Kv, prefix: &str, key: &str, value: Option<&[u8]>) -> Result<()> {
    let Some(key) = key.strip_prefix(prefix).filter(|k| !k.starts_with(KEEPER)) else { return Ok(()) };
    let ask = match value {
        // What this process has published itself comes back.
        Some(v) if kv.get(key).1.as_deref() == Some(v) && !is_lease(key) => return Ok(()),
        Some(v) => Request::Set(key, v),
        None => Request::Delete(key),
    };
    kv.handle(Duration::ZERO, 0, 0, ask).map(drop)
}
/// Keys whose being set again means something even if the value is the same.
fn is_lease(key: &str) -> bool {
    key.starts_with("worker/") || key.starts_with("server/")
}
