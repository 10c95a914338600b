//! `talweg bench serve`: load on a server.

use super::{failed, processors, runtime, seconds};
use crate::{Error, Result};
use ir::Literal;
use model::Model;
use serve::client::{Client, request_body};
use serve::load::{self, Load};
use std::time::Instant;

/// The load to put on a server.
#[derive(clap::Args)]
pub struct BenchOptions {
    /// The server; `unix:PATH` is a Unix domain socket.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000")]
    server: String,
    /// The model.
    #[arg(long)]
    model: String,
    /// Run the model of this directory in this process instead: what a server is compared with.
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "rate")]
    here: Option<std::path::PathBuf>,
    /// Where the model of `--here` runs, such as `cuda:0`.
    #[arg(long, requires = "here")]
    device: Option<String>,
    /// Rows of each request.
    #[arg(long, default_value_t = 1)]
    rows: usize,
    /// The size of each further free axis.
    #[arg(long, default_value_t = 16)]
    size: usize,
    /// Clients of a closed loop; connections at most of an open one.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Requests a second at random times (open loop); without it, each client sends when it has its answer.
    #[arg(long)]
    rate: Option<f64>,
    /// How long a client waits after an answer before it asks again: the latency of a server that is mostly idle.
    #[arg(long, default_value_t = 0.0, conflicts_with = "rate")]
    pause_ms: f64,
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Answers within this time count as goodput.
    #[arg(long, default_value_t = 25.0)]
    latency_ms: f64,
    /// Seed of the arrival times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Put the inputs into shared memory instead of sending them; the server needs `--shared-memory`.
    #[arg(long)]
    shared_memory: bool,
    /// An API key.
    #[arg(long)]
    key: Option<String>,
}

/// Inputs in shared memory, and the region that the server knows. The file vanishes with it.
struct Shared {
    path: std::path::PathBuf,
    name: String,
}

impl Drop for Shared {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Shared {
    /// Writes and registers the inputs; returns the body of a request for them.
    async fn new(client: &mut Client, inputs: &[(String, Literal)]) -> Result<(Shared, Vec<u8>)> {
        let name = format!("talweg-bench-{}", std::process::id());
        let shared = Shared { path: std::path::Path::new("/dev/shm").join(&name), name };
        let (mut tensors, mut all) = (Vec::new(), Vec::new());
        for (input, l) in inputs {
            let datatype =
                serve::wire::datatype(l.dtype()).ok_or_else(|| failed(format!("{input}: cannot be sent")))?;
            tensors.push(serde_json::json!({
                "name": input, "shape": l.shape().dims(), "datatype": datatype,
                "parameters": {
                    "shared_memory_region": shared.name, "shared_memory_offset": all.len(),
                    "shared_memory_byte_size": l.bytes().len(),
                },
            }));
            all.extend_from_slice(l.bytes());
        }
        std::fs::write(&shared.path, &all).map_err(|e| failed(format!("{}: {e}", shared.path.display())))?;
        let region = serde_json::json!({ "key": format!("/{}", shared.name), "offset": 0, "byte_size": all.len() });
        shared.post(client, "register", &region).await?;
        let body = serde_json::json!({ "inputs": tensors, "parameters": { "binary_data_output": true } });
        Ok((shared, body.to_string().into_bytes()))
    }
    async fn post(&self, client: &mut Client, verb: &str, body: &serde_json::Value) -> Result<()> {
        let path = format!("/v2/systemsharedmemory/region/{}/{verb}", self.name);
        client.post(&path, body).await.map(drop).map_err(failed)
    }
}

/// Runs a model in this process, one batch after the other: throughput in rows, and latency percentiles.
fn bench_here(o: &BenchOptions, directory: &std::path::Path) -> Result<serde_json::Value> {
    let model = Model::load_on(directory, o.device.as_deref())?;
    let signature = model.signature();
    let size = |(i, d): (usize, &model::Dimension)| if i == 0 { o.rows } else { o.size.clamp(d.min, d.max) };
    let sizes: Vec<usize> = signature.dims.iter().enumerate().map(size).collect();
    let zeros = |spec: &model::TensorSpec| -> Result<Literal> {
        let ty = spec.at(&signature.dims, &sizes)?.ok_or_else(|| failed("an input has a derived axis"))?;
        Ok(Literal::zeros(ty.dtype, ty.shape))
    };
    let inputs = signature.inputs.iter().map(zeros).collect::<Result<Vec<Literal>>>()?;
    let prepared = model.prepare(&sizes)?;
    prepared.run(&inputs)?;
    let pause = seconds(o.pause_ms / 1e3, "--pause-ms")?;
    let (limit, began) = (seconds(o.seconds, "--seconds")?, Instant::now());
    let mut times = Vec::new();
    while began.elapsed() < limit {
        let start = Instant::now();
        prepared.run(&inputs)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
        if !pause.is_zero() {
            std::thread::sleep(pause);
        }
    }
    let rows = (times.len() * o.rows) as f64 / began.elapsed().as_secs_f64();
    times.sort_unstable_by(f64::total_cmp);
    let at = |p: f64| times[((times.len() as f64 * p) as usize).min(times.len() - 1)];
    Ok(serde_json::json!({
        "mode": "here", "rows": o.rows, "throughput": rows, "p50_ms": at(0.5), "p99_ms": at(0.99),
    }))
}

/// Puts load on a server and prints one JSON line.
pub fn bench(o: &BenchOptions) -> Result<()> {
    if let Some(directory) = &o.here {
        println!("{}", bench_here(o, directory)?);
        return Ok(());
    }
    let report = runtime(processors())?.block_on(async {
        let mut client = Client::new(&o.server, o.key.as_deref());
        let metadata = client.get(&format!("/v2/models/{}", o.model)).await.map_err(failed)?;
        let mut inputs = Vec::new();
        for tensor in metadata["inputs"].as_array().into_iter().flatten() {
            let dtype = serve::wire::dtype(tensor["datatype"].as_str().unwrap_or("")).map_err(|e| failed(e.message))?;
            let sizes = tensor["shape"].as_array().into_iter().flatten().filter_map(serde_json::Value::as_i64);
            let free = |(i, d): (usize, i64)| usize::try_from(d).unwrap_or(if i == 0 { o.rows } else { o.size });
            let shape: Vec<usize> = sizes.enumerate().map(free).collect();
            inputs.push((tensor["name"].as_str().unwrap_or("").to_string(), Literal::zeros(dtype, shape)));
        }
        let (shared, length, body) = if o.shared_memory {
            let (shared, body) = Shared::new(&mut client, &inputs).await?;
            (Some(shared), body.len(), body.into())
        } else {
            let (length, body) = request_body(&inputs).map_err(failed)?;
            (None, length, body)
        };
        let load = Load {
            host: o.server.clone(),
            key: o.key.clone(),
            path: format!("/v2/models/{}/infer", o.model),
            headers: vec![("inference-header-content-length".into(), length.to_string())],
            body,
            clients: o.clients.max(1),
            rate: o.rate,
            pause: seconds(o.pause_ms / 1e3, "--pause-ms")?,
            duration: seconds(o.seconds, "--seconds")?,
            latency: seconds(o.latency_ms / 1e3, "--latency-ms")?,
            seed: o.seed,
        };
        let report = load::run(load).await;
        if let Some(shared) = shared {
            shared.post(&mut client, "unregister", &serde_json::json!({})).await?;
        }
        Ok::<_, Error>(report)
    })?;
    println!("{report}");
    Ok(())
}
