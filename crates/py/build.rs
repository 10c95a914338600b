//! Writes the Python methods of `Tensor` from the signatures of the op table's methods, so that an
//! op is in Python by being in the table.

mod generate;

use std::path::Path;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|e| panic!("{name}: {e}"));
    let here = variable("CARGO_MANIFEST_DIR");
    let ops = Path::new(&here).join("../ops/src");
    println!("cargo::rerun-if-changed={}", ops.display());
    println!("cargo::rerun-if-changed=generate");
    let table = generate::read::table(&ops).unwrap_or_else(|e| panic!("{e}"));
    let out = variable("OUT_DIR");
    let write = |name: &str, text: String| {
        std::fs::write(Path::new(&out).join(name), text).unwrap_or_else(|e| panic!("{name}: {e}"));
    };
    write("methods.rs", generate::rust::methods(&table));
    // For the tests: the stubs as they should be, and the methods that are not bound.
    let package = Path::new(&here).join("../../python/talweg");
    let read = |name: &str| {
        println!("cargo::rerun-if-changed={}", package.join(name).display());
        std::fs::read_to_string(package.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    // PyTorch's functions, a file a family.
    let folder = package.join("_functions");
    println!("cargo::rerun-if-changed={}", folder.display());
    let found = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut modules: Vec<String> = found.filter_map(|f| f.ok()?.file_name().into_string().ok()).collect();
    modules.retain(|name| name.ends_with(".py") && name != "__init__.py");
    modules.sort();
    let modules = modules.iter().map(|name| read(&format!("_functions/{name}")));
    write("stubs.pyi", generate::stubs::all(&table, &generate::functions::ByHand::read(modules)));
    write("unbound.txt", generate::params::unbound(&table).join("\n"));
    // Python's symbols are there when the interpreter loads the module; macOS has to be told.
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("macos") {
        println!("cargo::rustc-cdylib-link-arg=-undefined");
        println!("cargo::rustc-cdylib-link-arg=dynamic_lookup");
    }
}
