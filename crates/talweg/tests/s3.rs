//! Checkpoints in an S3-compatible store: `moto_server` of PyPI's `moto[server]` (`TALWEG_MOTO` names
//! the program, else it is looked for). Where there is none, the test says so and passes.
//!
//! The parts that talk to the store run as separate processes, with its variables around them.

#![cfg(feature = "s3")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use talweg::data::{Digits, Place};
use talweg::ir::{Literal, Shape};
use talweg::nn::train::{Checkpoint, Goal};
use talweg::prelude::*;

const LIMIT: Duration = Duration::from_secs(60);

/// A store that ends with the test.
struct Moto {
    child: Child,
    port: u16,
}
impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Moto {
    fn start() -> Option<Moto> {
        let program = std::env::var("TALWEG_MOTO").unwrap_or_else(|_| "moto_server".to_string());
        let port = testkit::free_ports(1);
        let started = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            eprintln!("skipped: {program} does not start; pip install 'moto[server]'");
            return None;
        };
        let moto = Moto { child, port };
        let end = Instant::now() + LIMIT;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "{program} does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        Some(moto)
    }
    /// A request without a signature, which the store takes unless told otherwise.
    fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut link = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let head = format!("{method} {path} HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", body.len());
        link.write_all((head + body).as_bytes()).unwrap();
        let mut said = String::new();
        link.read_to_string(&mut said).unwrap();
        said
    }
    /// What says where the store is and who asks.
    fn vars(&self) -> [(&'static str, String); 4] {
        [
            ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{}", self.port)),
            ("AWS_ACCESS_KEY_ID", "a-key".to_string()),
            ("AWS_SECRET_ACCESS_KEY", "a-secret".to_string()),
            ("AWS_REGION", "us-east-1".to_string()),
        ]
    }
    fn child(&self, test: &str, url: &str) -> Command {
        let mut c = Command::new(std::env::current_exe().unwrap());
        c.args(["--exact", test, "--ignored", "--nocapture"]).env("TALWEG_TEST_URL", url).envs(self.vars());
        c
    }
    /// Runs a part of the test to its end; returns what it said.
    fn run(&self, test: &str, url: &str) -> String {
        let done = self.child(test, url).output().unwrap();
        let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
        assert!(done.status.success(), "{test}:\n{said}");
        said
    }
}

fn url() -> String {
    std::env::var("TALWEG_TEST_URL").unwrap()
}

#[test]
fn checkpoints_lie_in_a_bucket() {
    let Some(moto) = Moto::start() else { return };
    moto.ask("PUT", "/runs", "");
    moto.run("child_keeps_the_last_and_the_best", "s3://runs/kept");
    moto.run("child_trains_and_resumes", "s3://runs/trained/");
    moto.run("child_passes_over_what_is_damaged", "s3://runs/damaged");
    a_killed_upload_leaves_what_was_there(&moto);
    servers_write_their_parts(&moto);
    let said = moto.run("child_cannot_open", "s3://nowhere/x");
    assert!(said.contains("cannot open s3://nowhere/x: there is no bucket nowhere at http://127.0.0.1"), "{said}");
    // From now on requests must be signed with credentials that the store knows.
    moto.ask("POST", "/moto-api/reset-auth", "0");
    let said = moto.run("child_cannot_open", "s3://runs/x");
    assert!(said.contains("refused the credentials"), "{said}");
    drop(moto);
}

