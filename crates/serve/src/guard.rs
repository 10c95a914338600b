//! What stands before every route: trace ids, API keys with quotas, the access log and counts by route.

use crate::app::App;
use crate::failure::{Answered, Failure, Kind};
use crate::head::is_host;
use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

/// A key as its file states it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyRow {
    key: String,
    /// For the access log.
    name: String,
    /// Requests a second; none: no quota.
    requests_per_second: Option<f64>,
    /// Requests that may come at once.
    burst: Option<f64>,
}

/// A token bucket.
#[derive(Clone, Debug)]
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    since: Instant,
}

impl Bucket {
    /// Takes a token, or says how long until there is one.
    fn take(&mut self, now: Instant) -> Result<(), Duration> {
        let passed = now.saturating_duration_since(self.since).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.since = now;
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        Err(Duration::from_secs_f64(((1.0 - self.tokens) / self.rate.max(1e-9)).min(3600.0)))
    }
}

/// Keys that clients need. Only their hashes are kept.
#[derive(Clone, Debug)]
pub struct Keys(Arc<HashMap<[u8; 32], (String, Option<Mutex<Bucket>>)>>);

impl Keys {
    /// From JSON: `[{"key": "…", "name": "web", "requests_per_second": 50, "burst": 100}]`.
    pub fn parse(text: &str) -> Result<Keys, String> {
        let rows: Vec<KeyRow> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let mut keys = HashMap::new();
        for row in rows {
            if row.key.len() < 16 {
                return Err(format!("the key of {:?} is shorter than 16 characters", row.name));
            }
            let bucket = row.requests_per_second.map(|rate| {
                let burst = row.burst.unwrap_or(rate).max(1.0);
                Mutex::new(Bucket { rate, burst, tokens: burst, since: Instant::now() })
            });
            keys.insert(digest(&row.key), (row.name, bucket));
        }
        Ok(Keys(Arc::new(keys)))
    }

    /// The name of the client, if its key is good and its quota is not used up.
    pub fn check(&self, headers: &HeaderMap) -> Answered<&str> {
        self.check_text(|name| headers.get(name).and_then(|v| v.to_str().ok()))
    }
    /// The same, with headers as a function of their names in lower case.
    pub(crate) fn check_text<'a>(&self, text: impl Fn(&str) -> Option<&'a str>) -> Answered<&str> {
        let bearer = text("authorization").and_then(|v| v.strip_prefix("Bearer "));
        let denied = || Failure::new(Kind::Unauthorized, "an API key is needed: Authorization: Bearer KEY");
        let key = bearer.or_else(|| text("x-api-key")).ok_or_else(denied)?;
        let (name, bucket) = self.0.get(&digest(key)).ok_or_else(denied)?;
        if let Some(Err(wait)) = bucket.as_ref().map(|b| b.lock().take(Instant::now())) {
            let failure = Failure::new(Kind::Overloaded, format!("the quota of {name} is used up"));
            return Err(Failure { retry_seconds: Some(wait.as_secs_f64().ceil() as u64), ..failure });
        }
        Ok(name)
    }
}

fn digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// Numbers that do not repeat, for ids that need not be secret.
fn random() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    static STATE: std::sync::LazyLock<RandomState> = std::sync::LazyLock::new(RandomState::new);
    STATE.hash_one(COUNT.fetch_add(1, Relaxed)).max(1)
}

/// The W3C trace context of an answer: the client's trace, or a new one, with a span of its own.
pub(crate) fn traceparent(given: Option<&str>) -> String {
    let given = given.and_then(|text| {
        let parts: Vec<&str> = text.split('-').collect();
        let is_hex = |s: &str, n: usize| s.len() == n && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
        let is_set = |s: &str| s.bytes().any(|b| b != b'0');
        match parts[..] {
            ["00", trace, span, flags]
                if is_hex(trace, 32) && is_hex(span, 16) && is_hex(flags, 2) && is_set(trace) && is_set(span) =>
            {
                Some((trace, flags))
            }
            _ => None,
        }
    });
    match given {
        Some((trace, flags)) => format!("00-{trace}-{:016x}-{flags}", random()),
        None => format!("00-{:016x}{:016x}-{:016x}-00", random(), random(), random()),
    }
}

