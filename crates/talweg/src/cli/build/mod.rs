//! `talweg build`: a program or library that holds one model.
//!
//! The model is planned here, at fixed sizes. A small Cargo project is written that holds the plan and the weights and
//! depends on `talweg-edge`; Cargo compiles it for the target, with only what the plan needs.

mod project;

use super::onnx;
use crate::{Error, Result};
use cpu::Compiled;
use ir::{ErrorKind, Literal, Type};
use model::Model;
use project::{Ports, Project};
use std::path::{Path, PathBuf};

/// What to build.
#[derive(clap::Args)]
pub struct Options {
    /// An exported model, or an ONNX file.
    model: PathBuf,
    /// x86_64, aarch64 or wasm32, or a target of rustc; by default that of this machine.
    #[arg(long)]
    target: Option<String>,
    /// A static library with a C header instead of a program.
    #[arg(long)]
    lib: bool,
    /// The file to write; by default the name of the model.
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// A free size of the inputs, as `batch=8`; the least it may be without it.
    #[arg(long = "size", value_name = "NAME=N")]
    sizes: Vec<String>,
    /// Instruction sets beyond the target's own that kernels are compiled for: `avx2`, `avx512`, or none.
    #[arg(long, value_delimiter = ',', default_value = "avx2")]
    isa: Vec<String>,
    /// Compiles kernels for size too: about a quarter smaller, and several times slower.
    #[arg(long)]
    small: bool,
    /// Of a module for pages: compiles a second one with relaxed SIMD, which a page takes where the browser has it.
    #[arg(long)]
    relaxed: bool,
    /// Where to write the Cargo project, which is kept; by default a folder beside the output that is kept too.
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// The sources of Talweg; by default those that this command was compiled from, or else the released crate.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

/// What is made.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Program,
    Library,
    /// A module for a page or another host of WebAssembly; the model is a file beside it.
    Wasm,
}

/// Plans a model, writes its project, compiles it and reports sizes.
pub fn run(o: &Options) -> Result<()> {
    let triple = triple(o.target.as_deref());
    let kind = match (triple.starts_with("wasm32"), o.lib) {
        (true, _) => Kind::Wasm,
        (false, true) => Kind::Library,
        (false, false) => Kind::Program,
    };
    let planned = plan(&o.model, &onnx::sizes(&o.sizes)?)?;
    let name = project::identifier(&planned.name);
    let suffix = match kind {
        Kind::Program => "",
        Kind::Library => ".a",
        Kind::Wasm => ".wasm",
    };
    let stem = if kind == Kind::Library { format!("lib{name}") } else { name.clone() };
    let output = o.output.clone().unwrap_or_else(|| PathBuf::from(format!("{stem}{suffix}")));
    let mut beside = output.clone().into_os_string();
    beside.push(".build");
    let project = Project {
        dir: o.project.clone().unwrap_or_else(|| beside.into()),
        name: name.clone(),
        triple,
        kind,
        link: planned.link(&o.isa)?,
        is_small: o.small,
        source: o.source.clone(),
        ports: planned.ports,
        has_gpu: planned.gpu.is_ok(),
        has_relaxed: o.relaxed && kind == Kind::Wasm,
    };
    project.write(&planned.bundle)?;
    let made = project.compile(false)?;
    copy(&made, &output)?;
    match kind {
        // The model is a file beside it.
        Kind::Wasm => println!("{}: {} bytes", output.display(), size(&output)?),
        _ => println!("{}: {} bytes, of which the model {}", output.display(), size(&output)?, planned.bundle.len()),
    }
    match kind {
        Kind::Program => {}
        Kind::Library => {
            let header = output.with_file_name(format!("{name}.h"));
            copy(&project.dir.join(format!("{name}.h")), &header)?;
            println!("{}", header.display());
        }
        Kind::Wasm => {
            for (from, to) in [
                ("model.bin".into(), output.with_extension("bin")),
                (format!("{name}.js"), output.with_extension("js")),
            ] {
                copy(&project.dir.join(from), &to)?;
                println!("{}: {} bytes", to.display(), size(&to)?);
            }
            if project.has_relaxed {
                let to = output.with_extension("relaxed.wasm");
                copy(&project.compile(true)?, &to)?;
                println!("{}: {} bytes", to.display(), size(&to)?);
            }
            let to = output.with_extension("gpu");
            match &planned.gpu {
                Ok(program) => {
                    std::fs::write(&to, program).map_err(|e| in_io(&to, e))?;
                    println!("{}: {} bytes", to.display(), program.len());
                }
                Err(ops) => println!("no program for WebGPU, which lacks {ops}"),
            }
        }
    }
    Ok(())
}

fn in_io(path: &Path, e: std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{}: {e}", path.display()))
}
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to).map(|_| ()).map_err(|e| in_io(from, e))
}
fn size(path: &Path) -> Result<u64> {
    Ok(std::fs::metadata(path).map_err(|e| in_io(path, e))?.len())
}

/// The name of a target that rustc knows.
fn triple(target: Option<&str>) -> String {
    let own = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    match target {
        None => own,
        // This machine's own linker and library.
        Some(arch) if arch == std::env::consts::ARCH && cfg!(target_os = "linux") => own,
        Some(arch @ ("x86_64" | "aarch64")) => format!("{arch}-unknown-linux-musl"),
        Some("wasm32") => "wasm32-unknown-unknown".into(),
        Some(triple) => triple.into(),
    }
}