/// A model repository in a bucket: served, and upgraded by a load call.
#[cfg(feature = "serve")]
#[test]
fn models_lie_in_a_bucket() {
    use std::io::{BufRead, BufReader};
    let Some(moto) = Moto::start() else { return };
    moto.ask("PUT", "/models", "");
    moto.run("child_uploads_a_model", "s3://models/live/scale/1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_talweg"));
    command.args(["serve", "s3://models/live", "--port", "0"]).envs(moto.vars()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let host = line.split("//").nth(1).and_then(|l| l.split('/').next()).unwrap_or_default().to_string();
    let ask = |path: &str, body: &str| {
        let mut link = TcpStream::connect(&host).unwrap();
        let head = format!("POST {path} HTTP/1.0\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        link.write_all((head + body).as_bytes()).unwrap();
        let mut said = String::new();
        link.read_to_string(&mut said).unwrap();
        said
    };
    let infer = || {
        let body = r#"{"inputs": [{"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}]}"#;
        ask("/v2/models/scale/infer", body)
    };
    let first = infer();
    moto.run("child_uploads_a_model", "s3://models/live/scale/2");
    let loaded = ask("/v2/repository/models/scale/load", "");
    let second = infer();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(first.contains("\"model_version\":\"1\"") && first.contains("[2,4]"), "{first}");
    assert!(loaded.contains("200 OK"), "{loaded}");
    assert!(second.contains("\"model_version\":\"2\""), "{second}");
}

#[cfg(feature = "serve")]
#[test]
#[ignore = "started by the test above"]
fn child_uploads_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, example) = (folder.path().join("m"), Tensor::from([[1.0f32, 2.0]]));
    let export = talweg::export::Export::new("scale").input("x", &example, &["batch", ""]);
    export.write(&dir, |x| Ok(vec![&x[0] * 2.0])).unwrap();
    let place = Place::open(url()).unwrap();
    for file in std::fs::read_dir(&dir).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        place.write(path.file_name().unwrap().to_str().unwrap(), &mut |to| to.write_all(&bytes)).unwrap();
    }
}

#[test]
#[ignore = "started by the test above"]
fn child_cannot_open() {
    println!("{}", Checkpoints::open(url()).unwrap_err());
}

#[test]
#[ignore = "started by the test above"]
fn child_keeps_the_last_and_the_best() {
    let mut kept = Checkpoints::open(url()).unwrap().keep_last(1).keep_best(1, Goal::Max);
    assert!(kept.latest().unwrap().is_none());
    for (step, score) in [(1, 0.5), (2, 0.9), (3, 0.7), (4, 0.1)] {
        kept.save_later(Checkpoint { score: Some(score), ..Checkpoint::new(step) }).unwrap();
    }
    kept.wait().unwrap();
    assert_eq!((kept.steps().unwrap(), kept.best().unwrap()), (vec![2, 4], Some(2)));
    assert_eq!(Place::open(url()).unwrap().names().unwrap().len(), 4, "two files with a sidecar each");
    // The step is saved again, after the one before it: as a run does that went back.
    kept.save(&Checkpoint::new(4).note("again", 1)).unwrap();
    let found = kept.latest().unwrap().unwrap();
    assert_eq!(found.path.to_str().unwrap(), format!("{}/step-0000000004.safetensors", url()));
    assert_eq!(found.checkpoint.noted::<u32>("again").unwrap(), Some(1));
    assert_eq!(Checkpoint::load(&found.path).unwrap().step, 4);
}

#[test]
#[ignore = "started by the test above"]
fn child_trains_and_resumes() {
    let whole = tempfile::tempdir().unwrap();
    let local = whole.path().to_str().unwrap().to_string();
    let expected = [8, 20].map(|steps| train(&local, steps))[1].clone();
    assert_eq!(train(&url(), 8).step, 8);
    let found = train(&url(), 20);
    assert_eq!((found.step, found.tensors), (20, expected.tensors));
}

/// Trains up to a step, from wherever the folder is; returns the last checkpoint.
fn train(folder: &str, steps: usize) -> Checkpoint {
    manual_seed(3);
    let model = Linear::new(784, 10).unwrap();
    let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
    let mut loader = Loader::builder(Digits::new(0, 64)).batch(16).shuffle(1).build().unwrap();
    let folder = Checkpoints::open(folder).unwrap().keep_last(2);
    let mut trainer = Trainer::new(&model, &optimizer, &mut loader).steps(steps).checkpoints(folder, 4);
    trainer.resume().unwrap();
    let outcome = trainer.fit(|batch| {
        let x = batch.column("image")?.cast(DType::F32).flatten(1, -1) / 255.0;
        Ok(model.forward(&x).cross_entropy(&batch.column("label")?))
    });
    Checkpoint::load(outcome.unwrap().checkpoint.unwrap()).unwrap()
}

