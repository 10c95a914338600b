//! Rules about files: who may depend on whom, also in tests, who may name a device, how large a file may grow, where
//! `unsafe` may stand, where ops are named, that links of the documentation lead somewhere, and how long its sentences
//! are.

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, the crates of ours it may name, and those that only its tests may; the order is the order the data
/// flows.
const EDGES: &[(&str, &[&str], &[&str])] = &[
    ("ir", &[], &[]),
    ("passes", &["ir"], &["ops", "runtime"]),
    ("runtime", &["ir", "passes"], &[]),
    ("fft", &[], &[]),
    ("cpu", &["fft", "ir", "passes", "runtime"], &["ops"]),
    ("cuda", &["ir", "passes", "runtime"], &["ops", "testkit"]),
    ("wgsl", &["ir", "passes", "runtime"], &["ops"]),
    ("wgpu", &["ir", "passes", "runtime", "wgsl", "wgpu"], &["ops"]), // its library has its name
    ("ops", &["ir", "passes", "runtime"], &["cpu"]),
    ("sim", &[], &[]),
    ("tensor", &["ir", "passes", "runtime", "ops", "sim"], &["cpu"]),
    ("model", &["ir", "runtime", "tensor"], &["cpu"]),
    ("onnx", &["ir", "passes", "tensor", "model"], &["cpu"]),
    ("edge", &["ir", "passes", "cpu"], &["model", "tensor", "testkit"]),
    ("serve", &["ir", "model"], &["tensor"]),
    ("data", &["ir"], &[]),
    ("net", &[], &[]),
    ("dist", &["net"], &["data", "testkit"]),
    ("nn-derive", &[], &[]),
    ("nn", &["ir", "tensor", "data", "nn-derive"], &["data", "cpu"]),
    ("llm", &["ir", "tensor", "nn", "serve"], &["cpu"]),
    ("parallel", &["ir", "sim", "tensor", "data", "dist", "nn"], &["cpu", "testkit"]),
    ("quickstart", &["cpu", "tensor", "nn", "data"], &[]),
    ("bench", &["runtime", "cpu", "cuda", "tensor", "model", "nn"], &[]),
    (
        "talweg",
        &[
            "ir",
            "passes",
            "runtime",
            "cpu",
            "cuda",
            "wgsl",
            "wgpu",
            "sim",
            "tensor",
            "model",
            "onnx",
            "edge",
            "serve",
            "llm",
            "nn",
            "data",
            "dist",
            "parallel",
            "quickstart",
            "bench",
        ],
        &["testkit"],
    ),
    ("py", &["ir", "runtime", "tensor", "model", "onnx", "data", "nn", "llm", "talweg"], &[]),
    ("testkit", &["ir", "passes", "runtime", "ops", "tensor"], &["cpu", "tensor"]),
    ("xtask", &[], &[]),
];

/// Crates below the façade that name no device, neither its crate nor its kind.
const NAME_NO_DEVICE: &[&str] = &["ir", "passes", "runtime", "ops", "tensor", "data", "net", "dist", "nn"];

/// Crates whose messages are events of `runtime::log`; they print nothing.
const PRINT_NOTHING: &[&str] =
    &["ir", "passes", "runtime", "cpu", "cuda", "wgsl", "wgpu", "ops", "tensor", "model", "data", "net", "dist", "nn"];
/// Files of theirs that may: where messages without a subscriber go, and where the process ends.
const PRINT: &[&str] = &["crates/runtime/src/log.rs", "crates/dist/src/collective/mpi.rs"];

/// Crates without state of the process: a process may have several jobs, and a simulation all of a cluster.
const HOLD_NO_STATE: &[&str] = &["net", "dist", "nn", "parallel"];
/// Files of theirs that have some: idle buffers, MPI (which a process initializes once), and how many readers spin.
const STATE: &[&str] = &["crates/dist/src/pool.rs", "crates/dist/src/collective/mpi.rs", "crates/net/src/stream.rs"];

