//! Fashion-MNIST: 70,000 images of clothes in ten classes, found on this
//! machine. Nothing is downloaded.

use std::path::{Path, PathBuf};

use crate::array::Array;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::idx;
use crate::memory::Memory;

/// The ten classes by label.
pub const CLASSES: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

/// Where Debian's package `dataset-fashion-mnist` puts the files.
const DEBIAN: &str = "/usr/share/datasets/fashion-mnist";

/// The name of the folder within `TALWEG_DATA` and the cache.
const FOLDER: &str = "fashion-mnist";

/// The two parts of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// 60,000 images to learn from.
    Train,
    /// 10,000 images to be tested with.
    Test,
}

/// Loads a part: `image` (`u8`, 28 × 28) and `label` (`i64`, 0 to 9).
///
/// Looks into `$TALWEG_DATA/fashion-mnist`, `$TALWEG_DATA`, the cache folder
/// (`$XDG_CACHE_HOME/talweg/fashion-mnist` or `~/.cache/talweg/fashion-mnist`)
/// and the folder of Debian's package, in this order.
///
/// # Errors
/// [`Error::Missing`] with advice if the files are nowhere; otherwise what is
/// wrong with them.
pub fn load(part: Part) -> Result<Memory> {
    load_from(&find(&places(|name| std::env::var_os(name).map(PathBuf::from)))?, part)
}

/// Loads a part from a folder with the four files, gzipped or not. MNIST and
/// its other relatives have the same files.
///
/// # Errors
/// If a file is missing or broken, or images and labels do not fit together.
pub fn load_from(folder: &Path, part: Part) -> Result<Memory> {
    let prefix = match part {
        Part::Train => "train",
        Part::Test => "t10k",
    };
    let images = idx::read(file(folder, &format!("{prefix}-images-idx3-ubyte")))?;
    let path = file(folder, &format!("{prefix}-labels-idx1-ubyte"));
    let labels = idx::read(&path)?;
    let (Ok(bytes), [count]) = (labels.values::<u8>(), labels.shape()) else {
        let (kind, shape) = (labels.dtype(), labels.shape());
        return Err(Error::format(path, format!("expected a list of u8 labels, found {kind} of shape {shape:?}")));
    };
    if images.shape() != [*count, 28, 28] {
        let shape = images.shape();
        return Err(Error::format(path, format!("{count} labels do not fit images of shape {shape:?}")));
    }
    let labels = Array::vector(bytes.iter().map(|label| i64::from(*label)).collect());
    let memory = Memory::new().with("image", images)?.with("label", labels)?;
    memory.check_labels("label", CLASSES.len())?;
    Ok(memory.with_classes("label", CLASSES.map(String::from).to_vec()))
}

/// The folders to look into, given a way to read environment variables.
fn places(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(data) = variable("TALWEG_DATA") {
        places.extend([data.join(FOLDER), data]);
    }
    let home = || variable("HOME").map(|home| home.join(".cache"));
    if let Some(cache) = variable("XDG_CACHE_HOME").or_else(home) {
        places.push(cache.join("talweg").join(FOLDER));
    }
    places.push(DEBIAN.into());
    places
}

/// The first of the folders that holds the files.
fn find(places: &[PathBuf]) -> Result<PathBuf> {
    let holds = |folder: &&PathBuf| file(folder, "train-images-idx3-ubyte").exists();
    places.iter().find(holds).cloned().ok_or_else(|| Error::Missing {
        what: "Fashion-MNIST".into(),
        hint: format!(
            "Looked in:\n{}\
             To get it, do one of these:\n  \
             - on Debian or Ubuntu: apt install dataset-fashion-mnist\n  \
             - put train-images-idx3-ubyte.gz, train-labels-idx1-ubyte.gz, t10k-images-idx3-ubyte.gz and \
             t10k-labels-idx1-ubyte.gz (https://github.com/zalandoresearch/fashion-mnist) into a folder \
             and set TALWEG_DATA to it\n\
             The built-in digits need no files.",
            places.iter().map(|place| format!("  - {}\n", place.display())).collect::<String>()
        ),
    })
}

/// The plain file if it is there, otherwise the gzipped one.
fn file(folder: &Path, name: &str) -> PathBuf {
    let plain = folder.join(name);
    if plain.exists() { plain } else { folder.join(format!("{name}.gz")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with `count` images and the given labels.
    fn folder(count: usize, labels: Vec<u8>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let images = Array::new(vec![7u8; count * 784], &[count, 28, 28]).unwrap();
        let write = |name: &str, array: &Array| {
            std::fs::write(folder.path().join(name), idx::encode(array).unwrap()).unwrap();
        };
        write("train-images-idx3-ubyte", &images);
        write("train-labels-idx1-ubyte", &Array::vector(labels));
        folder
    }

    #[test]
    fn images_and_labels() {
        let folder = folder(3, vec![9, 0, 4]);
        let set = load_from(folder.path(), Part::Train).unwrap();
        assert_eq!(set.len(), 3);
        assert_eq!(set.get(2).unwrap().array("label").unwrap().integer().unwrap(), 4);
        assert_eq!(set.classes("label").unwrap()[9], "Ankle boot");
        let missing = load_from(folder.path(), Part::Test).unwrap_err().to_string();
        assert!(missing.contains("t10k-images-idx3-ubyte.gz"), "{missing}");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let short = load_from(folder(3, vec![1, 2]).path(), Part::Train).unwrap_err().to_string();
        assert!(short.ends_with("2 labels do not fit images of shape [3, 28, 28]"), "{short}");
        let range = load_from(folder(2, vec![1, 10]).path(), Part::Train).unwrap_err().to_string();
        assert_eq!(range, "label 10 of sample 1 is out of range: 10 classes are 0 to 9");
    }

    #[test]
    fn where_it_is_looked_for() {
        let variables = |name: &str| match name {
            "TALWEG_DATA" => Some(PathBuf::from("/data")),
            "HOME" => Some(PathBuf::from("/home/x")),
            _ => None,
        };
        let expected = ["/data/fashion-mnist", "/data", "/home/x/.cache/talweg/fashion-mnist", DEBIAN];
        assert_eq!(places(variables), expected.map(PathBuf::from));

        let folder = folder(1, vec![1]);
        let nowhere = folder.path().join("nothing");
        let here = folder.path().to_path_buf();
        assert_eq!(find(&[nowhere.clone(), here.clone()]).unwrap(), here);
        let error = find(std::slice::from_ref(&nowhere)).unwrap_err().to_string();
        assert!(error.starts_with("Fashion-MNIST not found."), "{error}");
        for part in ["apt install dataset-fashion-mnist", "TALWEG_DATA", &*nowhere.to_string_lossy()] {
            assert!(error.contains(part), "{part:?} in {error}");
        }
    }
}
