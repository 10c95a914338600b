//! Files in an S3-compatible store, by the crate `object_store`.
//!
//! Endpoint, region and credentials come from the usual variables (`AWS_ENDPOINT_URL`, `AWS_REGION`,
//! `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_SESSION_TOKEN`, or a role of the machine).
//! Large files go up in parts, a few at a time, and appear when the last part is there; a request
//! that fails is repeated a few times. A file's checksum goes first: alone it is harmless.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::Duration;

use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::path::Path as Key;
use object_store::{ClientOptions, ObjectStore, ObjectStoreExt, RetryConfig, WriteMultipart};
use tokio::runtime::{Builder, Runtime};

use crate::atomic::{self, Sum};
use crate::error::{Error, Result};
use crate::place::{Content, Entry, Files};

/// Bytes of a part; more for files that would need more parts than a store takes.
const PART_BYTES: u64 = 16 << 20;
const PARTS_MAX: u64 = 9_000;
/// Parts in flight at the same time.
const PARTS_AT_ONCE: usize = 4;
/// A request is tried so often, and not beyond so long after the first try.
const RETRIES_MAX: usize = 5;
const RETRY_LIMIT: Duration = Duration::from_secs(60);
/// How long one request may take.
const REQUEST_LIMIT: Duration = Duration::from_secs(120);
/// Sums that a sidecar keeps of what its file was before.
const OLD_SUMS_MAX: usize = 8;

/// The part of a bucket below a prefix.
#[derive(Debug)]
pub(crate) struct Bucket {
    at: PathBuf,
    bucket: String,
    prefix: String,
    endpoint: String,
    store: AmazonS3,
    runtime: Arc<Runtime>,
}

impl Bucket {
    /// Asks once, so that a wrong name or key is told now and not at the first save.
    pub(crate) fn open(at: &Path, bucket: &str, prefix: &str) -> Result<Bucket> {
        static CIPHERS: Once = Once::new();
        // Fails only if the program has chosen already.
        CIPHERS.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(bucket);
        let named = |key| builder.get_config_value(&key);
        let endpoint = named(AmazonS3ConfigKey::S3Endpoint).or_else(|| named(AmazonS3ConfigKey::Endpoint));
        let options = ClientOptions::new().with_timeout(REQUEST_LIMIT).with_connect_timeout(Duration::from_secs(5));
        let is_plain = endpoint.as_ref().is_some_and(|e| e.starts_with("http://"));
        builder = builder.with_client_options(options.with_allow_http(is_plain)).with_retry(RetryConfig {
            max_retries: RETRIES_MAX,
            retry_timeout: RETRY_LIMIT,
            ..RetryConfig::default()
        });
        let store = builder.build().map_err(|e| Error::io("open", at, io::Error::other(e)))?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("s3").enable_all().build();
        let opened = Bucket {
            at: at.to_path_buf(),
            bucket: bucket.to_string(),
            prefix: prefix.to_string(),
            endpoint: endpoint.unwrap_or_else(|| "AWS".to_string()),
            store,
            runtime: Arc::new(runtime.map_err(|e| Error::io("open", at, e))?),
        };
        opened.list().map_err(|e| opened.failed("open", at, e))?;
        Ok(opened)
    }

    fn key(&self, name: &str) -> Key {
        Key::from(format!("{}/{name}", self.prefix))
    }

    fn list(&self) -> object_store::Result<Vec<String>> {
        let prefix = Key::from(self.prefix.as_str());
        let found = self.runtime.block_on(self.store.list_with_delimiter(Some(&prefix)))?;
        Ok(found.objects.iter().filter_map(|o| Some(o.location.filename()?.to_string())).collect())
    }

    /// Every object below the prefix, folder by folder.
    fn list_all(&self) -> object_store::Result<Vec<Entry>> {
        let (mut folders, mut out) = (vec![Key::from(self.prefix.as_str())], Vec::new());
        while let Some(folder) = folders.pop() {
            let found = self.runtime.block_on(self.store.list_with_delimiter(Some(&folder)))?;
            folders.extend(found.common_prefixes);
            for object in found.objects {
                let name = object.location.as_ref().strip_prefix(&self.prefix).unwrap_or_default();
                let version = object.e_tag.unwrap_or_else(|| object.last_modified.to_string());
                out.push(Entry { name: name.trim_start_matches('/').into(), bytes: object.size, version });
            }
        }
        Ok(out)
    }

    fn get(&self, name: &str) -> object_store::Result<Vec<u8>> {
        let bytes = self.runtime.block_on(async { self.store.get(&self.key(name)).await?.bytes().await })?;
        Ok(bytes.into())
    }

    fn put(&self, name: &str, bytes: Vec<u8>) -> object_store::Result<()> {
        self.runtime.block_on(self.store.put(&self.key(name), bytes.into())).map(|_| ())
    }

    /// The sums in a sidecar, if there is one.
    fn sums(&self, name: &str) -> object_store::Result<Option<Vec<u8>>> {
        match self.get(&sidecar(name)) {
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            sums => sums.map(Some),
        }
    }

