//! The server, and requests over a socket.

#![allow(dead_code)]

use serde_json::Value as Json;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;
use talweg_llm::server::{Api, router};

/// A server at a port that the system chose, until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    pub api: Arc<Api>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<bool>>,
}

impl Server {
    pub fn start(api: Api) -> Server {
        let api = Arc::new(api);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let (to, from) = std::sync::mpsc::channel();
        let routes = router(api.clone(), 1 << 20);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                to.send(listener.local_addr().unwrap()).unwrap();
                let ended = async { drop(stopped.await) };
                talweg_llm::server::serve_routes(listener, routes, None, 64, Duration::from_secs(10), ended).await
            })
        };
        let thread = Some(std::thread::spawn(run));
        Server { address: from.recv().unwrap(), api, stop: Some(stop), thread }
    }
    pub fn open(&self, method: &str, path: &str, head: &str, body: &str) -> TcpStream {
        let mut s = TcpStream::connect(self.address).unwrap();
        let n = body.len();
        write!(
            s,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{head}Content-Length: {n}\r\n\r\n{body}"
        )
        .unwrap();
        s
    }
    pub fn ask(&self, method: &str, path: &str, head: &str, body: &str) -> (u16, String, String) {
        let mut text = String::new();
        self.open(method, path, head, body).read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let body =
            if head.to_lowercase().contains("transfer-encoding: chunked") { unchunked(body) } else { body.into() };
        (status, head.to_lowercase(), body)
    }
    pub fn post(&self, path: &str, body: Json) -> (u16, Json) {
        let (status, _, text) = self.ask("POST", path, "", &body.to_string());
        (status, serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}")))
    }
    /// The events of a stream.
    pub fn stream(&self, path: &str, body: Json) -> Vec<String> {
        let (status, head, text) = self.ask("POST", path, "", &body.to_string());
        assert!(status == 200 && head.contains("text/event-stream"), "{text}");
        text.split("\n\n").filter(|e| !e.is_empty()).map(|e| e.strip_prefix("data: ").unwrap().to_string()).collect()
    }
    pub fn metric(&self, name: &str) -> f64 {
        let (_, _, text) = self.ask("GET", "/metrics", "", "");
        let line = text.lines().find(|l| l.starts_with(&format!("{name}{{"))).unwrap_or_else(|| panic!("{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        assert!(self.thread.take().unwrap().join().unwrap(), "the server drained");
    }
}

fn unchunked(mut text: &str) -> String {
    let mut out = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let n = usize::from_str_radix(size, 16).unwrap();
        if n == 0 {
            break;
        }
        out += &rest[..n];
        text = &rest[n + 2..];
    }
    out
}
