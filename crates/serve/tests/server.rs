//! The server over loopback: answers equal what the model gives in process, and faults stay where they belong.

mod harness;

use harness::{Reply, Running, export, random, repository};
use ir::{DType, Error, Literal, Result};
use model::{Axis, Dimension, Export, Model, Signature, TensorSpec};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};
use talweg_serve::batcher::Policy;
use talweg_serve::{Executable, Keep, Keys, Options, Run};
use tensor::Tensor;

fn question(x: &Literal) -> Value {
    let data: Vec<f32> = x.to_vec().unwrap();
    json!({ "id": "7", "inputs": [{ "name": "x", "shape": x.shape().dims(), "datatype": "FP32", "data": data }] })
}

fn numbers(v: &Value) -> Vec<f32> {
    v.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

#[test]
fn answers_are_the_models_own() {
    let (dir, options) = repository();
    let server = Running::start(options);
    let model = Model::load(dir.path().join("mlp/1")).unwrap();
    for rows in [1, 2, 5, 33] {
        let x = random(&[rows, 4], rows as u64);
        let want = model.run(std::slice::from_ref(&x)).unwrap();
        // The first answer may have come from a padded batch, until the size is compiled.
        let deadline = Instant::now() + Duration::from_secs(60);
        let answer = loop {
            let answer = server.post("/v2/models/mlp/infer", &question(&x)).json();
            if answer["parameters"]["batch_size"] == rows || rows > 32 {
                break answer;
            }
            assert!(Instant::now() < deadline, "{answer}");
        };
        assert_eq!(
            (&answer["model_name"], &answer["model_version"], &answer["id"]),
            (&json!("mlp"), &json!("1"), &json!("7"))
        );
        assert_eq!(answer["outputs"][0]["shape"], json!([rows, 8]));
        if rows <= 32 {
            assert_eq!(numbers(&answer["outputs"][0]["data"]), want[0].to_vec::<f32>().unwrap());
            assert_eq!(numbers(&answer["outputs"][1]["data"]), want[1].to_vec::<f32>().unwrap());
        }
        let row: Vec<Vec<f32>> = x.to_vec::<f32>().unwrap().chunks(4).map(<[f32]>::to_vec).collect();
        let predicted = server.post("/v1/models/mlp:predict", &json!({ "instances": row })).json();
        assert_eq!(predicted["predictions"].as_array().unwrap().len(), rows);
        if rows <= 32 {
            assert_eq!(numbers(&predicted["predictions"][0]["p"]), want[0].to_vec::<f32>().unwrap()[..8]);
        }
        let columns = server.post("/v1/models/mlp/versions/1:predict", &json!({ "inputs": { "x": row } })).json();
        assert_eq!(columns["outputs"]["s"].as_array().unwrap().len(), rows);
    }
    assert_eq!(server.app.jobs(), 0);
}

#[test]
fn tensors_travel_as_bytes_and_packed() {
    let (dir, options) = repository();
    let server = Running::start(options);
    let model = Model::load(dir.path().join("mlp/1")).unwrap();
    let x = random(&[1, 4], 3);
    let want = model.run(std::slice::from_ref(&x)).unwrap();
    let head = json!({
        "inputs": [{ "name": "x", "shape": [1, 4], "datatype": "FP32", "parameters": { "binary_data_size": 16 } }],
        "outputs": [{ "name": "p", "parameters": { "binary_data": true } }, { "name": "s" }],
    });
    let head = head.to_string();
    let body = [head.as_bytes(), x.bytes()].concat();
    let length = head.len().to_string();
    let headers = [("inference-header-content-length", length.as_str())];
    let check = |reply: &Reply| {
        let length: usize = reply.header("inference-header-content-length").unwrap().parse().unwrap();
        let answer: Value = serde_json::from_slice(&reply.body[..length]).unwrap();
        assert_eq!(&reply.body[length..], want[0].bytes());
        assert_eq!(numbers(&answer["outputs"][1]["data"]), want[1].to_vec::<f32>().unwrap());
    };
    check(&server.send("POST", "/v2/models/mlp/infer", &headers, &body));
    for (name, packed) in [("gzip", gzip(&body)), ("deflate", deflate(&body))] {
        let headers = [headers[0], ("content-encoding", name)];
        check(&server.send("POST", "/v2/models/mlp/infer", &headers, &packed));
    }
    let raw = server.send("POST", "/v2/models/mlp/infer", &[("inference-header-content-length", "0")], x.bytes());
    assert!(raw.body.ends_with(&[want[0].bytes(), want[1].bytes()].concat()), "one input needs no JSON");
    let many = question(&random(&[200, 4], 1)).to_string();
    let plain = server.send("POST", "/v2/models/mlp/infer", &[], many.as_bytes());
    let packed = server.send("POST", "/v2/models/mlp/infer", &[("accept-encoding", "br, gzip")], many.as_bytes());
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}
fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).unwrap();
    packer.finish().unwrap()
}

