//! Malformed messages, without sockets: changed bytes, lengths, shapes, headers and frames, cut-off messages. None may
//! crash the server, hang it or get status 500. `TALWEG_FUZZ` is their number, `TALWEG_FUZZ_SEED` the first seed.
//!
//! `scripts/fuzz_serve.py` does the same to a running server over its socket.

mod harness;

use harness::{random, repository};
use prost::Message;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use talweg_serve::proto::{InferTensor, ModelInferRequest};
use talweg_serve::{App, Options, listen};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex, split};
use tokio::task::JoinHandle;

/// How long an answer may take.
const LIMIT: Duration = Duration::from_secs(20);
const TASKS: u64 = 4;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
    fn below(&mut self, n: usize) -> usize {
        (self.roll() % n.max(1) as u64) as usize
    }
    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.roll() as u8).collect()
    }
}

/// Some bytes changed, removed or inserted.
fn flip(d: &mut Dice, data: &[u8]) -> Vec<u8> {
    let mut out = data.to_vec();
    for _ in 0..1 + d.below(8) {
        let at = d.below(out.len() + 1).min(out.len().saturating_sub(1));
        match d.below(4) {
            0 if !out.is_empty() => out[at] = d.roll() as u8,
            1 if !out.is_empty() => out[at] ^= 1 << d.below(8),
            2 => {
                let end = (at + 1 + d.below(9)).min(out.len());
                out.drain(at..end);
            }
            _ => {
                let n = 1 + d.below(9);
                let new = d.bytes(n);
                out.splice(at..at, new);
            }
        }
    }
    out
}

fn odd(d: &mut Dice) -> Value {
    let all = json!([
        -1, 0, 1, 2147483648u64, 9223372036854775807i64, 18446744073709551615u64, 1e308, null, "x", [], {}, true,
        [[1], [2, 3]], [1, 4], [0, 4], [4, 1], "FP64", "BYTES", "\u{0}", "é", [[[[[[1]]]]]], { "binary_data_size": -1 }
    ]);
    let list = all.as_array().unwrap();
    d.pick(list).clone()
}

/// The tree with one place replaced or removed.
fn change(d: &mut Dice, tree: &Value) -> Value {
    let mut out = tree.clone();
    change_in(d, &mut out);
    out
}

