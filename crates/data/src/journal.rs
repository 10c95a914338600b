//! The metrics of a run as JSON lines: one object a line, appended, readable
//! while the run goes on.
//!
//! A killed process may leave half a line, and a resumed run repeats steps
//! after its checkpoint: [`Journal::resume`] cuts both off.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};

use crate::error::{Error, Result};

/// Appends metrics to a file.
///
/// Each line has `step`, `time` (seconds since 1970) and the metrics. JSON has
/// no NaN and no infinity; they are written as the strings `"NaN"`,
/// `"Infinity"` and `"-Infinity"`, which Python's `float` accepts.
///
/// ```
/// use talweg_data::journal::Journal;
/// let folder = tempfile::tempdir().unwrap();
/// let path = folder.path().join("metrics.jsonl");
/// let mut journal = Journal::create(&path)?;
/// journal.write(1, &[("loss", 2.5), ("accuracy", 0.1)])?;
/// let line = std::fs::read_to_string(&path).unwrap();
/// assert!(line.starts_with(r#"{"step":1,"time":"#));
/// assert!(line.ends_with("\"loss\":2.5,\"accuracy\":0.1}\n"));
/// # Ok::<(), talweg_data::Error>(())
/// ```
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Begins a new log; one that is there is emptied.
    ///
    /// # Errors
    /// If the file cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> Result<Self> {
        let path = path.into();
        match File::create(&path) {
            Ok(file) => Ok(Journal { path, file }),
            Err(error) => Err(Error::io("write", path, error)),
        }
    }

    /// Continues a log after `step`: later lines, and a last line without an
    /// end, are cut off. Begins a new one if there is none.
    ///
    /// # Errors
    /// If the file cannot be read or written, or a line is no metrics of a log.
    pub fn resume(path: impl Into<PathBuf>, step: u64) -> Result<Self> {
        let path = path.into();
        let failed = |error| Error::io("write", &path, error);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        let end = kept(&path, &file, step)?;
        file.set_len(end).map_err(failed)?;
        file.seek(SeekFrom::Start(end)).map_err(failed)?;
        Ok(Journal { path, file })
    }

    /// Appends the metrics of a step.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn write(&mut self, step: u64, metrics: &[(&str, f64)]) -> Result<()> {
        self.line(step, metrics.iter().map(|(name, value)| ((*name).to_owned(), number(*value))))
    }

    /// Appends any JSON values for a step: text, lists, settings.
    ///
    /// # Errors
    /// If the line cannot be written.
    pub fn record(&mut self, step: u64, values: Map<String, Value>) -> Result<()> {
        self.line(step, values.into_iter())
    }

    fn line(&mut self, step: u64, values: impl Iterator<Item = (String, Value)>) -> Result<()> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        // Written by hand so that step and time come first.
        let mut line = format!("{{\"step\":{step},\"time\":{time:.3}");
        for (name, value) in values {
            line += &format!(",{}:{value}", Value::String(name));
        }
        line += "}\n";
        // One call a line: readers never see half of one, short of a crash.
        self.file.write_all(line.as_bytes()).map_err(|error| Error::io("write", &self.path, error))
    }

    /// Waits until everything is on disk.
    ///
    /// # Errors
    /// If the operating system reports a failed write.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|error| Error::io("write", &self.path, error))
    }
}

/// Length of the part of a log that belongs to steps up to `step`.
fn kept(path: &Path, file: &File, step: u64) -> Result<u64> {
    let mut reader = BufReader::new(file);
    let (mut end, mut line, mut number) = (0, Vec::new(), 0);
    loop {
        line.clear();
        number += 1;
        reader.read_until(b'\n', &mut line).map_err(|error| Error::io("read", path, error))?;
        if line.last() != Some(&b'\n') {
            return Ok(end);
        }
        let parsed: Option<Value> = serde_json::from_slice(&line).ok();
        match parsed.as_ref().and_then(|value| value.get("step")).and_then(Value::as_u64) {
            Some(found) if found <= step => end += line.len() as u64,
            Some(_) => return Ok(end),
            None => {
                let what = format!("line {number}: expected a JSON object with a step, found something else");
                return Err(Error::format(path, what));
            }
        }
    }
}

/// A number as JSON.
fn number(value: f64) -> Value {
    let text = || match value {
        _ if value.is_nan() => "NaN",
        _ if value > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    serde_json::Number::from_f64(value).map_or_else(|| text().into(), Value::Number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(path: &Path) -> Vec<u64> {
        let text = std::fs::read_to_string(path).unwrap();
        let step = |line: &str| serde_json::from_str::<Value>(line).unwrap()["step"].as_u64().unwrap();
        text.lines().map(step).collect()
    }

    #[test]
    fn what_is_no_number_is_a_string() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut journal = Journal::create(&path).unwrap();
        journal.write(3, &[("a\"b", f64::NAN), ("c", f64::NEG_INFINITY), ("d", 0.25)]).unwrap();
        journal.sync().unwrap();
        let value: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!((&value["a\"b"], &value["c"], &value["d"]), (&"NaN".into(), &"-Infinity".into(), &0.25.into()));
    }

    #[test]
    fn resume_cuts_repeated_steps_and_half_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let mut journal = Journal::resume(&path, 0).unwrap();
        for step in 1..=5 {
            journal.write(step, &[("loss", 1.0)]).unwrap();
        }
        journal.file.write_all(b"{\"step\":6,\"ti").unwrap();
        Journal::resume(&path, 9).unwrap().write(6, &[]).unwrap();
        assert_eq!(steps(&path), [1, 2, 3, 4, 5, 6]);
        Journal::resume(&path, 3).unwrap().write(4, &[]).unwrap();
        assert_eq!(steps(&path), [1, 2, 3, 4]);
    }

    #[test]
    fn other_files_are_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notes.txt");
        std::fs::write(&path, "dear diary\n").unwrap();
        let error = Journal::resume(&path, 0).unwrap_err().to_string();
        assert!(error.ends_with("line 1: expected a JSON object with a step, found something else"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "dear diary\n");
        let missing = Journal::create(folder.path().join("no/log")).unwrap_err().to_string();
        assert!(missing.contains("no/log"), "{missing}");
    }
}
