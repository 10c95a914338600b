//! Reads event files back with its own decoder: framing, checksum and
//! messages are written here again, from their definitions.
//!
//! `scripts/check_tensorboard.py` checks the same file with TensorBoard itself; run
//! `TALWEG_EVENTS=FOLDER cargo test -p talweg-data --test events`, then the
//! script with `kinds` and that folder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use talweg_data::events::Events;
use talweg_data::{Array, Digits};

/// CRC-32C bit by bit (Castagnoli polynomial, reflected).
fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

fn masked(bytes: &[u8]) -> u32 {
    let crc = crc32c(bytes);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        assert_eq!(u32::from_le_bytes(bytes[8..12].try_into().unwrap()), masked(&bytes[..8]));
        let body = &bytes[12..12 + length];
        assert_eq!(u32::from_le_bytes(bytes[12 + length..16 + length].try_into().unwrap()), masked(body));
        records.push(body.to_vec());
        bytes = &bytes[16 + length..];
    }
    records
}

/// One field of a message, by wire type.
#[derive(Clone, Debug, PartialEq)]
enum Wire {
    Number(u64),
    Fixed64([u8; 8]),
    Bytes(Vec<u8>),
    Fixed32([u8; 4]),
}

impl Wire {
    fn number(&self) -> u64 {
        let Wire::Number(number) = self else { panic!("{self:?}") };
        *number
    }
    fn double(&self) -> f64 {
        let Wire::Fixed64(bytes) = self else { panic!("{self:?}") };
        f64::from_le_bytes(*bytes)
    }
    fn bytes(&self) -> &[u8] {
        let Wire::Bytes(bytes) = self else { panic!("{self:?}") };
        bytes
    }
    fn message(&self) -> BTreeMap<u64, Wire> {
        decode(self.bytes())
    }
    fn doubles(&self) -> Vec<f64> {
        self.bytes().chunks(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..).step_by(7) {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    value
}

fn decode(mut bytes: &[u8]) -> BTreeMap<u64, Wire> {
    let mut fields = BTreeMap::new();
    while !bytes.is_empty() {
        let tag = varint(&mut bytes);
        let wire = match tag & 7 {
            0 => Wire::Number(varint(&mut bytes)),
            1 => Wire::Fixed64(bytes.split_off(..8).unwrap().try_into().unwrap()),
            2 => {
                let length = varint(&mut bytes) as usize;
                Wire::Bytes(bytes.split_off(..length).unwrap().to_vec())
            }
            5 => Wire::Fixed32(bytes.split_off(..4).unwrap().try_into().unwrap()),
            other => panic!("wire type {other}"),
        };
        assert!(fields.insert(tag >> 3, wire).is_none(), "field {} twice", tag >> 3);
    }
    fields
}

/// The known content that the Python check expects as well.
fn write(folder: &std::path::Path) -> PathBuf {
    let mut events = Events::create(folder).unwrap();
    for step in 0..300 {
        events.scalar("train/loss", step, 1.0 / (step + 1) as f32).unwrap();
    }
    events.histogram("weights", 7, &[-1.0, 0.0, 0.5, 2.0, f32::NAN, f32::INFINITY]).unwrap();
    let image = Array::new(Digits::new(1, 1).image(0).0.to_vec(), &[28, 28]).unwrap();
    events.image("digit", 8, &image).unwrap();
    events.text("notes", 9, "learning rate **0.1**").unwrap();
    events.flush().unwrap();
    events.path().to_path_buf()
}

#[test]
fn an_independent_decoder_reads_everything_back() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("TALWEG_EVENTS").map_or(temporary.path().to_path_buf(), PathBuf::from);
    let events: Vec<_> = records(&std::fs::read(write(&folder)).unwrap()).iter().map(|r| decode(r)).collect();
    assert_eq!(events.len(), 1 + 300 + 3);
    assert_eq!(events[0][&3].bytes(), b"brain.Event:2");
    assert!(events.iter().all(|event| event[&1].double() > 1.7e9));
    let value = |event: usize| events[event][&5].message()[&1].message();

    for step in 0..300 {
        assert_eq!(events[1 + step][&2].number(), step as u64);
        assert_eq!(value(1 + step)[&1].bytes(), b"train/loss");
        assert_eq!(value(1 + step)[&2], Wire::Fixed32((1.0 / (step + 1) as f32).to_le_bytes()));
    }
    let histogram = value(301)[&5].message();
    let numbers: Vec<f64> = (1..=5).map(|field| histogram[&field].double()).collect();
    assert_eq!(numbers, [-1.0, 2.0, 4.0, 1.5, 5.25]);
    let (limits, counts) = (histogram[&6].doubles(), histogram[&7].doubles());
    assert_eq!((limits.len(), limits[29], counts.iter().sum::<f64>()), (30, 2.0, 4.0));
    assert_eq!((counts[0], counts[10], counts[15], counts[29]), (1.0, 1.0, 1.0, 1.0));

    let image = value(302)[&4].message();
    assert_eq!([1, 2, 3].map(|field| image[&field].number()), [28, 28, 1]);
    assert!(image[&4].bytes().starts_with(b"\x89PNG"));

    let text = value(303);
    assert_eq!(text[&8].message()[&8].bytes(), b"learning rate **0.1**");
    assert_eq!(text[&8].message()[&1].number(), 7);
    assert_eq!(text[&9].message()[&1].message()[&1].bytes(), b"text");
}

#[test]
fn a_resumed_run_marks_its_start() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = Events::resume(folder.path(), 41).unwrap();
    events.flush().unwrap();
    let records = records(&std::fs::read(events.path()).unwrap());
    let start = decode(&records[1]);
    assert_eq!((start[&2].number(), start[&7].message()[&1].number()), (42, 1));
}

#[test]
fn odd_input() {
    let folder = tempfile::tempdir().unwrap();
    let mut events = Events::create(folder.path()).unwrap();
    events.histogram("none", 0, &[]).unwrap();
    events.histogram("nan", 0, &[f32::NAN]).unwrap();
    events.histogram("same", 0, &[3.0; 5]).unwrap();
    let message = |r: talweg_data::Result<()>| r.unwrap_err().to_string();
    let error = message(events.image("x", 0, &Array::vector(vec![1u8])));
    assert!(error.ends_with("found u8 of shape [1]"), "{error}");
    let float = Array::new(vec![0.0f32; 4], &[2, 2]).unwrap();
    assert!(message(events.image("x", 0, &float)).contains("found f32"));
    let five = Array::new(vec![0u8; 20], &[2, 2, 5]).unwrap();
    assert!(message(events.image("x", 0, &five)).contains("not 5"));

    events.flush().unwrap();
    let records = records(&std::fs::read(events.path()).unwrap());
    let same = decode(&records[3])[&5].message()[&1].message()[&5].message();
    assert_eq!((same[&6].doubles(), same[&7].doubles()), (vec![3.0], vec![5.0]));

    let file = folder.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let error = Events::create(&file).unwrap_err().to_string();
    assert!(error.starts_with("cannot create "), "{error}");
}
