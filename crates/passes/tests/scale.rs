//! Large graphs: passes take time in proportion to the nodes, and nothing recurses over them.

use ir::{Attrs, DType, Graph, Literal, Site, Type, Value};
use smallvec::SmallVec;
use talweg_passes as passes;

fn op(name: &str) -> &'static ir::Op {
    ops::find(name).unwrap_or_else(|| panic!("no op is named {name}"))
}

/// A long graph with a bit of everything: composites, constants, shared and dead nodes, views.
fn long(nodes: usize) -> Graph {
    let mut g = Graph::new();
    let here = Site::here();
    let mut x = g.input("x", &Type::new(DType::F32, [4, 4]), here);
    let w = g.input("w", &Type::new(DType::F32, [4, 4]), here);
    let mut i = 0u32;
    while g.nodes.len() < nodes {
        let c = Attrs::new().with("value", Literal::scalar(i as f32));
        let c = g.push(&ir::CONST, &[], c, here).unwrap();
        let y = match i % 5 {
            0 => g.push(op("add"), &[x, c], Attrs::new(), here),
            1 => g.push(op("relu"), &[x], Attrs::new(), here),
            2 => g.push(op("permute"), &[x], Attrs::new().with("axes", [1i64, 0]), here),
            3 => g.push(op("matmul"), &[x, w], Attrs::new(), here),
            _ => g.push(op("mul"), &[x, x], Attrs::new(), here),
        };
        x = y.unwrap();
        i += 1;
    }
    g.outputs.push(x);
    g
}

#[test]
fn a_graph_of_100_000_nodes_goes_through_every_stage() {
    let g = long(100_000);
    let stages = passes::stages(&g, ops::forms(), &|_, _| false, &runtime::reference::run_node).unwrap();
    let last = &stages.last().unwrap().graph;
    assert!(last.nodes.len() > 50_000 && last.nodes.len() < g.nodes.len());
    let fused = passes::fuse(
        last,
        &passes::Target { row_max: &|_| 4096, share_min: 4096, accepts: &|_, _, l| l.is_contiguous() },
    )
    .unwrap();
    let none = vec![false; fused.regions.len()];
    let fused = passes::schedule(fused, &none, &none, &none);
    let scratch = vec![0; fused.regions.len()];
    let a = passes::arrange(&fused, &scratch, 0, &|_| None);
    assert!(a.arena_bytes < 1 << 20, "a chain needs a few values at a time: {} bytes", a.arena_bytes);
}

#[test]
fn a_graph_of_100_000_nodes_goes_through_both_forms() {
    let g = long(100_000);
    let find = |name: &str| ops::find(name);
    assert_eq!(Graph::parse(&g.to_string(), &find).unwrap(), g);
    assert_eq!(Graph::from_bytes(&g.to_bytes(), &find).unwrap(), g);
}

#[test]
fn a_chain_of_a_million_live_nodes_is_dropped_without_overflow() {
    let neg = op("neg");
    let mut v = Value::data(Literal::scalar(1.0f32), true, Site::here());
    let first = v.clone();
    for _ in 0..1_000_000 {
        v = Value::apply(neg, SmallVec::from_iter([v]), Attrs::new(), Site::here()).unwrap().swap_remove(0);
    }
    assert_eq!(v.node().depth(), 999_999);
    let c = ir::collect(&[v.clone()], ir::Collect::Now).unwrap();
    assert_eq!(c.graph.nodes.len(), 1_000_001);
    drop((v, c));
    // The chain is gone: nobody else holds the leaf.
    assert_eq!(std::sync::Arc::strong_count(first.node()), 1);
}