fn change_in(d: &mut Dice, at: &mut Value) {
    let is_deep =
        |v: &Value| v.as_object().is_some_and(|o| !o.is_empty()) || v.as_array().is_some_and(|a| !a.is_empty());
    let kind = d.below(10);
    match at {
        Value::Object(map) if !map.is_empty() => {
            let keys: Vec<String> = map.keys().cloned().collect();
            let key = d.pick(&keys).clone();
            match kind {
                0..6 if is_deep(&map[&key]) => change_in(d, &mut map[&key]),
                6 => drop(map.remove(&key)),
                7 => drop(map.insert(format!("{key}x"), odd(d))),
                _ => drop(map.insert(key, odd(d))),
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let i = d.below(list.len());
            match kind {
                0..6 if is_deep(&list[i]) => change_in(d, &mut list[i]),
                6 => drop(list.remove(i)),
                7 => list.push(odd(d)),
                _ => list[i] = odd(d),
            }
        }
        other => *other = odd(d),
    }
}

const HEADERS: [&str; 18] = [
    "content-encoding: gzip",
    "content-encoding: deflate",
    "content-encoding: br",
    "accept-encoding: gzip;q=0, deflate",
    "accept-encoding: gzip",
    "inference-header-content-length: 5",
    "inference-header-content-length: 0",
    "inference-header-content-length: -1",
    "inference-header-content-length: 99999999999999999999",
    "transfer-encoding: chunked",
    "traceparent: 00-0-0-0",
    "x-request-id: \u{1}",
    "authorization: Bearer x",
    "expect: 100-continue",
    "upgrade: h2c",
    "content-type: application/grpc",
    "grpc-timeout: 99999999H",
    "connection: upgrade",
];

/// Valid parts that messages are made of.
struct Parts {
    infer: Value,
    predict: Value,
    grpc: Vec<u8>,
}

impl Parts {
    fn new() -> Parts {
        let x = random(&[2, 4], 3);
        let data: Vec<f32> = x.to_vec().unwrap();
        let tensor =
            InferTensor { name: "x".into(), datatype: "FP32".into(), shape: vec![2, 4], ..InferTensor::default() };
        let message = ModelInferRequest {
            model_name: "mlp".into(),
            inputs: vec![tensor],
            raw_input_contents: vec![x.bytes().to_vec().into()],
            ..ModelInferRequest::default()
        };
        let encoded = message.encode_to_vec();
        Parts {
            infer: json!({ "id": "7", "parameters": { "timeout": 30000000, "priority": 1, "binary_data_output": true },
                "inputs": [{ "name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": {}, "data": data }],
                "outputs": [{ "name": "p", "parameters": { "binary_data": true } }, { "name": "s" }] }),
            predict: json!({ "signature_name": "d", "instances": [{ "x": [1, 2, 3, 4] }, { "x": [5, 6, 7, 8] }] }),
            grpc: [&[0], &(encoded.len() as u32).to_be_bytes()[..], &encoded].concat(),
        }
    }

    /// A message of HTTP/1, wrong in one way or two.
    fn plain(&self, d: &mut Dice) -> Vec<u8> {
        let (path, tree) = match d.below(4) {
            0 => ("/v1/models/mlp:predict", &self.predict),
            _ => ("/v2/models/mlp/infer", &self.infer),
        };
        let kind = d.below(8);
        let mut headers = String::new();
        let mut body = if kind == 0 { change(d, tree) } else { tree.clone() }.to_string().into_bytes();
        match kind {
            1 => body = flip(d, &body),
            2 => {
                let n = d.below(300);
                body = d.bytes(n);
            }
            3 => {
                // JSON with a tensor after it.
                let size = *d.pick(&[32u64, 32, 31, 33, 0, 1 << 40]);
                let mut tree = self.infer.clone();
                let tensor = tree["inputs"][0].as_object_mut().unwrap();
                tensor.remove("data");
                tensor.insert("parameters".into(), json!({ "binary_data_size": size }));
                body = tree.to_string().into_bytes();
                let length = if d.below(4) == 0 { d.below(2 * body.len()) } else { body.len() };
                headers = format!("inference-header-content-length: {length}\r\n");
                let n = 30 + d.below(4);
                body.extend(d.bytes(n));
            }
            4 => headers = format!("{}\r\n{}\r\n", d.pick(&HEADERS), d.pick(&HEADERS)),
            5 => {
                let n = d.below(40);
                let name: String = d.bytes(n).iter().map(|b| char::from(b'a' + b % 26)).collect();
                headers = format!("{name}: {}\r\n", "é\u{7f}".repeat(d.below(50)));
            }
            _ => {}
        }
        let length = if d.below(8) == 0 { d.below(2 * body.len() + 2) } else { body.len() };
        let methods = ["POST", "POST", "POST", "POST", "POST", "POST", "GET", "PUT", "HEAD", "é"];
        let method = if kind == 6 { *d.pick(&methods) } else { "POST" };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n{headers}\r\n");
        let head = if kind == 7 { flip(d, head.as_bytes()) } else { head.into_bytes() };
        [head, body].concat()
    }

    /// A call of gRPC: frames of HTTP/2, changed in the message or anywhere.
    fn frames(&self, d: &mut Dice) -> Vec<u8> {
        let is_inside = d.below(2) == 0;
        let message = if is_inside { flip(d, &self.grpc) } else { self.grpc.clone() };
        let frame = |kind: u8, flags: u8, stream: u32, content: &[u8]| {
            let length = (content.len() as u32).to_be_bytes();
            [&length[1..], &[kind, flags][..], &stream.to_be_bytes()[..], content].concat()
        };
        let mut head: Vec<u8> = vec![0x83, 0x86];
        let path: &[u8] = b"/inference.GRPCInferenceService/ModelInfer";
        let fields: [(&[u8], &[u8]); 3] =
            [(b":path", path), (b":authority", b"x"), (b"content-type", b"application/grpc")];
        for (name, value) in fields {
            head.extend([0, name.len() as u8]);
            head.extend(name);
            head.push(value.len() as u8);
            head.extend(value);
        }
        let all = [
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(),
            frame(4, 0, 0, &[]),
            frame(1, 4, 1, &head),
            frame(0, 1, 1, &message),
        ]
        .concat();
        if is_inside { all } else { flip(d, &all) }
    }
}

/// A pipe to the server and the task that serves its other end.
fn connect(app: &Arc<App>, capacity: usize) -> (DuplexStream, JoinHandle<()>) {
    let (client, server) = duplex(capacity);
    (client, tokio::spawn(listen::serve_stream(app.clone(), server)))
}

/// Waits for both ends of a pipe, with a limit.
async fn within<T>(work: impl Future<Output = T>, serving: JoinHandle<()>, message: &[u8]) -> T {
    let shown = || String::from_utf8_lossy(message).into_owned();
    let done = tokio::time::timeout(LIMIT, work).await;
    let out = done.unwrap_or_else(|_| panic!("the client waits after {:?}", shown()));
    let ended = tokio::time::timeout(LIMIT, serving).await;
    let ended = ended.unwrap_or_else(|_| panic!("the server holds the connection after {:?}", shown()));
    ended.unwrap_or_else(|e| panic!("{e}: {:?}", shown()));
    out
}

/// Sends a message on a connection of its own, in pieces, then closes that side; returns all of the answer. The pipe may
/// hold less than the message and less than the answer.
async fn exchange(app: &Arc<App>, d: &mut Dice, message: &[u8]) -> Vec<u8> {
    let capacity = *d.pick(&[16, 100, 1 << 10, 1 << 16]);
    let (client, serving) = connect(app, capacity);
    let (mut reader, mut writer) = split(client);
    let pieces: Vec<&[u8]> = match d.below(3) {
        0 => message.chunks(1 + d.below(message.len())).collect(),
        _ => vec![message],
    };
    let read = async {
        let mut out = Vec::new();
        let _ = reader.read_to_end(&mut out).await;
        out
    };
    let write = async {
        for piece in pieces {
            // A server that refuses may close before everything is sent.
            let _ = writer.write_all(piece).await;
            tokio::task::yield_now().await;
        }
        let _ = writer.shutdown().await;
    };
    let both = async {
        let (out, ()) = tokio::join!(read, write);
        out
    };
    within(both, serving, message).await
}

/// The outputs of a valid request. The client keeps its side open until it has the answer, as clients do.
async fn outputs(app: &Arc<App>, d: &mut Dice) -> Value {
    let x: Vec<f32> = random(&[1, 4], 1).to_vec().unwrap();
    let tree = json!({ "inputs": [{ "name": "x", "shape": [1, 4], "datatype": "FP32", "data": x }] });
    let (body, limit) = (tree.to_string(), Instant::now() + LIMIT);
    let head = "POST /v2/models/mlp/infer HTTP/1.1\r\nhost: x\r\nconnection: close\r\n";
    let message = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
    loop {
        let (client, serving) = connect(app, *d.pick(&[16, 1 << 10, 1 << 16]));
        let ask = async {
            // A server that refuses answers before it has read the body.
            let (mut reader, mut writer) = tokio::io::split(client);
            let mut out = String::new();
            let (_, read) = tokio::join!(writer.write_all(message.as_bytes()), reader.read_to_string(&mut out));
            read.unwrap();
            out
        };
        let text = within(ask, serving, message.as_bytes()).await;
        let body = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}")).1;
        let answer: Value = serde_json::from_str(body).unwrap_or_else(|e| panic!("{e}: {text}"));
        // In a larger batch, sums may be rounded otherwise; a busy machine may refuse in time.
        if answer["parameters"]["batch_size"] == 1 {
            return answer["outputs"].clone();
        }
        assert!(Instant::now() < limit, "{answer}");
    }
}

