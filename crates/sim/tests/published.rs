//! Against published figures. Only the constants of the A100 were fitted, on other runs (the calibration third of
//! vTrain's, in `data/`).

use talweg_sim::{Cluster, Gpt, Kind, Limits, Plan, Recompute, clusters, estimate, search};

fn cluster(name: &str) -> Cluster {
    clusters().into_iter().find(|(n, _)| *n == name).unwrap().1.parse().unwrap()
}
fn kind(chunks: usize) -> Kind {
    if chunks > 1 { Kind::Interleaved(chunks) } else { Kind::OneForwardOneBackward }
}

/// Heads, width, layers, tensor, pipe, chunks, devices, batch, microbatch, seconds: Narayanan and others 2021, table 1.
const MEGATRON: [(usize, usize, usize, usize, usize, usize, usize, usize, usize, f64); 10] = [
    (24, 2304, 24, 1, 1, 1, 32, 512, 16, 3.53),
    (32, 3072, 30, 2, 1, 1, 64, 512, 16, 3.70),
    (32, 4096, 36, 4, 1, 1, 128, 512, 16, 3.70),
    (48, 6144, 40, 8, 1, 1, 256, 1024, 8, 9.40),
    (64, 8192, 48, 8, 2, 1, 512, 1536, 4, 14.45),
    (80, 10240, 60, 8, 4, 3, 1024, 1792, 2, 16.06),
    (96, 12288, 80, 8, 8, 2, 1536, 2304, 2, 24.82),
    (128, 16384, 96, 8, 16, 2, 1920, 2160, 1, 37.61),
    (128, 20480, 105, 8, 35, 3, 2520, 2520, 1, 54.08),
    (160, 25600, 128, 8, 64, 1, 3072, 3072, 1, 102.63),
];

fn gpt(heads: usize, hidden: usize, layers: usize) -> Gpt {
    Gpt { layers, hidden, heads, sequence: 2048, vocabulary: 51200, ..Gpt::default() }
}

fn report(name: &str, errors: &[f64]) -> f64 {
    let mean = errors.iter().map(|e| e.abs()).sum::<f64>() / errors.len() as f64;
    let most = errors.iter().fold(0.0f64, |m, e| m.max(e.abs()));
    println!("{name}: mean {:.1} %, worst {:.1} %: {errors:.3?}", 100.0 * mean, 100.0 * most);
    mean
}

#[test]
fn megatron_on_a100() {
    let a100 = cluster("a100");
    let error = |&(a, h, l, tensor, pipe, v, n, batch, micro, seconds): &(_, _, _, _, _, _, _, _, _, f64)| {
        let data = n / tensor / pipe;
        let schedule = kind(v);
        let plan = Plan {
            data,
            tensor,
            pipe,
            micro,
            schedule,
            zero: 0,
            recompute: Recompute::Full,
            sequence: false,
            ..Plan::ONE
        };
        estimate(&gpt(a, h, l), &a100, &plan, batch).unwrap().step_s / seconds - 1.0
    };
    let errors: Vec<f64> = MEGATRON.iter().map(error).collect();
    assert!(report("Megatron, table 1", &errors) <= 0.07);
}

#[test]
fn calibration_runs() {
    let cluster = cluster("a100-800g");
    let text = include_str!("../data/vtrain_calibration.csv");
    let error = |line: &str| {
        let x: Vec<f64> = line.split(',').map(|x| x.trim().parse().unwrap()).collect();
        let n = |i: usize| x[i] as usize;
        let model =
            Gpt { layers: n(6), hidden: n(4), heads: n(5), sequence: n(7), vocabulary: 51200, ..Gpt::default() };
        let schedule = Kind::OneForwardOneBackward;
        let (tensor, data, pipe) = (n(8), n(9), n(10));
        let micro = n(3);
        let plan = Plan {
            data,
            tensor,
            pipe,
            micro,
            schedule,
            zero: 0,
            recompute: Recompute::Full,
            sequence: false,
            ..Plan::ONE
        };
        estimate(&model, &cluster, &plan, n(2)).unwrap().step_s / (x[11] / 1e3) - 1.0
    };
    let errors: Vec<f64> = text.lines().skip(1).filter(|l| !l.trim().is_empty()).map(error).collect();
    assert_eq!(errors.len(), 37);
    assert!(report("vTrain, calibration runs", &errors) <= 0.07);
}

/// Korthikanti and others 2022, table 5: seconds with everything recomputed, and with sequence parallelism and
/// selective recomputation.
#[test]
fn sequence_parallelism_on_a100() {
    let a100 = cluster("a100");
    let rows = [
        (gpt(64, 6144, 48), 8, 1, 1, 4, 4, 1.42, 1.10),
        (gpt(96, 12288, 96), 64, 8, 3, 64, 1, 18.13, 13.75),
        (gpt(128, 20480, 105), 280, 35, 3, 280, 1, 49.05, 37.83),
        (gpt(160, 25600, 128), 512, 64, 1, 512, 1, 94.42, 71.49),
    ];
    let (mut full, mut selective) = (Vec::new(), Vec::new());
    for (model, n, pipe, v, batch, micro, slow, fast) in rows {
        let plan = |recompute, sequence| {
            let (data, schedule) = (n / 8 / pipe, kind(v));
            Plan { data, tensor: 8, pipe, micro, schedule, zero: 0, recompute, sequence, ..Plan::ONE }
        };
        let of = |p: Plan| estimate(&model, &a100, &p, batch).unwrap();
        full.push(of(plan(Recompute::Full, false)).step_s / slow - 1.0);
        selective.push(of(plan(Recompute::Selective, true)).step_s / fast - 1.0);
    }
    assert!(report("all recomputed", &full) <= 0.12);
    assert!(report("sequence parallel, selective", &selective) <= 0.12);
}

#[test]
fn activations_are_those_of_the_paper() {
    let (a100, model) = (cluster("a100"), gpt(64, 6144, 48));
    let of = |recompute, sequence| {
        let schedule = Kind::OneForwardOneBackward;
        let plan = Plan { data: 1, tensor: 8, pipe: 1, micro: 4, schedule, zero: 0, recompute, sequence, ..Plan::ONE };
        estimate(&model, &a100, &plan, 4).unwrap().activation_bytes / (1u64 << 30) as f64
    };
    // Korthikanti and others 2022: 59.25 and 9.56 GiB.
    assert!((of(Recompute::None, false) - 59.25).abs() < 0.01);
    assert!((of(Recompute::Selective, true) - 9.56).abs() < 0.01);
}

#[test]
fn large_models_are_cut_in_three_ways() {
    let a100 = cluster("a100");
    let model = gpt(96, 12288, 96);
    let found = search(&model, &a100, 1024, 1536, Limits::default());
    let best = &found[0];
    assert!(best.0.tensor > 1 && best.0.pipe > 1, "{:?}", best.0);
    // Megatron's axes for this model are close to the best.
    let schedule = Kind::Interleaved(2);
    let plan = Plan {
        data: 16,
        tensor: 8,
        pipe: 8,
        micro: 2,
        schedule,
        zero: 1,
        recompute: Recompute::Selective,
        sequence: true,
        ..Plan::ONE
    };
    let ratio = estimate(&model, &a100, &plan, 1536).unwrap().step_s / best.1.step_s;
    assert!((1.0..1.15).contains(&ratio), "{ratio}");
    assert!(found.iter().all(|(_, e)| e.bytes() <= a100.memory));
}
