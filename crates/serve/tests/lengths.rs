//! A model whose length is free and cannot be padded, asked for many lengths at once: each needs a program of its own.

mod harness;

use harness::Running;
use ir::{Literal, Result};
use model::{Axis, Dimension, Signature, TensorSpec};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use talweg_serve::batcher::Policy;
use talweg_serve::{Executable, Options, Run};

/// Returns its input; compiling it takes a while.
struct Slow {
    signature: Signature,
    compiled: Arc<AtomicUsize>,
}

struct Same;

impl Executable for Slow {
    fn signature(&self) -> &Signature {
        &self.signature
    }
    fn prepare(&self, _: &[usize]) -> Result<Arc<dyn Run>> {
        self.compiled.fetch_add(1, Relaxed);
        std::thread::sleep(Duration::from_millis(25));
        Ok(Arc::new(Same))
    }
    fn weight_bytes(&self) -> usize {
        0
    }
}

impl Run for Same {
    fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>> {
        Ok(inputs.to_vec())
    }
}

const PATH: &str = "/v2/models/slow/infer";

fn ask(length: usize, timeout_us: u64) -> String {
    let tensor = json!({ "name": "x", "shape": [1, length], "datatype": "FP32", "data": vec![1; length] });
    json!({ "parameters": { "timeout": timeout_us }, "inputs": [tensor] }).to_string()
}

fn start() -> (Running, Arc<AtomicUsize>) {
    let axes = || vec![Axis::Free("batch".into()), Axis::Free("length".into())];
    let spec = |name: &str| TensorSpec { name: name.into(), dtype: "f32".into(), shape: axes() };
    let signature = Signature {
        name: "slow".into(),
        dims: vec![Dimension::new("batch"), Dimension::new("length")],
        inputs: vec![spec("x")],
        outputs: vec![spec("y")],
        is_batched: true,
    };
    let policy = Policy { latency_us: 60_000_000, ..Policy::default() };
    let server = Running::start(Options { policy, ..Options::default() });
    let compiled = Arc::new(AtomicUsize::new(0));
    let model = Slow { signature, compiled: compiled.clone() };
    server.app.repository.put("slow", 1, Arc::new(model)).unwrap();
    (server, compiled)
}

/// 200 lengths at once: as many as may wait are compiled, the others are refused at once, and a length that has its program
/// is answered meanwhile.
#[test]
fn a_storm_of_lengths_is_bounded() {
    let (server, compiled) = start();
    assert_eq!(server.send("POST", PATH, &[], ask(7, 0).as_bytes()).status, 200);
    let began = Instant::now();
    let storm: Vec<_> = (100..300).map(|length| server.open("POST", PATH, &[], ask(length, 0).as_bytes())).collect();
    let other = Instant::now();
    assert_eq!(server.send("POST", PATH, &[], ask(7, 0).as_bytes()).status, 200);
    let other = other.elapsed();
    let statuses: Vec<u16> = storm.into_iter().map(|s| harness::Reply::read(s).status).collect();
    let all = began.elapsed();
    let count = |status| statuses.iter().filter(|s| **s == status).count();
    assert_eq!(count(200) + count(429), 200, "{statuses:?}");
    assert!(count(200) >= 32 && count(429) >= 50, "{} of 200 were answered", count(200));
    assert!(compiled.load(Relaxed) <= count(200) + 1, "what was refused is not compiled");
    assert!(other < all / 2, "a length that is compiled did not wait: {other:?} of {all:?}");
    // Later, a length that was refused is compiled.
    assert_eq!(server.send("POST", PATH, &[], ask(299, 0).as_bytes()).status, 200);
}

/// Clients that gave up leave no work: without a client, nothing is compiled.
#[test]
fn what_nobody_waits_for_is_not_compiled() {
    let (server, compiled) = start();
    let asked: Vec<_> =
        (100..130).map(|length| server.open("POST", PATH, &[], ask(length, 60_000).as_bytes())).collect();
    let statuses: Vec<u16> = asked.into_iter().map(|s| harness::Reply::read(s).status).collect();
    assert!(statuses.contains(&504), "{statuses:?}");
    assert_eq!(server.send("POST", PATH, &[], ask(7, 0).as_bytes()).status, 200);
    let compiled = compiled.load(Relaxed);
    assert!(compiled < 25, "{compiled} of 31 were compiled");
}
