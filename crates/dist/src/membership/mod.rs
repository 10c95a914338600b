//! Membership: a key-value store with leases ([`kv`]), the [`controller`] that publishes views and maps
//! from it, and a process's session with it, a [`Member`].
//!
//! There are two stores: the embedded one, which the launcher or rank 0 serves and which ends with it,
//! and etcd, which outlives every process of a job. A [`Member`] is the same for both.

pub(crate) mod controller;
pub(crate) mod coordinator;
pub(crate) mod etcd;
pub(crate) mod kv;
pub(crate) mod publisher;
pub mod status;

use crate::membership::controller::Controller;
use crate::membership::coordinator::EmbeddedTransport;
use crate::membership::etcd::{EtcdCoordinator, EtcdTransport};
use crate::membership::kv::{Reply, Request};
use crate::{Error, Result};
use net::{Address, Hello, Secret};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A session with a membership store: requests, replies, and leases that end with it.
pub trait Transport: Send + Sync {
    /// Sends a request and waits for the reply.
    fn call(&self, ask: &Request<'_>, deadline: Instant) -> Result<Reply>;
    /// A second session, for a thread that waits.
    fn duplicate(&self, deadline: Instant) -> Result<Box<dyn Transport>>;
    /// Ends the session and its leases; pending requests fail.
    fn close(&self);
}

/// A process whose lease expired: it sent no heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Worker or server.
    pub role: String,
    /// Its number.
    pub id: u32,
    /// When its session began: a process that was started later is another one.
    pub since: Instant,
}

/// The process that runs the controller, as a launcher sees it.
pub trait Coordinator: Send + Sync {
    /// Keys that start with `prefix`, with their values.
    fn list(&self, prefix: &str) -> Vec<(String, Vec<u8>)>;
    /// The value of a key.
    fn get(&self, key: &str) -> Option<Vec<u8>>;
    /// What is read next is as new as this call.
    fn refresh(&self) {}
    /// Sets a key.
    fn set(&self, key: &str, value: &[u8]) -> Result<()>;
    /// A worker will not come back, perhaps because it is done.
    fn left(&self, rank: u32, is_done: bool) -> Result<()>;
    /// Processes whose leases have expired since the last call.
    fn expired(&self) -> Vec<Expired>;
    /// The job is over.
    fn end(&self);
}

/// Takes part in the election of the coordinator, where no process of the job is it by itself. `None` for the
/// embedded store, which has one already.
pub fn coordinate(
    at: &Endpoint,
    controller: impl Fn() -> Controller + Send + Sync + 'static,
    report: impl Fn(&str) + Send + Sync + 'static,
    deadline: Instant,
) -> Result<Option<Arc<dyn Coordinator>>> {
    match at {
        Endpoint::Embedded(_) => Ok(None),
        Endpoint::Etcd(c) => Ok(Some(Arc::new(EtcdCoordinator::start(c, controller, report, deadline)?))),
    }
}

/// Where the membership store is.
///
/// ```
/// # use talweg_dist::Endpoint;
/// let m: Endpoint = "etcd://127.0.0.1:2379,127.0.0.2:2379/night?ttl=3".parse().unwrap();
/// assert_eq!(m.to_string(), "etcd://127.0.0.1:2379,127.0.0.2:2379/night?ttl=3");
/// assert_eq!("127.0.0.1:80".parse::<Endpoint>().unwrap().to_string(), "127.0.0.1:80");
/// assert!("etcd://".parse::<Endpoint>().is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A process of the job serves it there.
    Embedded(Address),
    /// It is in an etcd cluster.
    Etcd(Cluster),
}

/// An etcd cluster, and the part of it that a job uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cluster {
    /// `host:port` of its members.
    pub endpoints: Vec<String>,
    /// Name of the job; its keys begin with `talweg/NAME/`.
    pub job: String,
    /// How long a lease lasts without a heartbeat.
    pub ttl: Duration,
}

