//! A job under test, and what it must come to.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use talweg::data::Digits;
use talweg::nn::optim::{Rule, clip_grad_norm};
use talweg::prelude::*;

/// No job may take longer, whatever happens to it; `TALWEG_LIMIT` gives more seconds to long ones.
fn limit() -> Duration {
    Duration::from_secs(std::env::var("TALWEG_LIMIT").ok().and_then(|s| s.parse().ok()).unwrap_or(240))
}

pub fn digits() -> PathBuf {
    let bin = Path::new(env!("CARGO_BIN_EXE_talweg"));
    bin.with_file_name("examples").join("digits")
}

/// A running job.
pub struct Job {
    pub child: Child,
    lines: Receiver<String>,
    pub seen: Vec<String>,
    ends: Instant,
}

impl Job {
    /// Starts a job; a long one takes its time, so that something can happen to it.
    pub fn start(args: &[&str], steps: u32) -> Job {
        Job::start_with(args, steps, &[])
    }
    /// As [`Job::start`], with more variables.
    pub fn start_with(args: &[&str], steps: u32, vars: &[(&str, &str)]) -> Job {
        let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
        c.arg("launch")
            .args(args)
            .arg(digits())
            .env("STEPS", steps.to_string())
            .env("PAUSE_MS", if steps > 100 { "3" } else { "0" })
            .env("TALWEG_THREADS", "1")
            .envs(vars.iter().copied());
        Job::of(c)
    }
    /// A job of any command.
    pub fn of(mut command: Command) -> Job {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (send, lines) = channel();
        let out = child.stdout.take().unwrap();
        std::thread::spawn(move || BufReader::new(out).lines().map_while(Result::ok).try_for_each(|l| send.send(l)));
        Job { child, lines, seen: Vec::new(), ends: Instant::now() + limit() }
    }
    /// Reads on until a line contains `text`.
    pub fn until(&mut self, text: &str) -> String {
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
    /// Number of the latest process of that name.
    pub fn process(&self, name: &str) -> String {
        let start = format!("[launch] {name} is process ");
        let line = self.seen.iter().rev().find_map(|l| l.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{name} has not started:\n{}", self.seen.join("\n"))).to_string()
    }
    /// Sends a signal to a process of the job, as `kill` does.
    pub fn signal(&self, signal: &str, name: &str) {
        assert!(Command::new("kill").args([signal, &self.process(name)]).status().unwrap().success());
    }
    /// Kills a process of the job.
    pub fn kill(&self, name: &str) {
        self.signal("-9", name);
    }
    /// Waits for the end; returns the fingerprints that workers have printed.
    pub fn weights(self) -> Vec<String> {
        self.ended().0
    }
    /// Waits for the end, which must be a failure; everything that was printed.
    pub fn failed(mut self) -> String {
        while let Ok(line) = self.lines.recv_timeout(self.ends.saturating_duration_since(Instant::now())) {
            self.seen.push(line);
        }
        let seen = self.seen.join("\n");
        assert_eq!(self.child.wait().unwrap().code(), Some(1), "{seen}");
        seen
    }
    /// The same, with everything that was printed.
    pub fn ended(mut self) -> (Vec<String>, Vec<String>) {
        while let Ok(line) = self.lines.recv_timeout(self.ends.saturating_duration_since(Instant::now())) {
            self.seen.push(line);
        }
        assert!(self.child.wait().unwrap().success(), "{}", self.seen.join("\n"));
        let weights = self.seen.iter().filter_map(|l| Some(l.split_once("weights ")?.1.to_string())).collect();
        (weights, std::mem::take(&mut self.seen))
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
pub fn one(weights: Vec<String>, workers: usize) -> String {
    let distinct: BTreeSet<&String> = weights.iter().collect();
    assert_eq!((weights.len(), distinct.len()), (workers, 1), "{weights:?}");
    weights[0].clone()
}

/// Runs `talweg launch` to its end.
pub fn launch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_talweg")).arg("launch").args(args).output().unwrap()
}

/// What `digits` does, in one process that takes the part of every worker in turn.
pub fn alone(workers: usize, steps: usize) -> Result<String> {
    alone_by(Adam::default(), workers, steps, None)
}
/// The same with another rule, and gradients whose common length is bounded.
pub fn alone_by(rule: impl Rule + 'static, workers: usize, steps: usize, clip: Option<f64>) -> Result<String> {
    manual_seed(0);
    let model = Sequential::new().with(Linear::new(784, 32)?).with(Relu).with(Linear::new(32, 10)?);
    let optimizer = Optimizer::new(rule, &model)?;
    let loader = |rank| {
        let batch = 64 / workers;
        Loader::builder(Digits::new(0, 4_000)).batch(batch).shuffle(0).drop_last(true).shard(rank, workers).build()
    };
    let mut loaders = (0..workers).map(loader).collect::<std::result::Result<Vec<_>, _>>()?;
    for _ in 0..steps {
        let mut parts: Vec<Vec<Vec<f32>>> = Vec::new();
        for l in &mut loaders {
            let batch = l.next().expect("fewer steps than batches")?;
            let x = batch.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
            model.forward(&x).cross_entropy(&batch.column("label")?).backward()?;
            let params = optimizer.parameters();
            let grads = params.iter().map(|p| p.grad().unwrap().to_vec::<f32>());
            parts.push(grads.collect::<Result<_>>()?);
            params.iter().for_each(Variable::zero_grad);
        }
        for (i, p) in optimizer.parameters().iter().enumerate() {
            let sum = dist::merge::tree_sum(parts.iter().map(|g| g[i].clone().into()).collect::<Vec<_>>());
            let mean: Vec<f32> = sum.iter().map(|x| x / workers as f32).collect();
            p.var().set_grad(Some(Tensor::new(p.shape(), &mean).value()?.clone()));
        }
        clip.map(|max| clip_grad_norm(&optimizer.parameters(), max)).transpose()?;
        optimizer.step()?;
    }
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for (_, v) in model.state() {
        for x in v.tensor().to_vec::<f32>()? {
            hash = (hash ^ u64::from(x.to_bits())).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    Ok(format!("{hash:016x}"))
}
