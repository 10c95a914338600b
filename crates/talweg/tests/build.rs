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
use talweg::prelude::{DType, Result, Tensor};

const TALWEG: &str = env!("CARGO_BIN_EXE_talweg");
/// The most that a program of such a net takes, one of MobileNet's layers without its weights, and a page without its.
const PROGRAM_BYTES_MAX: u64 = 1_000_000;
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

/// Answers requests for files of a folder until the process ends. A page that is asked for with `hold=MS` is complete
/// only after that time: the browser shows it then, whatever it waits for.
fn serve(folder: PathBuf) -> std::io::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let answer = |folder: PathBuf, mut stream: TcpStream| -> std::io::Result<()> {
        let mut line = String::new();
        let mut reader = BufReader::new(stream.try_clone()?);
        reader.read_line(&mut line)?;
        let mut rest = String::new();
        while reader.read_line(&mut rest)? > 2 {
            rest.clear();
        }
        let path = line.split(' ').nth(1).unwrap_or_default();
        let name = path.split('?').next().unwrap_or_default().trim_start_matches('/').to_string();
        let hold = path.split("hold=").nth(1).and_then(|ms| ms.parse::<u64>().ok());
        if name == "wait" {
            std::thread::sleep(Duration::from_millis(hold.unwrap_or(0)));
        }
        let (status, mut body) = match std::fs::read(folder.join(&name)) {
            Ok(body) if !name.contains("..") => ("200 OK", body),
            _ => ("404 Not Found", Vec::new()),
        };
        if let Some(ms) = hold.filter(|_| name.ends_with(".html")) {
            body.extend(format!("<img src=\"wait?hold={ms}\" hidden>").bytes());
        }
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
            let folder = folder.clone();
            // A browser that hangs up is none of the test's business.
            std::thread::spawn(move || drop(answer(folder, stream)));
        }
    });
    Ok(port)
}

/// A page of `crates/edge/web` in a browser, with a module that was built.
struct Page<'a> {
    case: &'a Case,
    port: u16,
    file: String,
    hash: String,
    is_on_gpu: bool,
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
        Ok(Some(Page { case, port, file: file.into(), hash: hash.into(), is_on_gpu: false }))
    }
    /// From now on the browser has WebGPU, in software, and the page must use it.
    fn on_gpu(&mut self) {
        self.is_on_gpu = true;
    }
    fn open(&self, args: &[&str], hold_ms: u64) -> std::io::Result<Output> {
        let mut c = Command::new("chromium");
        c.args(["--headless", "--no-sandbox", "--disable-quic", "--no-first-run"]);
        let query = if self.is_on_gpu {
            c.args(["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]);
            format!("device=webgpu&hold={hold_ms}")
        } else {
            c.args(["--disable-gpu", "--virtual-time-budget=20000"]);
            "device=wasm".into()
        };
        c.args(["--disable-background-networking", "--disable-component-update", "--disable-sync"]);
        c.arg(format!("--user-data-dir={}", self.case.path("browser").display()));
        let Page { port, file, hash, .. } = self;
        let url = format!("http://127.0.0.1:{port}/{file}?{query}#{hash}");
        c.arg("--window-size=760,560").args(args).arg(url).output()
    }
    /// The page when it shows all of some words.
    fn with(&self, words: &[&str]) -> std::io::Result<String> {
        // The browser's virtual time waits neither for the module's compilation nor for timers of the page, and real time
        // not for the GPU: on a busy machine the page may be seen half done.
        let deadline = Instant::now() + Duration::from_secs(240);
        let mut hold_ms = 2_000;
        loop {
            hold_ms *= 2;
            let out = self.open(&["--dump-dom"], hold_ms)?;
            let page = text(&out.stdout);
            if words.iter().all(|w| page.contains(w)) {
                return Ok(page);
            }
            assert!(Instant::now() < deadline, "{page}\n{}", text(&out.stderr));
        }
    }
    /// Takes an image of the page into the folder `TALWEG_SCREENSHOTS`, where one is named.
    fn screenshot(&self, name: &str) -> std::io::Result<()> {
        match std::env::var("TALWEG_SCREENSHOTS") {
            Ok(folder) => self.open(&[&format!("--screenshot={folder}/{name}.png")], 10_000).map(|_| ()),
            Err(_) => Ok(()),
        }
    }
}

#[test]
#[ignore = "compiles a module"]
fn a_page_classifies_a_drawing() -> Result<()> {
    let case = Case::new()?;
    // A model that was trained shows more in an image: `TALWEG_PAGE_MODEL` and `TALWEG_SCREENSHOTS`.
    let trained = std::env::var("TALWEG_PAGE_MODEL").ok();
    let model = trained.as_deref().unwrap_or("net");
    let Some(mut page) = Page::new(&case, model, "index.html", "70,60%20210,60%20130,230")? else { return Ok(()) };
    let shown = page.with(&["It is a ", "class=\"best\"", "by WebAssembly"])?;
    assert!(trained.is_none() || shown.contains("It is a 7"), "{shown}");
    page.screenshot("drawing")?;
    // Both ways have the same opinion: the number, and the probability of each class.
    let answer = |page: &str| {
        let digit = page.split("It is a ").nth(1).and_then(|t| t.split(". That").next()).map(str::to_string);
        let meters = page.split("value=\"").skip(1).filter_map(|t| t.split('"').next()?.parse::<f64>().ok());
        (digit, meters.collect::<Vec<f64>>())
    };
    page.on_gpu();
    let on_gpu = page.with(&["It is a ", "class=\"best\"", "by WebGPU"])?;
    let ((digit, want), (other, got)) = (answer(&shown), answer(&on_gpu));
    assert_eq!((digit, want.len()), (other, got.len()), "{on_gpu}");
    assert!(want.len() >= 10 && got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-4), "{got:?} {want:?}");
    Ok(())
}

