//! Jobs whose membership is in etcd outlive their launcher. Where there is no etcd (`TALWEG_ETCD`
//! names the program, else `etcd` is looked for), the tests say so and pass.

use crate::job::{Job, digits, one};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::free_ports;

const LIMIT: Duration = Duration::from_secs(120);

/// A process that ends with the test, and its folder.
struct Guard(Child, Option<PathBuf>);
impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        self.1.iter().for_each(|folder| drop(std::fs::remove_dir_all(folder)));
    }
}

fn etcd(folder: &Path) -> Option<(Guard, u16)> {
    // In memory where that is possible: etcd waits for its disk at each change.
    let memory = Path::new("/dev/shm").join(folder.file_name().unwrap());
    let data = if std::fs::create_dir(&memory).is_ok() { memory } else { folder.join("etcd") };
    let port = free_ports(1);
    match spawn(&data, port) {
        Ok(child) => Some((Guard(child, Some(data)), port)),
        Err(e) => {
            eprintln!("skipped: etcd does not start ({e}); Debian's package is etcd-server");
            None
        }
    }
}

fn spawn(data: &Path, port: u16) -> std::io::Result<Child> {
    let [client, peer] = [port, free_ports(1)].map(|p| format!("http://127.0.0.1:{p}"));
    Command::new(std::env::var("TALWEG_ETCD").unwrap_or_else(|_| "etcd".to_string()))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}"), "--data-dir"])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

/// A job in a folder, with its output in the file `launch`.
fn start(folder: &Path, port: u16, servers: &str, steps: u32) -> Guard {
    start_slowly(folder, port, servers, steps, "3")
}
fn start_slowly(folder: &Path, port: u16, servers: &str, steps: u32, pause: &str) -> Guard {
    let said = std::fs::File::create(folder.join("launch")).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_talweg"))
        .args(["launch", "--workers", "2", "--servers", servers, "--heartbeat-timeout", "5"])
        .args(["--membership", &format!("etcd://127.0.0.1:{port}/job-{servers}")])
        .arg(digits())
        .env("STEPS", steps.to_string())
        .env("PAUSE_MS", pause)
        .env("TALWEG_THREADS", "1")
        .current_dir(folder)
        .stdout(said.try_clone().unwrap())
        .stderr(said)
        .spawn()
        .unwrap();
    Guard(child, None)
}

/// The first text after `mark` in a file, once it is there.
fn await_text(file: &Path, mark: &str) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        if let Some(line) = text.lines().find_map(|l| Some(l.split_once(mark)?.1.to_string())) {
            return line;
        }
        assert!(Instant::now() < end, "no {mark:?} in {}:\n{text}", file.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_job_goes_on_when_its_launcher_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_etcd, port)) = etcd(folder.path()) else { return };
    // All-reduce and the bulk-synchronous store add in one order.
    let expected = one(Job::start(&["--workers", "2"], 300).weights(), 2);
    for servers in ["0", "2"] {
        let job = start(folder.path(), port, servers, 300);
        let formed = if servers == "0" { "epoch 1: 2 workers" } else { "epoch 1: 2 servers" };
        await_text(&folder.path().join("launch"), formed);
        drop(job);
        let log = |w: u32| folder.path().join(format!("talweg-logs/job-{servers}/worker-{w}.log"));
        let weights = [0, 1].map(|w| await_text(&log(w), "weights "));
        assert_eq!(weights, [expected.clone(), expected.clone()], "{servers} servers");
        for w in [0, 1] {
            assert_eq!(std::fs::metadata(log(w)).unwrap().permissions().mode() & 0o777, 0o600, "others can read it");
        }
    }
}

#[test]
fn a_second_launcher_of_a_running_job_is_refused() {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some((_etcd, port)) = etcd(first.path()) else { return };
    let mut job = start_slowly(first.path(), port, "0", 400, "40");
    await_text(&first.path().join("launch"), "epoch 1: 2 workers");
    let mut other = start(second.path(), port, "0", 400);
    assert!(!other.0.wait().unwrap().success());
    await_text(&second.path().join("launch"), "another launcher looks after this job already");
    assert!(job.0.wait().unwrap().success(), "{}", std::fs::read_to_string(first.path().join("launch")).unwrap());
}

#[test]
fn without_a_launcher_a_killed_worker_is_still_missed() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_etcd, port)) = etcd(folder.path()) else { return };
    let job = start(folder.path(), port, "0", 300);
    let said = folder.path().join("launch");
    await_text(&said, "epoch 1: 2 workers");
    let worker = await_text(&said, "worker 1 is process ");
    drop(job);
    assert!(Command::new("kill").args(["-9", &worker]).status().unwrap().success());
    await_text(&folder.path().join("talweg-logs/job-0/worker-0.log"), "weights ");
}

#[test]
fn a_launcher_that_is_started_again_takes_the_job_over() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_etcd, port)) = etcd(folder.path()) else { return };
    let said = folder.path().join("launch");
    for servers in ["0", "2"] {
        let job = start(folder.path(), port, servers, 400);
        let formed = if servers == "0" { "epoch 1: 2 workers" } else { "epoch 1: 2 servers" };
        await_text(&said, formed);
        let worker = await_text(&said, "worker 1 is process ");
        drop(job);
        let mut again = start(folder.path(), port, servers, 400);
        assert!(await_text(&said, "worker 0 is process ").ends_with("started before"));
        // What it did not start is looked after all the same.
        assert!(Command::new("kill").args(["-9", &worker]).status().unwrap().success());
        await_text(&said, "worker 1 ended with ");
        assert!(again.0.wait().unwrap().success(), "{}", std::fs::read_to_string(&said).unwrap());
        assert_eq!(await_text(&said, "[worker 0] weights "), await_text(&said, "[worker 1] weights "));
    }
}

/// The cluster is away, or stopped, for longer than leases last and than any single question waits:
/// servers keep what they hold, and the job ends with the same bits.
#[test]
fn a_cluster_that_is_away_or_stopped_costs_no_parameters() {
    let expected = one(Job::start(&["--workers", "2"], 300).weights(), 2);
    for (gone, back) in [("-STOP", "-CONT"), ("-KILL", "")] {
        let folder = tempfile::tempdir().unwrap();
        let Some((mut etcd, port)) = etcd(folder.path()) else { return };
        let said = folder.path().join("launch");
        let mut job = start_slowly(folder.path(), port, "2", 300, "40");
        await_text(&said, "epoch 1: 2 servers");
        let id = etcd.0.id().to_string();
        assert!(Command::new("kill").args([gone, &id]).status().unwrap().success());
        std::thread::sleep(Duration::from_secs(12));
        if back.is_empty() {
            etcd.0.wait().unwrap();
            etcd.0 = spawn(etcd.1.as_ref().unwrap(), port).unwrap();
        } else {
            assert!(Command::new("kill").args([back, &id]).status().unwrap().success());
        }
        assert!(job.0.wait().unwrap().success(), "{gone}: {}", std::fs::read_to_string(&said).unwrap());
        let weights = [0, 1].map(|w| await_text(&said, &format!("[worker {w}] weights ")));
        assert_eq!(weights, [expected.clone(), expected.clone()], "{gone}");
    }
}

#[test]
fn what_is_no_cluster_is_refused() {
    let launch = |url: &str| {
        let out = Command::new(env!("CARGO_BIN_EXE_talweg")).args(["launch", "--membership", url, "true"]).output();
        String::from_utf8(out.unwrap().stderr).unwrap()
    };
    assert!(launch("127.0.0.1:1").contains("etcd://HOST:PORT"));
    assert!(launch("etcd://127.0.0.1/").contains("is expected"));
}
