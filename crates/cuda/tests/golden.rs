//! Graphs and the CUDA C that becomes of them.
//!
//! A file of `tests/golden` holds a graph, a line of dashes, and its kernels. A file of `tests/stages` has the name of
//! a stage and holds a graph, a line of dashes, and the graph (or the waves of regions) after that stage.
//! `TALWEG_BLESS=1` rewrites the second half; read the difference.

use passes::{State, Watch};
use std::borrow::Cow;
use std::fmt::Write;
use talweg_cuda::lower::{Code, Lowered};
use talweg_cuda::target::{Gpu, GpuTarget};

const LINE: &str = "----\n";

fn kernels(text: &str) -> String {
    let graph = ir::Graph::parse(text, &ops::find).unwrap();
    let plan = Lowered::new(
        graph,
        Gpu { capability: (9, 0), supports: &|_| true, is_faster: &|_| true, has_fft: true },
        &mut Watch::none(),
    )
    .unwrap();
    let mut out = String::new();
    for (r, w) in plan.code.iter().enumerate() {
        match w {
            Code::Kernels(list) => {
                for k in list {
                    writeln!(out, "// region {r}: {} blocks of {} threads\n{}", k.grid, k.block, k.source).unwrap();
                }
            }
            Code::Gemm(p, _) => writeln!(out, "// region {r}: {p:?}\n").unwrap(),
            Code::Network { network: n, around: [before, behind], .. } => {
                for k in before.iter().chain(behind) {
                    writeln!(out, "// around {r}: {} blocks of {} threads\n{}", k.grid, k.block, k.source).unwrap();
                }
                writeln!(out, "// region {r}: cuDNN, {} bytes of scratch space", n.scratch).unwrap();
                n.tensors.iter().enumerate().for_each(|(i, t)| writeln!(out, "%{i} {t:?}").unwrap());
                n.nodes.iter().for_each(|n| writeln!(out, "{n:?}").unwrap());
            }
            Code::Fft { transform: t, .. } => writeln!(out, "// region {r}: {t:?}\n").unwrap(),
            Code::Scan(s) => {
                writeln!(out, "// region {r}: {} iterations\n{}", s.iterations.length(), s.each.sources()).unwrap()
            }
            Code::Host { node, .. } => {
                writeln!(out, "// region {r}: {} on the host\n", plan.plan.fused.graph.nodes[*node].op.name).unwrap();
            }
        }
    }
    out
}

/// The graph, or the waves of regions, after a stage of the GPU.
fn stage(name: &str, text: &str) -> String {
    let graph = ir::Graph::parse(text, &ops::find).unwrap();
    let target = GpuTarget::new(Gpu { capability: (9, 0), supports: &|_| true, is_faster: &|_| true, has_fft: true });
    let mut stages = passes::target_stages(&target);
    let last = stages.iter().position(|s| s.name == name).unwrap_or_else(|| panic!("no stage is named {name}"));
    stages.truncate(last + 1);
    match passes::run(&stages, State::Graph(Cow::Owned(graph)), &mut Watch::none()).unwrap() {
        State::Graph(g) => g.to_string(),
        State::Regions(f) => f.waves_text(),
    }
}

/// Compares the second half of each file of a folder with what becomes of the first.
fn compare(folder: &str, made: &dyn Fn(&str, &str) -> String) {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, after) = text.split_once(LINE).unwrap_or((&text, ""));
        let got = made(file.file_stem().and_then(|s| s.to_str()).unwrap(), before);
        if std::env::var_os("TALWEG_BLESS").is_some() {
            std::fs::write(&file, format!("{before}{LINE}{got}")).unwrap();
        } else {
            assert_eq!(got, after, "{}", file.display());
        }
    }
}

#[test]
fn graphs_become_these_kernels() {
    compare("golden", &|_, text| kernels(text));
}

#[test]
fn stages_do_what_the_files_say() {
    // `nhwc-stem` is another graph for `nhwc`.
    compare("stages", &|name, text| stage(name.split('-').next().unwrap_or(name), text));
}

#[test]
fn a_plan_needs_no_gpu() {
    let device = runtime::open_offline("cuda").unwrap();
    let mut names = Vec::new();
    let mut see = |r: &passes::Report| names.push(r.stage);
    let text = include_str!("golden/updates.txt").split(LINE).next().unwrap();
    let graph = ir::Graph::parse(text, &ops::find).unwrap();
    let engine = runtime::Engine::new(device);
    let program = engine.compile_watched(&graph, &mut Watch::new(&mut see)).unwrap();
    // Every transformation has a name: the portable stages, the GPU's, and those of the plan.
    let portable = passes::portable_stages(&[], &|_, _| false, &runtime::reference::run_node);
    let portable: Vec<&str> = portable.iter().map(|s| s.name).collect();
    let all = [
        &portable.join(" "),
        "join_pads fuse_fft transpose_fp8 fuse_bias fuse_epilogue decompose_activations heads_last join_gradients nhwc \
         pool_gradients",
        "materialize prune",
        "fuse rematerialize launch_order fuse_launches draw_in_loops select plan_memory lower pack_arena",
    ];
    assert_eq!(names.join(" "), all.join(" "));
    let explained = program.explain();
    for part in ["cuBLASLt: matmul_bias | reads", "flops |", "arena", "planned without a GPU"] {
        assert!(explained.contains(part), "no {part:?} in\n{explained}");
    }
    assert!(program.sources().contains("__global__"));
    assert!(program.run(&mut []).is_err());
}
