//! `talweg serve`: the inference server. Beside it, `talweg infer` and `talweg bench serve`.

mod bench;
mod bucket;
mod infer;
mod processes;

pub use bench::{BenchOptions, bench};
pub use infer::{InferOptions, infer};

use super::Program;
use crate::{Error, Result};
use ir::ErrorKind;
use serve::batcher::Policy;
use serve::{App, Keep, Keys, Peers, Server, listen, pin};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to serve.
#[derive(clap::Args)]
pub struct Options {
    /// Model repositories (`NAME/VERSION/` inside), exported models or ONNX files; `s3://BUCKET/PREFIX` is a repository too.
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
    /// A Unix domain socket to listen at besides, for clients of the same machine. No TLS is spoken there.
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Let clients of the same machine register files of /dev/shm, of the server's user, and name tensors in them instead
    /// of sending them (Triton's system shared memory).
    #[arg(long)]
    shared_memory: bool,
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
    /// Where models run: `cpu`, `cuda:0` and so on; TALWEG_DEVICE or the CPU without it. Of a list, each process takes one.
    #[arg(long, value_delimiter = ',')]
    device: Vec<String>,
    /// Engines of a process, each with a thread and its own queue.
    #[arg(long, default_value_t = 1)]
    replicas: usize,
    /// Processes behind the port; one for each device by default. One that ends is started again, and the others answer
    /// meanwhile.
    #[arg(long)]
    processes: Option<usize>,
    /// Keep each process, or each engine of a single process, on its own processors.
    #[arg(long)]
    pin: bool,
    /// Threads that read requests and write answers; one for each processor without it.
    #[arg(long, value_name = "N")]
    front_threads: Option<usize>,
    /// Which process of several this is, and where they meet; the first process passes it to those that it starts.
    #[arg(long, hide = true, value_name = "NUMBER:DIRECTORY")]
    member: Option<String>,
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
    /// API keys with quotas: a JSON file. Without it every client is served.
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

/// The other processes of this server, if it was started as one of several.
fn peers(o: &Options) -> Result<Option<Peers>> {
    let Some(text) = &o.member else { return Ok(None) };
    let parsed = text.split_once(':').and_then(|(own, directory)| Some((own.parse().ok()?, PathBuf::from(directory))));
    let (own, directory) = parsed.ok_or_else(|| Error::value(format!("--member: {text} is not NUMBER:DIRECTORY")))?;
    Ok(Some(Peers { directory, own, count: o.processes() }))
}

/// The paths, with ONNX files as exported models in a folder of this process.
fn imported(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let root = std::env::temp_dir().join(format!("talweg-onnx-{}", std::process::id()));
    let one = |p: &PathBuf| if super::onnx::is_onnx(p) { super::onnx::imported(p, &root) } else { Ok(p.clone()) };
    paths.iter().map(one).collect()
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
    let (roots, refresh) = bucket::local(&imported(&o.paths)?)?;
    let peers = peers(o)?;
    let own = peers.as_ref().map_or(0, |p| p.own);
    Ok(serve::Options {
        roots,
        refresh,
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
        device: o.device.get(own % o.device.len().max(1)).cloned(),
        replicas: o.replicas,
        is_pinned: o.pin && peers.is_none(),
        peers,
        body_max: o.body_mb << 20,
        drain: seconds(o.drain, "--drain")?,
        cache_bytes: o.cache_mb << 20,
        is_logging: o.access_log,
        keys,
        shared_memory: o.shared_memory.then(|| PathBuf::from("/dev/shm")),
        ..serve::Options::default()
    })
}

/// A runtime for sockets with so many threads. A peer that closes one is an error of a write, not the end of the process:
/// SIGPIPE, which Python programs may have at its default, gets a handler.
pub(super) fn runtime(threads: usize) -> Result<tokio::runtime::Runtime> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    let runtime = runtime.map_err(failed)?;
    let entered = runtime.enter();
    drop(signal(SignalKind::pipe()).map_err(failed)?);
    drop(entered);
    Ok(runtime)
}

/// Processors that this process may use.
pub(super) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

/// Serves until SIGINT or SIGTERM.
pub fn run(o: &Options, program: &Program, args: &[OsString]) -> Result<()> {
    let began = Instant::now();
    if !o.host.is_loopback() && o.keys.is_none() && o.member.is_none() {
        eprintln!("talweg serve: {} is open to other machines, and no key is asked for (--keys)", o.host);
    }
    if o.processes() > 1 && (o.shared_memory || o.unix.is_some()) {
        // A region would be known to the process alone that was asked to register it.
        return Err(Error::value("--shared-memory and --unix need a single process: leave out --processes"));
    }
    if o.processes() > 1 && o.member.is_none() {
        return processes::run(o, program, args);
    }
    let options = options(o)?;
    if let Some(peers) = options.peers.as_ref().filter(|_| o.pin) {
        // Before other threads start: they inherit it.
        pin::pin(peers.own, peers.count).map_err(failed)?;
    }
    let tls = match (&o.tls_cert, &o.tls_key) {
        (Some(certificate), Some(key)) => Some(listen::tls(certificate, key).map_err(failed)?),
        _ => None,
    };
    let app = Arc::new(App::new(options).map_err(failed)?);
    let ready = app.repository.scan().map_err(|e| failed(e.message))?;
    if ready == 0 {
        return Err(failed("no model could be loaded"));
    }
    let threads = o.front_threads.unwrap_or_else(processors).max(1);
    let is_drained = runtime(threads)?.block_on(async {
        let server = match o.member {
            Some(_) => Server::adopt(app.clone(), processes::inherited(o)?, tls)?,
            None => {
                let mut server = Server::bind(app.clone(), &o.addresses(), tls).await?;
                o.unix.as_ref().map(|path| server.listen_unix(path)).transpose()?;
                for address in server.addresses()? {
                    let seconds = began.elapsed().as_secs_f64();
                    println!("{ready} models at {}://{address}/ after {seconds:.2} s", o.scheme());
                }
                server
            }
        };
        Ok::<bool, std::io::Error>(server.run(ended(app.clone(), o.member.is_some())).await)
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

impl Options {
    fn processes(&self) -> usize {
        self.processes.unwrap_or(self.device.len()).max(1)
    }
    fn addresses(&self) -> Vec<SocketAddr> {
        let ports = [Some(self.port), self.grpc_port].into_iter().flatten();
        ports.map(|port| SocketAddr::new(self.host, port)).collect()
    }
    fn scheme(&self) -> &'static str {
        if self.tls_cert.is_some() { "https" } else { "http" }
    }
}

/// Completes at the first signal, when an engine failed, or when the process that started this one of several is gone.
/// The second signal ends the process.
async fn ended(app: Arc<App>, is_member: bool) {
    let parent = std::os::unix::process::parent_id();
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            () = tokio::time::sleep(Duration::from_millis(500)) => {
                if app.has_failed() || (is_member && std::os::unix::process::parent_id() != parent) {
                    return;
                }
            }
        }
    }
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        std::process::exit(1);
    });
}
