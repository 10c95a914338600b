//! Headers and greetings: what is read is written back to the same bytes, all else is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use net::{HEADER_BYTES, Header, Hello};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(hello) = Hello::decode(bytes) {
        let again = Hello::decode(&hello.encode()).expect("what was written reads");
        assert_eq!(again, hello);
    }
    let Some(head) = bytes.first_chunk::<HEADER_BYTES>() else { return };
    let mut head = *head;
    let sum = crc32c::crc32c(&head[..HEADER_BYTES - 4]);
    head[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
    if let Ok(h) = Header::decode(&head) {
        assert_eq!(Header::decode(&h.encode()).expect("what was written reads"), h);
    }
});
