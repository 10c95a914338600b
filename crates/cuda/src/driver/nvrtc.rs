//! From source text to machine code: NVRTC, with what it made kept on disk.

#![allow(unsafe_code)]

use crate::emit;
use cudarc::nvrtc::{result as nvrtc, sys};
use ir::{Error, ErrorKind, Result};
use std::ffi::CString;
use std::hash::{Hash, Hasher};
use std::path::PathBuf;

/// Changes when kernels compiled by an earlier version must not be used any more.
const VERSION: u32 = 1;

fn failed(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Device, message)
}

/// True if NVRTC can be loaded.
pub fn is_present() -> bool {
    // SAFETY: it only tries to load the library by its usual names.
    unsafe { sys::is_culib_present() }
}

/// The machine code of kernels for an architecture such as `sm_90`, from the cache where the same
/// text was compiled before.
pub fn compile(sources: &[&str], arch: &str) -> Result<Vec<u8>> {
    let unit = emit::unit(sources);
    let path = cached_at("kernels", &format!("{arch} {VERSION}\n{unit}"));
    if let Some(code) = path.as_ref().and_then(|p| std::fs::read(p).ok()).filter(|c| !c.is_empty()) {
        return Ok(code);
    }
    let code = compile_unit(&unit, arch)?;
    if let Some(path) = path {
        keep(&path, &code);
    }
    Ok(code)
}

/// The machine code of kernels, compiled anew.
pub fn compile_new(sources: &[&str], arch: &str) -> Result<Vec<u8>> {
    compile_unit(&emit::unit(sources), arch)
}

/// Compiles a translation unit.
fn compile_unit(unit: &str, arch: &str) -> Result<Vec<u8>> {
    if !is_present() {
        return Err(failed(
            "NVRTC (libnvrtc.so) was not found; it comes with the CUDA toolkit or PyPI's nvidia-cuda-nvrtc",
        ));
    }
    let text = CString::new(unit).map_err(|_| Error::bug("a kernel's text holds a zero byte"))?;
    let program = nvrtc::create_program(&text, None).map_err(|e| failed(format!("NVRTC: {e}")))?;
    let options = [format!("--gpu-architecture={arch}"), "--std=c++17".into(), "-w".into(), "-default-device".into()];
    // SAFETY: the program was just made and is destroyed once, below.
    let done = unsafe { nvrtc::compile_program(program, &options) };
    let code = match done {
        // SAFETY: as above.
        Ok(()) => unsafe { code_of(program) },
        Err(e) => {
            // SAFETY: as above.
            let log = unsafe { nvrtc::get_program_log(program) }.unwrap_or_default();
            let log: String = log.iter().map(|&c| c as u8 as char).filter(|c| *c != '\0').collect();
            Err(if unit.contains(emit::kernels::CUSTOM) {
                Error::value(format!("the CUDA source of a custom op does not compile ({e}):\n{log}"))
            } else {
                Error::bug(format!("a generated kernel does not compile ({e}):\n{log}\n{}", numbered(unit)))
            })
        }
    };
    // SAFETY: as above.
    unsafe { nvrtc::destroy_program(program) }.map_err(|e| failed(format!("NVRTC: {e}")))?;
    code
}

/// The lines of a text with their numbers.
fn numbered(text: &str) -> String {
    text.lines().enumerate().map(|(i, l)| format!("{:4} {l}\n", i + 1)).collect()
}

/// # Safety
/// The program was compiled.
unsafe fn code_of(program: sys::nvrtcProgram) -> Result<Vec<u8>> {
    let ask = |r: sys::nvrtcResult| r.result().map_err(|e| failed(format!("NVRTC: {e}")));
    let mut size = 0;
    // SAFETY: the caller's promise.
    ask(unsafe { sys::nvrtcGetCUBINSize(program, &mut size) })?;
    let mut code = vec![0u8; size];
    // SAFETY: the buffer has the size that was asked for.
    ask(unsafe { sys::nvrtcGetCUBIN(program, code.as_mut_ptr().cast()) })?;
    Ok(code)
}

/// The file that what belongs to a text is kept in; `None` if there is no place for it, or none is
/// wanted (`TALWEG_CACHE` is empty).
pub(crate) fn cached_at(folder: &str, text: &str) -> Option<PathBuf> {
    let dir = match std::env::var_os("TALWEG_CACHE") {
        Some(d) if d.is_empty() => return None,
        Some(d) => PathBuf::from(d),
        None => match std::env::var_os("XDG_CACHE_HOME") {
            Some(d) => PathBuf::from(d).join("talweg"),
            None => PathBuf::from(std::env::var_os("HOME")?).join(".cache/talweg"),
        },
    };
    let part = |salt: u32| {
        let mut h = std::hash::DefaultHasher::new();
        (salt, text).hash(&mut h);
        h.finish()
    };
    Some(dir.join(folder).join(format!("{:016x}{:016x}", part(0), part(1))))
}

/// Writes a file whole or not at all; without a cache everything still works.
pub(crate) fn keep(path: &std::path::Path, code: &[u8]) {
    let Some(dir) = path.parent() else { return };
    let part = dir.join(format!(".{}-{:?}", std::process::id(), std::thread::current().id()));
    let written = std::fs::create_dir_all(dir).and_then(|()| std::fs::write(&part, code));
    if written.and_then(|()| std::fs::rename(&part, path)).is_err() {
        let _ = std::fs::remove_file(&part);
    }
}
