//! `talweg launch`: an unchanged training program on several processes.

use super::plan::{Searched, resolved};
use super::{Program, SUCCESS, page};
use crate::{Error, ErrorKind, Result};
use dist::launch::{Dashboard, Hang, Launch, Machine, Outcome, Restart};
use dist::{Cluster, Consistency, Endpoint, Filter, Rule};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown, register_usize};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What a call between processes may take, unless `TALWEG_TIMEOUT` says otherwise.
const TIMEOUT: u64 = 300;
/// What a program may do in silence after its training, unless an option says otherwise.
const EXIT: Duration = Duration::from_secs(3600);
/// The status of a program that a signal ended is this and the signal's number.
const SIGNALED: i32 = 128;

/// How many processes, and how they work together.
#[derive(clap::Args)]
pub struct Options {
    /// Worker processes; each takes its shard of every batch. N: all must finish; MIN:MAX: the job
    /// succeeds while at least MIN are left.
    #[arg(long, default_value = "1", value_parser = workers)]
    workers: (u32, u32),
    /// A file with the number of workers. Writing another number into it resizes the running job: it stops
    /// after a common step and resumes with that many workers. The program must write checkpoints and
    /// resume from them.
    #[arg(long, value_name = "FILE")]
    resize: Option<PathBuf>,
    /// A mesh of processes with named axes, as data=2,tensor=2: the train step of the program, jitted, is cut over it
    /// as --plan says. It states the number of workers.
    #[arg(long, value_name = "AXIS=SIZE,…", conflicts_with_all = ["workers", "servers", "resize", "wire"])]
    mesh: Option<String>,
    /// How the program is cut over the mesh: data, fsdp, megatron, or a file with a line for each pattern over names
    /// of parameters. Settings follow: data,microbatches=8,schedule=1f1b. auto searches as `talweg plan` does; --mesh
    /// may then be a number. A file may state its mesh.
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = ["workers", "servers", "resize", "wire"])]
    plan: Option<String>,
    /// The machines that --plan auto is for: see `talweg plan`.
    #[arg(long, default_value = "local", value_name = "NAME|FILE")]
    cluster: String,
    /// An exchange between ranks that the plan does not ask for is an error.
    #[arg(long)]
    strict: bool,
    /// Servers that hold the parameters; without any, workers all-reduce gradients.
    #[arg(long, default_value_t = 0)]
    servers: u32,
    /// Consistency model: bsp, ssp:S, async or backup:B; or a custom rule. In Python it is FILE.py:FUNCTION, which
    /// gets the step of a read and the steps that each worker has settled, and returns whether the read is admitted.
    /// In Rust it is a name that the calling program knows.
    #[arg(long, default_value = "bsp")]
    consistency: String,
    /// Compress gradients: bf16, int8, 1bit or top:SHARE, with error feedback.
    #[arg(long, value_name = "FORM")]
    wire: Option<Filter>,
    /// Servers that hold a copy of each parameter.
    #[arg(long, default_value_t = 2)]
    copies: usize,
    /// When a lost worker or server is restarted.
    #[arg(long, value_enum, default_value = "failure")]
    restart: When,
    /// Restarts of each process.
    #[arg(long, default_value_t = 3)]
    max_restarts: u32,
    /// Restarts of the whole job from its newest checkpoint, or from the servers' disks, after all
    /// copies of a partition are lost.
    #[arg(long, default_value_t = 1)]
    max_job_restarts: u32,
    /// Seconds of silence after which a process is declared dead.
    #[arg(long, default_value_t = 5.0, value_parser = seconds)]
    heartbeat_timeout: f64,
    /// Seconds without progress after which a worker is killed and replaced; 0: never.
    /// Default: 20 median steps, at least a minute, and only if others wait for it.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    hang_timeout: Option<f64>,
    /// Seconds that a worker may stay silent after its training is done; then it is killed, and the job
    /// fails. 0: no limit. Default: --hang-timeout if given, else an hour.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    exit_timeout: Option<f64>,
    /// A file of machines, one line each: NAME, or NAME slots=N. Other machines are reached by ssh and
    /// need the program in the same folder.
    #[arg(long, value_name = "FILE")]
    hosts: Option<PathBuf>,
    /// The program that reaches other machines.
    #[arg(long, default_value = "ssh", value_name = "PROGRAM")]
    ssh: OsString,
    /// Host the membership store in an etcd cluster, so that the job survives this launcher:
    /// etcd://HOST:PORT[,HOST:PORT…]/JOB.
    #[arg(long, value_name = "URL")]
    membership: Option<String>,
    /// Encrypt links: a folder with the authority's ca.crt and the processes' tls.crt and tls.key,
    /// the same on every machine. `talweg certificates` makes one.
    #[arg(long, value_name = "FOLDER")]
    tls: Option<PathBuf>,
    /// Seconds between progress lines; 0: none.
    #[arg(long, default_value_t = 10.0, value_parser = seconds)]
    progress: f64,
    /// Serve a dashboard of the job at this port of localhost; 0 takes a free one.
    #[arg(long, value_name = "PORT")]
    dashboard: Option<u16>,
    /// The program and its arguments; a `.py` file runs under the interpreter of this command, or python3.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    program: Vec<OsString>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum When {
    /// Whenever it fails.
    Failure,
    /// If a signal ended it.
    Signal,
    /// Never.
    Never,
}

