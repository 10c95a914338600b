//! Pipelines on threads: every schedule ends with the bits of plain gradient accumulation.

mod models;

use cpu as _;
use models::{BATCH, End, Gpt, LENGTH, Sizes, WORDS, gpt, on_mesh, train_of, weights};
use nn::optim::{Adam, Optimizer};
use nn::{Embedding, Layer, Linear, Module};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;
use talweg_parallel::{Job, mesh_in_process};
use tensor::{Mesh, Plan, Result, Tensor, jit, manual_seed, with_mesh};

fn plan(text: &str) -> Plan {
    Plan::parse(&format!("like: data\n{text}")).unwrap()
}

/// Dropout, a norm over all parameters, and a table that the first and the last stage use.
fn run() -> Result<(End, Vec<tensor::Inserted>)> {
    gpt(4, 5, 0.1, Some(1.0))
}

const SCHEDULES: [&str; 4] = ["gpipe", "1f1b", "interleaved", "zb-h1"];

/// Gradients of microbatches, one after the other, as a program without a mesh accumulates them.
fn accumulated(layers: usize, steps: usize, micros: usize) -> Result<End> {
    manual_seed(5);
    let model = Gpt::new(layers)?;
    let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, &model)?;
    let word = |i: usize| ((i * i * 7 + i * 3) % WORDS) as i64;
    let rows = BATCH / micros;
    let part = |m: usize, by: usize| -> Vec<i64> {
        (m * rows * LENGTH..(m + 1) * rows * LENGTH).map(|i| word(i + by)).collect()
    };
    let mut losses = Vec::new();
    for _ in 0..steps {
        let mut sum = 0.0;
        for m in 0..micros {
            let (x, y) = (Tensor::new([rows, LENGTH], &part(m, 0)), Tensor::new([rows, LENGTH], &part(m, 1)));
            let loss = model.loss(&x, &y, 0.0) / micros as f64;
            loss.backward()?;
            sum += loss.item::<f32>()?;
        }
        nn::optim::clip_grad_norm(&model.parameters(), 1.0)?;
        optimizer.step()?;
        losses.push(sum);
    }
    Ok(End { losses, weights: weights(&model)? })
}

#[test]
fn microbatches_are_what_a_loop_accumulates() {
    let want = accumulated(2, 4, 4).unwrap();
    let plan = Plan::named("data").unwrap().with_microbatches(4);
    let (got, _) = on_mesh("data=1", &plan, || gpt(2, 4, 0.0, Some(1.0)));
    assert_eq!(got, want);
}

#[test]
fn every_schedule_ends_with_the_bits_of_accumulation() {
    let alone = on_mesh("data=1", &plan("microbatches: 4"), run).0;
    for schedule in SCHEDULES {
        for mesh in ["pipe=2", "pipe=4"] {
            // Two stages a rank need as many blocks.
            if (mesh, schedule) != ("pipe=4", "interleaved") {
                let (end, _) = on_mesh(mesh, &plan(&format!("microbatches: 4\nschedule: {schedule}")), run);
                assert_eq!(end, alone, "{schedule} on {mesh}");
            }
        }
    }
    // One device differs by rounding only.
    let whole = run().unwrap().0;
    for (a, b) in alone.losses.iter().zip(&whole.losses) {
        assert!((a - b).abs() <= 1e-5 * b.abs(), "{a} instead of {b}");
    }
}

/// Where a program is cut decides what its loops have in them; sums must not depend on it. The sizes are drawn from a
/// sequence that is the same at every run.
#[test]
fn every_schedule_has_the_same_bits_at_any_size() {
    let mut state = 22u64;
    let mut draw = |choices: &[usize]| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        choices[(state >> 33) as usize % choices.len()]
    };
    for _ in 0..8 {
        let (width, words) = (draw(&[20, 36, 64, 68, 100, 132]), draw(&[11, 50, 100]));
        let sizes = Sizes { layers: 2, width, words, length: draw(&[3, 8, 17, 32]), batch: 4 * draw(&[1, 2, 3]) };
        let run = move || train_of(sizes, 2, 0.1, Some(1.0), |s| s.exchanges());
        let alone = on_mesh("data=1", &plan("microbatches: 4"), run).0;
        for schedule in SCHEDULES {
            let (end, _) = on_mesh("pipe=2", &plan(&format!("microbatches: 4\nschedule: {schedule}")), run);
            assert!(end == alone, "{schedule}: {sizes:?}");
        }
    }
}

