//! A place for files that belong together, such as the checkpoints of a run: a folder, or what a URL
//! names. `s3://BUCKET/PREFIX` is one in an S3-compatible store (feature `s3`).
//!
//! Every file is whole or absent and has its checksum beside it in `NAME.xxh3`, wherever the place
//! is; what lies in one place can be copied to another with any tool.

use std::fmt::Debug;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::atomic;
use crate::error::{Error, Result};

/// Writes the content of a file. It is called more than once where the checksum has to be known
/// before the content is sent, and must write the same each time.
pub type Content<'a> = &'a mut dyn FnMut(&mut dyn Write) -> std::io::Result<()>;

/// What a place must be able to do.
pub(crate) trait Files: Debug + Send + Sync {
    fn write(&self, name: &str, content: Content<'_>) -> Result<()>;
    fn read(&self, name: &str) -> Result<Vec<u8>>;
    fn verify(&self, name: &str) -> Result<()>;
    fn start(&self, name: &str, bytes: u64) -> Result<Vec<u8>>;
    fn names(&self) -> Result<Vec<String>>;
    fn tree(&self) -> Result<Vec<Entry>>;
    fn remove(&self, name: &str) -> Result<()>;
}

/// A file below a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its path below the place, with `/` between folders.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Changes with its content: an ETag, or the time it was written.
    pub version: String,
}

/// A place for files.
///
/// ```
/// # let folder = tempfile::tempdir().unwrap();
/// let place = talweg_data::Place::open(folder.path())?;
/// place.write("a", &mut |to| to.write_all(b"whole"))?;
/// assert_eq!(place.read("a")?, b"whole");
/// assert_eq!(place.names()?, ["a", "a.xxh3"]);
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Place {
    at: PathBuf,
    files: Arc<dyn Files>,
}

impl Place {
    /// A folder, made if it is missing, or what a URL names (`s3://BUCKET/PREFIX`,
    /// `file:///FOLDER`).
    ///
    /// # Errors
    /// If the folder cannot be made, the bucket does not exist or the credentials are refused, or
    /// if nothing here knows such a URL.
    pub fn open(at: impl Into<PathBuf>) -> Result<Place> {
        let at = at.into();
        let Some((scheme, rest)) = at.to_str().and_then(|t| t.split_once("://")) else {
            // What Python's paths make of a URL; a letter alone may be a drive.
            let is_cut = at
                .to_str()
                .and_then(|t| t.split_once(":/"))
                .is_some_and(|(scheme, _)| scheme.len() > 1 && scheme.chars().all(|c| c.is_ascii_alphanumeric()));
            if is_cut {
                let e = "a path has taken a slash of the URL away: give it as text";
                return Err(Error::mismatch(format!("{}: {e}", at.display())));
            }
            return Place::folder(at);
        };
        match scheme {
            "file" => Place::folder(PathBuf::from(rest)),
            "s3" | "s3a" => Place::bucket(&at, rest),
            _ => Err(Error::mismatch(format!(
                "{}: expected a folder, file:///FOLDER or s3://BUCKET/PREFIX",
                at.display()
            ))),
        }
    }

    fn folder(at: PathBuf) -> Result<Place> {
        std::fs::create_dir_all(&at).map_err(|e| Error::io("create", &at, e))?;
        let files = Arc::new(Folder(at.clone()));
        Ok(Place { at, files })
    }

    #[cfg(feature = "s3")]
    fn bucket(at: &Path, rest: &str) -> Result<Place> {
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_end_matches('/');
        if bucket.is_empty() || prefix.split('/').any(|part| part == "." || part == "..") {
            return Err(Error::mismatch(format!("{}: expected s3://BUCKET/PREFIX", at.display())));
        }
        let at = PathBuf::from(format!("s3://{bucket}/{prefix}").trim_end_matches('/'));
        let files = Arc::new(crate::s3::Bucket::open(&at, bucket, prefix)?);
        Ok(Place { at, files })
    }

    #[cfg(not(feature = "s3"))]
    fn bucket(at: &Path, _: &str) -> Result<Place> {
        Err(Error::mismatch(format!("{}: this program was built without S3: add --features s3", at.display())))
    }

    /// The place and name of one file, given by its path or URL.
    ///
    /// # Errors
    /// As [`Place::open`]; also if there is no name at the end.
    pub fn of(path: &Path) -> Result<(Place, String)> {
        let name = path.file_name().and_then(|n| n.to_str());
        let name = name.ok_or_else(|| Error::format(path, "is no name of a file"))?.to_string();
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        Ok((Place::open(folder.unwrap_or(Path::new(".")))?, name))
    }

    /// Where it is: a folder or a URL.
    pub fn at(&self) -> &Path {
        &self.at
    }