fn workers(text: &str) -> std::result::Result<(u32, u32), String> {
    let bad = |_| format!("N or MIN:MAX is expected, not {text:?}");
    let (min, max) = text.split_once(':').unwrap_or((text, text));
    Ok((min.parse().map_err(bad)?, max.parse().map_err(bad)?))
}
fn seconds(text: &str) -> std::result::Result<f64, String> {
    let n: f64 = text.parse().map_err(|_| format!("a number of seconds is expected, not {text:?}"))?;
    if (0.0..1e6).contains(&n) { Ok(n) } else { Err(format!("a number of seconds is expected, not {text}")) }
}

/// The cluster, whose leases are as long as a process may be silent.
fn membership(url: &str, silence: f64) -> Result<Endpoint> {
    match url.parse() {
        Ok(Endpoint::Etcd(c)) => Ok(Endpoint::Etcd(Cluster { ttl: Duration::from_secs(silence.ceil() as u64), ..c })),
        Ok(other) => Err(Error::value(format!("--membership etcd://HOST:PORT/JOB is expected, not {other}"))),
        Err(e) => Err(Error::value(e.to_string())),
    }
}

/// The path from the root: processes may change their folder.
fn whole(folder: &Path) -> Result<PathBuf> {
    folder.canonicalize().map_err(|e| Error::value(format!("{}: {e}", folder.display())))
}

/// When a worker that does not move is taken for hung.
fn hang(seconds: Option<f64>) -> Hang {
    let timeout = std::env::var("TALWEG_TIMEOUT").ok().and_then(|t| t.parse().ok()).unwrap_or(TIMEOUT);
    match seconds {
        None => Hang::Auto { timeout: Duration::from_secs(timeout) },
        Some(0.0) => Hang::Off,
        Some(s) => Hang::After(Duration::from_secs_f64(s)),
    }
}

/// How long a worker may take to end after its training.
fn exit(seconds: Option<f64>) -> Option<Duration> {
    Some(seconds.map_or(EXIT, Duration::from_secs_f64)).filter(|limit| !limit.is_zero())
}

/// A flag that the first SIGINT or SIGTERM sets, and which of them it was; the second ends this process at
/// once, and the workers with it.
fn signals() -> std::io::Result<(Arc<AtomicBool>, Arc<AtomicUsize>)> {
    let (stop, which) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset and only sets it.
        register_conditional_shutdown(signal, SIGNALED + signal, stop.clone())?;
        register_usize(signal, which.clone(), signal as usize)?;
        register(signal, stop.clone())?;
    }
    Ok((stop, which))
}

/// Becomes the command, which ends with the launcher.
pub fn guard(parent: u32, command: &[OsString]) -> Result<()> {
    Err(parallel::error(dist::launch::guarded(parent, command)))
}

