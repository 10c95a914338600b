//! Damaged messages, by the seed: what reads them refuses them or takes them, and never panics; and
//! a server that has heard a million of them from one worker still serves another.
//!
//! `TALWEG_INPUTS=5000000 cargo test --release -p talweg-dist --test hostile` is the long run.

use net::Header;
use std::sync::Arc;
use talweg_dist::{
    Add, Client, Envelope, Map, Message, Outbox, Partition, Peer, Record, Request, Rows, Rule, Table, Update,
};

fn inputs(most: usize) -> usize {
    std::env::var("TALWEG_INPUTS").ok().and_then(|n| n.parse().ok()).unwrap_or(most)
}

/// Numbers by the seed.
struct Seeded(u64);
impl Seeded {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
    /// Few numbers are likely to mean something; most mistakes are near their ends.
    fn number(&mut self) -> u64 {
        match self.below(5) {
            0 => self.below(6) as u64,
            1 => u64::from(u32::MAX) - self.below(3) as u64,
            2 => u64::MAX - self.below(3) as u64,
            3 => 1 << self.below(64),
            _ => self.next(),
        }
    }
    fn damage(&mut self, h: &mut Header, words: &mut Vec<f32>) {
        for _ in 0..=self.below(3) {
            match self.below(11) {
                0 => h.flags ^= 1 << self.below(16),
                1 => h.epoch = self.number(),
                2 => h.request = self.number(),
                3 => h.clock = self.number(),
                4 => h.table = self.number() as u32,
                5 => h.key = self.number(),
                6 => h.count = self.number() as u32,
                7 => words.truncate(self.below(words.len() + 1)),
                8 => words.push(f32::from_bits(self.number() as u32)),
                9 => h.kind = self.below(24) as u8,
                _ if words.is_empty() => {}
                _ => {
                    let at = self.below(words.len());
                    // The length of a packed update is what memory is taken for: stay below a few MB.
                    let most = if at == 0 { 1 << 20 } else { u64::MAX };
                    words[at] = f32::from_bits((self.number() % most) as u32);
                }
            }
        }
    }
}

fn update(filter: Option<&str>, rows: usize) -> Update {
    let values: Vec<f32> = (0..8).map(|i| i as f32).collect();
    let filter = filter.map(|f| f.parse::<talweg_dist::Filter>().unwrap());
    let data = filter.map_or(values.clone(), |f| f.pack(&values, &mut [0.0; 8]).unwrap());
    Update {
        table: 0,
        block: 0,
        rows: Rows::of(0..rows as u32),
        data: Arc::new(data),
        rate: 0.1,
        numbers: None,
        count: 1,
        filter,
    }
}

/// One of every kind.
fn messages() -> Vec<Message> {
    let data = Arc::new(vec![1.0; 8]);
    let record = |record| Message::Record { stream: 1, seq: 0, record };
    let mut all = vec![
        Message::Map(Arc::new(Map::new(1, &[0, 1], 2, 2).unwrap())),
        Message::Create { table: 0, block: 0, width: 2, data: data.clone() },
        Message::Created { table: 0, block: 0 },
        Message::Push { life: 1, clock: 0, index: 0, last: true, update: None },
        Message::Settled { clock: 1, closed: 1 },
        Message::Pull { clock: 0, request: (1 << 40) + 1, table: 0, block: 0, rows: Rows::default() },
        Message::Pull { clock: 0, request: (1 << 40) + 2, table: 0, block: 0, rows: vec![0, 3].into() },
        Message::Dump { clock: 0, request: (1 << 40) + 3, table: 0, block: 0 },
        Message::Restore { table: 0, block: 0, data: Arc::new(vec![0.0; 10]) },
        Message::Value { request: (1 << 40) + 1, closed: 0, data: data.clone() },
        Message::Fresh { table: 0, block: 0, closed: 1, data: data.clone() },
        Message::Join { life: 1 },
        Message::Joined { life: 1, clock: 1 },
        record(Record::Reset),
        record(Record::Block { table: 0, block: 0, version: 1, width: 2, arrays: vec![data.clone(), data] }),
        record(Record::Update(update(None, 4))),
        record(Record::Commit { settled: vec![1, 1].into(), applied: 1 }),
        Message::RecordAck { stream: 1, seq: 1 },
        Message::Moved,
        Message::DiskFull,
    ];
    for filter in [None, Some("bf16"), Some("int8"), Some("1bit"), Some("top:0.5")] {
        for rows in [0, 4] {
            let update = Some(update(filter, rows));
            all.push(Message::Push { life: 1, clock: 0, index: 0, last: true, update });
        }
    }
    all
}

