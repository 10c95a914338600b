//! Checkpoints of which the servers of the parameter store have written the large part.
//!
//! Each partition of the store is a file (`step-NUMBER.part-P.safetensors`, tensors by table, block
//! and array). The checkpoint's own file is written last and says where each tensor is, so that
//! there is no checkpoint before all of it is there; and a reader gets the same as if one
//! process had written it.

use data::Place;
use std::collections::BTreeMap;
use tensor::{DType, Error, Literal, Result, Shape, files};

/// Prefix of the metadata keys that locate a tensor.
pub(super) const STORED: &str = "stored.";
/// The metadata key that lists the files.
pub(super) const PARTS: &str = "parts";
/// Prefix of the metadata keys of a part that count the changes of a block.
const VERSION: &str = "version.";

/// In the names of the files.
pub(super) const PART: &str = ".part-";

/// Where a tensor is in the parameter store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which table.
    pub table: u32,
    /// Which array of it: the value, then the state. `None`: how often it was changed.
    pub array: Option<usize>,
    /// The tensor's shape.
    pub shape: Shape,
}

impl Stored {
    pub(super) fn encode(&self) -> String {
        let array = self.array.map_or("version".to_string(), |a| a.to_string());
        let sizes: String = self.shape.iter().map(|n| format!(" {n}")).collect();
        format!("{} {array}{sizes}", self.table)
    }
    pub(super) fn decode(text: &str) -> Option<Stored> {
        let mut words = text.split(' ');
        let table = words.next()?.parse().ok()?;
        let array = match words.next()? {
            "version" => None,
            n => Some(n.parse().ok()?),
        };
        let sizes = words.map(|n| n.parse().ok()).collect::<Option<Vec<usize>>>()?;
        Some(Stored { table, array, shape: Shape::from(sizes.as_slice()) })
    }
}

/// The name of a partition's file, beside the checkpoint's own.
pub(super) fn part_name(step_name: &str, partition: u32) -> String {
    format!("{step_name}{PART}{partition}.safetensors")
}

/// Writes a partition of the store, as a server does: for each block its table and number, how
/// often it was changed, and its arrays.
pub fn write_part<'a>(to: &str, blocks: impl Iterator<Item = (u32, u32, u64, Vec<&'a [f32]>)>) -> Result<()> {
    let (place, name) = Place::of(to.as_ref())?;
    let is_part = name.contains(PART) && name.ends_with(".safetensors");
    if !is_part {
        return Err(Error::value(format!("{to} is no name of a part of a checkpoint")));
    }
    let (mut entries, mut info) = (Vec::new(), BTreeMap::new());
    for (table, block, version, arrays) in blocks {
        info.insert(format!("{VERSION}{table}.{block}"), version.to_string());
        for (i, values) in arrays.into_iter().enumerate() {
            let shape = Shape::from([values.len()]);
            entries.push((format!("{table}.{block}.{i}"), DType::F32, shape, bytemuck::cast_slice(values)));
        }
    }
    let file = files::Encoded::of(entries, &info)?;
    Ok(place.write(&name, &mut |w| file.write(w))?)
}

/// The tensors that parts hold, by the names of the checkpoint.
pub(super) fn read_parts(
    place: &Place,
    parts: &[String],
    stored: &BTreeMap<String, Stored>,
) -> Result<BTreeMap<String, Literal>> {
    let mut blocks: BTreeMap<(u32, usize), BTreeMap<u32, Literal>> = BTreeMap::new();
    let mut versions: BTreeMap<u32, u64> = BTreeMap::new();
    for part in parts {
        let bad = |what: &str| Error::format(format!("{}: {what:?} is not of a part", place.path(part).display()));
        let (tensors, info) = files::decode(&place.read(part)?)?;
        for (name, literal) in tensors {
            let numbers: Vec<u32> = name.split('.').filter_map(|n| n.parse().ok()).collect();
            let [table, block, array] = numbers[..] else { return Err(bad(&name)) };
            blocks.entry((table, array as usize)).or_default().insert(block, literal);
        }
        for (key, version) in info.iter().filter_map(|(k, v)| Some((k.strip_prefix(VERSION)?, v))) {
            let table = key.split('.').next().and_then(|t| t.parse().ok()).ok_or_else(|| bad(key))?;
            let version: u64 = version.parse().map_err(|_| bad(version))?;
            let newest = versions.entry(table).or_default();
            *newest = version.max(*newest);
        }
    }
    let find = |(name, s): (&String, &Stored)| {
        let missing = || Error::format(format!("the parts of the checkpoint do not hold {name}"));
        let literal = match s.array {
            None => Literal::scalar(versions.get(&s.table).copied().ok_or_else(missing)? as f32),
            Some(array) => {
                let all = blocks.get(&(s.table, array)).ok_or_else(missing)?;
                // Rows of large tables are cut into blocks, in order.
                let bytes = all.values().map(Literal::bytes).collect::<Vec<_>>().concat();
                // What follows state that is smaller than its parameter means nothing.
                let bytes = bytes.get(..4 * s.shape.count()).ok_or_else(missing)?;
                Literal::from_bytes(DType::F32, s.shape.clone(), bytes).map_err(|_| missing())?
            }
        };
        Ok((name.clone(), literal))
    };
    stored.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_read_back_in_order_and_are_missed() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(folder.path()).unwrap();
        let at = |n: &str| folder.path().join(n).display().to_string();
        let (a, b, c) = ([1.0f32, 2.0], [3.0f32, 4.0], [5.0f32]);
        let first = [(7, 1, 9, vec![&b[..]]), (3, 0, 5, vec![&c[..], &c[..]])];
        write_part(&at("step-1.part-0.safetensors"), first.into_iter()).unwrap();
        write_part(&at("step-1.part-1.safetensors"), [(7, 0, 8, vec![&a[..]])].into_iter()).unwrap();
        let stored = |table, array, shape: &[usize]| Stored { table, array, shape: Shape::from(shape) };
        let wanted = BTreeMap::from([
            ("model.w".to_string(), stored(7, Some(0), &[2, 2])),
            ("optimizer.step".to_string(), stored(7, None, &[])),
            ("optimizer.m".to_string(), stored(3, Some(1), &[1])),
        ]);
        for s in wanted.values() {
            assert_eq!(Stored::decode(&s.encode()).as_ref(), Some(s));
        }
        let parts = ["step-1.part-0.safetensors".to_string(), "step-1.part-1.safetensors".to_string()];
        let read = read_parts(&place, &parts, &wanted).unwrap();
        assert_eq!(read["model.w"].to_f64(), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!((read["optimizer.step"].to_f64(), read["optimizer.m"].to_f64()), (vec![9.0], vec![5.0]));
        let e = read_parts(&place, &parts[..1], &wanted).unwrap_err().to_string();
        assert!(e.contains("do not hold model.w"), "{e}");
        assert!(write_part(&at("passwd"), std::iter::empty()).is_err());
    }
}
