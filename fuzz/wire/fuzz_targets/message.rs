//! Messages of the parameter store, one after the other, handed to a partition by workers and
//! servers that may talk to it: nothing panics, and what is read is written back to the same.

#![no_main]

use dist::{Add, Envelope, Map, Message, Outbox, Partition, Peer, Rule};
use libfuzzer_sys::fuzz_target;
use net::{HEADER_BYTES, Header};
use std::sync::Arc;

fn partition(rule: Rule) -> Partition {
    let mut p = Partition::new(0, 0, 2, Arc::new(rule), Box::new(Add));
    let map = Arc::new(Map::new(2, &[0, 1], 1, 2).expect("a map"));
    let e = Envelope { partition: 0, epoch: map.epoch, message: Message::Map(map) };
    let mut out = Outbox::new();
    p.handle(Peer::Coordinator, e, &mut out).expect("a map is taken");
    let message = Message::Create { table: 0, block: 0, width: 2, data: Arc::new(vec![0.5; 8]) };
    let e = Envelope { partition: 0, epoch: p.epoch(), message };
    p.handle(Peer::Worker(0), e, &mut out).expect("a table is made");
    p
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let rules = [Rule::BSP, Rule::ASYNC, "ssp:2:eager".parse().expect("a rule"), "backup:1".parse().expect("a rule")];
    let mut p = partition(rules[choice as usize % rules.len()]);
    // A byte says who speaks and how many words follow the header.
    while let Some((&who, tail)) = rest.split_first() {
        let Some((head, tail)) = tail.split_first_chunk::<HEADER_BYTES>() else { return };
        let mut head = *head;
        let words = (usize::from(who) >> 2).min(tail.len() / 4);
        let (payload, tail) = tail.split_at(4 * words);
        rest = tail;
        let sum = crc32c::crc32c(&head[..HEADER_BYTES - 4]);
        head[HEADER_BYTES - 4..].copy_from_slice(&sum.to_le_bytes());
        let Ok(h) = Header::decode(&head) else { continue };
        let payload: Vec<f32> = bytemuck::pod_collect_to_vec(payload);
        let Ok(mut e) = Envelope::decode(&h, payload) else { continue };
        let (again, parts) = e.encode(h.sender);
        let words = bytemuck::pod_collect_to_vec::<u8, f32>(&parts.slices().concat());
        assert!(Envelope::decode(&again, words).is_ok(), "{e:?}");
        (e.partition, e.epoch) = (0, p.epoch());
        let peer = if who & 1 == 0 { Peer::Worker(u32::from(who >> 1 & 1)) } else { Peer::Server(1) };
        // Refused or not, it must go on.
        let _ = p.handle(peer, e, &mut Outbox::new());
    }
});