#[test]
#[ignore = "started by the test above"]
fn child_passes_over_what_is_damaged() {
    let mut kept = Checkpoints::open(url()).unwrap();
    kept.save(&Checkpoint::new(1)).unwrap();
    kept.save(&Checkpoint::new(2)).unwrap();
    // The checksum of another content, and then none.
    let place = Place::open(url()).unwrap();
    place.write("step-0000000003.safetensors", &mut |to| to.write_all(b"no checkpoint")).unwrap();
    let found = kept.latest().unwrap().unwrap();
    assert_eq!((found.checkpoint.step, found.refused.len()), (2, 1));
    assert!(found.refused[0].to_string().contains("s3://runs/damaged/step-0000000003"), "{}", found.refused[0]);
}

/// A job of real processes; returns the fingerprint of its weights.
fn launch(moto: &Moto, servers: &str, steps: u32) -> String {
    let talweg = std::path::Path::new(env!("CARGO_BIN_EXE_talweg"));
    let done = Command::new(talweg)
        .args(["launch", "--workers", "2", "--servers", servers])
        .arg(talweg.with_file_name("examples").join("digits"))
        .env("STEPS", steps.to_string())
        .env("CHECKPOINTS", "s3://runs/job")
        .env("TALWEG_PARTS", "1")
        .env("TALWEG_THREADS", "1")
        .envs(moto.vars())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned();
    assert!(done.status.success(), "{said}");
    let weights = said.lines().find_map(|l| Some(l.split_once("weights ")?.1.to_string()));
    weights.unwrap_or_else(|| panic!("no weights:\n{said}"))
}

/// What two servers have written, with the manifest last, is the beginning of a job with three.
fn servers_write_their_parts(moto: &Moto) {
    let list = || moto.ask("GET", "/runs?prefix=job/", "");
    let expected = launch(moto, "2", 60);
    assert!(list().contains("step-0000000020.part-"), "{}", list());
    for step in [40, 60] {
        moto.ask("DELETE", &format!("/runs/job/step-{step:010}.safetensors"), "");
    }
    assert_eq!(launch(moto, "3", 60), expected);
}

/// Of several parts, so that there is time to die between them.
fn large(step: u64) -> Checkpoint {
    let values = vec![step as f32; 24 << 20];
    let tensor = Literal::new(Shape::from([values.len()]), &values).unwrap();
    Checkpoint { tensors: BTreeMap::from([("a".to_string(), tensor)]), ..Checkpoint::new(step) }
}

#[test]
#[ignore = "started by the test above"]
fn child_saves_until_it_is_killed() {
    let mut kept = Checkpoints::open(url()).unwrap();
    let from = kept.latest().unwrap().map_or(0, |l| l.checkpoint.step);
    for step in from + 1.. {
        kept.save(&large(step)).unwrap();
    }
}

#[test]
#[ignore = "started by the test above"]
fn child_finds_a_whole_one() {
    let found = Checkpoints::open(url()).unwrap().latest().unwrap().unwrap();
    assert!(found.refused.is_empty(), "{:?}", found.refused);
    assert_eq!(found.checkpoint.tensors, large(found.checkpoint.step).tensors);
    println!("step={}", found.checkpoint.step);
}

fn a_killed_upload_leaves_what_was_there(moto: &Moto) {
    let url = "s3://runs/killed";
    let unfinished = || moto.ask("GET", "/runs?uploads", "").matches("<UploadId>").count();
    let saved =
        |step: u64| moto.ask("HEAD", &format!("/runs/killed/step-{step:010}.safetensors"), "").contains(" 200 ");
    let mut last = 0;
    for round in 1..=2 {
        let mut child = moto.child("child_saves_until_it_is_killed", url).stdout(Stdio::null()).spawn().unwrap();
        let end = Instant::now() + LIMIT;
        // Not before there is something to go on from, and in the middle of an upload.
        while !saved(last + 1) || unfinished() < round {
            assert!(Instant::now() < end, "no upload was seen");
            assert!(child.try_wait().unwrap().is_none(), "the child has ended");
        }
        child.kill().unwrap();
        assert!(child.wait().unwrap().signal().is_some());
        let said = moto.run("child_finds_a_whole_one", url);
        let step = said.split("step=").nth(1).and_then(|s| s.split_whitespace().next()?.parse::<u64>().ok());
        assert!(step.unwrap() > last, "{said}");
        last = step.unwrap();
    }
    assert!(unfinished() > 0, "no upload was cut off");
}