impl FromStr for Endpoint {
    type Err = Error;
    fn from_str(s: &str) -> Result<Endpoint> {
        let Some(rest) = s.strip_prefix("etcd://") else { return Ok(Endpoint::Embedded(s.parse()?)) };
        let bad = || Error::value(format!("etcd://HOST:PORT[,HOST:PORT…]/JOB[?ttl=SECONDS] is expected, not {s:?}"));
        let (rest, ttl) = match rest.split_once("?ttl=") {
            Some((rest, ttl)) => (rest, ttl.parse().ok().filter(|t| *t > 0).ok_or_else(bad)?),
            None => (rest, crate::LEASE_TIMEOUT.as_secs()),
        };
        let (hosts, job) = rest.split_once('/').ok_or_else(bad)?;
        let endpoints: Vec<String> = hosts.split(',').map(str::to_string).collect();
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if endpoints.iter().any(|e| !e.contains(':')) || job.is_empty() || !job.chars().all(is_name) {
            return Err(bad());
        }
        Ok(Endpoint::Etcd(Cluster { endpoints, job: job.to_string(), ttl: Duration::from_secs(ttl) }))
    }
}
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Embedded(a) => a.fmt(f),
            Endpoint::Etcd(c) => write!(f, "etcd://{}/{}?ttl={}", c.endpoints.join(","), c.job, c.ttl.as_secs()),
        }
    }
}
impl From<&Address> for Endpoint {
    fn from(a: &Address) -> Endpoint {
        Endpoint::Embedded(a.clone())
    }
}
impl From<&Endpoint> for Endpoint {
    fn from(m: &Endpoint) -> Endpoint {
        m.clone()
    }
}
impl Endpoint {
    /// An address of it, to choose the interface that leads there.
    pub fn address(&self) -> Result<Address> {
        match self {
            Endpoint::Embedded(a) => Ok(a.clone()),
            Endpoint::Etcd(c) => Ok(c.endpoints[0].parse()?),
        }
    }
    /// Whether a job of this name runs there.
    pub fn is_running(&self, deadline: Instant) -> Result<bool> {
        match self {
            Endpoint::Embedded(_) => Ok(false),
            Endpoint::Etcd(c) => c.is_running(deadline),
        }
    }
    /// Forgets what an earlier job of this name has left behind; an error if it still runs.
    pub fn begin(&self, deadline: Instant) -> Result<()> {
        match self {
            Endpoint::Embedded(_) => Ok(()),
            Endpoint::Etcd(c) => c.begin(deadline),
        }
    }
}

/// A process's session with the membership store.
pub struct Member(Box<dyn Transport>);

impl Member {
    /// Opens a session and keeps its lease alive with heartbeats.
    pub fn connect(
        at: impl Into<Endpoint>,
        hello: &Hello,
        secret: Option<Secret>,
        deadline: Instant,
    ) -> Result<Member> {
        Ok(Member(match at.into() {
            Endpoint::Embedded(a) => Box::new(EmbeddedTransport::connect(&a, hello, secret, deadline)?),
            Endpoint::Etcd(c) => Box::new(EtcdTransport::connect(&c, deadline)?),
        }))
    }
    /// The value of a key, with its version.
    pub fn get(&self, key: &str, deadline: Instant) -> Result<(u64, Option<Vec<u8>>)> {
        self.0.call(&Request::Get(key), deadline)
    }
    /// Sets a key.
    pub fn set(&self, key: &str, value: &[u8], deadline: Instant) -> Result<()> {
        self.0.call(&Request::Set(key, value), deadline).map(|_| ())
    }
    /// Sets a key that vanishes with this session's lease.
    pub fn lease(&self, key: &str, value: &[u8], deadline: Instant) -> Result<()> {
        self.0.call(&Request::Lease(key, value), deadline).map(|_| ())
    }
    /// Adds to a number and returns the sum.
    pub fn add(&self, key: &str, n: i64, deadline: Instant) -> Result<i64> {
        let (_, value) = self.0.call(&Request::Add(key, n), deadline)?;
        let text = value.and_then(|v| String::from_utf8(v).ok());
        text.and_then(|t| t.parse().ok()).ok_or_else(|| Error::refused(format!("{key} is not a number")))
    }
    /// Sets a key if it has the expected value; returns the value it has then.
    pub fn compare_set(
        &self,
        key: &str,
        expected: Option<&[u8]>,
        value: &[u8],
        deadline: Instant,
    ) -> Result<Option<Vec<u8>>> {
        Ok(self.0.call(&Request::CompareSet(key, expected, value), deadline)?.1)
    }
    /// Removes a key.
    pub fn delete(&self, key: &str, deadline: Instant) -> Result<()> {
        self.0.call(&Request::Delete(key), deadline).map(|_| ())
    }
    /// The value of a key, once it is newer than `after`.
    pub fn wait(&self, key: &str, after: u64, deadline: Instant) -> Result<(u64, Vec<u8>)> {
        match self.0.call(&Request::Wait(key, after), deadline)? {
            (version, Some(value)) => Ok((version, value)),
            _ => Err(Error::refused(format!("{key} was answered without a value"))),
        }
    }
    /// A second session, for a thread that waits.
    pub fn duplicate(&self, deadline: Instant) -> Result<Member> {
        self.0.duplicate(deadline).map(Member)
    }
    /// Ends the session; pending requests fail.
    pub fn close(&self) {
        self.0.close();
    }
}
impl Drop for Member {
    fn drop(&mut self) {
        self.close();
    }
}
