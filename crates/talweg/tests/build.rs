//! `talweg run` and `talweg build`: programs, libraries and pages that hold one model compute what the model does.
//!
//! Tests that compile a program are ignored by default; `cargo xtask ci` runs them. Those that need a program of the
//! system, such as a browser, pass without it and say so.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use talweg::export::{Export, Model};
use talweg::nn::{AttentionOptions, ConvOptions, MaxPoolOptions};
use talweg::prelude::{Result, Tensor};

const TALWEG: &str = env!("CARGO_BIN_EXE_talweg");
/// The most that a program of such a net takes, one of MobileNet's layers without its weights, and a page without its.
const PROGRAM_BYTES_MAX: u64 = 1 << 20;
const MOBILE_NET_BYTES_MAX: u64 = 2 << 20;
const PAGE_GZIP_BYTES_MAX: usize = 1_200_000;

fn wave(shape: &[usize], step: f32) -> Tensor {
    let values: Vec<f32> = (0..shape.iter().product()).map(|i| (i as f32 * step).sin()).collect();
    Tensor::from(values).reshape(shape)
}

/// A net of two convolutions for images of 28 by 28, with ten outputs.
fn net(x: &Tensor) -> Tensor {
    let pool = |t: Tensor| t.max_pool2d(2, MaxPoolOptions::default());
    let same = || ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    let h = pool((x.conv2d(&wave(&[8, 1, 3, 3], 0.7), None, same()) + wave(&[8, 1, 1], 0.3)).relu());
    let h = pool((h.conv2d(&wave(&[16, 8, 3, 3], 0.9), None, same()) + wave(&[16, 1, 1], 0.4)).relu());
    (h.flatten(1, -1).matmul(&(wave(&[784, 10], 1.1) * 0.05)) + wave(&[10], 0.2)).softmax(-1)
}

/// A folder with the exported net, an input, and what the net makes of it.
struct Case {
    folder: tempfile::TempDir,
    want: Vec<u8>,
}

impl Case {
    fn new() -> Result<Case> {
        Case::of(&wave(&[1, 1, 28, 28], 0.013), net)
    }
    fn of(x: &Tensor, f: fn(&Tensor) -> Tensor) -> Result<Case> {
        // Below the repository, whose compiler then applies.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        let dir = folder.path().join("net");
        Export::new("net").input("image", x, &["batch", "", "", ""]).write(&dir, |x| Ok(vec![f(&x[0])]))?;
        talweg::save_npy(folder.path().join("x.npy"), x)?;
        let want = Model::load(&dir)?.run(&[x.literal()?])?.remove(0).bytes().to_vec();
        Ok(Case { folder, want })
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn talweg(&self, args: &[&str]) -> Output {
        Command::new(TALWEG).args(args).current_dir(self.folder.path()).output().unwrap()
    }
    fn build(&self, args: &[&str]) {
        let out = self.talweg(&[&["build", "net"][..], args].concat());
        assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
        print!("{}", text(&out.stdout));
    }
    /// Fails unless these are the bytes of the net's output, but for rounding.
    fn check(&self, got: &[u8]) {
        let (got, want) = (floats(got), floats(&self.want));
        assert_eq!(got.len(), want.len());
        assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(1.0)), "{got:?} {want:?}");
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}
fn has(program: &str) -> bool {
    let is = Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !is {
        println!("there is no {program}: skipped");
    }
    is
}
fn has_target(triple: &str) -> bool {
    let libraries = Command::new("rustc").args(["--print", "target-libdir", "--target", triple]).output();
    let is = libraries.is_ok_and(|o| Path::new(text(&o.stdout).trim()).is_dir());
    if !is {
        println!("rustup target add {triple}: skipped");
    }
    is
}

