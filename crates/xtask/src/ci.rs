//! Continuous integration: every step in order. A step whose tools this machine lacks is skipped and listed at the end;
//! `--strict` makes that a failure.

use crate::{book, python, tidy};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

/// What CI says at its end. Steps of two threads add to it.
#[derive(Default)]
pub struct Report {
    /// What was skipped, and why.
    skipped: Mutex<Vec<String>>,
    /// What failed at first and passed alone.
    flaky: Mutex<Vec<String>>,
    /// The seconds of every step.
    seconds: Mutex<Vec<(String, f64)>>,
}

impl Report {
    /// Notes that this was not done.
    pub fn skip(&self, what: &str, why: &str) {
        println!("== {what}: skipped ({why})");
        lock(&self.skipped).push(format!("{what} ({why})"));
    }
    /// Notes how long a step took.
    pub fn took(&self, name: &str, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        println!("== {name}: {seconds:.0} s");
        lock(&self.seconds).push((name.to_string(), seconds));
    }
    /// Notes that this passed at the second try only.
    pub fn flaky(&self, what: &str) {
        lock(&self.flaky).push(what.to_string());
    }
    /// Runs a command to its end. Examples and tests that can run long are told to keep it short.
    pub fn timed(&self, name: &str, command: &mut Command) -> Result<(), String> {
        let start = Instant::now();
        println!("== {name}");
        let status = command.env("TALWEG_QUICK", "1").status();
        let status = status.map_err(|e| format!("{name} did not start: {e}"))?;
        self.took(name, start);
        if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
    }
    fn cargo(&self, name: &str, args: &[&str]) -> Result<(), String> {
        self.timed(name, Command::new("cargo").args(args))
    }
    /// A command whose tests meet processes, ports and clocks: if it fails it is run once more, and listed if it
    /// passes then.
    pub fn retried(&self, name: &str, command: &mut Command) -> Result<(), String> {
        if self.timed(name, command).is_err() {
            self.timed(&format!("{name}, once more"), command)?;
            self.flaky(name);
        }
        Ok(())
    }
    fn print(&self, start: Instant) {
        println!("== seconds of each step");
        lock(&self.seconds).iter().for_each(|(name, seconds)| println!("{seconds:8.0}  {name}"));
        println!("{:8.0}  all", start.elapsed().as_secs_f64());
        match &lock(&self.skipped)[..] {
            [] => println!("== nothing was skipped"),
            skipped => println!("== skipped: {}\n  {}", skipped.len(), skipped.join("\n  ")),
        }
        match &lock(&self.flaky)[..] {
            [] => {}
            flaky => println!("== failed at first, passed alone: {}\n  {}", flaky.len(), flaky.join("\n  ")),
        }
    }
}

fn lock<T>(m: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    m.lock().unwrap_or_else(|e| e.into_inner())
}

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

/// Every step; the first that fails ends it.
pub fn run(is_strict: bool) -> Result<(), String> {
    let (report, start) = (Report::default(), Instant::now());
    let done = steps(&report);
    report.print(start);
    done?;
    match is_strict {
        true if !lock(&report.skipped).is_empty() => Err("strict: a skipped step is a failure".to_string()),
        true if !lock(&report.flaky).is_empty() => {
            Err("strict: a test that passes at the second try is a failure".to_string())
        }
        _ => Ok(()),
    }
}

