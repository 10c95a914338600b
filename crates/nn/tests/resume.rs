//! Resumed runs are uninterrupted runs, to the bit: within a process, and after SIGKILL.

use cpu as _;
use data::{Digits, Loader};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use talweg_nn::optim::{Adam, Optimizer};
use talweg_nn::schedule::{Plateau, Schedule, Warmup};
use talweg_nn::train::{Checkpoint, Checkpoints, Goal, Outcome, Progress, Report, Stop, Trainer};
use talweg_nn::{BatchNorm, Columns, Dropout, Layer, Linear, Module, Relu, Sequential};
use tensor::{DType, Literal, Tensor};

/// A small classifier with everything that has state: random draws, running means, momentum.
struct Run {
    model: Sequential,
    optimizer: Optimizer,
    loader: Loader,
}

fn rebuild(seed: u64) -> Run {
    tensor::manual_seed(seed);
    let model = Sequential::new()
        .with(Linear::new(784, 24).unwrap())
        .with(BatchNorm::new(24).unwrap())
        .with(Relu)
        .with(Dropout::new(0.3))
        .with(Linear::new(24, 10).unwrap());
    let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &model).unwrap();
    // 100 samples in batches of 16: epochs end with a smaller batch, runs in the middle of one.
    let loader = Loader::builder(Digits::new(3, 100)).batch(16).shuffle(9).build().unwrap();
    Run { model, optimizer, loader }
}

fn loss(model: &Sequential, batch: &data::Batch) -> tensor::Result<Tensor> {
    let x = batch.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
    Ok(model.forward(&x).cross_entropy(&batch.column("label")?))
}

fn decay() -> impl Schedule {
    Warmup { steps: 5, start: 0.1, then: |step: usize| 0.01 / (1.0 + step as f64) }
}

/// Remembers the bits of every loss.
#[derive(Default)]
struct Losses<'a>(Option<&'a std::cell::RefCell<Vec<(u64, u64)>>>);
impl Report for Losses<'_> {
    fn step(&mut self, p: &Progress) {
        if let Some(losses) = self.0 {
            losses.borrow_mut().push((p.step, p.loss.to_bits()));
        }
    }
}

fn weights(run: &Run) -> Vec<(String, Literal)> {
    let mut state = run.model.state();
    state.extend(run.optimizer.state());
    state.into_iter().map(|(n, v)| (n, v.tensor().literal().unwrap())).collect()
}

fn assert_same(a: &[(String, Literal)], b: &[(String, Literal)]) {
    assert_eq!(a.len(), b.len());
    for ((name, x), (other, y)) in a.iter().zip(b) {
        assert_eq!(name, other);
        assert!(x.bytes() == y.bytes(), "{name} differs");
    }
}

/// As above, but names may have been given since.
fn assert_values(a: &[(String, Literal)], b: &[(String, Literal)]) {
    assert!(a.len() == b.len() && a.iter().zip(b).all(|(x, y)| x.1.bytes() == y.1.bytes()));
}

#[test]
fn seven_steps_and_thirteen_are_twenty() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, parts) = (std::cell::RefCell::default(), std::cell::RefCell::default());
    let mut run = rebuild(1);
    let model = &run.model;
    Trainer::new(model, &run.optimizer, &mut run.loader)
        .steps(20)
        .schedule(decay())
        .report(Losses(Some(&whole)))
        .fit(|b| loss(model, b))
        .unwrap();
    let expected = weights(&run);
    // The second part begins with other weights and another random state, as a new process would.
    for (seed, steps) in [(1, 7), (2, 20)] {
        let mut run = rebuild(seed);
        let model = &run.model;
        let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader)
            .steps(steps)
            .schedule(decay())
            .checkpoints(Checkpoints::open(folder.path()).unwrap(), 4)
            .report(Losses(Some(&parts)));
        assert_eq!(trainer.resume().unwrap(), (steps == 20).then_some(7));
        let outcome = trainer.fit(|b| loss(model, b)).unwrap();
        assert_eq!((outcome.stop, outcome.step), (Stop::Done, steps as u64));
        if steps == 20 {
            drop(trainer);
            assert_same(&expected, &weights(&run));
        }
    }
    assert_eq!(whole.into_inner(), parts.into_inner());
}

