//! `talweg explain`: what becomes of a graph on its way to the device.

use crate::ir::{Buffer, Collect, Graph, Literal};
use crate::{DType, Error, Fetch, Result, Tensor, Variable, engine, find, placeholder};
use bench::{peak_mb, resident_mb};
use nn::optim::{Adagrad, Optimizer};
use runtime::Engine;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What to explain.
#[derive(clap::Args)]
pub struct Options {
    /// A graph in text or binary form, or an ONNX model; without it, the training step of a small perceptron. With
    /// --mesh, a program.
    file: Option<PathBuf>,
    /// Arguments of the program, with --mesh.
    #[arg(requires = "mesh", trailing_var_arg = true, value_name = "ARGS")]
    args: Vec<OsString>,
    /// Lists what the ranks of a mesh exchange in the program's train step: data=2,tensor=2. The step is not run. With
    /// --plan auto, a number of ranks will do.
    #[arg(long, value_name = "AXIS=SIZE,…", requires = "file")]
    mesh: Option<String>,
    /// The machines that --plan auto is for: see `talweg plan`.
    #[arg(long, default_value = "local", requires = "mesh", value_name = "NAME|FILE")]
    cluster: String,
    /// How the program is cut over the mesh: data, fsdp, megatron, a file, or auto, which searches as `talweg plan`
    /// does. Settings follow: data,microbatches=8.
    #[arg(long, default_value = "data", requires = "mesh")]
    plan: String,
    /// An exchange that the plan does not ask for is an error.
    #[arg(long, requires = "mesh")]
    strict: bool,
    /// A free size of an ONNX model's inputs, as `batch=8`; 1 without it.
    #[arg(long = "size", value_name = "NAME=N")]
    sizes: Vec<String>,
    /// The device: `cpu`, `cuda`. Without a GPU, `cuda` shows the plan and its kernels, and says what it assumed.
    #[arg(long)]
    device: Option<String>,
    /// Prints the source of the GPU's kernels after the plan.
    #[arg(long)]
    sources: bool,
    /// Runs it this many times and shows where the time goes, by region and by line.
    #[arg(long, value_name = "RUNS", num_args = 0..=1, default_missing_value = "100")]
    profile: Option<usize>,
    /// Writes a drawing of the graph as SVG.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Writes the graph in DOT.
    #[arg(long)]
    dot: Option<PathBuf>,
    /// Writes the graph's text form.
    #[arg(long)]
    text: Option<PathBuf>,
}

/// Reads a graph from a file in either form.
pub fn read(path: &PathBuf) -> Result<Graph> {
    let in_file = |e: Error| Error { message: format!("{}: {}", path.display(), e.message), ..e };
    let bytes = std::fs::read(path).map_err(|e| in_file(e.into()))?;
    let graph = match std::str::from_utf8(&bytes) {
        Ok(text) => Graph::parse(text, &find),
        Err(_) => Graph::from_bytes(&bytes, &find),
    };
    graph.map_err(in_file)
}

/// The training step of the perceptron in the documents: 784-100-10, Adagrad.
fn perceptron() -> Result<Graph> {
    let x = placeholder("x", [128, 784], DType::F32);
    let y = placeholder("y", [128], DType::I64);
    let variable = |name: &str, shape: &[usize]| Variable::new(name, Tensor::zeros(shape));
    let (w1, b1) = (variable("W_1", &[784, 100])?, variable("b_1", &[100])?);
    let (w2, b2) = (variable("W_2", &[100, 10])?, variable("b_2", &[10])?);
    let hidden = (x.matmul(&w1) + &b1).relu();
    let loss = (hidden.matmul(&w2) + &b2).cross_entropy(&y);
    let optimizer = Optimizer::new(Adagrad::default(), [w1, b1, w2, b2].as_slice())?;
    let step = optimizer.minimize(&loss)?;
    let (mut values, mut assigned) = (Vec::new(), Vec::new());
    loss.fetch(&mut values, &mut assigned)?;
    step.fetch(&mut values, &mut assigned)?;
    values.extend(assigned.into_iter().map(|(_, v)| v));
    Ok(crate::ir::collect(&values, Collect::Later)?.graph)
}

