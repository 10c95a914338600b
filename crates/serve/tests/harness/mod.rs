//! A server over loopback for the tests, and requests to it written by hand.

#![allow(dead_code)] // Each test file uses a part.

use ir::Literal;
use model::Export;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use talweg_serve::{App, Options, Server};
use tensor::Tensor;

pub fn random(shape: &[usize], seed: u64) -> Literal {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / (1u64 << 24) as f32 - 0.5
    };
    Literal::generate(shape, next)
}

/// A perceptron whose weights depend on the seed.
pub fn export(dir: &Path, seed: u64) {
    let (w, b) = (Tensor::from(random(&[8, 4], seed)), Tensor::from(random(&[8], seed + 1)));
    let f = |x: &[Tensor]| Ok(vec![x[0].linear(&w, Some(&b)).relu().softmax(-1), x[0].sum(-1)]);
    let example = Tensor::from(random(&[1, 4], 9));
    let export = Export::new("mlp").input("x", &example, &["batch", ""]).outputs(&["p", "s"]);
    export.write(dir, f).unwrap();
}

/// A server on a thread of its own, drained when dropped.
pub struct Running {
    pub app: Arc<App>,
    pub address: SocketAddr,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<bool>>,
}

impl Running {
    pub fn start(options: Options) -> Running {
        Running::start_with(options, None)
    }
    pub fn start_with(options: Options, tls: Option<tokio_rustls::TlsAcceptor>) -> Running {
        let app = Arc::new(App::new(options).unwrap());
        app.repository.scan().unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let served = app.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            runtime.block_on(async {
                let any = "127.0.0.1:0".parse().unwrap();
                let server = Server::bind(served, &[any], tls).await.unwrap();
                tell.send(server.addresses().unwrap()[0]).unwrap();
                server.run(async { drop(stopped.await) }).await
            })
        });
        Running { app, address: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }
    pub fn stop(&mut self) -> bool {
        drop(self.stop.take());
        self.thread.take().is_some_and(|t| t.join().unwrap())
    }
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        Reply::read(self.open(method, path, headers, body))
    }
    /// Sends a request without waiting for its answer.
    pub fn open(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n", body.len());
        headers.iter().for_each(|(n, v)| head.push_str(&format!("{n}: {v}\r\n")));
        // A server that refuses at once may have closed before everything was sent.
        let _ = stream.write_all(&[head.as_bytes(), b"\r\n", body].concat());
        stream
    }
    pub fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], b"")
    }
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.send("POST", path, &[], body.to_string().as_bytes())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop();
    }
}

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn read(mut stream: TcpStream) -> Reply {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let end = bytes
            .windows(4)
            .position(|w| w == b"\r\n\r\n")
            .unwrap_or_else(|| panic!("no answer: {:?}", String::from_utf8_lossy(&bytes)));
        let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head, body: bytes[end + 4..].to_vec() }
    }
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub fn repository() -> (tempfile::TempDir, Options) {
    let dir = tempfile::tempdir().unwrap();
    export(&dir.path().join("mlp/1"), 1);
    let options = Options { roots: vec![dir.path().into()], ..Options::default() };
    (dir, options)
}

/// A connection that is kept open.
pub struct Kept {
    pub stream: TcpStream,
    read: Vec<u8>,
}

impl Kept {
    pub fn new(server: &Running) -> Kept {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_nodelay(true).unwrap();
        Kept { stream, read: Vec::new() }
    }
    /// The next answer: its status, head and body.
    pub fn answer(&mut self) -> (u16, String, Vec<u8>) {
        let mut bytes = [0; 4096];
        let mut more = |read: &mut Vec<u8>| {
            let n = self.stream.read(&mut bytes).unwrap();
            assert!(n > 0, "closed after {:?}", String::from_utf8_lossy(read));
            read.extend_from_slice(&bytes[..n]);
        };
        let end = loop {
            match self.read.windows(4).position(|w| w == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => more(&mut self.read),
            }
        };
        let head = String::from_utf8(self.read[..end].to_vec()).unwrap().to_lowercase();
        // Without a length there is no body: status 204.
        let length = head.lines().find_map(|l| l.strip_prefix("content-length: ")).map_or(0, |l| l.parse().unwrap());
        while self.read.len() < end + length {
            more(&mut self.read);
        }
        let rest = self.read.split_off(end + length);
        let body = std::mem::replace(&mut self.read, rest)[end..].to_vec();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), head, body)
    }
    /// Whether the server has closed it, with nothing more to read. It says no after the time limit of a read.
    pub fn is_closed(&mut self) -> bool {
        let end = self.stream.read(&mut [0; 16]);
        let is_end = match &end {
            Ok(n) => *n == 0,
            Err(e) => e.kind() == std::io::ErrorKind::ConnectionReset,
        };
        is_end && self.read.is_empty()
    }
}
