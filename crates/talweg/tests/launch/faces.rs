//! What a launched process is told, where processes run, and the page that shows them.

use crate::job::{Job, alone, digits, launch, one};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use testkit::free_ports;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn programs_find_torchruns_variables() {
    let show = "echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE \
                $ROLE_NAME $ROLE_RANK/$ROLE_WORLD_SIZE $MASTER_ADDR ${MASTER_PORT:+port} $TORCHELASTIC_RESTART_COUNT";
    let said = text(&launch(&["--workers", "2", "sh", "-c", show]).stdout);
    for rank in 0..2 {
        let expected = format!("[worker {rank}] {rank}/2 {rank}/2 0/1 worker {rank}/2 127.0.0.1 port 0");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn other_machines_are_called_and_ranks_follow_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (hosts, ssh) = (folder.path().join("hosts"), folder.path().join("ssh"));
    std::fs::write(&hosts, "localhost slots=1\n127.0.0.2 slots=2 # another name of this machine\n").unwrap();
    // In the place of ssh: says whom it was to call and runs the command here.
    std::fs::write(&ssh, "#!/bin/sh\necho called $1\nshift\nexec sh -c \"$*\"\n").unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let args = ["--workers", "3", "--hosts", hosts.to_str().unwrap(), "--ssh", ssh.to_str().unwrap()];
    let show = "echo it\\'s $RANK $LOCAL_RANK/$LOCAL_WORLD_SIZE $GROUP_RANK/$GROUP_WORLD_SIZE";
    let said = text(&launch(&[&args[..], &["sh", "-c", show]].concat()).stdout);
    for line in ["[worker 0] it's 0 0/1 0/2", "[worker 1] it's 1 0/2 1/2", "[worker 2] it's 2 1/2 1/2"] {
        assert!(said.contains(line), "{said}");
    }
    assert_eq!(said.matches("called 127.0.0.2").count(), 2, "{said}");
    let few = launch(&[&["--workers", "4"], &args[2..], &["true"]].concat());
    assert!(text(&few.stderr).contains("the machines take 3"), "{}", text(&few.stderr));
}

#[test]
fn a_job_ends_when_too_few_are_left() {
    let fails = "[ $RANK = 0 ] && exec sleep 60; kill -9 $$";
    let ended = launch(&["--workers", "2:3", "--max-restarts", "0", "sh", "-c", fails]);
    assert!(!ended.status.success());
    assert!(text(&ended.stdout).contains("fewer than 2: the job ends"), "{}", text(&ended.stdout));
    assert!(!launch(&["--workers", "3:2", "true"]).status.success());
}

#[cfg(feature = "tls")]
#[test]
fn links_speak_tls() {
    let folder = tempfile::tempdir().unwrap();
    let tls = folder.path().join("tls");
    let make = || Command::new(env!("CARGO_BIN_EXE_talweg")).arg("certificates").arg(&tls).output().unwrap();
    assert!(make().status.success());
    assert_eq!(std::fs::metadata(tls.join("tls.key")).unwrap().permissions().mode() & 0o77, 0, "others can read it");
    assert!(!make().status.success(), "certificates that a job may use are not replaced");
    let args = ["--workers", "2", "--servers", "2", "--tls", tls.to_str().unwrap()];
    // Through memory after the handshake, and through sockets.
    for link in ["memory", "socket"] {
        let job = Job::start_with(&args, 12, &[("TALWEG_LINK", link)]);
        assert_eq!(one(job.weights(), 2), alone(2, 12).unwrap(), "{link}");
    }
    std::fs::remove_file(tls.join("tls.crt")).unwrap();
    let missing = launch(&[&args[..], &["true"]].concat());
    assert!(text(&missing.stderr).contains("tls.crt"), "{}", text(&missing.stderr));
}

/// Processes that another launcher started, each with its variables.
fn started(all: &[(bool, Vec<(&str, String)>)]) -> Vec<String> {
    let start = |(is_worker, vars): &(bool, Vec<(&str, String)>)| {
        let mut c = if *is_worker { Command::new(digits()) } else { Command::new(env!("CARGO_BIN_EXE_talweg")) };
        c.args((!is_worker).then_some("store-server")).envs(vars.iter().map(|(k, v)| (k, v)));
        c.env("STEPS", "12").env("TALWEG_PARALLEL", "1").env("TALWEG_THREADS", "1");
        c.stdout(Stdio::piped()).spawn().unwrap()
    };
    let (mut others, mut workers) = (Vec::new(), Vec::new());
    for process in all {
        if process.0 { workers.push(start(process)) } else { others.push(start(process)) }
    }
    let said = workers.into_iter().map(|w| text(&w.wait_with_output().unwrap().stdout)).collect::<Vec<_>>();
    others.iter_mut().for_each(|o| {
        o.kill().unwrap();
        o.wait().unwrap();
    });
    said.iter().filter_map(|s| Some(s.split_once("weights ")?.1.trim().to_string())).collect()
}

#[test]
fn processes_of_other_launchers_find_each_other() {
    let expected = alone(2, 12).unwrap();
    let schedulers = [
        ["RANK", "WORLD_SIZE"],
        ["SLURM_PROCID", "SLURM_NTASKS"],
        ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"],
        ["PMI_RANK", "PMI_SIZE"],
        ["JOB_COMPLETION_INDEX", "JOB_COMPLETIONS"],
    ];
    for [rank, world] in schedulers {
        let master = free_ports(2).to_string();
        let worker = |r: u32| (true, vec![(rank, r.to_string()), (world, "2".into()), ("MASTER_PORT", master.clone())]);
        assert_eq!(one(started(&[worker(0), worker(1)]), 2), expected, "{rank}");
    }
}

#[test]
fn processes_that_disagree_about_their_number_are_told() {
    let master = free_ports(2).to_string();
    let start = |rank: &str, world: &str| {
        let mut c = Command::new(digits());
        c.envs([("RANK", rank), ("WORLD_SIZE", world), ("MASTER_PORT", &master), ("TALWEG_TIMEOUT", "60")]);
        c.envs([("STEPS", "12"), ("TALWEG_PARALLEL", "1"), ("TALWEG_THREADS", "1")]).stdout(Stdio::null());
        c.stderr(Stdio::piped()).spawn().unwrap()
    };
    for process in [start("0", "2"), start("1", "4")] {
        let out = process.wait_with_output().unwrap();
        let said = text(&out.stderr);
        assert!(!out.status.success() && said.contains("WORLD_SIZE is 2 on worker 0, 4 on worker 1"), "{said}");
    }
}

#[test]
fn mpirun_launches_workers() {
    // As root, which containers are, it asks twice whether that is meant.
    let said = Command::new("mpirun")
        .args(["--oversubscribe", "-n", "2"])
        .arg(digits())
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .envs([("STEPS", "12"), ("TALWEG_PARALLEL", "1"), ("TALWEG_THREADS", "1")])
        .env("MASTER_PORT", free_ports(2).to_string())
        .output();
    let Ok(out) = said else {
        return eprintln!("skipped: mpirun is not installed (Debian: openmpi-bin)");
    };
    let said = text(&out.stdout);
    let weights = said.lines().filter_map(|l| Some(l.split_once("weights ")?.1.trim().to_string())).collect();
    assert_eq!(one(weights, 2), alone(2, 12).unwrap(), "{said}{}", text(&out.stderr));
}

#[test]
fn dmlcs_roles_make_a_store() {
    let root = free_ports(2).to_string();
    let process = |role: &str, id: Option<(&'static str, u32)>| {
        let mut vars = vec![
            ("DMLC_ROLE", role.to_string()),
            ("DMLC_PS_ROOT_URI", "127.0.0.1".into()),
            ("DMLC_PS_ROOT_PORT", root.clone()),
            ("DMLC_NUM_WORKER", "2".into()),
            ("DMLC_NUM_SERVER", "2".into()),
        ];
        vars.extend(id.map(|(name, id)| (name, id.to_string())));
        (role == "worker", vars)
    };
    let server = |i| process("server", Some(("DMLC_SERVER_ID", i)));
    let worker = |i| process("worker", Some(("DMLC_WORKER_ID", i)));
    let weights = started(&[process("scheduler", None), server(0), server(1), worker(0), worker(1)]);
    assert_eq!(one(weights, 2), alone(2, 12).unwrap());
}

/// Status line, and body, of an answer to a request.
fn ask(at: &str, request: &str, host: &str) -> (String, String) {
    let mut s = TcpStream::connect(at).unwrap();
    s.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    write!(s, "{request} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    s.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.lines().next().unwrap().to_string(), body.to_string())
}

#[test]
fn the_page_shows_the_job() {
    let args = ["--workers", "2", "--servers", "2", "--consistency", "ssp:3", "--dashboard", "0"];
    let mut job = Job::start(&args, 1_000_000);
    let line = job.until("dashboard: http://");
    let at = line.split_once("http://").unwrap().1.trim_end_matches('/').to_string();
    job.until("epoch 1: 2 servers");
    let (status, page) = ask(&at, "GET /", &at);
    assert!(status.contains("200") && page.contains("<title>talweg launch</title>"));
    let mut whole = TcpStream::connect(&at).unwrap();
    write!(whole, "GET / HTTP/1.1\r\nHost: {at}\r\n\r\n").unwrap();
    let mut head = String::new();
    whole.read_to_string(&mut head).unwrap();
    assert!(head.contains("\r\nContent-Security-Policy: default-src 'none'"), "{}", &head[..400]);
    // Silent connections cost a bounded number of threads.
    let idle: Vec<TcpStream> = (0..150).map(|_| TcpStream::connect(&at).unwrap()).collect();
    std::thread::sleep(Duration::from_millis(300));
    let threads = std::fs::read_dir(format!("/proc/{}/task", job.child.id())).unwrap().count();
    assert!(threads < 120, "{threads} threads for {} idle connections", idle.len());
    drop(idle);
    assert!(ask(&at, "GET /nothing", &at).0.contains("404"));
    assert!(ask(&at, "DELETE /", &at).0.contains("405"));
    assert!(ask(&at, "GET /state", "evil.example").0.contains("403"), "names made to point here are refused");
    // Both workers, both servers and a past are there before the job is over.
    let state = loop {
        let state: serde_json::Value = serde_json::from_str(&ask(&at, "GET /state", &at).1).unwrap();
        let counts = |key: &str| state[key].as_array().unwrap().len();
        if counts("workers") == 2 && counts("servers") == 2 && counts("history") > 1 {
            break state;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (status, metrics) = ask(&at, "GET /metrics", &at);
    assert!(status.contains("200"));
    for line in [
        "# TYPE talweg_worker_step gauge",
        "talweg_worker_step{rank=\"1\"} ",
        "talweg_process_up{process=\"server 0\"} 1",
    ] {
        assert!(metrics.lines().any(|l| l.starts_with(line)), "{line}: {metrics}");
    }
    assert_eq!((state["consistency"].as_str(), state["bound"].as_u64()), (Some("ssp:3"), Some(3)));
    assert_eq!(state["processes"].as_array().unwrap().len(), 4);
    assert!(state["history"][0][2].as_f64().unwrap() > 0.0, "{}", state["history"]);
    assert!(state["servers"][0]["bytes"].as_u64().unwrap() > 0, "{}", state["servers"]);
    assert!(state["events"].to_string().contains("2 servers hold the store"));
    let staleness = state["workers"][0]["staleness"].as_array().unwrap();
    let counts: Vec<u64> = staleness.iter().map(|n| n.as_u64().unwrap()).collect();
    assert!(counts.len() == 17 && counts[..=3].iter().sum::<u64>() > 0, "{counts:?}");
    assert_eq!(counts[4..].iter().sum::<u64>(), 0, "no read was further ahead than ssp:3 lets it be");
    seen_by_a_browser(&format!("http://{at}/"));
}

/// What a browser makes of the page: bars of workers and reads, each with the window it is allowed.
fn seen_by_a_browser(url: &str) {
    let mut c = Command::new("chromium");
    c.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=3000", "--dump-dom", url]);
    let Ok(out) = c.stderr(Stdio::null()).output() else {
        return println!("there is no chromium: the page is not looked at");
    };
    let page = text(&out.stdout);
    for part in ["class=\"window\"", "class=\"allowed\"", "class=\"read\"", "steps in the mean", "server 1"] {
        assert!(page.contains(part), "no {part} in\n{page}");
    }
}
