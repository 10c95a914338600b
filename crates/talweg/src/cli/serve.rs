//! `talweg serve`, `talweg infer` and `talweg bench serve`: the inference server, a request, and load.

use crate::{DType, Error, Result};
use ir::{ErrorKind, Literal};
use model::Model;
use serve::batcher::Policy;
use serve::client::{Client, request_body};
use serve::load::{self, Load};
use serve::{App, Keep, Keys, Server, listen};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to serve.
#[derive(clap::Args)]
pub struct Options {
    /// Model repositories (`NAME/VERSION/` inside) or exported models.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// The address to listen at. Other machines reach the server only if this names one of theirs, as 0.0.0.0 does.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0 lets the system choose. REST and gRPC are spoken on it.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// A second port, for clients that expect gRPC on its own.
    #[arg(long)]
    grpc_port: Option<u16>,
    /// The latency that 99 of 100 requests keep; batches grow as far as this allows.
    #[arg(long, default_value_t = 25.0)]
    latency_ms: f64,
    /// Rows of a batch at most.
    #[arg(long, default_value_t = 32)]
    batch_max: usize,
    /// How long an incomplete batch waits for more requests.
    #[arg(long, default_value_t = 0)]
    delay_us: u64,
    /// Requests of a model that wait at most; more are refused.
    #[arg(long, default_value_t = 1024)]
    queue_max: usize,
    /// Megabytes of inputs that wait at most.
    #[arg(long, default_value_t = 256)]
    queue_mb: usize,
    /// Engines, each with a thread and a queue of its own.
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Versions of a model that are served, newest first, besides those in `labels.json`.
    #[arg(long, default_value_t = 1)]
    versions: usize,
    /// Look for new versions this often; without it, versions change by the load call alone.
    #[arg(long, value_name = "SECONDS")]
    poll: Option<f64>,
    /// Unload models that were not used so long; the next request loads them.
    #[arg(long, value_name = "SECONDS")]
    idle: Option<f64>,
    /// Megabytes of weights at most; models that were not used for the longest make room.
    #[arg(long, default_value_t = 0)]
    memory_mb: usize,
    /// Megabytes of answers that are kept by the content of their requests.
    #[arg(long, default_value_t = 0)]
    cache_mb: usize,
    /// Megabytes of a request at most.
    #[arg(long, default_value_t = 64)]
    body_mb: usize,
    /// API keys with quotas: a JSON file. Without it everybody may ask.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// A certificate chain (PEM): speaks TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How long open requests may take after SIGTERM; a second signal ends at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    drain: f64,
    /// Write one line of JSON for each request to stderr.
    #[arg(long)]
    access_log: bool,
}

fn failed(e: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, e.to_string())
}

fn seconds(s: f64, flag: &str) -> Result<Duration> {
    Duration::try_from_secs_f64(s).map_err(|_| Error::value(format!("{flag}: {s} is no time")))
}

fn options(o: &Options) -> Result<serve::Options> {
    let latency = seconds(o.latency_ms / 1e3, "--latency-ms")?;
    let keys = match &o.keys {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
            Some(Keys::parse(&text).map_err(|e| failed(format!("{}: {e}", path.display())))?)
        }
    };
    Ok(serve::Options {
        roots: o.paths.clone(),
        policy: Policy {
            latency_us: latency.as_micros() as u64,
            batch_max: o.batch_max.max(1),
            delay_us: o.delay_us,
            requests_max: o.queue_max.max(1),
            bytes_max: o.queue_mb << 20,
            ..Policy::default()
        },
        keep: Keep {
            versions: o.versions,
            bytes_max: o.memory_mb << 20,
            idle: o.idle.map(|s| seconds(s, "--idle")).transpose()?,
        },
        poll: o.poll.map(|s| seconds(s, "--poll")).transpose()?,
        replicas: o.replicas,
        body_max: o.body_mb << 20,
        drain: seconds(o.drain, "--drain")?,
        cache_bytes: o.cache_mb << 20,
        is_logging: o.access_log,
        keys,
        ..serve::Options::default()
    })
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(failed)
}

