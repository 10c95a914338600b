//! Checkpoints of a program on a mesh: each rank writes the blocks that it holds, by global index, and the checkpoint's
//! own file, which rank 0 writes last, says where each block is. It can be read on any other mesh, or alone.

use super::checkpoint::Checkpoint;
use super::parts::PART;
use data::Place;
use ir::Buffer;
use std::collections::BTreeMap;
use std::sync::Arc;
use tensor::files::{self, Encoded};
use tensor::{
    BlockFile, Blocks, Error, FileBlock, Literal, MeshScope, OnDisk, Result, Variable, blocks_of, current_mesh,
    decode_layout, encode_layout,
};

/// Prefix of the metadata keys that locate the blocks of a tensor.
const BLOCKS: &str = "blocks.";
/// The metadata key that lists the files of blocks.
const BLOCK_FILES: &str = "block files";

/// A tensor of a checkpoint that is not in memory as a whole.
#[derive(Clone, Debug)]
pub enum InBlocks {
    /// Ranks of a mesh hold blocks of it.
    Held(Blocks),
    /// It lies in files.
    OnDisk(Arc<OnDisk>),
}

impl InBlocks {
    /// The value of a variable, if it is one.
    pub(super) fn of(v: &Variable) -> Result<Option<InBlocks>> {
        let Some(buffer) = v.var().current().buffer() else { return Ok(None) };
        if let Buffer::Device(s) = &buffer
            && let Some(file) = s.as_any().downcast_ref::<OnDisk>()
        {
            return Ok(Some(InBlocks::OnDisk(Arc::new(file.clone()))));
        }
        Ok(blocks_of(&buffer)?.map(InBlocks::Held))
    }
    /// The type of the whole.
    pub(super) fn ty(&self) -> &ir::Type {
        match self {
            InBlocks::Held(b) => &b.ty,
            InBlocks::OnDisk(f) => f.ty(),
        }
    }
}

/// Writes a checkpoint: every rank of the mesh calls it.
pub(super) fn save(c: &Checkpoint, place: &Place, name: &str, mesh: &MeshScope) -> Result<()> {
    let old = listed(place, name);
    // While the new files are written, the old ones stay what the old checkpoint says.
    let is_first = !old.iter().any(|n| n.contains(".a."));
    let stem = name.strip_suffix(".safetensors").unwrap_or(name);
    let file = |rank: usize| format!("{stem}.{}{PART}{rank}.safetensors", if is_first { "a" } else { "b" });
    let mut mine: BTreeMap<String, Literal> = BTreeMap::new();
    let (mut info, mut own) = (c.info()?, c.tensors.clone());
    let mut ranks: Vec<usize> = Vec::new();
    for (path, value) in &c.in_blocks {
        match value {
            InBlocks::Held(b) => {
                mine.extend(b.mine.clone().map(|l| (path.clone(), l)));
                ranks.extend(b.all.iter().map(|(r, _)| *r));
            }
            // It has not been used since it was loaded.
            InBlocks::OnDisk(f) if mesh.rank == 0 => drop(own.insert(path.clone(), f.whole()?)),
            InBlocks::OnDisk(_) => {}
        }
    }
    ranks.sort_unstable();
    ranks.dedup();
    let number = |rank: &usize| ranks.binary_search(rank).map_err(|_| Error::bug("a rank that holds blocks"));
    for (path, value) in &c.in_blocks {
        if let InBlocks::Held(b) = value {
            let blocks =
                b.all.iter().map(|(r, ranges)| Ok((number(r)?, ranges.clone()))).collect::<Result<Vec<_>>>()?;
            info.insert(format!("{BLOCKS}{path}"), encode_layout(&b.ty, &blocks));
        }
    }
    let files: Vec<String> = ranks.iter().map(|r| file(*r)).collect();
    info.insert(BLOCK_FILES.to_string(), files.join("\n"));
    let write = |name: &str, tensors: &BTreeMap<String, Literal>, info: &BTreeMap<String, String>| -> Result<()> {
        let file = Encoded::new(tensors, info)?;
        Ok(place.write(name, &mut |to| file.write(to))?)
    };
    let done = if mine.is_empty() { Ok(()) } else { write(&file(mesh.rank), &mine, &BTreeMap::new()) };
    together(mesh, done, "write its blocks")?;
    let done = if mesh.rank > 0 {
        Ok(())
    } else {
        write(name, &own, &info).and_then(|()| {
            let mut gone = old.iter().filter(|n| !files.contains(n));
            gone.try_for_each(|n| Ok(place.remove(n)?))
        })
    };
    together(mesh, done, "write the checkpoint")
}

