//! Drawings of graphs: well-formed, complete, and bounded.
//!
//! `TALWEG_PICTURES=folder` keeps them to look at.

use cpu as _;
use ir::drawing::{to_dot, to_svg};
use ir::{Collect, DType, Graph, Literal, Site, Type, collect};
use talweg_ops::{Tensor, find, grad};

fn graph(outs: &[Tensor]) -> Graph {
    let values: Vec<_> = outs.iter().map(|t| t.value().unwrap().clone()).collect();
    collect(&values, Collect::Now).unwrap().graph
}

fn matrix(rows: usize, columns: usize) -> Tensor {
    Tensor::from(Literal::generate([rows, columns], |i| i as f32 / 10.0)).requires_grad()
}

/// Two layers, a loss and its gradients.
fn layers() -> Graph {
    let (x, w, v) = (matrix(8, 4), matrix(4, 16), matrix(16, 3));
    let hidden = (x.matmul(&w) + 0.1).relu();
    let y = hidden.matmul(&v);
    let loss = (&y * &y).sum(..) * 0.5;
    let g = grad(&loss, &[w, v]).unwrap();
    graph(&[loss, g[0].clone(), g[1].clone()])
}

/// Attention and the gradient of everything, in primitive ops.
fn attention() -> Graph {
    let (x, q, k, v) = (matrix(6, 8), matrix(8, 8), matrix(8, 8), matrix(8, 8));
    let (a, b, c) = (x.matmul(&q), x.matmul(&k), x.matmul(&v));
    let scores = (a.matmul(b.t()) * 0.35).softmax(-1);
    let y = scores.matmul(&c) + &x;
    let loss = (&y * &y).sum(..);
    let g = grad(&loss, &[q, k, v]).unwrap();
    passes::decompose(&graph(&[&[loss], &g[..]].concat()), &|_, _| false).unwrap()
}

/// Every element closes, in order; returns how many there were.
fn well_formed(svg: &str) -> usize {
    let mut open = Vec::new();
    let mut count = 0;
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let end = at + rest[at..].find('>').expect("every tag ends");
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        count += 1;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed in order");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap_or(""));
        }
    }
    assert!(open.is_empty(), "left open: {open:?}");
    count
}

fn keep(name: &str, g: &Graph) {
    if let Some(dir) = std::env::var_os("TALWEG_PICTURES") {
        let path = std::path::Path::new(&dir);
        std::fs::write(path.join(format!("{name}.svg")), to_svg(g)).unwrap();
        std::fs::write(path.join(format!("{name}.dot")), to_dot(g)).unwrap();
    }
}

#[test]
fn every_node_has_its_box() {
    for (name, g) in [("layers", layers()), ("attention", attention())] {
        keep(name, &g);
        let (svg, dot) = (to_svg(&g), to_dot(&g));
        well_formed(&svg);
        for (i, n) in g.nodes.iter().enumerate() {
            let is_number = n.op == &ir::CONST && n.outs[0].shape.count() == 1;
            if !is_number {
                let head = format!("%{i} {}", n.op.name);
                assert!(svg.contains(&format!(">{head}")) && dot.contains(&format!("\"{head}")), "{name}: {head}");
            }
        }
        assert!(svg.contains("drawing.rs:"), "boxes name the line of the program");
        assert_eq!(to_svg(&g), svg, "the same drawing every time");
    }
}

#[test]
fn names_cannot_break_the_drawing() {
    let mut g = Graph::new();
    let x = g.input("</svg><script>&\"\u{1}", &Type::new(DType::F32, [2]), Site::new("a<b>.rs", 1, 1));
    g.outputs.push(x);
    let svg = to_svg(&g);
    well_formed(&svg);
    assert!(!svg.contains("<script") && !svg.contains('\u{1}'));
    well_formed(&to_svg(&Graph::new()));
    assert!(to_dot(&g).contains("\\\""));
}

#[test]
fn large_graphs_are_cut() {
    let mut g = Graph::new();
    let mut x = g.input("x", &Type::new(DType::F32, [2]), Site::UNKNOWN);
    let first = x;
    for _ in 0..20_000 {
        x = g.push(find("add").unwrap(), &[x, first], ir::Attrs::new(), Site::UNKNOWN).unwrap();
    }
    g.outputs.push(x);
    let svg = to_svg(&g);
    well_formed(&svg);
    assert!(svg.contains("more nodes") && svg.len() < 4_000_000, "{} bytes", svg.len());
}
