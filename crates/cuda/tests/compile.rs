//! Every kernel that the op table's samples need compiles, without a GPU: NVRTC is fetched from
//! PyPI where it is not installed, and the test says so and does nothing where it cannot be had.

#![allow(unsafe_code)]

use ir::{Case, DType, Literal, Meaning};
use passes::Watch;
use runtime::reference;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use talweg_cuda::lower::Lowered;
use talweg_cuda::nvrtc;
use talweg_cuda::target::Gpu;

/// The version the wheel is asked for in.
const WHEEL: &str = "nvidia-cuda-nvrtc==13.0.88";
/// Kernels compiled together: starting the compiler costs more than one of them.
const TOGETHER: usize = 64;

/// The folder with NVRTC's libraries from PyPI's wheel, installed below the target folder once.
fn wheel() -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("nvrtc");
    let libraries = root.join("nvidia/cu13/lib");
    if !libraries.join("libnvrtc.so.13").exists() {
        let part = root.with_extension(std::process::id().to_string());
        let done = Command::new("python3")
            .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"])
            .arg(&part)
            .arg(WHEEL)
            .output()
            .map_err(|e| format!("python3 does not start: {e}"))?;
        if !done.status.success() {
            return Err(format!("pip: {}", String::from_utf8_lossy(&done.stderr)));
        }
        std::fs::rename(&part, &root).map_err(|e| format!("{}: {e}", root.display()))?;
    }
    Ok(libraries)
}

/// Makes NVRTC loadable by its name.
fn load() -> Result<(), String> {
    if nvrtc::is_present() {
        return Ok(());
    }
    let dir = wheel()?;
    for name in ["libnvrtc-builtins.so.13.0", "libnvrtc.so.13"] {
        // SAFETY: NVIDIA's libraries may be loaded at any time; they stay loaded.
        let library = unsafe { libloading::Library::new(dir.join(name)) };
        std::mem::forget(library.map_err(|e| format!("{name}: {e}"))?);
    }
    if nvrtc::is_present() { Ok(()) } else { Err("NVRTC was installed, but does not load".to_string()) }
}

/// The kernels of every sample: in every type for primitive ops (in one of each class if
/// `TALWEG_QUICK` is set), in f32 for composites, which consist of them.
fn sources() -> Vec<String> {
    let is_quick = std::env::var_os("TALWEG_QUICK").is_some();
    let is_tried = |d: DType| !is_quick || matches!(d, DType::F32 | DType::BF16 | DType::I32 | DType::F8E5M2);
    let mut all: BTreeSet<String> = BTreeSet::new();
    for op in ops::table() {
        let is_composite = matches!(op.meaning, Meaning::Composite(_));
        for case in (op.cases)() {
            let types = DType::ALL.into_iter().filter(|&d| if is_composite { d == DType::F32 } else { is_tried(d) });
            for dtype in types {
                let convert = |l: &Literal| if l.dtype() == DType::F64 { l.cast(dtype) } else { l.clone() };
                let case = Case { inputs: case.inputs.iter().map(convert).collect(), ..case.clone() };
                // An op may refuse a type.
                let Ok(g) = reference::graph_of(op, &case) else { continue };
                let is_whole = |n: &ir::FlatNode, t: &[ir::Type]| talweg_cuda::target::claims(n, t, (9, 0), &|_| false);
                let g = passes::optimize(&g, &is_whole, &reference::run_node).unwrap();
                let plan = Lowered::new(
                    g,
                    Gpu { capability: (9, 0), supports: &|_| false, is_faster: &|_| false, has_fft: true },
                    &mut Watch::none(),
                )
                .unwrap_or_else(|e| panic!("{} in {dtype}: {e}", op.name));
                all.extend(plan.every_kernel().into_iter().map(|k| k.source.clone()));
            }
        }
    }
    all.extend(golden());
    all.into_iter().collect()
}

/// The kernels of the graphs beside this file, which have ways of their own.
fn golden() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(dir).unwrap().map(|e| std::fs::read_to_string(e.unwrap().path()).unwrap());
    let of = |text: String| {
        let graph = ir::Graph::parse(text.split("----\n").next().unwrap_or(""), &ops::find).unwrap();
        let plan = Lowered::new(
            graph,
            Gpu { capability: (9, 0), supports: &|_| true, is_faster: &|_| true, has_fft: true },
            &mut Watch::none(),
        )
        .unwrap();
        plan.every_kernel().into_iter().map(|k| k.source.clone()).collect::<Vec<_>>()
    };
    files.flat_map(of).collect()
}

#[test]
fn every_kernel_compiles() {
    if let Err(why) = load() {
        println!("no kernel was compiled: {why}");
        return;
    }
    let all = sources();
    assert!(all.len() > 500, "only {} kernels", all.len());
    // Chips without the instructions convert to 8 bits step by step.
    let narrow: Vec<&str> = all.iter().map(String::as_str).filter(|s| s.contains("put_f8")).take(TOGETHER).collect();
    assert!(narrow.len() > 3, "only {} kernels of 8-bit floats", narrow.len());
    nvrtc::compile_new(&narrow, "sm_80").unwrap();
    let failures: Vec<String> = std::thread::scope(|s| {
        let half = all.len().div_ceil(2);
        let run = |part: &[String]| -> Vec<String> {
            let compile =
                |c: &[String]| nvrtc::compile_new(&c.iter().map(String::as_str).collect::<Vec<_>>(), "sm_90a");
            part.chunks(TOGETHER).filter_map(|c| compile(c).err()).map(|e| e.to_string()).collect()
        };
        let tasks: Vec<_> = all.chunks(half).map(|part| s.spawn(move || run(part))).collect();
        tasks.into_iter().flat_map(|t| t.join().unwrap()).collect()
    });
    assert!(failures.is_empty(), "{} units do not compile:\n{}", failures.len(), failures.join("\n"));
    println!("{} kernels compile", all.len());
}