/// Runs a program on ones and zeros and says where the time went.
fn profile(program: &dyn runtime::Program, graph: &Graph, runs: usize) -> Result<crate::Profile> {
    // Any integer may be an index: zero is one into everything.
    let value = |&i: &u32| {
        let ty = &graph.nodes[i as usize].outs[0];
        let ones = vec![1.0; ty.shape.count()];
        let is_float = ty.dtype.is_float();
        Buffer::Host(if is_float {
            Literal::from_f64(ty.dtype, &ty.shape, &ones)
        } else {
            Literal::zeros(ty.dtype, &ty.shape)
        })
    };
    let inputs: Vec<Buffer> = graph.inputs.iter().map(value).collect();
    program.run(&mut inputs.clone())?;
    let (done, profile) = crate::profile(|| (0..runs).try_for_each(|_| program.run(&mut inputs.clone()).map(|_| ())));
    done.map(|()| profile)
}

/// The engine of a device. A kind of device that this machine lacks may still plan and explain programs.
fn engine_for(device: Option<&str>) -> Result<&'static Engine> {
    let Some(name) = device else { return Ok(engine()) };
    match (crate::engine_named(name), crate::runtime::open_offline(name)) {
        (Ok(engine), _) => Ok(engine),
        (Err(_), Some(device)) => Ok(Box::leak(Box::new(Engine::new(device).with_patterns(tensor::patterns())))),
        (Err(e), None) => Err(e),
    }
}

/// Runs a program up to its first train step on a mesh that is not there, and prints what ranks would exchange.
fn exchanges(o: &Options, mesh: &str, file: &Path, own: &super::Program) -> Result<()> {
    let program: Vec<OsString> = [file.as_os_str().to_os_string()].into_iter().chain(o.args.iter().cloned()).collect();
    let (mesh, plan, _file) = super::plan::resolved((Some(mesh), &o.plan, &o.cluster), &program, own)?;
    let report = std::env::temp_dir().join(format!("talweg-mesh-{}", std::process::id()));
    let mut command = super::plan::command(&program, own);
    let plan = if o.strict { format!("{plan},strict") } else { plan };
    command.env(parallel::MESH, mesh.to_string()).env(parallel::PLAN, plan).env(parallel::REPORT, &report);
    let failed = |e: std::io::Error| Error::value(format!("{}: {e}", file.display()));
    let done = command.output().map_err(failed)?;
    let text = std::fs::read_to_string(&report);
    let _ = std::fs::remove_file(&report);
    let said = String::from_utf8_lossy(&done.stderr);
    let text = text.map_err(|_| Error::value(format!("{} jits no train step: {said}", file.display())))?;
    let count = text.lines().filter(|l| !l.starts_with("stage ")).count();
    println!("exchanges of a train step on {mesh}, plan {}: {count}", o.plan);
    print!("{text}");
    if said.contains("the plan is strict") { Err(Error::value(said.trim().to_string())) } else { Ok(()) }
}

/// Prints the stages and writes the drawings.
pub fn run(o: &Options, own: &super::Program) -> Result<()> {
    if let (Some(mesh), Some(file)) = (&o.mesh, &o.file) {
        return exchanges(o, mesh, file, own);
    }
    let graph = match &o.file {
        Some(path) if super::onnx::is_onnx(path) => super::onnx::graph(path, &super::onnx::sizes(&o.sizes)?)?,
        Some(path) => read(path)?,
        None => perceptron()?,
    };
    let engine = engine_for(o.device.as_deref())?;
    print!("{}", crate::explain::explain_on(engine, &graph, true)?);
    if o.sources {
        println!("{}", engine.compile(&graph)?.sources());
    }
    if let Some(runs) = o.profile {
        let last = engine.optimize(&graph)?;
        let program = engine.device().compile(last.clone())?;
        let before = resident_mb();
        println!("== {runs} runs\n{}", profile(program.as_ref(), &last, runs)?);
        // Only Linux says how much that is.
        if before > 0.0 {
            println!("memory measured: {before:.2} MiB resident before, {:.2} MiB more at most", peak_mb() - before);
        }
    }
    let write = |path: &Option<PathBuf>, what: String| match path {
        Some(p) => std::fs::write(p, what).map_err(|e| Error::value(format!("{}: {e}", p.display()))),
        None => Ok(()),
    };
    write(&o.svg, crate::ir::drawing::to_svg(&graph))?;
    write(&o.dot, crate::ir::drawing::to_dot(&graph))?;
    write(&o.text, graph.to_string())
}
