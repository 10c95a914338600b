//! How jobs end: what the exit status says, how they are stopped, and what is started again until then.

use crate::job::{Job, digits, launch, one};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn text(out: &Output) -> String {
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}
fn is_there(process: &str) -> bool {
    Command::new("kill").args(["-0", process]).output().unwrap().status.success()
}
fn newest(folder: &Path) -> Option<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
    files.filter(|n| n.ends_with(".safetensors")).max()
}

#[test]
fn a_job_succeeds_when_every_rank_has_done_its_part() {
    // Worker 1 is killed in each of its lives, in the middle of its training.
    let dies = "[ $RANK = 1 ] && { \"$0\" & p=$!; sleep 0.7; kill -9 $p; kill -9 $$; }; exec \"$0\"";
    let run = |workers: &str| {
        let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
        c.args(["launch", "--workers", workers, "--max-restarts", "1", "sh", "-c", dies]).arg(digits());
        c.env("STEPS", "500").env("PAUSE_MS", "5").env("TALWEG_THREADS", "1").output().unwrap()
    };
    let all = run("2");
    assert_eq!(all.status.code(), Some(1), "{}", text(&all));
    assert!(text(&all).contains("1 workers are left, fewer than 2: the job ends"), "{}", text(&all));
    assert!(text(&all).contains("lost for good: 1"), "{}", text(&all));
    let some = run("1:2");
    assert!(some.status.success(), "{}", text(&some));
    assert!(text(&some).contains("done; 1 of 2 workers done in "), "{}", text(&some));
}

#[test]
fn a_program_that_fails_at_its_start_is_not_started_again() {
    for program in [&["sh", "-c", "echo once >&2; exit 2"][..], &["/no/such/program"], &["python3", "/no/such.py"]] {
        let begun = Instant::now();
        let out = launch(&[&["--workers", "3"], program].concat());
        assert_eq!(out.status.code(), Some(1), "{}", text(&out));
        assert!(text(&out).contains("before its first step: the program is not started again"), "{}", text(&out));
        assert!(!text(&out).contains("it is started again"), "{}", text(&out));
        assert!(begun.elapsed() < Duration::from_secs(60));
    }
}

#[test]
fn restarts_back_off() {
    // Nothing can be said against a program that was killed; it is given more and more time.
    let out = launch(&["--workers", "1", "--max-restarts", "3", "sh", "-c", "kill -9 $$"]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out));
    for wait in ["it is started again\n", "it is started again in 0.25 s", "it is started again in 0.50 s"] {
        assert!(text(&out).contains(wait), "{wait:?}: {}", text(&out));
    }
}

/// Ends a job that was asked to stop; the step after which all its workers have.
fn last_of(job: &mut Job, folder: &Path, code: i32, workers: usize) -> u32 {
    job.until("stopped; ");
    assert_eq!(job.child.wait().unwrap().code(), Some(code), "{}", job.seen.join("\n"));
    let steps: Vec<&String> = job.seen.iter().filter(|l| l.contains("] step ")).collect();
    assert_eq!(steps.len(), workers, "{}", job.seen.join("\n"));
    let step = |l: &&String| l.split_once("] step ").unwrap().1.split(',').next().unwrap().to_string();
    let last = step(&steps[0]);
    assert!(steps.iter().all(|l| step(l) == last), "{steps:?}");
    assert_eq!(newest(folder).unwrap(), format!("step-{last:0>10}.safetensors"));
    last.parse().unwrap()
}
fn ask_to_stop(job: &Job, signal: &str) {
    assert!(Command::new("kill").args([signal, &job.child.id().to_string()]).status().unwrap().success());
}

/// A job that is stopped, perhaps just after a worker was killed, and the one that goes on from its checkpoint, which
/// must come to the same as one that was never stopped.
fn stopped(args: &[&str], signal: &str, code: i32, workers: usize, kill: Option<&str>) {
    let folder = tempfile::tempdir().unwrap();
    let vars = [("CHECKPOINTS", folder.path().to_str().unwrap()), ("TELL", "1")];
    let mut job = Job::start_with(args, 200, &vars);
    job.until("did step 30");
    kill.iter().for_each(|name| job.kill(name));
    ask_to_stop(&job, signal);
    let last = last_of(&mut job, folder.path(), code, workers);
    assert!((30..200).contains(&last), "it was not stopped: {last}");
    let calm = one(Job::start(args, 200).weights(), workers);
    assert_eq!(one(Job::start_with(args, 200, &vars).weights(), workers), calm, "{args:?}");
}

#[test]
fn a_job_that_is_asked_to_stop_agrees_on_a_last_step_and_goes_on_with_the_same_bits() {
    stopped(&["--workers", "4"], "-TERM", 143, 4, None);
    stopped(&["--workers", "2", "--servers", "2"], "-INT", 130, 2, None);
}

