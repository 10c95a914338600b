//! Tensors in shared memory, and requests over a Unix domain socket.

mod harness;

use harness::{Reply, Running, random, repository};
use ir::Literal;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use talweg_serve::{App, Options, Server};

const INFER: &str = "/v2/models/mlp/infer";

fn input(rows: usize, region: &str, offset: u64, byte_size: u64) -> Value {
    json!({ "name": "x", "shape": [rows, 4], "datatype": "FP32", "parameters": {
        "shared_memory_region": region, "shared_memory_offset": offset, "shared_memory_byte_size": byte_size } })
}

fn region(server: &Running, name: &str, verb: &str, body: &Value) -> Reply {
    server.post(&format!("/v2/systemsharedmemory/region/{name}/{verb}"), body)
}

fn start(shared: &Path) -> (tempfile::TempDir, Running) {
    let (dir, options) = repository();
    (dir, Running::start(Options { shared_memory: Some(shared.into()), ..options }))
}

fn numbers(bytes: &[u8]) -> Vec<f32> {
    Literal::from_bytes(ir::DType::F32, [bytes.len() / 4], bytes).unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn inputs_and_outputs_lie_in_shared_memory() {
    let shared = tempfile::tempdir().unwrap();
    let (_dir, server) = start(shared.path());
    let x = random(&[2, 4], 5);
    std::fs::write(shared.path().join("in"), [&[9; 64], x.bytes()].concat()).unwrap();
    std::fs::write(shared.path().join("out"), [7; 256]).unwrap();
    assert_eq!(server.get("/v2").json()["extensions"].as_array().unwrap().last().unwrap(), "system_shared_memory");
    assert_eq!(server.get("/v2/systemsharedmemory/status").json(), json!([]));
    assert_eq!(region(&server, "in", "register", &json!({ "key": "/in", "byte_size": 96 })).status, 200);
    let whole = json!({ "key": "out", "offset": 16, "byte_size": 240 });
    assert_eq!(region(&server, "out", "register", &whole).status, 200);
    assert_eq!(server.get("/v2/systemsharedmemory/status").json().as_array().unwrap().len(), 2);
    let one = server.get("/v2/systemsharedmemory/region/out/status").json();
    assert_eq!(one, json!([{ "name": "out", "key": "out", "offset": 16, "byte_size": 240 }]));

    let to = json!({ "name": "p", "parameters": {
        "shared_memory_region": "out", "shared_memory_offset": 8, "shared_memory_byte_size": 100 } });
    let asked = json!({ "inputs": [input(2, "in", 64, 32)], "outputs": [to, { "name": "s" }] });
    let reply = server.post(INFER, &asked);
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    let outputs = reply.json()["outputs"].clone();
    assert_eq!(outputs[0]["shape"], json!([2, 8]));
    let place = json!({ "shared_memory_region": "out", "shared_memory_offset": 8, "shared_memory_byte_size": 64 });
    assert_eq!(outputs[0]["parameters"], place);
    assert!(outputs[0].get("data").is_none() && outputs[1]["data"].is_array());

    // The same as over the socket.
    let data = json!([{ "name": "x", "shape": [2, 4], "datatype": "FP32", "data": numbers(x.bytes()) }]);
    let sent = server.post(INFER, &json!({ "inputs": data })).json();
    let file = std::fs::read(shared.path().join("out")).unwrap();
    let p: Vec<f32> =
        sent["outputs"][0]["data"].as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect();
    assert_eq!(numbers(&file[24..88]), p);
    assert!(file[..24].iter().chain(&file[88..]).all(|b| *b == 7), "only the tensor is written");
    assert_eq!(sent["outputs"][1]["data"], outputs[1]["data"]);
    assert_eq!(server.post("/v2/systemsharedmemory/unregister", &json!({})).status, 200);
    assert_eq!(server.post(INFER, &asked).status, 400);
    assert_eq!(server.get("/v2/cudasharedmemory/status").json(), json!([]));
    assert_eq!(server.post("/v2/cudasharedmemory/region/a/register", &json!({})).status, 400);
}

#[test]
fn hostile_regions_are_refused_and_the_server_goes_on() {
    let shared = tempfile::tempdir().unwrap();
    let (_dir, server) = start(shared.path());
    let path = shared.path().join("in");
    std::fs::write(&path, [0; 8192]).unwrap();
    for body in [
        json!({}),
        json!({ "key": "/in" }),
        json!({ "key": "/in", "byte_size": -1 }),
        json!({ "key": "/in", "byte_size": 8193 }),
        json!({ "key": "/in", "byte_size": u64::MAX, "offset": u64::MAX }),
        json!({ "key": "../in", "byte_size": 1 }),
        json!({ "key": "/other", "byte_size": 1 }),
        json!([]),
    ] {
        assert_eq!(region(&server, "a", "register", &body).status, 400, "{body}");
    }
    assert_eq!(region(&server, "a", "register", &json!({ "key": "/in", "byte_size": 8192 })).status, 200);
    let ask = |input: Value| server.post(INFER, &json!({ "inputs": [input] })).status;
    assert_eq!(ask(input(2, "a", 8160, 32)), 200);
    for bad in [
        input(2, "a", 8161, 32),
        input(2, "a", u64::MAX, 32),
        input(2, "a", 0, 31),
        input(2, "b", 0, 32),
        json!({ "name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": { "shared_memory_region": 7 } }),
        json!({ "name": "x", "shape": [2, 4], "datatype": "FP32", "parameters": { "shared_memory_region": "a" } }),
        json!({ "name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4],
                "parameters": { "shared_memory_region": "a", "shared_memory_byte_size": 16 } }),
    ] {
        assert_eq!(ask(bad.clone()), 400, "{bad}");
    }
    // Reading mapped memory behind the end of a file would end the server.
    std::fs::File::options().write(true).open(&path).unwrap().set_len(4096).unwrap();
    let reply = server.post(INFER, &json!({ "inputs": [input(2, "a", 8160, 32)] }));
    assert!(reply.status == 400 && String::from_utf8_lossy(&reply.body).contains("shorter"));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(ask(input(2, "a", 0, 32)), 200, "a file without a name is still there");
    let (_other, options) = repository();
    let off = Running::start(options);
    let reply = region(&off, "a", "register", &json!({ "key": "/in", "byte_size": 1 }));
    assert!(reply.status == 404 && String::from_utf8_lossy(&reply.body).contains("--shared-memory"));
    assert_eq!(server.get("/v2/systemsharedmemory/region/other/status").status, 404);
}

#[test]
fn a_unix_socket_answers_and_vanishes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // A server that was killed has left its socket.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let (_dir, options) = repository();
    let app = Arc::new(App::new(options).unwrap());
    app.repository.scan().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let mut server = runtime.block_on(Server::bind(app.clone(), &[], None)).unwrap();
    let entered = runtime.enter();
    server.listen_unix(&path).unwrap();
    let mut second = runtime.block_on(Server::bind(app, &[], None)).unwrap();
    assert!(second.listen_unix(&path).is_err(), "another server listens there");
    drop(entered);
    let running = runtime.spawn(server.run(async { drop(stopped.await) }));
    let body = r#"{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}"#;
    let mut client = UnixStream::connect(&path).unwrap();
    let head =
        format!("POST {INFER} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
    client.write_all((head + body).as_bytes()).unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("\"data\":[10"), "{text}");
    stop.send(()).unwrap();
    assert!(runtime.block_on(running).unwrap() && !path.exists());
}
