//! Runs recorded cases, one folder each, and prints one line for each: `passed`, `failed` or `unsupported`. A file
//! `tolerance` in a folder has the relative and absolute tolerance.

use cpu as _;
use onnx::{Tolerance, check_case};
use std::path::Path;
use talweg_onnx as onnx;

fn main() {
    let dirs: Vec<String> = std::env::args().skip(1).collect();
    for dir in dirs {
        let dir = Path::new(&dir);
        let text = std::fs::read_to_string(dir.join("tolerance")).unwrap_or_default();
        let mut numbers = text.split_whitespace().filter_map(|w| w.parse().ok());
        let default = Tolerance::default();
        let tolerance = Tolerance {
            relative: numbers.next().unwrap_or(default.relative),
            absolute: numbers.next().unwrap_or(default.absolute),
        };
        let name = dir.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let done = std::panic::catch_unwind(|| check_case(dir, tolerance));
        let line = match done {
            Ok(Ok(0)) => "failed\tno data".to_string(),
            Ok(Ok(_)) => "passed\t".to_string(),
            Ok(Err(e)) => {
                let text = e.to_string().replace('\n', " ");
                let is_missing = text.contains("not supported") || text.contains("there is no element type");
                format!("{}\t{text}", if is_missing { "unsupported" } else { "failed" })
            }
            Err(_) => "failed\tpanic".to_string(),
        };
        println!("{name}\t{line}");
    }
}
