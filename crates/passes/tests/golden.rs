//! Each pass on a small graph: text before, text after.
//!
//! A file of `tests/golden` has the name of a pass (`fuse`, `fuse-circle`) and holds the graph before it, a line of
//! dashes, and what comes out. `TALWEG_BLESS=1` rewrites the second half; read the difference.

use ir::{Graph, Layout, Slot};
use passes::{Fused, Location, Target};
use std::fmt::Write;
use talweg_passes as passes;

const LINE: &str = "----\n";

/// Contiguous operands only, as the simplest kernel has it.
fn accepts(_: &ir::FlatNode, _: usize, layout: &Layout) -> bool {
    layout.is_contiguous()
}
fn is_barrier(n: &ir::FlatNode) -> bool {
    n.op.name == "barrier"
}
fn fused(g: &Graph) -> Fused {
    passes::fuse(g, &Target { row_max: &|_| 4096, share_min: 4096, accepts: &accepts, barriers: &is_barrier }).unwrap()
}

fn fed(g: &Graph) -> Fused {
    let mut f = fused(g);
    passes::fuse_epilogues(&mut f, &|n, _| n.op.name == "matmul", true);
    f
}

/// Kernels write their results anywhere.
fn redirected(g: &Graph) -> Fused {
    let mut f = fused(g);
    let joins = |n: &ir::FlatNode| (n.op.name == "concat").then(|| n.attrs.size("axis").unwrap());
    let takes = |n: &ir::FlatNode, _: usize, _: &Layout| n.op.name.starts_with("attention");
    let writes = |n: &ir::FlatNode, o: usize, l: &Layout| takes(n, o, l);
    passes::elide_copies(&mut f, &passes::Moves { joins: &joins, writes: &writes, accepts: &takes });
    let none = vec![0; f.regions.len()];
    passes::check_memory_plan(&f, &passes::plan_memory(&f, &none, 0, &|_| None), &none, &|_| None).unwrap();
    f
}

fn regions(f: &Fused) -> String {
    let mut out = f.graph.to_string();
    for r in &f.regions {
        match r {
            passes::Region::Loop(l) => writeln!(out, "{}", l.text(&f.graph).trim_end()).unwrap(),
            passes::Region::Call { node, outs, .. } => {
                write!(out, "call %{node} {}", f.graph.nodes[*node].op.name).unwrap();
                for p in outs.iter().filter(|p| p.root.node as usize != *node) {
                    let (to, by) = (p.root, p.layout.strides.as_slice());
                    write!(out, " to {}.{} by {by:?} from {}", to.node, to.out, p.layout.offset).unwrap();
                }
                out.push('\n');
            }
        }
    }
    out
}

fn locations(g: &Graph) -> String {
    let f = fed(g);
    let none = vec![0; f.regions.len()];
    let a = passes::plan_memory(&f, &none, 0, &|_| None);
    passes::check_memory_plan(&f, &a, &none, &|_| None).unwrap();
    let mut out = String::new();
    for (i, n) in f.graph.nodes.iter().enumerate() {
        let home = match a.location(Slot::new(i, 0)) {
            Location::Nowhere => "nowhere".into(),
            Location::Input(k) => format!("input {k}"),
            Location::Const(k) => format!("constant %{k}"),
            Location::Arena(at) => format!("arena from byte {at}"),
            Location::Result(k) => format!("result {k}"),
        };
        writeln!(out, "%{i} {}: {home}", n.op.name).unwrap();
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

/// A line a wave; all regions or none are worth a thread of their own, and those of the op `soon`
/// begin something.
fn order(g: &Graph, light: bool, soon: &str) -> String {
    let f = fused(g);
    let before = passes::plan_memory(&f, &vec![0; f.regions.len()], 0, &|_| None).live_bytes;
    let light = vec![light; f.regions.len()];
    let is_soon = |r: &passes::Region| r.nodes().iter().any(|&n| f.graph.nodes[n as usize].op.name == soon);
    let soon: Vec<bool> = f.regions.iter().map(is_soon).collect();
    let f = passes::schedule(f, &light, &vec![false; light.len()], &soon);
    let none = vec![0; f.regions.len()];
    let a = passes::plan_memory(&f, &none, 0, &|_| None);
    passes::check_memory_plan(&f, &a, &none, &|_| None).unwrap();
    let mut out = String::new();
    for w in &f.waves {
        let list = f.regions[w.clone()].iter().map(|r| {
            let names =
                r.nodes().iter().map(|&n| format!("%{n} {}", f.graph.nodes[n as usize].op.name)).collect::<Vec<_>>();
            names.join(", ")
        });
        writeln!(out, "{}", list.collect::<Vec<_>>().join(" | ")).unwrap();
    }
    writeln!(out, "live at once: {} bytes, {before} in the order of the program", a.live_bytes).unwrap();
    out
}

fn stages(g: &Graph) -> String {
    let all = passes::stages(g, ops::patterns(), &|_, _| false, &runtime::reference::run_node).unwrap();
    all.iter().map(|s| format!("# after {}\n{}", s.name, s.graph)).collect()
}

/// What a pass makes of a graph, as text.
fn apply(pass: &str, g: &Graph) -> String {
    let graph = |g: Graph| {
        g.verify().unwrap_or_else(|e| panic!("{pass}: {e}\n{g}"));
        g.to_string()
    };
    match pass {
        "decompose" => graph(passes::decompose(g, &|_, _| false).unwrap()),
        "split_complex" => graph(passes::split_complex(g).unwrap()),
        "prune" => graph(passes::prune(g)),
        "fold" => graph(passes::fold(g, &runtime::reference::run_node).unwrap()),
        "simplify" => graph(passes::simplify(g).unwrap()),
        "deduplicate" => graph(passes::deduplicate(g)),
        "recognize" => {
            graph(passes::recognize(g, ops::patterns(), &|n, _| n.op.name.starts_with("attention")).unwrap())
        }
        "materialize" => graph(passes::materialize(g, &accepts, &is_barrier).unwrap()),
        "hoist_invariants" => halves(g),
        "fuse" => regions(&fused(g)),
        "fuse_epilogues" => regions(&fed(g)),
        "elide_copies" => regions(&redirected(g)),
        "rematerialize" => regions(&passes::rematerialize(fused(g))),
        "schedule" => order(g, false, ""),
        "soon" => order(g, false, "cumsum"),
        "waves" => order(g, true, ""),
        "plan_memory" => locations(g),
        "stages" => stages(g),
        other => panic!("no pass is named {other}"),
    }
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