/// Serves until SIGINT or SIGTERM.
pub fn run(o: &Options) -> Result<()> {
    let began = Instant::now();
    let options = options(o)?;
    let tls = match (&o.tls_cert, &o.tls_key) {
        (Some(certificate), Some(key)) => Some(listen::tls(certificate, key).map_err(failed)?),
        _ => None,
    };
    if !o.host.is_loopback() && options.keys.is_none() {
        eprintln!("talweg serve: {} is open to other machines, and no key is asked for (--keys)", o.host);
    }
    let app = Arc::new(App::new(options).map_err(failed)?);
    let ready = app.repository.scan().map_err(|e| failed(e.message))?;
    if ready == 0 {
        return Err(failed("no model could be loaded"));
    }
    let scheme = if tls.is_some() { "https" } else { "http" };
    let addresses: Vec<SocketAddr> =
        [Some(o.port), o.grpc_port].into_iter().flatten().map(|port| SocketAddr::new(o.host, port)).collect();
    let is_drained = runtime()?.block_on(async {
        let server = Server::bind(app.clone(), &addresses, tls).await?;
        for address in server.addresses()? {
            println!("{ready} models at {scheme}://{address}/ after {:.2} s", began.elapsed().as_secs_f64());
        }
        Ok::<bool, std::io::Error>(server.run(ended(app.clone())).await)
    });
    let is_drained = is_drained.map_err(failed)?;
    if is_drained {
        app.stop();
    }
    match (app.has_failed(), is_drained) {
        (true, _) => Err(failed("an engine failed")),
        (false, false) => Err(failed("some requests took longer than --drain")),
        (false, true) => Ok(()),
    }
}

/// Completes at the first signal, or when an engine failed. The second signal ends the process.
async fn ended(app: Arc<App>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            () = tokio::time::sleep(Duration::from_millis(500)) => if app.has_failed() { return },
        }
    }
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        std::process::exit(1);
    });
}

/// A request to a server, or to a model without one.
#[derive(clap::Args)]
pub struct InferOptions {
    /// The model's name at the server, or an exported model.
    model: String,
    /// Inputs as `NAME=FILE.npy` or `NAME=[[1, 2], [3, 4]]`.
    inputs: Vec<String>,
    /// The server; without it the model is a directory and runs here.
    #[arg(long, value_name = "HOST:PORT")]
    server: Option<String>,
    /// An API key.
    #[arg(long)]
    key: Option<String>,
}

/// Runs a model once and prints its outputs; without inputs, what it takes.
pub fn infer(o: &InferOptions) -> Result<()> {
    let Some(host) = &o.server else { return infer_here(o) };
    runtime()?.block_on(async {
        let mut client = Client::new(host, o.key.as_deref());
        let metadata = client.get(&format!("/v2/models/{}", o.model)).await.map_err(failed)?;
        if o.inputs.is_empty() {
            println!("{metadata:#}");
            return Ok(());
        }
        let dtype = |name: &str| {
            let row = metadata["inputs"].as_array().into_iter().flatten().find(|i| i["name"] == name);
            row.and_then(|r| serve::wire::dtype(r["datatype"].as_str()?).ok())
        };
        let inputs = parse_inputs(&o.inputs, dtype)?;
        let began = Instant::now();
        let outputs = client.infer(&o.model, &inputs).await.map_err(failed)?;
        eprintln!("{:.2} ms", began.elapsed().as_secs_f64() * 1e3);
        print_outputs(&outputs);
        Ok(())
    })
}

