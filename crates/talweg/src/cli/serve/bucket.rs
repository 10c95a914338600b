//! Repositories in an S3-compatible store: a copy on the local disk, brought up to date before models are read.
//!
//! Only what changed is fetched. A version appears in the copy when all of its files are there, so a server that reads
//! the copy meanwhile finds the old version or the new one. Each model carries the hashes of its files.

use super::failed;
use crate::Result;
use data::{Entry, Place};
use serve::Refresh;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// What the copy of a version was made from.
const ORIGIN: &str = ".origin";

/// Directories of this machine for repositories, wherever they are, and what brings mirrors up to date.
pub fn local(paths: &[PathBuf]) -> Result<(Vec<PathBuf>, Option<Refresh>)> {
    let (mut roots, mut mirrors) = (Vec::new(), Vec::new());
    for (i, path) in paths.iter().enumerate() {
        if !path.to_str().is_some_and(|t| t.contains("://")) {
            roots.push(path.clone());
            continue;
        }
        let place = Place::open(path.clone()).map_err(failed)?;
        let to = std::env::temp_dir().join(format!("talweg-models-{}-{i}", std::process::id()));
        fs::create_dir_all(&to).map_err(failed)?;
        roots.push(to.clone());
        mirrors.push(Mirror { place, to, changing: Mutex::new(()) });
    }
    if mirrors.is_empty() {
        return Ok((roots, None));
    }
    let refresh = move || mirrors.iter().try_for_each(Mirror::refresh);
    Ok((roots, Some(Arc::new(refresh))))
}

/// A repository and its copy.
struct Mirror {
    place: Place,
    to: PathBuf,
    changing: Mutex<()>,
}

impl Drop for Mirror {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.to);
    }
}

impl Mirror {
    fn refresh(&self) -> std::result::Result<(), String> {
        let _changing = self.changing.lock().map_err(|e| e.to_string())?;
        let in_copy = |e: std::io::Error| format!("{}: {e}", self.to.display());
        // Files by the directory that they are in: a version of a model, or a model.
        let mut directories: BTreeMap<&Path, Vec<&Entry>> = BTreeMap::new();
        let entries = self.place.tree().map_err(|e| e.to_string())?;
        for entry in &entries {
            let path = Path::new(&entry.name);
            directories.entry(path.parent().unwrap_or(Path::new(""))).or_default().push(entry);
        }
        for (directory, files) in &directories {
            let is_model = files.iter().any(|f| f.name.ends_with("model.json") || f.name.ends_with("pipeline.json"));
            if is_model {
                self.fetch(directory, files)?;
            } else {
                // Labels: small, and read only after the versions that they name.
                for file in files.iter().filter(|f| f.name.ends_with("labels.json")) {
                    fs::create_dir_all(self.to.join(directory)).map_err(in_copy)?;
                    fs::write(self.to.join(&file.name), self.read(file)?).map_err(in_copy)?;
                }
            }
        }
        let known: BTreeSet<&Path> = directories.keys().copied().collect();
        self.remove_all_but(&known).map_err(in_copy)
    }

    fn read(&self, file: &Entry) -> std::result::Result<Vec<u8>, String> {
        self.place.start(&file.name, file.bytes).map_err(|e| e.to_string())
    }

    /// Fetches one directory, unless its copy is of the same content.
    fn fetch(&self, directory: &Path, files: &[&Entry]) -> std::result::Result<(), String> {
        let to = self.to.join(directory);
        let in_copy = |e: std::io::Error| format!("{}: {e}", to.display());
        let origin: String = files.iter().map(|f| format!("{} {} {}\n", f.name, f.bytes, f.version)).collect();
        if fs::read_to_string(to.join(ORIGIN)).is_ok_and(|old| old == origin) {
            return Ok(());
        }
        let name = directory.to_string_lossy().replace('/', "-");
        let beside = self.to.join(format!(".new-{name}"));
        let _ = fs::remove_dir_all(&beside);
        fs::create_dir_all(&beside).map_err(in_copy)?;
        for file in files {
            let name = Path::new(&file.name).file_name().ok_or_else(|| format!("{}: no name", file.name))?;
            fs::write(beside.join(name), self.read(file)?).map_err(in_copy)?;
        }
        fs::write(beside.join(ORIGIN), origin).map_err(in_copy)?;
        fs::create_dir_all(to.parent().unwrap_or(&self.to)).map_err(in_copy)?;
        let old = self.to.join(format!(".old-{name}"));
        let _ = fs::rename(&to, &old);
        fs::rename(&beside, &to).map_err(in_copy)?;
        let _ = fs::remove_dir_all(&old);
        Ok(())
    }

    /// Removes mirrors of versions that are gone.
    fn remove_all_but(&self, known: &BTreeSet<&Path>) -> std::io::Result<()> {
        for model in fs::read_dir(&self.to)?.filter_map(|e| Some(e.ok()?.path())).filter(|p| p.is_dir()) {
            for version in fs::read_dir(&model)?.filter_map(|e| Some(e.ok()?.path())).chain([model.clone()]) {
                let relative = version.strip_prefix(&self.to).unwrap_or(&version);
                if version.join(ORIGIN).exists() && !known.contains(relative) {
                    fs::remove_dir_all(&version)?;
                }
            }
        }
        Ok(())
    }
}
