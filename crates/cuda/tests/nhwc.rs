//! Graphs with channels last compute what they computed before.

use ir::{FlatNode, Graph, Layout, Literal, Meaning, Shape};
use passes::{State, Watch};
use runtime::reference::{distance, run_node};
use std::borrow::Cow;
use talweg_cuda::target::{Gpu, GpuTarget};

/// Group norm without its scale, a sum over pixels, repeated pixels, concatenation and slices between two convolutions.
const GRAPH: &str = r#"talweg graph 1
%0 = input "x" : bf16[3, 8, 120, 112]
%1 = input "v" : bf16[16, 8, 1, 1]
%2 = input "w" : bf16[4, 24, 1, 1]
%3 = input "b" : f32[1, 16, 1, 1]
%4 = conv %0, %1 {dilation: [1, 1], groups: 1, padding_hi: [0, 0], padding_lo: [0, 0], stride: [1, 1]} : bf16[3, 16, 120, 112]
%5 = cast %4 {dtype: f32} : f32[3, 16, 120, 112]
%6 = reshape %5 {shape: [3, 4, 53760]} : f32[3, 4, 53760]
%7 = sum %6 {axes: [2]} : f32[3, 4, 1]
%8 = const [0.000018601190476190475] : f32[]
%9 = mul %7, %8 : f32[3, 4, 1]
%10 = sub %6, %9 : f32[3, 4, 53760]
%11 = mul %10, %10 : f32[3, 4, 53760]
%12 = sum %11 {axes: [2]} : f32[3, 4, 1]
%13 = reshape %10 {shape: [3, 16, 120, 112]} : f32[3, 16, 120, 112]
%14 = mul %13, %3 : f32[3, 16, 120, 112]
%15 = max %14 {axes: [2, 3]} : f32[3, 16, 1, 1]
%16 = sum %14 {axes: [0, 2, 3]} : f32[1, 16, 1, 1]
%17 = cast %14 {dtype: bf16} : bf16[3, 16, 120, 112]
%18 = slice %17 {sizes: [3, 8, 30, 28], starts: [0, 4, 60, 1], steps: [1, 1, 2, 3]} : bf16[3, 8, 30, 28]
%19 = reshape %18 {shape: [3, 8, 30, 1, 28, 1]} : bf16[3, 8, 30, 1, 28, 1]
%20 = broadcast %19 {shape: [3, 8, 30, 4, 28, 4]} : bf16[3, 8, 30, 4, 28, 4]
%21 = reshape %20 {shape: [3, 8, 120, 112]} : bf16[3, 8, 120, 112]
%22 = concat %21, %17 {axis: 1} : bf16[3, 24, 120, 112]
%23 = conv %22, %2 {dilation: [1, 1], groups: 1, padding_hi: [0, 0], padding_lo: [0, 0], stride: [1, 1]} : bf16[3, 4, 120, 112]
return %23, %12, %15, %16, %18
"#;

/// The graph with channels last.
fn rewritten(graph: &Graph) -> Graph {
    let target = GpuTarget::new(Gpu { capability: (9, 0), supports: &|_| true, is_faster: &|_| true, has_fft: true });
    let stages: Vec<_> = passes::target_stages(&target).into_iter().filter(|s| s.name == "nhwc").collect();
    assert_eq!(stages.len(), 1);
    passes::run(&stages, State::Graph(Cow::Borrowed(graph)), &mut Watch::none()).unwrap().into_graph().unwrap()
}

fn permuted(x: &Literal, axes: [usize; 4]) -> Literal {
    let l = Layout::contiguous(x.shape());
    let shape: Shape = axes.iter().map(|&a| l.shape[a]).collect();
    x.gather(&Layout { shape, strides: axes.iter().map(|&a| l.strides[a]).collect(), offset: 0 })
}

/// A node's results; a convolution with channels last is the one of the table between permutations.
fn computed(n: &FlatNode, args: &[Literal]) -> Vec<Literal> {
    if n.op.name != "conv_last" {
        return run_node(n, args).unwrap();
    }
    let args: Vec<Literal> = args.iter().map(|a| permuted(a, [0, 3, 1, 2])).collect();
    let mut node = n.clone();
    node.op = ops::find("conv").unwrap();
    run_node(&node, &args).unwrap().iter().map(|y| permuted(y, [0, 2, 3, 1])).collect()
}

fn run(graph: &Graph, inputs: &[Literal]) -> Vec<Literal> {
    let mut values: Vec<Vec<Literal>> = Vec::new();
    let mut next = inputs.iter();
    for n in &graph.nodes {
        let args: Vec<Literal> = n.inputs.iter().map(|s| values[s.node as usize][s.out as usize].clone()).collect();
        let outs = match n.op.meaning {
            Meaning::Input => vec![next.next().unwrap().clone()],
            _ => computed(n, &args),
        };
        for (v, t) in outs.iter().zip(&n.outs) {
            assert_eq!((v.dtype(), v.shape()), (t.dtype, &t.shape), "{n:?}");
        }
        values.push(outs);
    }
    graph.outputs.iter().map(|s| values[s.node as usize][s.out as usize].clone()).collect()
}

#[test]
fn values_do_not_change() {
    let graph = Graph::parse(GRAPH, &ops::find).unwrap();
    let new = rewritten(&graph);
    let names: Vec<&str> = new.nodes.iter().map(|n| n.op.name).collect();
    // The sums of groups are made in two steps, and only what enters and leaves is permuted.
    assert_eq!(names.iter().filter(|n| **n == "sum").count(), 5, "{new}");
    assert!(!names.contains(&"conv"));
    let inputs: Vec<Literal> = graph
        .inputs
        .iter()
        .map(|&i| {
            let ty = &graph.nodes[i as usize].outs[0];
            let data: Vec<f64> =
                (0..ty.shape.count()).map(|k| ((k * 37 + i as usize) % 61) as f64 / 30.0 - 1.0).collect();
            Literal::from_f64(ty.dtype, ty.shape.clone(), &data)
        })
        .collect();
    for (k, (got, want)) in run(&new, &inputs).iter().zip(run(&graph, &inputs)).enumerate() {
        assert_eq!(got.shape(), want.shape());
        // Sums in another order.
        assert!(distance(got, &want) < 2e-2, "result {k} is off by {}", distance(got, &want));
        assert!(want.to_f64().iter().any(|v| v.abs() > 0.1));
    }
}