fn infer_here(o: &InferOptions) -> Result<()> {
    let model = Model::load(&o.model)?;
    let signature = model.signature();
    if o.inputs.is_empty() {
        return describe(&model);
    }
    let dtype = |name: &str| signature.inputs.iter().find(|s| s.name == name)?.dtype().ok();
    let mut given = parse_inputs(&o.inputs, dtype)?;
    let take = |spec: &model::TensorSpec| {
        let at = given.iter().position(|(n, _)| *n == spec.name);
        let at = at.ok_or_else(|| Error::value(format!("input {:?} is missing", spec.name)))?;
        Ok(given.swap_remove(at).1)
    };
    let inputs = signature.inputs.iter().map(take).collect::<Result<Vec<Literal>>>()?;
    let outputs = model.run(&inputs)?;
    print_outputs(&signature.outputs.iter().map(|s| s.name.clone()).zip(outputs).collect::<Vec<_>>());
    Ok(())
}

/// Prints what a model takes and returns.
fn describe(model: &Model) -> Result<()> {
    let s = model.signature();
    println!("{}: {} bytes of weights{}", s.name, model.weight_bytes(), if s.is_batched { ", batched" } else { "" });
    for (what, specs) in [("input", &s.inputs), ("output", &s.outputs)] {
        specs.iter().for_each(|t| println!("{what:7} {:16} {}", t.name, t.describe()));
    }
    for d in &s.dims {
        println!("size    {:16} {} to {}, a multiple of {}", d.name, d.min, d.max, d.multiple_of);
    }
    Ok(())
}

fn parse_inputs(texts: &[String], dtype: impl Fn(&str) -> Option<DType>) -> Result<Vec<(String, Literal)>> {
    let one = |text: &String| {
        let bad = |e: &str| Error::value(format!("{text}: {e}"));
        let (name, value) = text.split_once('=').ok_or_else(|| bad("NAME=FILE.npy or NAME=[…] is needed"))?;
        let literal = if value.ends_with(".npy") {
            crate::load_npy(value)?.literal()?
        } else {
            let dtype = dtype(name).ok_or_else(|| bad("the model has no such input"))?;
            serde_json::from_str::<serde_json::Value>(value).map_err(|e| bad(&e.to_string()))?;
            let parsed = serve::wire::parse(name, dtype, value).map_err(|e| bad(&e.message))?;
            Literal::from_bytes(dtype, parsed.nesting, &parsed.bytes)?
        };
        Ok((name.to_string(), literal))
    };
    texts.iter().map(one).collect()
}

fn print_outputs(outputs: &[(String, Literal)]) {
    for (name, l) in outputs {
        let mut text = String::new();
        serve::wire::nested(&mut text, l.dtype(), l.shape(), l.bytes());
        println!("{name} {}{} {text}", l.dtype(), l.shape());
    }
}

/// The load to put on a server.
#[derive(clap::Args)]
pub struct BenchOptions {
    /// The server.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8000")]
    server: String,
    /// The model.
    #[arg(long)]
    model: String,
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
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Answers within this time count as goodput.
    #[arg(long, default_value_t = 25.0)]
    latency_ms: f64,
    /// Seed of the arrival times.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// An API key.
    #[arg(long)]
    key: Option<String>,
}

/// Puts load on a server and prints one JSON line.
pub fn bench(o: &BenchOptions) -> Result<()> {
    let report = runtime()?.block_on(async {
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
        let (length, body) = request_body(&inputs).map_err(failed)?;
        let load = Load {
            host: o.server.clone(),
            key: o.key.clone(),
            path: format!("/v2/models/{}/infer", o.model),
            headers: vec![("inference-header-content-length".into(), length.to_string())],
            body,
            clients: o.clients.max(1),
            rate: o.rate,
            duration: seconds(o.seconds, "--seconds")?,
            latency: seconds(o.latency_ms / 1e3, "--latency-ms")?,
            seed: o.seed,
        };
        Ok::<_, Error>(load::run(load).await)
    })?;
    println!("{report}");
    Ok(())
}
