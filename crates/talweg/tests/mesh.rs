//! `talweg launch --mesh`: the example `mesh`, which knows nothing of it, as real processes; and `talweg explain`.

#[path = "../examples/mesh.rs"]
mod program;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use talweg::distributed::{Job, mesh_in_process, read_plan};
use talweg::{Mesh, with_mesh};

fn talweg(args: &[&str]) -> (bool, String) {
    let example: PathBuf = Path::new(env!("CARGO_BIN_EXE_talweg")).with_file_name("examples").join("mesh");
    let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
    let out = c.args(args).arg(example).env("TALWEG_THREADS", "1").env_remove("TALWEG_QUICK").output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    (out.status.success(), text)
}

#[test]
fn processes_end_with_the_bits_of_threads() {
    let alone = program::train(20).unwrap();
    let piped = ("pipe=2", "data,microbatches=4,schedule=interleaved");
    for (mesh, plan) in [("data=2", "data"), ("data=2,tensor=2", "megatron"), ("data=2", "fsdp"), piped] {
        let scopes = mesh_in_process(&Mesh::parse(mesh).unwrap(), &read_plan(plan).unwrap()).unwrap();
        let run = |s| std::thread::spawn(|| Job::alone().scope(|| with_mesh(s, || program::train(20).unwrap())));
        let threads: Vec<_> = scopes.into_iter().map(run).collect();
        let ends: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert!(ends.iter().all(|e| *e == ends[0]), "{mesh}: ranks differ");
        for (a, b) in ends[0].0.iter().zip(&alone.0) {
            assert!((a - b).abs() <= 1e-5 * b.abs(), "{plan} on {mesh}: {a} instead of {b}");
        }
        let (is_done, text) = talweg(&["launch", "--mesh", mesh, "--plan", plan]);
        let weights = format!("weights {:016x}", ends[0].1);
        let count = text.lines().filter(|l| l.contains(&weights)).count();
        assert!(is_done && count == ends.len(), "{plan} on {mesh}: {weights} is expected\n{text}");
    }
}

/// A rank is killed after the first checkpoint, whatever it is doing: the others end with the reason, the job starts
/// again by itself, and ends with the bits of an undisturbed run.
#[test]
fn a_killed_rank_costs_no_bits() {
    use std::io::{BufRead, BufReader};
    let example: PathBuf = Path::new(env!("CARGO_BIN_EXE_talweg")).with_file_name("examples").join("mesh");
    for (mesh, plan) in [("data=2,context=2", "fsdp"), ("tensor=2", "megatron"), ("pipe=2", "data,microbatches=2")] {
        let folder = tempfile::tempdir().unwrap();
        let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
        c.args(["launch", "--mesh", mesh, "--plan", plan, "--progress", "0"]).arg(&example);
        c.envs([("STEPS", "12"), ("PAUSE_MS", "20"), ("TALWEG_THREADS", "1")]).env("CHECKPOINTS", folder.path());
        let mut job = c.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (tell, told) = std::sync::mpsc::channel::<String>();
        let streams: [Box<dyn std::io::Read + Send>; 2] =
            [Box::new(job.stdout.take().unwrap()), Box::new(job.stderr.take().unwrap())];
        for stream in streams {
            let tell = tell.clone();
            std::thread::spawn(move || {
                BufReader::new(stream).lines().map_while(|l| l.ok()).all(|l| tell.send(l).is_ok())
            });
        }
        drop(tell);
        let (mut said, mut victim) = (Vec::new(), None);
        for line in told.iter() {
            victim = victim.or(line.strip_prefix("[launch] worker 1 is process ").map(str::to_string));
            said.push(line);
            if victim.is_some() {
                break;
            }
        }
        let saved = folder.path().join("step-0000000005.safetensors");
        let mut is_there = || saved.exists() || job.try_wait().unwrap().is_some();
        (0..6000).take_while(|_| !is_there()).for_each(|_| std::thread::sleep(Duration::from_millis(10)));
        Command::new("kill").args(["-9", victim.as_deref().unwrap_or("")]).status().unwrap();
        said.extend(told.iter());
        let text = said.join("\n");
        assert!(job.wait().unwrap().success(), "{plan} on {mesh}:\n{text}");
        let scopes = mesh_in_process(&Mesh::parse(mesh).unwrap(), &read_plan(plan).unwrap()).unwrap();
        let run = |s| std::thread::spawn(|| Job::alone().scope(|| with_mesh(s, || program::train(12).unwrap())));
        let threads: Vec<_> = scopes.into_iter().map(run).collect();
        let ends: Vec<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        let weights = format!("weights {:016x}", ends[0].1);
        let count = said.iter().filter(|l| l.contains(&weights)).count();
        assert_eq!(count, ends.len(), "{plan} on {mesh}: {weights} is expected\n{text}");
    }
}

