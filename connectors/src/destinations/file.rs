//! A file that grows by one line of JSON a result.
//!
//! The position is the length of the file. When the destination is opened at one, what lies behind it was written and is
//! not known of: it is cut off, and its results come again. So each result is in the file exactly once, also across a
//! kill of the process. (A power failure may cost lines that the system had not yet brought to the disk.) A lock keeps two
//! outputs from cutting each other's lines.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::{ConnectorError, Fault};

/// Appends each result to a file, as a line of JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WriteToFile {
    /// The file; it is made when it is not there.
    pub path: PathBuf,
    /// What is around the data of a result.
    #[serde(default)]
    pub structure: Envelope,
}

impl DestinationConfig for WriteToFile {
    fn settings(&self) -> serde_json::Value {
        crate::settings("WriteToFile", self)
    }

    fn envelope(&self, _generation: Generation) -> Envelope {
        self.structure
    }

    fn open(&self, _context: &DestinationContext, from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        let place = self.path.display().to_string();
        let io = |doing: &'static str| {
            let place = place.clone();
            move |error| ConnectorError::io(&place, doing, error)
        };
        let file = OpenOptions::new().create(true).write(true).truncate(false).open(&self.path);
        let mut file = file.map_err(io("cannot open the file for writing"))?;
        let metadata = file.metadata().map_err(io("cannot look at the file"))?;
        // A pipe or a device has no length to go back to.
        let regular = metadata.is_file();
        let mut length = metadata.len();
        if regular {
            lock(&file, &place)?;
            if let Some(known) = from.filter(|position| !position.0.is_empty()) {
                let known = known.0.as_slice().try_into().map(u64::from_le_bytes).map_err(|_| ConnectorError::Position {
                    place: place.clone(),
                    problem: "the stored position is not one of a file; delete the output and create it anew".to_owned(),
                })?;
                if known > length {
                    // What was there has been taken away; what comes now belongs behind what is left.
                    tracing::warn!("{place} was {known} bytes long and has {length} now; results are appended to it");
                } else if known < length {
                    file.set_len(known).map_err(io("cannot cut off what was written after the last stored position"))?;
                    length = known;
                }
            }
            file.seek(SeekFrom::Start(length)).map_err(io("cannot go to the end of the file"))?;
        }
        Ok(Box::new(LineFile { file, place, regular, length, torn: false, text: Vec::new() }))
    }
}

/// Claims the file. One that is just being let go, by an output that is deleted and made anew, is waited for.
fn lock(file: &File, place: &str) -> Result<(), ConnectorError> {
    let deadline = Instant::now() + Duration::from_millis(500);
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            Err(TryLockError::WouldBlock) => {
                return Err(ConnectorError::World {
                    place: place.to_owned(),
                    problem: "another output writes to this file; give each output a file of its own".to_owned(),
                    fault: Fault::User,
                    retryable: false,
                    source: None,
                });
            }
            Err(TryLockError::Error(error)) => return Err(ConnectorError::io(place, "cannot lock the file", error)),
        }
    }
}

struct LineFile {
    file: File,
    place: String,
    regular: bool,
    /// Of whole lines.
    length: u64,
    /// A failed write may have left part of a line behind `length`.
    torn: bool,
    text: Vec<u8>,
}

impl LineFile {
    fn io(&self, doing: &str, error: std::io::Error) -> ConnectorError {
        ConnectorError::io(&self.place, doing, error)
    }
}

impl Destination for LineFile {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        if self.torn && self.regular {
            self.file.set_len(self.length).map_err(|error| self.io("cannot take back half a line", error))?;
            self.file.seek(SeekFrom::Start(self.length)).map_err(|error| self.io("cannot take back half a line", error))?;
        }
        self.text.clear();
        for result in results {
            self.text.extend_from_slice(&result.body);
            self.text.push(b'\n');
        }
        self.torn = true;
        self.file.write_all(&self.text).map_err(|error| self.io("cannot write to the file", error))?;
        self.torn = false;
        self.length += self.text.len() as u64;
        Ok(Written::default())
    }

    fn position(&self) -> Position {
        if self.regular { Position(self.length.to_le_bytes().to_vec()) } else { Position::default() }
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        if !self.regular {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| self.io("cannot bring the file to the disk", error))
    }
}
