//! Losses as programs write them out of other ops: the numbers of the loss op, and its cost.

use cpu as _;
use ir::{Collect, Graph, collect};
use talweg_ops::loss::NllOptions;
use talweg_ops::{Result, Tensor, grad, patterns};

const ROWS: usize = 5;
const CLASSES: usize = 7;

fn logits() -> Tensor {
    let x = Tensor::arange(0i64..(ROWS * CLASSES) as i64).cast(talweg_ops::DType::F64);
    (x * 1.7).sin().reshape([ROWS, CLASSES]) * 3.0
}

type Loss = fn(&Tensor, &Tensor) -> Tensor;

fn gather(lp: Tensor, t: &Tensor) -> Tensor {
    -lp.gather(1, &t.unsqueeze(1)).mean(..)
}

fn at_rows(lp: Tensor, t: &Tensor) -> Tensor {
    -lp.i((Tensor::arange(0i64..ROWS as i64), t)).mean(..)
}

/// The logits without the greatest of their row.
fn relative(x: &Tensor) -> Tensor {
    x - x.max_keep(1).stop_gradient()
}

/// The mean cross entropy of logits and class numbers, spelled out.
const SPELLINGS: &[(&str, Loss)] = &[
    ("log_softmax, gather", |x, t| gather(x.log_softmax(1), t)),
    ("the greatest taken away, gather", |x, t| gather(relative(x) - relative(x).exp().sum_keep(1).log(), t)),
    ("the sum's axis gone and back", |x, t| gather(relative(x) - relative(x).exp().sum(1).log().unsqueeze(1), t)),
    ("the greatest with its gradient", |x, t| {
        let z = x - x.max_keep(1);
        gather(&z - z.exp().sum_keep(1).log(), t)
    }),
    ("logsumexp, take_along_axis", |x, t| -(x - x.logsumexp_keep(1)).take_along_axis(&t.unsqueeze(1), 1).mean(..)),
    ("log_softmax, nll_loss", |x, t| x.log_softmax(1).nll_loss(t, NllOptions::default())),
    ("rows and classes", |x, t| at_rows(x.log_softmax(1), t)),
    ("rows and classes, the greatest added again", |x, t| {
        let top = x.max_keep(1).stop_gradient();
        at_rows(x - (&top + (x - &top).exp().sum_keep(1).log()), t)
    }),
];

/// What a device would compile of a loss and its gradient.
fn compiled(loss: &Tensor, gradient: &Tensor) -> Result<Graph> {
    let values = [loss.value()?.clone(), gradient.value()?.clone()];
    let graph = collect(&values, Collect::Now)?.graph;
    let stages = passes::staged_graphs(&graph, patterns(), &|_, _| false, &runtime::reference::run_node)?;
    Ok(stages.into_iter().last().expect("there are stages").1)
}

#[test]
fn a_cross_entropy_written_out_is_the_loss_op() -> Result<()> {
    let x = logits().eval()?.requires_grad();
    let t = Tensor::from([3i64, 0, 6, 1, 1]);
    let op = x.cross_entropy(&t);
    let of_op = grad(&op, std::slice::from_ref(&x))?.remove(0);
    let (want, want_grad) = (op.item::<f64>()?, of_op.to_vec::<f64>()?);
    for (name, f) in SPELLINGS {
        let loss = f(&x, &t);
        let gradient = grad(&loss, std::slice::from_ref(&x))?.remove(0);
        let moves = ["gather", "take", "scatter_add", "index_add", "ravel_index"];
        let graph = compiled(&loss, &gradient)?;
        let left: Vec<&str> = graph.nodes.iter().map(|n| n.op.name).filter(|n| moves.contains(n)).collect();
        assert!(left.is_empty(), "{name}: {left:?} in\n{graph}");
        assert!((loss.item::<f64>()? - want).abs() < 1e-12, "{name}");
        let off = gradient.to_vec::<f64>()?.iter().zip(&want_grad).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert!(off < 1e-12, "{name}: the gradient is off by {off}");
    }
    Ok(())
}

#[test]
fn a_number_that_is_no_class_stays_an_error() {
    let (x, t) = (logits(), Tensor::from([3i64, 0, 7, 1, 1]));
    for (name, f) in SPELLINGS {
        let e = f(&x, &t).item::<f64>().expect_err(name).to_string();
        assert!(e.contains("class 7 is not among 0..7"), "{name}: {e}");
    }
    // From the end, as an index counts.
    let last = Tensor::from([3i64, 0, -1, 1, 1]);
    let at = |t: &Tensor| logits().log_softmax(1).i((&Tensor::arange(0i64..ROWS as i64), t)).to_vec::<f64>().unwrap();
    assert_eq!(at(&last), at(&Tensor::from([3i64, 0, 6, 1, 1])));
}

#[test]
fn gradient_descent_on_a_table_adds_to_the_rows_that_were_looked_up() -> Result<()> {
    let w = Tensor::arange(0i64..12).cast(talweg_ops::DType::F64).reshape([6, 2]).eval()?.requires_grad();
    let index = Tensor::from([4i64, 1, 4]);
    let rate = Tensor::from(0.5f64);
    rate.eval()?;
    let loss = (w.embedding(&index) * Tensor::from([[1.0f64, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum(..);
    let g = grad(&loss, std::slice::from_ref(&w))?.remove(0);
    let next = &w - &rate * &g;
    let ops = |values: &[&Tensor]| -> Result<Vec<&'static str>> {
        let values: Vec<_> = values.iter().map(|t| t.value().cloned()).collect::<Result<_>>()?;
        let graph = collect(&values, Collect::Now)?.graph;
        let stages = passes::staged_graphs(&graph, patterns(), &|_, _| false, &runtime::reference::run_node)?;
        let last = stages.into_iter().last().expect("there are stages").1;
        Ok(last.nodes.iter().map(|n| n.op.name).collect())
    };
    // The table itself is what is added to: there are no zeros of its size, and nothing is subtracted from it.
    let names = ops(&[&next])?;
    assert!(names.contains(&"index_add") && !names.contains(&"sub") && !names.contains(&"broadcast"), "{names:?}");
    // A gradient that something else needs is computed.
    let names = ops(&[&next, &g])?;
    assert!(names.contains(&"index_add") && names.contains(&"sub"), "{names:?}");
    let want = [0.0, 1.0, 2.0 - 1.5, 3.0 - 2.0, 4.0, 5.0, 6.0, 7.0, 8.0 - 3.0, 9.0 - 4.0, 10.0, 11.0];
    assert_eq!(next.to_vec::<f64>()?, want);
    Ok(())
}