    /// The path or URL of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.at.join(name)
    }

    /// Whether it is a folder that this machine sees as such.
    pub fn is_folder(&self) -> bool {
        !self.at.to_str().is_some_and(|t| t.contains("://"))
    }

    /// Replaces the content of a file, and its checksum. A reader sees the old content or the
    /// new one, also when this process is killed meanwhile.
    ///
    /// # Errors
    /// If it cannot be written; then the old content is still there.
    pub fn write(&self, name: &str, content: Content<'_>) -> Result<()> {
        self.files.write(name, content)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If file or checksum are missing, or the content is not what was written.
    pub fn read(&self, name: &str) -> Result<Vec<u8>> {
        self.files.read(name)
    }

    /// Whether a file is there and whole; in a folder it is read, in a bucket nothing appears
    /// before it is whole.
    ///
    /// # Errors
    /// As [`Place::read`].
    pub fn verify(&self, name: &str) -> Result<()> {
        self.files.verify(name)
    }

    /// The first bytes of a file, unchecked; fewer if it is shorter.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn start(&self, name: &str, bytes: u64) -> Result<Vec<u8>> {
        self.files.start(name, bytes)
    }

    /// The names of all files, in order.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = self.files.names()?;
        names.sort_unstable();
        Ok(names)
    }

    /// Every file, in folders too, in order.
    ///
    /// # Errors
    /// If they cannot be listed.
    pub fn tree(&self) -> Result<Vec<Entry>> {
        let mut entries = self.files.tree()?;
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// Removes a file and its checksum; it is no error if they are absent.
    ///
    /// # Errors
    /// If they cannot be removed.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.files.remove(name)
    }

    /// Removes what killed processes left half-written; what living ones write stays.
    /// Parts of an unfinished upload are for the bucket's lifecycle rules.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub fn clean(&self) -> Result<()> {
        if self.is_folder() { atomic::clean(&self.at).map(|_| ()) } else { Ok(()) }
    }
}

#[derive(Debug)]
struct Folder(PathBuf);

impl Files for Folder {
    fn write(&self, name: &str, content: Content<'_>) -> Result<()> {
        let path = self.0.join(name);
        if path.exists() && atomic::verify(&path).is_err() {
            // While it is replaced, the sidecar vouches for the old content too; a damaged one
            // must not get that.
            atomic::remove_checked(&path)?;
        }
        atomic::write_checked(path, content)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        atomic::read_checked(self.0.join(name))
    }

    fn verify(&self, name: &str) -> Result<()> {
        atomic::verify(self.0.join(name))
    }

    fn start(&self, name: &str, bytes: u64) -> Result<Vec<u8>> {
        let path = self.0.join(name);
        let mut out = Vec::new();
        let file = std::fs::File::open(&path).and_then(|file| file.take(bytes).read_to_end(&mut out));
        file.map_err(|e| Error::io("read", &path, e))?;
        Ok(out)
    }

    fn names(&self) -> Result<Vec<String>> {
        let failed = |e| Error::io("list", &self.0, e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.0).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
    }

    fn tree(&self) -> Result<Vec<Entry>> {
        let (mut folders, mut out) = (vec![self.0.clone()], Vec::new());
        while let Some(folder) = folders.pop() {
            let failed = |e| Error::io("list", &folder, e);
            for entry in std::fs::read_dir(&folder).map_err(failed)? {
                let path = entry.map_err(failed)?.path();
                let meta = std::fs::metadata(&path).map_err(failed)?;
                if meta.is_dir() {
                    folders.push(path);
                } else if let Some(name) = path.strip_prefix(&self.0).ok().and_then(Path::to_str) {
                    let version = format!("{:?}", meta.modified().map_err(failed)?);
                    out.push(Entry { name: name.to_string(), bytes: meta.len(), version });
                }
            }
        }
        Ok(out)
    }

    fn remove(&self, name: &str) -> Result<()> {
        atomic::remove_checked(self.0.join(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_place_is_said() {
        let e = Place::open("gs://bucket/x").unwrap_err().to_string();
        assert!(e.contains("gs://bucket/x: expected a folder, file:///FOLDER or s3://BUCKET/PREFIX"), "{e}");
        let e = Place::open("s3:/bucket/x").unwrap_err().to_string();
        assert!(e.contains("s3:/bucket/x: a path has taken a slash of the URL away"), "{e}");
        let e = Place::of(Path::new("/")).unwrap_err().to_string();
        assert!(e.contains("no name of a file"), "{e}");
    }

    #[test]
    fn a_url_of_a_folder_is_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::open(format!("file://{}", folder.path().display())).unwrap();
        place.write("a", &mut |to| to.write_all(b"abc")).unwrap();
        let (same, name) = Place::of(&folder.path().join("a")).unwrap();
        assert_eq!((same.read(&name).unwrap(), same.start(&name, 2).unwrap()), (b"abc".to_vec(), b"ab".to_vec()));
        std::fs::create_dir(folder.path().join("b")).unwrap();
        std::fs::write(folder.path().join("b/c"), b"12").unwrap();
        let tree: Vec<(String, u64)> = place.tree().unwrap().into_iter().map(|e| (e.name, e.bytes)).collect();
        assert_eq!((&tree[0], &tree[2]), (&("a".into(), 3), &("b/c".into(), 2)), "{tree:?}");
        std::fs::remove_dir_all(folder.path().join("b")).unwrap();
        place.remove("a").unwrap();
        assert!(place.names().unwrap().is_empty() && place.verify("a").is_err());
    }
}
