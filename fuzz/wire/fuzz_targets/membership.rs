//! What comes to the membership store and what it publishes: maps, groups and questions.

#![no_main]

use dist::{Request, Map, View};
use libfuzzer_sys::fuzz_target;
use net::{HEADER_BYTES, Header};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(map) = Map::decode(bytes) {
        assert_eq!(Map::decode(&map.encode()).expect("what was written reads"), map);
    }
    let _ = View::decode(bytes);
    let Some((head, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else { return };
    let mut head = *head;
    let sum = crc32c::crc32c(&head[..HEADER_BYTES - 4]);
    head[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    if let Ok(h) = Header::decode(&head) {
        let _ = Request::decode(&h, payload);
    }
});
