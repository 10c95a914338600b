//! The membership store in an etcd cluster, where it outlives every process of the job.
//!
//! Keys are `talweg/JOB/…`, versions are etcd's revisions, leases are etcd's leases. Whoever is
//! elected among the job's processes does what the embedded coordinator does: it runs the
//! [`Roster`] on what it sees and publishes groups and maps. What it writes counts only while it
//! is elected, so that the epoch has one writer at a time; when it dies another takes over from
//! what is published. etcd may be away for a while: calls wait for it until their deadline.

use crate::membership::{Center, Cluster, Hung, Membership};
use crate::registry::{Answer, Ask, Change, Registry};
use crate::roster::{Roster, left_key, left_value};
use crate::{Error, Result};
use etcd_client::{
    Client, Compare, CompareOp, DeleteOptions, EventType, GetOptions, GetResponse, PutOptions, Txn, TxnOp,
    TxnOpResponse, WatchOptions,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// Between two attempts to reach a cluster that does not answer.
const PAUSE: Duration = Duration::from_millis(100);
/// A cluster that was away for so long is given up.
const AWAY_MAX: Duration = Duration::from_secs(60);
/// How old may be what a launcher shows.
const LOOK: Duration = Duration::from_millis(250);
/// Name of the election, and the prefix of the candidates' keys.
const KEEPER: &str = "keeper";

type Asked<T> = std::result::Result<T, etcd_client::Error>;

fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<std::result::Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("etcd")
            .enable_all()
            .build()
            .map_err(|e| format!("starting the client of etcd: {e}"))
    });
    made.as_ref().map_err(|e| Error::value(e.clone()))
}
/// Runs to the end, or to the deadline.
fn run<T>(doing: &str, deadline: Instant, f: impl Future<Output = Result<T>>) -> Result<T> {
    let late = || Error::Deadline(format!("{doing} in etcd"));
    runtime()?.block_on(async {
        let timed = tokio::time::timeout_at(deadline.into(), f).await;
        timed.unwrap_or_else(|_| Err(late()))
    })
}
fn failed(e: etcd_client::Error) -> Error {
    Error::Lost(format!("etcd: {e}"))
}
/// Tries again while the cluster does not answer.
async fn patiently<T, F: Future<Output = Asked<T>>>(mut f: impl FnMut() -> F) -> Result<T> {
    loop {
        match f().await {
            Ok(t) => return Ok(t),
            Err(e) if is_away(&e) => tokio::time::sleep(PAUSE).await,
            Err(e) => return Err(failed(e)),
        }
    }
}
/// True if the cluster cannot be reached or has no leader now, as opposed to having said no.
fn is_away(e: &etcd_client::Error) -> bool {
    match e {
        etcd_client::Error::GRpcStatus(s) => {
            let text = s.to_string().to_lowercase();
            ["unavailable", "transport", "leader", "unknown", "timed out", "cancel"].iter().any(|w| text.contains(w))
                && !text.contains("lease not found")
        }
        etcd_client::Error::TransportError(_) | etcd_client::Error::IoError(_) => true,
        etcd_client::Error::WatchError(_) | etcd_client::Error::LeaseKeepAliveError(_) => true,
        _ => false,
    }
}

