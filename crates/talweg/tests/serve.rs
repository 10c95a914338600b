//! `talweg serve` as a process: several processes behind one port, a killed one, pinning, draining.

#![cfg(feature = "serve")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use talweg::export::Export;
use talweg::prelude::*;

const LIMIT: Duration = Duration::from_secs(120);

fn export(dir: &Path, factor: f32) {
    let example = Tensor::from([[1.0f32, 2.0]]);
    Export::new("scale").input("x", &example, &["batch", ""]).write(dir, |x| Ok(vec![&x[0] * factor])).unwrap();
}

struct Server {
    child: Child,
    host: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(repository: &Path, flags: &[&str]) -> Server {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talweg"));
        command.arg("serve").arg(repository).args(["--port", "0"]).args(flags).stdout(Stdio::piped());
        let mut child = command.env("TALWEG_THREADS", "1").spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().nth(3).unwrap_or_else(|| panic!("the server did not start: {line:?}"));
        let host = url.trim_start_matches("http://").trim_end_matches('/').to_string();
        Server { child, host }
    }
    fn try_send(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut stream = TcpStream::connect(&self.host).ok()?;
        stream.set_read_timeout(Some(LIMIT)).ok()?;
        let length = body.len();
        let head =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
        stream.write_all((head + body).as_bytes()).ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_string()))
    }
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        self.try_send(method, path, body).expect("an answer")
    }
    fn infer(&self) -> Option<(u16, String)> {
        let body = r#"{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}"#;
        self.try_send("POST", "/v2/models/scale/infer", body)
    }
    fn metric(&self, name: &str) -> f64 {
        let (_, text) = self.send("GET", "/metrics", "");
        let line = text.lines().find(|l| l.starts_with(name));
        line.and_then(|l| l.rsplit_once(' ')?.1.parse().ok()).unwrap_or(0.0)
    }
    /// The processes that it started.
    fn members(&self) -> Vec<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.child.id());
        let text = std::fs::read_to_string(children).unwrap_or_default();
        text.split_whitespace().filter_map(|p| p.parse().ok()).collect()
    }
    fn end(mut self) -> i32 {
        assert!(Command::new("kill").arg(self.child.id().to_string()).status().unwrap().success());
        let limit = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < limit, "the server does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn processes_share_a_port_and_survive_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir.path().join("scale/1"), 2.0);
    let server = Arc::new(Server::start(dir.path(), &["--processes", "2", "--pin"]));
    assert_eq!(server.members().len(), 2);
    assert!(server.infer().unwrap().1.contains("[2,4]"));

    // Every request is answered, at the second try if the first met the process that was killed. A busy machine may
    // refuse some with 429, which ask for a retry.
    let (is_done, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..2)
        .map(|_| {
            let (server, is_done, answered) = (server.clone(), is_done.clone(), answered.clone());
            std::thread::spawn(move || {
                while !is_done.load(Relaxed) {
                    let (mut lost, limit) = (0, Instant::now() + LIMIT);
                    loop {
                        match server.infer() {
                            Some((200, _)) => break,
                            Some((429, _)) => std::thread::sleep(Duration::from_millis(20)),
                            Some((status, body)) => panic!("{status}: {body}"),
                            None => lost += 1,
                        }
                        assert!(lost < 3 && Instant::now() < limit, "{lost} lost: no answer after a retry");
                    }
                    answered.fetch_add(1, Relaxed);
                }
            })
        })
        .collect();
    let kills = if std::env::var("TALWEG_LONG").is_ok() { 50 } else { 2 };
    for _ in 0..kills {
        let seen = answered.load(Relaxed);
        wait_until("both processes run", || server.members().len() == 2);
        let victim = server.members()[0];
        assert!(Command::new("kill").args(["-9", &victim.to_string()]).status().unwrap().success());
        wait_until("another process takes its place", || {
            let now = server.members();
            now.len() == 2 && !now.contains(&victim)
        });
        wait_until("requests are answered", || answered.load(Relaxed) > seen + 4);
    }
    is_done.store(true, Relaxed);
    clients.into_iter().for_each(|c| c.join().unwrap());
    let server = Arc::into_inner(server).unwrap();
    assert_eq!(server.end(), 0);
}

#[test]
fn a_new_version_reaches_every_process_and_counters_are_added() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir.path().join("scale/1"), 2.0);
    let server = Server::start(dir.path(), &["--processes", "3"]);
    export(&dir.path().join("scale/2"), 10.0);
    assert_eq!(server.send("POST", "/v2/repository/models/scale/load", "").0, 200);
    for _ in 0..30 {
        let (status, body) = server.infer().unwrap();
        assert!(status == 200 && body.contains("\"model_version\":\"2\""), "{body}");
    }
    assert_eq!(server.metric("nv_inference_request_success{model=\"scale\",version=\"2\"}"), 30.0);
    let (_, stats) = server.send("GET", "/v2/models/scale/stats", "");
    assert!(stats.contains("\"inference_count\":30"), "{stats}");
    assert_eq!(server.metric("talweg_ready"), 1.0);
    assert_eq!(server.send("POST", "/v2/repository/models/scale/unload", "").0, 200);
    for _ in 0..10 {
        assert_eq!(server.infer().unwrap().0, 503);
    }
    assert_eq!(server.end(), 0);
}

#[test]
fn a_server_without_a_model_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for flags in [&["--processes", "2"][..], &[]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_talweg"));
        let out = command.arg("serve").arg(dir.path()).args(["--port", "0"]).args(flags).output().unwrap();
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert!(!out.status.success() && text.contains("no model could be loaded"), "{text}");
    }
}
