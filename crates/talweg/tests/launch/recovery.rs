//! Processes that are killed, hang or lose their launcher.

use crate::job::{Job, digits, one};
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A job that is in the middle of its training.
fn begun(args: &[&str], steps: u32, vars: &[(&str, &str)]) -> Job {
    let mut job = Job::start_with(args, steps, &[vars, &[("TELL", "1")]].concat());
    job.until("did step 20");
    job
}

#[test]
fn survivors_go_on_when_a_worker_is_killed() {
    let mut job = begun(&["--workers", "3:4", "--max-restarts", "0"], 400, &[]);
    job.kill("worker 2");
    job.until(": 3 workers reduce together");
    one(job.weights(), 3);
}

#[test]
fn a_worker_that_is_killed_while_the_group_forms_holds_up_nobody() {
    let mut job = Job::start(&["--workers", "3:4", "--max-restarts", "0"], 30);
    job.until("worker 3 is process");
    job.kill("worker 1");
    let weights = job.weights();
    // The remaining workers reduced together: with the killed worker's values or without.
    one(weights, 3);
}

#[test]
fn a_replacement_is_let_in_and_told_what_the_others_know() {
    let mut job = begun(&["--workers", "4"], 500, &[]);
    job.kill("worker 0");
    job.until("worker 0 is let in");
    job.until(": 4 workers reduce together");
    one(job.weights(), 4);
}

/// Steps of jobs with servers that are disturbed.
const STEPS: u32 = 600;
/// What such a job comes to if nothing happens; how many servers there are makes no difference.
fn calm() -> &'static str {
    static CALM: OnceLock<String> = OnceLock::new();
    CALM.get_or_init(|| one(Job::start(&["--workers", "2", "--servers", "2"], STEPS).weights(), 2))
}

/// Kills a process of a job with servers in its middle; the end must be as if nothing had happened.
fn killed(name: &str, then: &str) {
    let mut job = begun(&["--workers", "2", "--servers", "2"], STEPS, &[]);
    job.kill(name);
    job.until(then);
    assert_eq!(one(job.weights(), 2), calm());
}

#[test]
fn a_replaced_worker_goes_on_with_buffers_plateau_and_patience() {
    let vars = [("NORM", "1"), ("PATIENCE", "8"), ("LAYERS", "2"), ("OPTIMIZER", "sgd")];
    let said = |mut job: Job, kill: Option<&str>| {
        if let Some(name) = kill {
            job.kill(name);
            job.until("it is started again");
        }
        let (mut weights, seen) = job.ended();
        // Running statistics are each worker's own.
        weights.sort_unstable();
        let best = seen.iter().filter(|l| l.contains("] best ")).map(|l| l[10..].to_string());
        (weights, best.collect::<Vec<_>>())
    };
    let start = || begun(&["--workers", "2", "--servers", "2"], 400, &vars);
    let calm = said(start(), None);
    assert_eq!((calm.0.len(), calm.1.len()), (2, 2), "{calm:?}");
    for name in ["worker 0", "worker 1"] {
        assert_eq!(said(start(), Some(name)), calm, "{name}");
    }
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
fn a_lost_server_is_replaced_and_its_replacement_is_as_good() {
    let mut job = Job::start(&["--workers", "2", "--servers", "2"], STEPS);
    job.until("epoch 1: 2 servers");
    job.kill("server 0");
    job.until("server 2 takes its place");
    job.until(": 2 servers hold the store");
    // The last server that was there from the beginning: everything is in the replacement.
    job.until("every partition has its 2 copies");
    job.kill("server 1");
    job.until("server 3 takes its place");
    assert_eq!(one(job.weights(), 2), calm());
}

/// A launcher that is stopped (Ctrl-Z, a paused machine) for longer than any process waits for an
/// answer: all workers train on meanwhile.
#[test]
fn a_stopped_launcher_costs_nothing() {
    let expected = one(Job::start(&["--workers", "2"], 300).weights(), 2);
    let mut job = Job::start_with(&["--workers", "2", "--servers", "2"], 300, &[("PAUSE_MS", "50")]);
    job.until("epoch 1: 2 servers");
    let launcher = job.child.id().to_string();
    let signal = |s: &str| assert!(Command::new("kill").args([s, &launcher]).status().unwrap().success());
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(12));
    signal("-CONT");
    let weights = job.weights();
    assert_eq!(one(weights, 2), expected);
}

/// Replacements must not train on after a step that made NaN of everything, however many there may be.
#[test]
fn a_run_that_diverges_fails() {
    for servers in ["0", "2"] {
        let mut c = Command::new("timeout");
        c.args(["200", env!("CARGO_BIN_EXE_talweg"), "launch", "--workers", "2", "--servers", servers]);
        c.args(["--max-restarts", "40"]).arg(digits());
        let vars = [("STEPS", "8"), ("OPTIMIZER", "sgd"), ("LR", "1e30"), ("TALWEG_THREADS", "1")];
        let out = c.envs(vars).output().unwrap();
        let said = String::from_utf8_lossy(&out.stdout);
        assert!(!out.status.success() && out.status.code() != Some(124), "{servers} servers: {said}");
        assert!(said.contains("the loss is") && !said.contains("weights "), "{servers} servers: {said}");
    }
}