fn steps(report: &Report) -> Result<(), String> {
    format(report)?;
    tidy::check()?;
    for (what, probe, how) in PREREQUISITES {
        if !succeeds(probe) {
            report.skip(what, how);
        }
    }
    // Tests leave a core free most of the time, which compiles meanwhile.
    let failed = tests(report, &|| {
        report.cargo("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
        doc(report)?;
        deny(report)?;
        package(report)
    })?;
    again(report, &failed)?;
    let (built, ran) = std::thread::scope(|scope| {
        let built = scope.spawn(|| {
            programs(report)?;
            lesser(report)?;
            arm(report)?;
            mpi(report)?;
            if book::is_installed() {
                book::build()
            } else {
                report.skip("book", book::INSTALL);
                Ok(())
            }
        });
        let ran = examples(report).and_then(|()| python::check(report)).and_then(|()| python::peers(report));
        (built.join().unwrap_or_else(|_| Err("a thread panicked".to_string())), ran)
    });
    built.and(ran)?;
    clusters(report)
}

/// Every package, and the features that its tests need: all steps take the same, so that none compiles it anew.
const WORKSPACE: [&str; 3] = ["--workspace", "--features", "talweg/s3,talweg-py/s3"];

/// Runs all tests to the end, and `beside` once they are compiled. Returns the targets that failed.
fn tests(report: &Report, beside: &(dyn Fn() -> Result<(), String> + Sync)) -> Result<Vec<String>, String> {
    let args = [&["test", "--no-fail-fast"], &WORKSPACE[..], &["--", "--quiet"]].concat();
    println!("== tests: cargo {}", args.join(" "));
    let start = Instant::now();
    let mut cargo = Command::new("cargo").args(&args).env("TALWEG_QUICK", "1").stderr(Stdio::piped()).spawn();
    let cargo = cargo.as_mut().map_err(|e| format!("tests did not start: {e}"))?;
    let said = BufReader::new(cargo.stderr.take().expect("it is piped"));
    let (failed, beside) = std::thread::scope(|scope| {
        let (mut failed, mut other) = (Vec::new(), None);
        for line in said.lines() {
            let line = line.map_err(|e| e.to_string())?;
            eprintln!("{line}");
            failed.extend(rerun(&line));
            if other.is_none() && line.trim_start().starts_with("Finished") {
                report.took("tests, compiled", start);
                other = Some(scope.spawn(beside));
            }
        }
        let panicked = |_| Err("a thread panicked".to_string());
        Ok::<_, String>((failed, other.map_or(Ok(()), |other| other.join().unwrap_or_else(panicked))))
    })?;
    let status = cargo.wait().map_err(|e| e.to_string())?;
    report.took("tests and what ran beside them", start);
    beside?;
    if status.success() || !failed.is_empty() { Ok(failed) } else { Err("tests failed".to_string()) }
}

/// Real processes, ports and clocks meet a loaded machine: test binaries that failed are run once more, alone. One that
/// fails again is an error.
fn again(report: &Report, failed: &[String]) -> Result<(), String> {
    for target in failed {
        let (_, which) = target.split_once(' ').unwrap_or_default();
        let which = which.split_once(' ').map_or("", |(_, which)| which);
        let args: Vec<&str> = ["test", "--quiet"].into_iter().chain(WORKSPACE).chain(which.split(' ')).collect();
        report.cargo(&format!("{target}, once more"), &args)?;
        report.flaky(target);
    }
    Ok(())
}

/// The target in a line of Cargo's closing list of failures: "    `-p talweg-edge --test model`".
fn rerun(line: &str) -> Option<String> {
    let target = line.trim().strip_prefix('`')?.strip_suffix('`')?;
    target.starts_with("-p ").then(|| target.to_string())
}

/// Whether a command can be started and succeeds.
fn succeeds(command: &[&str]) -> bool {
    Command::new(command[0]).args(&command[1..]).output().is_ok_and(|o| o.status.success())
}

fn target() -> PathBuf {
    PathBuf::from(std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string()))
}

/// The reference of every crate, without a warning.
pub fn doc(report: &Report) -> Result<(), String> {
    let mut cargo = Command::new("cargo");
    cargo.args(["doc", "--workspace", "--no-deps", "--quiet"]).env("RUSTDOCFLAGS", "-D warnings");
    report.timed("doc", &mut cargo)
}

/// Licenses, duplicates and sources of dependencies, as `deny.toml` allows them. Advisories need the network.
pub fn deny(report: &Report) -> Result<(), String> {
    if !succeeds(&["cargo", "deny", "--version"]) {
        report.skip("deny", "cargo install cargo-deny");
        return Ok(());
    }
    report.cargo("deny", &["deny", "--offline", "--all-features", "check", "licenses", "bans", "sources"])
}

/// Every crate can be packaged; what a package lacks to be published is said here.
pub fn package(report: &Report) -> Result<(), String> {
    let args = ["package", "--workspace", "--no-verify", "--allow-dirty", "--exclude-lockfile", "--quiet"];
    report.cargo("package", &args)
}

/// The kernels once more with the instructions of lesser processors.
fn lesser(report: &Report) -> Result<(), String> {
    let kernels = built("talweg_cpu")?;
    for isa in ["avx2", "portable"] {
        let mut tests = Command::new(&kernels);
        tests.arg("--quiet").current_dir("crates/cpu").env("TALWEG_ISA", isa);
        report.timed(&format!("kernels with {isa}"), &mut tests)?;
    }
    Ok(())
}

/// The program with the unit tests of a library, which the tests have built.
fn built(library: &str) -> Result<PathBuf, String> {
    let args = ["--lib", "--no-run", "--quiet", "--message-format", "json"];
    let cargo = Command::new("cargo").arg("test").args(WORKSPACE).args(args).stderr(Stdio::inherit()).output();
    let said = cargo.map_err(|e| format!("tests did not start: {e}"))?.stdout;
    let said = String::from_utf8_lossy(&said);
    let name = format!("\"name\":\"{library}\"");
    let path = said.lines().filter(|l| l.contains(&name)).find_map(executable);
    path.map(PathBuf::from).ok_or_else(|| format!("there are no unit tests of {library}"))
}

/// The program that a message of Cargo names.
fn executable(message: &str) -> Option<&str> {
    message.split_once("\"executable\":\"")?.1.split('"').next()
}

