//! Many bad clients and many reloads. `TALWEG_QUICK` shortens them; `scripts/fuzz_serve.py` and `TALWEG_LONG` go further.

mod harness;

use harness::{Running, export, random, repository};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn count(full: usize, quick: usize) -> usize {
    if std::env::var("TALWEG_QUICK").is_ok() { quick } else { full }
}

fn question() -> Value {
    let data: Vec<f32> = random(&[1, 4], 3).to_vec().unwrap();
    json!({ "inputs": [{ "name": "x", "shape": [1, 4], "datatype": "FP32", "data": data }] })
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(120);
    while !is_so() {
        assert!(Instant::now() < limit, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_thousand_disconnects_leave_nothing() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let want = server.post("/v2/models/mlp/infer", &question()).json()["outputs"].clone();
    let idle = server.app.connections();
    let body = question().to_string();
    for i in 0..count(1000, 200) {
        let mut stream = TcpStream::connect(server.address).unwrap();
        let head = format!("POST /v2/models/mlp/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
        let message = [head.as_bytes(), body.as_bytes()].concat();
        // Cut off in the head, in the body, and after the last byte, before the answer.
        let cut = [5, head.len() + 7, message.len()][i % 3];
        let _ = stream.write_all(&message[..cut]);
        if i % 2 == 0 {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
    wait_until("requests and connections are gone", || server.app.jobs() == 0 && server.app.connections() <= idle);
    assert_eq!(server.post("/v2/models/mlp/infer", &question()).json()["outputs"], want);
    assert_eq!(server.app.repository.ready()[0].pending(), 0);
}

#[test]
fn a_hundred_reloads_under_load_lose_nothing() {
    let (dir, options) = repository();
    let server = Arc::new(Running::start(options));
    let (is_done, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..3)
        .map(|_| {
            let (server, is_done, answered) = (server.clone(), is_done.clone(), answered.clone());
            std::thread::spawn(move || {
                while !is_done.load(Relaxed) {
                    let reply = server.post("/v2/models/mlp/infer", &question());
                    // A busy machine may refuse in time; nothing may fail.
                    assert!(matches!(reply.status, 200 | 429), "{:?}", String::from_utf8_lossy(&reply.body));
                    answered.fetch_add(usize::from(reply.status == 200), Relaxed);
                }
            })
        })
        .collect();
    let reloads = count(100, 10);
    for version in 2..reloads as u64 + 2 {
        export(&dir.path().join(format!("mlp/{version}")), version);
        assert_eq!(server.post("/v2/repository/models/mlp/load", &json!({})).status, 200);
        std::fs::remove_dir_all(dir.path().join(format!("mlp/{}", version - 1))).unwrap();
    }
    wait_until("requests are answered", || answered.load(Relaxed) > 0);
    is_done.store(true, Relaxed);
    clients.into_iter().for_each(|c| c.join().unwrap());
    assert_eq!(server.get("/v2/models/mlp").json()["versions"], json!([(reloads + 1).to_string()]));
    assert_eq!(server.app.repository.ready().len(), 1, "old versions are gone");
}