/// A planned model.
struct Planned {
    name: String,
    ports: Ports,
    bundle: Vec<u8>,
    needs: Vec<String>,
    /// The program for WebGPU, or the ops that it lacks.
    gpu: std::result::Result<Vec<u8>, String>,
}

impl Planned {
    /// The list of what is linked.
    fn link(&self, isa: &[String]) -> Result<String> {
        let known = ["avx2", "avx512", "none"];
        if let Some(bad) = isa.iter().find(|i| !known.contains(&i.as_str())) {
            return Err(Error::value(format!("--isa: {bad:?} is none of {known:?}")));
        }
        Ok(self.needs.iter().chain(isa).map(String::as_str).collect::<Vec<_>>().join(";"))
    }
}

/// Plans a model at fixed sizes, and checks that the plan computes what the model does.
fn plan(path: &Path, sizes: &crate::onnx::Sizes) -> Result<Planned> {
    let imported;
    let mut dir = path;
    if onnx::is_onnx(path) {
        imported = onnx::imported_once(path, sizes)?;
        dir = imported.path();
    }
    let model = Model::load_on(dir, Some("cpu"))?;
    let s = model.signature();
    if let Some(k) = sizes.keys().find(|k| !onnx::is_onnx(path) && !s.dims.iter().any(|d| d.name == **k)) {
        let free: Vec<&str> = s.dims.iter().map(|d| d.name.as_str()).collect();
        return Err(Error::value(format!("the model has no size {k:?}; its free sizes are {free:?}")));
    }
    let size = |d: &model::Dimension| {
        let least = d.min.max(1).next_multiple_of(d.multiple_of.max(1));
        let n = sizes.get(&d.name).copied().unwrap_or(least);
        d.check(n).map(|()| n)
    };
    let chosen = s.dims.iter().map(size).collect::<Result<Vec<usize>>>()?;
    let frozen = model.frozen(&chosen)?;
    let gpu = gpu(&frozen)?;
    let compiled = Compiled::new(crate::engine_named("cpu")?.optimize(&frozen)?)?;
    let needs = cpu::needs(&compiled)?;
    let plan = compiled.plan();
    let results = plan.results.iter().map(|(_, t)| t.clone()).collect::<Vec<Type>>();
    let ports = |specs: &[model::TensorSpec], types: &[Type]| {
        specs.iter().map(|s| s.name.clone()).zip(types.iter().cloned()).collect::<Vec<_>>()
    };
    let ports = Ports { inputs: ports(&s.inputs, &plan.inputs), outputs: ports(&s.outputs, &results) };
    if let Some((name, t)) = ports.inputs.iter().chain(&ports.outputs).find(|(_, t)| t.dtype.is_complex()) {
        return Err(Error::dtype(format!("{name} is {t}: a program takes and returns no complex numbers")));
    }
    let names = |list: &[(String, Type)]| list.iter().map(|(n, _)| n.clone()).collect::<Vec<_>>();
    let bundle = edge::bundle(&s.name, &names(&ports.inputs), &names(&ports.outputs), plan)?;
    check(&model, &bundle, &ports)?;
    Ok(Planned { name: s.name.clone(), ports, bundle, needs: needs.into_iter().collect(), gpu })
}

/// The program of a graph for WebGPU in a page, or the ops that it lacks.
fn gpu(graph: &ir::Graph) -> Result<std::result::Result<Vec<u8>, String>> {
    let graph = passes::optimize(graph, &wgsl::lower::claims, &runtime::reference::run_node)?;
    let lowered = wgsl::lower::Lowered::new(graph, &mut passes::Watch::none())?;
    match wgsl::page::refusal(&lowered) {
        Some(ops) => Ok(Err(ops)),
        None => Ok(Ok(wgsl::page::file(&lowered)?)),
    }
}

/// Fails unless the bundle computes what the model does on one input.
fn check(model: &Model, bundle: &[u8], ports: &Ports) -> Result<()> {
    let examples = crate::onnx::Model::examples(&ports.inputs.iter().map(|(_, t)| t.clone()).collect::<Vec<_>>());
    let inputs = examples.iter().map(|t| t.literal()).collect::<Result<Vec<Literal>>>()?;
    let want = model.run(&inputs)?;
    // The rest of the process needs no less memory.
    let memory = Box::leak(Box::new(ir::Bytes::copy_of(bundle)));
    let built = edge::Model::new(&memory.as_slice()[..bundle.len()])?;
    let mut got: Vec<Vec<u8>> = ports.outputs.iter().map(|(_, t)| vec![0; t.bytes()]).collect();
    let bytes: Vec<&[u8]> = inputs.iter().map(Literal::bytes).collect();
    built.run(&bytes, &mut got.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>())?;
    for (((name, ty), got), want) in ports.outputs.iter().zip(&got).zip(&want) {
        let got = Literal::from_bytes(ty.dtype, ty.shape.clone(), got)?.to_f64();
        let want = want.to_f64();
        let scale = want.iter().filter(|x| x.is_finite()).fold(1e-30, |m: f64, x| m.max(x.abs()));
        let near = |(a, b): (&f64, &f64)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 1e-3 * scale;
        if !got.iter().zip(&want).all(near) {
            return Err(Error::bug(format!("{name}: the planned model computes something else than the model")));
        }
    }
    Ok(())
}
