//! `talweg launch` with real processes and real kills. The program is the example `digits`, which
//! knows nothing of other processes and prints a fingerprint of its weights.

mod ending;
mod etcd;
mod faces;
mod job;
mod recovery;

use job::{Job, alone, alone_by, digits, launch, one};
use talweg::nn::optim::{Adafactor, Adam, NAdam};

#[test]
fn workers_end_with_the_bits_of_one_process() {
    for workers in [2, 4] {
        let w = workers.to_string();
        let reduced = one(Job::start(&["--workers", &w], 12).weights(), workers);
        assert_eq!(reduced, alone(workers, 12).unwrap(), "{workers} workers, all-reduce");
        // Each gradient is its own bucket, reduced while the rest is computed.
        let overlapped = Job::start_with(&["--workers", &w], 12, &[("TALWEG_BUCKET", "1")]).weights();
        assert_eq!(one(overlapped, workers), reduced, "{workers} workers, in buckets");
    }
    let store = &["--workers", "2", "--servers", "2"];
    let stored = one(Job::start(store, 12).weights(), 2);
    assert_eq!(stored, alone(2, 12).unwrap(), "two workers, bulk-synchronous store");
    let cut = Job::start_with(store, 12, &[("TALWEG_BLOCK", "4000")]).weights();
    assert_eq!(one(cut, 2), stored, "parameters in pieces");
}

#[test]
fn it_is_the_mean_of_gradients_that_is_clipped() {
    let expected = alone_by(Adam::default(), 2, 12, Some(0.5)).unwrap();
    assert_ne!(expected, alone(2, 12).unwrap(), "nothing was clipped");
    for bucket in ["1048576", "1"] {
        let job = Job::start_with(&["--workers", "2"], 12, &[("CLIP", "0.5"), ("TALWEG_BUCKET", bucket)]);
        assert_eq!(one(job.weights(), 2), expected, "buckets of {bucket} bytes");
    }
}

#[test]
fn rules_whose_state_has_sizes_of_its_own_run_in_the_store() {
    let expected = [
        ("nadam", alone_by(NAdam::default(), 2, 60, None).unwrap()),
        ("adafactor", alone_by(Adafactor::default(), 2, 60, None).unwrap()),
    ];
    for (rule, expected) in expected {
        let folder = tempfile::tempdir().unwrap();
        let vars = [("OPTIMIZER", rule), ("CHECKPOINTS", folder.path().to_str().unwrap()), ("TALWEG_PARTS", "1")];
        let args = &["--workers", "2", "--servers", "2"];
        one(Job::start_with(args, 40, &vars).weights(), 2);
        // Without the last checkpoint the run goes back to what the servers wrote.
        std::fs::remove_file(folder.path().join("step-0000000040.safetensors")).unwrap();
        assert_eq!(one(Job::start_with(args, 60, &vars).weights(), 2), expected, "{rule}");
    }
}

#[test]
fn other_consistencies_finish() {
    for rule in ["ssp:3", "async", "backup:1"] {
        let weights = Job::start(&["--workers", "2", "--servers", "1", "--consistency", rule], 12).weights();
        assert_eq!(weights.len(), 2, "{rule}");
        // At their own pace until the last step, and then with all workers' updates.
        assert!(rule == "backup:1" || weights[0] == weights[1], "{rule}: {weights:?}");
    }
}

#[test]
fn a_rule_of_ones_own_is_launched() {
    let own = digits().with_file_name("custom_consistency");
    let launch = |rule: &str, program: &std::path::Path| {
        let mut c = std::process::Command::new(&own);
        c.args(["launch", "--workers", "2", "--servers", "1", "--consistency", rule]).arg(program);
        c.env("STEPS", "12").env("PAUSE_MS", "0").env("TALWEG_THREADS", "1");
        c
    };
    let weights = Job::of(launch("every:2", &digits())).weights();
    // At their own pace until the last step, and then with all workers' updates.
    assert!(weights.len() == 2 && weights[0] == weights[1], "{weights:?}");
    let bad = launch("every:0", &digits()).output().unwrap();
    assert!(String::from_utf8_lossy(&bad.stderr).contains("every:K or a built-in rule"), "{bad:?}");
}

#[test]
fn a_checkpoint_of_one_job_is_the_beginning_of_another() {
    let expected = alone(2, 60).unwrap();
    let two_servers = &["--workers", "2", "--servers", "2"][..];
    let others = [&["--workers", "2", "--servers", "3"][..], &["--workers", "2"], two_servers];
    for (first, then) in [two_servers, two_servers, &["--workers", "2"]].into_iter().zip(others) {
        let folder = tempfile::tempdir().unwrap();
        let vars = [("CHECKPOINTS", folder.path().to_str().unwrap())];
        one(Job::start_with(first, 40, &vars).weights(), 2);
        assert_eq!(one(Job::start_with(then, 60, &vars).weights(), 2), expected, "{first:?}, then {then:?}");
    }
}

