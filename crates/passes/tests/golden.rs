//! Each pass on a small graph: text before, text after.
//!
//! A file of `tests/golden` has the name of a pass (`fuse`, `fuse-circle`) and holds the graph before it, a line of
//! dashes, and what comes out. `TALWEG_BLESS=1` rewrites the second half; read the difference.

use ir::{FlatNode, Graph, Layout, Slot};
use passes::{Fused, Location, Stage, State, Target, View, Watch};
use std::borrow::Cow;
use std::fmt::Write;
use talweg_passes as passes;

const LINE: &str = "----\n";

/// A device with every stage after fusion. Kernels take contiguous operands, and GEMM has epilogues.
#[derive(Default)]
struct Plain {
    /// All regions are worth a thread of their own, or none.
    light: bool,
    /// The op that starts asynchronous work.
    starts: &'static str,
}

impl Target for Plain {
    fn region_stages(&self) -> Vec<Stage<'_>> {
        vec![
            Stage::regions("elide_copies", |f| passes::elide_copies(f, &Anywhere)),
            Stage::regions("fuse_epilogues", |f| passes::fuse_epilogues(f, self)),
            Stage::regions("rematerialize", passes::rematerialize),
            Stage::regions("rematerialize_narrow", passes::rematerialize_narrow),
            Stage::regions("schedule", |f| passes::schedule(f, self)),
        ]
    }
    fn is_barrier(&self, n: &FlatNode) -> bool {
        n.op.name == "barrier"
    }
    fn has_epilogue(&self, n: &FlatNode, _: &[View]) -> bool {
        n.op.name == "matmul"
    }
    fn is_light(&self, _: &Fused, _: usize) -> bool {
        self.light
    }
    fn starts_async(&self, fused: &Fused, region: usize) -> bool {
        fused.regions[region].nodes().iter().any(|&n| fused.graph.nodes[n as usize].op.name == self.starts)
    }
}

/// A device whose kernels write and read attention's values in any layout.
struct Anywhere;

impl Target for Anywhere {
    fn concat_axis(&self, n: &FlatNode) -> Option<usize> {
        (n.op.name == "concat").then(|| n.attrs.size("axis").unwrap())
    }
    fn writes(&self, n: &FlatNode, _: usize, _: &Layout) -> bool {
        n.op.name.starts_with("attention")
    }
    fn accepts(&self, n: &FlatNode, _: usize, _: &Layout) -> bool {
        n.op.name.starts_with("attention")
    }
}

/// Runs these stages of a target.
fn through(g: &Graph, target: &dyn Target, names: &[&str]) -> Fused {
    let mut stages = passes::target_stages(target);
    stages.retain(|s| names.contains(&s.name));
    passes::run(&stages, State::Graph(Cow::Borrowed(g)), &mut Watch::none()).unwrap().into_regions().unwrap()
}
fn fused(g: &Graph) -> Fused {
    through(g, &Plain::default(), &["materialize", "prune", "fuse"])
}
/// Regions after fusion and one more stage.
fn after(g: &Graph, stage: &str) -> Fused {
    let f = through(g, &Plain::default(), &["materialize", "prune", "fuse", stage]);
    memory(&f);
    f
}

fn memory(f: &Fused) -> passes::MemoryPlan {
    let none = vec![0; f.regions.len()];
    let mut m = passes::plan_memory(f, 0, &Plain::default());
    m.pack(&none);
    passes::check_memory_plan(f, &m, &none, &Plain::default()).unwrap();
    m
}

fn regions(f: &Fused) -> String {
    f.graph.to_string() + &f.text()
}

fn locations(g: &Graph) -> String {
    let f = after(g, "fuse_epilogues");
    let a = memory(&f);
    let mut out = String::new();
    for (i, n) in f.graph.nodes.iter().enumerate() {
        let location = match a.location(Slot::new(i, 0)) {
            Location::Nowhere => "nowhere".into(),
            Location::Input(k) => format!("input {k}"),
            Location::Const(k) => format!("constant %{k}"),
            Location::Arena(at) => format!("arena from byte {at}"),
            Location::Result(k) => format!("result {k}"),
        };
        writeln!(out, "%{i} {}: {location}", n.op.name).unwrap();
    }
    writeln!(out, "arena: {} bytes, of which {} are live at once", a.arena_bytes, a.live_bytes).unwrap();
    out
}

/// Inputs whose name begins with `same` are the same at every turn.
fn halves(g: &Graph) -> String {
    let name = |&i: &u32| g.nodes[i as usize].attrs.str("name").unwrap().starts_with("same");
    let split = passes::hoist_invariants(g, &g.inputs.iter().map(name).collect::<Vec<_>>());
    split.once.verify().unwrap();
    split.each.verify().unwrap();
    format!("# once\n{}# at each turn\n{}", split.once, split.each)
}

/// A line a wave, and the memory.
fn order(g: &Graph, target: &Plain) -> String {
    let before = memory(&fused(g)).live_bytes;
    let f = through(g, target, &["materialize", "prune", "fuse", "schedule"]);
    let live = memory(&f).live_bytes;
    format!("{}live at once: {live} bytes, {before} in the order of the program\n", f.waves_text())
}

fn stages(g: &Graph) -> String {
    let all = passes::staged_graphs(g, ops::patterns(), &|_, _| false, &runtime::reference::run_node).unwrap();
    all.iter().map(|(name, graph)| format!("# after {name}\n{graph}")).collect()
}

/// What a stage makes of a graph, as text. Any stage of the recipe can be named; some need more than a graph.
fn apply(name: &str, g: &Graph) -> String {
    match name {
        "hoist_invariants" => return halves(g),
        "fuse" => return regions(&fused(g)),
        "schedule" => return order(g, &Plain::default()),
        "soon" => return order(g, &Plain { starts: "cumsum", ..Plain::default() }),
        "waves" => return order(g, &Plain { light: true, ..Plain::default() }),
        "plan_memory" => return locations(g),
        "stages" => return stages(g),
        _ => {}
    }
    let plain = Plain::default();
    let claims = |n: &FlatNode, _: &[ir::Type]| name == "recognize" && n.op.name.starts_with("attention");
    let portable = passes::portable_stages(ops::patterns(), &claims, &runtime::reference::run_node);
    if plain.region_stages().iter().any(|s| s.name == name) {
        return regions(&after(g, name));
    }
    let stage = portable.into_iter().chain(passes::target_stages(&plain)).find(|s| s.name == name);
    let stage = [stage.unwrap_or_else(|| panic!("no stage is named {name}"))];
    let done = passes::run(&stage, State::Graph(Cow::Borrowed(g)), &mut Watch::none());
    done.and_then(State::into_graph).unwrap_or_else(|e| panic!("{name}: {e}")).to_string()
}

#[test]
fn passes_do_what_the_files_say() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 8, "a file for each pass");
    let mut changed = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path).unwrap();
        let (before, after) = text.split_once(LINE).unwrap_or((&text, ""));
        let find = |name: &str| ops::find(name).or((name == passes::COPY.name).then_some(&passes::COPY));
        let g = Graph::parse(before, &find).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let pass = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default();
        // `fuse-circle` is another graph for `fuse`.
        let got = apply(pass.split('-').next().unwrap_or(pass), &g);
        if std::env::var_os("TALWEG_BLESS").is_some() {
            std::fs::write(&path, format!("{before}{LINE}{got}")).unwrap();
        } else if got != after {
            changed.push(format!("{}:\n{got}instead of\n{after}", path.display()));
        }
    }
    assert!(changed.is_empty(), "TALWEG_BLESS=1 rewrites these:\n{}", changed.join("\n"));
}