async fn campaign(app: Arc<App>, seed: u64, count: u64, want: Value) -> u64 {
    let (parts, mut answered) = (Parts::new(), 0);
    for i in 0..count {
        let mut d = Dice((seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        d.roll();
        let mut message = if d.below(4) == 0 { parts.frames(&mut d) } else { parts.plain(&mut d) };
        if d.below(8) == 0 {
            message.extend(parts.plain(&mut d));
        }
        let answer = exchange(&app, &mut d, &message).await;
        assert!(!answer.starts_with(b"HTTP/1.1 500"), "seed {}: {:?}", seed + i, String::from_utf8_lossy(&message));
        answered += u64::from(!answer.is_empty());
        if i % 20 == 0 {
            assert_eq!(app.unready(), None, "seed {}", seed + i);
            assert_eq!(outputs(&app, &mut d).await, want, "seed {}", seed + i);
        }
    }
    answered
}

fn resident_mb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|p| p.parse::<u64>().ok());
    (pages.unwrap_or(0) * 4096) >> 20
}

#[test]
fn malformed_messages_do_no_harm() {
    let (_dir, options) = repository();
    let app = Arc::new(App::new(Options { request_timeout: LIMIT / 2, ..options }).unwrap());
    app.repository.scan().unwrap();
    let (count, seed) = (setting("TALWEG_FUZZ", 4000), setting("TALWEG_FUZZ_SEED", 1));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (began, before) = (Instant::now(), resident_mb());
    let answered: u64 = runtime.block_on(async {
        let want = outputs(&app, &mut Dice(1)).await;
        let part = |t: u64| campaign(app.clone(), seed + t * count, count / TASKS, want.clone());
        let tasks: Vec<_> = (0..TASKS).map(|t| tokio::spawn(part(t))).collect();
        let mut answered = 0;
        for task in tasks {
            answered += task.await.unwrap();
        }
        answered
    });
    let limit = Instant::now() + LIMIT;
    while app.jobs() > 0 {
        assert!(Instant::now() < limit, "{} requests are left", app.jobs());
        std::thread::sleep(Duration::from_millis(10));
    }
    let (seconds, after) = (began.elapsed().as_secs(), resident_mb());
    println!("{count} messages, {answered} answered, {seconds} s, {before} MiB before, {after} after");
    assert!(answered > count / 4, "{answered} of {count} messages were answered");
    assert!(after < before + 256, "memory grew from {before} to {after} MiB");
}

/// A method that the route does not have is refused before its body is read. With the next request in the same pipe, hyper
/// stopped reading: the client waited for ever, and the server did not notice when it went away.
#[test]
fn a_request_after_an_unread_body_is_answered() {
    let (_dir, options) = repository();
    let app = Arc::new(App::new(options).unwrap());
    app.repository.scan().unwrap();
    let parts = Parts::new();
    let request = |method: &str, path: &str, tree: &Value| {
        let body = tree.to_string();
        format!("{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len())
    };
    let refused = request("PUT", "/v1/models/mlp:predict", &parts.predict);
    let message = refused + &request("POST", "/v2/models/mlp/infer", &parts.infer);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for seed in 0..400 {
            let answer = exchange(&app, &mut Dice(2 * seed + 1), message.as_bytes()).await;
            // The client may be gone before the answer is there.
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 405"), "{}", String::from_utf8_lossy(&answer));
        }
    });
}