#[test]
fn recomputed_activations_have_the_same_bits() {
    let alone = on_mesh("data=1", &plan("microbatches: 4"), run).0;
    for schedule in ["gpipe", "1f1b", "interleaved"] {
        let text = format!("microbatches: 4\nschedule: {schedule}\nrecompute: true");
        assert_eq!(on_mesh("pipe=2", &plan(&text), run).0, alone, "{schedule}");
    }
    let twice = plan("schedule: zb-h1\nrecompute: true");
    let e = mesh_in_process(&Mesh::parse("pipe=2").unwrap(), &twice).err().unwrap().to_string();
    assert!(e.contains("zb-h1") && e.contains("recompute: false"), "{e}");
}

#[test]
fn pipelines_of_replicas_and_of_cut_layers() {
    for (outer, name) in [("data=2", "data"), ("tensor=2", "megatron"), ("data=2", "zero")] {
        let text = if name == "zero" { "like: data\nzero: 1".to_string() } else { format!("like: {name}") };
        let plan = |more: &str| Plan::parse(&format!("{text}\nmicrobatches: 2\n{more}")).unwrap();
        let alone = on_mesh(outer, &plan(""), run).0;
        for schedule in SCHEDULES {
            let (end, _) = on_mesh(&format!("{outer},pipe=2"), &plan(&format!("schedule: {schedule}")), run);
            assert_eq!(end, alone, "{schedule}, {name}");
        }
    }
}

#[test]
fn pipelines_with_zero_end_with_the_bits_of_accumulation() {
    for zero in [2, 3] {
        let plan = plan("microbatches: 2").with_zero(zero);
        let alone = on_mesh("data=2", &plan, run).0;
        assert_eq!(on_mesh("data=2,pipe=2", &plan, run).0, alone, "stage {zero}");
    }
}

/// What each rank says of its step.
fn seen<T: Send + 'static>(mesh: &str, text: &str, layers: usize, see: fn(&dyn models::Step) -> T) -> Vec<T> {
    let scopes = mesh_in_process(&Mesh::parse(mesh).unwrap(), &plan(text)).unwrap();
    let run = |scope| {
        thread::spawn(move || {
            Job::alone().scope(|| with_mesh(scope, || models::train(layers, 2, 0.0, None, see).unwrap().1))
        })
    };
    let threads: Vec<_> = scopes.into_iter().map(run).collect();
    threads.into_iter().map(|t| t.join().unwrap()).collect()
}

/// The most microbatches that each rank held.
fn held(mesh: &str, schedule: &str, micros: usize) -> Vec<usize> {
    seen(mesh, &format!("microbatches: {micros}\nschedule: {schedule}"), 4, |step| step.held())
}

#[test]
fn activations_are_differentiated_forward_and_variables_updated_in_place() {
    for text in seen("pipe=2", "microbatches: 4", 2, |step| step.explain()) {
        let activations: Vec<&str> = text.lines().filter(|l| l.contains(" erf ")).collect();
        assert!(activations.len() == 1 && activations[0].contains(" exp "), "of one block a rank: {text}");
        let end = text.lines().rfind(|l| l.starts_with("given ")).unwrap();
        let bytes = |before: &str| end.split_once(before).unwrap().1.split(' ').next().unwrap();
        assert_eq!(bytes("results "), bytes("unshared inputs: "), "{end}");
    }
}

#[test]
fn one_forward_one_backward_holds_as_many_microbatches_as_stages() {
    for schedule in ["1f1b", "zb-h1"] {
        let most = held("pipe=4", schedule, 8);
        assert!(most[0] == 4 && most.iter().all(|m| *m <= 4), "{schedule}: {most:?}");
    }
    assert_eq!(held("pipe=4", "gpipe", 8)[0], 8);
}