impl Cluster {
    fn prefix(&self) -> String {
        format!("talweg/{}/", self.job)
    }
    async fn client(&self) -> Result<Client> {
        patiently(|| Client::connect(&self.endpoints, None)).await
    }
    /// Whether somebody stands for election in a job of this name.
    pub fn is_running(&self, deadline: Instant) -> Result<bool> {
        run("looking for a job", deadline, async {
            let c = self.client().await?;
            let keeper = self.prefix() + KEEPER;
            let only = || Some(GetOptions::new().with_prefix().with_count_only());
            let found = patiently(|| {
                let mut kv = c.kv_client();
                let keeper = keeper.clone();
                async move { kv.get(keeper, only()).await }
            });
            Ok(found.await?.count() > 0)
        })
    }
    /// Forgets what an earlier job of this name has left behind; an error if it still runs.
    pub fn begin(&self, deadline: Instant) -> Result<()> {
        if self.is_running(deadline)? {
            return Err(Error::value(format!("a job {:?} is running: choose another name", self.job)));
        }
        run("beginning a job", deadline, async { self.forget(&mut self.client().await?).await })
    }
    /// Removes everything of this job.
    pub fn end(&self, deadline: Instant) -> Result<()> {
        run("ending a job", deadline, async { self.forget(&mut self.client().await?).await })
    }
    async fn forget(&self, c: &mut Client) -> Result<()> {
        c.delete(self.prefix(), Some(DeleteOptions::new().with_prefix())).await.map(drop).map_err(failed)
    }
}

/// A lease, and whoever waits for its end: the text says why it ended.
struct Lease {
    id: i64,
    over: watch::Sender<Option<String>>,
}

impl Lease {
    async fn take(c: &Client, ttl: Duration) -> Result<Arc<Lease>> {
        let granted = patiently(|| c.lease_client().grant_owned(ttl)).await?;
        let lease = Arc::new(Lease { id: granted, over: watch::Sender::new(None) });
        let (weak, mut client) = (Arc::downgrade(&lease), c.clone());
        let mut over = lease.over.subscribe();
        tokio::spawn(async move {
            let id = granted;
            let why = tokio::select! {
                why = beat(&mut client, id, ttl) => why,
                _ = over.wait_for(Option::is_some) => String::new(),
            };
            if let Some(lease) = weak.upgrade() {
                lease.over.send_if_modified(|o| o.is_none() && o.replace(why).is_none());
            }
            // Whoever hears of it sooner than the lease would lapse need not wait for that.
            let _ = tokio::time::timeout(ttl, client.lease_revoke(id)).await;
        });
        Ok(lease)
    }
    fn end(&self, why: &str) {
        self.over.send_if_modified(|o| o.is_none() && o.replace(why.to_string()).is_none());
    }
}
impl Drop for Lease {
    fn drop(&mut self) {
        self.end("it is not used any more");
    }
}