#[test]
fn compiled_steps_resume_to_the_bit_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut results = Vec::new();
    for (name, parts) in [("whole", &[20][..]), ("parts", &[7, 20])] {
        for &steps in parts {
            let mut run = rebuild(4);
            let (model, optimizer) = (&run.model, &run.optimizer);
            let step = tensor::jit(|a: &[Tensor]| {
                let loss = model.forward(&a[0]).cross_entropy(&a[1]);
                loss.backward()?;
                optimizer.step()?;
                Ok(vec![loss])
            });
            let mut trainer = Trainer::new(model, optimizer, &mut run.loader)
                .steps(steps)
                .checkpoints(Checkpoints::open(folder.path().join(name)).unwrap(), 1);
            trainer.resume().unwrap();
            let outcome = trainer.run(|b| {
                let x = b.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
                Ok(step.call(&[&x, &b.column("label")?])?.remove(0))
            });
            assert_eq!(outcome.unwrap().step, steps as u64);
            drop(trainer);
            if steps == 20 {
                results.push(weights(&run));
            }
        }
    }
    assert_same(&results[0], &results[1]);
    let saved = Checkpoints::open(folder.path().join("whole")).unwrap().latest().unwrap().unwrap().checkpoint;
    let model = &rebuild(4).model;
    saved.restore("model", &model.state()).unwrap();
    for ((name, v), (_, last)) in model.state().iter().zip(&results[0]) {
        assert!(v.tensor().literal().unwrap().bytes() == last.bytes(), "{name} was saved otherwise");
    }
}

#[test]
fn a_new_run_does_not_mix_with_an_old_one() {
    let folder = tempfile::tempdir().unwrap();
    Checkpoints::open(folder.path()).unwrap().save(&Checkpoint::new(9)).unwrap();
    let mut run = rebuild(1);
    let model = &run.model;
    let e = Trainer::new(model, &run.optimizer, &mut run.loader)
        .checkpoints(Checkpoints::open(folder.path()).unwrap(), 1)
        .fit(|b| loss(model, b));
    let e = e.unwrap_err().to_string();
    assert!(e.contains("at step 0") && e.contains("step-0000000009.safetensors already: resume"), "{e}");
}

#[test]
fn a_checkpoint_of_another_run_is_refused_and_changes_nothing() {
    let mut run = rebuild(1);
    let (model, before) = (&run.model, weights(&run));
    let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader).steps(3);
    trainer.fit(|b| loss(model, b)).unwrap();
    let saved = trainer.checkpoint().unwrap();
    drop(trainer);
    let mut run = rebuild(1);
    run.loader = Loader::builder(Digits::new(3, 99)).batch(16).shuffle(9).build().unwrap();
    let e = Trainer::new(&run.model, &run.optimizer, &mut run.loader).restore(&saved).unwrap_err().to_string();
    assert!(e.contains("a data set with 100 samples, not 99"), "{e}");
    assert_values(&before, &weights(&run));

    let (mut run, other) = (rebuild(1), Linear::new(784, 10).unwrap());
    let optimizer = Optimizer::new(Adam::default(), &other).unwrap();
    let e = Trainer::new(&other, &optimizer, &mut run.loader).restore(&saved).unwrap_err().to_string();
    assert!(e.contains("it has no model.weight, model.bias; other types: optimizer.state.0.exp_avg"), "{e}");
    assert_eq!(Loader::position(&run.loader).batch, 0);
}

#[test]
fn the_stop_flag_finishes_the_step_and_saves() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = rebuild(1);
    let (model, flag) = (&run.model, Arc::new(AtomicBool::new(false)));
    let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader)
        .steps(20)
        .checkpoints(Checkpoints::open(folder.path()).unwrap(), 100)
        .stop_when(flag.clone());
    let mut calls = 0;
    let outcome = trainer.fit(|b| {
        calls += 1;
        flag.store(calls == 5, Ordering::Relaxed);
        loss(model, b)
    });
    let outcome: Outcome = outcome.unwrap();
    assert_eq!((outcome.stop, outcome.step), (Stop::Interrupted, 5));
    assert_eq!(Checkpoint::load(outcome.checkpoint.unwrap()).unwrap().step, 5);
    flag.store(false, Ordering::Relaxed);
    assert_eq!(trainer.fit(|b| loss(model, b)).unwrap().step, 20);
}