    /// Sends a file in parts.
    fn upload(&self, name: &str, bytes: u64, content: Content<'_>) -> object_store::Result<()> {
        let upload = self.runtime.block_on(self.store.put_multipart(&self.key(name)))?;
        let part = PART_BYTES.max(bytes.div_ceil(PARTS_MAX));
        let parts = WriteMultipart::new_with_chunk_size(upload, part as usize);
        let mut parts = Parts { parts, runtime: &self.runtime };
        match content(&mut parts) {
            Ok(()) => self.runtime.block_on(parts.parts.finish()).map(|_| ()),
            Err(e) => {
                // What has failed already is what is told.
                let _ = self.runtime.block_on(parts.parts.abort());
                Err(object_store::Error::Generic { store: "S3", source: Box::new(e) })
            }
        }
    }

    /// An error that says what to look at.
    fn failed(&self, action: &'static str, path: &Path, error: object_store::Error) -> Error {
        use object_store::Error as E;
        let text = chain(&error);
        let (bucket, endpoint) = (&self.bucket, &self.endpoint);
        let (kind, what) = match &error {
            _ if text.contains("NoSuchBucket") => {
                (io::ErrorKind::NotFound, format!("there is no bucket {bucket} at {endpoint}"))
            }
            E::NotFound { .. } => (io::ErrorKind::NotFound, "it is not there".to_string()),
            // Listing says no in its text alone.
            _ if is_refusal(&error, &text) => (
                io::ErrorKind::PermissionDenied,
                format!("{endpoint} refused the credentials (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY): {text}"),
            ),
            _ if text.contains("169.254.") => (
                io::ErrorKind::PermissionDenied,
                "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role"
                    .to_string(),
            ),
            _ => (io::ErrorKind::Other, format!("{endpoint}: {text}")),
        };
        Error::io(action, path, io::Error::new(kind, what))
    }
}

fn is_refusal(error: &object_store::Error, text: &str) -> bool {
    use object_store::Error as E;
    matches!(error, E::PermissionDenied { .. } | E::Unauthenticated { .. })
        || ["403 Forbidden", "401 Unauthorized"].iter().any(|s| text.contains(s))
}

/// An error with its causes, each said once.
fn chain(error: &dyn std::error::Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(e) = next {
        let cause = e.to_string();
        if !text.contains(&cause) {
            text += &format!(": {cause}");
        }
        next = e.source();
    }
    text.trim().to_string()
}

fn sidecar(name: &str) -> String {
    format!("{name}.xxh3")
}

impl Files for Bucket {
    fn write(&self, name: &str, content: Content<'_>) -> Result<()> {
        let path = self.at.join(name);
        let mut sum = Summed(Sum::default(), Vec::new());
        content(&mut sum).map_err(|e| Error::io("write", &path, e))?;
        let Summed(sum, start) = sum;
        let failed = |e| self.failed("write", &path, e);
        // The file agrees with its sidecar before and after it is replaced.
        let mut lines = sum.line();
        let old = self.sums(name).map_err(failed)?.unwrap_or_default();
        let old = String::from_utf8_lossy(&old).into_owned();
        let others = old.split_inclusive('\n').filter(|l| *l != sum.line());
        others.take(OLD_SUMS_MAX).for_each(|l| lines += l);
        self.put(&sidecar(name), lines.into_bytes()).map_err(failed)?;
        // What fits into one part is in memory already.
        let sent =
            if sum.bytes() < PART_BYTES { self.put(name, start) } else { self.upload(name, sum.bytes(), content) };
        sent.map_err(failed)
    }

    fn read(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.at.join(name);
        let failed = |e| self.failed("read", &path, e);
        let bytes = self.get(name).map_err(failed)?;
        let mut sum = Sum::default();
        sum.update(&bytes);
        let lines = self.get(&sidecar(name)).map_err(|e| self.failed("read", &atomic::sidecar(&path), e))?;
        atomic::agree_with(&path, &sum, &lines)?;
        Ok(bytes)
    }

    fn verify(&self, name: &str) -> Result<()> {
        let path = self.at.join(name);
        let found = self.runtime.block_on(self.store.head(&self.key(name)));
        found.map(|_| ()).map_err(|e| self.failed("read", &path, e))
    }

    fn start(&self, name: &str, bytes: u64) -> Result<Vec<u8>> {
        let range: Range<u64> = 0..bytes;
        let read = self.runtime.block_on(self.store.get_range(&self.key(name), range));
        read.map(Vec::from).map_err(|e| self.failed("read", &self.at.join(name), e))
    }

    fn names(&self) -> Result<Vec<String>> {
        self.list().map_err(|e| self.failed("list", &self.at, e))
    }

    fn tree(&self) -> Result<Vec<Entry>> {
        self.list_all().map_err(|e| self.failed("list", &self.at, e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        for name in [name, &sidecar(name)] {
            match self.runtime.block_on(self.store.delete(&self.key(name))) {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(e) => return Err(self.failed("remove", &self.at.join(name), e)),
            }
        }
        Ok(())
    }
}

/// Sums what is written, and keeps it while it fits into one part.
struct Summed(Sum, Vec<u8>);

impl Write for Summed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        if self.0.bytes() < PART_BYTES {
            self.1.extend_from_slice(bytes)
        } else {
            self.1 = Vec::new()
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Cuts what is written into parts and sends them, a few at a time.
struct Parts<'a> {
    parts: WriteMultipart,
    runtime: &'a Runtime,
}

impl Write for Parts<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _inside = self.runtime.enter();
        // Not more at once than a part: otherwise all of them would be in flight.
        let bytes = &bytes[..bytes.len().min(PART_BYTES as usize)];
        self.runtime.block_on(self.parts.wait_for_capacity(PARTS_AT_ONCE)).map_err(io::Error::other)?;
        self.parts.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
