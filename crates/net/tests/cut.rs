//! A network that silently delivers nothing any more ends a link that looks for it, also while no thread
//! says anything. Two namespaces are the machines; where they cannot be made (as root, with `ip`), the
//! test says so and passes.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use talweg_net::{Address, Connection, Hello, Listener, Secret};

const ROLE: &str = "TALWEG_TEST_CUT";

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(90)
}
fn secret() -> Option<Secret> {
    Some(Secret::new("correct horse battery staple").unwrap())
}

/// What the next test runs in each namespace.
#[test]
fn in_a_namespace() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let at: Address = "10.79.0.2:7979".parse().unwrap();
    let mut link = if role == "listener" {
        let listener = Listener::bind(&at, secret()).unwrap();
        println!("listening");
        listener.accept().unwrap().handshake(soon()).unwrap()
    } else {
        let link = Connection::connect_retry(&at, &Hello::default(), secret().as_ref(), soon()).unwrap();
        println!("connected, authenticated: {}", link.is_sealed());
        link
    };
    link.detect_loss(Duration::from_secs(2)).unwrap();
    println!("ended: {}", link.receiver().header(soon()).unwrap_err());
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}
/// Two namespaces that end with the test.
struct Machines(u32);
impl Machines {
    fn new() -> Option<Machines> {
        let me = Machines(std::process::id());
        let (a, b) = (me.name('a'), me.name('b'));
        let steps = [
            format!("netns add {a}"),
            format!("netns add {b}"),
            format!("-n {a} link add v type veth peer name v netns {b}"),
            format!("-n {a} addr add 10.79.0.1/24 dev v"),
            format!("-n {b} addr add 10.79.0.2/24 dev v"),
            format!("-n {a} link set v up"),
            format!("-n {b} link set v up"),
        ];
        steps.iter().all(|s| ip(s)).then_some(me)
    }
    fn name(&self, of: char) -> String {
        format!("talweg{}{of}", self.0)
    }
    fn start(&self, of: char, role: &str) -> (Child, impl Iterator<Item = String> + use<>) {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.name(of)]).arg(std::env::current_exe().unwrap());
        c.args(["--exact", "in_a_namespace", "--nocapture"]).env(ROLE, role).stdout(Stdio::piped());
        let mut child = c.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        (child, lines)
    }
}
impl Drop for Machines {
    fn drop(&mut self) {
        for of in ['a', 'b'] {
            ip(&format!("netns del {}", self.name(of)));
        }
    }
}

#[test]
fn a_silent_cut_ends_an_idle_link_and_names_the_peer() {
    let Some(machines) = Machines::new() else {
        return eprintln!("skipped: network namespaces cannot be made here");
    };
    let (mut listener, mut heard) = machines.start('b', "listener");
    assert!(heard.any(|l| l.contains("listening")));
    let (mut caller, mut said) = machines.start('a', "caller");
    assert!(said.any(|l| l.contains("connected, authenticated: true")));
    // What the second machine sends is dropped from now on, without an error.
    assert!(ip(&format!("-n {} route add blackhole 10.79.0.1/32", machines.name('b'))));
    let end = said.find(|l| l.starts_with("ended")).unwrap();
    assert!(end.contains("nothing to or from 10.79.0.2:7979"), "{end}");
    assert!(caller.wait().unwrap().success());
    listener.kill().unwrap();
    listener.wait().unwrap();
}
