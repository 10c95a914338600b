//! Graphs rewritten by rules: `Graph::rewrite`.

use cpu as _;
use ir::{Collect, Graph, Literal, Value, collect};
use talweg_tensor::*;

fn graph_of(t: &Tensor) -> Graph {
    collect(&[t.value().unwrap().clone()], Collect::Later).unwrap().graph
}

/// A rule for the values of one op.
fn each(op: &str, f: impl Fn(&[Tensor]) -> Tensor) -> impl FnMut(&Value) -> Result<Option<Value>> {
    move |v| {
        if v.node().op().is_none_or(|o| o.name != op) {
            return Ok(None);
        }
        let inputs: Vec<Tensor> = v.node().inputs().into_iter().map(Tensor::from).collect();
        Ok(Some(f(&inputs).value()?.clone()))
    }
}

#[test]
fn a_rule_puts_another_value_in_the_place_of_one() {
    let (x, unused) = (placeholder("x", [3], DType::F32), placeholder("unused", [2], DType::F32));
    let mut g = graph_of(&(x.exp() + unused.sum([0])));
    // An unused input stays an input: the caller of the graph binds it.
    g = g.rewrite(each("add", |x| x[0].clone())).unwrap();
    assert_eq!((g.inputs.len(), g.nodes.len()), (2, 3));
    let twice = g.rewrite(each("exp", |x| &x[0] + Tensor::from([1.0f32, 2.0, 3.0]))).unwrap();
    twice.verify().unwrap();
    let ops: Vec<&str> = twice.nodes.iter().map(|n| n.op.name).collect();
    assert!(!ops.contains(&"exp") && ops.contains(&"add") && ops.contains(&"const"), "{ops:?}");
    assert_eq!(twice.rewrite(|_| Ok(None)).unwrap(), twice);
    let run =
        runtime::reference::run(&twice, &[Literal::new([3], &[1.0f32; 3]).unwrap(), Literal::zeros(DType::F32, [2])]);
    assert_eq!(run.unwrap()[0].to_vec::<f32>().unwrap(), [2.0, 3.0, 4.0]);
}

#[test]
fn a_rule_that_does_not_fit_is_refused() {
    let x = placeholder("x", [3], DType::F32);
    let g = graph_of(&x.exp());
    let e = g.rewrite(each("exp", |x| x[0].sum([0]))).unwrap_err();
    assert_eq!((e.kind, e.op.as_deref()), (ErrorKind::Shape, Some("exp")));
    let w = Variable::new("w", Tensor::zeros([3])).unwrap();
    let e = g.rewrite(each("exp", |_| w.tensor())).unwrap_err();
    assert!(e.message.contains("no variables"), "{e}");
}