#[test]
fn a_model_runs_without_a_program() -> Result<()> {
    let case = Case::new()?;
    let out = case.talweg(&["run", "net", "image=x.npy", "-o", "."]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    case.check(talweg::load_npy(case.path("output.npy"))?.literal()?.bytes());
    let out = case.talweg(&["run", "net", "image=x.npy"]);
    assert!(text(&out.stdout).starts_with("output f32[1, 10] [["), "{}", text(&out.stdout));
    assert!(text(&case.talweg(&["run", "net"]).stdout).contains("f32[batch, 1, 28, 28]"));
    for (args, why) in [
        (&["image=[[1, 2], [3]]"][..], "ragged"),
        (&["image=[1.5]"], "expected f32[batch, 1, 28, 28], got [1]"),
        (&["picture=x.npy"], "no such input"),
        (&["image=[\"a\"]"], "numbers of type f32"),
    ] {
        let out = case.talweg(&[&["run", "net"][..], args].concat());
        assert!(!out.status.success() && text(&out.stderr).contains(why), "{args:?}: {}", text(&out.stderr));
    }
    Ok(())
}

#[test]
fn what_cannot_be_built_is_refused() -> Result<()> {
    let case = Case::new()?;
    for (args, why) in [
        (&["nothing"][..], "nothing/model.json"),
        (&["net", "--size", "rows=2"], "no size \"rows\""),
        (&["net", "--isa", "sse9"], "sse9"),
    ] {
        let out = case.talweg(&[&["build"][..], args].concat());
        assert!(!out.status.success() && text(&out.stderr).contains(why), "{args:?}: {}", text(&out.stderr));
    }
    Ok(())
}

#[test]
#[ignore = "compiles a program"]
fn a_program_computes_what_the_model_does() -> Result<()> {
    let case = Case::new()?;
    case.build(&["-o", "app"]);
    let run =
        |args: &[&str]| Command::new(case.path("app")).args(args).current_dir(case.folder.path()).output().unwrap();
    let out = run(&["image=x.npy", "-o", "y.raw"]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    case.check(&std::fs::read(case.path("y.raw"))?);
    assert!(text(&run(&["image=x.npy"]).stdout).starts_with("output f32[1, 10] [["));
    assert!(text(&run(&[]).stdout).contains("image"));
    assert!(text(&run(&["image=app"]).stderr).contains("f32[1, 1, 28, 28]"));
    println!("{}", text(&run(&["--time", "200"]).stdout));
    let bytes = std::fs::metadata(case.path("app"))?.len();
    assert!(bytes <= PROGRAM_BYTES_MAX, "{bytes} bytes");
    Ok(())
}

/// The first layers of MobileNet v2, and its last.
fn mobile(x: &Tensor) -> Tensor {
    let conv = |x: &Tensor, w: &[usize], stride: usize, groups: usize| {
        let options =
            ConvOptions { padding: (w[2] / 2).into(), stride: stride.into(), groups, ..ConvOptions::default() };
        x.conv2d(&(wave(w, 0.77) * 0.2), None, options) + wave(&[w[0], 1, 1], 0.3)
    };
    let h = conv(x, &[32, 3, 3, 3], 2, 1).clamp(0.0, 6.0);
    let h = conv(&h, &[32, 1, 3, 3], 1, 32).clamp(0.0, 6.0);
    let h = conv(&h, &[16, 32, 1, 1], 1, 1);
    let y = conv(&h, &[96, 16, 1, 1], 1, 1).clamp(0.0, 6.0);
    let y = conv(&y, &[96, 1, 3, 3], 1, 96).clamp(0.0, 6.0);
    let h = h + conv(&y, &[16, 96, 1, 1], 1, 1);
    conv(&h, &[128, 16, 1, 1], 1, 1).clamp(0.0, 6.0).mean([2, 3]).matmul(&(wave(&[128, 10], 1.1) * 0.05))
}

#[test]
#[ignore = "compiles a program"]
fn a_program_of_mobile_net_is_small() -> Result<()> {
    let case = Case::of(&wave(&[1, 3, 64, 64], 0.013), mobile)?;
    case.build(&["-o", "app"]);
    let mut app = Command::new(case.path("app"));
    let out = app.args(["image=x.npy", "-o", "y.raw"]).current_dir(case.folder.path()).output()?;
    assert!(out.status.success(), "{}", text(&out.stderr));
    case.check(&std::fs::read(case.path("y.raw"))?);
    let model = std::fs::metadata(case.path("app.build/model.bin"))?.len();
    let bytes = std::fs::metadata(case.path("app"))?.len() - model;
    println!("{bytes} bytes without the model");
    assert!(bytes <= MOBILE_NET_BYTES_MAX, "{bytes} bytes");
    Ok(())
}

const C: &str = r#"
#include "net.h"
#include <stdio.h>
int main(void) {
    static float image[NET_IMAGE_COUNT], output[NET_OUTPUT_COUNT];
    const void *inputs[1] = { image };
    void *outputs[1] = { output };
    if (net_run(inputs, outputs) == 0) return 2; /* not ready */
    if (net_init() != 0) { fprintf(stderr, "%s\n", net_error()); return 1; }
    if (fread(image, sizeof image, 1, stdin) != 1) return 3;
    if (net_run(inputs, outputs) != 0) { fprintf(stderr, "%s\n", net_error()); return 1; }
    return fwrite(output, sizeof output, 1, stdout) != 1;
}
"#;

#[test]
#[ignore = "compiles a library"]
fn a_library_is_called_from_c() -> Result<()> {
    if !has("gcc") {
        return Ok(());
    }
    let case = Case::new()?;
    case.build(&["--lib"]);
    std::fs::write(case.path("main.c"), C)?;
    let mut gcc = Command::new("gcc");
    gcc.args(["-Wall", "-Werror", "main.c", "libnet.a", "-lpthread", "-ldl", "-lm", "-o", "main"]);
    let out = gcc.current_dir(case.folder.path()).output()?;
    assert!(out.status.success(), "{}", text(&out.stderr));
    let input = std::fs::read(case.path("x.npy"))?;
    std::fs::write(case.path("x.raw"), &input[input.len() - 28 * 28 * 4..])?;
    let stdin = std::fs::File::open(case.path("x.raw"))?;
    let out = Command::new(case.path("main")).stdin(stdin).output()?;
    assert!(out.status.success(), "{}: {}", out.status, text(&out.stderr));
    case.check(&out.stdout);
    Ok(())
}

#[test]
#[ignore = "compiles a program"]
fn a_program_for_arm_runs_emulated() -> Result<()> {
    if !has("qemu-aarch64") || !has_target("aarch64-unknown-linux-musl") {
        return Ok(());
    }
    let case = Case::new()?;
    case.build(&["--target", "aarch64", "-o", "app"]);
    for cpu in ["cortex-a53", "max"] {
        let mut qemu = Command::new("qemu-aarch64");
        let out =
            qemu.args(["-cpu", cpu, "app", "image=x.npy", "-o", "y.raw"]).current_dir(case.folder.path()).output()?;
        assert!(out.status.success(), "{}", text(&out.stderr));
        case.check(&std::fs::read(case.path("y.raw"))?);
    }
    Ok(())
}

/// Answers requests for files of a folder until the process ends.
fn serve(folder: PathBuf) -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = move |mut stream: TcpStream| -> std::io::Result<()> {
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone()?);
        reader.read_line(&mut line)?;
        let mut rest = String::new();
        while reader.read_line(&mut rest)? > 2 {
            rest.clear();
        }
        let name = line.split(' ').nth(1).unwrap_or_default().trim_start_matches('/').to_string();
        let (status, body) = match std::fs::read(folder.join(&name)) {
            Ok(body) if !name.contains("..") => ("200 OK", body),
            _ => ("404 Not Found", Vec::new()),
        };
        let kind = match name.rsplit('.').next() {
            Some("html") => "text/html",
            Some("js") => "text/javascript",
            Some("wasm") => "application/wasm",
            _ => "application/octet-stream",
        };
        let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n", body.len());
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
        stream.write_all(&body)
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A browser that hangs up is none of the test's business.
            let _ = answer(stream);
        }
    });
    Ok(port)
}

