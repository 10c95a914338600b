//! A custom graph pass: every graph goes through it before compilation, whether it came from imperative
//! code, a session or `jit`.
//!
//! The logarithm of a softmax underflows for classes far from the largest. This pass replaces it by
//! `log_softmax`, which does not.
//!
//! `cargo run --release -p talweg --example custom_pass` prints -inf without the pass, -200 with it, and
//! the two graphs.

use talweg::ir::Graph;
use talweg::prelude::*;
use talweg::{engine, find};

/// `log(softmax(x))` becomes `log_softmax(x)`. A softmax that is no longer used is pruned later.
fn stabilize(graph: &Graph) -> Result<Graph> {
    let stable = find("log_softmax").ok_or_else(|| Error::bug("there is no log_softmax"))?;
    let mut out = graph.clone();
    for node in &mut out.nodes {
        if node.op.name != "log" {
            continue;
        }
        let inner = graph.node(node.inputs[0]);
        if inner.op.name == "softmax" {
            (node.op, node.attrs, node.inputs) = (stable, inner.attrs.clone(), inner.inputs.clone());
        }
    }
    if out != *graph {
        println!("before:\n{graph}after:\n{out}");
    }
    Ok(out)
}

fn main() -> Result<()> {
    let x = Tensor::from([[0.0f32, 200.0]]);
    println!("without the pass: {}", x.softmax(-1).log());

    engine().add_pass("stabilize", stabilize);
    let y = x.softmax(-1).log();
    println!("with the pass: {y}");
    assert_eq!(y.to_vec::<f32>()?, [-200.0, 0.0]);

    // Compiled functions and sessions go through it too.
    let f = jit(|a: &[Tensor]| Ok(vec![a[0].softmax(-1).log()]));
    assert_eq!(f.call(&[&x])?[0].to_vec::<f32>()?, [-200.0, 0.0]);
    let input = placeholder("x", [1, 2], DType::F32);
    let out = Session::new().run(&[&input.softmax(-1).log()], &[(&input, &x)])?;
    assert_eq!(out[0].to_vec::<f32>()?, [-200.0, 0.0]);

    // A pass that breaks a graph is found out before anything runs.
    engine().add_pass("careless", |graph| {
        let mut out = graph.clone();
        out.outputs.clear();
        Ok(out)
    });
    println!("{}", (&x * 2.0).eval().unwrap_err());
    assert!(engine().remove_pass("careless"));
    (x * 2.0).eval()?;
    Ok(())
}
