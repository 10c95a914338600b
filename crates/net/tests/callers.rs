//! Callers who prove nothing: whatever they do, they cost a bounded number of threads, and those who
//! prove themselves get in. Limits of the system are tried in separate processes.

use std::io::Write;
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use talweg_net::{Address, Connection, HANDSHAKES_MAX, Header, Hello, Listener, Secret};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}
fn secret() -> Secret {
    Secret::new("correct horse battery staple").unwrap()
}
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

type Told = Arc<Mutex<Vec<String>>>;

/// A listener that answers authenticated callers with a frame, and what it reports of others.
fn serve() -> (Address, Told) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), Some(secret())).unwrap();
    let (address, told) = (listener.address().clone(), Told::default());
    let telling = told.clone();
    let report = move |text: &str| telling.lock().unwrap().push(text.to_string());
    let answer = |mut c: Connection| c.send(&Header::new(7), &[], soon()).unwrap();
    listener.serve(Duration::from_secs(30), report, answer).unwrap();
    (address, told)
}
fn get_in(at: &Address) {
    let mut c = Connection::connect_retry(at, &Hello::default(), Some(&secret()), soon()).unwrap();
    assert_eq!(c.receiver().header(soon()).unwrap().kind, 7);
}
/// One test at a time: threads are counted for the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
/// Calls and says nothing.
fn idle(at: &Address) -> TcpStream {
    let Address::Tcp(at) = at else { panic!("it listens on TCP") };
    TcpStream::connect_timeout(at, Duration::from_secs(60)).unwrap()
}

#[test]
fn callers_who_say_nothing_keep_nobody_out() {
    let _alone = alone();
    let (at, _) = serve();
    let before = threads();
    let quiet: Vec<TcpStream> = (0..3 * HANDSHAKES_MAX).map(|_| idle(&at)).collect();
    get_in(&at);
    // Threads of callers that were rejected may be ending still.
    let most = before + HANDSHAKES_MAX + 16;
    (0..100).take_while(|_| threads() > most).for_each(|_| std::thread::sleep(Duration::from_millis(50)));
    let during = threads().saturating_sub(before);
    assert!(during <= HANDSHAKES_MAX + 16, "{during} threads for {} callers", quiet.len());
    drop(quiet);
    get_in(&at);
}

#[test]
fn many_refusals_are_told_in_few_lines() {
    let _alone = alone();
    let (at, told) = serve();
    for _ in 0..300 {
        // It may be refused before everything is written. The text is longer than a header.
        let _ = idle(&at).write_all(b"GET / HTTP/1.1\r\nHost: x\r\nUser-Agent: a program that is no peer\r\n\r\n");
    }
    get_in(&at);
    let count = || -> u64 {
        let number = |l: &String| l.split(' ').next().and_then(|n| n.parse().ok()).unwrap_or(1);
        told.lock().unwrap().iter().map(number).sum()
    };
    let deadline = soon();
    while count() < 300 {
        assert!(Instant::now() < deadline, "{:?}", told.lock().unwrap());
        std::thread::sleep(Duration::from_millis(20));
    }
    let told = told.lock().unwrap();
    assert!(told[0].starts_with("a connection was rejected: refused: a frame starts with"), "{}", told[0]);
    assert!(told.len() <= 20, "{} lines", told.len());
}

const INNER: &str = "TALWEG_TEST_LIMITED";

/// What the next tests run in a separate process, under a limit.
#[test]
fn in_a_limited_process() {
    let _alone = alone();
    if std::env::var_os(INNER).is_none() {
        return;
    }
    let (at, _) = serve();
    println!("{at}");
    std::io::stdout().flush().unwrap();
    // The parent ends it.
    std::thread::sleep(Duration::from_secs(120));
}

fn under(limit: &str) {
    let me = std::env::current_exe().unwrap();
    let script = format!("{limit} && exec \"$0\" --exact in_a_limited_process --nocapture");
    let mut child =
        Command::new("sh").args(["-c", &script]).arg(me).env(INNER, "1").stdout(Stdio::piped()).spawn().unwrap();
    let out = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let at: Address = out.map_while(Result::ok).find_map(|l| l.trim().parse().ok()).unwrap();
    let quiet: Vec<TcpStream> = (0..100).map(|_| idle(&at)).collect();
    // Time for it to run into its limit.
    std::thread::sleep(Duration::from_millis(500));
    drop(quiet);
    get_in(&at);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_limit_of_threads_does_not_end_the_listener() {
    let _alone = alone();
    // As few threads as address space for their stacks.
    under("ulimit -v 150000");
}

#[test]
fn a_limit_of_files_does_not_end_the_listener() {
    let _alone = alone();
    under("ulimit -n 40");
}