#[test]
fn nan_names_the_step_and_the_checkpoint_that_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = rebuild(1);
    let model = &run.model;
    let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader)
        .steps(20)
        .checkpoints(Checkpoints::open(folder.path()).unwrap(), 4);
    let mut calls = 0;
    let e = trainer.fit(|b| {
        calls += 1;
        Ok(if calls == 11 { loss(model, b)? * f32::NAN } else { loss(model, b)? })
    });
    let e = e.unwrap_err();
    assert_eq!(e.kind, tensor::ErrorKind::Numerics);
    let e = e.to_string();
    assert!(e.contains("the loss is NaN at step 11 of 20") && e.contains("step-0000000008.safetensors"), "{e}");
    assert_eq!(trainer.resume().unwrap(), Some(8));
}

#[test]
fn patience_ends_a_run_and_the_best_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = rebuild(1);
    let model = &run.model;
    let scores = [0.1, 0.5, 0.4, 0.3, 0.9];
    let mut seen = scores.iter();
    let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader)
        .steps(20)
        .evaluate(2, || Ok(vec![("accuracy".to_string(), *seen.next().unwrap())]))
        .watch("accuracy", Goal::Max)
        .patience(2)
        .checkpoints(Checkpoints::open(folder.path()).unwrap().keep_last(1).keep_best(1, Goal::Max), 1)
        .journal(folder.path().join("log.jsonl"))
        .events(folder.path().join("events"));
    let outcome = trainer.fit(|b| loss(model, b)).unwrap();
    assert_eq!((outcome.stop, outcome.step, outcome.best), (Stop::Early, 8, Some((0.5, 4))));
    drop(trainer);
    let mut kept = Checkpoints::open(folder.path()).unwrap().keep_best(1, Goal::Max);
    assert_eq!((kept.steps().unwrap(), kept.best().unwrap()), (vec![4, 8], Some(4)));
    let log = std::fs::read_to_string(folder.path().join("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 12, "eight losses and four evaluations: {log}");
    let files: Vec<_> = std::fs::read_dir(folder.path().join("events")).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(files.len(), 1);
    let records = records(&std::fs::read(&files[0]).unwrap());
    let with = |tag: &str| records.iter().filter(|r| r.windows(tag.len()).any(|w| w == tag.as_bytes())).count();
    assert_eq!((records.len(), with("brain.Event:2")), (13, 1), "a version and twelve scalars");
    assert_eq!((with("train/loss"), with("evaluation/accuracy")), (8, 4));
}

/// The records of an event file: length, checksum of it, content, checksum of it. (TensorBoard
/// itself reads such a file in `scripts/check_tensorboard.py`.)
fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut list = Vec::new();
    while !bytes.is_empty() {
        let size = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        list.push(bytes[12..12 + size].to_vec());
        bytes = &bytes[16 + size..];
    }
    list
}

#[test]
fn a_plateau_lowers_the_rate_also_across_a_resume() {
    let folder = tempfile::tempdir().unwrap();
    let rate = |parts: &[usize]| {
        let _ = std::fs::remove_dir_all(folder.path().join("run"));
        let mut rate = 0.0;
        for &steps in parts {
            let mut run = rebuild(1);
            let model = &run.model;
            let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader)
                .steps(steps)
                .evaluate(1, || Ok(vec![("loss".to_string(), 1.0)]))
                .watch("loss", Goal::Min)
                .plateau(Plateau { patience: 2, factor: 0.5, ..Plateau::new(0.01) })
                .checkpoints(Checkpoints::open(folder.path().join("run")).unwrap(), 1);
            trainer.resume().unwrap();
            trainer.fit(|b| loss(model, b)).unwrap();
            rate = run.optimizer.lr().unwrap();
        }
        rate
    };
    let whole = rate(&[8]);
    assert!((whole - 0.0025).abs() < 1e-9, "two halvings after a first figure and twice three more: {whole}");
    assert_eq!(whole, rate(&[3, 6, 8]));
}