/// Fails on every rank if it failed on one.
fn together(mesh: &MeshScope, done: Result<()>, what: &str) -> Result<()> {
    let is_done = mesh.all(done.is_ok())?;
    done?;
    if is_done { Ok(()) } else { Err(Error::value(format!("another rank could not {what}")).in_op("checkpoint")) }
}

/// The files of blocks that a checkpoint lists, if there is one.
fn listed(place: &Place, name: &str) -> Vec<String> {
    let found = opened(place, name).and_then(|f| files::entries(&f));
    found.map_or(Vec::new(), |(_, info)| names(&info))
}
fn names(info: &BTreeMap<String, String>) -> Vec<String> {
    info.get(BLOCK_FILES).map_or(Vec::new(), |list| list.lines().map(str::to_string).collect())
}

/// A file that stays where it is, if it is in a folder.
fn opened(place: &Place, name: &str) -> Result<Arc<BlockFile>> {
    let path = place.path(name);
    if place.is_folder() {
        place.verify(name)?;
        return BlockFile::open(&path);
    }
    Ok(BlockFile::of(&path, place.read(name)?))
}

/// On a mesh: what the checkpoint's own file holds, without its tensors, which stay in the file.
pub(super) fn load_own(place: &Place, name: &str) -> Result<Option<(Checkpoint, BTreeMap<String, String>)>> {
    if current_mesh()?.is_none() || !place.is_folder() {
        return Ok(None);
    }
    let file = opened(place, name)?;
    let (entries, info) = files::entries(&file)?;
    // Complex numbers are pairs in files; they are never cut.
    if entries.values().any(|(ty, _)| ty.dtype.is_complex()) || info.keys().any(|k| k.starts_with("complex128:")) {
        return Ok(None);
    }
    let mut c = Checkpoint::from_info(BTreeMap::new(), &info)?;
    for (path, (ty, offset)) in entries {
        let block = FileBlock { ranges: ty.shape.iter().map(|n| 0..*n).collect(), file: file.clone(), offset };
        c.in_blocks.insert(path, InBlocks::OnDisk(Arc::new(OnDisk::new(ty, vec![block])?)));
    }
    Ok(Some((c, info)))
}

/// Adds the tensors that lie in blocks: on a mesh they stay in their files, a process alone reads them.
pub(super) fn load_blocks(c: &mut Checkpoint, info: &BTreeMap<String, String>, place: &Place) -> Result<()> {
    let mut files = Vec::new();
    for name in names(info) {
        let file = opened(place, &name)?;
        let (entries, _) = files::entries(&file)?;
        files.push((file, entries));
    }
    let is_mesh = current_mesh()?.is_some();
    for (path, text) in info.iter().filter_map(|(k, v)| Some((k.strip_prefix(BLOCKS)?, v))) {
        let bad = |what: &str| Error::format(format!("the blocks of {path} {what}"));
        let (ty, layout) = decode_layout(text).ok_or_else(|| bad(&format!("are {text:?}")))?;
        let mut blocks = Vec::with_capacity(layout.len());
        for (number, ranges) in layout {
            let (file, entries) = files.get(number).ok_or_else(|| bad("are in a file that is not listed"))?;
            let entry = entries.get(path).filter(|(t, _)| {
                t.dtype == ty.dtype && t.shape.iter().copied().eq(ranges.iter().map(std::ops::Range::len))
            });
            let (_, offset) = entry.ok_or_else(|| bad(&format!("are not in {}", file.path().display())))?;
            blocks.push(FileBlock { ranges, file: file.clone(), offset: *offset });
        }
        let value = OnDisk::new(ty, blocks).map_err(|e| bad(&e.message))?;
        if is_mesh {
            c.in_blocks.insert(path.to_string(), InBlocks::OnDisk(Arc::new(value)));
        } else {
            c.tensors.insert(path.to_string(), value.whole()?);
        }
    }
    Ok(())
}
