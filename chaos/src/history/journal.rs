//! The files of a run, written during it and read afterwards.

use super::{Moment, Record};
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::sync::Arc;

/// The file of one process. Cheap to clone: all clones write to the same file.
#[derive(Clone)]
pub struct Journal {
    file: Arc<File>,
}

impl Journal {
    /// Appends to the file of that name in the run's directory.
    pub fn open(directory: &Path, name: &str) -> io::Result<Self> {
        let path = directory.join(format!("{name}.jsonl"));
        Ok(Self { file: Arc::new(OpenOptions::new().create(true).append(true).open(path)?) })
    }

    /// Written at once and in one piece, so that neither a kill nor another thread can halve it.
    ///
    /// # Panics
    /// If the disk is full: a history with holes proves nothing.
    pub fn write(&self, record: &Record) {
        let mut line = serde_json::to_vec(record).expect("records are plain data");
        line.push(b'\n');
        (&*self.file).write_all(&line).expect("the journal can be written");
    }

    pub fn broken(&self, promise: &str, what: impl Into<String>) {
        self.write(&Record::Broken { at: Moment::now(), promise: promise.to_owned(), what: what.into() });
    }

    pub fn measured(&self, what: &str, value: f64) {
        self.write(&Record::Measured { at: Moment::now(), what: what.to_owned(), value });
    }
}

/// All records of a run's directory, by their moments.
///
/// # Errors
/// If a file cannot be read, or if a line is no record, except the last line of a file.
pub fn read_all(directory: &Path) -> io::Result<Vec<Record>> {
    let mut records = Vec::new();
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == "jsonl") {
            read(&path, &mut records)?;
        }
    }
    records.sort_by_key(Record::at);
    Ok(records)
}

fn read(path: &Path, records: &mut Vec<Record>) -> io::Result<()> {
    for line in BufReader::new(File::open(path)?).lines() {
        let line = line?;
        records.push(serde_json::from_str(&line).map_err(|error| {
            io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}: {line}", path.display()))
        })?);
    }
    Ok(())
}
