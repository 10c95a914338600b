//! A small client: one connection, kept open, over which one request at a time is sent.

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Method, Request};
use hyper_util::rt::TokioIo;
use ir::Literal;
use serde_json::{Value, json};
use std::io;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};

use crate::wire;

/// A socket of any kind.
pub(crate) trait Socket: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Socket for S {}

/// A connection to `HOST:PORT` or to `unix:PATH`.
pub(crate) async fn connect(address: &str) -> io::Result<Box<dyn Socket>> {
    if let Some(path) = address.strip_prefix("unix:") {
        return Ok(Box::new(UnixStream::connect(path).await?));
    }
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// What the header `Host` says for an address.
pub(crate) fn host_of(address: &str) -> &str {
    if address.starts_with("unix:") { "localhost" } else { address }
}

/// A connection to a server.
pub struct Client {
    host: String,
    key: Option<String>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

/// What a server answered.
pub struct Reply {
    /// The status of HTTP.
    pub status: u16,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Client {
    /// A client of the server at `HOST:PORT` or `unix:PATH`. It connects with the first request.
    pub fn new(host: &str, key: Option<&str>) -> Client {
        let host = host.trim_start_matches("http://").trim_end_matches('/').to_string();
        Client { host, key: key.map(String::from), sender: None }
    }

    async fn sender(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, String> {
        if self.host.starts_with("https://") {
            return Err(format!(
                "{}: TLS is not spoken here; use curl --cacert or tw.serve.Client(context=...)",
                self.host
            ));
        }
        if self.sender.as_ref().is_none_or(SendRequest::is_closed) {
            let stream = connect(&self.host).await.map_err(|e| format!("{}: {e}", self.host))?;
            let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|e| e.to_string())?;
            // Its failure is the failure of the request that uses it.
            tokio::spawn(connection);
            self.sender = Some(sender);
        }
        self.sender.as_mut().ok_or_else(|| "not connected".into())
    }

    /// Sends a request and waits for the whole answer.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Reply, String> {
        let mut request = Request::builder().method(method).uri(path).header("host", host_of(&self.host));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(Full::new(body)).map_err(|e| e.to_string())?;
        let sender = self.sender().await?;
        sender.ready().await.map_err(|e| e.to_string())?;
        let response = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let (head, body) = response.into_parts();
        let body = body.collect().await.map_err(|e| e.to_string())?.to_bytes();
        Ok(Reply { status: head.status.as_u16(), headers: head.headers, body })
    }

    /// JSON from a path.
    pub async fn get(&mut self, path: &str) -> Result<Value, String> {
        let reply = self.send(Method::GET, path, &[], Bytes::new()).await?;
        let value: Value = serde_json::from_slice(&reply.body).map_err(|e| format!("{path}: {e}"))?;
        if reply.status == 200 { Ok(value) } else { Err(error_text(&value)) }
    }

    /// JSON from a path that takes JSON.
    pub async fn post(&mut self, path: &str, body: &Value) -> Result<Value, String> {
        let reply = self.send(Method::POST, path, &[], Bytes::from(body.to_string())).await?;
        let value: Value = serde_json::from_slice(&reply.body).map_err(|e| format!("{path}: {e}"))?;
        if reply.status == 200 { Ok(value) } else { Err(error_text(&value)) }
    }

    /// The outputs of a model for these inputs, by name. Tensors travel as bytes.
    pub async fn infer(&mut self, model: &str, inputs: &[(String, Literal)]) -> Result<Vec<(String, Literal)>, String> {
        let (json_length, body) = request_body(inputs)?;
        let length = json_length.to_string();
        let headers = [("inference-header-content-length", length.as_str())];
        let path = format!("/v2/models/{model}/infer");
        let reply = self.send(Method::POST, &path, &headers, body).await?;
        decode(&reply)
    }
}

fn error_text(value: &Value) -> String {
    value["error"].as_str().map_or_else(|| value.to_string(), String::from)
}

/// The body of a request, and how many bytes of it are JSON.
pub fn request_body(inputs: &[(String, Literal)]) -> Result<(usize, Bytes), String> {
    let mut tensors = Vec::new();
    for (name, l) in inputs {
        let datatype = wire::datatype(l.dtype()).ok_or_else(|| format!("{name}: {} cannot be sent", l.dtype()))?;
        tensors.push(json!({
            "name": name, "shape": l.shape().dims(), "datatype": datatype,
            "parameters": { "binary_data_size": l.bytes().len() },
        }));
    }
    let head = json!({ "inputs": tensors, "parameters": { "binary_data_output": true } }).to_string().into_bytes();
    let json_length = head.len();
    let body = inputs.iter().fold(head, |mut out, (_, l)| {
        out.extend_from_slice(l.bytes());
        out
    });
    Ok((json_length, Bytes::from(body)))
}

/// The outputs of an answer.
pub fn decode(reply: &Reply) -> Result<Vec<(String, Literal)>, String> {
    let length = reply.headers.get("inference-header-content-length");
    let length = length.and_then(|v| v.to_str().ok()?.parse().ok()).unwrap_or(reply.body.len());
    let (text, mut binary) = reply.body.split_at_checked(length).ok_or("the answer is cut off")?;
    let value: Value = serde_json::from_slice(text).map_err(|e| format!("the answer is not JSON: {e}"))?;
    if reply.status != 200 {
        return Err(format!("{}: {}", reply.status, error_text(&value)));
    }
    let mut out = Vec::new();
    for tensor in value["outputs"].as_array().ok_or("the answer has no outputs")? {
        let name = tensor["name"].as_str().unwrap_or("").to_string();
        let shape: Vec<i64> = tensor["shape"].as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
        let dtype = wire::dtype(tensor["datatype"].as_str().unwrap_or("")).map_err(|e| e.message)?;
        let made = match tensor["parameters"]["binary_data_size"].as_u64() {
            Some(size) => {
                let (own, rest) = binary.split_at_checked(size as usize).ok_or("the answer is cut off")?;
                binary = rest;
                wire::from_raw(&name, dtype, &shape, own)
            }
            None => wire::parse(&name, dtype, &tensor["data"].to_string())
                .and_then(|p| wire::from_raw(&name, dtype, &shape, &p.bytes)),
        };
        out.push((name, made.map_err(|e| e.message)?));
    }
    Ok(out)
}
