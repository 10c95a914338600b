//! ONNX files on the command line: `talweg import`, and what other commands do with a file that ends in `.onnx`.

use crate::ir::Graph;
use crate::ir::Literal;
use crate::onnx::{Model, Sizes};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What to import.
#[derive(clap::Args)]
pub struct ImportOptions {
    /// The file.
    file: PathBuf,
    /// The directory to write, such as `repository/NAME/1`.
    directory: PathBuf,
    /// Fixes a free size of the inputs, as `batch=1`; the others stay free.
    #[arg(long = "size", value_name = "NAME=N")]
    sizes: Vec<String>,
    /// The name of the model; by default that of the file.
    #[arg(long)]
    name: Option<String>,
}

/// Whether a path names an ONNX file.
pub fn is_onnx(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("onnx"))
}

/// Sizes from `NAME=N`.
pub fn sizes(texts: &[String]) -> Result<Sizes> {
    let one = |t: &String| {
        let parsed = t.split_once('=').and_then(|(name, n)| Some((name.to_string(), n.parse().ok()?)));
        parsed.ok_or_else(|| Error::value(format!("--size: {t:?} is not NAME=N")))
    };
    texts.iter().map(one).collect()
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or("model".into(), |s| s.to_string_lossy().into_owned())
}

/// Writes a model in Talweg's own format.
pub fn import(o: &ImportOptions) -> Result<()> {
    let name = o.name.clone().unwrap_or_else(|| stem(&o.file));
    Model::open(&o.file)?.export(&o.directory, &name, &sizes(&o.sizes)?)
}

/// Imports a model to its own folder, for a server.
#[cfg(feature = "serve")]
pub fn imported(file: &Path, root: &Path) -> Result<PathBuf> {
    let name = stem(file);
    let directory = root.join(&name).join("1");
    Model::open(file)?.export(&directory, &name, &Sizes::new())?;
    Ok(root.join(name))
}

/// A folder that is removed with this.
pub struct Folder(PathBuf);

impl Folder {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}
impl Drop for Folder {
    fn drop(&mut self) {
        // What is left lies among temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Imports a model for as long as the folder lives; sizes that are given are fixed.
pub fn imported_once(file: &Path, sizes: &Sizes) -> Result<Folder> {
    let folder = Folder(std::env::temp_dir().join(format!("talweg-{}-{}", stem(file), std::process::id())));
    Model::open(file)?.export(folder.path(), &stem(file), sizes)?;
    Ok(folder)
}

/// The graph of a model at these sizes.
pub fn graph(path: &Path, sizes: &Sizes) -> Result<Graph> {
    Ok(Model::open(path)?.trace(sizes)?.graph)
}

/// Shows what a model takes and what it consists of.
pub fn inspect(path: &Path) -> Result<()> {
    let m = Model::open(path)?;
    let sets: Vec<String> = m
        .opsets()
        .iter()
        .map(|(d, v)| format!("{}{v}", if d.is_empty() { String::new() } else { format!("{d} ") }))
        .collect();
    println!("{} by {:?}, operator sets {}", m.name(), m.producer(), sets.join(", "));
    m.inputs().iter().for_each(|p| println!("input   {:24} {}", p.name, p.describe()));
    m.outputs().iter().for_each(|p| println!("output  {:24} {}", p.name, p.describe()));
    let weights: usize = m.weights().iter().map(|(_, w)| w.shape().count()).sum();
    println!("{} weights with {weights} numbers", m.weights().len());
    let ops: Vec<String> = m.operators().iter().map(|(op, n)| format!("{op} {n}")).collect();
    println!("{}", ops.join(", "));
    Ok(())
}

/// Runs a model on given inputs; the names of outputs with their values.
pub fn infer(
    path: &Path,
    given: impl FnOnce(&Model) -> Result<Vec<(String, Literal)>>,
) -> Result<Vec<(String, Literal)>> {
    let m = Model::open(path)?;
    let mut given = given(&m)?;
    let take = |p: &crate::onnx::Port| {
        let at = given.iter().position(|(n, _)| *n == p.name);
        let at = at.ok_or_else(|| Error::value(format!("input {:?} is missing: it is {}", p.name, p.describe())))?;
        Ok(crate::Tensor::from(given.swap_remove(at).1))
    };
    let inputs = m.inputs().iter().map(take).collect::<Result<Vec<_>>>()?;
    let outputs = m.run_tensors(&inputs)?;
    let named = m.outputs().iter().zip(outputs).map(|(p, t)| Ok((p.name.clone(), t.literal()?)));
    named.collect()
}

/// Measures a model: how long it takes to load, to run first, and to run.
pub fn bench(path: &Path, sizes: &Sizes) -> Result<()> {
    let began = Instant::now();
    let m = Model::open(path)?;
    let inputs = Model::examples(&m.input_types(sizes)?);
    let load_ms = began.elapsed().as_secs_f64() * 1e3;
    let run = || -> Result<f64> {
        let began = Instant::now();
        m.run_tensors(&inputs)?.iter().try_for_each(|t| t.eval().map(|_| ()))?;
        Ok(began.elapsed().as_secs_f64() * 1e3)
    };
    let first_ms = run()?;
    let began = Instant::now();
    let mut times = Vec::new();
    while times.len() < 5 || (began.elapsed().as_secs_f64() < 2.0 && times.len() < 1000) {
        times.push(run()?);
    }
    times.sort_by(f64::total_cmp);
    let line = serde_json::json!({
        "model": path.display().to_string(), "load_ms": load_ms, "first_ms": first_ms, "median_ms": times[times.len() / 2],
        "min_ms": times[0], "runs": times.len(), "node_by_node": m.is_eager(),
    });
    println!("{line}");
    Ok(())
}