/// Files, and folders of kernels, that may contain `unsafe`.
const UNSAFE: &[&str] = &[
    "crates/cpu/examples/kernels.rs",
    "crates/cpu/src/call.rs",
    "crates/cpu/src/call/",
    "crates/cpu/src/kernels/",
    "crates/cpu/src/peak.rs",
    "crates/cpu/src/pool.rs",
    "crates/cpu/src/program.rs",
    "crates/cpu/src/tile/",
    "crates/cpu/src/vmath/",
    "crates/cuda/src/dnn/backend.rs",
    "crates/cuda/src/driver/",
    "crates/cuda/src/library/",
    "crates/cuda/src/memory/staging.rs",
    "crates/cuda/src/program.rs",
    "crates/cuda/tests/compile.rs",
    "crates/dist/src/collective/mpi.rs",
    "crates/edge/src/host.rs",
    "crates/llm/src/gguf/read.rs",
    "crates/llm/src/sample.rs",
    "crates/model/src/mapped.rs",
    "crates/llm/src/models/mod.rs",
    "crates/net/src/shared.rs",
    "crates/py/src/custom.rs",
    "crates/py/src/dlpack.rs",
    "crates/py/src/exchange.rs",
    "crates/py/src/foreign.rs",
    "crates/py/src/interrupt.rs",
    "crates/py/src/site.rs",
    "crates/serve/src/stamped.rs",
    "crates/testkit/src/allocations.rs",
];

/// A file longer than this holds two ideas.
const LINES_MAX: usize = 600;
/// Kernels are long where one algorithm is.
const LINES_MAX_KERNELS: usize = 1000;
/// Files that are to be cut, at their present length.
const LONG: &[&str] = &[
    "crates/cpu/src/tile/emit.rs",
    "crates/cuda/src/library/cublas.rs",
    "crates/dist/tests/simulation/world.rs",
    "crates/net/src/connection.rs",
    "crates/ops/src/differentiate.rs",
    "crates/ops/tests/complex.rs",
    "crates/serve/tests/server.rs",
];
const KERNELS: &[&str] = &["crates/cpu/src/kernels/", "crates/cpu/src/vmath/", "crates/cuda/src/emit/"];

/// Checks every rule and reports all violations together.
pub fn check() -> Result<(), String> {
    println!("== tidy");
    let mut bad = Vec::new();
    edges(&mut bad)?;
    crate::commits::check(&mut bad);
    let mut texts = Vec::new();
    for file in sources(Path::new("crates"))? {
        source(&file, &mut bad)?;
        texts.push((file.display().to_string(), read(&file)?));
    }
    let rows = crate::names::rows(&texts);
    for (path, text) in &texts {
        crate::names::check(path, text, &rows, &mut bad);
        crate::prose::source(path, text, &mut bad);
    }
    let pages = crate::prose::pages(files_of)?;
    bad.extend(crate::book::unlisted(&pages)?);
    for file in pages {
        links(&file, &mut bad)?;
        crate::prose::page(&file, &read(&file)?, &mut bad);
    }
    if bad.is_empty() { Ok(()) } else { Err(format!("tidy: {} violations\n{}", bad.len(), bad.join("\n"))) }
}

/// The examples of the façade, in order.
pub fn examples() -> Result<Vec<String>, String> {
    let dir = Path::new("crates/talweg/examples");
    if !dir.exists() {
        return Ok(Vec::new());
    }
    let mut names: Vec<String> =
        sources(dir)?.iter().filter_map(|p| p.file_stem().map(|s| s.to_string_lossy().into_owned())).collect();
    names.sort();
    Ok(names)
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))
}

fn edges(bad: &mut Vec<String>) -> Result<(), String> {
    let entries = fs::read_dir("crates").map_err(|e| format!("crates: {e}"))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((_, allowed, in_tests)) = EDGES.iter().find(|(n, ..)| *n == name) else {
            bad.push(format!("crates/{name}: not in the list of crates in xtask/src/tidy.rs"));
            continue;
        };
        let manifest = read(&entry.path().join("Cargo.toml"))?;
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let dep = line.split(['.', ' ', '=']).next().unwrap_or("");
            let is_ours = EDGES.iter().any(|(n, ..)| *n == dep);
            let is_allowed = match section {
                "[dev-dependencies]" => in_tests.contains(&dep) || allowed.contains(&dep),
                _ => !section.ends_with("dependencies]") || allowed.contains(&dep),
            };
            if is_ours && !is_allowed {
                bad.push(format!("crates/{name}: {section} must not have {dep}"));
            }
        }
    }
    Ok(())
}

