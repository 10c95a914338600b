//! `talweg serve MODEL.gguf`: OpenAI's interface.

use super::{failed, load};
use crate::{DType, Error, Result};
use ::llm::Encoder;
use ::llm::engine::{Engine, Handle, Options as EngineOptions, cache_type};
use ::llm::server::{Api, Keys, router, serve_routes, tls};
use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How to serve a language model.
#[derive(clap::Args)]
pub struct ServeOptions {
    /// A GGUF file, or a folder with config.json, safetensors and tokenizer.json; `llama-1b` and `llama-8b` have random
    /// weights, to size a deployment with.
    model: PathBuf,
    /// The name that clients use; the file's name if it is not given.
    #[arg(long)]
    name: Option<String>,
    /// The address to listen at. Other machines reach the server only if this names one of theirs, as 0.0.0.0 does.
    #[arg(long, default_value = "127.0.0.1")]
    host: IpAddr,
    /// The port; 0 lets the system choose.
    #[arg(long, default_value_t = 8000)]
    port: u16,
    /// Sequences that run at once at most.
    #[arg(long, default_value_t = 32)]
    sequences: usize,
    /// Requests that wait or run at most; more are refused.
    #[arg(long, default_value_t = 256)]
    queue_max: usize,
    /// The first token of an accepted request comes within so many milliseconds: requests that would wait longer are
    /// refused.
    #[arg(long, value_name = "MS")]
    ttft_ms: Option<u64>,
    /// Tokens that a step computes at most.
    #[arg(long, default_value_t = 256)]
    step_tokens: usize,
    /// Tokens of a sequence at most; what the model allows if it is not given.
    #[arg(long, default_value_t = 0)]
    length: usize,
    /// Megabytes of the KV cache.
    #[arg(long, default_value_t = 1024)]
    cache_mb: usize,
    /// How keys and values are stored: f32, f16, bf16, fp8 or int8.
    #[arg(long, default_value = "f16")]
    cache_type: String,
    /// An adapter in PEFT's format that is served as a model of this name; may be repeated. Without a name, it changes
    /// the model itself.
    #[arg(long, value_name = "NAME=FOLDER")]
    lora: Vec<String>,
    /// Adapters that can be loaded at once; as many as are named if it is not given.
    #[arg(long, value_name = "COUNT")]
    max_loras: Option<usize>,
    /// The highest rank of an adapter; that of those named if it is not given.
    #[arg(long, value_name = "RANK")]
    max_lora_rank: Option<usize>,
    /// Clients may load adapters from folders of this machine, and unload them.
    #[arg(long)]
    lora_updates: bool,
    /// A small model with the same vocabulary that guesses tokens ahead; they are verified together and change no text.
    #[arg(long, value_name = "MODEL")]
    draft_model: Option<PathBuf>,
    /// Tokens guessed ahead where a request does not say, by the draft model or else by prompt lookup.
    #[arg(long, value_name = "TOKENS")]
    draft: Option<usize>,
    /// An encoder (BERT, MiniLM) for embeddings and re-ranking, or a cross-encoder for re-ranking; one of each.
    #[arg(long, value_name = "FOLDER")]
    encoder: Vec<PathBuf>,
    /// Megabytes of a request at most.
    #[arg(long, default_value_t = 32)]
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
}

/// Whether a path is a language model: a GGUF file, a folder as Hugging Face writes it, or a name for random weights.
fn is_language_model(path: &Path) -> bool {
    super::random_name(path).is_some()
        || path.extension().is_some_and(|e| e == "gguf")
        || (path.join("config.json").is_file() && path.join("tokenizer.json").is_file())
}

/// `serve` of a language model has flags of its own, and so its own command.
pub fn redirected(mut args: Vec<OsString>) -> Vec<OsString> {
    if args.get(1).is_some_and(|a| a == "serve") && args.iter().skip(2).any(|a| is_language_model(Path::new(a))) {
        args[1] = "serve-language-model".into();
    }
    args
}

fn has_failed(api: &Api) -> bool {
    api.handle().is_some_and(Handle::has_failed)
}

