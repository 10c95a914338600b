//! HTTP/1 connections: several requests on one, bodies in pieces, refusals before bodies, and what is left to hyper.

mod harness;

use harness::{Kept, Running, random, repository};
use ir::Literal;
use model::Model;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::time::{Duration, Instant};
use talweg_serve::Options;
use talweg_serve::batcher::Policy;

const INFER: &str = "/v2/models/mlp/infer";

/// A request with its tensor as bytes: head and body.
fn request(x: &Literal, headers: &str) -> (Vec<u8>, Vec<u8>) {
    let size = x.bytes().len();
    let json = json!({
        "parameters": { "binary_data_output": true },
        "inputs": [{ "name": "x", "shape": x.shape().dims(), "datatype": "FP32", "parameters": { "binary_data_size": size } }],
    });
    let json = json.to_string();
    let length = json.len() + size;
    let head = format!(
        "POST {INFER} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\ninference-header-content-length: {}\r\n\
         {headers}\r\n",
        json.len()
    );
    (head.into_bytes(), [json.as_bytes(), x.bytes()].concat())
}

/// The bytes of the first output.
fn output((status, head, body): &(u16, String, Vec<u8>)) -> Vec<u8> {
    assert_eq!(*status, 200, "{head} {}", String::from_utf8_lossy(body));
    let length = head.lines().find_map(|l| l.strip_prefix("inference-header-content-length: ")).unwrap();
    let (json, tensors) = body.split_at(length.parse().unwrap());
    let json: Value = serde_json::from_slice(json).unwrap();
    let size = json["outputs"][0]["parameters"]["binary_data_size"].as_u64().unwrap();
    tensors[..size as usize].to_vec()
}

fn close(got: &[u8], want: &Literal) {
    let got: Vec<f32> = got.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
    let want: Vec<f32> = want.to_vec().unwrap();
    assert_eq!(got.len(), want.len());
    assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5));
}

#[test]
fn bodies_are_read_wherever_they_are_cut() {
    let (dir, options) = repository();
    let policy = Policy { latency_us: 30_000_000, ..Policy::default() };
    let server = Running::start(Options { policy, ..options });
    let model = Model::load(dir.path().join("mlp/1")).unwrap();
    let mut kept = Kept::new(&server);
    // A few bytes, one read, and more than a connection buffers.
    for rows in [1, 300, 8192, 8195, 1, 8192] {
        let x = random(&[rows, 4], rows as u64);
        let want = model.run(std::slice::from_ref(&x)).unwrap();
        let (head, body) = request(&x, "");
        let whole = [&head[..], &body].concat();
        let (first, second) = (head.len() + 20, head.len() + body.len() / 2 + 1);
        for cuts in [vec![], vec![head.len()], vec![first], vec![first, second], vec![7, second]] {
            let mut from = 0;
            for to in cuts.into_iter().chain([whole.len()]) {
                kept.stream.write_all(&whole[from..to]).unwrap();
                std::thread::sleep(Duration::from_millis(3));
                from = to;
            }
            close(&output(&kept.answer()), &want[0]);
        }
    }
}

