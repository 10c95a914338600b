//! Event files that TensorBoard opens: scalars, histograms, images, text.
//!
//! An event file is a sequence of TFRecords (length, masked CRC-32C of it,
//! bytes, masked CRC-32C of them), each an `Event` message in protocol-buffer
//! encoding. The few messages needed are encoded by hand; the numbers beside
//! the calls are field numbers of TensorFlow's `event.proto`, `summary.proto`
//! and `tensor.proto`.
//!
//! Start `tensorboard --logdir FOLDER` to look at them.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::array::Array;
use crate::error::{Error, Result};
use crate::rendering;

/// Bins of a histogram; TensorBoard shows about as many.
const BINS: usize = 30;

/// Writes one event file.
///
/// ```
/// use talweg_data::events::Events;
/// let folder = tempfile::tempdir().unwrap();
/// let mut events = Events::create(folder.path())?;
/// events.scalar("train/loss", 1, 2.3)?;
/// events.histogram("weights", 1, &[0.1, -0.2, 0.3])?;
/// events.text("notes", 1, "first *run*")?;
/// events.flush()?;
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Debug)]
pub struct Events {
    path: PathBuf,
    writer: BufWriter<File>,
}

impl Events {
    /// Begins a new event file in a folder, which is made if it is missing.
    ///
    /// # Errors
    /// If the folder or the file cannot be created.
    pub fn create(folder: impl AsRef<Path>) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let folder = folder.as_ref();
        std::fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, error))?;
        // TensorBoard reads the files of a run in the order of their names, so
        // the time comes first; process and number keep them apart.
        let (seconds, process) = (now() as u64, std::process::id());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("events.out.tfevents.{seconds:010}.talweg.{process}.{number}"));
        let file = File::create_new(&path).map_err(|error| Error::io("create", &path, error))?;
        let mut events = Events { path, writer: BufWriter::new(file) };
        let version = Message::default().bytes(3, b"brain.Event:2");
        events.event(0, version)?;
        Ok(events)
    }

    /// Begins a new event file for a run that is resumed after `step`:
    /// TensorBoard then hides what earlier files of the folder say about later
    /// steps.
    ///
    /// # Errors
    /// As [`Events::create`].
    pub fn resume(folder: impl AsRef<Path>, step: u64) -> Result<Self> {
        let mut events = Events::create(folder)?;
        let start = Message::default().varint(1, 1); // SessionLog.status = START
        events.event(step + 1, Message::default().message(7, &start))?;
        Ok(events)
    }

    /// The file that is written.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// One number of a curve.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f32) -> Result<()> {
        self.summary(step, Message::default().bytes(1, tag.as_bytes()).float(2, value))
    }

    /// The distribution of some numbers; those that are not finite are left
    /// out.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn histogram(&mut self, tag: &str, step: u64, values: &[f32]) -> Result<()> {
        let histogram = histogram(values);
        self.summary(step, Message::default().bytes(1, tag.as_bytes()).message(5, &histogram))
    }

    /// An image: `u8` of shape `[height, width]` (gray) or
    /// `[height, width, channels]`.
    ///
    /// # Errors
    /// If the array is no image, or the file cannot be written.
    pub fn image(&mut self, tag: &str, step: u64, image: &Array) -> Result<()> {
        let (Ok(pixels), [height, width, rest @ ..]) = (image.values::<u8>(), image.shape()) else {
            return Err(not_an_image(image));
        };
        let channels = match rest {
            [] => 1,
            [channels] => *channels,
            _ => return Err(not_an_image(image)),
        };
        let png = rendering::png(pixels, *height, *width, channels)?;
        let image = Message::default()
            .varint(1, *height as u64)
            .varint(2, *width as u64)
            .varint(3, channels as u64)
            .bytes(4, &png);
        self.summary(step, Message::default().bytes(1, tag.as_bytes()).message(4, &image))
    }

    /// A text, shown as Markdown.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn text(&mut self, tag: &str, step: u64, text: &str) -> Result<()> {
        let plugin = Message::default().bytes(1, b"text"); // PluginData.plugin_name
        let metadata = Message::default().message(1, &plugin);
        let tensor = Message::default()
            .varint(1, 7) // DT_STRING
            .message(2, &Message::default()) // shape: no axes
            .bytes(8, text.as_bytes());
        let value = Message::default().bytes(1, tag.as_bytes()).message(8, &tensor).message(9, &metadata);
        self.summary(step, value)
    }

    /// Hands everything to the operating system, so that TensorBoard sees it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn flush(&mut self) -> Result<()> {
        self.writer.flush().map_err(|error| Error::io("write", &self.path, error))
    }

    fn summary(&mut self, step: u64, value: Message) -> Result<()> {
        let summary = Message::default().message(1, &value);
        self.event(step, Message::default().message(5, &summary))
    }

    /// Frames and writes an event with the given content.
    fn event(&mut self, step: u64, content: Message) -> Result<()> {
        let Message(mut event) = Message::default().double(1, now()).varint(2, step);
        event.extend(content.0);
        self.writer.write_all(&record(&event)).map_err(|error| Error::io("write", &self.path, error))
    }
}

fn not_an_image(array: &Array) -> Error {
    Error::mismatch(format!(
        "an image is u8 of shape [height, width] or [height, width, channels], found {} of shape {:?}",
        array.dtype(),
        array.shape()
    ))
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

/// A TFRecord.
fn record(bytes: &[u8]) -> Vec<u8> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes();
    let length = (bytes.len() as u64).to_le_bytes();
    [&length[..], &masked(&length), bytes, &masked(bytes)].concat()
}

/// A `HistogramProto` of equal bins between the least and the greatest value.
fn histogram(values: &[f32]) -> Message {
    let finite = || values.iter().filter(|x| x.is_finite()).map(|x| f64::from(*x));
    let count = finite().count();
    let (low, high) = finite().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), x| (a.min(x), b.max(x)));
    let (low, high) = if count == 0 { (0.0, 0.0) } else { (low, high) };
    let bins = if high > low { BINS } else { 1 };
    let width = (high - low) / bins as f64;
    let mut counts = vec![0.0; bins];
    for x in finite() {
        let bin = if width > 0.0 { ((x - low) / width) as usize } else { 0 };
        counts[bin.min(bins - 1)] += 1.0;
    }
    let limit = |bin: usize| if bin + 1 == bins { high } else { low + width * (bin + 1) as f64 };
    Message::default()
        .double(1, low)
        .double(2, high)
        .double(3, count as f64)
        .double(4, finite().sum())
        .double(5, finite().map(|x| x * x).sum())
        .doubles(6, (0..bins).map(limit))
        .doubles(7, counts.into_iter())
}

/// A protocol-buffer message under construction.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn tag(&mut self, field: u64, wire: u64) {
        self.number(field << 3 | wire);
    }

    /// Seven bits a byte, the lowest first; the top bit says that more follow.
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn varint(mut self, field: u64, number: u64) -> Self {
        self.tag(field, 0);
        self.number(number);
        self
    }

    fn double(mut self, field: u64, number: f64) -> Self {
        self.tag(field, 1);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn float(mut self, field: u64, number: f32) -> Self {
        self.tag(field, 5);
        self.0.extend(number.to_le_bytes());
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.tag(field, 2);
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
        self
    }

    fn message(self, field: u64, message: &Message) -> Self {
        self.bytes(field, &message.0)
    }

    /// A packed list.
    fn doubles(self, field: u64, numbers: impl Iterator<Item = f64>) -> Self {
        let bytes: Vec<u8> = numbers.flat_map(f64::to_le_bytes).collect();
        self.bytes(field, &bytes)
    }
}
