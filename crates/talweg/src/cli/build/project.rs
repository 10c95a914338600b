//! The Cargo project of a model, and the C header and JavaScript of a library.

use super::{Kind, in_io};
use crate::{Error, Result};
use ir::{DType, ErrorKind, Type};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Inputs and outputs by name.
pub struct Ports {
    pub inputs: Vec<(String, Type)>,
    pub outputs: Vec<(String, Type)>,
}

/// A project that holds one model.
pub struct Project {
    pub dir: PathBuf,
    pub name: String,
    pub triple: String,
    pub kind: Kind,
    /// What is linked.
    pub link: String,
    pub is_small: bool,
    pub source: Option<PathBuf>,
    pub ports: Ports,
    /// Of a module: there is a program for WebGPU too, and a module with relaxed SIMD.
    pub has_gpu: bool,
    pub has_relaxed: bool,
}

/// A name that C and Rust allow.
pub fn identifier(name: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut id: String = name.chars().map(|c| if is_part(c) { c.to_ascii_lowercase() } else { '_' }).collect();
    if !id.starts_with(|c: char| c.is_ascii_alphabetic()) {
        id.insert_str(0, "model_");
    }
    id
}

/// The sources that this command was compiled from.
fn own_source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Project {
    /// Writes every file.
    pub fn write(&self, bundle: &[u8]) -> Result<()> {
        let source = match &self.source {
            Some(dir) => Some(dir.clone()),
            None => Some(own_source()).filter(|d| d.join("crates/edge/Cargo.toml").exists()),
        };
        let source = source.map(|d| d.canonicalize().map_err(|e| in_io(&d, e))).transpose()?;
        let root = if self.kind == Kind::Program { "main.rs" } else { "lib.rs" };
        let mut files = vec![
            ("Cargo.toml".to_string(), self.manifest(source.as_deref())),
            (".cargo/config.toml".to_string(), self.config()),
            (format!("src/{root}"), self.code()),
        ];
        match self.kind {
            Kind::Program => {}
            Kind::Library => files.push((format!("{}.h", self.name), self.header())),
            Kind::Wasm => files.push((format!("{}.js", self.name), self.script())),
        }
        for folder in ["src", ".cargo"] {
            let dir = self.dir.join(folder);
            std::fs::create_dir_all(&dir).map_err(|e| in_io(&dir, e))?;
        }
        let model = ("model.bin".to_string(), bundle.to_vec());
        for (name, bytes) in files.into_iter().map(|(n, t)| (n, t.into_bytes())).chain([model]) {
            let path = self.dir.join(name);
            // Cargo compiles again what is newer.
            if std::fs::read(&path).is_ok_and(|old| old == bytes) {
                continue;
            }
            std::fs::write(&path, bytes).map_err(|e| in_io(&path, e))?;
        }
        // The versions of other crates that Talweg was tested with.
        if let Some(lock) = source.map(|s| s.join("Cargo.lock")).filter(|l| l.exists()) {
            std::fs::copy(&lock, self.dir.join("Cargo.lock")).map_err(|e| in_io(&lock, e))?;
        }
        Ok(())
    }

    /// Has Cargo compile it; the file it made. A module is compiled with relaxed SIMD if that is asked for.
    pub fn compile(&self, is_relaxed: bool) -> Result<PathBuf> {
        let failed = |e: String| Error::new(ErrorKind::Io, e);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command.args(["build", "--release", "--quiet", "--target", &self.triple]).current_dir(&self.dir);
        // Those of an enclosing build are not for this one.
        command.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_TARGET_DIR");
        let target = self.dir.join(if is_relaxed { "target-relaxed" } else { "target" });
        if is_relaxed {
            command.env("RUSTFLAGS", "-C target-feature=+simd128,+relaxed-simd").env("CARGO_TARGET_DIR", &target);
        }
        let status = command.status().map_err(|e| failed(format!("cargo: {e}; building needs a Rust toolchain")))?;
        if !status.success() {
            let (dir, t) = (self.dir.display(), &self.triple);
            let e = format!("{dir} did not compile for {t}; `rustup target add {t}` installs what a target needs");
            return Err(failed(e));
        }
        let name = &self.name;
        let file = match self.kind {
            Kind::Program => name.clone(),
            Kind::Library => format!("lib{name}.a"),
            Kind::Wasm => format!("{name}.wasm"),
        };
        Ok(target.join(&self.triple).join("release").join(file))
    }

    fn manifest(&self, source: Option<&Path>) -> String {
        let crate_type = match self.kind {
            Kind::Program => String::new(),
            Kind::Library => "[lib]\ncrate-type = [\"staticlib\"]\n\n".into(),
            Kind::Wasm => "[lib]\ncrate-type = [\"cdylib\"]\n\n".into(),
        };
        let edge = match source {
            Some(dir) => format!("{{ path = {:?} }}", dir.join("crates/edge")),
            None => format!("{:?}", concat!("=", env!("CARGO_PKG_VERSION"))),
        };
        let kernels = if self.is_small { "\"z\"" } else { "2" };
        format!(
            "[package]\nname = \"{}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n{crate_type}\
             [dependencies]\ntalweg-edge = {edge}\n\n\
             [profile.release]\nopt-level = \"z\"\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\nstrip = true\n\n\
             # Kernels are compiled for speed.\n\
             [profile.release.package.talweg-cpu]\nopt-level = {kernels}\n",
            self.name
        )
    }

    fn config(&self) -> String {
        let mut text = format!("[env]\nTALWEG_LINKED = {:?}\n", self.link);
        let t = &self.triple;
        let mut flags = Vec::new();
        if self.kind == Kind::Wasm {
            flags.push("target-feature=+simd128");
        } else {
            // A panic aborts: nothing unwinds.
            flags.push("force-unwind-tables=no");
        }
        let _ = write!(text, "\n[target.{t}]\n");
        if t.ends_with("-musl") {
            // Its own library and rustc's linker: no C compiler is needed.
            let _ = writeln!(text, "linker = \"rust-lld\"");
        }
        if self.kind == Kind::Program && t == "x86_64-unknown-linux-gnu" {
            // At a fixed address, without tables of places to adjust or to unwind; functions of the same code are one.
            flags.extend(["relocation-model=static", "link-arg=-Wl,--icf=all", "link-arg=-Wl,--no-eh-frame-hdr"]);
        }
        let flags: Vec<String> = flags.iter().map(|f| format!("\"-C\", {f:?}")).collect();
        let _ = writeln!(text, "rustflags = [{}]", flags.join(", "));
        text
    }

    fn code(&self) -> String {
        let name = &self.name;
        match self.kind {
            Kind::Program => "//! A program that holds one model.\n\nfn main() -> std::process::ExitCode {\n    \
                              talweg_edge::command(talweg_edge::embed!(\"../model.bin\")).into()\n}\n"
                .into(),
            Kind::Library => format!(
                "//! A library that holds one model; {name}.h declares it.\n\n\
                 talweg_edge::library!({name}_init, {name}_run, {name}_error, talweg_edge::embed!(\"../model.bin\"));\n"
            ),
            Kind::Wasm => "//! A module that runs one model, whose bundle the host hands over.\n\n\
                           talweg_edge::module!();\n"
                .into(),
        }
    }

    fn header(&self) -> String {
        let (name, upper) = (&self.name, self.name.to_ascii_uppercase());
        let mut sizes = String::new();
        let mut list = |what: &str, ports: &[(String, Type)]| {
            for (i, (port, ty)) in ports.iter().enumerate() {
                let id = identifier(port).to_ascii_uppercase();
                let _ = writeln!(sizes, "/* {what} {i}, {port}: {ty}, {} */", c_type(ty.dtype));
                let _ = writeln!(sizes, "#define {upper}_{id}_COUNT {}", ty.shape.count());
            }
        };
        list("input", &self.ports.inputs);
        list("output", &self.ports.outputs);
        let (ins, outs) = (self.ports.inputs.len(), self.ports.outputs.len());
        format!(
            "/* The model {name}, written by talweg build. */\n#ifndef {upper}_H\n#define {upper}_H\n\n\
             #include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {{\n#endif\n\n{sizes}\n\
             /* Makes the model ready to run, once. 0, or 1 if it cannot be run. */\nint {name}_init(void);\n\n\
             /* Reads {ins} inputs and writes {outs} outputs, in the order above, row-major. Several threads may run it.\n   \
             0, or 1 if it failed. Allocates nothing from the second run of a thread on. */\n\
             int {name}_run(const void *const inputs[{ins}], void *const outputs[{outs}]);\n\n\
             /* What failed last in this thread, or an empty string; valid until the next call. */\n\
             const char *{name}_error(void);\n\n#ifdef __cplusplus\n}}\n#endif\n\n#endif\n"
        )
    }

    fn script(&self) -> String {
        let port = |(n, t): &(String, Type)| serde_json::json!({"name": n, "type": t.dtype.name(), "shape": t.shape.dims(), "bytes": t.bytes()});
        let list = |ports: &[(String, Type)]| serde_json::Value::from(ports.iter().map(port).collect::<Vec<_>>());
        let (inputs, outputs) = (list(&self.ports.inputs), list(&self.ports.outputs));
        include_str!("model.js")
            .replace("NAME", &self.name)
            .replace("[/* inputs */]", &inputs.to_string())
            .replace("[/* outputs */]", &outputs.to_string())
            .replace("false /* gpu */", &self.has_gpu.to_string())
            .replace("false /* relaxed */", &self.has_relaxed.to_string())
    }
}

/// The type of an element in C.
fn c_type(d: DType) -> &'static str {
    match d {
        DType::F32 => "float",
        DType::F64 => "double",
        DType::I64 => "int64_t",
        DType::U64 => "uint64_t",
        DType::I32 => "int32_t",
        DType::U32 => "uint32_t",
        DType::I16 => "int16_t",
        DType::U16 => "uint16_t",
        DType::I8 => "int8_t",
        DType::U8 => "uint8_t",
        DType::Bool => "uint8_t, 0 or 1",
        DType::F16 => "uint16_t, the bits of a half",
        DType::BF16 => "uint16_t, the bits of a bfloat16",
        DType::F8E4M3 | DType::F8E5M2 => "uint8_t, the bits of a float of 8 bits",
        DType::C64 | DType::C128 => "complex",
    }
}
