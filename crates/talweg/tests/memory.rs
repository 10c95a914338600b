//! What a step needs is planned when it is compiled: the process grows by that and little more. A
//! test file of its own, as it looks at the memory of the whole process.

#![cfg(target_os = "linux")]

use talweg::prelude::*;

/// A field of the process's status, in bytes.
fn status(field: &str) -> usize {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|l| l.strip_prefix(field)).unwrap();
    line.trim().split(' ').next().unwrap().parse::<usize>().unwrap() * 1024
}

#[test]
fn a_training_step_takes_the_memory_that_was_planned() {
    // Pages of code are no memory of the step.
    let (before, code) = (status("VmRSS:"), status("RssFile:"));
    let sizes = [512, 1536, 1536, 10];
    let mut model = Sequential::new();
    for w in sizes.windows(2) {
        model = model.with(Linear::new(w[0], w[1]).unwrap()).with(talweg::nn::Tanh);
    }
    let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
    let step = jit(|a: &[Tensor]| {
        let loss = (model.forward(&a[0]) - &a[1]).square().mean(..);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let (x, y) = (Tensor::ones([512, sizes[0]]), Tensor::zeros([512, 10]));
    Tensor::eval_all(&[&x, &y]).unwrap();
    for _ in 0..3 {
        step.call(&[&x, &y]).unwrap();
    }
    let (_, profile) = step.profile(&[&x, &y]).unwrap();
    let grown = status("VmHWM:") - before - status("RssFile:").saturating_sub(code);
    let planned = profile.memory.peak();
    // Parameters and their two moments, which the step updates in place.
    let parameters: usize = sizes.windows(2).map(|w| (w[0] + 1) * w[1] * 4).sum();
    assert!(profile.memory.in_place >= 3 * parameters, "{:?} for {parameters} bytes", profile.memory);
    assert!(planned >= 3 * parameters && planned < 6 * parameters, "{:?} for {parameters} bytes", profile.memory);
    // Besides, the process holds the zeros that both moments began with, kept for the next request of that size; and
    // what each thread packs of a GEMM's operands. What the initial values were drawn from is given back.
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let (least, most) = (planned / 10 * 9, planned + parameters + (12 << 20) + threads * (2 << 20));
    assert!((least..most).contains(&grown), "{planned} bytes were planned, the process has grown by {grown}");
}
