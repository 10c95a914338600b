//! Chores of the workspace: `cargo xtask ci` is everything that must pass, `cargo xtask tidy` the
//! rules about files that no compiler checks.

mod book;
mod names;
mod prose;
mod python;
mod tidy;

use std::process::{Command, ExitCode};
use std::time::Instant;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    let done = match task.as_str() {
        "ci" => ci(),
        "book" => book::build(),
        "python" => python::check(),
        "tidy" => tidy::check(),
        "fmt" => rewrite(),
        _ => Err("usage: cargo xtask ci | book | python | tidy | fmt".to_string()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("xtask: {e}");
            ExitCode::FAILURE
        }
    }
}

/// Every step in order; the first that fails ends it.
fn ci() -> Result<(), String> {
    format()?;
    tidy::check()?;
    step("clippy", &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])?;
    step("tests", &["test", "--workspace", "--quiet"])?;
    lesser()?;
    arm()?;
    step("features", &["test", "-p", "talweg-data", "--all-features", "--quiet"])?;
    clusters()?;
    mpi()?;
    book()?;
    for example in tidy::examples()? {
        run_example(&example)?;
    }
    python::check()
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

/// The kernels on 64-bit ARM, emulated, with NEON and, the most general of them, without; where the tools are
/// missing, that is said.
fn arm() -> Result<(), String> {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    let has_target = libraries.is_ok_and(|o| std::path::Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_dir());
    let tools = [
        (has_target, "rustup target add aarch64-unknown-linux-gnu"),
        (has("aarch64-linux-gnu-gcc"), "Debian: gcc-aarch64-linux-gnu"),
        (has("qemu-aarch64"), "Debian: qemu-user"),
    ];
    if let Some((_, how)) = tools.iter().find(|(has, _)| !has) {
        println!("== kernels on ARM: skipped, a tool is missing ({how})");
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
fn clusters() -> Result<(), String> {
    let features = "talweg/s3,talweg-py/s3";
    // The extension as well, for the tests of Python, which come last.
    let built = ["--lib", "--bins", "--example", "digits", "--quiet"];
    step("jobs", &[&["build", "-p", "talweg", "-p", "talweg-py", "--features", features][..], &built].concat())?;
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string());
    let folder = std::path::absolute(std::path::Path::new(&target).join("s3-venv")).map_err(|e| e.to_string())?;
    if let Err(e) = python::environment(&folder, &["moto[server]>=5"]) {
        println!("== s3: there is no server to test with ({e})");
    }
    let mut tests = Command::new(env!("CARGO"));
    tests.args(["test", "-p", "talweg", "-p", "talweg-py", "--features", features, "--test", "s3", "--test", "launch"]);
    tests.args(["--quiet", "--", "etcd", "bucket"]);
    let status = tests.env("TALWEG_MOTO", folder.join("bin/moto_server")).status();
    if status.map_err(|e| e.to_string())?.success() { Ok(()) } else { Err("jobs with etcd and s3 failed".into()) }
}

/// Collectives by MPI, whose bindings are made from its headers by libclang; where these are missing,
/// that is said.
fn mpi() -> Result<(), String> {
    if Command::new("mpicc").arg("--version").output().is_err() || !has_clang() {
        println!("== mpi: skipped, mpicc or libclang is not installed (Debian: libopenmpi-dev, libclang-dev)");
        return Ok(());
    }
    step("mpi", &["test", "-p", "talweg-dist", "--features", "mpi", "--test", "mpi", "--quiet"])
}

/// The book of the documentation; where `mdbook` is missing, that is said.
fn book() -> Result<(), String> {
    if !book::is_installed() {
        println!("== book: skipped, mdbook is not installed ({})", book::INSTALL);
        return Ok(());
    }
    book::build()
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
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_string());
    let path = std::path::Path::new(&target).join("debug/examples").join(name);
    let status = Command::new(&path).env("TALWEG_QUICK", "1").status();
    let status = status.map_err(|e| format!("{}: {e}", path.display()))?;
    if status.success() { Ok(()) } else { Err(format!("example {name} failed")) }
}

/// Formats every file.
fn rewrite() -> Result<(), String> {
    let files = tidy::sources(std::path::Path::new("crates"))?;
    let status = Command::new("rustfmt").args(["--edition", "2024"]).args(files).status();
    status.map_err(|e| format!("rustfmt did not start: {e}")).map(|_| ())
}

/// `cargo fmt` does not see modules that a macro declares, as the op table's are: name every file.
fn format() -> Result<(), String> {
    println!("== format");
    let files = tidy::sources(std::path::Path::new("crates"))?;
    let status = Command::new("rustfmt").args(["--edition", "2024", "--check", "--quiet"]).args(files).status();
    let status = status.map_err(|e| format!("rustfmt did not start: {e}"))?;
    if status.success() { Ok(()) } else { Err("format: run `cargo xtask fmt`".to_string()) }
}

fn step(name: &str, args: &[&str]) -> Result<(), String> {
    println!("== {name}: cargo {}", args.join(" "));
    let start = Instant::now();
    // Examples and tests that can run long are told to keep it short.
    let status = Command::new("cargo").args(args).env("TALWEG_QUICK", "1").status();
    let status = status.map_err(|e| format!("cargo did not start: {e}"))?;
    println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(format!("{name} failed")) }
}