#[test]
fn a_job_that_is_asked_to_stop_while_a_worker_is_dead_goes_on_with_the_same_bits() {
    for name in ["worker 0", "worker 1"] {
        stopped(&["--workers", "2", "--servers", "2"], "-TERM", 143, 2, Some(name));
    }
}

/// The dead worker was far ahead, and what it did is in the store: its steps count for all, also for those that have
/// to do them yet, and no step is done again when the job goes on.
#[test]
fn a_dead_worker_that_was_ahead_counts_when_the_others_stop() {
    // Worker 0 takes its time, and no worker waits for it in a step.
    let slow = "[ $RANK = 0 ] && export PAUSE_MS=20; exec \"$0\"";
    for rule in ["async", "ssp:20"] {
        let folder = tempfile::tempdir().unwrap();
        let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
        c.args(["launch", "--workers", "2", "--servers", "2", "--consistency", rule, "sh", "-c", slow]).arg(digits());
        c.env("STEPS", "100000").env("PAUSE_MS", "2").env("TALWEG_THREADS", "1").env("TELL", "1");
        c.env("CHECKPOINTS", folder.path());
        let mut job = Job::of(c);
        job.until("[worker 1] did step 60");
        job.kill("worker 1");
        ask_to_stop(&job, "-TERM");
        let last = last_of(&mut job, folder.path(), 143, 2);
        let of = |worker: &str| {
            let steps =
                job.seen.iter().filter_map(|l| l.strip_prefix(worker)?.strip_prefix(" did step ")?.parse().ok());
            steps.collect::<Vec<u32>>()
        };
        let (slow, fast) = (of("[worker 0]"), of("[worker 1]"));
        assert!(last >= *fast.iter().max().unwrap() && slow.contains(&last), "{rule}: {last}, {fast:?}");
        assert!(slow.windows(2).all(|s| s[1] == s[0] + 1), "{rule}: {slow:?}");
        let weights: Vec<&str> = job.seen.iter().filter_map(|l| Some(l.split_once("weights ")?.1)).collect();
        assert!(weights.len() == 2 && weights[0] == weights[1], "{rule}: {weights:?}");
    }
}

/// In the place of ssh, without a terminal: runs the command in a separate session.
fn ssh(folder: &Path) -> [String; 4] {
    let (hosts, ssh) = (folder.join("hosts"), folder.join("ssh"));
    std::fs::write(&hosts, "127.0.0.2 slots=2\n").unwrap();
    std::fs::write(&ssh, "#!/bin/sh\nshift\nexec setsid -w sh -c \"$*\"\n").unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    ["--hosts".into(), hosts.display().to_string(), "--ssh".into(), ssh.display().to_string()]
}

#[test]
fn a_job_on_other_machines_is_stopped_too() {
    let folder = tempfile::tempdir().unwrap();
    let far = ssh(folder.path());
    let args = ["--workers", "2", &far[0], &far[1], &far[2], &far[3]];
    stopped(&args, "-INT", 130, 2, None);
    // A program that knows nothing of stops hears of SIGINT; one that does not listen is killed.
    let script = "trap 'echo heard; exit 7' INT; echo ready; while :; do sleep 0.05; done";
    let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
    c.arg("launch").args(args).args(["sh", "-c", script]);
    let mut job = Job::of(c);
    job.until("ready");
    job.until("ready");
    assert!(Command::new("kill").args(["-INT", &job.child.id().to_string()]).status().unwrap().success());
    job.until("heard");
    job.until("heard");
    assert_eq!(job.child.wait().unwrap().code(), Some(130));
}

#[test]
fn whoever_is_lost_is_replaced_until_all_are_done() {
    // Worker 1 takes its time, and no worker waits for it in a step; in the end worker 0 does.
    let slow = "[ $RANK = 1 ] && export PAUSE_MS=15; exec \"$0\"";
    let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
    c.args(["launch", "--workers", "2", "--servers", "2", "--consistency", "async", "sh", "-c", slow]).arg(digits());
    c.env("STEPS", "150").env("TALWEG_THREADS", "1").env("TELL", "1");
    let mut job = Job::of(c);
    job.until("[worker 0] did step 150");
    job.kill("worker 1");
    job.until("worker 1 ended with signal: 9 (SIGKILL): it is started again");
    job.kill("server 0");
    job.until("server 2 is process");
    assert_eq!(job.weights().len(), 2);
}