/// Keeps a lease alive; answers why it is over.
async fn beat(c: &mut Client, id: i64, ttl: Duration) -> String {
    let mut heard = Instant::now();
    loop {
        let beating: Asked<()> = async {
            let (mut keeper, mut answers) = c.lease_keep_alive(id).await?;
            loop {
                keeper.keep_alive().await?;
                match tokio::time::timeout(ttl, answers.message()).await {
                    Ok(Ok(Some(a))) if a.ttl() > 0 => heard = Instant::now(),
                    Ok(Ok(Some(_))) => return Ok(()),
                    Ok(Err(e)) => return Err(e),
                    // The stream is over, or silent: open another.
                    Ok(Ok(None)) | Err(_) => return Err(etcd_client::Error::LeaseKeepAliveError(String::new())),
                }
                tokio::time::sleep(ttl / 5).await;
            }
        }
        .await;
        match beating {
            Ok(()) => return "etcd has taken this process for dead".to_string(),
            Err(e) if heard.elapsed() > AWAY_MAX || !is_away(&e) => return format!("etcd: {e}"),
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Grants without borrowing the client, so that it can be tried again.
trait Grant {
    fn grant_owned(self, ttl: Duration) -> impl Future<Output = Asked<i64>>;
}
impl Grant for etcd_client::LeaseClient {
    async fn grant_owned(mut self, ttl: Duration) -> Asked<i64> {
        Ok(self.grant(ttl.as_secs().max(1) as i64, None).await?.id())
    }
}

/// A process's line to the cluster, with a lease of its own.
pub(crate) struct Line {
    cluster: Cluster,
    client: Client,
    lease: Arc<Lease>,
}

impl Line {
    pub fn connect(cluster: &Cluster, deadline: Instant) -> Result<Line> {
        run("connecting", deadline, async {
            let client = cluster.client().await?;
            let lease = Lease::take(&client, cluster.ttl).await?;
            Ok(Line { cluster: cluster.clone(), client, lease })
        })
    }
    fn key(&self, key: &str) -> String {
        self.cluster.prefix() + key
    }
    async fn ask(&self, ask: &Ask<'_>) -> Asked<Answer> {
        let mut c = self.client.clone();
        match ask {
            Ask::Beat => Ok((0, None)),
            Ask::Get(key) => Ok(first(&c.get(self.key(key), None).await?)),
            Ask::Wait(key, after) => wait(c, self.key(key), *after).await,
            Ask::Set(key, value) => {
                let done = c.put(self.key(key), *value, None).await?;
                Ok((revision(done.header()), None))
            }
            Ask::Lease(key, value) => {
                let leased = PutOptions::new().with_lease(self.lease.id);
                let done = c.put(self.key(key), *value, Some(leased)).await?;
                Ok((revision(done.header()), None))
            }
            Ask::Delete(key) => {
                let done = c.delete(self.key(key), None).await?;
                Ok((revision(done.header()), None))
            }
            Ask::CompareSet(key, expected, value) => {
                let key = self.key(key);
                let is = match expected {
                    Some(e) => Compare::value(key.clone(), CompareOp::Equal, *e),
                    None => Compare::version(key.clone(), CompareOp::Equal, 0),
                };
                swap(&mut c, key, is, value.to_vec()).await.map(|(_, now)| now)
            }
            Ask::Add(key, n) => loop {
                let key = self.key(key);
                let found = c.get(key.clone(), None).await?;
                let (version, old) = first(&found);
                let number = old.as_deref().and_then(|v| std::str::from_utf8(v).ok()?.parse::<i64>().ok()).unwrap_or(0);
                let is = match old {
                    Some(_) => Compare::mod_revision(key.clone(), CompareOp::Equal, version as i64),
                    None => Compare::version(key.clone(), CompareOp::Equal, 0),
                };
                let sum = number.wrapping_add(*n).to_string().into_bytes();
                if let (true, now) = swap(&mut c, key, is, sum).await? {
                    return Ok(now);
                }
            },
        }
    }
}

impl Membership for Line {
    fn call(&self, ask: &Ask<'_>, deadline: Instant) -> Result<Answer> {
        let mut over = self.lease.over.subscribe();
        run("asking", deadline, async {
            tokio::select! {
                why = over.wait_for(Option::is_some) => {
                    let why = why.ok().and_then(|w| (*w).clone()).unwrap_or_default();
                    Err(Error::Lost(format!("the line to the membership store has ended: {why}")))
                }
                done = patiently(|| self.ask(ask)) => done,
            }
        })
    }
    fn another(&self, deadline: Instant) -> Result<Box<dyn Membership>> {
        Ok(Box::new(Line::connect(&self.cluster, deadline)?))
    }
    fn close(&self) {
        self.lease.end("it was closed");
    }
}

fn revision(h: Option<&etcd_client::ResponseHeader>) -> u64 {
    h.map_or(0, |h| h.revision() as u64)
}
fn first(found: &GetResponse) -> Answer {
    match found.kvs().first() {
        Some(kv) => (kv.mod_revision() as u64, Some(kv.value().to_vec())),
        None => (revision(found.header()), None),
    }
}
/// Sets a key if the comparison holds; answers whether it did, and the value now.
async fn swap(c: &mut Client, key: String, is: Compare, value: Vec<u8>) -> Asked<(bool, Answer)> {
    let txn = Txn::new()
        .when([is])
        .and_then([TxnOp::put(key.clone(), value, None), TxnOp::get(key.clone(), None)])
        .or_else([TxnOp::get(key, None)]);
    let done = c.txn(txn).await?;
    let found = done.op_responses().into_iter().find_map(|r| match r {
        TxnOpResponse::Get(g) => Some(first(&g)),
        _ => None,
    });
    Ok((done.succeeded(), found.unwrap_or_default()))
}
/// Waits until a key is newer than `after`.
async fn wait(mut c: Client, key: String, after: u64) -> Asked<Answer> {
    let found = c.get(key.clone(), None).await?;
    let (version, value) = first(&found);
    if value.is_some() && version > after {
        return Ok((version, value));
    }
    let from = WatchOptions::new().with_start_revision(revision(found.header()) as i64 + 1);
    let mut events = c.watch(key, Some(from)).await?;
    while let Some(response) = events.message().await? {
        for e in response.events() {
            if let (EventType::Put, Some(kv)) = (e.event_type(), e.kv()) {
                return Ok((kv.mod_revision() as u64, Some(kv.value().to_vec())));
            }
        }
        if response.canceled() {
            break;
        }
    }
    Err(etcd_client::Error::WatchError("the watch has ended".to_string()))
}

/// Stands for election in this process, and does the coordinator's work when it is elected.
pub struct Keeper {
    line: Line,
    task: tokio::task::JoinHandle<()>,
    seen: Mutex<Seen>,
}

/// What was seen of the job when it was last looked at.
#[derive(Default)]
struct Seen {
    looked: Option<Instant>,
    keys: BTreeMap<String, Vec<u8>>,
    /// When each process's key was last there.
    alive: BTreeMap<String, Instant>,
}

impl Keeper {
    /// From now on this process is a candidate. `roster` is made anew at each election; `report`
    /// hears what happens while this process is elected.
    pub fn start(
        cluster: &Cluster,
        roster: impl Fn() -> Roster + Send + Sync + 'static,
        report: impl Fn(&str) + Send + Sync + 'static,
        deadline: Instant,
    ) -> Result<Keeper> {
        let line = Line::connect(cluster, deadline)?;
        let cluster = cluster.clone();
        let task = runtime()?.spawn(async move {
            loop {
                // Not elected any more, or the cluster is away: stand again.
                if let Err(Error::Refused(e)) = reign(&cluster, &roster, &report).await {
                    report(&e);
                }
                tokio::time::sleep(PAUSE).await;
            }
        });
        Ok(Keeper { line, task, seen: Mutex::default() })
    }
    /// Looks at the job's keys again if it is time.
    fn look(&self) -> parking_lot::MutexGuard<'_, Seen> {
        let mut seen = self.seen.lock();
        if seen.looked.is_some_and(|at| at.elapsed() < LOOK) {
            return seen;
        }
        let ttl = self.line.cluster.ttl;
        let all = run("listing keys", Instant::now() + ttl, async {
            let mut c = self.line.client.clone();
            c.get(self.line.cluster.prefix(), Some(GetOptions::new().with_prefix())).await.map_err(failed)
        });
        let now = Instant::now();
        seen.looked = Some(now);
        match all {
            Ok(all) => {
                let own = self.line.cluster.prefix();
                let named = |kv: &etcd_client::KeyValue| {
                    Some((kv.key_str().ok()?.strip_prefix(&own)?.to_string(), kv.value().to_vec()))
                };
                seen.keys = all.kvs().iter().filter_map(named).collect();
                let Seen { keys, alive, .. } = &mut *seen;
                let owned = keys.keys().filter(|k| role(k).is_some());
                alive.extend(owned.map(|k| (k.clone(), now)));
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

impl Center for Keeper {
    fn list(&self, prefix: &str) -> Vec<(String, Vec<u8>)> {
        let seen = self.look();
        let from = seen.keys.range(prefix.to_string()..);
        from.take_while(|(k, _)| k.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone())).collect()
    }
    fn get(&self, key: &str) -> Option<Vec<u8>> {
        self.look().keys.get(key).cloned()
    }
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        self.line.call(&Ask::Set(key, value), Instant::now() + AWAY_MAX).map(drop)
    }
    fn left(&self, rank: u32, is_done: bool) -> Result<()> {
        self.set(&left_key(rank), &left_value(is_done))
    }
    fn hung(&self) -> Vec<Hung> {
        let (mut seen, ttl) = (self.look(), self.line.cluster.ttl);
        let gone: Vec<(String, Instant)> =
            seen.alive.iter().filter(|(_, at)| at.elapsed() > ttl).map(|(k, at)| (k.clone(), *at)).collect();
        seen.alive.retain(|_, at| at.elapsed() <= ttl);
        let named = gone.iter().filter_map(|(k, at)| role(k).map(|(role, id)| (role, id, *at)));
        named.map(|(role, id, since)| Hung { role: role.to_string(), id, since }).collect()
    }
    fn end(&self) {
        // A cluster that is away keeps some keys for longer; the next job of this name removes them.
        let _ = self.line.cluster.end(Instant::now() + self.line.cluster.ttl);
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Waits to be elected, then watches the job and publishes groups and maps until that is over.
async fn reign(cluster: &Cluster, roster: &impl Fn() -> Roster, report: &impl Fn(&str)) -> Result<()> {
    let mut c = cluster.client().await?;
    let lease = Lease::take(&c, cluster.ttl).await?;
    let name = cluster.prefix() + KEEPER;
    let mut elected = c.campaign(name, std::process::id().to_string(), lease.id).await.map_err(failed)?;
    let leader = elected.take_leader().ok_or_else(|| Error::refused("etcd has elected nobody"))?;
    let is_elected = || Compare::create_revision(leader.key(), CompareOp::Equal, leader.rev());
    let prefix = cluster.prefix();
    let all = c.get(prefix.clone(), Some(GetOptions::new().with_prefix())).await.map_err(failed)?;
    let mut registry = Registry::default();
    for kv in all.kvs() {
        take(&mut registry, &prefix, kv.key(), Some(kv.value()))?;
    }
    registry.changes();
    let (mut roster, mut changes) = roster().resume(&registry)?;
    let from = WatchOptions::new().with_prefix().with_start_revision(revision(all.header()) as i64 + 1);
    let mut events = c.watch(prefix.clone(), Some(from)).await.map_err(failed)?;
    loop {
        roster.react(&mut registry, &changes)?;
        let published = registry.changes().into_iter().filter_map(|change| match change {
            Change::Set(key) => Some(TxnOp::put(format!("{prefix}{key}"), registry.get(&key).1?, None)),
            Change::Gone(_) => None,
        });
        let published: Vec<TxnOp> = published.collect();
        if !published.is_empty() {
            let done = c.txn(Txn::new().when([is_elected()]).and_then(published)).await.map_err(failed)?;
            if !done.succeeded() {
                return Ok(());
            }
        }
        roster.notes().iter().for_each(|n| report(n));
        let Some(response) = events.message().await.map_err(failed)? else { return Ok(()) };
        if response.canceled() {
            return Ok(());
        }
        for e in response.events() {
            let Some(kv) = e.kv() else { continue };
            let value = (e.event_type() == EventType::Put).then(|| kv.value());
            take(&mut registry, &prefix, kv.key(), value)?;
        }
        changes = registry.changes();
    }
}

/// Repeats a change of the cluster in a registry of this process.
fn take(registry: &mut Registry, prefix: &str, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let key = std::str::from_utf8(key).ok().and_then(|k| k.strip_prefix(prefix));
    let Some(key) = key.filter(|k| !k.starts_with(KEEPER)) else { return Ok(()) };
    let ask = match value {
        // What this process has published itself comes back.
        Some(v) if registry.get(key).1.as_deref() == Some(v) && !is_lease(key) => return Ok(()),
        Some(v) => Ask::Set(key, v),
        None => Ask::Delete(key),
    };
    registry.handle(Duration::ZERO, 0, 0, ask).map(drop)
}
/// Keys whose being set anew means something even if the value is the same.
fn is_lease(key: &str) -> bool {
    key.starts_with("worker/") || key.starts_with("server/")
}
