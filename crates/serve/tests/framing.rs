//! Framing of HTTP/1 as RFC 9112 has it. A case is what a client sends on a new connection, the statuses it gets, and
//! whether the connection is open after them. No case may have the bytes of a body answered as a request.

mod harness;

use harness::{Kept, Running, repository};
use std::io::{Read, Write};
use std::time::Duration;
use talweg_serve::Options;

const BODY: &str = r#"{"inputs":[{"name":"x","shape":[1,4],"datatype":"FP32","data":[1,2,3,4]}]}"#;
const LIVE: &str = "GET /v2/health/live HTTP/1.1\r\nhost: x\r\n\r\n";

/// What is sent, the statuses that come back, and whether the connection stays open.
type Case = (String, &'static [u16], bool);

/// A request for inference with these headers and this body.
fn post(headers: &str, body: &str) -> String {
    format!("POST /v2/models/mlp/infer HTTP/1.1\r\nhost: x\r\n{headers}\r\n{body}")
}

fn plain() -> String {
    post(&format!("content-length: {}\r\n", BODY.len()), BODY)
}

/// A body in two chunks.
fn chunks() -> String {
    let (a, b) = BODY.split_at(10);
    format!("a;name=\"value\"\r\n{a}\r\n{:X}\r\n{b}\r\n0\r\n", b.len())
}

fn length(headers: &str) -> String {
    format!("content-length: {}\r\n{headers}", BODY.len())
}

/// Sends each case on a connection of its own; a request after it shows whether the connection is still in step.
fn check(server: &Running, cases: Vec<Case>) {
    for (sent, want, is_open) in cases {
        let mut kept = Kept::new(server);
        // The server may answer and close before everything is sent.
        let _ = kept.stream.write_all(sent.as_bytes());
        let shown: String = sent.chars().take(400).collect();
        for status in want {
            let (got, head, body) = kept.answer();
            assert_eq!(got, *status, "{shown:?}: {head} {}", String::from_utf8_lossy(&body));
        }
        if is_open {
            kept.stream.write_all(LIVE.as_bytes()).unwrap();
            let (status, head, body) = kept.answer();
            assert_eq!((status, &body[..]), (200, &b"{\"live\":true}"[..]), "{shown:?}: {head}");
        } else {
            assert!(kept.is_closed(), "{shown:?}: the connection is open");
        }
    }
    assert_eq!(server.get("/v2/health/ready").status, 200);
}

#[test]
fn lengths_and_chunks_have_one_meaning() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let mut cases: Vec<Case> = vec![
        (plain(), &[200], true),
        (post("transfer-encoding: chunked\r\n", &(chunks() + "\r\n")), &[200], true),
        (post("Transfer-Encoding: Chunked\r\n", &(chunks() + "x-sum: 1\r\n\r\n")), &[200], true),
        (post("transfer-encoding: chunked\r\n", &(chunks() + "\r\n" + LIVE)), &[200, 200], true),
        (post(&length(&length("")), BODY), &[200], true),
        // Chunked counts, and then the connection ends: an intermediary may have read it otherwise.
        (post("transfer-encoding: chunked\r\ncontent-length: 3\r\n", &(chunks() + "\r\n")), &[200], false),
        (post("content-length: 3\r\ntransfer-encoding: chunked\r\n", &(chunks() + "\r\n" + LIVE)), &[200], false),
        // No body: it is not JSON.
        (post("", ""), &[400], true),
        (post("content-length: 0\r\n", LIVE), &[400, 200], true),
    ];
    let smuggled = format!("{BODY}{LIVE}");
    for bad in [
        "content-length: 5\r\ncontent-length: 6\r\n",
        "content-length: 5, 6\r\n",
        "content-length: -1\r\n",
        "content-length: +5\r\n",
        "content-length: 0x10\r\n",
        "content-length: 5 5\r\n",
        "content-length:\r\n",
        "content-length: 99999999999999999999999\r\n",
        "content-length : 5\r\n",
        "transfer-encoding: gzip\r\n",
        "transfer-encoding: chunked, gzip\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding : chunked\r\n",
        "transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n",
        "x: 1\r\n folded: 2\r\n",
        "x: a\0b\r\n",
        "x: a\rb\r\n",
        "a b: c\r\n",
        ": c\r\n",
    ] {
        cases.push((post(bad, &smuggled), &[400], false));
    }
    for bad in
        ["xyz\r\n", "-5\r\nhello\r\n", "ffffffffffffffffff\r\n", "5\r\nhelloXX0\r\n\r\n", " 5\r\nhello\r\n0\r\n\r\n"]
    {
        cases.push((post("transfer-encoding: chunked\r\n", &format!("{bad}{LIVE}")), &[400], false));
    }
    check(&server, cases);
}