#[test]
fn what_cannot_be_cut_is_named() {
    let fails = |mesh: &str, text: &str| -> String {
        let scopes = mesh_in_process(&Mesh::parse(mesh).unwrap(), &plan(text)).unwrap();
        let run = |s| {
            thread::spawn(|| Job::alone().scope(|| with_mesh(s, || gpt(2, 1, 0.0, None).err().unwrap().to_string())))
        };
        let threads: Vec<_> = scopes.into_iter().map(run).collect();
        let mut all: Vec<String> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        all.dedup();
        assert_eq!(all.len(), 1, "ranks fail alike: {all:?}");
        all.remove(0)
    };
    let e = fails("pipe=2", "microbatches: 3");
    assert!(e.contains("8 rows") && e.contains("3 microbatches"), "{e}");
    let e = fails("pipe=2", "microbatches: 4\nblocks.1.*: stage 2");
    assert!(e.contains("blocks.1.") && e.contains("stage 2"), "{e}");
    let e = fails("pipe=2", "microbatches: 4\nblocks.*: stage 0");
    assert!(e.contains("stage 1 of 2 has no parameter"), "{e}");
    let e = fails("pipe=2", "microbatches: 1\nschedule: interleaved");
    assert!(e.contains("multiple of 2 microbatches"), "{e}");
    let e = mesh_in_process(&Mesh::parse("data=2").unwrap(), &plan("schedule: gpipe")).err().unwrap().to_string();
    assert!(e.contains("no axis \"pipe\""), "{e}");
}

#[test]
fn statistics_of_the_batch_are_refused_with_their_line() {
    let scopes = mesh_in_process(&Mesh::parse("pipe=2").unwrap(), &plan("microbatches: 2")).unwrap();
    let run = |s| {
        thread::spawn(|| {
            Job::alone().scope(|| {
                with_mesh(s, || {
                    let (a, b) = (Linear::new(4, 8).unwrap(), Linear::new(8, 4).unwrap());
                    let all = [a.parameters(), b.parameters()].concat();
                    let optimizer = Optimizer::new(Adam::default(), all.as_slice()).unwrap();
                    let step = jit(|x: &[Tensor]| {
                        let h = a.forward(&x[0]);
                        let h = &h - h.mean(0);
                        let loss = b.forward(&h).square().mean(..);
                        loss.backward()?;
                        optimizer.step()?;
                        Ok(vec![loss])
                    });
                    step.call(&[&Tensor::ones([4, 4])]).err().unwrap().to_string()
                })
            })
        })
    };
    for t in scopes.into_iter().map(run).collect::<Vec<_>>() {
        let e = t.join().unwrap();
        assert!(e.contains("of the whole batch") && e.contains("pipeline.rs"), "{e}");
    }
}

/// Both ranks end at once, not when they have waited long enough.
#[test]
fn an_error_in_one_microbatch_ends_the_step_on_every_rank() {
    let scopes = mesh_in_process(&Mesh::parse("pipe=2").unwrap(), &plan("microbatches: 4")).unwrap();
    let (said, heard) = channel();
    for (rank, scope) in scopes.iter().cloned().enumerate() {
        let said = said.clone();
        let run = move || {
            let (table, last) = (Embedding::new(5, 4).unwrap(), Linear::new(4, 3).unwrap());
            let all = [table.parameters(), last.parameters()].concat();
            let optimizer = Optimizer::new(Adam::default(), all.as_slice()).unwrap();
            let step = jit(|a: &[Tensor]| {
                let loss = last.forward(&table.forward(&a[0])).square().mean(..);
                loss.backward()?;
                optimizer.step()?;
                Ok(vec![loss])
            });
            let words = |third: i64| Tensor::new([4, 2], &[0i64, 1, 2, 3, 4, third, 1, 2]);
            step.call(&[&words(0)]).unwrap();
            let errors = [9, 0].map(|third| step.call(&[&words(third)]).err().unwrap().to_string());
            said.send((rank, errors)).unwrap();
        };
        thread::spawn(|| Job::alone().scope(|| with_mesh(scope, run)));
    }
    let next = || heard.recv_timeout(Duration::from_secs(60)).expect("a rank waits");
    let mut all = [next(), next()];
    all.sort();
    let [[why, again], [lost, too]] = all.map(|a| a.1);
    assert!(why.contains('9') && again.contains("a step of this rank failed"), "{why}; {again}");
    assert!([&lost, &too].iter().all(|e| e.contains("lost") || e.contains("gone")), "{lost}; {too}");
    drop(scopes);
}

#[test]
fn patterns_give_stages() {
    let alone = on_mesh("data=1", &plan("microbatches: 4"), run).0;
    let text = "microbatches: 4\nblocks.1.*: stage 1\nblocks.2.*: stage 1\nblocks.3.*: stage 1";
    assert_eq!(on_mesh("pipe=2", &plan(text), run).0, alone);
}