#[test]
fn a_worker_whose_own_code_hangs_is_named_and_replaced() {
    // It is the shell that hangs, and the program with it: its threads run, but not the training.
    for (args, workers) in [(&["--workers", "2"][..], 2), (&["--workers", "2", "--servers", "2"], 2)] {
        let args = [args, &["--hang-timeout", "1.5"]].concat();
        let mut job = Job::start_with(&args, 60, &[("HANG", "1:20"), ("PAUSE_MS", "1")]);
        let line = job.until("has not moved for ");
        assert!(line.contains("worker 1 has not moved for") && line.contains("worker 0 waits for it"), "{line}");
        job.until("worker 1 ended with signal: 9 (SIGKILL): it is started again");
        one(job.weights(), workers);
    }
}

#[test]
fn a_job_whose_copies_are_all_lost_begins_again_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let vars = [("CHECKPOINTS", folder.path().to_str().unwrap())];
    let args = ["--workers", "2", "--servers", "2"];
    let calm = one(Job::start(&args, 150).weights(), 2);
    let mut job = Job::start_with(&args, 150, &vars);
    job.until("epoch 1: 2 servers");
    await_that("a checkpoint", || newest(folder.path()).is_some());
    let both = [job.process("server 0"), job.process("server 1")];
    assert!(Command::new("kill").arg("-9").args(&both).status().unwrap().success());
    job.until("the whole job is started again (1 of 1)");
    assert_eq!(one(job.weights(), 2), calm);
}

/// Waits until a condition holds.
fn await_that(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not within two minutes: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
/// Whether every thread of a process is stopped.
fn is_stopped(process: &str) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let state = |f: std::path::PathBuf| std::fs::read_to_string(f.join("stat")).unwrap_or_default();
    threads.map(|t| state(t.unwrap().path())).all(|s| s.rsplit(") ").next().is_some_and(|s| s.starts_with('T')))
}

