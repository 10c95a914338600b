//! Continuous integration: every step in order. A step whose tools this machine lacks is skipped and listed at the end;
//! `--strict` makes that a failure.

use crate::{book, python, tidy};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What was skipped, and why.
type Skipped = Vec<String>;

/// Tests that pass without having run where a program is missing: what they test, the program with an argument that
/// does nothing, and how to get it.
const PREREQUISITES: &[(&str, &[&str], &str)] = &[
    ("jobs that meet at etcd", &["etcd", "--version"], "Debian: etcd-server"),
    ("jobs under mpirun", &["mpirun", "--version"], "Debian: openmpi-bin"),
    ("links that are cut", &["unshare", "-rn", "true"], "network namespaces are not allowed"),
    ("NCCL", &["nvidia-smi", "-L"], "there is no GPU"),
    ("kernels on a WebGPU adapter", &["vulkaninfo", "--summary"], "Debian: mesa-vulkan-drivers, vulkan-tools"),
    ("pages in a browser", &["chromium", "--version"], "Debian: chromium"),
];

/// Every step in order; the first that fails ends it.
pub fn run(is_strict: bool) -> Result<(), String> {
    let mut skipped = Skipped::new();
    format()?;
    tidy::check()?;
    step("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    doc()?;
    deny(&mut skipped)?;
    package()?;
    let mut flaky = tests(&["--workspace"])?;
    for (what, probe, how) in PREREQUISITES {
        if !succeeds(probe) {
            skip(&mut skipped, what, how);
        }
    }
    programs(&mut skipped, &mut flaky)?;
    lesser()?;
    arm(&mut skipped)?;
    step("features", &["test", "-p", "talweg-data", "--all-features", "--quiet"])?;
    clusters(&mut skipped, &mut flaky)?;
    mpi(&mut skipped, &mut flaky)?;
    if book::is_installed() {
        book::build()?;
    } else {
        skip(&mut skipped, "book", book::INSTALL);
    }
    for example in tidy::examples()? {
        run_example(&example)?;
    }
    flaky.extend(python::check()?);
    for peer in python::PEERS {
        if let Err(e) = python::peer(peer, &mut flaky)? {
            skip(&mut skipped, peer.what, &e);
        }
    }
    match skipped.len() {
        0 => println!("== nothing was skipped"),
        n => println!("== skipped: {n}\n  {}", skipped.join("\n  ")),
    }
    if !flaky.is_empty() {
        println!("== failed at first, passed alone: {}\n  {}", flaky.len(), flaky.join("\n  "));
    }
    match is_strict {
        true if !skipped.is_empty() => Err("strict: a skipped step is a failure".to_string()),
        true if !flaky.is_empty() => Err("strict: a test that passes at the second try is a failure".to_string()),
        _ => Ok(()),
    }
}

/// The tests of these packages. Real processes, ports and clocks meet a loaded machine here: a test binary that fails
/// is run once more, alone. Returns those that passed then; one that fails again is an error.
fn tests(packages: &[&str]) -> Result<Vec<String>, String> {
    let args = [&["test", "--quiet", "--no-fail-fast"], packages].concat();
    println!("== tests: cargo {}", args.join(" "));
    let start = Instant::now();
    let mut cargo = Command::new("cargo").args(&args).env("TALWEG_QUICK", "1").stderr(Stdio::piped()).spawn();
    let cargo = cargo.as_mut().map_err(|e| format!("tests did not start: {e}"))?;
    let mut failed = Vec::new();
    for line in BufReader::new(cargo.stderr.take().expect("it is piped")).lines() {
        let line = line.map_err(|e| e.to_string())?;
        eprintln!("{line}");
        failed.extend(rerun(&line));
    }
    let status = cargo.wait().map_err(|e| e.to_string())?;
    println!("== tests: {:.0} s", start.elapsed().as_secs_f64());
    if !status.success() && failed.is_empty() {
        return Err("tests failed".to_string());
    }
    for target in &failed {
        let args: Vec<&str> = ["test", "--quiet"].into_iter().chain(target.split(' ')).collect();
        step(&format!("{target}, once more"), &args)?;
    }
    Ok(failed)
}

/// A command whose tests meet processes, ports and clocks: if it fails it is run once more, and listed if it passes
/// then.
pub fn retried(name: &str, command: &mut Command, flaky: &mut Vec<String>) -> Result<(), String> {
    if timed(name, command).is_err() {
        timed(&format!("{name}, once more"), command)?;
        flaky.push(name.to_string());
    }
    Ok(())
}

/// The target in a line of Cargo's closing list of failures: "    `-p talweg-edge --test model`".
fn rerun(line: &str) -> Option<String> {
    let target = line.trim().strip_prefix('`')?.strip_suffix('`')?;
    target.starts_with("-p ").then(|| target.to_string())
}

fn skip(skipped: &mut Skipped, what: &str, why: &str) {
    println!("== {what}: skipped ({why})");
    skipped.push(format!("{what} ({why})"));
}

/// Whether a command can be started and succeeds.
fn succeeds(command: &[&str]) -> bool {
    Command::new(command[0]).args(&command[1..]).output().is_ok_and(|o| o.status.success())
}

fn target() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string()))
}