#[test]
fn a_step_is_explained_without_other_processes() {
    let (is_done, text) = talweg(&["explain", "--mesh", "tensor=2", "--plan", "megatron"]);
    // Two blocks, two each way, and one for the embedding and the last layer.
    let activations =
        |text: &str| text.lines().filter(|l| l.contains("all_reduce") && l.contains("[8, 16, 32]")).count();
    assert!(is_done && activations(&text) == 10 && !text.contains("all_gather"), "{text}");
    assert!(text.contains("mesh.rs:"), "{text}");
    // Two blocks: keys and values are gathered, and their gradients scattered.
    let (is_done, text) = talweg(&["explain", "--mesh", "context=2"]);
    let count = |what: &str| text.lines().filter(|l| l.starts_with(what) && l.contains("[8, 4, 16")).count();
    assert!(is_done && (count("all_gather"), count("reduce_scatter")) == (4, 4), "{text}");
    let (is_done, text) = talweg(&["explain", "--mesh", "pipe=2", "--plan", "data,microbatches=4"]);
    let passed = |what: &str| text.lines().filter(|l| l.starts_with("send") && l.contains(what)).count();
    assert!(is_done && text.contains("stage 0   rank 0") && text.contains(": tokens.weight … "), "{text}");
    // Activations and their gradients pass in each microbatch, the table that both stages use once.
    assert!(passed("from rank 0 to 1 in each microbatch, forward") > 0, "{text}");
    assert!(passed("from rank 1 to 0 in each microbatch, backward") > 0, "{text}");
    assert!(passed("from rank 0 to 1 once, from tokens.weight") == 1 && text.contains("mesh.rs:"), "{text}");
    let (is_done, text) = talweg(&["launch", "--mesh", "data=2", "--plan", "nowhere"]);
    assert!(!is_done && text.contains("plan nowhere"), "{text}");
}

/// A plan is searched, written, and run by real processes.
#[test]
fn a_plan_is_found_and_launched() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (plan, timeline) = (file("mesh.plan"), file("timeline.json"));
    let args = ["plan", "--mesh", "4", "--cluster", "h100", "--top", "100", "--out", &plan, "--timeline", &timeline];
    let (is_done, text) = talweg(&args);
    assert!(is_done && text.starts_with("plans for 4 ranks of h100, batch of 8 rows: "), "{text}");
    for what in ["--mesh data=4 --plan data,zero=3", "--mesh pipe=2,tensor=2", "schedule=zb-h1", "recompute=true"] {
        assert!(text.contains(what), "{what} was not tried\n{text}");
    }
    let times: Vec<f64> = text.lines().skip(2).map(|l| l.split_whitespace().next().unwrap().parse().unwrap()).collect();
    assert!(times.len() > 20 && times.is_sorted() && times[0] > 0.0, "{text}");
    let trace = std::fs::read_to_string(&timeline).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&trace).unwrap();
    assert!(trace["traceEvents"].as_array().unwrap().len() > 10);
    let alone = program::train(20).unwrap();
    let last = format!("step 19  loss {}", &alone.0[19].to_string()[..5]);
    let (is_done, text) = talweg(&["launch", "--plan", &plan]);
    assert!(is_done && text.matches(&last).count() == 4, "{text}\n{}", std::fs::read_to_string(&plan).unwrap());
    let (is_done, text) = talweg(&["launch", "--mesh", "data=2", "--plan", &plan]);
    assert!(!is_done && text.contains("the plan is for the mesh "), "{text}");
    // What a plan states is kept.
    let (is_done, text) = talweg(&["plan", "--mesh", "pipe=2", "--cluster", "a100", "--plan", "data,microbatches=4"]);
    let plans: Vec<&str> = text.lines().skip(2).collect();
    assert!(is_done && plans.iter().all(|l| l.contains("microbatches=4")), "{text}");
    let (is_done, text) = talweg(&["explain", "--mesh", "2", "--plan", "auto", "--cluster", "h200"]);
    assert!(is_done && text.contains("exchanges of a train step on "), "{text}");
    let (is_done, text) = talweg(&["plan", "--mesh", "2", "--cluster", "nowhere"]);
    assert!(!is_done && text.contains("included are a100, a100-800g, h100, h200, ethernet and local"), "{text}");
}
