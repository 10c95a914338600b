//! Links under TLS: a process without a certificate of the job's authority is refused, and both ends
//! are told why.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};
use talweg_net::{Address, Connection, Header, Hello, Listener, NAME, PAYLOAD_MAX, Secret};
use tempfile::TempDir;
use time::OffsetDateTime;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}
fn days(n: i64) -> OffsetDateTime {
    OffsetDateTime::now_utc() + time::Duration::days(n)
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A folder with a certificate by `issuer` for `name`, good between two days from today, whose
/// owner trusts `trusted`.
fn folder(issuer: &Authority, trusted: &Authority, name: &str, from: i64, to: i64) -> TempDir {
    let mut params = CertificateParams::new([name.to_string()]).unwrap();
    (params.not_before, params.not_after) = (days(from), days(to));
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let write = |file: &str, text: String| std::fs::write(dir.path().join(file), text).unwrap();
    write("ca.crt", trusted.pem());
    write("tls.crt", certificate.pem());
    write("tls.key", key.serialize_pem());
    dir
}
fn secret(dir: &TempDir) -> Secret {
    Secret::certificates(dir.path()).unwrap()
}

/// What the listener and the caller end with.
fn meet(
    ours: Option<Secret>,
    theirs: Option<Secret>,
) -> (talweg_net::Result<Connection>, talweg_net::Result<Connection>) {
    let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap(), ours).unwrap();
    let address = listener.address().clone();
    let call = thread::spawn(move || Connection::connect(&address, &Hello::new("w", 1), theirs.as_ref(), soon()));
    let answered = listener.accept().unwrap().handshake(soon());
    (answered, call.join().unwrap())
}
fn refusals(ours: Option<Secret>, theirs: Option<Secret>) -> [String; 2] {
    let (a, b) = meet(ours, theirs);
    [a.expect_err("the listener").to_string(), b.expect_err("the caller").to_string()]
}

#[test]
fn both_ends_hold_certificates_and_the_secret_still_counts() {
    let root = authority();
    let (a, b) = (folder(&root, &root, NAME, -1, 1), folder(&root, &root, NAME, -1, 1));
    let (x, y) = meet(Some(secret(&a)), Some(secret(&b)));
    let (x, y) = (x.unwrap(), y.unwrap());
    assert!(x.is_encrypted() && y.is_encrypted());
    assert_eq!(x.peer(), &Hello::new("w", 1));
    let with = |text: &str, dir: &TempDir| Some(Secret::new(text).unwrap().with_certificates(dir.path()).unwrap());
    let (x, y) = meet(with("correct horse battery staple", &a), with("correct horse battery staple", &b));
    assert!(x.is_ok() && y.is_ok());
    let said = refusals(with("correct horse battery staple", &a), with("another secret altogether", &b));
    assert!(said[1].contains("does not know the shared secret"), "{said:?}");
}

#[test]
fn wrong_certificates_are_refused_and_both_ends_hear_why() {
    let (root, other) = (authority(), authority());
    let good = || Some(secret(&folder(&root, &root, NAME, -1, 1)));
    let cases = [
        ("expired", folder(&root, &root, NAME, -9, -1), "has expired", "has expired"),
        ("early", folder(&root, &root, NAME, 1, 9), "not valid yet", "is not valid yet"),
        ("unknown", folder(&other, &root, NAME, -1, 1), "not issued by the authority", "does not know the authority"),
        ("misnamed", folder(&root, &root, "stranger", -1, 1), "not for the name", "refused our certificate"),
    ];
    for (what, dir, seen, told) in &cases {
        let [listener, caller] = refusals(good(), Some(secret(dir)));
        assert!(listener.contains(seen) && caller.contains(told), "{what} caller: {listener} / {caller}");
        let [listener, caller] = refusals(Some(secret(dir)), good());
        assert!(caller.contains(seen) && listener.contains(told), "{what} listener: {listener} / {caller}");
    }
}