/// The reference of every crate, without a warning.
pub fn doc() -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    timed("doc", &mut cargo)
}

/// Licenses, duplicates and sources of dependencies, as `deny.toml` allows them. Advisories need the network.
pub fn deny(skipped: &mut Skipped) -> Result<(), String> {
    if !succeeds(&["cargo", "deny", "--version"]) {
        skip(skipped, "deny", "cargo install cargo-deny");
        return Ok(());
    }
    step("deny", &["deny", "--offline", "--all-features", "check", "licenses", "bans", "sources"])
}

/// Every crate can be packaged; what a package lacks to be published is said here.
pub fn package() -> Result<(), String> {
    let args = ["package", "--workspace", "--no-verify", "--allow-dirty", "--exclude-lockfile", "--quiet"];
    step("package", &args)
}

/// The kernels once more with the instructions of lesser processors.
fn lesser() -> Result<(), String> {
    for isa in ["avx2", "portable"] {
        println!("== kernels with {isa}");
        let args = ["test", "-p", "talweg-cpu", "--lib", "--quiet"];
        let status = Command::new(env!("CARGO")).args(args).env("TALWEG_ISA", isa).status();
        if !status.map_err(|e| e.to_string())?.success() {
            return Err(format!("kernels with {isa} failed"));
        }
    }
    Ok(())
}

/// Programs, libraries and pages that hold one model, which Cargo compiles in the test.
fn programs(skipped: &mut Skipped, flaky: &mut Vec<String>) -> Result<(), String> {
    for (what, target) in [("pages", "wasm32-unknown-unknown"), ("programs for ARM", "aarch64-unknown-linux-musl")] {
        if !has_target(target) {
            skip(skipped, &format!("{what} that hold one model"), &format!("rustup target add {target}"));
        }
    }
    if !succeeds(&["qemu-aarch64", "--version"]) {
        skip(skipped, "programs for ARM that hold one model", "Debian: qemu-user");
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "-p", "talweg", "--test", "build", "--quiet", "--", "--ignored"]);
    retried("programs of one model", &mut tests, flaky)
}

/// Whether the compiler has the libraries of a target.
fn has_target(triple: &str) -> bool {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output();
    libraries.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
}

/// The kernels on 64-bit ARM, emulated, with NEON and, the most general of them, without; where the tools are
/// missing, that is said.
fn arm(skipped: &mut Skipped) -> Result<(), String> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let has = |program: &str| succeeds(&[program, "--version"]);
    let tools = [
        (has_target(TARGET), "rustup target add aarch64-unknown-linux-gnu"),
        (has("aarch64-linux-gnu-gcc"), "Debian: gcc-aarch64-linux-gnu"),
        (has("qemu-aarch64"), "Debian: qemu-user"),
    ];
    if let Some((_, how)) = tools.iter().find(|(has, _)| !has) {
        skip(skipped, "kernels on ARM", how);
        return Ok(());
    }
    for (isa, filters) in [("neon", &[][..]), ("portable", &["products", "random"])] {
        println!("== kernels on ARM with {isa}");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--target", TARGET, "-p", "talweg-cpu", "--lib", "--quiet", "--"]).args(filters);
        cargo.env("TALWEG_ISA", isa);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        let runner = "qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu";
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
        if !cargo.status().map_err(|e| e.to_string())?.success() {
            return Err(format!("kernels on ARM with {isa} failed"));
        }
    }
    Ok(())
}

