//! Rules about files: who may depend on whom, how large a file may grow, where `unsafe` may stand, and that links of
//! the documentation lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of ours it may name; the order is the order the data flows.
const EDGES: &[(&str, &[&str])] = &[
    ("ir", &[]),
    ("passes", &["ir"]),
    ("runtime", &["ir", "passes"]),
    ("cpu", &["ir", "passes", "runtime"]),
    ("cuda", &["ir", "passes", "runtime"]),
    ("ops", &["ir", "passes", "runtime"]),
    ("tensor", &["ir", "passes", "runtime", "ops"]),
    ("data", &["ir"]),
    ("net", &[]),
    ("dist", &["net"]),
    ("nn-derive", &[]),
    ("nn", &["ir", "tensor", "data", "nn-derive"]),
    ("parallel", &["ir", "tensor", "data", "dist", "nn"]),
    ("talweg", &["ir", "passes", "runtime", "cpu", "cuda", "tensor", "nn", "data", "dist", "parallel"]),
    ("py", &["ir", "runtime", "cpu", "cuda", "tensor", "data", "nn", "talweg"]),
    ("testkit", &["ir", "passes", "runtime", "ops", "tensor"]),
    ("xtask", &[]),
];

/// Files and folders that may contain `unsafe`.
const UNSAFE: &[&str] = &[
    "crates/cpu/",
    "crates/cuda/",
    "crates/dist/src/collective/mpi.rs",
    "crates/net/src/shared.rs",
    "crates/py/src/custom.rs",
    "crates/py/src/dlpack.rs",
    "crates/py/src/exchange.rs",
    "crates/py/src/interrupt.rs",
    "crates/py/src/site.rs",
    "crates/testkit/src/allocations.rs",
];

/// A file longer than this holds two ideas.
const LINES_MAX: usize = 1000;

/// Checks every rule and reports all violations together.
pub fn check() -> Result<(), String> {
    println!("== tidy");
    let mut bad = Vec::new();
    edges(&mut bad)?;
    for file in sources(Path::new("crates"))? {
        source(&file, &mut bad)?;
    }
    for dir in ["docs", "docs/adr", "."] {
        for file in files_of(Path::new(dir))?.iter().filter(|f| f.extension().is_some_and(|e| e == "md")) {
            links(file, &mut bad)?;
        }
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
        let Some((_, allowed)) = EDGES.iter().find(|(n, _)| *n == name) else {
            bad.push(format!("crates/{name}: not in the list of crates in xtask/src/tidy.rs"));
            continue;
        };
        let manifest = read(&entry.path().join("Cargo.toml"))?;
        let mut in_dependencies = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                in_dependencies = line == "[dependencies]";
            }
            let dep = line.split(['.', ' ', '=']).next().unwrap_or("");
            if in_dependencies && EDGES.iter().any(|(n, _)| *n == dep) && !allowed.contains(&dep) {
                bad.push(format!("crates/{name} must not depend on {dep}"));
            }
        }
    }
    Ok(())
}

fn source(file: &Path, bad: &mut Vec<String>) -> Result<(), String> {
    let text = read(file)?;
    let name = file.display().to_string();
    if !text.starts_with("//!") && !text.starts_with("#!/") {
        bad.push(format!("{name}: must start with //! and what it is for"));
    }
    let lines = text.lines().count();
    if lines > LINES_MAX {
        bad.push(format!("{name}: {lines} lines; over {LINES_MAX} it holds two ideas"));
    }
    let may_be_unsafe = UNSAFE.iter().any(|p| name.starts_with(p)) || name.contains("xtask");
    for (i, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or("");
        if !may_be_unsafe && (code.contains("unsafe {") || code.contains("unsafe fn") || code.contains("unsafe impl")) {
            bad.push(format!("{name}:{}: unsafe outside the listed files", i + 1));
        }
        let is_stub = ["todo!(", "unimplemented!(", "dbg!("].iter().any(|w| code.contains(w));
        if is_stub && !name.contains("xtask") {
            bad.push(format!("{name}:{}: a stub", i + 1));
        }
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