#[test]
fn a_process_that_hangs_is_ended_and_replaced() {
    let mut job = Job::start(&["--workers", "2", "--heartbeat-timeout", "1"], 900);
    job.until("epoch 1: 2 workers");
    job.signal("-STOP", "worker 1");
    job.until("worker 1 says nothing any more");
    job.until("worker 1 is let in");
    let (weights, seen) = job.ended();
    one(weights, 2);
    // All, all but one, all again: no worker retries meanwhile.
    let epochs = seen.iter().filter(|l| l.contains("workers reduce together")).count();
    assert!((3..=5).contains(&epochs), "{}", seen.join("\n"));
}

/// Runs a job of two workers that are a shell's work; it must end by itself.
fn shell(args: &[&str], script: &str) -> (bool, String) {
    let mut c = Command::new("timeout");
    c.args(["120", env!("CARGO_BIN_EXE_talweg"), "launch", "--workers", "2"]).args(args);
    let out = c.args(["sh", "-c", script]).arg(digits()).env("STEPS", "20").output().unwrap();
    assert_ne!(out.status.code(), Some(124), "the job does not end");
    (out.status.success(), String::from_utf8(out.stdout).unwrap())
}

#[test]
fn a_process_that_is_stopped_before_it_joins_is_ended_and_replaced() {
    // No process has heard of it, so that none misses it either.
    let stops = "[ $RANK = 0 ] && sleep 2; [ $RANK$TORCHELASTIC_RESTART_COUNT = 10 ] && kill -STOP $$; echo done";
    let (is_good, said) = shell(&["--heartbeat-timeout", "0.5"], stops);
    assert!(is_good && said.contains("worker 1 says nothing any more"), "{said}");
}

#[test]
fn a_worker_that_is_killed_when_it_is_done_is_not_started_again() {
    let killed = "\"$0\" || exit 1; [ $RANK = 0 ] && sleep 1 && exit; \
                  [ $TORCHELASTIC_RESTART_COUNT = 0 ] && kill -9 $$; exit 0";
    let (is_good, said) = shell(&["--heartbeat-timeout", "1"], killed);
    assert!(is_good, "{said}");
    one(said.lines().filter_map(|l| Some(l.split_once("weights ")?.1.to_string())).collect(), 2);
    assert!(said.contains("worker 1 ended with signal: 9 (SIGKILL) when it was done"), "{said}");
    assert!(!said.contains("it is started again"), "{said}");
}

/// The fault campaign in short. As root, where namespaces can be made, machines are cut off too.
#[test]
fn a_short_campaign_of_faults() {
    let bin = Path::new(env!("CARGO_BIN_EXE_talweg"));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/campaign.py");
    let mut c = Command::new("timeout");
    c.args(["240", "python3"]).arg(script).arg(bin.parent().unwrap());
    let out = c.args(["--faults", "4", "--each", "2", "--steps", "500", "--programs", "digits"]).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    println!("{said}");
    assert!(out.status.success(), "{said}{}", String::from_utf8_lossy(&out.stderr));
    assert!(said.contains("campaign: 4 faults in "), "{said}");
}

/// Bulk-synchronous training ends with the same bits, whatever is killed meanwhile. The long run is
/// `TALWEG_KILLS=100 cargo test --release -p talweg --test launch random_kills`.
#[test]
fn random_kills_leave_no_trace() {
    let kills: u64 = std::env::var("TALWEG_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(4);
    let steps = 300 * kills as u32;
    let args = ["--workers", "2", "--servers", "3", "--max-restarts", "1000"];
    let calm = one(Job::start(&args, steps).weights(), 2);
    let mut job = Job::start(&args, steps);
    job.until("epoch 1: 3 servers");
    let mut seed = 7u64;
    let mut servers = [0, 1, 2];
    for kill in 0..kills {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_millis(20 + (seed >> 33) % 100));
        if kill % 2 == 0 {
            let name = format!("worker {}", (seed >> 40) % 2);
            job.kill(&name);
            job.until("it is started again");
            job.until(&format!("{name} is process"));
        } else {
            let at = (seed >> 40) as usize % 3;
            let killed = job.seen.len();
            job.kill(&format!("server {}", servers[at]));
            // Two copies survive one loss at a time: both must be whole again before the next.
            job.until(&format!("server {} is gone", servers[at]));
            job.until("every partition has its 2 copies");
            servers[at] = 3 + kill / 2;
            let started = format!("server {} is process", servers[at]);
            if !job.seen[killed..].iter().any(|l| l.contains(&started)) {
                job.until(&started);
            }
        }
    }
    assert_eq!(one(job.weights(), 2), calm);
}

#[test]
fn nothing_stays_behind_when_the_launcher_is_killed() {
    for args in [&["--workers", "2"][..], &["--workers", "2", "--servers", "1"]] {
        let mut job = Job::start(args, 1_000_000);
        job.until("epoch 1:");
        let all = [job.process("worker 0"), job.process("worker 1")];
        job.child.kill().unwrap();
        let begun = Instant::now();
        let is_there = |id: &String| Command::new("kill").args(["-0", id]).output().unwrap().status.success();
        while all.iter().any(is_there) {
            assert!(begun.elapsed() < Duration::from_secs(60), "workers train on without a launcher");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
