//! `talweg launch` with real processes and real kills. The program is the example `digits`, which
//! knows nothing of other processes and prints a fingerprint of its weights.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use talweg::data::{Digits, Loader};
use talweg::nn::column;
use talweg::prelude::*;

/// No job may take longer, whatever happens to it.
const LIMIT: Duration = Duration::from_secs(240);

fn digits() -> PathBuf {
    let bin = Path::new(env!("CARGO_BIN_EXE_talweg"));
    bin.with_file_name("examples").join("digits")
}

/// A running job.
struct Job {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
    ends: Instant,
}

impl Job {
    fn start(args: &[&str], steps: u32) -> Job {
        let mut child = Command::new(env!("CARGO_BIN_EXE_talweg"))
            .arg("launch")
            .args(args)
            .arg(digits())
            .env("STEPS", steps.to_string())
            .env("TALWEG_THREADS", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        Job { child, lines, seen: Vec::new(), ends: Instant::now() + LIMIT }
    }
    /// Reads on until a line contains `text`.
    fn until(&mut self, text: &str) -> String {
        loop {
            let left = self.ends.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(e) => panic!("no line with {text:?} ({e}):\n{}", self.seen.join("\n")),
            }
        }
    }
    /// Kills a process of the job as `kill -9` does.
    fn kill(&mut self, name: &str) {
        let start = format!("[launch] {name} is process ");
        let line = self.seen.iter().rev().find_map(|l| l.strip_prefix(&start));
        let id = line.unwrap_or_else(|| panic!("{name} has not started")).to_string();
        assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
    }
    /// Waits for the end; answers the fingerprints that workers have printed.
    fn weights(mut self) -> Vec<String> {
        while let Ok(line) = self.lines.recv_timeout(self.ends.saturating_duration_since(Instant::now())) {
            self.seen.push(line);
        }
        assert!(self.child.wait().unwrap().success(), "{}", self.seen.join("\n"));
        self.seen.iter().filter_map(|l| Some(l.split_once("weights ")?.1.to_string())).collect()
    }
}
impl Drop for Job {
    fn drop(&mut self) {
        // After a failed test nothing must stay behind; the processes end with their launcher.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one fingerprint that so many workers have printed.
fn one(weights: Vec<String>, workers: usize) -> String {
    let distinct: BTreeSet<&String> = weights.iter().collect();
    assert_eq!((weights.len(), distinct.len()), (workers, 1), "{weights:?}");
    weights[0].clone()
}

/// What `digits` does, in one process that takes the part of every worker in turn.
fn alone(workers: usize, steps: usize) -> Result<String> {
    manual_seed(0);
    let model = Sequential::new()
        .with(Linear::new(784, 32)?)
        .with(Activation::new("relu", Tensor::relu))
        .with(Linear::new(32, 10)?);
    let optimizer = Optimizer::new(Adam::default(), &model)?;
    let loader = |rank| {
        let batch = 64 / workers;
        Loader::builder(Digits::new(0, 4_000)).batch(batch).shuffle(0).drop_last(true).shard(rank, workers).build()
    };
    let mut loaders = (0..workers).map(loader).collect::<std::result::Result<Vec<_>, _>>()?;
    for _ in 0..steps {
        let mut parts: Vec<Vec<Vec<f32>>> = Vec::new();
        for l in &mut loaders {
            let batch = l.next().expect("fewer steps than batches")?;
            let x = column(&batch, "image")?.cast(DType::F32).flatten(1, -1) / 255.0;
            model.forward(&x).cross_entropy(&column(&batch, "label")?, Default::default()).backward()?;
            let params = optimizer.parameters();
            let grads = params.iter().map(|p| p.grad().unwrap().to_vec::<f32>());
            parts.push(grads.collect::<Result<_>>()?);
            params.iter().for_each(Variable::zero_grad);
        }
        let mut means = Vec::new();
        for (i, p) in optimizer.parameters().iter().enumerate() {
            let sum = dist::merge::tree_sum(parts.iter().map(|g| g[i].clone().into()).collect());
            let mean: Vec<f32> = sum.iter().map(|x| x / workers as f32).collect();
            means.push(Some(Tensor::new(p.shape(), &mean)));
        }
        optimizer.update(&means)?.apply()?;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (_, v) in model.state() {
        for x in v.tensor().to_vec::<f32>()? {
            hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Ok(format!("{hash:016x}"))
}

#[test]
fn workers_end_with_the_bits_of_one_process() {
    for workers in [2, 4] {
        let w = workers.to_string();
        let reduced = one(Job::start(&["--workers", &w], 12).weights(), workers);
        assert_eq!(reduced, alone(workers, 12).unwrap(), "{workers} workers, all-reduce");
    }
    let stored = one(Job::start(&["--workers", "2", "--servers", "2"], 12).weights(), 2);
    assert_eq!(stored, alone(2, 12).unwrap(), "two workers, bulk-synchronous store");
}

#[test]
fn other_consistencies_finish() {
    for rule in ["ssp:3", "async", "backup:1"] {
        let weights = Job::start(&["--workers", "2", "--servers", "1", "--consistency", rule], 12).weights();
        assert_eq!(weights.len(), 2, "{rule}");
    }
}

#[test]
fn survivors_go_on_when_a_worker_is_killed() {
    let mut job = Job::start(&["--workers", "4", "--max-restarts", "0"], 600);
    job.until("epoch 1: 4 workers");
    std::thread::sleep(Duration::from_millis(150));
    job.kill("worker 2");
    job.until(": 3 workers reduce together");
    one(job.weights(), 3);
}

#[test]
fn a_worker_that_is_killed_while_the_group_forms_holds_up_nobody() {
    let mut job = Job::start(&["--workers", "4", "--max-restarts", "0"], 30);
    job.until("worker 3 is process");
    job.kill("worker 1");
    let weights = job.weights();
    // Whoever was left reduced together: with the killed worker's values or without.
    one(weights, 3);
}

#[test]
fn a_replacement_is_let_in_and_told_what_the_others_know() {
    let mut job = Job::start(&["--workers", "4"], 900);
    job.until("epoch 1: 4 workers");
    std::thread::sleep(Duration::from_millis(150));
    job.kill("worker 0");
    job.until("worker 0 is let in");
    job.until(": 4 workers reduce together");
    one(job.weights(), 4);
}

/// Kills a process of a job with servers in its middle; the end must be as if nothing had happened.
fn killed(name: &str, then: &str) {
    let args = ["--workers", "2", "--servers", "2"];
    let calm = one(Job::start(&args, 300).weights(), 2);
    let mut job = Job::start(&args, 300);
    job.until("epoch 1: 2 servers");
    std::thread::sleep(Duration::from_millis(150));
    job.kill(name);
    job.until(then);
    assert_eq!(one(job.weights(), 2), calm);
}

#[test]
fn a_killed_worker_is_replaced_and_leaves_no_trace() {
    killed("worker 1", "it is started again");
}

#[test]
fn a_killed_servers_backup_takes_over_and_nothing_is_lost() {
    killed("server 0", "its backups take over");
}

#[test]
fn a_program_that_fails_fails_the_job() {
    let launch = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_talweg")).arg("launch").args(args).output().unwrap();
    assert!(!launch(&["--workers", "2", "--max-restarts", "1", "false"]).status.success());
    assert!(launch(&["--workers", "2", "true"]).status.success());
    // 64 pictures cannot be shared by three: say so, instead of training on something else.
    let digits = digits();
    let uneven = launch(&["--workers", "3", "--max-restarts", "0", digits.to_str().unwrap()]);
    assert!(!uneven.status.success());
    assert!(String::from_utf8_lossy(&uneven.stdout).contains("cannot be shared equally by 3 ranks"));
    let bad = launch(&["--workers", "2", "--consistency", "ssp:1", "true"]);
    assert!(String::from_utf8_lossy(&bad.stderr).contains("needs --servers"));
}