#[test]
fn what_servers_have_written_is_the_beginning_of_a_job_of_any_size() {
    let expected = alone(2, 60).unwrap();
    for then in [&["--workers", "2", "--servers", "3"][..], &["--workers", "2"]] {
        let folder = tempfile::tempdir().unwrap();
        let folder_name = folder.path().to_str().unwrap();
        let vars = [("CHECKPOINTS", folder_name), ("TALWEG_PARTS", "1"), ("TALWEG_BLOCK", "30000")];
        one(Job::start_with(&["--workers", "2", "--servers", "2"], 40, &vars).weights(), 2);
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap().file_name()).collect();
        let is_part = |n: &&std::ffi::OsString| n.to_str().unwrap().contains("step-0000000020.part-");
        assert!(names.iter().filter(is_part).count() > 2, "{names:?}");
        // The last one is one file; without it the run goes back to what the servers wrote.
        std::fs::remove_file(folder.path().join("step-0000000040.safetensors")).unwrap();
        assert_eq!(one(Job::start_with(then, 60, &vars).weights(), 2), expected, "then {then:?}");
    }
}

#[test]
fn a_store_on_disk_counts_on_from_the_checkpoint_that_it_began_with() {
    let (saved, disk) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let args = ["--workers", "2", "--servers", "2"];
    let vars = [("CHECKPOINTS", saved.path().to_str().unwrap()), ("TALWEG_STORE_DIR", disk.path().to_str().unwrap())];
    one(Job::start_with(&args, 20, &vars[..1]).weights(), 2);
    // The store begins at step 20; when it goes on there is a newer checkpoint.
    one(Job::start_with(&args, 30, &vars).weights(), 2);
    assert_eq!(one(Job::start_with(&args, 50, &vars).weights(), 2), alone(2, 50).unwrap());
}

#[test]
fn what_packing_leaves_out_is_in_the_checkpoints() {
    for how in [&["--workers", "2", "--wire", "1bit"][..], &["--workers", "2", "--servers", "2", "--wire", "1bit"]] {
        let folder = tempfile::tempdir().unwrap();
        let vars = [("CHECKPOINTS", folder.path().to_str().unwrap())];
        one(Job::start_with(how, 40, &vars).weights(), 2);
        let without = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap().map(|f| f.unwrap()) {
            if !file.file_name().to_str().unwrap().contains(".owed-") {
                std::fs::copy(file.path(), without.path().join(file.file_name())).unwrap();
            }
        }
        let whole = one(Job::start(how, 60).weights(), 2);
        assert_eq!(one(Job::start_with(how, 60, &vars).weights(), 2), whole, "{how:?}");
        let vars = [("CHECKPOINTS", without.path().to_str().unwrap())];
        assert_ne!(one(Job::start_with(how, 60, &vars).weights(), 2), whole, "{how:?}");
    }
}

#[test]
fn images_that_do_not_divide_among_workers_are_shared_unevenly() {
    // 64 images for three: the mean counts each image once, wherever it is computed.
    let trained = |args: &[&str]| {
        let (weights, seen) = Job::start_with(args, 12, &[("OPTIMIZER", "sgd"), ("SUMS", "1")]).ended();
        let sums = seen.iter().filter_map(|l| l.split_once("sums ")?.1.parse::<f64>().ok()).collect::<Vec<_>>();
        (weights, sums)
    };
    let (_, alone) = trained(&["--workers", "1"]);
    for args in [&["--workers", "3"][..], &["--workers", "3", "--servers", "2"]] {
        let (weights, sums) = trained(args);
        one(weights, 3);
        assert!(sums.iter().all(|s| (s - alone[0]).abs() < 1e-4 * alone[0]), "{args:?}: {sums:?}, alone {alone:?}");
    }
}

#[test]
fn a_program_that_fails_fails_the_job() {
    assert!(!launch(&["--workers", "2", "--max-restarts", "1", "false"]).status.success());
    assert!(launch(&["--workers", "2", "true"]).status.success());
    let bad = launch(&["--workers", "2", "--consistency", "ssp:1", "true"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("needs --servers"));
}

#[test]
fn layers_cut_between_workers_learn_what_one_process_learns() {
    let example = digits().with_file_name("tensor_parallel");
    let example = example.to_str().unwrap();
    let losses = |out: std::process::Output| -> Vec<f64> {
        let said = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
        said.lines().filter_map(|l| l.split_once("loss ")?.1.trim().parse().ok()).collect()
    };
    let vars = [("TALWEG_QUICK", "1"), ("TALWEG_THREADS", "1")];
    let alone = losses(std::process::Command::new(example).envs(vars).output().unwrap());
    assert_eq!(alone.len(), 2);
    for args in [&["--workers", "2"][..], &["--workers", "4"], &["--workers", "2", "--servers", "1"]] {
        let mut job = std::process::Command::new(env!("CARGO_BIN_EXE_talweg"));
        let both = losses(job.arg("launch").args(args).arg(example).envs(vars).output().unwrap());
        let workers: usize = args[1].parse().unwrap();
        assert_eq!(both.len(), 2 * workers);
        // Sums of parts are rounded otherwise than whole sums.
        assert!(both.iter().all(|l| alone.iter().any(|a| (a - l).abs() < 2e-3)), "{args:?}: {both:?}, alone {alone:?}");
    }
}