/// A page of `crates/edge/web` in a browser, with a module that was built.
struct Page<'a> {
    case: &'a Case,
    url: String,
}

impl Page<'_> {
    /// Builds a module for an exported model and serves it with a page. `None` without a browser.
    fn new<'a>(case: &'a Case, model: &str, file: &str, hash: &str) -> Result<Option<Page<'a>>> {
        if !has_target("wasm32-unknown-unknown") || !has("chromium") {
            return Ok(None);
        }
        let out = case.talweg(&["build", model, "--target", "wasm32", "-o", "model.wasm"]);
        assert!(out.status.success(), "{}", text(&out.stderr));
        print!("{}", text(&out.stdout));
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../edge/web").join(file);
        std::fs::copy(&page, case.path(file))?;
        let mut gzip = 0;
        for name in [file, "model.js", "model.wasm"] {
            let out = Command::new("gzip").args(["-9", "-c", name]).current_dir(case.folder.path()).output()?;
            gzip += out.stdout.len();
        }
        println!("the page without weights: {gzip} bytes by gzip");
        assert!(gzip <= PAGE_GZIP_BYTES_MAX, "{gzip}");
        let port = serve(case.folder.path().to_path_buf())?;
        Ok(Some(Page { case, url: format!("http://127.0.0.1:{port}/{file}#{hash}") }))
    }
    fn open(&self, args: &[&str]) -> std::io::Result<Output> {
        let mut c = Command::new("chromium");
        c.args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]);
        c.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        c.arg(format!("--user-data-dir={}", self.case.path("browser").display()));
        c.args(["--virtual-time-budget=20000", "--window-size=760,560"]).args(args).arg(&self.url);
        c.output()
    }
    /// The page when it shows all of some words.
    fn with(&self, words: &[&str]) -> std::io::Result<String> {
        // The browser's virtual time waits neither for the module's compilation nor for timers of the page: on a busy
        // machine the page may be seen half done.
        let deadline = Instant::now() + Duration::from_secs(180);
        loop {
            let out = self.open(&["--dump-dom"])?;
            let page = text(&out.stdout);
            if words.iter().all(|w| page.contains(w)) {
                return Ok(page);
            }
            assert!(Instant::now() < deadline, "{page}\n{}", text(&out.stderr));
        }
    }
    /// Takes an image of the page where one is asked for.
    fn screenshot(&self) -> std::io::Result<()> {
        match std::env::var("TALWEG_SCREENSHOT") {
            Ok(path) => self.open(&[&format!("--screenshot={path}")]).map(|_| ()),
            Err(_) => Ok(()),
        }
    }
}

