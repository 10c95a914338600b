//! What the membership store needs of etcd's API (version 3, through its JSON gateway): keys with
//! revisions, transactions, leases and watches. A cluster that is away is waited for until the
//! deadline; members are tried in turn.

use super::http::{Access, Http};
use crate::membership::kv::Reply;
use crate::{Error, Result};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Between two attempts to reach a cluster that does not answer.
pub(crate) const PAUSE: Duration = Duration::from_millis(100);
/// How long a member may take to answer one request before another is asked.
const ATTEMPT: Duration = Duration::from_secs(5);

/// A key, its value and when it was made and last changed.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub key: String,
    pub value: Vec<u8>,
    pub changed: u64,
}

/// Why a request was not carried out.
enum Refusal {
    /// The cluster cannot be reached or has no leader now: it may be tried again.
    Away(String),
    /// The token has expired.
    Token,
    /// The cluster has said no.
    No(String),
}

/// A connection that is made again when it is lost. Requests wait for each other.
pub(crate) struct Client {
    endpoints: Vec<String>,
    access: Access,
    state: Mutex<State>,
    /// End what waits: for an answer, and on a watch.
    handles: Mutex<[Option<TcpStream>; 2]>,
    is_closed: AtomicBool,
}
#[derive(Default)]
struct State {
    http: Option<Http>,
    token: String,
    /// Which member is asked.
    at: usize,
}