#[test]
fn requests_that_follow_each_other_at_once_are_answered_in_order() {
    let (dir, options) = repository();
    let server = Running::start(options);
    let model = Model::load(dir.path().join("mlp/1")).unwrap();
    let inputs: Vec<Literal> = (0..20).map(|i| random(&[1 + i % 3, 4], i as u64)).collect();
    let mut kept = Kept::new(&server);
    let mut all = Vec::new();
    for (i, x) in inputs.iter().enumerate() {
        let (head, body) = request(x, &format!("x-request-id: r{i}\r\n"));
        all.extend([head, body].concat());
        all.extend(b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n");
    }
    kept.stream.write_all(&all).unwrap();
    for (i, x) in inputs.iter().enumerate() {
        let answer = kept.answer();
        assert!(answer.1.contains(&format!("x-request-id: r{i}\r\n")), "{}", answer.1);
        assert!(answer.1.contains("traceparent: 00-") && answer.1.contains("date: "), "{}", answer.1);
        close(&output(&answer), &model.run(std::slice::from_ref(x)).unwrap()[0]);
        assert_eq!(kept.answer().2, b"{\"live\":true}");
    }
    assert_eq!(server.app.jobs(), 0);
}

/// What is not read here goes on in hyper on the same connection, with what was read of it.
#[test]
fn other_framing_goes_on_where_it_began() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let mut kept = Kept::new(&server);
    let (head, body) = request(&random(&[1, 4], 1), "");
    kept.stream.write_all(&[&head[..], &body].concat()).unwrap();
    let want = output(&kept.answer());
    let text = String::from_utf8(head.clone()).unwrap();
    let length = format!("content-length: {}\r\n", body.len());
    let chunked = text.replace(&length, "transfer-encoding: chunked\r\n");
    let chunks = [format!("{:x}\r\n", body.len()).as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    kept.stream.write_all(&[chunked.as_bytes(), &chunks].concat()).unwrap();
    assert_eq!(output(&kept.answer()), want);
    let expecting = text.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    kept.stream.write_all(expecting.as_bytes()).unwrap();
    let mut told = [0; 25];
    kept.stream.read_exact(&mut told).unwrap();
    assert!(told.starts_with(b"HTTP/1.1 100 Continue"));
    kept.stream.write_all(&body).unwrap();
    assert_eq!(output(&kept.answer()), want);
    kept.stream.write_all(b"no request\r\n\r\n").unwrap();
    assert_eq!(kept.answer().0, 400);
    assert!(kept.is_closed());
    let metrics = String::from_utf8(server.get("/metrics").body).unwrap();
    assert!(metrics.contains("route=\"/v2/models/{name}/infer\",method=\"POST\",status=\"200\"} 3"), "{metrics}");
}

/// A refusal leaves before the body came, and the connection is of use after it.
#[test]
fn a_refusal_does_not_wait_for_the_body() {
    let (_dir, options) = repository();
    let server = Running::start(Options { body_max: 1 << 20, ..options });
    let mut kept = Kept::new(&server);
    let (head, body) = request(&random(&[4096, 4], 1), "");
    let unknown = String::from_utf8(head.clone()).unwrap().replace("mlp", "none");
    kept.stream.write_all(unknown.as_bytes()).unwrap();
    let (status, head, _) = kept.answer();
    assert_eq!(status, 404, "{head}");
    kept.stream.write_all(&body).unwrap();
    let (head, body) = request(&random(&[1, 4], 1), "");
    kept.stream.write_all(&[head, body].concat()).unwrap();
    assert_eq!(kept.answer().0, 200);
    // The server does not read a gigabyte to be polite.
    let large = format!("POST {INFER} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", 1 << 30);
    kept.stream.write_all(large.as_bytes()).unwrap();
    let (status, head, _) = kept.answer();
    assert_eq!((status, head.contains("connection: close")), (413, true));
    assert!(kept.is_closed());
}

#[test]
fn draining_closes_idle_connections_and_finishes_others() {
    let (_dir, options) = repository();
    let mut server = Running::start(Options { drain: Duration::from_secs(20), ..options });
    let mut idle = Kept::new(&server);
    idle.stream.write_all(b"GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    assert_eq!(idle.answer().0, 200);
    let mut busy = Kept::new(&server);
    let (head, body) = request(&random(&[1, 4], 1), "");
    busy.stream.write_all(&[&head[..], &body[..10]].concat()).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    let began = Instant::now();
    let ending = std::thread::spawn(move || server.stop());
    assert!(idle.is_closed());
    busy.stream.write_all(&body[10..]).unwrap();
    let (status, head, _) = busy.answer();
    // It began before the server was told to end. Room for it may be taken after that.
    assert!(status == 200 || status == 503, "{head}");
    assert!(head.contains("connection: close"));
    assert!(ending.join().unwrap() && began.elapsed() < Duration::from_secs(15), "everything was answered");
}
