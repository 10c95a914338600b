//! What TLS costs beside plain TCP, over loopback: a frame of 64 MiB one way, and small frames there
//! and back.
//!
//! `TALWEG_LINK=socket cargo run --release -p talweg-net --example tls` (without the variable the
//! bytes would go through memory, encrypted or not).

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::thread;
use std::time::{Duration, Instant};
use talweg_net::{Connection, Header, Hello, Listener, NAME, PAYLOAD_MAX, Result, Secret};

const LARGE: usize = 64 << 20;
const LARGE_TIMES: usize = 12;
const SMALL_TIMES: usize = 3000;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn certificates() -> Secret {
    let mut params = CertificateParams::new([]).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new([NAME.to_string()]).expect("a name");
    let certificate = params.signed_by(&key, &root).expect("a certificate");
    let dir = tempfile::tempdir().expect("a folder");
    for (file, text) in [("ca.crt", root.pem()), ("tls.crt", certificate.pem()), ("tls.key", key.serialize_pem())] {
        std::fs::write(dir.path().join(file), text).expect("a file");
    }
    Secret::certificates(dir.path()).expect("certificates")
}

/// Median seconds of a call, after a few to warm up.
fn median(times: usize, mut f: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut all = Vec::with_capacity(times);
    for i in 0..times {
        let start = Instant::now();
        f()?;
        if i >= times / 4 {
            all.push(start.elapsed().as_secs_f64());
        }
    }
    all.sort_by(f64::total_cmp);
    Ok(all[all.len() / 2])
}

fn measure(what: &str, secret: Option<Secret>) -> Result<()> {
    let listener = Listener::bind(&"127.0.0.1:0".parse()?, secret.clone())?;
    let address = listener.address().clone();
    let other = thread::spawn(move || {
        let mut c = listener.accept()?.handshake(soon())?;
        let mut buffer = vec![0; LARGE];
        for _ in 0..LARGE_TIMES + SMALL_TIMES {
            let h = c.receiver().header(soon())?;
            c.receiver().payload_into(&mut buffer[..h.length as usize], soon())?;
            c.send(&Header::new(1), &[&[1; 4]], soon())?;
        }
        Result::Ok(())
    });
    let start = Instant::now();
    let mut c = Connection::connect(&address, &Hello::default(), secret.as_ref(), soon())?;
    println!("{what}: connected in {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
    assert!(!c.is_shared(), "TALWEG_LINK=socket is not set");
    let mut ask = |bytes: &[u8]| {
        c.send(&Header::new(1), &[bytes], soon())?;
        c.receiver().header(soon())?;
        c.receiver().payload(PAYLOAD_MAX, soon()).map(drop)
    };
    let large = vec![7; LARGE];
    let seconds = median(LARGE_TIMES, || ask(&large))?;
    println!("{what}: 64 MiB one way       {:8.2} GB/s", LARGE as f64 / seconds / 1e9);
    println!("{what}: 4 bytes and an answer {:7.1} µs", median(SMALL_TIMES, || ask(&[1; 4]))? * 1e6);
    other.join().expect("the other end")
}

fn main() -> Result<()> {
    measure("plain", None)?;
    measure("TLS  ", Some(certificates()))
}
