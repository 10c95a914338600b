//! Graphs and the CUDA C that becomes of them.
//!
//! A file of `tests/golden` holds a graph, a line of dashes, and its kernels. `TALWEG_BLESS=1`
//! rewrites the second half; read the difference.

use std::fmt::Write;
use talweg_cuda::plan::{Chip, Plan, Work};

const LINE: &str = "----\n";

fn kernels(text: &str) -> String {
    let graph = ir::Graph::parse(text, &ops::find).unwrap();
    let plan = Plan::new(&graph, Chip { major: 9, has: &|_| true, wins: &|_| true }).unwrap();
    let mut out = String::new();
    for (r, w) in plan.work.iter().enumerate() {
        match w {
            Work::Kernels(list) => {
                for k in list {
                    writeln!(out, "// region {r}: {} blocks of {} threads\n{}", k.grid, k.block, k.source).unwrap();
                }
            }
            Work::Gemm(p, _) => writeln!(out, "// region {r}: {p:?}\n").unwrap(),
            Work::Network { network: n, around: [before, behind], .. } => {
                for k in before.iter().chain(behind) {
                    writeln!(out, "// around {r}: {} blocks of {} threads\n{}", k.grid, k.block, k.source).unwrap();
                }
                writeln!(out, "// region {r}: cuDNN, {} bytes of scratch space", n.scratch).unwrap();
                n.tensors.iter().enumerate().for_each(|(i, t)| writeln!(out, "%{i} {t:?}").unwrap());
                n.nodes.iter().for_each(|n| writeln!(out, "{n:?}").unwrap());
            }
            Work::Host { node, .. } => {
                writeln!(out, "// region {r}: {} on the host\n", plan.fused.graph.nodes[*node].op.name).unwrap();
            }
        }
    }
    out
}

#[test]
fn graphs_become_these_kernels() {
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty());
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let (before, after) = text.split_once(LINE).unwrap_or((&text, ""));
        let got = kernels(before);
        if std::env::var_os("TALWEG_BLESS").is_some() {
            std::fs::write(&file, format!("{before}{LINE}{got}")).unwrap();
        } else {
            assert_eq!(got, after, "{}", file.display());
        }
    }
}