impl Client {
    pub fn new(endpoints: &[String], access: &Access) -> Client {
        Client {
            endpoints: endpoints.to_vec(),
            access: access.clone(),
            state: Mutex::default(),
            handles: Mutex::default(),
            is_closed: AtomicBool::new(false),
        }
    }
    /// Another connection to the same cluster.
    pub fn duplicate(&self) -> Client {
        Client::new(&self.endpoints, &self.access)
    }
    /// Ends what waits, now and later.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        self.handles.lock().iter().flatten().for_each(|s| drop(s.shutdown(Shutdown::Both)));
    }
    fn check(&self, deadline: Instant, last: &str) -> Result<()> {
        if self.is_closed.load(Ordering::Relaxed) {
            return Err(Error::Lost("the line to etcd was closed".to_string()));
        }
        if Instant::now() >= deadline {
            let why = if last.is_empty() { String::new() } else { format!(" ({last})") };
            return Err(Error::Deadline(format!("waiting for etcd{why}")));
        }
        Ok(())
    }

    /// Asks, again and again while the cluster is away.
    pub fn ask(&self, path: &str, body: &Value, deadline: Instant) -> Result<Value> {
        let busy = || Error::Deadline("waiting for another thread's question to etcd".to_string());
        let mut state = self.state.try_lock_until(deadline).ok_or_else(busy)?;
        let (body, mut last) = (body.to_string(), String::new());
        loop {
            self.check(deadline, &last)?;
            match self.attempt(&mut state, path, &body, deadline.min(Instant::now() + ATTEMPT)) {
                Ok(answer) => return Ok(answer),
                Err(Refusal::No(why)) => return Err(Error::Lost(format!("etcd: {why}"))),
                Err(Refusal::Token) => state.token.clear(),
                Err(Refusal::Away(why)) => {
                    last = why;
                    (state.http, state.at) = (None, state.at + 1);
                    std::thread::sleep(PAUSE.min(deadline.saturating_duration_since(Instant::now())));
                }
            }
        }
    }
    fn attempt(
        &self,
        state: &mut State,
        path: &str,
        body: &str,
        deadline: Instant,
    ) -> std::result::Result<Value, Refusal> {
        self.connect(state, deadline)?;
        let Some(http) = &mut state.http else { return Err(Refusal::Away("no connection".to_string())) };
        let answer = http.ask(path, &state.token, body, deadline).map_err(away)?;
        judge(answer.status, &answer.body)
    }
    /// Makes a connection and gets a token, unless there are both.
    fn connect(&self, state: &mut State, deadline: Instant) -> std::result::Result<(), Refusal> {
        if state.http.is_none() {
            let member = &self.endpoints[state.at % self.endpoints.len()];
            let http = Http::connect(member, &self.access, deadline);
            let http = http.map_err(|e| Refusal::Away(format!("{member}: {e}")))?;
            self.handles.lock()[0] = http.handle().ok();
            state.http = Some(http);
        }
        if let (Some((name, password)), true, Some(http)) = (&self.access.user, state.token.is_empty(), &mut state.http)
        {
            let body = json!({ "name": name, "password": password }).to_string();
            let answer = http.ask("/v3/auth/authenticate", "", &body, deadline).map_err(away)?;
            let token = judge(answer.status, &answer.body).map_err(|e| match e {
                Refusal::Token => Refusal::No("the user and password are not accepted".to_string()),
                e => e,
            })?;
            state.token = token["token"].as_str().unwrap_or_default().to_string();
        }
        Ok(())
    }

    /// A key's value with the revision of its last change; of one that is not there, the store's.
    pub fn get(&self, key: &str, deadline: Instant) -> Result<Reply> {
        let found = self.ask("/v3/kv/range", &json!({ "key": encode(key.as_bytes()) }), deadline)?;
        Ok(first(&found))
    }
    /// Everything that begins with a prefix, and the revision.
    pub fn list(&self, prefix: &str, deadline: Instant) -> Result<(u64, Vec<Pair>)> {
        let found = self.ask("/v3/kv/range", &range(prefix), deadline)?;
        let pairs = found["kvs"].as_array().into_iter().flatten().filter_map(pair);
        Ok((revision(&found), pairs.collect()))
    }
    pub fn put(&self, key: &str, value: &[u8], lease: Option<i64>, deadline: Instant) -> Result<Reply> {
        Ok((revision(&self.ask("/v3/kv/put", &put(key, value, lease), deadline)?), None))
    }
    pub fn delete(&self, key: &str, deadline: Instant) -> Result<Reply> {
        let done = self.ask("/v3/kv/deleterange", &json!({ "key": encode(key.as_bytes()) }), deadline)?;
        Ok((revision(&done), None))
    }
    pub fn delete_all(&self, prefix: &str, deadline: Instant) -> Result<()> {
        self.ask("/v3/kv/deleterange", &range(prefix), deadline).map(drop)
    }
    /// Puts if the comparison holds; returns whether it did, and the value of the first key then.
    pub fn swap(&self, is: &Value, puts: &[Value], key: &str, deadline: Instant) -> Result<(bool, Reply)> {
        let get = json!({ "request_range": { "key": encode(key.as_bytes()) } });
        let mut success: Vec<Value> = puts.iter().map(|p| json!({ "request_put": p })).collect();
        success.push(get.clone());
        let body = json!({ "compare": [is], "success": success, "failure": [get] });
        let done = self.ask("/v3/kv/txn", &body, deadline)?;
        let found = done["responses"].as_array().into_iter().flatten().find(|r| r.get("response_range").is_some());
        let found = found.map_or((0, None), |r| first(&r["response_range"]));
        let found = if found.0 == 0 { (revision(&done), found.1) } else { found };
        Ok((done["succeeded"].as_bool().unwrap_or(false), found))
    }
    /// A lease for this many seconds.
    pub fn grant(&self, ttl: Duration, deadline: Instant) -> Result<i64> {
        let granted = self.ask("/v3/lease/grant", &json!({ "TTL": ttl.as_secs().max(1).to_string() }), deadline)?;
        let id = granted["ID"].as_str().and_then(|id| id.parse().ok());
        id.ok_or_else(|| Error::refused(format!("etcd has granted {granted}")))
    }
    /// Keeps a lease alive; false if there is none any more.
    pub fn keep_alive(&self, lease: i64, deadline: Instant) -> Result<bool> {
        let kept = self.ask("/v3/lease/keepalive", &json!({ "ID": lease.to_string() }), deadline)?;
        let ttl = kept["result"]["TTL"].as_str().and_then(|t| t.parse::<i64>().ok());
        Ok(ttl.is_some_and(|t| t > 0))
    }
    pub fn revoke(&self, lease: i64, deadline: Instant) -> Result<()> {
        self.ask("/v3/lease/revoke", &json!({ "ID": lease.to_string() }), deadline).map(drop)
    }
    /// Changes of what begins with a prefix, or of a key alone, after a revision.
    pub fn watch(&self, key: &str, is_prefix: bool, after: u64, deadline: Instant) -> Result<Watching<'_>> {
        let mut create = if is_prefix { range(key) } else { json!({ "key": encode(key.as_bytes()) }) };
        create["start_revision"] = (after + 1).to_string().into();
        let body = json!({ "create_request": create }).to_string();
        let busy = || Error::Deadline("waiting for another thread's question to etcd".to_string());
        let mut state = self.state.try_lock_until(deadline).ok_or_else(busy)?;
        let failed = |why: String| Error::Net(net::Error::Gone(format!("etcd: {why}")));
        // On a separate connection: it ends with the watch.
        state.http = None;
        let soon = deadline.min(Instant::now() + ATTEMPT);
        let opened = self.connect(&mut state, soon).and_then(|()| {
            let State { http: Some(http), token, .. } = &mut *state else {
                return Err(Refusal::Away(String::new()));
            };
            let status = http.open("/v3/watch", token, &body, soon).map_err(away)?;
            if status == 200 { Ok(()) } else { judge(status, "").map(drop) }
        });
        if let Err(e) = opened {
            state.http = None;
            state.at += 1;
            return match e {
                Refusal::Away(why) => Err(failed(why)),
                Refusal::Token => {
                    state.token.clear();
                    Err(failed("the token has expired".to_string()))
                }
                Refusal::No(why) => Err(Error::Lost(format!("etcd: {why}"))),
            };
        }
        let http = state.http.take();
        drop(state);
        let mut handles = self.handles.lock();
        handles[1] = handles[0].take();
        drop(handles);
        self.check(deadline, "")?;
        Ok(Watching { client: self, http, line: Vec::new() })
    }
}