const CONTEXT: usize = 12;
const ALPHABET: &str = "abcdefgh";
const WIDTH: usize = 16;

/// Queries, keys and values of places, `[1, 1, places, WIDTH]` each.
fn qkv(x: &Tensor) -> [Tensor; 3] {
    [0.7, 0.9, 1.7].map(|step| x.matmul(&wave(&[WIDTH, WIDTH], step)).unsqueeze(1))
}
fn embedded(characters: &Tensor, places: &Tensor) -> Tensor {
    (wave(&[8, WIDTH], 1.3).embedding(characters) + places).layer_norm(1, None, None, 1e-5)
}
fn scores(x: &Tensor, y: &Tensor) -> Tensor {
    ((x + y.squeeze(1)).matmul(&wave(&[WIDTH, 4 * WIDTH], 0.31)).gelu()).matmul(&wave(&[4 * WIDTH, 8], 0.53))
}

/// A language model of one layer: characters `[1, CONTEXT]` to scores of the next one at each place.
fn writer(characters: &Tensor) -> Tensor {
    let x = embedded(characters, &wave(&[CONTEXT, WIDTH], 0.6));
    let [q, k, v] = qkv(&x);
    scores(&x, &q.attention(&k, &v, AttentionOptions { causal: true, ..AttentionOptions::default() }))
}

/// The same with a KV cache: a character `[1, 1]`, its place `[1]`, keys and values `[1, CONTEXT, WIDTH]`.
fn step(a: &[Tensor]) -> Vec<Tensor> {
    let places = Tensor::iota(CONTEXT, DType::I64);
    let x = embedded(&a[0], &wave(&[CONTEXT, WIDTH], 0.6).index_select(0, &a[1]));
    let [q, k, v] = qkv(&x);
    let is_here = places.eq(&a[1]).unsqueeze(-1);
    let [k, v] = [(k, &a[2]), (v, &a[3])].map(|(new, cache)| Tensor::where_(&is_here, &new, cache.unsqueeze(0)));
    let mask = Some(places.le(&a[1]).unsqueeze(0));
    let y = q.attention(&k, &v, AttentionOptions { mask, ..AttentionOptions::default() });
    vec![scores(&x, &y), k.squeeze(0), v.squeeze(0)]
}

/// The characters that follow `start`, the likeliest each time, by a model over whole contexts: an oracle that has no
/// cache. A full context goes on with its second half, as in the page.
fn continued(start: &[i64], letters: usize) -> Result<String> {
    let (mut written, mut first) = (start.to_vec(), 0);
    for _ in 0..letters {
        if written.len() - first > CONTEXT {
            first = written.len() - CONTEXT / 2;
        }
        let seen = &written[first..];
        let mut codes = seen.to_vec();
        codes.resize(CONTEXT, 0);
        let scores = writer(&Tensor::new([1, CONTEXT], &codes)).literal()?.to_f64();
        let last = &scores[(seen.len() - 1) * 8..seen.len() * 8];
        written.push((0..8).fold(0, |best, i| if last[i] > last[best] { i } else { best }) as i64);
    }
    Ok(written[start.len()..].iter().map(|&c| ALPHABET.as_bytes()[c as usize] as char).collect())
}

#[test]
#[ignore = "compiles a module"]
fn a_page_writes_what_the_model_writes() -> Result<()> {
    let case = Case::new()?;
    let cache = Tensor::zeros([1, CONTEXT, WIDTH]);
    let export = Export::new("writer")
        .input("character", &Tensor::zeros_of([1, 1], DType::I64), &["", ""])
        .input("place", &Tensor::zeros_of([1], DType::I64), &[""])
        .input("keys", &cache, &[""; 3])
        .input("values", &cache, &[""; 3])
        .outputs(&["scores", "next_keys", "next_values"]);
    export.write(case.path("writer"), |x| Ok(step(x)))?;
    let letters: Vec<String> = ALPHABET.chars().map(|c| format!("\"{c}\"")).collect();
    std::fs::write(case.path("alphabet.json"), format!("[{}]", letters.join(",")))?;
    // Beyond the context's length.
    let want = format!("bad<b>{}</b>", continued(&[1, 0, 3], 20)?);
    let Some(mut page) = Page::new(&case, "writer", "text.html", "text=bad&letters=20&temperature=0")? else {
        return Ok(());
    };
    page.with(&["Wrote 20 letters by WebAssembly", &want])?;
    page.screenshot("text")?;
    page.on_gpu();
    page.with(&["Wrote 20 letters by WebGPU", &want])?;
    Ok(())
}
