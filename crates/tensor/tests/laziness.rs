//! The rules that make laziness invisible.

use cpu as _;
use ir::{Grad, Meaning, Op};
use std::cell::Cell;
use talweg_tensor::{DType, ErrorKind, Session, Tensor, Update, Variable, jit, manual_seed, placeholder};

fn v(t: &Tensor) -> Vec<f32> {
    t.to_vec::<f32>().unwrap()
}

#[test]
fn errors_are_immediate_and_the_first_cause_wins() {
    let a = Tensor::from([[1.0f32, 2.0]]);
    let bad = a.matmul(&a); // line 15
    assert!(bad.error().is_some(), "the shape error is there before anything is computed");
    let worse = (bad + 1.0).matmul(&Tensor::from(1.0f32));
    let e = worse.eval().unwrap_err();
    assert_eq!(e.kind, ErrorKind::Shape);
    let text = e.to_string();
    assert!(text.contains("matmul: inner sizes differ: [1, 2] × [1, 2]"), "{text}");
    assert!(text.contains("laziness.rs:15:"), "{text}");
}

#[test]
fn a_read_is_the_value_at_that_point_of_the_program() {
    let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
    let doubled = &w.tensor() * 2.0;
    w.assign(&Tensor::from([10.0f32])).unwrap();
    let again = &w.tensor() * 2.0;
    w.assign(&(&w.tensor() + 1.0)).unwrap();
    assert_eq!(v(&again), [20.0]);
    assert_eq!(v(&doubled), [2.0]);
    assert_eq!(v(&w.tensor()), [11.0]);
}

#[test]
fn one_run_reads_the_values_from_before() {
    let a = Variable::new("a", Tensor::from(1.0f32)).unwrap();
    let b = Variable::new("b", Tensor::from(2.0f32)).unwrap();
    let mut swap = Update::new();
    swap.set(&a, b.tensor());
    swap.set(&b, a.tensor());
    let session = Session::new();
    for want in [(2.0, 1.0), (1.0, 2.0)] {
        session.run(&[&swap], &[]).unwrap();
        assert_eq!((a.tensor().item::<f32>().unwrap(), b.tensor().item::<f32>().unwrap()), want);
    }
}

#[test]
fn a_session_reads_variables_at_each_run() {
    let w = Variable::new("w", Tensor::from(1.0f32)).unwrap();
    let x = placeholder("x", (), DType::F32);
    let y = &x * &w;
    let session = Session::new();
    let run = |at: f32| session.run(&[&y], &[(&x, &Tensor::from(at))]).unwrap()[0].item::<f32>().unwrap();
    assert_eq!(run(3.0), 3.0);
    w.assign(&Tensor::from(5.0f32)).unwrap();
    assert_eq!(run(3.0), 15.0);
}

#[test]
fn unfed_and_misfed_placeholders_are_named() {
    let x = placeholder("image", [2], DType::F32);
    let y = &x + 1.0;
    let session = Session::new();
    let unfed = session.run(&[&y], &[]).unwrap_err();
    assert!(unfed.kind == ErrorKind::Feed && unfed.to_string().contains("\"image\""), "{unfed}");
    let misfed = session.run(&[&y], &[(&x, &Tensor::from([1.0f32]))]).unwrap_err();
    assert!(misfed.to_string().contains("f32[2]") && misfed.to_string().contains("f32[1]"), "{misfed}");
    let looked_at = y.eval().unwrap_err();
    assert!(looked_at.to_string().contains("\"image\""), "{looked_at}");
}

/// A chain that is computed because it grew long once lost the gradients of the op it was in.
#[test]
fn gradients_survive_where_a_long_chain_is_computed() {
    let classes = Tensor::from([0i64, 2, 1]);
    let train = |looks: bool, extra: usize| {
        let w = Variable::new("w", Tensor::from([[0.1f32, 0.2, 0.3], [0.3, 0.1, 0.2], [0.0, 0.5, 0.1]])).unwrap();
        for step in 0..260 {
            let mut x = w.tensor();
            for _ in 0..extra {
                x = x * 1.0001;
            }
            x.cross_entropy(&classes).backward().unwrap();
            let g = w.grad().unwrap_or_else(|| panic!("step {step} with {extra} more has no gradient"));
            w.assign(&(w.tensor() - g * 0.1)).unwrap();
            w.zero_grad();
            if looks {
                v(&w.tensor());
            }
        }
        v(&w.tensor())
    };
    for extra in 0..12 {
        assert_eq!(train(false, extra), train(true, extra), "{extra} more");
    }
}

#[test]
fn a_loop_that_never_looks_stays_small() {
    // Each step depends on the last; without a bound this would be one graph of 20,000 nodes.
    let mut x = Tensor::from([0.0f32]);
    for _ in 0..20_000 {
        x = x + 1.0;
    }
    assert!(x.value().unwrap().node().depth() <= 2048);
    assert_eq!(v(&x), [20_000.0]);
}

#[test]
fn a_million_nodes_are_freed_without_recursion() {
    let x = placeholder("x", [1], DType::F32); // never computed, so the chain stays whole
    let mut y = &x + 0.5;
    for _ in 0..1_000_000 {
        y = y + 0.5;
    }
    drop(y);
}

