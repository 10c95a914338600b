//! Variables are updated in place where it cannot be observed, and a step that fails changes nothing.

use cpu as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use talweg_tensor::{Jit, Result, Session, Tensor, Update, Variable, jit};

fn v(w: &Variable) -> Vec<f32> {
    w.tensor().to_vec::<f32>().unwrap()
}
/// Where a variable's value lies.
fn address(w: &Variable) -> usize {
    match w.var().current().buffer() {
        Some(ir::Buffer::Host(l)) => l.bytes().as_ptr() as usize,
        _ => panic!("a value on the host"),
    }
}
fn variable(name: &str, x: f32) -> Variable {
    let w = Variable::new(name, Tensor::from([x; 4])).unwrap();
    w.tensor().eval().unwrap();
    w
}

#[test]
fn a_step_writes_where_the_variable_is() {
    let (w, m) = (variable("w", 1.0), variable("m", 0.0));
    let step = jit(|a: &[Tensor]| {
        m.assign(&(&m.tensor() * 0.5 + &a[0]))?;
        w.assign(&(&w.tensor() - &m.tensor()))?;
        Ok(vec![])
    });
    let x = Tensor::from([1.0f32; 4]);
    // Which variable takes whose memory is up to the device.
    let addresses = || std::collections::BTreeSet::from([address(&w), address(&m)]);
    step.call(&[&x]).unwrap();
    let before = addresses();
    step.call(&[&x]).unwrap();
    assert_eq!(addresses(), before);
    assert_eq!((v(&w), v(&m)), (vec![-1.5; 4], vec![1.5; 4]));
}

#[test]
fn a_session_writes_where_the_variable_is() {
    let w = variable("w", 1.0);
    let mut double = Update::new();
    double.set(&w, &w.tensor() * 2.0);
    let session = Session::new();
    // The graph itself keeps the first value: it may still be asked for.
    session.run(&[&double], &[]).unwrap();
    let before = address(&w);
    session.run(&[&double], &[]).unwrap();
    assert_eq!((address(&w), v(&w)), (before, vec![4.0; 4]));
}

#[test]
fn whoever_holds_the_old_value_keeps_it() {
    let w = variable("w", 1.0);
    let step = jit(|_: &[Tensor]| {
        let old = w.tensor();
        w.assign(&(&old * 3.0))?;
        Ok(vec![old * 1.0])
    });
    let read = w.tensor();
    let bits = w.var().current();
    let old = step.call(&[]).unwrap().swap_remove(0);
    assert_eq!(v(&w), [3.0; 4]);
    for held in [read, old, bits.into()] {
        assert_eq!(held.to_vec::<f32>().unwrap(), [1.0; 4]);
    }
}

#[test]
fn an_error_leaves_all_variables_as_they_were() {
    let (a, b) = (variable("a", 1.0), variable("b", 2.0));
    let table = Tensor::from([[10.0f32; 4], [20.0; 4]]);
    // The index is looked at between the two updates, in program order.
    let step = jit(|x: &[Tensor]| {
        a.assign(&(&a.tensor() + 1.0))?;
        let row = table.take(&x[0], 0).reshape([4]);
        b.assign(&(&b.tensor() + &row))?;
        a.assign(&(&a.tensor() + row))?;
        Ok(vec![])
    });
    step.call(&[&Tensor::from([1i64])]).unwrap();
    assert_eq!((v(&a), v(&b)), (vec![22.0; 4], vec![22.0; 4]));
    for _ in 0..2 {
        let e = step.call(&[&Tensor::from([2i64])]).unwrap_err();
        assert!(e.to_string().contains("take"), "{e}");
        assert_eq!((v(&a), v(&b)), (vec![22.0; 4], vec![22.0; 4]));
    }
    step.call(&[&Tensor::from([0i64])]).unwrap();
    assert_eq!((v(&a), v(&b)), (vec![33.0; 4], vec![32.0; 4]));
}

/// An op that panics when it sees a negative number.
static PANICS: ir::Op = ir::Op {
    name: "panics",
    doc: "Panics when it sees a negative number.",
    infer: |c| Ok(c.types.iter().cloned().collect()),
    meaning: ir::Meaning::Kernel(|_, args| {
        assert!(args[0].to_f64().iter().all(|&x| x >= 0.0), "a negative number");
        Ok(args.to_vec())
    }),
    grad: ir::Grad::Zero,
    ..ir::Op::DEFAULT
};

#[test]
fn a_panic_leaves_all_variables_as_they_were() {
    let (a, b) = (variable("a", 1.0), variable("b", 2.0));
    let step = jit(|x: &[Tensor]| {
        a.assign(&(&a.tensor() + 1.0))?;
        let x = Tensor::apply1(&PANICS, &[&x[0]], ir::Attrs::new());
        b.assign(&(&b.tensor() * x))?;
        Ok(vec![])
    });
    let call = |x: f32| step.call(&[&Tensor::from([x; 4])]).map(|_| ());
    call(2.0).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| call(-1.0))).is_err());
    assert_eq!((v(&a), v(&b)), (vec![2.0; 4], vec![4.0; 4]));
    call(1.0).unwrap();
    assert_eq!((v(&a), v(&b)), (vec![3.0; 4], vec![4.0; 4]));
}

/// A step that adds one to both, in the order of the list.
fn count(list: [Variable; 2]) -> Jit<impl Fn(&[Tensor]) -> Result<Vec<Tensor>>> {
    let step = jit(move |_: &[Tensor]| {
        list.iter().try_for_each(|w| w.assign(&(&w.tensor() + 1.0)))?;
        Ok(vec![])
    });
    step.call(&[]).unwrap(); // traced before the threads begin
    step
}

#[test]
fn steps_of_several_threads_lose_no_update() {
    let (a, b) = (variable("a", 0.0), variable("b", 0.0));
    let steps = [count([a.clone(), b.clone()]), count([b.clone(), a.clone()])];
    std::thread::scope(|s| {
        for step in &steps {
            s.spawn(move || (0..499).for_each(|_| drop(step.call(&[]).unwrap())));
        }
    });
    assert_eq!((v(&a), v(&b)), (vec![1000.0; 4], vec![1000.0; 4]));
}
