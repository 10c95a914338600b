//! The Python package in CI: the extension that the Rust tests have built, put beside the package's
//! files, tested in a virtual environment of its own.

use crate::ci::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What the tests need beside the package.
const PACKAGES: &[&str] = &["numpy>=1.26", "pytest>=8", "mypy>=1.11"];

/// Runs the Python tests and examples. Tests that fail are run once more.
pub fn check(report: &Report) -> Result<(), String> {
    println!("== python");
    let target = PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string()));
    let python = environment(&target.join("python-venv"), PACKAGES)?;
    // Programs that tests start run in folders of their own.
    let package = fs::canonicalize(stage(&target)?).map_err(|e| format!("{}: {e}", target.display()))?;
    let command = |args: &[&str]| {
        let mut c = Command::new(&python);
        c.args(args).env("PYTHONPATH", &package).env("TALWEG_QUICK", "1");
        c
    };
    let cache = fs::canonicalize(&target).map_err(|e| format!("{}: {e}", target.display()))?.join("pytest-cache");
    let cache = format!("cache_dir={}", cache.display());
    let pytest = |more: &[&str]| -> Result<bool, String> {
        let args = [&["-m", "pytest", "-q", "-o", &cache, "python/tests"], more].concat();
        let status = command(&args).status().map_err(|e| format!("{}: {e}", python.display()))?;
        Ok(status.success())
    };
    let start = Instant::now();
    if !pytest(&["--cache-clear"])? {
        println!("== python: failures, once more");
        if !pytest(&["--last-failed"])? {
            return Err("pytest python/tests failed".to_string());
        }
        report.flaky("python/tests");
    }
    report.took("python tests", start);
    let start = Instant::now();
    let mut examples: Vec<PathBuf> = list(Path::new("python/examples"))?;
    examples.retain(|p| p.extension().is_some_and(|e| e == "py"));
    examples.sort();
    // Most of an example's time is its start: two at a time.
    let (half, command) = (examples.len().div_ceil(2), &command);
    std::thread::scope(|scope| {
        let run = |part| scope.spawn(move || run_examples(part, command));
        let halves: Vec<_> = examples.chunks(half).map(run).collect();
        halves.into_iter().try_for_each(|h| h.join().unwrap_or_else(|_| Err("a thread panicked".into())))
    })?;
    report.took("python examples", start);
    Ok(())
}

/// A library of others that tests compare with or talk to, in its own environment.
struct Peer {
    /// What is tested.
    what: &'static str,
    venv: &'static str,
    packages: &'static [&'static str],
    tests: &'static [&'static str],
}

/// Every peer of the Python tests; the other tests have run with the rest.
const PEERS: &[Peer] = &[
    Peer {
        what: "clients of the inference server",
        venv: "clients-venv",
        packages: &[
            "numpy>=1.26",
            "pytest>=8",
            "tritonclient[http,grpc]>=2.50",
            "kserve>=0.15",
            "schemathesis>=4",
            "openai>=2",
        ],
        tests: &["test_serve_clients.py", "test_llm_clients.py"],
    },
    Peer {
        what: "programs of JAX",
        venv: "jax-venv",
        packages: &["numpy>=1.26", "pytest>=8", "jax>=0.10", "flatbuffers>=25"],
        tests: &["test_from_jax.py"],
    },
    Peer {
        what: "exported models in ONNX Runtime",
        venv: "onnx-venv",
        packages: &["numpy>=1.26", "pytest>=8", "onnxruntime>=1.20"],
        tests: &["test_onnx_examples.py"],
    },
];

/// Runs the tests with every peer that can be installed.
pub fn peers(report: &Report) -> Result<(), String> {
    PEERS.iter().try_for_each(|p| peer(report, p))
}

fn peer(report: &Report, peer: &Peer) -> Result<(), String> {
    println!("== {}", peer.what);
    let target = PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string()));
    let python = match environment(&target.join(peer.venv), peer.packages) {
        Ok(python) => python,
        Err(e) => {
            report.skip(peer.what, &e);
            return Ok(());
        }
    };
    let mut tests = Command::new(&python);
    tests.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]);
    tests.args(peer.tests.iter().map(|f| format!("python/tests/{f}"))).env("PYTHONPATH", target.join("python"));
    report.retried(peer.what, &mut tests)
}

/// Runs examples one after the other; the words of one that fails are its error.
fn run_examples(examples: &[PathBuf], command: &(impl Fn(&[&str]) -> Command + Sync)) -> Result<(), String> {
    for example in examples {
        let name = example.display().to_string();
        let done = command(&[&name]).output().map_err(|e| format!("{name}: {e}"))?;
        if !done.status.success() {
            let said = [done.stdout, done.stderr].concat();
            return Err(format!("{name} failed:\n{}", String::from_utf8_lossy(&said)));
        }
        println!("== example {name}");
    }
    Ok(())
}

fn list(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(entries.flatten().map(|e| e.path()).collect())
}

/// The interpreter of a virtual environment with these packages; made once.
pub fn environment(dir: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let python = dir.join("bin/python");
    let ready = dir.join("ready");
    if fs::read_to_string(&ready).is_ok_and(|t| t == packages.join(" ")) {
        return Ok(python);
    }
    let run = |program: &Path, args: &[&str]| -> Result<(), String> {
        let status = Command::new(program).args(args).status().map_err(|e| format!("{}: {e}", program.display()))?;
        if status.success() { Ok(()) } else { Err(format!("{} {} failed", program.display(), args.join(" "))) }
    };
    run(Path::new("python3"), &["-m", "venv", &dir.display().to_string()])?;
    let install =
        [&["-m", "pip", "install", "--quiet", "--no-compile", "--disable-pip-version-check"], packages].concat();
    run(&python, &install)?;
    fs::write(&ready, packages.join(" ")).map_err(|e| format!("{}: {e}", ready.display()))?;
    Ok(python)
}

/// The package as a wheel would install it, around the extension in the target folder.
fn stage(target: &Path) -> Result<PathBuf, String> {
    let built = ["debug/deps", "debug"].map(|d| target.join(d).join(library()));
    let newest = |p: &PathBuf| fs::metadata(p).and_then(|m| m.modified()).ok();
    let extension = built.iter().filter(|p| p.exists()).max_by_key(|p| newest(p));
    let extension = extension.ok_or("the extension is not built: run cargo test -p talweg-py first")?;
    let root = target.join("python");
    // Left-overs of files that are gone would hide that they are gone.
    if root.exists() {
        fs::remove_dir_all(&root).map_err(|e| format!("{}: {e}", root.display()))?;
    }
    copy(Path::new("python/talweg"), &root.join("talweg"))?;
    let to = root.join("talweg/_native.abi3.so");
    fs::copy(extension, &to).map_err(|e| format!("{}: {e}", extension.display()))?;
    Ok(root)
}

fn library() -> String {
    format!("{}_native{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX)
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::create_dir_all(to).map_err(|e| format!("{}: {e}", to.display()))?;
    for path in list(from)? {
        let name = path.file_name().ok_or("a file without a name")?;
        if path.is_dir() {
            if name != "__pycache__" {
                copy(&path, &to.join(name))?;
            }
        } else if path.extension().is_none_or(|e| e != "so") {
            fs::copy(&path, to.join(name)).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}
