//! Many bad clients and many reloads. `TALWEG_QUICK` shortens them; `scripts/fuzz_serve.py` and `TALWEG_LONG` go further.

mod harness;

use harness::{Running, export, random, repository};
use ir::{DType, Literal};
use model::{Dimension, Export, Model};
use serde_json::{Value, json};
use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use talweg_serve::Options;
use talweg_serve::batcher::Policy;
use tensor::Tensor;

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
    // The last of them may be accepted only now; on a busy machine others are refused meanwhile.
    let mut answers = std::iter::repeat_with(|| server.post("/v2/models/mlp/infer", &question()));
    let answer = answers.by_ref().take(10_000).find(|a| a.status != 429).expect("a request is accepted");
    assert_eq!(answer.json()["outputs"], want);
    wait_until("no request is left", || server.app.repository.ready()[0].pending() == 0);
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

/// A counter of `/metrics`.
fn metric(server: &Running, name: &str) -> u64 {
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// Every length and batch size up to a bound is answered by few programs, each answer with the bits of the program that
/// the answer names.
#[test]
fn few_programs_serve_every_length() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("mean");
    let f = |x: &[Tensor]| Ok(vec![(&x[0] * &x[1]).sum(1) / x[1].sum(1).maximum(1e-9), x[0].exp()]);
    let example = Tensor::from(random(&[1, 3], 1));
    let export = Export::new("mean").input("x", &example, &["batch", "length"]);
    let export = export.input("mask", &example, &["batch", "length"]).outputs(&["mean", "exp"]);
    export.dimension(Dimension { max: 40, ..Dimension::new("length") }).write(&dir, f).unwrap();
    let (model, server) =
        (Model::load(&dir).unwrap(), Running::start(Options { roots: vec![dir.clone()], ..Options::default() }));
    let s = model.signature();
    for length in 1..=40usize {
        let rows = 1 + length % 3;
        let (x, mask) = (random(&[rows, length], 7), Literal::generate([rows, length], |_| 1.0f32));
        let tensor = |name: &str, l: &Literal| json!({ "name": name, "shape": l.shape().dims(), "datatype": "FP32", "data": l.to_vec::<f32>().unwrap() });
        let ask = json!({ "inputs": [tensor("x", &x), tensor("mask", &mask)] });
        let answer = server.post("/v2/models/mean/infer", &ask).json();
        let padded = s.padded(&[rows, length]);
        let named = answer["parameters"]["length"].as_u64().unwrap_or(length as u64);
        assert_eq!(named, padded[1] as u64, "{answer}");
        // The same rows in process, in a batch of the size that the answer names.
        let size = answer["parameters"]["batch_size"].as_u64().unwrap() as usize;
        let inputs = s.pad(&[x, mask], &padded).unwrap();
        let fill = |l: &Literal| {
            let row = l.bytes().len() / rows;
            let all: Vec<u8> = [l.bytes(), &l.bytes()[..row].repeat(size - rows)].concat();
            Literal::from_bytes(DType::F32, [size, padded[1]], &all).unwrap()
        };
        let want = model.run(&inputs.iter().map(fill).collect::<Vec<_>>()).unwrap();
        for (o, w) in want.iter().enumerate() {
            let part = w.bytes().len() / size * rows;
            let mut shape = w.shape().dims().to_vec();
            shape[0] = rows;
            let w = s.trim(o, DType::F32, &shape, &w.bytes()[..part], &[rows, length]).unwrap();
            let got: Vec<f32> =
                answer["outputs"][o]["data"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
            assert_eq!(got, w.to_vec::<f32>().unwrap(), "output {o} at length {length}");
            assert_eq!(answer["outputs"][o]["shape"], json!(w.shape().dims()));
        }
    }
    let programs = metric(&server, "talweg_compiled_programs");
    // Lengths 8, 12, 16, 24, 32, 40 and batches of 1, 2 and 3.
    assert!((6..=18).contains(&programs), "{programs} programs were compiled");
    assert!(metric(&server, "talweg_compile_duration_us") > 0);
}

/// Clients that ask for much and read nothing hold their own answers, not the engine.
#[test]
fn slow_readers_delay_nobody() {
    let (dir, options) = repository();
    // Answers of 16 MiB: the buffers of a socket do not hold them.
    let wide = Tensor::from(random(&[1, 1 << 22], 5));
    let f = |x: &[Tensor]| Ok(vec![&x[0] * &wide]);
    let example = Tensor::from(random(&[1, 1], 1));
    Export::new("wide").input("x", &example, &["batch", ""]).write(dir.path().join("wide/1"), f).unwrap();
    // On a busy machine, a short target would refuse some of them, and the first would not be waited for until the last
    // has its answer.
    let policy = Policy { latency_us: 30_000_000, ..Policy::default() };
    let server = Running::start(Options { policy, write_timeout: Duration::from_secs(600), ..options });
    let ask = json!({ "inputs": [{ "name": "x", "shape": [1, 1], "datatype": "FP32", "data": [1] }],
                      "parameters": { "binary_data_output": true } });
    let open = || server.open("POST", "/v2/models/wide/infer", &[], ask.to_string().as_bytes());
    let slow: Vec<TcpStream> = (0..12).map(|_| open()).collect();
    let wide = server.app.repository.ready().into_iter().find(|s| s.name == "wide").unwrap();
    wait_until("the engine is done with the slow ones", || wide.stats.totals().success == 12 && server.app.jobs() == 0);
    assert!(server.app.connections() >= 12, "their answers wait");
    assert_eq!(server.post("/v2/models/mlp/infer", &question()).status, 200);
    let late = harness::Reply::read(slow.into_iter().next().unwrap());
    assert_eq!(late.status, 200);
    assert!(late.body.len() >= 16 << 20, "the whole answer comes when it is read");
}
