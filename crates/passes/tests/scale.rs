//! Large graphs: passes take time in proportion to the nodes, and nothing recurses over them.

use ir::{Attrs, DType, FlatNode, Graph, Literal, Site, Type, Value};
use passes::{Fused, Stage, Target, View, Watch};
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
    let stages = passes::staged_graphs(&g, ops::patterns(), &|_, _| false, &runtime::reference::run_node).unwrap();
    let last = &stages.last().unwrap().1;
    assert!(last.nodes.len() > 50_000 && last.nodes.len() < g.nodes.len());
    let bytes = planned(last).memory.arena_bytes;
    assert!(bytes < 1 << 20, "a chain needs a few values at a time: {bytes} bytes");
}

#[test]
fn a_slice_of_a_chain_of_100_000_nodes_moves_to_its_beginning() {
    let (mut g, here) = (Graph::new(), Site::UNKNOWN);
    let op = |name: &str| ops::find(name).unwrap();
    let mut x = g.input("x", &Type::new(DType::F32, [64, 64]), here);
    for _ in 0..100_000 {
        x = g.push(op("sin"), &[x], Attrs::new(), here).unwrap();
    }
    let attrs = Attrs::new().with("starts", [0i64, 0]).with("sizes", [1i64, 64]).with("steps", [1i64, 1]);
    let y = g.push(op("slice"), &[x], attrs, here).unwrap();
    g.outputs.push(y);
    let new = passes::prune(&passes::slice_operands(&g).unwrap());
    assert_eq!(new.nodes.len(), g.nodes.len());
    assert_eq!(new.nodes[1].op.name, "slice");
    assert!(new.nodes[2..].iter().all(|n| n.op.name == "sin" && n.outs[0].shape.count() == 64));
}

/// A device with all stages, where some regions of the first fifth of a graph, which compute forward, may fail.
struct Device;

impl Target for Device {
    fn region_stages(&self) -> Vec<Stage<'_>> {
        vec![
            Stage::regions("elide_copies", |f| passes::elide_copies(f, self)),
            Stage::regions("fuse_epilogues", |f| passes::fuse_epilogues(f, self)),
            Stage::regions("schedule", |f| passes::schedule(f, self)),
        ]
    }
    fn is_barrier(&self, n: &FlatNode) -> bool {
        n.op.name == "barrier"
    }
    fn concat_axis(&self, n: &FlatNode) -> Option<usize> {
        (n.op.name == "concat").then(|| n.attrs.size("axis").unwrap())
    }
    fn has_epilogue(&self, n: &FlatNode, _: &[View]) -> bool {
        n.op.name == "matmul"
    }
    fn is_light(&self, _: &Fused, _: usize) -> bool {
        true
    }
    fn may_fail(&self, fused: &Fused, r: usize) -> bool {
        let node = fused.regions[r].nodes()[0] as usize;
        node.is_multiple_of(7) && 5 * node < fused.graph.nodes.len()
    }
}

fn planned(g: &Graph) -> passes::Plan {
    passes::plan(g.clone(), &mut Device, &mut Watch::none()).unwrap()
}

/// The training step of a deep network: every layer's values are kept for its gradient, and every weight
/// is read twice and updated.
fn training_step(layers: usize) -> Graph {
    let mut g = Graph::new();
    let (here, ty) = (Site::here(), Type::new(DType::F32, [4, 4]));
    let swap = || Attrs::new().with("axes", [1i64, 0]);
    let mut x = g.input("x", &ty, here);
    let weights: Vec<_> = (0..layers).map(|l| g.input(&format!("w{l}"), &ty, here)).collect();
    let mut kept = Vec::new();
    let mut push = |name: &str, inputs: &[ir::Slot], attrs: Attrs| g.push(op(name), inputs, attrs, here).unwrap();
    for &w in &weights {
        let z = push("matmul", &[x, w], Attrs::new());
        let a = push("tanh", &[z], Attrs::new());
        kept.push((x, a));
        x = a;
    }
    let mut slope = x;
    let mut updated = Vec::new();
    for (&w, &(x, a)) in weights.iter().zip(&kept).rev() {
        let square = push("square", &[a], Attrs::new());
        let scaled = push("mul", &[slope, square], Attrs::new());
        let dz = push("sub", &[slope, scaled], Attrs::new());
        let (xt, wt) = (push("permute", &[x], swap()), push("permute", &[w], swap()));
        let dw = push("matmul", &[xt, dz], Attrs::new());
        updated.push(push("sub", &[w, dw], Attrs::new()));
        slope = push("matmul", &[dz, wt], Attrs::new());
    }
    g.outputs = updated;
    g
}

#[test]
fn the_training_step_of_10_000_layers_is_planned() {
    let g = training_step(10_000);
    let last = passes::optimize(&g, &|_, _| false, &runtime::reference::run_node).unwrap();
    let passes::Plan { fused, memory: a, .. } = planned(&last);
    // Each layer keeps its value and the square of it; what else there is comes and goes.
    assert!(a.arena_bytes < 20_500 * 64, "{} bytes", a.arena_bytes);
    let in_place = a.buffers.iter().filter(|b| b.donor.is_some()).count();
    assert!(in_place > 9_000, "{in_place} of {} weights are updated in place", fused.graph.outputs.len());
}

#[test]
fn a_value_of_20_000_parts_is_planned() {
    let mut g = Graph::new();
    let (here, ty) = (Site::here(), Type::new(DType::F32, [4]));
    let x = g.input("x", &ty, here);
    let mut parts = Vec::new();
    for i in 0..20_000 {
        let c = g.push(&ir::CONST, &[], Attrs::new().with("value", Literal::scalar(i as f32)), here).unwrap();
        parts.push(g.push(op("add"), &[x, c], Attrs::new(), here).unwrap());
    }
    g.outputs = vec![g.push(op("concat"), &parts, Attrs::new().with("axis", 0i64), here).unwrap()];
    assert!(planned(&g).fused.regions.len() < 20_002);
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
    // The chain is gone: the leaf has no other owner.
    assert_eq!(std::sync::Arc::strong_count(first.node()), 1);
}