#[test]
fn who_speaks_no_tls_is_refused() {
    let root = authority();
    let good = || Some(secret(&folder(&root, &root, NAME, -1, 1)));
    let plain = || Some(Secret::new("correct horse battery staple").unwrap());
    assert!(refusals(good(), plain())[0].contains("does not speak TLS"));
    let said = refusals(plain(), good());
    assert!(said[0].contains("a frame starts with"), "{said:?}");
    refusals(good(), None);
    refusals(None, good());
}

#[test]
fn a_folder_without_what_is_needed_says_what_is_missing() {
    let root = authority();
    for file in ["ca.crt", "tls.crt", "tls.key"] {
        let dir = folder(&root, &root, NAME, -1, 1);
        for text in [None, Some("no certificate")] {
            match text {
                None => std::fs::remove_file(dir.path().join(file)).unwrap(),
                Some(text) => std::fs::write(dir.path().join(file), text).unwrap(),
            }
            let e = Secret::certificates(dir.path()).unwrap_err().to_string();
            assert!(e.contains(file), "{e}");
        }
    }
    let (a, b) = (folder(&root, &root, NAME, -1, 1), folder(&root, &root, NAME, -1, 1));
    std::fs::copy(a.path().join("tls.key"), b.path().join("tls.key")).unwrap();
    assert!(Secret::certificates(b.path()).is_err(), "another certificate's key");
}

const INNER: &str = "TALWEG_TEST_TLS";

/// What the next test runs in a separate process, where memory is not shared.
#[test]
fn in_a_process_without_shared_memory() {
    let Ok(dir) = std::env::var(INNER) else { return };
    let ours = Secret::certificates(Path::new(&dir)).unwrap();
    let (a, b) = meet(Some(ours.clone()), Some(ours));
    let (mut a, b) = (a.unwrap(), b.unwrap());
    assert!(!a.is_shared() && a.is_encrypted());
    let (mut send, mut receive) = b.split();
    // Both directions at once, more than any buffer holds: sending must not stop receiving.
    let big: Vec<u8> = (0..9 << 20).map(|i| (i * 7 % 253) as u8).collect();
    let expected = big.clone();
    let sending = thread::spawn({
        let big = big.clone();
        move || send.send(&Header::new(1), &[&big], soon()).map(|()| send)
    });
    let receiving = thread::spawn(move || {
        assert_eq!(receive.header(soon()).unwrap().kind, 2);
        assert!(receive.payload(PAYLOAD_MAX, soon()).unwrap() == expected);
        receive
    });
    let (sender, receiver) = a.halves();
    thread::scope(|s| {
        s.spawn(|| sender.send(&Header::new(2), &[&big[..5], &big[5..]], soon()).unwrap());
        assert_eq!(receiver.header(soon()).unwrap().kind, 1);
        assert!(receiver.payload(PAYLOAD_MAX, soon()).unwrap() == big);
    });
    let (other_sender, other) = (sending.join().unwrap().unwrap(), receiving.join().unwrap());
    let e = a.receiver().header(Instant::now() + Duration::from_millis(20)).unwrap_err();
    assert!(matches!(e, talweg_net::Error::Deadline(_)), "{e}");
    drop((other_sender, other));
    assert!(a.receiver().header(soon()).unwrap_err().is_gone());
}

#[test]
fn frames_go_both_ways_at_once_under_tls() {
    let root = authority();
    let dir = folder(&root, &root, NAME, -1, 1);
    let status = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "in_a_process_without_shared_memory"])
        .env(INNER, dir.path())
        .env("TALWEG_LINK", "socket")
        .status()
        .unwrap();
    assert!(status.success());
}

#[test]
fn unix_sockets_stay_plain() {
    let root = authority();
    let good = secret(&folder(&root, &root, NAME, -1, 1));
    let dir = tempfile::tempdir().unwrap();
    let listener = Listener::bind(&Address::Unix(dir.path().join("s")), Some(good.clone())).unwrap();
    let address = listener.address().clone();
    let call = thread::spawn(move || Connection::connect(&address, &Hello::default(), Some(&good), soon()).unwrap());
    assert!(!listener.accept().unwrap().handshake(soon()).unwrap().is_encrypted());
    call.join().unwrap();
}