#[test]
fn jit_replays_assignments_and_captures() {
    let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
    let captured = &Tensor::from([2.0f32]) * 3.0; // pending when traced
    let traced = std::cell::Cell::new(0);
    let step = jit(|a: &[Tensor]| {
        traced.set(traced.get() + 1);
        w.assign(&(&w.tensor() * &captured + &a[0]))?;
        let after = w.tensor(); // sees the assignment of this very call
        w.assign(&(&w.tensor() + 1.0))?;
        Ok(vec![after])
    });
    let x = Tensor::from([1.0f32]);
    assert_eq!(v(&step.call(&[&x]).unwrap()[0]), [7.0]);
    assert_eq!(v(&w.tensor()), [8.0]);
    assert_eq!(v(&step.call(&[&x]).unwrap()[0]), [49.0]);
    assert_eq!(v(&w.tensor()), [50.0]);
    assert_eq!(traced.get(), 1);
    step.call(&[&Tensor::from([[1.0f32]])]).unwrap_err(); // w would change its shape
    assert_eq!(v(&w.tensor()), [50.0], "a failed call changes nothing");
}

#[test]
fn backward_after_a_look_gives_the_same_gradient() {
    let gradient = |look: bool| {
        let w = Variable::new("w", Tensor::from([[1.0f32, 2.0], [3.0, 4.0]])).unwrap();
        let y = w.tensor().matmul(&w).exp().sum(..) * 1e-6;
        if look {
            y.eval().unwrap();
        }
        y.backward().unwrap();
        v(&w.grad().unwrap())
    };
    assert_eq!(gradient(false), gradient(true));
}

#[test]
fn a_training_loop_does_not_chain_its_steps() {
    let w = Variable::new("w", Tensor::from([4.0f32])).unwrap();
    let mut loss = Tensor::from(0.0f32);
    for _ in 0..10 {
        loss = (&w.tensor() * &w.tensor()).sum(..);
        loss.backward().unwrap();
        w.assign(&(&w.tensor() - w.grad().unwrap() * 0.25)).unwrap();
        w.zero_grad();
        loss.eval().unwrap();
    }
    // The loss reaches its own step only: a read, its product, its sum and no earlier step.
    let reached = ir::collect(&[loss.value().unwrap().clone()], ir::Collect::Later).unwrap();
    assert!(reached.graph.nodes.len() < 8, "{}", reached.graph.nodes.len());
}

#[test]
fn ops_on_integers_promote_as_documented() {
    let i = Tensor::from([1i32, 2]);
    assert_eq!((&i + 1).dtype().unwrap(), DType::I32);
    assert_eq!((&i + 0.5).dtype().unwrap(), DType::F32);
    assert_eq!((&i / 2).dtype().unwrap(), DType::F32);
    assert_eq!((&i + Tensor::from([1i64])).dtype().unwrap(), DType::I64);
    assert_eq!(i.sum(..).dtype().unwrap(), DType::I64);
}

#[test]
fn gradients_of_what_collects_none_are_refused() {
    let x = Tensor::from([1.0f32]);
    let y = (&x * 2.0).sum(..);
    let e = talweg_tensor::grad(&y, &[x]).unwrap_err();
    assert!(e.kind == ErrorKind::Gradient && e.to_string().contains("requires_grad"), "{e}");
    let e = y.backward().unwrap_err();
    assert_eq!(e.kind, ErrorKind::Gradient);
    manual_seed(0);
}

thread_local! {
    static RUNS: Cell<usize> = const { Cell::new(0) };
}
/// An op that counts its runs.
static COUNTED: Op = Op {
    name: "counted",
    doc: "x + 1.",
    infer: |c| Ok([c.types[0].clone()].into_iter().collect()),
    meaning: Meaning::Kernel(|_, args| {
        RUNS.set(RUNS.get() + 1);
        let x = args[0].to_f64();
        Ok(vec![ir::Literal::generate(args[0].shape().clone(), |i| x[i] as f32 + 1.0)])
    }),
    grad: Grad::Rule(|c| Ok(vec![c.grads[0].clone()])),
    ..Op::DEFAULT
};
fn counted(x: &Tensor) -> Tensor {
    Tensor::apply(&COUNTED, &[x], ir::Attrs::new()).remove(0)
}

/// What the program has a handle to is computed once, however often parts of it are read.
#[test]
fn what_is_read_again_is_not_computed_again() {
    let x = Tensor::from([1.0f32, 2.0]);
    let y = counted(&x) * 2.0;
    assert_eq!(y.sum(..).item::<f32>().unwrap(), 10.0);
    assert_eq!(y.prod(..).item::<f32>().unwrap(), 24.0);
    assert_eq!((v(&y), RUNS.replace(0)), (vec![4.0, 6.0], 1));
    // A view without a base of its own.
    let column = counted(&x).reshape([2, 1]).broadcast_to([2, 3]);
    assert_eq!(column.sum(..).item::<f32>().unwrap(), 15.0);
    assert_eq!((v(&column.sum(0)), RUNS.replace(0)), (vec![5.0; 3], 1));
    // What is pending depends on what has no handle of its own.
    let (a, b) = {
        let y = counted(&x);
        (y.sum(..), y.prod(..))
    };
    assert_eq!((a.item::<f32>().unwrap(), b.item::<f32>().unwrap(), RUNS.replace(0)), (5.0, 6.0, 1));
}

/// A look between gradient and update computes neither again.
#[test]
fn a_look_at_loss_and_norm_before_the_update_computes_nothing_twice() {
    let w = Variable::new("w", Tensor::from([1.0f32, 2.0])).unwrap();
    for _ in 0..2 {
        let loss = counted(&w.tensor()).square().sum(..);
        loss.backward().unwrap();
        let g = counted(&w.grad().unwrap());
        assert!(loss.item::<f32>().unwrap() > 0.0);
        assert!(g.square().sum(..).item::<f32>().unwrap() > 0.0);
        w.assign(&(w.tensor() - g * 0.1)).unwrap();
        w.zero_grad();
        w.tensor().eval().unwrap();
        assert_eq!(RUNS.replace(0), 2);
    }
}