/// Features that need programs of the system: buckets for checkpoints. Where these are missing, that
/// is said.
fn clusters(skipped: &mut Skipped, flaky: &mut Vec<String>) -> Result<(), String> {
    let features = "talweg/s3,talweg-py/s3";
    // The extension as well, for the tests of Python, which come last.
    let built = ["--lib", "--bins", "--example", "digits", "--quiet"];
    step("jobs", &[&["build", "-p", "talweg", "-p", "talweg-py", "--features", features][..], &built].concat())?;
    let folder = std::path::absolute(target().join("s3-venv")).map_err(|e| e.to_string())?;
    if let Err(e) = python::environment(&folder, &["moto[server]>=5"]) {
        skip(skipped, "S3", &format!("there is no server to test with: {e}"));
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "-p", "talweg", "-p", "talweg-py", "--features", features, "--test", "s3", "--test", "launch"]);
    tests.args(["--quiet", "--", "etcd", "bucket"]);
    retried("jobs with etcd and S3", tests.env("TALWEG_MOTO", folder.join("bin/moto_server")), flaky)
}

/// Collectives by MPI, whose bindings are made from its headers by libclang; where these are missing,
/// that is said.
fn mpi(skipped: &mut Skipped, flaky: &mut Vec<String>) -> Result<(), String> {
    if Command::new("mpicc").arg("--version").output().is_err() || !has_clang() {
        skip(skipped, "mpi", "mpicc or libclang is not installed; Debian: libopenmpi-dev, libclang-dev");
        return Ok(());
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "-p", "talweg-dist", "--features", "mpi", "--test", "mpi", "--quiet"]);
    retried("mpi", &mut tests, flaky)
}

/// Whether there is a libclang, where the maker of bindings looks for it.
fn has_clang() -> bool {
    let said = Command::new("llvm-config").arg("--libdir").output();
    let dir = said.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    let dirs = dir.into_iter().chain(std::env::var("LIBCLANG_PATH")).chain(["/usr/lib/x86_64-linux-gnu".to_string()]);
    let is_clang = |e: std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("libclang");
    dirs.filter_map(|d| std::fs::read_dir(d).ok()).any(|mut entries| entries.any(|e| e.is_ok_and(is_clang)))
}

/// Runs an example that the tests have built; `cargo run` would build everything again with other
/// features.
fn run_example(name: &str) -> Result<(), String> {
    println!("== example {name}");
    let path = target().join("debug/examples").join(name);
    let status = Command::new(&path).env("TALWEG_QUICK", "1").status();
    let status = status.map_err(|e| format!("{}: {e}", path.display()))?;
    if status.success() { Ok(()) } else { Err(format!("example {name} failed")) }
}

/// Formats every file.
pub fn rewrite() -> Result<(), String> {
    let files = tidy::sources(Path::new("crates"))?;
    let status = Command::new("rustfmt").args(["--edition", "2024"]).args(files).status();
    status.map_err(|e| format!("rustfmt did not start: {e}")).map(|_| ())
}

/// `cargo fmt` does not see modules that a macro declares, as the op table's are: name every file.
fn format() -> Result<(), String> {
    println!("== format");
    let files = tidy::sources(Path::new("crates"))?;
    let status = Command::new("rustfmt").args(["--edition", "2024", "--check", "--quiet"]).args(files).status();
    let status = status.map_err(|e| format!("rustfmt did not start: {e}"))?;
    if status.success() { Ok(()) } else { Err("format: run `cargo xtask fmt`".to_string()) }
}

fn step(name: &str, args: &[&str]) -> Result<(), String> {
    println!("== {name}: cargo {}", args.join(" "));
    timed(name, Command::new("cargo").args(args))
}

fn timed(name: &str, command: &mut Command) -> Result<(), String> {
    let start = Instant::now();
    // Examples and tests that can run long are told to keep it short.
    let status = command.env("TALWEG_QUICK", "1").status();
    let status = status.map_err(|e| format!("{name} did not start: {e}"))?;
    println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
}

#[cfg(test)]
mod tests {
    use super::rerun;

    #[test]
    fn failures_are_read_from_cargos_list() {
        assert_eq!(rerun("    `-p talweg-edge --test model`").as_deref(), Some("-p talweg-edge --test model"));
        assert_eq!(rerun("error: test failed, to rerun pass `-p talweg-edge --test model`"), None);
        assert_eq!(rerun("error: 2 targets failed:"), None);
    }
}