/// A key that was set, or is gone.
pub(crate) struct Event {
    pub pair: Pair,
    pub is_put: bool,
}

/// A watch that is open.
pub(crate) struct Watching<'a> {
    client: &'a Client,
    http: Option<Http>,
    line: Vec<u8>,
}
impl Watching<'_> {
    /// The next changes; `None` if there are none by then. A watch that has ended is an error.
    pub fn next(&mut self, deadline: Instant) -> Result<Option<Vec<Event>>> {
        let gone = |why: String| Error::Net(net::Error::Gone(format!("etcd: {why}")));
        let Some(http) = &mut self.http else { return Err(gone("the watch has ended".to_string())) };
        loop {
            let text = match http.line(&mut self.line, deadline) {
                Ok(text) => text,
                Err(e) if e.kind() == io::ErrorKind::TimedOut => return Ok(None),
                Err(e) => {
                    self.client.check(deadline, "")?;
                    return Err(gone(e.to_string()));
                }
            };
            let said: Value = serde_json::from_str(&text).map_err(|e| gone(e.to_string()))?;
            let result = &said["result"];
            if !result.is_object() || result["canceled"].as_bool() == Some(true) {
                return Err(gone(format!("the watch has ended: {}", said["error"]["message"])));
            }
            let event = |e: &Value| Some(Event { pair: pair(&e["kv"])?, is_put: e["type"].as_str() != Some("DELETE") });
            let events: Vec<Event> = result["events"].as_array().into_iter().flatten().filter_map(event).collect();
            if !events.is_empty() {
                return Ok(Some(events));
            }
        }
    }
}

