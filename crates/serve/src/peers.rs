//! Replica processes of one server. They accept from the same port, so a request reaches one of them. Each also listens
//! at a Unix socket of its own: loading a model is passed on to all, and counters are the sum over all.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;
use tokio::net::UnixStream;

/// The processes of a server, as one of them sees the others.
#[derive(Clone, Debug)]
pub struct Peers {
    /// Holds the sockets; only the user who runs the server may enter it.
    pub directory: PathBuf,
    /// The number of this process.
    pub own: usize,
    /// How many processes there are.
    pub count: usize,
}

/// How long a peer may take: loading a model compiles it.
const PATIENCE: Duration = Duration::from_secs(300);

/// Marks requests that come from a peer: they concern this process alone.
#[derive(Clone, Copy, Debug)]
pub struct FromPeer;

impl Peers {
    /// The socket of a process.
    pub fn socket(&self, number: usize) -> PathBuf {
        self.directory.join(format!("{number}.sock"))
    }

    /// Asks every other process; returns statuses and bodies. One that does not answer is about to start and will read
    /// what is newest by itself.
    pub async fn ask(&self, method: Method, path: &str) -> Vec<(u16, Bytes)> {
        let others = (0..self.count).filter(|n| *n != self.own);
        let mut tasks = tokio::task::JoinSet::new();
        for socket in others.map(|n| self.socket(n)) {
            let (method, path) = (method.clone(), path.to_string());
            tasks.spawn(async move { tokio::time::timeout(PATIENCE, exchange(socket, method, path)).await.ok()? });
        }
        tasks.join_all().await.into_iter().flatten().collect()
    }
}

async fn exchange(socket: PathBuf, method: Method, path: String) -> Option<(u16, Bytes)> {
    let stream = UnixStream::connect(socket).await.ok()?;
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.ok()?;
    tokio::spawn(connection);
    let request = Request::builder().method(method).uri(path).header("host", "peer").body(Full::new(Bytes::new()));
    let response = sender.send_request(request.ok()?).await.ok()?;
    let status = response.status().as_u16();
    Some((status, response.into_body().collect().await.ok()?.to_bytes()))
}

/// A name as part of a path.
pub fn escaped(name: &str) -> String {
    let byte = |b: u8| match b {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(b).to_string(),
        _ => format!("%{b:02X}"),
    };
    name.bytes().map(byte).collect()
}

/// One exposition of Prometheus for several processes: samples of the same name and labels are added. A server is ready
/// if all of them are.
pub fn sum_metrics(texts: &[String]) -> String {
    let mut families: Vec<(String, Vec<(String, f64)>)> = Vec::new();
    let mut at: HashMap<String, usize> = HashMap::new();
    for text in texts {
        let mut own = 0;
        for line in text.lines() {
            if line.starts_with("# HELP") {
                own = *at.entry(line.to_string()).or_insert_with(|| {
                    families.push((line.to_string(), Vec::new()));
                    families.len() - 1
                });
            } else if line.starts_with('#') {
                let head = &mut families[own].0;
                if !head.contains(line) {
                    head.push('\n');
                    head.push_str(line);
                }
            } else if let Some((key, value)) = line.rsplit_once(' ')
                && let (Ok(value), Some(family)) = (value.parse::<f64>(), families.get_mut(own))
            {
                match family.1.iter_mut().find(|(k, _)| k == key) {
                    Some((_, sum)) if key == "talweg_ready" => *sum = sum.min(value),
                    Some((_, most)) if key.starts_with("talweg_admission_margin_us") => *most = most.max(value),
                    Some((_, sum)) => *sum += value,
                    None => family.1.push((key.to_string(), value)),
                }
            }
        }
    }
    let lines = families.iter().map(|(head, samples)| {
        let samples: String = samples.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
        format!("{head}\n{samples}")
    });
    lines.collect()
}

/// Adds the statistics of another process: rows of the same model and version become one.
pub fn add_stats(into: &mut Value, other: &Value) {
    let rows = other["model_stats"].as_array().into_iter().flatten();
    for row in rows {
        let Some(all) = into["model_stats"].as_array_mut() else { return };
        match all.iter_mut().find(|r| (&r["name"], &r["version"]) == (&row["name"], &row["version"])) {
            Some(own) => add(own, row),
            None => all.push(row.clone()),
        }
    }
}

/// Adds numbers, in objects and lists too. Of a bucket, which is a bound and a count, the count alone.
fn add(into: &mut Value, other: &Value) {
    match (into, other) {
        (Value::Object(a), Value::Object(b)) => b.iter().for_each(|(k, v)| match a.get_mut(k) {
            Some(own) => add(own, v),
            None => drop(a.insert(k.clone(), v.clone())),
        }),
        (Value::Array(a), Value::Array(b)) => {
            for (own, v) in a.iter_mut().zip(b) {
                match (own, v) {
                    (Value::Array(pair), Value::Array(other)) if pair.len() == 2 && other.len() == 2 => {
                        add(&mut pair[1], &other[1])
                    }
                    (own, v) => add(own, v),
                }
            }
        }
        (Value::Number(a), Value::Number(b)) => {
            if let (Some(x), Some(y)) = (a.as_u64(), b.as_u64()) {
                *a = (x + y).into();
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn metrics_of_processes_are_added() {
        let text = |n: u32, ready: u32| {
            format!(
                "# HELP a A\n# TYPE a counter\na{{model=\"m\"}} {n}\n# HELP talweg_ready R\n# TYPE talweg_ready gauge\ntalweg_ready {ready}\n"
            )
        };
        assert_eq!(sum_metrics(&[text(1, 1), text(2, 0)]), text(3, 0));
        let other = "# HELP a A\n# TYPE a counter\na{model=\"n\"} 5\n".to_string();
        let sum = sum_metrics(&[text(1, 1), other]);
        assert!(sum.starts_with("# HELP a A\n# TYPE a counter\na{model=\"m\"} 1\na{model=\"n\"} 5\n"), "{sum}");
    }

    #[test]
    fn statistics_of_processes_are_added() {
        let row = |n: u64| json!({ "name": "m", "version": "1", "count": n, "latency_us": [[100, n], [null, 1]] });
        let mut all = json!({ "model_stats": [row(2)] });
        add_stats(&mut all, &json!({ "model_stats": [row(3), { "name": "m", "version": "2", "count": 1 }] }));
        assert_eq!(
            all["model_stats"][0],
            json!({ "name": "m", "version": "1", "count": 5, "latency_us": [[100, 5], [null, 2]] })
        );
        assert_eq!(all["model_stats"][1]["count"], 1);
    }

    #[test]
    fn names_are_escaped() {
        assert_eq!(escaped("a b/ü.1"), "a%20b%2F%C3%BC.1");
    }
}