/// A message that has been damaged, if it is still one.
fn damaged(r: &mut Seeded, messages: &[Message]) -> Option<Envelope> {
    let message = messages[r.below(messages.len())].clone();
    let (mut h, parts) = Envelope { partition: 0, epoch: 1, message }.encode(r.below(3) as u32);
    let bytes = parts.slices().concat();
    let mut words: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|c| f32::from_le_bytes(*c)).collect();
    r.damage(&mut h, &mut words);
    Envelope::decode(&h, words).ok()
}

#[test]
fn messages_are_read_or_refused() {
    let (mut r, messages) = (Seeded(3), messages());
    let read = (0..inputs(100_000)).filter(|_| damaged(&mut r, &messages).is_some()).count();
    assert!(read > 0, "some damage is harmless");
    for _ in 0..inputs(100_000) {
        let ask = [
            Request::Get("key"),
            Request::Wait("key", 3),
            Request::CompareSet("key", Some(b"old"), b"new"),
            Request::Add("key", -1),
        ];
        let (mut h, parts) = ask[r.below(4)].encode(1);
        let mut payload = parts.concat();
        let mut none = Vec::new();
        r.damage(&mut h, &mut none);
        h.kind = 78 + r.below(12) as u8;
        payload.truncate(r.below(payload.len() + 2));
        let _ = Request::decode(&h, &payload);
    }
}

/// Hands messages to the server and the worker until nothing is left to say.
fn settle(p: &mut Partition, client: &mut Client, out: Outbox) {
    let mut queue = out;
    while let Some((to, e)) = queue.pop() {
        match to {
            Peer::Server(0) => p.handle(Peer::Worker(0), e, &mut queue).unwrap(),
            Peer::Worker(0) => queue.extend(client.handle(Peer::Server(0), e).unwrap()),
            _ => {}
        }
    }
}

#[test]
fn a_server_survives_what_a_worker_may_say() {
    let (mut r, messages) = (Seeded(4), messages());
    let (mut refused, mut taken) = (0, 0);
    // Often from the start, so that no piece of nonsense hides what would come after it.
    for round in 0..inputs(100_000) / 50 {
        let rule = [Rule::BSP, Rule::ASYNC, "ssp:2".parse().unwrap(), Rule::backup(1)][round % 4];
        let map = Arc::new(Map::new(1, &[0], 1, 2).unwrap());
        let announce = Envelope { partition: 0, epoch: map.epoch, message: Message::Map(map) };
        let mut p = Partition::new(0, 0, 2, Arc::new(rule), Box::new(Add));
        p.handle(Peer::Coordinator, announce.clone(), &mut Outbox::new()).unwrap();
        let mut honest = Client::new(0, 1, false);
        let out = honest.handle(Peer::Coordinator, announce).unwrap();
        settle(&mut p, &mut honest, out);
        let out = honest.join();
        settle(&mut p, &mut honest, out);
        // The honest worker's table is another than the one that is talked nonsense about.
        let mine = Table::new(7, 4, 2, 4).unwrap();
        for b in 0..mine.blocks() {
            let out = honest.create(&mine, b, Arc::new(vec![0.0; mine.elements(b).len()]));
            settle(&mut p, &mut honest, out);
        }
        for _ in 0..50 {
            let Some(e) = damaged(&mut r, &messages) else { continue };
            let peer = [Peer::Worker(1), Peer::Worker(9), Peer::Server(1)][r.below(3)];
            match p.handle(peer, e, &mut Outbox::new()) {
                Ok(_) => taken += 1,
                Err(_) => refused += 1,
            }
        }
        assert!(honest.is_created(), "round {round}");
    }
    assert!(refused > 0 && taken > 0, "{refused} refused, {taken} taken");
}