#[test]
fn hosts_targets_methods_and_versions() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let get = |line: &str, headers: &str| format!("{line}\r\n{headers}\r\n");
    let with_host = |line: &str| get(line, "host: x\r\n");
    let cases: Vec<Case> = vec![
        (get("GET /v2/health/live HTTP/1.1", ""), &[400], true),
        (get("GET /v2/health/live HTTP/1.1", "host: a\r\nhost: b\r\n"), &[400], true),
        (get("GET /v2/health/live HTTP/1.1", "host: a/b\r\n"), &[400], true),
        (get("GET /v2/health/live HTTP/1.1", "host: u@b\r\n"), &[400], true),
        (get("GET /v2/health/live HTTP/1.1", "host:\r\n"), &[200], true),
        (get("GET /v2/health/live HTTP/1.1", "Host: [::1]:80\r\n"), &[200], true),
        (plain().replace("host: x\r\n", ""), &[400], true),
        (with_host("GET http://other/v2/health/live HTTP/1.1"), &[200], true),
        (plain().replace("POST ", "POST http://x:1"), &[200], true),
        (get("GET http://other/v2/health/live HTTP/1.1", ""), &[400], true),
        (with_host("GET v2/health/live HTTP/1.1"), &[400], false),
        (with_host("OPTIONS * HTTP/1.1"), &[204], true),
        (with_host("OPTIONS /v2/models/mlp/infer HTTP/1.1"), &[405], true),
        (with_host("TRACE /v2/health/live HTTP/1.1"), &[405], true),
        (with_host("BREW /v2/health/live HTTP/1.1"), &[405], true),
        (with_host("get /v2/health/live HTTP/1.1"), &[405], true),
        (with_host("CONNECT x:80 HTTP/1.1"), &[404], true),
        (with_host("GET /v2/health/live HTTP/1.2"), &[400], false),
        (with_host("GET /v2/health/live HTTP/3"), &[400], false),
        (with_host("GET  /v2/health/live HTTP/1.1"), &[400], false),
        (get("GET /v2/health/live HTTP/1.0", ""), &[200], false),
        (get("GET /v2/health/live HTTP/1.0", "connection: keep-alive\r\n"), &[200], true),
        (plain().replace("HTTP/1.1", "HTTP/1.0"), &[200], false),
        (post("transfer-encoding: chunked\r\n", &chunks()).replace("HTTP/1.1", "HTTP/1.0"), &[400], false),
        // A body of a GET means nothing, but it is framed.
        (get("GET /v2/health/live HTTP/1.1", "host: x\r\ncontent-length: 3\r\n") + "abc" + LIVE, &[200, 200], true),
        // Empty lines before a request, and lines that end with LF alone.
        (format!("\r\n\r\n{LIVE}"), &[200], true),
        (LIVE.replace("\r\n", "\n"), &[200], true),
        (get("GET /v2/health/live HTTP/1.1", "host: x\r\nconnection: close\r\n") + LIVE, &[200], false),
        (get("GET /v2/health/live HTTP/1.1", "host: x\r\nconnection: keep-alive, close\r\n") + LIVE, &[200], false),
        // Upgrades are not offered: the request is answered as it is.
        (get("GET /v2/health/live HTTP/1.1", "host: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n"), &[200], true),
        (
            get("GET /v2/health/live HTTP/1.1", "host: x\r\nconnection: upgrade, http2-settings\r\nupgrade: h2c\r\n"),
            &[200],
            true,
        ),
    ];
    check(&server, cases);
}

#[test]
fn heads_are_bounded() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let with = |headers: &str| format!("GET /v2/health/live HTTP/1.1\r\nhost: x\r\n{headers}\r\n");
    let many = |n: usize| (0..n).map(|i| format!("x-{i}: 1\r\n")).collect::<String>();
    check(
        &server,
        vec![
            (with(&many(60)), &[200], true),
            (with(&many(90)), &[200], true),
            (with(&many(200)), &[431], false),
            (with(&format!("x: {}\r\n", "y".repeat(100_000))), &[200], true),
            (with(&format!("x: {}\r\n", "y".repeat(2_000_000))), &[431], false),
            (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(80_000)), &[414], false),
            (format!("GET /{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(20_000)), &[404], true),
        ],
    );
}

/// An answer to HEAD has the headers of the one to GET, and no body: what follows is the next answer.
#[test]
fn head_has_no_body() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let mut kept = Kept::new(&server);
    kept.stream.write_all(format!("{}{LIVE}", LIVE.replace("GET", "HEAD")).as_bytes()).unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b"{\"live\":true}") {
        let mut bytes = [0; 512];
        let n = kept.stream.read(&mut bytes).unwrap();
        assert!(n > 0);
        text.extend_from_slice(&bytes[..n]);
    }
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 2, "{text}");
    assert_eq!(text.matches("content-length: 13").count(), 2, "{text}");
    assert_eq!(text.matches("{\"live\":true}").count(), 1, "{text}");
}

/// A client that waits to be asked for its body is not asked if the request is refused.
#[test]
fn a_refused_request_is_not_asked_for_its_body() {
    let (_dir, options) = repository();
    let server = Running::start(options);
    let mut kept = Kept::new(&server);
    let head = post(&length("expect: 100-continue\r\n"), "");
    kept.stream.write_all(head.replace("mlp", "none").as_bytes()).unwrap();
    let (status, head, _) = kept.answer();
    assert_eq!(status, 404, "{head}");
}

/// A client that sends its head byte by byte holds a connection for a bounded time. An idle one may wait longer.
#[test]
fn a_head_that_does_not_end_is_not_waited_for() {
    let (_dir, options) = repository();
    let server = Running::start(Options { head_timeout: Duration::from_millis(200), ..options });
    let (mut idle, mut slow) = (Kept::new(&server), Kept::new(&server));
    slow.stream.write_all(&LIVE.as_bytes()[..20]).unwrap();
    assert!(slow.is_closed());
    idle.stream.write_all(LIVE.as_bytes()).unwrap();
    assert_eq!(idle.answer().0, 200);
}

/// The answer to a request whose body is too large arrives, although the client still sends: the socket is not reset.
#[test]
fn an_answer_is_not_lost_when_the_connection_closes() {
    let (_dir, options) = repository();
    let server = Running::start(Options { body_max: 1 << 20, ..options });
    let mut kept = Kept::new(&server);
    kept.stream.write_all(post("content-length: 8000000\r\n", "").as_bytes()).unwrap();
    for _ in 0..40 {
        // Each write would fail after a reset.
        kept.stream.write_all(&[b'x'; 65_536]).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    let (status, head, _) = kept.answer();
    assert!(status == 413 && head.contains("connection: close"), "{head}");
}