/// A mesh: the number of its ranks, what they are told, and the file of a plan that was searched.
type Meshed = (Option<u32>, Vec<(&'static str, String)>, Option<Searched>);

/// The mesh that the options state, if they state one.
fn meshed(o: &Options, own: &Program) -> Result<Meshed> {
    if o.mesh.is_none() && o.plan.is_none() {
        let unused = o.strict.then_some("--strict says how exchanges of a mesh are checked: give --mesh or --plan");
        return unused.map_or(Ok((None, Vec::new(), None)), |e| Err(Error::value(e)));
    }
    let name = o.plan.as_deref().unwrap_or("data");
    let (mesh, plan, file) = resolved((o.mesh.as_deref(), name, &o.cluster), &o.program, own)?;
    // Processes may change their folder.
    let (name, settings) = plan.split_at(plan.find(',').unwrap_or(plan.len()));
    let whole = whole(Path::new(name)).map_or(name.to_string(), |p| p.display().to_string());
    let plan = if tensor::Plan::named(name).is_some() { name.to_string() } else { whole } + settings;
    let plan = if o.strict { plan + ",strict" } else { plan };
    Ok((Some(mesh.ranks() as u32), vec![(parallel::MESH, mesh.to_string()), (parallel::PLAN, plan)], file))
}

/// Starts the processes and waits for them.
pub fn run(o: &Options, own: &Program) -> Result<u8> {
    let mut program = o.program.clone();
    if program.first().is_some_and(|p| Path::new(p).extension().is_some_and(|e| e == "py")) {
        program.insert(0, own.python.clone());
    }
    let (mesh, vars, _file) = meshed(o, own)?;
    let count = mesh.map_or(o.workers, |n| (n, n));
    let again = |words: &[&str]| own.own.iter().cloned().chain(words.iter().map(OsString::from)).collect();
    let machines = match &o.hosts {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            let text = text.map_err(|e| Error::new(ErrorKind::Io, format!("reading {}: {e}", file.display())))?;
            Machine::parse_all(&text).map_err(parallel::error)?
        }
        None => vec![Machine::here(if o.resize.is_some() { u32::MAX } else { count.1 })],
    };
    // Servers are told a custom rule by its name; workers only how to behave under it.
    let (rule, server): (Arc<dyn Consistency>, _) = match o.consistency.parse::<Rule>() {
        Ok(rule) => (Arc::new(rule), again(&["store-server"])),
        Err(e) => {
            let rule = super::store::found(&o.consistency, own, e)?;
            (rule, again(&["store-server", "--consistency", &o.consistency]))
        }
    };
    let launch = Launch {
        workers: count.1,
        workers_min: count.0,
        resize: o.resize.clone(),
        servers: o.servers,
        copies: o.copies,
        rule: rule.clone(),
        wire: o.wire,
        vars,
        restart: match o.restart {
            When::Failure => Restart::Failure,
            When::Signal => Restart::Signal,
            When::Never => Restart::Never,
        },
        restarts_max: o.max_restarts,
        job_restarts_max: o.max_job_restarts,
        silence: Duration::from_secs_f64(o.heartbeat_timeout),
        hang: hang(o.hang_timeout),
        exit: exit(o.exit_timeout.or(o.hang_timeout)),
        progress: Duration::from_secs_f64(o.progress),
        machines,
        ssh: o.ssh.clone(),
        membership: o.membership.as_deref().map(|url| membership(url, o.heartbeat_timeout)).transpose()?,
        is_fresh: false,
        tls: o.tls.as_deref().map(whole).transpose()?,
        guard: again(&["guard", &std::process::id().to_string()]),
        program,
        server,
    };
    let board = Arc::new(Dashboard::default());
    if let Some(port) = o.dashboard {
        page::serve(port, board.clone(), rule)?;
    }
    if o.servers > 0 && o.copies.min(o.servers as usize) == 1 {
        board.note("each parameter is on one server only: if that is lost, so is what it holds");
    }
    let (stop, which) = signals().map_err(|e| Error::new(ErrorKind::Io, format!("listening to signals: {e}")))?;
    match launch.run(&board, &stop).map_err(parallel::error)? {
        Outcome::Done => Ok(SUCCESS),
        Outcome::Stopped => Ok((SIGNALED as usize + which.load(Ordering::Relaxed)) as u8),
        Outcome::Failed(_) => Err(Error::value("the job failed: see what the workers said")),
    }
}