#[test]
fn bad_requests_say_what_is_wrong() {
    let (_dir, options) = repository();
    let server = Running::start(Options { body_max: 100_000, ..options });
    let infer = "/v2/models/mlp/infer";
    let tensor = |shape: Value, datatype: &str, data: Value| json!({ "inputs": [{ "name": "x", "shape": shape, "datatype": datatype, "data": data }] });
    let with = |name: &str, value: Value| {
        let mut body = tensor(json!([1, 4]), "FP32", json!([1, 2, 3, 4]));
        body["parameters"] = json!({ name: value });
        body
    };
    for (body, what) in [
        (tensor(json!([1, 5]), "FP32", json!([1, 2, 3, 4, 5])), "x: expected f32[batch, 4], got [1, 5]"),
        (tensor(json!([1, 4]), "FP64", json!([1, 2, 3, 4])), "x: expected f32, got f64"),
        (tensor(json!([1, 4]), "FP33", json!([1, 2, 3, 4])), "datatype \"FP33\" is not supported"),
        (tensor(json!([2, 4]), "FP32", json!([1, 2, 3, 4])), "16 bytes were sent, but shape [2, 4] takes 32"),
        (tensor(json!([0, 4]), "FP32", json!([])), "batch is 0"),
        (tensor(json!([1, 4]), "FP32", json!(["a", 2, 3, 4])), "is no FP32"),
        (json!({ "inputs": [] }), "input \"x\" is missing"),
        (json!({ "inputs": [{ "name": "x", "shape": [1, 4], "datatype": "FP32" }] }), "one of data, binary_data_size"),
        (json!(7), "the request is not what the protocol asks"),
        (with("timeout", json!(-5)), "the parameter timeout must be a non-negative integer"),
        (with("priority", json!("high")), "the parameter priority must be a non-negative integer"),
        (with("binary_data_output", json!(1)), "the parameter binary_data_output must be true or false"),
    ] {
        let reply = server.post(infer, &body);
        let text = reply.json()["error"].as_str().unwrap().to_string();
        assert!(reply.status == 400 && text.contains(what), "{}: {text}", reply.status);
    }
    assert_eq!(server.get("/v2/models/other").status, 404);
    let unknown = server.get("/v2/models/mlp/versions/9");
    assert_eq!((unknown.status, unknown.json()["error"].as_str()), (404, Some("mlp has no version 9")));
    assert_eq!(server.get("/nowhere").status, 404);
    assert_eq!(server.get(infer).status, 405);
    assert_eq!(server.send("POST", infer, &[], &vec![b' '; 100_001]).status, 413);
    let bomb = gzip(&vec![b' '; 10_000_000]);
    assert!(bomb.len() < 100_000);
    assert_eq!(server.send("POST", infer, &[("content-encoding", "gzip")], &bomb).status, 413);
    assert_eq!(server.post("/v2/repository/models/..%2F..%2Fetc/load", &json!({})).status, 404);
}

