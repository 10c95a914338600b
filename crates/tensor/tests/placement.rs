//! Ops of one function on several logical devices: constraints, colocation, variables, errors.

use cpu as _;
use runtime::{LogicalDevice, set_logical_devices};
use std::sync::Once;
use talweg_tensor::{DType, Placed, Session, Tensor, Update, Variable, colocate_with, device, jit, placeholder};

/// All tests of this file have three logical devices.
fn three() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| set_logical_devices("cpu", &[LogicalDevice::default(); 3]).unwrap());
}
fn numbers(shape: [usize; 2], seed: usize) -> Tensor {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 1000) as f32 / 500.0 - 1.0;
    Tensor::from((0..shape[0] * shape[1]).map(value).collect::<Vec<f32>>()).reshape(shape)
}
fn bits(t: &Tensor) -> Vec<u32> {
    t.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect()
}
/// The devices that compute ops of this name.
fn devices_of(placed: &Placed, op: &str) -> Vec<String> {
    let (graph, placement) = placed.placement();
    let names = placed.devices();
    let nodes = graph.nodes.iter().zip(&placement.device).filter(|(n, _)| n.op.name == op);
    nodes.filter_map(|(_, d)| Some(names[(*d)?].clone())).collect()
}

#[test]
fn scopes_are_constraints_and_results_stay_where_they_were_computed() {
    three();
    let f = |a: &[Tensor]| {
        let x = device("cpu:1", || a[0].matmul(&a[1]).tanh())?;
        let y = device("cpu:2", || x.matmul(&a[1]).exp())?;
        Ok(vec![x.clone(), device("cpu:0", || &x + &y)?])
    };
    let (a, b) = (numbers([8, 8], 1), numbers([8, 8], 2));
    let plain = f(&[a.clone(), b.clone()]).unwrap();
    let g = jit(f);
    let got = g.call(&[&a, &b]).unwrap();
    for (p, q) in plain.iter().zip(&got) {
        assert_eq!(bits(p), bits(q));
    }
    assert_eq!(got.iter().map(|t| t.device().unwrap()).collect::<Vec<_>>(), ["cpu:1", "cpu:0"]);
    let placed = g.placed(&[&a, &b]).unwrap().expect("it is on several devices");
    assert_eq!(devices_of(&placed, "matmul"), ["cpu:1", "cpu:2"]);
    assert_eq!((devices_of(&placed, "tanh"), devices_of(&placed, "add")), (vec!["cpu:1".into()], vec!["cpu:0".into()]));
    // x goes to two devices, y to one, and each argument to both that use it.
    let sent: Vec<(Option<usize>, usize)> = placed.split().transfers.iter().map(|t| (t.from, t.to)).collect();
    assert_eq!(sent.iter().filter(|(from, _)| from.is_some()).count(), 3, "{sent:?}");
    let text = g.explain(&[&a, &b]).unwrap();
    assert!(
        text.contains("cpu:1 -> cpu:2") && text.contains("of tanh at ") && text.contains("for matmul at "),
        "{text}"
    );
    assert!(text.contains("device(\"cpu:2\")") && text.contains("placement.rs"), "{text}");
}

#[test]
fn an_unknown_device_names_itself_and_the_line() {
    three();
    let line = line!() + 1;
    let e = device("cpu:7", || ()).unwrap_err().to_string();
    assert!(e.contains("there is no device \"cpu:7\"") && e.contains("cpu:0, cpu:1, cpu:2"), "{e}");
    assert!(e.contains(&format!("placement.rs:{line}")), "{e}");
}

#[test]
fn what_is_colocated_follows() {
    three();
    let (a, b) = (numbers([4, 4], 1), numbers([4, 4], 2));
    let g = jit(|a: &[Tensor]| {
        let x = device("cpu:2", || a[0].exp())?;
        let y = colocate_with(&x, || (&a[1] * 2.0).sin())?;
        Ok(vec![x, y])
    });
    let got = g.call(&[&a, &b]).unwrap();
    assert_eq!(got[1].device().unwrap(), "cpu:2");
    assert_eq!(bits(&got[1]), bits(&(&b * 2.0).sin()));
}

#[test]
fn what_is_colocated_with_a_variable_is_where_it_lives() {
    three();
    let w = Variable::new("w", numbers([2, 2], 3)).unwrap();
    w.to("cpu:1").unwrap();
    let f = jit(|a: &[Tensor]| Ok(vec![colocate_with(&w.tensor(), || a[0].sin())? + &w.tensor()]));
    let x = numbers([2, 2], 1);
    f.call(&[&x]).unwrap();
    assert_eq!(devices_of(&f.placed(&[&x]).unwrap().unwrap(), "sin"), ["cpu:1"]);
    // It moves, and the function with it.
    w.to("cpu:2").unwrap();
    f.call(&[&x]).unwrap();
    assert_eq!(devices_of(&f.placed(&[&x]).unwrap().unwrap(), "sin"), ["cpu:2"]);
    assert_eq!(w.tensor().device().unwrap(), "cpu:2");
}

