//! One model, three faces: imperative, session and jit give the same losses, bit for bit.

use talweg::prelude::*;

const STEPS: usize = 8;

struct Problem {
    x: Tensor,
    y: Tensor,
    params: Vec<Variable>,
    optimizer: Optimizer,
}

fn problem(rule: &str) -> Result<Problem> {
    manual_seed(11);
    let x = Tensor::randn([16, 12]);
    let y = Tensor::randint([16], 0..3);
    Tensor::eval_all(&[&x, &y])?;
    let params = vec![
        Variable::new("W_1", Tensor::uniform([12, 8], -0.5, 0.5))?,
        Variable::new("b_1", Tensor::zeros([8]))?,
        Variable::new("W_2", Tensor::uniform([8, 3], -0.5, 0.5))?,
        Variable::new("b_2", Tensor::zeros([3]))?,
    ];
    let p = params.as_slice();
    let optimizer = match rule {
        "adagrad" => Optimizer::new(Adagrad { lr: 0.1, ..Adagrad::default() }, p)?,
        "adam" => Optimizer::new(Adam { lr: 0.05, ..Adam::default() }, p)?,
        "adamw" => Optimizer::new(AdamW { lr: 0.05, ..AdamW::default() }, p)?,
        _ => Optimizer::new(Sgd { lr: 0.1, momentum: 0.9, nesterov: true, ..Sgd::default() }, p)?,
    };
    Ok(Problem { x, y, params, optimizer })
}

fn loss(p: &[Variable], x: &Tensor, y: &Tensor) -> Tensor {
    let hidden = (x.matmul(&p[0]) + &p[1]).relu();
    (hidden.matmul(&p[2]) + &p[3]).cross_entropy(y, Default::default())
}

fn imperative(rule: &str) -> Result<Vec<f32>> {
    let p = problem(rule)?;
    (0..STEPS)
        .map(|_| {
            let l = loss(&p.params, &p.x, &p.y);
            l.backward()?;
            p.optimizer.step()?;
            l.item()
        })
        .collect()
}

fn session(rule: &str) -> Result<Vec<f32>> {
    let p = problem(rule)?;
    let x = placeholder("x", [16, 12], DType::F32);
    let y = placeholder("y", [16], DType::I64);
    let l = loss(&p.params, &x, &y);
    let train = p.optimizer.minimize(&l)?;
    let s = Session::new();
    (0..STEPS).map(|_| s.run(&[&train, &l], &[(&x, &p.x), (&y, &p.y)])?[0].item()).collect()
}

fn jitted(rule: &str) -> Result<Vec<f32>> {
    let p = problem(rule)?;
    let step = jit(|a: &[Tensor]| {
        let l = loss(&p.params, &a[0], &a[1]);
        l.backward()?;
        p.optimizer.step()?;
        Ok(vec![l])
    });
    (0..STEPS).map(|_| step.call(&[&p.x, &p.y])?[0].item()).collect()
}

#[test]
fn the_same_losses_in_all_three_faces() {
    for rule in ["sgd", "adagrad", "adam", "adamw"] {
        let a = imperative(rule).unwrap();
        assert!(a[STEPS - 1] < 0.8 * a[0], "{rule} does not learn: {a:?}");
        assert_eq!(a, session(rule).unwrap(), "{rule}: session");
        assert_eq!(a, jitted(rule).unwrap(), "{rule}: jit");
    }
}

#[test]
fn logistic_regression_in_all_three_faces() {
    let data = || {
        manual_seed(5);
        let x = Tensor::randn([32, 4]);
        let y = (x.sum(1).gt(0.0)).cast(DType::F32);
        Tensor::eval_all(&[&x, &y]).unwrap();
        (x, y, Variable::new("w", Tensor::zeros([4])).unwrap())
    };
    let loss = |x: &Tensor, y: &Tensor, w: &Variable| {
        let p = x.matmul(w).sigmoid();
        -(y * p.log() + (1.0 - y) * (1.0 - &p).log()).mean(..) + w.tensor().square().sum(..) * 1e-3
    };
    let (x, y, w) = data();
    let imperative: Vec<f32> = (0..STEPS)
        .map(|_| {
            let l = loss(&x, &y, &w);
            let g = grad(&l, &[w.tensor()]).unwrap();
            w.assign(&(w.tensor() - &g[0] * 0.5)).unwrap();
            l.item().unwrap()
        })
        .collect();
    let (x, y, w) = data();
    let (px, py) = (placeholder("x", [32, 4], DType::F32), placeholder("y", [32], DType::F32));
    let l = loss(&px, &py, &w);
    let g = grad(&l, &[w.tensor()]).unwrap();
    let mut step = Update::new();
    step.set(&w, w.tensor() - &g[0] * 0.5);
    let s = Session::new();
    let session: Vec<f32> =
        (0..STEPS).map(|_| s.run(&[&step, &l], &[(&px, &x), (&py, &y)]).unwrap()[0].item().unwrap()).collect();
    let (x, y, w) = data();
    let f = jit(|a: &[Tensor]| {
        let l = loss(&a[0], &a[1], &w);
        let g = grad(&l, &[w.tensor()])?;
        w.assign(&(w.tensor() - &g[0] * 0.5))?;
        Ok(vec![l])
    });
    let jitted: Vec<f32> = (0..STEPS).map(|_| f.call(&[&x, &y]).unwrap()[0].item().unwrap()).collect();
    assert!(imperative[STEPS - 1] < 0.7 * imperative[0]);
    assert_eq!(imperative, session);
    assert_eq!(imperative, jitted);
}

#[test]
fn random_draws_follow_program_order_in_every_face() {
    let draw = || (Tensor::rand([4]), Tensor::randn([4]));
    manual_seed(1);
    let (a, b) = draw();
    // Looked at in the other order than drawn.
    let (b, a) = (b.to_vec::<f32>().unwrap(), a.to_vec::<f32>().unwrap());
    manual_seed(1);
    let f = jit(|_: &[Tensor]| {
        let (a, b) = draw();
        Ok(vec![b, a])
    });
    // Tracing itself draws nothing.
    let first = f.call(&[]).unwrap();
    let second = f.call(&[]).unwrap();
    assert_eq!(first[0].to_vec::<f32>().unwrap(), b);
    assert_eq!(first[1].to_vec::<f32>().unwrap(), a);
    assert_ne!(first[0].to_vec::<f32>().unwrap(), second[0].to_vec::<f32>().unwrap());
}

#[test]
fn the_mxnet_example_in_all_three_faces() {
    // A = ones * 2; C = A + 2; B = A + 1; D = B * C
    let d = |ones: &Tensor| {
        let a = ones * 2.0;
        let c = &a + 2.0;
        let b = &a + 1.0;
        b * c
    };
    let ones = Tensor::ones([2, 2]);
    let x = placeholder("ones", [2, 2], DType::F32);
    let session = Session::new().run(&[&d(&x)], &[(&x, &ones)]).unwrap();
    let jitted = jit(|a: &[Tensor]| Ok(vec![d(&a[0])])).call(&[&ones]).unwrap();
    for got in [&d(&ones), &session[0], &jitted[0]] {
        assert_eq!(got.to_vec::<f32>().unwrap(), [12.0; 4]);
    }
}

#[test]
fn a_program_of_the_facade_runs_on_the_cpu() {
    assert_eq!(talweg::engine().device().name(), "cpu");
}