/// Programs, libraries and pages that hold one model, which Cargo compiles in the test.
fn programs(report: &Report) -> Result<(), String> {
    for (what, target) in [("pages", "wasm32-unknown-unknown"), ("programs for ARM", "aarch64-unknown-linux-musl")] {
        if !has_target(target) {
            report.skip(&format!("{what} that hold one model"), &format!("rustup target add {target}"));
        }
    }
    if !succeeds(&["qemu-aarch64", "--version"]) {
        report.skip("programs for ARM that hold one model", "Debian: qemu-user");
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.arg("test").args(WORKSPACE).args(["--test", "build", "--quiet", "--", "--ignored"]);
    report.retried("programs of one model", &mut tests)
}

/// Whether the compiler has the libraries of a target.
fn has_target(triple: &str) -> bool {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output();
    libraries.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir())
}

/// The kernels on 64-bit ARM, emulated, with NEON and, the most general of them, without; where the tools are
/// missing, that is said.
fn arm(report: &Report) -> Result<(), String> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let has = |program: &str| succeeds(&[program, "--version"]);
    let tools = [
        (has_target(TARGET), "rustup target add aarch64-unknown-linux-gnu"),
        (has("aarch64-linux-gnu-gcc"), "Debian: gcc-aarch64-linux-gnu"),
        (has("qemu-aarch64"), "Debian: qemu-user"),
    ];
    if let Some((_, how)) = tools.iter().find(|(has, _)| !has) {
        report.skip("kernels on ARM", how);
        return Ok(());
    }
    for (isa, filters) in [("neon", &[][..]), ("portable", &["products", "random"])] {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "--target", TARGET, "-p", "talweg-cpu", "--lib", "--quiet", "--"]).args(filters);
        cargo.env("TALWEG_ISA", isa);
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        let runner = "qemu-aarch64 -cpu max -L /usr/aarch64-linux-gnu";
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
        report.timed(&format!("kernels on ARM with {isa}"), &mut cargo)?;
    }
    Ok(())
}

/// Jobs that need programs of the system: etcd, and a server of buckets for checkpoints. Where these are missing, that
/// is said.
fn clusters(report: &Report) -> Result<(), String> {
    let folder = std::path::absolute(target().join("s3-venv")).map_err(|e| e.to_string())?;
    if let Err(e) = python::environment(&folder, &["moto[server]>=5"]) {
        report.skip("S3", &format!("there is no server to test with: {e}"));
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.arg("test").args(WORKSPACE).args(["--test", "s3", "--test", "launch", "--quiet", "--", "etcd", "bucket"]);
    report.retried("jobs with etcd and S3", tests.env("TALWEG_MOTO", folder.join("bin/moto_server")))
}

/// Collectives by MPI, whose bindings are made from its headers by libclang; where these are missing,
/// that is said.
fn mpi(report: &Report) -> Result<(), String> {
    if Command::new("mpicc").arg("--version").output().is_err() || !has_clang() {
        report.skip("mpi", "mpicc or libclang is not installed; Debian: libopenmpi-dev, libclang-dev");
        return Ok(());
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "-p", "talweg-dist", "--features", "mpi", "--test", "mpi", "--quiet"]);
    report.retried("mpi", &mut tests)
}

/// Whether there is a libclang, where the maker of bindings looks for it.
fn has_clang() -> bool {
    let said = Command::new("llvm-config").arg("--libdir").output();
    let dir = said.ok().filter(|o| o.status.success()).map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    let dirs = dir.into_iter().chain(std::env::var("LIBCLANG_PATH")).chain(["/usr/lib/x86_64-linux-gnu".to_string()]);
    let is_clang = |e: std::fs::DirEntry| e.file_name().to_string_lossy().starts_with("libclang");
    dirs.filter_map(|d| std::fs::read_dir(d).ok()).any(|mut entries| entries.any(|e| e.is_ok_and(is_clang)))
}

/// Runs every example.
fn examples(report: &Report) -> Result<(), String> {
    let start = Instant::now();
    tidy::examples()?.iter().try_for_each(|e| run_example(e))?;
    report.took("examples", start);
    Ok(())
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
fn format(report: &Report) -> Result<(), String> {
    let files = tidy::sources(Path::new("crates"))?;
    let mut rustfmt = Command::new("rustfmt");
    report
        .timed("format", rustfmt.args(["--edition", "2024", "--check", "--quiet"]).args(files))
        .map_err(|e| format!("{e}: run `cargo xtask fmt`"))
}

#[cfg(test)]
mod tests {
    use super::{executable, rerun};

    #[test]
    fn failures_are_read_from_cargos_list() {
        assert_eq!(rerun("    `-p talweg-edge --test model`").as_deref(), Some("-p talweg-edge --test model"));
        assert_eq!(rerun("error: test failed, to rerun pass `-p talweg-edge --test model`"), None);
        assert_eq!(rerun("error: 2 targets failed:"), None);
    }

    #[test]
    fn programs_are_read_from_cargos_messages() {
        let message =
            r#"{"target":{"kind":["lib"],"name":"talweg_cpu"},"executable":"/t/deps/talweg_cpu-1","fresh":true}"#;
        assert_eq!(executable(message), Some("/t/deps/talweg_cpu-1"));
        assert_eq!(executable(r#"{"executable":null}"#), None);
    }
}