/// A network of two layers with momentum, its layers on two devices by constraint or wherever.
fn train(scopes: Option<[&str; 2]>, steps: usize) -> (Vec<u32>, Vec<Variable>, String) {
    let variables = [
        Variable::new("w0", numbers([16, 32], 1)).unwrap(),
        Variable::new("w1", numbers([32, 4], 2)).unwrap(),
        Variable::buffer("m0", Tensor::zeros([16, 32])).unwrap(),
        Variable::buffer("m1", Tensor::zeros([32, 4])).unwrap(),
    ];
    let [w0, w1, m0, m1] = &variables;
    let on = |i: usize, f: &dyn Fn() -> Tensor| match scopes {
        Some(s) => device(s[i], f),
        None => Ok(f()),
    };
    let step = jit(|a: &[Tensor]| {
        let h = on(0, &|| a[0].matmul(&w0.tensor()).relu())?;
        let y = on(1, &|| h.matmul(&w1.tensor()))?;
        let loss = on(1, &|| y.square().mean(..))?;
        loss.backward()?;
        for (w, m) in [(w0, m0), (w1, m1)] {
            let grad = w.grad().expect("a gradient");
            m.assign(&(&m.tensor() * 0.9 + grad))?;
            w.assign(&(&w.tensor() - &m.tensor() * 0.1))?;
        }
        Ok(vec![loss])
    });
    let x = numbers([8, 16], 5);
    let losses = (0..steps).map(|_| bits(&step.call(&[&x]).unwrap()[0])[0]).collect();
    let text = step.explain(&[&x]).unwrap();
    (losses, variables.to_vec(), text)
}

#[test]
fn gradients_follow_their_ops_and_the_optimizer_its_variables() {
    three();
    let (losses, variables, text) = train(Some(["cpu:1", "cpu:2"]), 5);
    let homes: Vec<String> = variables.iter().map(|v| v.tensor().device().unwrap()).collect();
    assert_eq!(homes, ["cpu:1", "cpu:2", "cpu:1", "cpu:2"], "{text}");
    // Activations go forward and one gradient back, both of [8, 32].
    let sends: Vec<&str> = text.lines().filter(|l| l.starts_with("send")).collect();
    let between: Vec<&&str> = sends.iter().filter(|l| !l.contains("host ->")).collect();
    assert_eq!(between.len(), 2, "{text}");
    assert!(between.iter().all(|l| l.contains("1024 B")), "{text}");
    let (alone, _, text) = train(Some(["cpu:1", "cpu:1"]), 5);
    assert!(!text.lines().any(|l| l.starts_with("send") && !l.contains("host ->")), "{text}");
    assert_eq!(losses, alone);
    let (free, _, _) = train(None, 5);
    assert_eq!(losses, free);
}

#[test]
fn a_failed_part_changes_no_variable_and_names_its_line() {
    three();
    let (w, t) = (Variable::new("w", numbers([4, 4], 1)).unwrap(), Variable::new("t", numbers([6, 4], 2)).unwrap());
    let line = line!() + 3;
    let step = jit(|a: &[Tensor]| {
        let x = device("cpu:0", || a[0].matmul(&w.tensor()))?;
        let rows = device("cpu:1", || t.tensor().take(&a[1], 0))?;
        let loss = device("cpu:2", || (x + rows).square().mean(..))?;
        loss.backward()?;
        for v in [&w, &t] {
            v.assign(&(v.tensor() - v.grad().expect("a gradient") * 0.5))?;
        }
        Ok(vec![loss])
    });
    let x = numbers([3, 4], 3);
    step.call(&[&x, &Tensor::from([0i64, 1, 5])]).unwrap();
    let before = (bits(&w.tensor()), bits(&t.tensor()));
    let e = step.call(&[&x, &Tensor::from([0i64, 1, 6])]).unwrap_err().to_string();
    assert!(e.contains(&format!("placement.rs:{line}")) && e.contains("cpu:1"), "{e}");
    assert_eq!(before, (bits(&w.tensor()), bits(&t.tensor())));
    step.call(&[&x, &Tensor::from([0i64, 1, 2])]).unwrap();
    assert_ne!(before, (bits(&w.tensor()), bits(&t.tensor())));
}

#[test]
fn a_session_places_its_graph() {
    three();
    let x = placeholder("x", [4, 4], DType::F32);
    let total = Variable::buffer("total", Tensor::zeros([4, 4])).unwrap();
    let y = device("cpu:1", || x.exp()).unwrap();
    let z = device("cpu:2", || &total.tensor() + &y).unwrap();
    let mut keep = Update::new();
    keep.set(&total, z.clone());
    let (session, fed) = (Session::new(), numbers([4, 4], 1));
    for _ in 0..3 {
        session.run(&[&z, &keep], &[(&x, &fed)]).unwrap();
    }
    assert_eq!(total.tensor().device().unwrap(), "cpu:2");
    let e = fed.exp();
    let zero = Tensor::zeros([4, 4]);
    assert_eq!(bits(&total.tensor()), bits(&(&(&(&zero + &e) + &e) + &e)));
}

#[test]
fn variables_of_several_devices_meet_in_imperative_code() {
    three();
    let (a, b) = (Variable::new("a", numbers([4, 4], 1)).unwrap(), Variable::new("b", numbers([4, 4], 2)).unwrap());
    let want = bits(&(&a.tensor() + &b.tensor()));
    a.to("cpu:0").unwrap();
    b.to("cpu:1").unwrap();
    assert_eq!(bits(&(&a.tensor() + &b.tensor())), want);
}

#[test]
fn runs_of_several_threads_do_not_wait_for_each_other() {
    three();
    let f = jit(|a: &[Tensor]| {
        let x = device("cpu:0", || a[0].exp())?;
        let y = device("cpu:1", || x.sin())?;
        Ok(vec![device("cpu:0", || &y + &x)?])
    });
    let x = numbers([16, 16], 1);
    let want = bits(&f.call(&[&x]).unwrap()[0]);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..50).for_each(|_| assert_eq!(bits(&f.call(&[&x]).unwrap()[0]), want)));
        }
    });
}