#[test]
#[ignore = "compiles a module"]
fn a_page_classifies_a_drawing() -> Result<()> {
    let case = Case::new()?;
    // A model that was trained shows more in an image: `TALWEG_PAGE_MODEL` and `TALWEG_SCREENSHOT`.
    let model = std::env::var("TALWEG_PAGE_MODEL").unwrap_or_else(|_| "net".into());
    let Some(page) = Page::new(&case, &model, "index.html", "70,60%20210,60%20130,230")? else { return Ok(()) };
    let shown = page.with(&["It is a ", "class=\"best\""])?;
    if std::env::var("TALWEG_SCREENSHOT").is_ok() {
        assert!(shown.contains("It is a 7"), "{shown}");
    }
    page.screenshot()?;
    Ok(())
}

const CONTEXT: usize = 12;
const ALPHABET: &str = "abcdefgh";

/// A language model of one layer: characters `[1, CONTEXT]` to scores of the next one at each place.
fn writer(characters: &Tensor) -> Tensor {
    let width = 16;
    let x = wave(&[8, width], 1.3).embedding(characters) + wave(&[CONTEXT, width], 0.6);
    let x = x.layer_norm(1, None, None, 1e-5);
    let [q, k, v] = [0.7, 0.9, 1.7].map(|step| x.matmul(&wave(&[width, width], step)).unsqueeze(1));
    let y = q.attention(&k, &v, AttentionOptions { causal: true, ..AttentionOptions::default() }).squeeze(1);
    ((x + y).matmul(&wave(&[width, 4 * width], 0.31)).gelu()).matmul(&wave(&[4 * width, 8], 0.53))
}

#[test]
#[ignore = "compiles a module"]
fn a_page_writes_what_the_model_writes() -> Result<()> {
    let case = Case::new()?;
    let dir = case.path("writer");
    let none = Tensor::new([1, CONTEXT], &[0i64; CONTEXT]);
    let export = Export::new("writer").input("characters", &none, &["", ""]).outputs(&["scores"]);
    export.write(&dir, |x| Ok(vec![writer(&x[0])]))?;
    let letters: Vec<String> = ALPHABET.chars().map(|c| format!("\"{c}\"")).collect();
    std::fs::write(case.path("alphabet.json"), format!("[{}]", letters.join(",")))?;
    // The likeliest character each time, beyond the context's length.
    let model = Model::load(&dir)?;
    let mut written: Vec<i64> = vec![1, 0, 3];
    for _ in 0..20 {
        let seen = &written[written.len().saturating_sub(CONTEXT)..];
        let mut codes = seen.to_vec();
        codes.resize(CONTEXT, 0);
        let scores = model.run(&[Tensor::new([1, CONTEXT], &codes).literal()?])?.remove(0).to_f64();
        let last = &scores[(seen.len() - 1) * 8..seen.len() * 8];
        written.push((0..8).fold(0, |best, i| if last[i] > last[best] { i } else { best }) as i64);
    }
    let want: String = written[3..].iter().map(|&c| ALPHABET.as_bytes()[c as usize] as char).collect();
    let Some(page) = Page::new(&case, "writer", "text.html", "text=bad&letters=20&temperature=0")? else {
        return Ok(());
    };
    page.with(&["Wrote 20 letters", &format!("bad<b>{want}</b>")])?;
    page.screenshot()?;
    Ok(())
}