fn away(e: io::Error) -> Refusal {
    Refusal::Away(e.to_string())
}
/// Tells an answer from a refusal.
fn judge(status: u16, body: &str) -> std::result::Result<Value, Refusal> {
    let said: Value = serde_json::from_str(body).unwrap_or(Value::Null);
    if status == 200 && said.get("error").is_none() {
        return Ok(said);
    }
    let error = if said["error"].is_object() { &said["error"] } else { &said };
    let text = error["message"].as_str().or(error["error"].as_str()).unwrap_or(body).to_string();
    // Codes of gRPC: 16 is unauthenticated, 14 unavailable, 4 too late, 1 canceled.
    let code = error["code"].as_u64().or(error["grpc_code"].as_u64());
    let is_away = ["leader", "timed out", "unavailable", "transport", "canceled"].iter().any(|w| text.contains(w));
    Err(match code {
        Some(16) => Refusal::Token,
        _ if text.contains("invalid auth token") => Refusal::Token,
        Some(1 | 4 | 14) => Refusal::Away(text),
        _ if is_away || status >= 502 => Refusal::Away(text),
        _ => Refusal::No(format!("{text} (status {status})")),
    })
}
fn number(v: &Value) -> u64 {
    v.as_str().and_then(|n| n.parse().ok()).unwrap_or(0)
}
pub(crate) fn revision(answer: &Value) -> u64 {
    number(&answer["header"]["revision"])
}
fn pair(kv: &Value) -> Option<Pair> {
    let key = String::from_utf8(decode(kv["key"].as_str()?)?).ok()?;
    let value = decode(kv["value"].as_str().unwrap_or_default())?;
    Some(Pair { key, value, changed: number(&kv["mod_revision"]) })
}
fn first(found: &Value) -> Reply {
    match found["kvs"].get(0).and_then(pair) {
        Some(p) => (p.changed, Some(p.value)),
        None => (revision(found), None),
    }
}
fn range(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({ "key": encode(prefix.as_bytes()), "range_end": encode(&end) })
}
pub(crate) fn put(key: &str, value: &[u8], lease: Option<i64>) -> Value {
    let mut out = json!({ "key": encode(key.as_bytes()), "value": encode(value) });
    if let Some(id) = lease {
        out["lease"] = id.to_string().into();
    }
    out
}
/// Holds if a key has that value.
pub(crate) fn has_value(key: &str, value: &[u8]) -> Value {
    json!({ "key": encode(key.as_bytes()), "target": "VALUE", "result": "EQUAL", "value": encode(value) })
}
/// Holds if a key was last changed, or made, by that revision; 0: if it is not there.
pub(crate) fn was_changed(key: &str, by: u64) -> Value {
    json!({ "key": encode(key.as_bytes()), "target": "MOD", "result": "EQUAL", "mod_revision": by.to_string() })
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Bytes in base64, as JSON has them.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let word = three.iter().enumerate().fold(0u32, |w, (i, b)| w | u32::from(*b) << (16 - 8 * i));
        for i in 0..4 {
            let digit = DIGITS[(word >> (18 - 6 * i)) as usize & 63];
            out.push(if i <= three.len() { digit as char } else { '=' });
        }
    }
    out
}
/// And back; `None` if it is not.
fn decode(text: &str) -> Option<Vec<u8>> {
    let text = text.trim_end_matches('=').as_bytes();
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 2);
    for four in text.chunks(4) {
        let mut word = 0u32;
        for (i, c) in four.iter().enumerate() {
            let digit = DIGITS.iter().position(|d| d == c)?;
            word |= (digit as u32) << (18 - 6 * i);
        }
        if four.len() == 1 {
            return None;
        }
        out.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_base64() {
        assert_eq!(encode(b"talweg"), "dGFsd2Vn");
        assert_eq!((encode(b""), encode(b"a"), encode(b"ab")), (String::new(), "YQ==".into(), "YWI=".into()));
        for n in 0..70u8 {
            let bytes: Vec<u8> = (0..n).map(|i| i.wrapping_mul(37).wrapping_add(n)).collect();
            assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
        assert!(decode("a").is_none() && decode("a!==").is_none());
    }

    #[test]
    fn refusals_are_told_from_absence() {
        let kind = |status, body: &str| match judge(status, body) {
            Ok(_) => "answer",
            Err(Refusal::Away(_)) => "away",
            Err(Refusal::Token) => "token",
            Err(Refusal::No(_)) => "no",
        };
        assert_eq!(kind(200, r#"{"header":{"revision":"7"}}"#), "answer");
        assert_eq!(kind(503, r#"{"error":"etcdserver: no leader","code":14}"#), "away");
        assert_eq!(kind(401, r#"{"error":"etcdserver: invalid auth token","code":16}"#), "token");
        assert_eq!(kind(404, r#"{"error":"etcdserver: requested lease not found","code":5}"#), "no");
        assert_eq!(kind(200, r#"{"error":{"grpc_code":4,"message":"too late"}}"#), "away");
    }
}
