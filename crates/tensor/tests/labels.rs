//! Class numbers that are no class: the losses name them, their line and the number of classes.

use cpu as _;
use talweg_tensor::loss::{CrossEntropyOptions, NllOptions};
use talweg_tensor::{ErrorKind, Tensor, Variable, jit};

fn logits() -> Tensor {
    Tensor::ones([3, 4])
}

#[track_caller]
fn refused(loss: &Tensor, op: &str, class: &str, line: u32) {
    let e = loss.eval().unwrap_err();
    assert_eq!(e.kind, ErrorKind::Index);
    let e = e.to_string();
    assert!(e.starts_with(&format!("{op}: class {class} is not among 0..4")), "{e}");
    assert!(e.contains(&format!("labels.rs:{line}:")), "{e}");
}

#[test]
fn losses_name_the_class_and_the_line() {
    for (class, name) in [(4i64, "4"), (-1, "-1"), (i64::MAX, "9223372036854775807")] {
        let bad = Tensor::from([0, class, 3]);
        refused(&logits().cross_entropy(&bad), "cross_entropy", name, line!());
        refused(&logits().nll_loss(&bad, Default::default()), "nll_loss", name, line!());
        let smooth = CrossEntropyOptions { label_smoothing: 0.1, ..Default::default() };
        refused(&logits().cross_entropy_with(&bad, smooth), "cross_entropy", name, line!());
    }
    let small = Tensor::new([3], &[0u8, 200, 3]);
    refused(&logits().cross_entropy(&small), "cross_entropy", "200", line!());
}

#[test]
fn ignored_numbers_may_be_negative_or_too_large() {
    for ignored in [-100i64, -1, 255, 2] {
        let some = Tensor::from([0, ignored, 3]);
        let options = CrossEntropyOptions { ignore_index: ignored, ..Default::default() };
        let loss = logits().cross_entropy_with(&some, options).item::<f32>().unwrap();
        assert!((loss - 4f32.ln()).abs() < 1e-6, "{loss}");
        let options = NllOptions { ignore_index: ignored, ..Default::default() };
        assert_eq!(logits().nll_loss(&some, options).item::<f32>().unwrap(), -1.0);
    }
}

#[test]
fn a_compiled_step_refuses_and_goes_on() {
    let w = Variable::new("w", logits()).unwrap();
    let step = jit(|a: &[Tensor]| {
        let loss = w.tensor().cross_entropy(&a[0]);
        loss.backward()?;
        w.assign(&(w.tensor() - w.grad().unwrap()))?;
        Ok(vec![loss])
    });
    let good = Tensor::from([0i64, 1, 2]);
    step.call(&[&good]).unwrap();
    let before = w.tensor().to_vec::<f32>().unwrap();
    let e = step.call(&[&Tensor::from([0i64, 1, 7])]).err().unwrap().to_string();
    assert!(e.starts_with("cross_entropy: class 7 is not among 0..4"), "{e}");
    assert_eq!(w.tensor().to_vec::<f32>().unwrap(), before, "a refused step changes nothing");
    step.call(&[&good]).unwrap();
}

#[test]
fn gradients_alone_are_checked_too() {
    let x = logits().requires_grad();
    let loss = x.cross_entropy(&Tensor::from([0i64, 9, 1]));
    loss.backward().unwrap();
    let e = x.grad().unwrap().eval().unwrap_err().to_string();
    assert!(e.contains("class 9 is not among 0..4"), "{e}");
}

#[test]
fn a_cached_plan_names_the_line_that_runs() {
    let x = Tensor::ones([5, 7]);
    let run = |bad: &Tensor, line: &mut u32| {
        *line = line!() + 1;
        x.cross_entropy(bad)
    };
    let mut line = 0;
    run(&Tensor::from([0i64, 1, 2, 3, 4]), &mut line).eval().unwrap();
    let other = x.cross_entropy(&Tensor::from([0i64, 1, 2, 3, 9]));
    let e = other.eval().unwrap_err().to_string();
    assert!(e.contains(&format!("labels.rs:{}:", line!() - 2)), "{e}");
    let step = jit(|a: &[Tensor]| Ok(vec![a[0].cross_entropy(&a[1])]));
    let e = step.call(&[&x, &Tensor::from([0i64, 1, 2, 3, 9])]).err().unwrap().to_string();
    assert!(e.contains(&format!("labels.rs:{}:", line!() - 2)), "{e}");
}
