//! The membership store in a real etcd, and keepers that take over from each other. Where there is
//! no etcd (`TALWEG_ETCD` names the program, else `etcd` is looked for), the tests say so and pass.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use talweg_dist::{Controller, Coordinator, Endpoint, Hello, Member, View, coordinate, worker_key};
use testkit::free_ports;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

/// A cluster of one.
struct Etcd {
    child: Child,
    folder: tempfile::TempDir,
    ports: [u16; 2],
}

impl Etcd {
    fn start() -> Option<Etcd> {
        let (folder, ports) = (tempfile::tempdir().unwrap(), [free_ports(1), free_ports(1)]);
        match Etcd::spawn(folder.path(), ports) {
            Ok(child) => Some(Etcd { child, folder, ports }),
            Err(e) => {
                eprintln!("skipped: etcd does not start ({e}); Debian's package is etcd-server");
                None
            }
        }
    }
    fn spawn(folder: &Path, ports: [u16; 2]) -> std::io::Result<Child> {
        Etcd::spawn_with(folder, ports, "http", &[])
    }
    fn spawn_with(folder: &Path, ports: [u16; 2], scheme: &str, more: &[String]) -> std::io::Result<Child> {
        let (client, peer) = (format!("{scheme}://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
        Command::new(std::env::var("TALWEG_ETCD").unwrap_or_else(|_| "etcd".to_string()))
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .arg("--data-dir")
            .arg(folder)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
    }
    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
    fn restart(&mut self) {
        self.kill();
        self.child = Etcd::spawn(self.folder.path(), self.ports).unwrap();
    }
    fn meeting(&self, job: &str) -> Endpoint {
        format!("etcd://127.0.0.1:{}/{job}?ttl=2", self.ports[0]).parse().unwrap()
    }
}
impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
fn line(at: &Endpoint) -> Member {
    Member::connect(at, &Hello::default(), None, soon()).unwrap()
}

#[test]
fn keys_leases_and_waits() {
    let Some(mut etcd) = Etcd::start() else { return };
    let at = etcd.meeting("keys");
    let (a, b) = (line(&at), line(&at));
    assert_eq!(a.get("x", soon()).unwrap().1, None);
    a.set("x", b"1", soon()).unwrap();
    let (version, value) = b.get("x", soon()).unwrap();
    assert_eq!(value.as_deref(), Some(&b"1"[..]));
    let waiting = std::thread::spawn({
        let c = a.duplicate(soon()).unwrap();
        move || c.wait("x", version, soon()).unwrap()
    });
    assert_eq!(b.compare_set("x", Some(b"0"), b"2", soon()).unwrap().as_deref(), Some(&b"1"[..]));
    assert_eq!(b.compare_set("x", Some(b"1"), b"2", soon()).unwrap().as_deref(), Some(&b"2"[..]));
    assert_eq!(waiting.join().unwrap().1, b"2");
    assert_eq!(b.compare_set("y", None, b"new", soon()).unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!((a.add("n", 5, soon()).unwrap(), b.add("n", -7, soon()).unwrap()), (5, -2));
    a.delete("y", soon()).unwrap();
    assert_eq!(b.get("y", soon()).unwrap().1, None);
    // Another job sees nothing of this one.
    assert_eq!(line(&etcd.meeting("other")).get("x", soon()).unwrap().1, None);
    // A lease lasts while its line does, and longer than its time to live.
    a.lease("here", b"a", soon()).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    assert!(b.get("here", soon()).unwrap().1.is_some());
    // A cluster that goes away for a moment is waited for, and has forgotten nothing.
    etcd.restart();
    assert_eq!(b.get("x", soon()).unwrap().1.as_deref(), Some(&b"2"[..]));
    assert!(b.get("here", soon()).unwrap().1.is_some());
    a.close();
    assert!(a.get("x", soon()).is_err(), "a line that was closed");
    while b.get("here", soon()).unwrap().1.is_some() {
        std::thread::sleep(Duration::from_millis(20));
    }
    let e = b.wait("never", 0, Instant::now() + Duration::from_millis(200)).unwrap_err().to_string();
    assert!(e.contains("deadline"), "{e}");
}

/// The group, once it has reached an epoch.
fn group(at: &Endpoint, epoch: u64) -> View {
    let (line, mut version) = (line(at), 0);
    loop {
        let (newer, bytes) = line.wait("group", version, soon()).unwrap();
        let view = View::decode(&bytes).unwrap();
        if view.epoch >= epoch {
            return view;
        }
        version = newer;
    }
}

#[test]
fn whoever_is_elected_goes_on_where_the_last_one_was() {
    let Some(etcd) = Etcd::start() else { return };
    let at = etcd.meeting("election");
    at.begin(soon()).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let keeper = |name: &'static str| -> Arc<dyn Coordinator> {
        let said = said.clone();
        let report = move |text: &str| said.lock().unwrap().push(format!("{name}: {text}"));
        coordinate(&at, || Controller::new(3, 0, 1), report, soon()).unwrap().unwrap()
    };
    let first = keeper("first");
    let workers: Vec<Member> = (0..3).map(|_| line(&at)).collect();
    for (r, w) in workers.iter().enumerate() {
        w.lease(&worker_key(r as u32), format!("at{r}").as_bytes(), soon()).unwrap();
    }
    assert_eq!(group(&at, 1).workers.len(), 3);
    assert!(at.begin(soon()).unwrap_err().to_string().contains("is running"));
    let second = keeper("second");
    drop(first);
    workers[1].close();
    let two = group(&at, 2);
    assert_eq!((two.epoch, two.workers.len()), (2, 2), "the epoch goes on");
    let until = soon();
    while !said.lock().unwrap().iter().any(|s| s.starts_with("second: epoch 2: 2 workers")) {
        assert!(Instant::now() < until, "{:?}", said.lock().unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(said.lock().unwrap().iter().any(|s| s.starts_with("first: epoch 1: 3 workers")));
    // A launcher says that one of those left will not come back.
    second.left(1, false).unwrap();
    assert_eq!(second.list("worker/").len(), 2);
    second.end();
}

/// A cluster that is stopped for longer than leases last lets them all lapse when it continues. No process
/// was away but the cluster: the job stays as it was.
#[test]
fn a_cluster_that_was_stopped_loses_nobody() {
    let Some(etcd) = Etcd::start() else { return };
    let at = etcd.meeting("stopped");
    at.begin(soon()).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let telling = said.clone();
    let report = move |text: &str| telling.lock().unwrap().push(text.to_string());
    let _first = coordinate(&at, || Controller::new(2, 2, 2), report, soon()).unwrap().unwrap();
    let _second = coordinate(&at, || Controller::new(2, 2, 2), |_| {}, soon()).unwrap().unwrap();
    let lines: Vec<Member> = (0..4).map(|_| line(&at)).collect();
    for (i, l) in lines.iter().enumerate() {
        let number = i as u32 % 2;
        let key = if i < 2 { worker_key(number) } else { talweg_dist::server_key(number) };
        l.lease(&key, format!("at{i}").as_bytes(), soon()).unwrap();
    }
    let map = || {
        let (_, bytes) = lines[0].wait("map", 0, soon()).unwrap();
        talweg_dist::Map::decode(&bytes).unwrap()
    };
    let (group_before, map_before) = (group(&at, 1), map());
    let signal = |s: &str| {
        let id = etcd.child.id().to_string();
        assert!(Command::new("kill").args([s, &id]).status().unwrap().success());
    };
    signal("-STOP");
    std::thread::sleep(Duration::from_secs(6));
    signal("-CONT");
    // Longer than a lapsed lease is doubted.
    std::thread::sleep(Duration::from_secs(6));
    assert_eq!((group(&at, 1), map()), (group_before, map_before), "{:?}", said.lock().unwrap());
    let names = |prefix: &str| (0..2).all(|i| lines[0].get(&format!("{prefix}/{i}"), soon()).unwrap().1.is_some());
    assert!(names("worker") && names("server"));
    // Who really goes is missed.
    lines[1].close();
    assert_eq!(group(&at, 2).workers.len(), 1);
}

const INNER: &str = "TALWEG_TEST_ETCD";

/// What the next tests run in a separate process, whose environment has the credentials.
#[test]
fn in_a_process_with_credentials() {
    let Ok(at) = std::env::var(INNER) else { return };
    let until = Instant::now() + Duration::from_secs(8);
    let line = Member::connect(at.parse::<Endpoint>().unwrap(), &Hello::default(), None, until);
    let said = line.and_then(|l| {
        l.lease("k", b"v", until)?;
        // Longer than the lease lasts by itself.
        std::thread::sleep(Duration::from_secs(3));
        l.get("k", until)
    });
    match said {
        Ok((_, value)) => println!("got {:?}", value.map(|v| String::from_utf8(v).unwrap())),
        Err(e) => println!("refused: {e}"),
    }
}
fn with(at: &str, vars: &[(&str, &str)]) -> String {
    let mut c = Command::new(std::env::current_exe().unwrap());
    c.args(["--exact", "in_a_process_with_credentials", "--nocapture"]).env(INNER, at).envs(vars.iter().copied());
    let out = c.output().unwrap();
    String::from_utf8(out.stdout).unwrap() + &String::from_utf8_lossy(&out.stderr)
}

#[test]
fn a_cluster_with_users_wants_the_password() {
    let Some(etcd) = Etcd::start() else { return };
    let post = |path: &str, body: &str| {
        use std::io::{Read, Write};
        let deadline = soon();
        let mut s = loop {
            match std::net::TcpStream::connect(("127.0.0.1", etcd.ports[0])) {
                Ok(s) => break s,
                Err(e) => assert!(Instant::now() < deadline, "{e}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let length = body.len();
        write!(s, "POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        s.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    };
    // A member that has no leader yet answers nothing.
    line(&etcd.meeting("users"));
    post("/v3/auth/user/add", r#"{"name":"root","password":"open sesame"}"#);
    post("/v3/auth/role/add", r#"{"name":"root"}"#);
    post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    post("/v3/auth/enable", "{}");
    let at = etcd.meeting("users").to_string();
    let user = |password| [("TALWEG_ETCD_USER", "root"), ("TALWEG_ETCD_PASSWORD", password)];
    let said = with(&at, &user("open sesame"));
    assert!(said.contains("got Some(\"v\")"), "{said}");
    let said = with(&at, &user("wrong"));
    assert!(said.contains("refused") && said.contains("authentication failed"), "{said}");
    let said = with(&at, &[]);
    assert!(said.contains("refused") && said.contains("user name is empty"), "{said}");
    let said = with(&at, &user("")[..1]);
    assert!(said.contains("TALWEG_ETCD_USER and TALWEG_ETCD_PASSWORD go together"), "{said}");
}

#[cfg(feature = "tls")]
#[test]
fn a_cluster_under_tls_wants_a_certificate() {
    use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
    let dir = tempfile::tempdir().unwrap();
    let path = |file: &str| dir.path().join(file).to_str().unwrap().to_string();
    let authority = || {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (ca, other) = (authority(), authority());
    std::fs::write(path("ca.crt"), ca.pem()).unwrap();
    std::fs::write(path("other.crt"), other.pem()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["127.0.0.1".to_string()]).unwrap().signed_by(&key, &ca).unwrap();
    std::fs::write(path("tls.crt"), certificate.pem()).unwrap();
    std::fs::write(path("tls.key"), key.serialize_pem()).unwrap();
    let (folder, ports) = (tempfile::tempdir().unwrap(), [free_ports(1), free_ports(1)]);
    let more = [
        format!("--cert-file={}", path("tls.crt")),
        format!("--key-file={}", path("tls.key")),
        format!("--trusted-ca-file={}", path("ca.crt")),
        "--client-cert-auth".to_string(),
    ];
    let Ok(child) = Etcd::spawn_with(folder.path(), ports, "https", &more) else {
        return eprintln!("skipped: etcd does not start");
    };
    let etcd = Etcd { child, folder, ports };
    let at = etcd.meeting("tls").to_string();
    let (ca, cert, key, other) = (path("ca.crt"), path("tls.crt"), path("tls.key"), path("other.crt"));
    let own = [("TALWEG_ETCD_CERT", cert.as_str()), ("TALWEG_ETCD_KEY", &key)];
    let said = with(&at, &[("TALWEG_ETCD_CA", ca.as_str()), own[0], own[1]]);
    assert!(said.contains("got Some(\"v\")"), "{said}");
    let said = with(&at, &[("TALWEG_ETCD_CA", other.as_str()), own[0], own[1]]);
    assert!(said.contains("refused"), "another authority: {said}");
    let said = with(&at, &[("TALWEG_ETCD_CA", ca.as_str())]);
    assert!(said.contains("refused"), "no certificate: {said}");
    assert!(with(&at, &own).contains("need TALWEG_ETCD_CA"));
}