#[test]
fn the_server_describes_itself() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    assert_eq!(server.get("/v2/health/ready").status, 200);
    assert_eq!(server.get("/v2/models/mlp/ready").status, 200);
    let metadata = server.get("/v2/models/mlp").json();
    assert_eq!(metadata["inputs"], json!([{ "name": "x", "datatype": "FP32", "shape": [-1, 4] }]));
    assert_eq!(server.get("/v2/models/mlp/config").json()["max_batch_size"], 32);
    assert_eq!(server.get("/v1/models/mlp").json()["model_version_status"][0]["state"], "AVAILABLE");
    let reply = server.send(
        "POST",
        "/v2/models/mlp/infer",
        &[("x-request-id", "abc")],
        question(&random(&[1, 4], 1)).to_string().as_bytes(),
    );
    assert_eq!((reply.status, reply.header("x-request-id")), (200, Some("abc")));
    assert_eq!(reply.header("traceparent").unwrap().len(), 55);
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    for line in [
        "nv_inference_request_success{model=\"mlp\",version=\"1\"} 1",
        "nv_inference_count{model=\"mlp\",version=\"1\"} 1",
        "talweg_batch_size_bucket{model=\"mlp\",version=\"1\",le=\"1\"} 1",
        "http_requests_total{route=\"/v2/models/{name}/infer\",method=\"POST\",status=\"200\"} 1",
    ] {
        assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
    }
    let document = server.get("/openapi.json").json();
    // In the order of their names: what unloads the model comes last.
    let paths: std::collections::BTreeMap<_, _> = document["paths"].as_object().unwrap().iter().collect();
    for (path, operations) in paths {
        let path = path.replace("{name}", "mlp").replace("{version}", "1");
        for method in operations.as_object().unwrap().keys() {
            // Questions without a body are bad, but the path is there.
            let reply = server.send(&method.to_uppercase(), &path, &[], b"");
            // So are regions of shared memory, of which there are none.
            let is_region = reply.status == 404 && String::from_utf8_lossy(&reply.body).contains("shared memory");
            assert!(matches!(reply.status, 200 | 400 | 503) || is_region, "{method} {path}: {}", reply.status);
        }
    }
    assert!(String::from_utf8(server.get("/").body).unwrap().contains("Try a model"));
}

#[test]
fn versions_come_and_go() {
    let (dir, options) = repository();
    let server = Running::start(options);
    let x = question(&random(&[1, 4], 1));
    let version = |path: &str| server.post(path, &x).json()["model_version"].clone();
    assert_eq!(version("/v2/models/mlp/infer"), "1");
    export(&dir.path().join("mlp/2"), 50);
    assert_eq!(version("/v2/models/mlp/infer"), "1", "nothing changes by itself");
    assert_eq!(server.post("/v2/repository/models/mlp/load", &json!({})).status, 200);
    assert_eq!(version("/v2/models/mlp/infer"), "2");
    assert_eq!(server.get("/v2/models/mlp/versions/1").status, 404, "only the newest is kept");
    std::fs::write(dir.path().join("mlp/labels.json"), r#"{"stable": 1}"#).unwrap();
    assert_eq!(server.post("/v2/repository/models/mlp/load", &json!({})).status, 200);
    assert_eq!(version("/v2/models/mlp/versions/1/infer"), "1");
    assert_eq!(
        server.post("/v1/models/mlp/labels/stable:predict", &json!({ "instances": [[1, 2, 3, 4]] })).status,
        200
    );
    assert_eq!(server.post("/v1/models/mlp/labels/other:predict", &json!({ "instances": [[1, 2, 3, 4]] })).status, 404);
    std::fs::write(dir.path().join("mlp/2/weights.safetensors"), b"broken").unwrap();
    std::fs::write(dir.path().join("mlp/2/model.json"), std::fs::read(dir.path().join("mlp/2/model.json")).unwrap())
        .unwrap();
    assert_eq!(server.post("/v2/repository/models/mlp/load", &json!({})).status, 503);
    assert_eq!(version("/v2/models/mlp/infer"), "2", "the version before goes on");
    assert_eq!(server.post("/v2/repository/models/mlp/unload", &json!({})).status, 200);
    assert_eq!(server.post("/v2/models/mlp/infer", &x).status, 503);
    let index = server.post("/v2/repository/index", &json!({})).json();
    assert!(index.as_array().unwrap().iter().all(|r| r["reason"] == "unloaded"), "{index}");
}

#[test]
fn reloading_under_load_loses_nothing() {
    let (dir, options) = repository();
    let server = Arc::new(Running::start(options));
    let done = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..4u64)
        .map(|seed| {
            let (server, done) = (server.clone(), done.clone());
            std::thread::spawn(move || {
                let x = question(&random(&[1 + seed as usize % 3, 4], seed));
                let mut answered = 0;
                while done.load(Ordering::Relaxed) == 0 {
                    let reply = server.post("/v2/models/mlp/infer", &x);
                    assert_eq!(reply.status, 200, "{:?}", String::from_utf8_lossy(&reply.body));
                    answered += 1;
                }
                answered
            })
        })
        .collect();
    for version in 2..12 {
        export(&dir.path().join(format!("mlp/{version}")), version);
        assert_eq!(server.post("/v2/repository/models/mlp/load", &json!({})).status, 200);
    }
    done.store(1, Ordering::Relaxed);
    let answered: usize = clients.into_iter().map(|c| c.join().unwrap()).sum();
    assert!(answered > 0);
    assert_eq!(server.get("/v2/models/mlp").json()["versions"], json!(["11"]));
}

