//! Any text: an error, or a graph that keeps the rules and reads back equal.
#![no_main]

use ir::Graph;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let find = |name: &str| ops::find(name);
    if let Ok(g) = Graph::parse(text, &find) {
        g.verify().expect("what is read keeps the rules");
        assert_eq!(Graph::parse(&g.to_string(), &find).expect("what is written is read"), g);
    }
});