/// A server is stopped before another comes that is to get its copies, and is killed when the map names that one:
/// no server has a complete copy any more, though the map names one for every partition.
#[test]
fn a_job_whose_whole_copies_die_while_another_is_made_begins_again() {
    let args = ["--workers", "2", "--servers", "2", "--heartbeat-timeout", "100"];
    let calm = one(Job::start(&args, 150).weights(), 2);
    for on_disk in [false, true] {
        let (run, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut vars = vec![("CHECKPOINTS", run.path().to_str().unwrap())];
        vars.extend(on_disk.then(|| ("TALWEG_STORE_DIR", store.path().to_str().unwrap())));
        let mut job = Job::start_with(&args, 150, &vars);
        job.until("epoch 1: 2 servers");
        await_that("a checkpoint", || newest(run.path()).is_some());
        job.signal("-STOP", "server 1");
        await_that("server 1 is stopped", || is_stopped(&job.process("server 1")));
        job.kill("server 0");
        job.until("server 2 is process");
        job.until(": 2 servers hold the store");
        job.kill("server 1");
        // On a busy machine, the map may be without the killed server already: then no copy is named.
        job.until("lost: ");
        job.until("the whole job is started again (1 of 1)");
        let (weights, seen) = job.ended();
        assert_eq!(one(weights, 2), calm, "on disk: {on_disk}");
        let said = seen.join("\n");
        let losses = ["are lost: every complete copy died while another was being transferred", "every copy of a part"];
        assert!(losses.iter().any(|l| said.contains(l)), "{said}");
        assert!(said.contains(if on_disk {
            "there is what the servers have on disk"
        } else {
            "there is the checkpoint of"
        }));
        assert!(said.contains("partitions are taken up from disk") == on_disk, "{said}");
    }
}

#[test]
fn a_job_that_writes_no_checkpoint_knows_the_one_that_it_began_with() {
    let folder = tempfile::tempdir().unwrap();
    let vars = [("CHECKPOINTS", folder.path().to_str().unwrap())];
    for args in [&["--workers", "2"][..], &["--workers", "2", "--servers", "2"]] {
        for _ in 0..2 {
            let (weights, seen) = Job::start_with(args, 40, &vars).ended();
            one(weights, 2);
            let said = seen.join("\n");
            assert!(said.contains("newest checkpoint: step 40, ") && !said.contains("no checkpoint"), "{said}");
        }
    }
}

#[test]
fn workers_do_not_outlive_a_launcher_that_is_killed_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let far = ssh(folder.path());
    for args in [&[][..], &far] {
        // A program that has not joined anything yet, as Python while it imports.
        let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
        c.args(["launch", "--workers", "2"]).args(args).args(["sh", "-c", "echo pid $$; exec sleep 1000"]);
        let mut job = Job::of(c);
        let all: Vec<String> = (0..2).map(|_| job.until("pid ").split_once("pid ").unwrap().1.to_string()).collect();
        job.child.kill().unwrap();
        let begun = Instant::now();
        while all.iter().any(|p| is_there(p)) {
            assert!(begun.elapsed() < Duration::from_secs(30), "{all:?} live on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn settings_without_sense_are_refused_and_a_single_copy_is_told() {
    let refused = |args: &[&str], word: &str| {
        let out = launch(&[args, &["true"]].concat());
        assert!(!out.status.success() && text(&out).contains(word), "{}", text(&out));
    };
    refused(&["--heartbeat-timeout", "0"], "--heartbeat-timeout 0");
    refused(&["--servers", "1", "--copies", "0"], "--copies 0");
    let one = launch(&["--servers", "1", "true"]);
    assert!(text(&one).contains("each parameter is on one server only"), "{}", text(&one));
}

#[test]
fn progress_bars_are_passed_on_as_they_are_drawn() {
    let mut c = Command::new(env!("CARGO_BIN_EXE_talweg"));
    c.args(["launch", "sh", "-c", "printf '10 %%\\r'; sleep 1000"]);
    Job::of(c).until("[worker 0] 10 %");
}

#[test]
fn workers_join_a_running_job_beyond_its_first_number() {
    let folder = tempfile::tempdir().unwrap();
    let (size, checkpoints) = (folder.path().join("size"), folder.path().join("run"));
    std::fs::write(&size, "2\n").unwrap();
    let args = ["--workers", "2", "--resize", size.to_str().unwrap()];
    let mut job = Job::start_with(&args, 600, &[("CHECKPOINTS", checkpoints.to_str().unwrap())]);
    job.until("epoch 1: 2 workers");
    std::fs::write(&size, "4\n").unwrap();
    job.until("the workers stop, and 4 of them go on");
    job.until("epoch 1: 4 workers");
    let all = job.weights();
    // The first two have said what they had when they stopped.
    one(all[2..].to_vec(), 4);
}

/// Every file and folder below one, with its permissions.
fn modes(folder: &Path) -> Vec<(std::path::PathBuf, u32)> {
    let mut out = vec![(folder.to_path_buf(), std::fs::metadata(folder).unwrap().permissions().mode() & 0o777)];
    if folder.is_dir() {
        std::fs::read_dir(folder).unwrap().for_each(|e| out.extend(modes(&e.unwrap().path())));
    }
    out
}

#[test]
fn a_job_whose_server_was_replaced_goes_on_from_its_disks() {
    let (run, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = store.path().join("store");
    let vars = [("CHECKPOINTS", run.path().to_str().unwrap()), ("TALWEG_STORE_DIR", store.to_str().unwrap())];
    let args = ["--workers", "2", "--servers", "2"];
    let calm = one(Job::start(&args, 400).weights(), 2);
    let mut job = Job::start_with(&args, 400, &vars);
    for (lost, next) in [("server 0", "server 2"), ("server 1", "server 3")] {
        job.until("every partition has its 2 copies");
        job.kill(lost);
        job.until(&format!("{next} is process"));
    }
    job.until("every partition has its 2 copies");
    for (path, mode) in modes(&store) {
        assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
    }
    // What the first two have left is older than what those have who took their places.
    job.child.kill().unwrap();
    job.child.wait().unwrap();
    let (weights, seen) = Job::start_with(&args, 400, &vars).ended();
    assert_eq!(one(weights, 2), calm);
    assert!(seen.iter().any(|l| l.contains("partitions are taken up from disk")), "{}", seen.join("\n"));
    let left = std::fs::read_dir(&store).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let left: std::collections::BTreeSet<String> = left.filter(|n| n.starts_with("server-")).collect();
    assert_eq!(left, ["server-0", "server-1"].map(String::from).into(), "those that are gone are taken over");
}

#[test]
fn a_job_with_a_store_on_disk_changes_its_size() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    let (size, run, store) = (at("size"), at("run"), at("store"));
    std::fs::write(&size, "2\n").unwrap();
    let vars = [("CHECKPOINTS", run.as_str()), ("TALWEG_STORE_DIR", store.as_str())];
    let mut job = Job::start_with(&["--workers", "2", "--servers", "2", "--resize", &size], 600, &vars);
    job.until("epoch 1: 2 servers");
    std::fs::write(&size, "3\n").unwrap();
    job.until("the workers stop, and 3 of them go on");
    let (weights, seen) = job.ended();
    one(weights[2..].to_vec(), 3);
    let steps: Vec<&String> = seen.iter().filter(|l| l.contains("] step ")).collect();
    assert!(steps[2..].iter().all(|l| l.contains("] step 600,")), "{steps:?}");
    // A job of another size does not take the store for its own.
    let out = Job::start_with(&["--workers", "2", "--servers", "2"], 700, &vars).failed();
    assert!(out.contains("is that of a job of 3 workers, and this one has 2"), "{out}");
}