#[test]
fn idle_models_and_memory_limits() {
    let dir = tempfile::tempdir().unwrap();
    export(&dir.path().join("a"), 1);
    export(&dir.path().join("b"), 2);
    let bytes = Model::load(dir.path().join("a")).unwrap().weight_bytes();
    let keep = Keep { bytes_max: bytes + bytes / 2, ..Keep::default() };
    let server = Running::start(Options { roots: vec![dir.path().into()], keep, ..Options::default() });
    let x = question(&random(&[1, 4], 1));
    for name in ["a", "b", "a"] {
        assert_eq!(server.post(&format!("/v2/models/{name}/infer"), &x).status, 200, "{name}");
        assert_eq!(server.app.repository.ready().len(), 1, "the other made room");
    }
    let keep = Keep { idle: Some(Duration::from_millis(100)), ..Keep::default() };
    let server = Running::start(Options { roots: vec![dir.path().into()], keep, ..Options::default() });
    let deadline = Instant::now() + Duration::from_secs(30);
    while !server.app.repository.ready().is_empty() {
        assert!(Instant::now() < deadline, "idle models are unloaded");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(server.post("/v2/models/b/infer", &x).status, 200, "and loaded again");
}

/// A door that runs wait at until it is opened.
#[derive(Default)]
struct Gate {
    is_open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.changed.notify_all();
    }
    fn pass(&self) {
        let guard = self.is_open.lock().unwrap();
        let waited = self.changed.wait_timeout_while(guard, Duration::from_secs(60), |o| !*o).unwrap();
        assert!(!waited.1.timed_out(), "the test never opened the gate");
    }
}

/// What an [`Odd`] model shares with its test.
#[derive(Clone, Default)]
struct Control {
    runs: Arc<AtomicUsize>,
    gate: Arc<Gate>,
}

/// A model that does what its input says: waits at the gate where `x[0]` is 1, fails where `x[1]` is 1, panics where it
/// is 2.
struct Odd {
    signature: Signature,
    control: Control,
}

impl Odd {
    fn new() -> Odd {
        let spec = |name: &str| TensorSpec {
            name: name.into(),
            dtype: "f32".into(),
            shape: vec![Axis::Free("batch".into()), Axis::Fixed(2)],
        };
        let signature = Signature {
            name: "odd".into(),
            dims: vec![Dimension::new("batch")],
            inputs: vec![spec("x")],
            outputs: vec![spec("y")],
            is_batched: true,
        };
        Odd { signature, control: Control::default() }
    }
}

struct OddRun(Control);

impl Executable for Odd {
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn prepare(&self, _: &[usize]) -> Result<Arc<dyn Run>> {
        Ok(Arc::new(OddRun(self.control.clone())))
    }
    fn weight_bytes(&self) -> usize {
        0
    }
}

impl Run for OddRun {
    fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>> {
        self.0.runs.fetch_add(1, Ordering::Relaxed);
        let x: Vec<f32> = inputs[0].to_vec()?;
        if x.chunks(2).any(|r| r[0] == 1.0) {
            self.0.gate.pass();
        }
        assert!(x.chunks(2).all(|r| r[1] != 2.0), "told to panic");
        if x.chunks(2).any(|r| r[1] == 1.0) {
            return Err(Error::index("told to fail"));
        }
        Ok(inputs.to_vec())
    }
}

fn odd(options: Options) -> (Running, Control) {
    let server = Running::start(options);
    let model = Odd::new();
    let control = model.control.clone();
    server.app.repository.put("odd", 1, Arc::new(model)).unwrap();
    (server, control)
}

