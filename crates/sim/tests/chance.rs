//! Uneven devices, failures, overlap, and the axes of sequences and experts.

use talweg_sim::{Cluster, Gpt, Kind, Plan, Recompute, clusters, estimate, estimate_among, run_with_failures, uneven};

fn h100() -> Cluster {
    clusters().into_iter().find(|(n, _)| *n == "h100").unwrap().1.parse().unwrap()
}
fn plan() -> Plan {
    let (schedule, recompute) = (Kind::OneForwardOneBackward, Recompute::Selective);
    Plan { data: 4, tensor: 8, pipe: 4, schedule, recompute, sequence: true, ..Plan::ONE }
}

#[test]
fn one_straggler_slows_its_stage_and_all_wait_for_it() {
    let (gpt, h100, plan) = (Gpt::default(), h100(), plan());
    let even = estimate(&gpt, &h100, &plan, 64).unwrap().step_s;
    let ones = vec![1.0; plan.devices()];
    let same = estimate_among(&gpt, &h100, &plan, 64, Some(&ones)).unwrap().step_s;
    assert!((same / even - 1.0).abs() < 1e-12, "{same} {even}");
    let with = |rank: usize, factor: f64| {
        let mut all = ones.clone();
        all[rank] = factor;
        estimate_among(&gpt, &h100, &plan, 64, Some(&all)).unwrap().step_s
    };
    // Wherever it is, the step is slower, but by no more than the device.
    for rank in [0, 17, 64, 127] {
        let slow = with(rank, 1.5) / even;
        assert!(slow > 1.2 && slow < 1.5, "rank {rank}: {slow}");
    }
    // Two of one tensor-parallel group cost what one costs.
    let mut two = ones.clone();
    (two[0], two[1]) = (1.5, 1.5);
    let two = estimate_among(&gpt, &h100, &plan, 64, Some(&two)).unwrap().step_s;
    assert!((two / with(0, 1.5) - 1.0).abs() < 1e-12);
    assert!(estimate_among(&gpt, &h100, &plan, 64, Some(&ones[1..])).is_err());
}

#[test]
fn ten_thousand_devices_that_deviate() {
    let (data, pipe, batch) = (125, 10, 2000);
    let gpt = Gpt { layers: 100, ..Gpt::default() };
    let plan = Plan { data, pipe, ..plan() };
    assert_eq!(plan.devices(), 10_000);
    let even = estimate(&gpt, &h100(), &plan, batch).unwrap().step_s;
    let factors = uneven(10_000, 0.03, 7);
    let mean = factors.iter().sum::<f64>() / 10_000.0;
    assert!((mean - 1.0).abs() < 0.005, "{mean}");
    let uneven = estimate_among(&gpt, &h100(), &plan, batch, Some(&factors)).unwrap().step_s;
    // The slowest of so many is waited for.
    assert!(uneven > 1.03 * even && uneven < 1.2 * even, "{even} {uneven}");
}

#[test]
fn failures_cost_what_the_formula_says() {
    let h100 = h100();
    let (devices, step_s, steps) = (4096, 10.0, 200_000);
    let runs: Vec<_> = (0..8).map(|seed| run_with_failures(&h100, devices, step_s, steps, seed)).collect();
    let kept = runs.iter().map(|r| steps as f64 * step_s / r.seconds).sum::<f64>() / 8.0;
    let formula = h100.efficiency(devices);
    assert!((kept - formula).abs() < 0.02, "{kept} {formula}: {runs:?}");
    assert!(runs.iter().all(|r| r.failures > 0 && r.checkpoints > 0 && r.lost_s > 0.0));
    assert_eq!(runs[3], run_with_failures(&h100, devices, step_s, steps, 3));
}

#[test]
fn overlap_hides_gradients_behind_the_backward_pass() {
    let (gpt, h100) = (Gpt { layers: 24, hidden: 2048, heads: 16, ..Gpt::default() }, h100());
    for zero in [0, 1, 3] {
        let serial = Plan { data: 64, micro: 4, zero, recompute: Recompute::Selective, ..Plan::ONE };
        let at = |overlap: bool| estimate(&gpt, &h100, &Plan { overlap, ..serial }, 1024).unwrap();
        let (with, without) = (at(true), at(false));
        assert!(with.step_s < without.step_s, "zero {zero}");
        assert_eq!(with.sent_bytes, without.sent_bytes);
    }
}

#[test]
fn axes_of_sequences_and_experts() {
    let h100 = h100();
    let long = Gpt { layers: 32, hidden: 4096, heads: 32, sequence: 131_072, ..Gpt::default() };
    let recompute = Recompute::Full;
    let with = |context: usize| {
        let plan = Plan { data: 8 / context, tensor: 8, context, recompute, sequence: true, ..Plan::ONE };
        estimate(&long, &h100, &plan, 8).unwrap()
    };
    // A rank of eight has an eighth of the activations, and a step takes about as long: as much is computed.
    assert!(with(8).activation_bytes < with(1).activation_bytes / 7.0);
    let ratio = with(8).step_s / with(1).step_s;
    assert!(ratio > 0.8 && ratio < 1.3, "{ratio}");
    let mixture = Gpt { layers: 32, hidden: 4096, heads: 32, experts: 8, chosen: 2, ..Gpt::default() };
    let at = |expert: usize, skew: f64| {
        let plan = Plan { data: 64 / expert, expert, skew, zero: 1, recompute, ..Plan::ONE };
        estimate(&mixture, &h100, &plan, 512).unwrap()
    };
    // Experts are most of the parameters.
    assert!(at(8, 1.0).state_bytes < at(1, 1.0).state_bytes / 3.0);
    assert!(at(8, 1.0).sent_bytes > 0.0 && at(8, 2.0).step_s > at(8, 1.0).step_s);
    let bad = Plan { data: 1, expert: 3, ..Plan::ONE };
    assert!(estimate(&mixture, &h100, &bad, 3).unwrap_err().to_string().contains("experts"));
}