#[test]
fn a_metric_that_is_missing_is_named() {
    let mut run = rebuild(1);
    let model = &run.model;
    let e = Trainer::new(model, &run.optimizer, &mut run.loader)
        .evaluate(1, || Ok(vec![("loss".to_string(), 1.0)]))
        .watch("accuracy", Goal::Max)
        .fit(|b| loss(model, b));
    let e = e.unwrap_err().to_string();
    assert!(e.contains(r#"no metric "accuracy", only ["loss"]"#), "{e}");
}

const STEPS: usize = 240;

/// The part of the next test that is killed: trains on from whatever the folder holds.
#[test]
#[ignore = "started by the test below"]
fn child_that_trains() {
    train_in(Path::new(&std::env::var_os("TALWEG_TEST_RESUME").unwrap()));
}

fn train_in(folder: &Path) {
    // A fresh process may start anywhere: what it draws must come from the checkpoint.
    let mut run = rebuild(5);
    let model = &run.model;
    let mut trainer = Trainer::new(model, &run.optimizer, &mut run.loader)
        .steps(STEPS)
        .checkpoints(Checkpoints::open(folder).unwrap().keep_last(2), 3)
        .journal(folder.join("log.jsonl"));
    trainer.resume().unwrap();
    trainer.fit(|b| loss(model, b)).unwrap();
}

#[test]
fn groups_keep_their_ratio_and_clipping_cuts() {
    let v = |name: &str| tensor::Variable::new(name, Tensor::ones([2])).unwrap();
    let (a, b) = (v("a"), v("b"));
    let rule = talweg_nn::optim::Sgd { lr: 0.1, ..Default::default() };
    let mut optimizer = Optimizer::new(rule, [a.clone()].as_slice()).unwrap();
    optimizer.add_group([b.clone()].as_slice(), 0.01, 0.0).unwrap();
    let e = optimizer.add_group([a.clone()].as_slice(), 1.0, 0.0).unwrap_err().to_string();
    assert!(e.contains("parameter a is in two groups"), "{e}");
    optimizer.set_lr(1.0).unwrap();
    (a.tensor() * 100.0 + b.tensor() * 0.5).sum(..).backward().unwrap();
    talweg_nn::optim::clip_grad_value(&optimizer.parameters(), 2.0).unwrap();
    optimizer.step().unwrap();
    let values = |v: &tensor::Variable| v.tensor().to_vec::<f32>().unwrap()[0];
    assert_eq!(values(&a), 1.0 - 2.0);
    assert!((values(&b) - (1.0 - 0.1 * 0.5)).abs() < 1e-6, "{}", values(&b));
}

/// Steps and losses of the log, as text.
fn log(folder: &Path) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder.join("log.jsonl")).unwrap_or_default();
    let field = |line: &str, key: &str| {
        let at = line.find(key).unwrap_or_else(|| panic!("no {key} in {line}"));
        line[at + key.len()..].split([',', '}']).next().unwrap().to_string()
    };
    text.lines().map(|l| (field(l, "\"step\":"), field(l, "\"train/loss\":"))).collect()
}

#[cfg(unix)]
#[test]
fn a_run_killed_at_random_moments_ends_with_the_same_bits() {
    use std::os::unix::process::ExitStatusExt;
    let whole = tempfile::tempdir().unwrap();
    train_in(whole.path());
    let expected = Checkpoints::open(whole.path()).unwrap().latest().unwrap().unwrap().checkpoint;
    assert_eq!(expected.step, STEPS as u64);

    let mut random = data::random::Random::new(u64::from(std::process::id()), 0, 0);
    let folder = tempfile::tempdir().unwrap();
    let (mut killed, mut attempts) = (0, 0);
    loop {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_trains", "--ignored"])
            .env("TALWEG_TEST_RESUME", folder.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        if attempts < 10 {
            // The first die before they have done much, later ones while they train or write.
            std::thread::sleep(std::time::Duration::from_millis(5 + random.below(20 + 20 * attempts)));
            child.kill().unwrap();
        }
        attempts += 1;
        let status = child.wait().unwrap();
        if status.signal().is_some() {
            killed += 1;
            continue;
        }
        assert!(status.success(), "{status}");
        break;
    }
    assert!(killed > 0, "every child was done before it was killed");
    let found = Checkpoints::open(folder.path()).unwrap().latest().unwrap().unwrap();
    assert!(found.refused.is_empty(), "{:?}", found.refused);
    assert_eq!((found.checkpoint.step, found.checkpoint.generator), (STEPS as u64, expected.generator));
    assert_eq!(found.checkpoint.position, expected.position);
    assert_eq!(found.checkpoint.tensors, expected.tensors);
    assert_eq!(log(folder.path()), log(whole.path()));
}