/// The engine of a language model, with its draft model.
fn engine(o: &ServeOptions, cache_dtype: DType) -> Result<Handle> {
    let options = EngineOptions {
        tokens_max: o.step_tokens.max(1),
        chunk_max: o.step_tokens.max(1),
        sequences_max: o.sequences.max(1),
        length_max: o.length,
        cache_bytes: o.cache_mb << 20,
        cache_dtype,
        ..EngineOptions::default()
    };
    let (named, own): (Vec<&String>, Vec<&String>) = o.lora.iter().partition(|l| l.contains('='));
    if own.len() > 1 {
        return Err(Error::value("--lora: several adapters need names (NAME=FOLDER)"));
    }
    let mut model = load(&o.model, own.first().map(|p| Path::new(p.as_str())))?;
    model.set_rope_length(o.length)?;
    let named: Vec<(&str, &Path)> =
        named.iter().filter_map(|l| l.split_once('=')).map(|(n, p)| (n, p.as_ref())).collect();
    if !named.is_empty() || o.max_loras.is_some() || o.lora_updates {
        let folders: Vec<&Path> = named.iter().map(|n| n.1).collect();
        model.make_room_for(&folders, o.max_loras, o.max_lora_rank)?;
    }
    let mut engine = Engine::new(Arc::new(model), options)?;
    for (name, folder) in named {
        engine.load_adapter(name, folder)?;
    }
    if let Some(path) = &o.draft_model {
        let mut draft = load(path, None)?;
        draft.set_rope_length(o.length)?;
        engine.set_draft_model(Arc::new(draft), options)?;
    }
    let handle = Handle::of(engine, o.queue_max.max(1))?;
    Ok(match o.ttft_ms {
        Some(ms) => handle.with_target(Duration::from_millis(ms), options.sequences_max),
        None => handle,
    })
}

/// Serves until SIGINT or SIGTERM.
pub fn serve(o: &ServeOptions) -> Result<()> {
    let began = Instant::now();
    let keys = match &o.keys {
        None => None,
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|e| failed(format!("{}: {e}", path.display())))?;
            Some(Keys::parse(&text).map_err(|e| failed(format!("{}: {e}", path.display())))?)
        }
    };
    if !o.host.is_loopback() && keys.is_none() {
        eprintln!("talweg serve: {} is open to other machines, and no key is asked for (--keys)", o.host);
    }
    let acceptor = match (&o.tls_cert, &o.tls_key) {
        (Some(certificate), Some(key)) => Some(tls(certificate, key).map_err(failed)?),
        _ => None,
    };
    let cache_dtype = cache_type(&o.cache_type).map_err(|e| Error::value(format!("--cache-type: {}", e.message)))?;
    let drain =
        Duration::try_from_secs_f64(o.drain).map_err(|_| Error::value(format!("--drain: {} is no time", o.drain)))?;
    let name = o.name.clone();
    let mut api = if Encoder::is_at(&o.model) {
        let encoder = Encoder::load(&o.model)?;
        let name = name.unwrap_or_else(|| encoder.name.clone());
        Api::of_encoder(encoder, &name, keys)
    } else {
        let handle = engine(o, cache_dtype)?;
        let name = name.unwrap_or_else(|| handle.model().name.clone());
        let draft = o.draft.unwrap_or(if o.draft_model.is_some() { 4 } else { 0 });
        let api = Api::new(handle, &name, keys).with_draft(draft);
        if o.lora_updates { api.with_adapter_updates() } else { api }
    };
    for folder in &o.encoder {
        api = api.with_encoder(Encoder::load(folder)?)?;
    }
    let api = Arc::new(api);
    let runtime = crate::cli::serve::runtime(crate::cli::serve::processors())?;
    let is_drained = runtime.block_on(async {
        let address = SocketAddr::new(o.host, o.port);
        let listener = tokio::net::TcpListener::bind(address).await.map_err(|e| failed(format!("{address}: {e}")))?;
        let scheme = if acceptor.is_some() { "https" } else { "http" };
        let address = listener.local_addr().map_err(failed)?;
        println!("{} at {scheme}://{address}/ after {:.2} s", api.name(), began.elapsed().as_secs_f64());
        let routes = router(api.clone(), o.body_mb << 20);
        Ok::<bool, Error>(serve_routes(listener, routes, acceptor, 4096, drain, ended(api.clone())).await)
    })?;
    match (has_failed(&api), is_drained) {
        (true, _) => Err(failed("the engine failed")),
        (false, false) => Err(failed("some requests took longer than --drain")),
        (false, true) => Ok(()),
    }
}

/// Completes at the first signal, or when the engine failed. The second signal ends the process.
async fn ended(api: Arc<Api>) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = int.recv() => break,
            () = tokio::time::sleep(Duration::from_millis(500)) => if has_failed(&api) { return },
        }
    }
    api.start_draining();
    tokio::spawn(async move {
        tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
        std::process::exit(1);
    });
}