/// A request that waits at the gate, or does not.
fn command(is_held: bool, what: f32) -> Value {
    let held = f32::from(u8::from(is_held));
    json!({ "inputs": [{ "name": "x", "shape": [1, 2], "datatype": "FP32", "data": [held, what] }] })
}

const ODD: &str = "/v2/models/odd/infer";
/// A target that no test reaches.
const PATIENT: Policy = Policy {
    latency_us: 60_000_000,
    late_permille: 10,
    batch_max: 32,
    delay_us: 0,
    requests_max: 1024,
    bytes_max: 1 << 30,
};

/// Waits until the engine has so many requests.
fn wait_for_jobs(server: &Running, jobs: usize) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.app.jobs() != jobs {
        assert!(Instant::now() < deadline, "{} jobs, not {jobs}", server.app.jobs());
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_request_that_fails_harms_no_other() {
    let (server, control) = odd(Options { policy: PATIENT, ..Options::default() });
    let first = server.open("POST", ODD, &[], command(true, 0.0).to_string().as_bytes());
    wait_for_jobs(&server, 1);
    let send = |what: f32| server.open("POST", ODD, &[], command(false, what).to_string().as_bytes());
    let nan = json!({ "inputs": [{ "name": "x", "shape": [1, 2], "datatype": "FP32", "data": [0, null] }] });
    let mut others = vec![send(0.0), send(1.0), send(0.0)];
    others.push(server.open("POST", ODD, &[], nan.to_string().as_bytes()));
    wait_for_jobs(&server, 5);
    control.gate.open();
    assert_eq!(Reply::read(first).status, 200);
    let replies: Vec<Reply> = others.into_iter().map(Reply::read).collect();
    assert_eq!(replies.iter().map(|r| r.status).collect::<Vec<_>>(), [200, 400, 200, 200]);
    assert_eq!(replies[1].json()["error"], "told to fail");
    assert_eq!(replies[2].json()["outputs"][0]["data"], json!([0, 0]));
    assert_eq!(replies[3].json()["outputs"][0]["data"], json!([0, null]), "NaN stays in its row");
    wait_for_jobs(&server, 0);
}

#[test]
fn a_panic_is_an_error_on_every_request_and_an_unready_server() {
    let (server, control) = odd(Options { policy: PATIENT, ..Options::default() });
    let first = server.open("POST", ODD, &[], command(true, 2.0).to_string().as_bytes());
    wait_for_jobs(&server, 1);
    let second = server.open("POST", ODD, &[], command(false, 0.0).to_string().as_bytes());
    wait_for_jobs(&server, 2);
    control.gate.open();
    assert_eq!(Reply::read(first).status, 503);
    assert_eq!(Reply::read(second).status, 503);
    assert_eq!(server.get("/v2/health/ready").status, 503);
    assert_eq!(server.get("/v2/health/live").status, 200);
    assert_eq!(server.post(ODD, &command(false, 0.0)).status, 503);
    assert!(server.app.has_failed());
    wait_for_jobs(&server, 0);
}

#[test]
fn clients_that_go_away_leave_nothing() {
    let policy = Policy { batch_max: 1, ..PATIENT };
    let (server, control) = odd(Options { policy, ..Options::default() });
    let first = server.open("POST", ODD, &[], command(true, 0.0).to_string().as_bytes());
    wait_for_jobs(&server, 1);
    let body = command(false, 0.0).to_string();
    let gone: Vec<TcpStream> = (0..100).map(|_| server.open("POST", ODD, &[], body.as_bytes())).collect();
    wait_for_jobs(&server, 101);
    drop(gone);
    let deadline = Instant::now() + Duration::from_secs(30);
    // The held one, and the one that the listener keeps ready.
    while server.app.connections() > 2 {
        assert!(Instant::now() < deadline, "{} connections", server.app.connections());
        std::thread::sleep(Duration::from_millis(1));
    }
    control.gate.open();
    assert_eq!(Reply::read(first).status, 200);
    wait_for_jobs(&server, 0);
    assert_eq!(control.runs.load(Ordering::Relaxed), 1, "what no client waits for is not computed");
    assert_eq!(server.app.repository.ready()[0].pending(), 0);
}

#[test]
fn overload_is_refused_at_once() {
    let policy = Policy { requests_max: 4, ..PATIENT };
    let (server, control) = odd(Options { policy, ..Options::default() });
    let body = command(true, 0.0).to_string();
    let held: Vec<TcpStream> = (0..3).map(|_| server.open("POST", ODD, &[], body.as_bytes())).collect();
    wait_for_jobs(&server, 3);
    let late = json!({ "parameters": { "timeout": 20_000 }, "inputs": command(false, 0.0)["inputs"] });
    assert_eq!(server.post(ODD, &late).status, 504, "answered while the engine is busy");
    wait_for_jobs(&server, 4);
    let refused = server.send("POST", ODD, &[], body.as_bytes());
    assert_eq!(refused.status, 429, "refused while the others still wait");
    assert!(refused.header("retry-after").is_some());
    control.gate.open();
    assert!(held.into_iter().all(|s| Reply::read(s).status == 200));
    wait_for_jobs(&server, 0);
    assert_eq!(server.post(ODD, &command(false, 0.0)).status, 200);
}

#[test]
fn a_refused_request_leaves_its_connection_usable() {
    let policy = Policy { requests_max: 1, ..PATIENT };
    let (server, control) = odd(Options { policy, ..Options::default() });
    let held = server.open("POST", ODD, &[], command(true, 0.0).to_string().as_bytes());
    wait_for_jobs(&server, 1);
    // Refused at its head; what follows it is read, and the next request on the same connection is answered.
    let body = format!("{}{}", command(false, 0.0), " ".repeat(300_000));
    let head = format!("POST {ODD} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    stream.write_all(body.as_bytes()).unwrap();
    let mut seen = Vec::new();
    while !seen.windows(7).any(|w| w == b"\"error\"") {
        let mut part = [0; 4096];
        let n = stream.read(&mut part).unwrap();
        assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&part[..n]);
    }
    assert!(seen.starts_with(b"HTTP/1.1 429"), "{:?}", String::from_utf8_lossy(&seen));
    control.gate.open();
    assert_eq!(Reply::read(held).status, 200);
    wait_for_jobs(&server, 0);
    stream.write_all(b"GET /v2/health/ready HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    assert_eq!(Reply::read(stream).status, 200);
}

#[test]
fn a_slow_body_holds_no_room() {
    let policy = Policy { requests_max: 2, latency_us: 200_000, ..PATIENT };
    let (server, _) = odd(Options { policy, ..Options::default() });
    let body = command(false, 0.0).to_string();
    let head = format!("POST {ODD} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    let slow = |_| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(&body.as_bytes()[..10]).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..2).map(slow).collect();
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.app.jobs() < 2 {
        assert!(Instant::now() < deadline, "both heads are read");
    }
    // They count as long as they could still be answered in time.
    while server.post(ODD, &command(false, 0.0)).status != 200 {
        assert!(Instant::now() < deadline);
    }
    // Until the other one has lost its room too.
    std::thread::sleep(Duration::from_secs(1));
    slow.iter_mut().for_each(|s| s.write_all(&body.as_bytes()[10..]).unwrap());
    for mut s in slow {
        let mut part = [0; 4096];
        let n = s.read(&mut part).unwrap();
        let text = String::from_utf8_lossy(&part[..n]);
        assert!(text.starts_with("HTTP/1.1 200"), "it comes late, but it comes: {text}");
    }
}

/// Outputs as large as these are sent from where the batch has them.
#[test]
fn large_outputs_come_in_order_and_whole() {
    let dir = tempfile::tempdir().unwrap();
    let f = |x: &[Tensor]| Ok(vec![&x[0] * 2.0, x[0].sum(-1), &x[0] + 1.0]);
    let export = Export::new("big").input("x", &Tensor::from(random(&[1, 9000], 1)), &["n", ""]);
    export.outputs(&["a", "b", "c"]).write(dir.path().join("big"), f).unwrap();
    let server = Running::start(Options { roots: vec![dir.path().join("big")], policy: PATIENT, ..Options::default() });
    let model = Model::load(dir.path().join("big")).unwrap();
    let x = random(&[1, 9000], 5);
    let want = model.run(std::slice::from_ref(&x)).unwrap();
    let (length, body) = talweg_serve::client::request_body(&[("x".into(), x)]).unwrap();
    let length = length.to_string();
    for accept in ["identity", "gzip"] {
        let headers = [("inference-header-content-length", length.as_str()), ("accept-encoding", accept)];
        let reply = server.send("POST", "/v2/models/big/infer", &headers, &body);
        let mut got = reply.body.clone();
        if accept == "gzip" {
            assert_eq!(reply.header("content-encoding"), Some("gzip"));
            got.clear();
            flate2::read::GzDecoder::new(&reply.body[..]).read_to_end(&mut got).unwrap();
        }
        let json: usize = reply.header("inference-header-content-length").unwrap().parse().unwrap();
        let all: Vec<u8> = want.iter().flat_map(|l| l.bytes().to_vec()).collect();
        assert!(got[json..] == all[..], "{accept}");
    }
}

#[test]
fn a_stalled_engine_is_unready() {
    let (server, control) = odd(Options { policy: PATIENT, watchdog: Duration::from_millis(50), ..Options::default() });
    let held = server.open("POST", ODD, &[], command(true, 0.0).to_string().as_bytes());
    let deadline = Instant::now() + Duration::from_secs(30);
    while server.get("/v2/health/ready").status == 200 {
        assert!(Instant::now() < deadline);
    }
    control.gate.open();
    assert_eq!(Reply::read(held).status, 200);
    while server.get("/v2/health/ready").status != 200 {
        assert!(Instant::now() < deadline, "it recovers");
    }
}

#[test]
fn draining_answers_what_is_open() {
    let (mut server, control) = odd(Options { policy: PATIENT, ..Options::default() });
    let held = server.open("POST", ODD, &[], command(true, 0.0).to_string().as_bytes());
    wait_for_jobs(&server, 1);
    let app = server.app.clone();
    let opener = std::thread::spawn(move || {
        while app.unready().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        control.gate.open();
    });
    assert!(server.stop(), "everything was answered in time");
    opener.join().unwrap();
    assert_eq!(Reply::read(held).status, 200);
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn the_cache_answers_what_was_asked_before() {
    let (server, control) = odd(Options { cache_bytes: 1 << 20, ..Options::default() });
    let runs = &control.runs;
    let ask = |x: f32| server.post(ODD, &command(false, x)).json()["outputs"].clone();
    assert_eq!(ask(3.0), ask(3.0));
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert_ne!(ask(4.0), ask(3.0));
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    let text = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(text.contains("nv_cache_num_hits_per_model{model=\"odd\",version=\"1\"} 2"), "{text}");
}

#[test]
fn keys_are_asked_for_and_have_quotas() {
    let keys = r#"[{"key": "0123456789abcdef", "name": "web"},
                   {"key": "fedcba9876543210", "name": "slow", "requests_per_second": 0.001, "burst": 2}]"#;
    let (server, _) = odd(Options { keys: Some(Keys::parse(keys).unwrap()), ..Options::default() });
    let ask = |key: &str| {
        let bearer = format!("Bearer {key}");
        server.send("POST", ODD, &[("authorization", &bearer)], command(false, 0.0).to_string().as_bytes())
    };
    assert_eq!(server.post(ODD, &command(false, 0.0)).status, 401);
    assert_eq!(ask("wrong").status, 401);
    assert_eq!(server.get("/metrics").status, 401);
    assert_eq!(server.get("/v2/health/ready").status, 200, "probes have no key");
    assert_eq!(ask("0123456789abcdef").status, 200);
    assert_eq!(server.send("GET", "/v2", &[("x-api-key", "0123456789abcdef")], b"").status, 200);
    assert_eq!((ask("fedcba9876543210").status, ask("fedcba9876543210").status), (200, 200));
    let refused = ask("fedcba9876543210");
    assert_eq!(refused.status, 429);
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() > 100);
    assert!(Keys::parse(r#"[{"key": "short", "name": "x"}]"#).is_err());
}

#[test]
fn any_bytes_get_an_answer() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let json = r#"{"id":"1","parameters":{"timeout":5},"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}"#;
    // A valid body with some bytes changed, cut anywhere, under any header length.
    let body = (proptest::collection::vec((0..json.len(), any::<u8>()), 0..6), 0..json.len(), any::<Option<u16>>());
    runner
        .run(&body, |(changes, cut, length)| {
            let mut bytes = json.as_bytes().to_vec();
            changes.iter().for_each(|(at, b)| bytes[*at] = *b);
            if cut % 3 == 0 {
                bytes.truncate(cut);
            }
            let length = length.map(|l| (l % 300).to_string());
            let headers: Vec<(&str, &str)> =
                length.iter().map(|l| ("inference-header-content-length", l.as_str())).collect();
            let status = server.send("POST", "/v2/models/mlp/infer", &headers, &bytes).status;
            prop_assert!(matches!(status, 200 | 400 | 504), "{}: {:?}", status, String::from_utf8_lossy(&bytes));
            let status = server.send("POST", "/v1/models/mlp:predict", &[], &bytes).status;
            prop_assert!(matches!(status, 200 | 400), "{}", status);
            Ok(())
        })
        .unwrap();
    // Heads that are no HTTP are answered or cut off, and the server lives.
    runner
        .run(&proptest::collection::vec(any::<u8>(), 1..200), |bytes| {
            let mut stream = TcpStream::connect(server.address).unwrap();
            stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
            let _ = stream.write_all(&bytes);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
            Ok(())
        })
        .unwrap();
    assert_eq!(server.get("/v2/health/ready").status, 200);
    wait_for_jobs(&server, 0);
}

#[test]
fn several_free_dimensions_are_batched_by_their_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let f = |x: &[Tensor]| Ok(vec![x[0].cumsum(1)]);
    let example = Tensor::from(Literal::zeros(DType::F32, [1, 3]));
    Export::new("sum").input("x", &example, &["batch", "length"]).write(dir.path().join("sum"), f).unwrap();
    let server = Running::start(Options { roots: vec![dir.path().join("sum")], ..Options::default() });
    for length in [1usize, 3, 7] {
        let x = Literal::generate([2, length], |i| i as f32);
        let answer = server.post("/v2/models/sum/infer", &question(&x)).json();
        let want = Model::load(dir.path().join("sum")).unwrap().run(&[x]).unwrap();
        assert_eq!(numbers(&answer["outputs"][0]["data"]), want[0].to_vec::<f32>().unwrap());
    }
}

#[test]
fn pipelines_are_served_as_one_model() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, scale: f64| {
        let f = move |x: &[Tensor]| Ok(vec![&x[0] * scale, x[0].sum(-1)]);
        let export = Export::new(name).input("x", &Tensor::from(random(&[1, 4], 1)), &["n", ""]);
        export.outputs(&["y", "s"]).write(dir.path().join(name).join("1"), f).unwrap();
    };
    write("a", 3.0);
    write("b", 5.0);
    let place = dir.path().join("both/1");
    std::fs::create_dir_all(&place).unwrap();
    let describe = |second: &str| {
        let text = json!({ "name": "both", "outputs": ["z", "sum"], "steps": [
            { "model": "../../a/1", "inputs": { "x": "image" }, "outputs": { "y": "mid", "s": "sum" } },
            { "model": "../../b/1", "inputs": { "x": second }, "outputs": { "y": "z" } },
        ] });
        std::fs::write(place.join("pipeline.json"), text.to_string()).unwrap();
    };
    describe("mid");
    let server = Running::start(Options { roots: vec![dir.path().into()], ..Options::default() });
    let ask = json!({ "inputs": [{ "name": "image", "shape": [2, 4], "datatype": "FP32", "data": [[1, 2, 3, 4], [0, 0, 0, 1]] }] });
    let answer = server.post("/v2/models/both/infer", &ask).json();
    assert_eq!(numbers(&answer["outputs"][0]["data"]), [15.0, 30.0, 45.0, 60.0, 0.0, 0.0, 0.0, 15.0]);
    assert_eq!(numbers(&answer["outputs"][1]["data"]), [10.0, 1.0]);
    describe("sum");
    let refused = server.post("/v2/repository/models/both/load", &json!({}));
    assert!(
        refused.status == 503
            && refused.json()["error"].as_str().unwrap().contains("takes f32[n, 4], but sum is f32[batch]")
    );
    assert_eq!(server.post("/v2/models/both/infer", &ask).status, 200, "what was loaded goes on");
}
