//! Pictures in folders, one folder a class: `root/cat/1.png`, `root/dog/2.jpg`.
//!
//! The folders are listed at once; pictures are decoded when they are asked
//! for, by the loader's threads.

use std::path::{Path, PathBuf};

use image::ImageReader;

use crate::array::Array;
use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::sample::Sample;

/// Endings of files that are taken; others are passed over.
const ENDINGS: [&str; 3] = ["png", "jpg", "jpeg"];

/// `image` (`u8`, `[height, width, 3]`) and `label` (`i64`): the place of the
/// folder's name in alphabetical order.
///
/// Pictures of different sizes need [`Augment::resize`](crate::Augment::resize)
/// or a crop before they can be stacked.
#[derive(Clone, Debug)]
pub struct Images {
    classes: Vec<String>,
    files: Vec<(PathBuf, usize)>,
    gray: bool,
}

impl Images {
    /// Lists the pictures below a folder.
    ///
    /// # Errors
    /// If the folder is missing, has no folders in it, or one without pictures.
    pub fn open(root: impl AsRef<Path>) -> Result<Self> {
        let root = root.as_ref();
        let mut folders = list(root)?;
        folders.retain(|path| path.is_dir());
        if folders.is_empty() {
            return Err(Error::format(root, "expected a folder for each class, found none"));
        }
        let (mut classes, mut files) = (Vec::new(), Vec::new());
        for (label, folder) in folders.iter().enumerate() {
            let mut pictures = list(folder)?;
            pictures.retain(|path| is_picture(path));
            if pictures.is_empty() {
                return Err(Error::format(folder, format!("expected pictures ({}), found none", ENDINGS.join(", "))));
            }
            files.extend(pictures.into_iter().map(|path| (path, label)));
            classes.push(folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
        Ok(Images { classes, files, gray: false })
    }

    /// Decodes to gray: `image` is `[height, width]`.
    #[must_use]
    pub fn gray(mut self) -> Self {
        self.gray = true;
        self
    }

    /// The names of the classes by label.
    pub fn classes(&self) -> &[String] {
        &self.classes
    }

    /// The file of a sample.
    pub fn path(&self, index: usize) -> Option<&Path> {
        self.files.get(index).map(|(path, _)| path.as_path())
    }
}

impl Dataset for Images {
    fn len(&self) -> usize {
        self.files.len()
    }

    fn get(&self, index: usize) -> Result<Sample> {
        let len = self.len();
        let (path, label) = self.files.get(index).ok_or(Error::OutOfRange { index, len })?;
        let image = decode(path, self.gray)?;
        Ok(Sample::new().with("image", image).with("label", Array::scalar(*label as i64)))
    }

    fn check_labels(&self, field: &str, classes: usize) -> Result<()> {
        if field != "label" {
            return Err(Error::mismatch(format!("there is no field {field:?} with labels, only \"label\"")));
        }
        // No picture needs decoding for this.
        (0..self.len()).try_for_each(|i| crate::dataset::check_label(i, self.files[i].1 as i64, classes))
    }
}

fn decode(path: &Path, gray: bool) -> Result<Array> {
    let content = std::fs::read(path).map_err(|error| Error::io("read", path, error))?;
    decode_picture(path, &content, gray)
}

/// Decodes the content of a picture's file. The format is told from the content: endings lie. `path`
/// is for messages.
///
/// # Errors
/// If it is neither PNG nor JPEG, or broken.
pub fn decode_picture(path: impl AsRef<Path>, content: &[u8], gray: bool) -> Result<Array> {
    let path = path.as_ref();
    let failed = |error| Error::io("read", path, error);
    let reader = ImageReader::new(std::io::Cursor::new(content)).with_guessed_format().map_err(failed)?;
    let picture = reader.decode().map_err(|error| match error {
        image::ImageError::IoError(error) if error.kind() != std::io::ErrorKind::UnexpectedEof => failed(error),
        error => Error::format(path, format!("expected a picture (png or jpeg): {error}")),
    })?;
    let (height, width) = (picture.height() as usize, picture.width() as usize);
    if gray {
        return Array::new(picture.into_luma8().into_raw(), &[height, width]);
    }
    Array::new(picture.into_rgb8().into_raw(), &[height, width, 3])
}

/// What lies in a folder, sorted by name: the order of the operating system
/// differs from machine to machine. Hidden files are passed over.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Error::io("list", folder, error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| entry.map(|e| e.path())).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    paths.retain(|path| !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.'));
    paths.sort();
    Ok(paths)
}

fn is_picture(path: &Path) -> bool {
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    ENDINGS.contains(&ending.as_str()) && path.is_file()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Augment, Loader, picture};