/// An answer, for counts and the access log.
pub(crate) struct Seen<'a> {
    pub route: &'a str,
    pub method: &'a str,
    pub client: Option<&'a str>,
    pub status: u16,
    pub trace: &'a str,
    pub began: Instant,
}

impl Seen<'_> {
    /// Counts it, and writes the line of the access log.
    pub(crate) fn record(&self, app: &App) {
        app.requests.record(self.route, self.method, self.status);
        if app.options.is_logging {
            let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64());
            let line = serde_json::json!({
                "time": (time * 1e3).round() / 1e3, "method": self.method, "route": self.route, "client": self.client,
                "status": self.status, "ms": self.began.elapsed().as_micros() as f64 / 1e3,
                "trace_id": self.trace.get(3..35),
            });
            eprintln!("{line}");
        }
    }
}

/// Paths that probes and balancers ask without a key.
fn is_open(route: &str) -> bool {
    route.ends_with("/health")
        || route.contains("/health/")
        || route.ends_with("/ServerLive")
        || route.ends_with("/ServerReady")
}

/// Whether a request names its host as its version of HTTP asks (RFC 9112, 3.2).
fn has_host(request: &Request) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    request.version() != Version::HTTP_11
        || (hosts.next().is_some_and(|host| is_host(host.as_bytes())) && hosts.next().is_none())
}

/// The layer around all routes.
pub async fn guard(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("none", MatchedPath::as_str);
    let trace = traceparent(request.headers().get("traceparent").and_then(|v| v.to_str().ok()));
    let is_grpc =
        request.headers().get(header::CONTENT_TYPE).is_some_and(|v| v.as_bytes().starts_with(b"application/grpc"));
    let id = request.headers().get("x-request-id").cloned();
    let path = if is_grpc { request.uri().path() } else { route };
    let allowed = match &app.options.keys {
        _ if !has_host(&request) => Err(Failure::invalid("HTTP/1.1 needs the header Host, once")),
        Some(keys) if !is_open(path) => keys.check(request.headers()).map(Some),
        _ => Ok(None),
    };
    let (client, mut response) = match allowed {
        Ok(client) => (client.map(String::from), next.run(request).await),
        Err(failure) if is_grpc => (None, tonic::Status::from(failure).into_http::<Body>()),
        Err(failure) => (None, failure.into_response()),
    };
    if let Ok(value) = HeaderValue::from_str(&trace) {
        response.headers_mut().insert("traceparent", value);
    }
    if let Some(id) = id {
        response.headers_mut().insert("x-request-id", id);
    }
    let (status, client) = (response.status().as_u16(), client.as_deref());
    Seen { route, method: method.as_str(), client, status, trace: &trace, began }.record(&app);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_refill() {
        let start = Instant::now();
        let mut bucket = Bucket { rate: 2.0, burst: 2.0, tokens: 2.0, since: start };
        assert!(bucket.take(start).is_ok() && bucket.take(start).is_ok());
        assert_eq!(bucket.take(start), Err(Duration::from_millis(500)));
        assert!(bucket.take(start + Duration::from_millis(500)).is_ok());
        assert!(bucket.take(start + Duration::from_millis(500)).is_err());
    }

    #[test]
    fn traces_are_continued_or_begun() {
        let given = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let own = traceparent(Some(given));
        assert_eq!((&own[..36], &own[52..]), (&given[..36], "-01"));
        assert_ne!(own, given, "the span is the server's");
        for bad in ["", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "01-x-y-z", "00-é-é-é"] {
            assert_eq!(traceparent(Some(bad)).len(), 55);
        }
    }
}
