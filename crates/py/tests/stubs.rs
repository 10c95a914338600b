//! The type stubs agree with the op table, and every op of it is in Python.

use std::path::Path;

const STUBS: &str = include_str!(concat!(env!("OUT_DIR"), "/stubs.pyi"));

#[test]
fn every_op_has_a_python_spelling() {
    let missing = include_str!(concat!(env!("OUT_DIR"), "/unbound.txt"));
    let hint = "teach crates/py/generate/params.rs the type, or list the method in BY_HAND";
    assert!(missing.is_empty(), "{hint}:\n{missing}");
}

#[test]
fn stubs_are_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/talweg/__init__.pyi");
    if std::env::var_os("TALWEG_BLESS").is_some() {
        std::fs::write(&path, STUBS).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(found == STUBS, "run TALWEG_BLESS=1 cargo test -p talweg-py");
}

#[test]
fn an_op_written_by_a_macro_has_its_worked_example() {
    let elu = STUBS.split("    def elu(self, alpha: builtins.float = 1.0) -> Tensor:").nth(1).unwrap();
    assert!(elu.contains(">>> tensor([-1.0, 0.0, 3.0]).elu(2.0).tolist()"));
}
