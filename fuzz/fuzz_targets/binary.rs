//! Any payload, with a header and a checksum that fit: an error, or a graph that keeps the rules
//! and reads back equal.
#![no_main]

use ir::Graph;
use libfuzzer_sys::fuzz_target;

fn sealed(payload: &[u8]) -> Vec<u8> {
    // The header of an empty graph: magic and version.
    let mut out = Graph::new().to_bytes()[..10].to_vec();
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(payload);
    let sum = payload.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, &b| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3));
    out.extend(sum.to_le_bytes());
    out
}

fuzz_target!(|payload: &[u8]| {
    let find = |name: &str| ops::find(name);
    if let Ok(g) = Graph::from_bytes(&sealed(payload), &find) {
        g.verify().expect("what is read keeps the rules");
        assert_eq!(Graph::from_bytes(&g.to_bytes(), &find).expect("what is written is read"), g);
    }
});