fn source(file: &Path, bad: &mut Vec<String>) -> Result<(), String> {
    let text = read(file)?;
    let name = file.display().to_string();
    if name.starts_with("crates/xtask/") {
        return Ok(()); // It names what it looks for.
    }
    if !text.starts_with("//!") && !text.starts_with("#!/") {
        bad.push(format!("{name}: must start with //! and what it is for"));
    }
    let is_kernel = KERNELS.iter().chain(LONG).any(|p| name.starts_with(p));
    let (lines, max) = (text.lines().count(), if is_kernel { LINES_MAX_KERNELS } else { LINES_MAX });
    if lines > max {
        bad.push(format!("{name}: {lines} lines; over {max} it holds two ideas"));
    }
    let may_be_unsafe = UNSAFE.iter().any(|p| name.starts_with(p));
    let is_in = |crates: &[&str]| crates.iter().any(|c| name.starts_with(&format!("crates/{c}/src/")));
    let names_no_device = is_in(NAME_NO_DEVICE);
    let mut may_print = !is_in(PRINT_NOTHING) || PRINT.contains(&name.as_str()) || name.ends_with("tests.rs");
    let may_hold_state = !is_in(HOLD_NO_STATE) || STATE.contains(&name.as_str());
    for (i, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        may_print |= code.contains("#[cfg(test)]");
        let mut forbid = |is_allowed: bool, words: &[&str], what: &str| {
            if !is_allowed && words.iter().any(|w| code.contains(w)) {
                bad.push(format!("{name}:{}: {what}", i + 1));
            }
        };
        forbid(may_be_unsafe, &["unsafe {", "unsafe fn", "unsafe impl"], "unsafe outside the listed files");
        forbid(false, &["todo!(", "unimplemented!(", "dbg!("], "a stub");
        forbid(may_print, &["println!(", "eprint!("], "printed; use runtime::log");
        let is_static = code.trim_start().trim_start_matches("pub ").starts_with("static ");
        let mutable = ["static mut ", "Mutex<", "RwLock<", "OnceLock<", "Atomic"];
        forbid(may_hold_state || !is_static, &mutable, "state of the process; it belongs to a job");
        forbid(!names_no_device, &["cpu::", "cuda::", "\"cuda"], "a device is named below the façade");
    }
    Ok(())
}

/// Links of a Markdown file to files of the repository, and to headings of them.
fn links(file: &Path, bad: &mut Vec<String>) -> Result<(), String> {
    let text = read(file)?;
    for target in text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next()) {
        if target.contains("://") || target.is_empty() {
            continue;
        }
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let to = if path.is_empty() { file.to_path_buf() } else { file.with_file_name("").join(path) };
        if !to.exists() {
            bad.push(format!("{}: the link {target} leads nowhere", file.display()));
        } else if !heading.is_empty() && to.extension().is_some_and(|e| e == "md") && !anchors(&read(&to)?, heading) {
            bad.push(format!("{}: the link {target} names a heading that is not there", file.display()));
        }
    }
    Ok(())
}

/// Whether a text has the heading that a link calls so: in small letters, spaces as dashes, no punctuation.
fn anchors(text: &str, heading: &str) -> bool {
    text.lines().filter(|l| l.starts_with('#')).any(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect::<String>() == heading
    })
}

fn files_of(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?;
    Ok(entries.flatten().map(|e| e.path()).collect())
}

/// Every Rust file below a folder, in order.
pub fn sources(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let mut out = Vec::new();
    let mut stack = vec![dir.to_path_buf()];
    while let Some(d) = stack.pop() {
        for path in files_of(&d)? {
            if path.is_dir() && path.file_name().is_some_and(|n| n != "target") {
                stack.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    out.sort();
    Ok(out)
}