    /// Two classes, three pictures.
    fn folder() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, height, value) in [("dog/a.png", 3, 10), ("cat/b.PNG", 4, 20), ("cat/a.png", 5, 30)] {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, picture::png(&vec![value; height * 2 * 3], height, 2, 3).unwrap()).unwrap();
        }
        std::fs::write(root.path().join("cat/notes.txt"), "no picture").unwrap();
        std::fs::write(root.path().join("README"), "no class").unwrap();
        root
    }

    #[test]
    fn classes_and_pictures_are_sorted() {
        let root = folder();
        let set = Images::open(root.path()).unwrap();
        assert_eq!((set.classes(), set.len()), (&["cat".to_owned(), "dog".to_owned()][..], 3));
        let sample = set.get(0).unwrap();
        assert_eq!(sample.array("image").unwrap(), &Array::new(vec![30u8; 30], &[5, 2, 3]).unwrap());
        assert_eq!(set.get(2).unwrap().array("label").unwrap().integer().unwrap(), 1);
        assert!(set.path(2).unwrap().ends_with("dog/a.png"));
        assert_eq!(set.clone().gray().get(1).unwrap().array("image").unwrap().shape(), [4, 2]);
        assert!(set.check_labels("label", 2).is_ok() && set.check_labels("label", 1).is_err());

        let same = set.vary(1, Augment::new().resize(4, 4).jitter(0.2, 0.2, 0.2).on("image"));
        let batch = Loader::builder(same).batch(3).build().unwrap().next().unwrap().unwrap();
        assert_eq!(batch.array("image").unwrap().shape(), [3, 4, 4, 3]);
    }

    #[test]
    fn jpeg() {
        let root = folder();
        let path = root.path().join("dog/z.jpeg");
        image::RgbImage::from_pixel(16, 8, image::Rgb([200, 100, 50])).save(&path).unwrap();
        let image = Images::open(root.path()).unwrap().get(3).unwrap().array("image").unwrap().clone();
        assert_eq!(image.shape(), [8, 16, 3]);
        let first = &image.values::<u8>().unwrap()[..3];
        assert!(first.iter().zip([200u8, 100, 50]).all(|(a, b)| a.abs_diff(b) < 6), "{first:?}");
    }

    #[test]
    fn missing_and_empty_folders() {
        let root = folder();
        let message = |path: &str| Images::open(root.path().join(path)).unwrap_err().to_string();
        assert!(message("nowhere").starts_with("cannot list ") && message("nowhere").contains("nowhere: "));
        assert!(message("cat").ends_with("cat: expected a folder for each class, found none"));
        std::fs::create_dir(root.path().join("empty")).unwrap();
        assert!(message("").ends_with("empty: expected pictures (png, jpg, jpeg), found none"));
    }

    #[test]
    fn broken_pictures_are_named_at_their_batch() {
        let root = folder();
        let path = root.path().join("cat/b.PNG");
        let whole = std::fs::read(&path).unwrap();
        for broken in [&b"not a picture"[..], &whole[..whole.len() / 2], b""] {
            std::fs::write(&path, broken).unwrap();
            let set = Images::open(root.path()).unwrap();
            let mut loader = Loader::builder(set).batch(1).workers(2).build().unwrap();
            assert!(loader.next().unwrap().is_ok());
            let error = loader.next().unwrap().unwrap_err().to_string();
            assert!(error.starts_with("epoch 0, batch 1, sample 1: "), "{error}");
            assert!(error.contains("b.PNG: expected a picture (png or jpeg): "), "{error}");
            assert!(loader.next().unwrap().is_ok());
        }
        std::fs::remove_file(&path).unwrap();
    }
}
