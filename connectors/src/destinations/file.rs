//! A file that grows by one line of JSON a result.
//!
//! The position is the length of the file, and its beginning to know it by. When the destination is opened at one, what lies
//! behind it was written and is not known of: it is cut off, and its results come again. So each result is in the file exactly
//! once, also across a kill of the process. (A power failure may cost lines that the system had not yet brought to the disk.) A
//! lock keeps two outputs from cutting each other's lines.
//!
//! Others may put the file aside or cut it off. That is looked for before each write, which goes to the end of what is there
//! then. A kill between that and the next stored position brings the results of that moment again: what lies in another file is
//! not cut off. What is put aside here is known (`rotation`), and a kill brings nothing again.
//!
//! A pipe or a device has no position. Whoever reads a pipe may be away, or take nothing for long: that is waited for as for any
//! other side, and never in a call that nobody can end.

use std::fs::{self, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, CWD, OFlags, accessat};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_model::Position;

use super::rotation::{Known, Rotated, Rotation};
use crate::delivery::Outgoing;
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::encode::{Envelope, Generation};
use crate::error::{ConnectorError, Fault};
use crate::file_head::{Head, identity};
use crate::file_policy::FilePolicy;
use crate::on_call::LOOK;

const UNOPENED: &str = "cannot open the file for writing";
const UNWRITTEN: &str = "cannot write to the file";
/// Tried again until somebody does.
const UNREAD: &str = "nobody reads this pipe: it waits for a reader";
/// So many bytes a pipe takes as a whole or not at all.
const WHOLE_MAX: usize = 4096;

/// Appends each result to a file, as a line of JSON.
///
/// Each result is written once, also across a crash of weir.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WriteToFile {
    /// The path of the file, or of a named pipe that somebody reads. A file is created if it does not exist. Where
    /// `file-output.allowed-directories` is set it must be in one of those.
    pub path: PathBuf,
    /// When the file is set aside and a new one is begun. When not given, the file grows without limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotation: Option<Rotation>,
    /// What a result is written with: its `data` alone, or also its `meta`. `WithMetadata` when not given.
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

    fn why_kept(&self) -> Option<&'static str> {
        Some("a file has each result once, and those that were given up would be missing from it")
    }

    fn check(&self) -> Result<(), ConnectorError> {
        self.rotation.iter().try_for_each(Rotation::check)
    }

    /// So that it is told together with what else is wrong with a request: files are opened when all the rest is right.
    fn try_out(&self, files: &FilePolicy) -> Result<(), ConnectorError> {
        files.check_to_write(&self.path)?;
        let failed = |error| ConnectorError::io(&self.path.display().to_string(), UNOPENED, error);
        match fs::metadata(&self.path) {
            // Whoever reads a pipe would be told of its end.
            Ok(found) if !found.is_file() && !found.is_dir() => Ok(()),
            Ok(_) => OpenOptions::new().append(true).open(&self.path).map(drop).map_err(failed),
            // A link to where no file is yet.
            Err(_) if fs::symlink_metadata(&self.path).is_ok() => Ok(()),
            // Nothing is made to try it: others might take it for theirs before it is gone again.
            Err(_) => {
                let around = self.path.parent().filter(|around| !around.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let rights = Access::WRITE_OK | Access::EXEC_OK;
                // With a dot at the end it is a directory or none.
                match accessat(CWD, around.join("."), rights, AtFlags::EACCESS) {
                    // Containers that do not know the call say so; whether the file can be made is seen when it is opened.
                    Ok(()) | Err(Errno::PERM) => Ok(()),
                    Err(error) => Err(failed(error.into())),
                }
            }
        }
    }

    fn open(&self, context: &DestinationContext, from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        self.check()?;
        let mut written = LineFile::open(&self.path, &context.files)?;
        let known =
            from.filter(|position| !position.0.is_empty()).map(|position| Stood::read(&written.place, position)).transpose()?;
        if written.identity.is_none() {
            return match self.rotation {
                Some(_) => {
                    Err(ConnectorError::config("rotation", "only a file can be put aside, and this is a pipe or a device"))
                }
                None => Ok(Box::new(written)),
            };
        }
        let rotated = known.as_ref().and_then(|known| known.rotated);
        let mut put_aside_since = false;
        if self.rotation.is_some() || rotated.is_some() {
            // Of a link the file is put aside where it lies.
            let path = fs::canonicalize(&self.path).map_err(|error| written.io("cannot look at the file", error))?;
            let (state, since) = Rotated::open(self.rotation.as_ref(), &path, rotated)?;
            (written.path, written.rotated, put_aside_since) = (path, Some(state), since);
        }
        if let Some(Stood { length: mut known, head, .. }) = known {
            let (place, length) = (&written.place, written.length);
            if put_aside_since {
                known = 0;
            }
            if known > length || (!put_aside_since && !head.is_of(&written.file)) {
                // What was there has been taken away; what comes now belongs behind what is left.
                tracing::warn!(
                    "{place} is another file than the one that was {known} bytes long, or is cut off; it has {length}, and results are \
                     appended to it"
                );
            } else if known < length {
                let cut = written.file.set_len(known);
                cut.map_err(|error| written.io("cannot cut off what was written after the last stored position", error))?;
                written.begin(known);
            }
        }
        written.grown();
        Ok(Box::new(written))
    }
}

/// What a position says.
struct Stood {
    length: u64,
    /// What the file is known by. Positions of before have the length alone.
    head: Head,
    rotated: Option<Known>,
}

impl Stood {
    fn read(place: &str, position: &Position) -> Result<Stood, ConnectorError> {
        let parts = || {
            let (length, rest) = position.0.split_first_chunk::<8>()?;
            let (head, rest) = match rest.split_first_chunk::<{ Head::BYTES }>() {
                Some((head, rest)) => (Head::from_bytes(head), rest),
                None => (Head::default(), rest),
            };
            let rotated = if rest.is_empty() { None } else { Some(Known::from_bytes(rest.try_into().ok()?)) };
            Some(Stood { length: u64::from_le_bytes(*length), head, rotated })
        };
        parts().ok_or_else(|| ConnectorError::Position {
            place: place.to_owned(),
            problem: "the stored position is not one of a file; delete the output and create it anew".to_owned(),
        })
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
    /// Of a file that is put aside here. What it does beside ends before the file is let go.
    rotated: Option<Rotated>,
    path: PathBuf,
    /// Which others may lie there later.
    files: FilePolicy,
    file: File,
    place: String,
    /// None of a pipe or a device, which has no length to go back to and is not looked at again.
    identity: Option<(u64, u64)>,
    /// Bytes of whole lines.
    length: u64,
    head: Head,
    /// A failed write may have left part of a line behind `length`.
    torn: bool,
    /// Bytes that a pipe has of the line that comes next.
    begun: usize,
    text: Vec<u8>,
    /// Nothing is waited for any more.
    stop: Arc<AtomicBool>,
}

impl LineFile {
    /// At its end, whatever is there.
    fn open(path: &Path, files: &FilePolicy) -> Result<LineFile, ConnectorError> {
        files.check_to_write(path)?;
        let place = path.display().to_string();
        let io = |doing: &'static str| {
            let place = place.clone();
            move |error| ConnectorError::io(&place, doing, error)
        };
        // A pipe that is opened to be read, too, would never be without a reader.
        let to_be_read = fs::metadata(path).map_or(true, |found| found.is_file());
        // Without it, opening a pipe and writing to one wait for its reader, and cannot be stopped. Of a file nobody waits.
        let nonblocking = OFlags::NONBLOCK.bits() as i32;
        let options = |read| OpenOptions::new().create(true).append(true).read(read).custom_flags(nonblocking).open(path);
        let file = match options(to_be_read) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied && to_be_read => options(false),
            opened => opened,
        };
        let is_pipe = || fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        let file = file.map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) if is_pipe() => ConnectorError::passing(&place, UNREAD.to_owned()),
            _ => ConnectorError::io(&place, UNOPENED, error),
        })?;
        let metadata = file.metadata().map_err(io("cannot look at the file"))?;
        let identity = identity(&metadata);
        if identity.is_some() {
            lock(&file, &place)?;
        }
        let (path, files, text, stop) = (path.to_owned(), files.clone(), Vec::new(), Arc::default());
        let (length, head, torn, begun) = (0, Head::default(), false, 0);
        let mut opened = LineFile { rotated: None, path, files, file, place, identity, length, head, torn, begun, text, stop };
        opened.begin(metadata.len());
        Ok(opened)
    }

    /// Begins with a file in which `length` bytes are.
    fn begin(&mut self, length: u64) {
        (self.length, self.head) = (length, Head::default());
        self.head.grow(&self.file, length);
    }

    fn io(&self, doing: &str, error: io::Error) -> ConnectorError {
        ConnectorError::io(&self.place, doing, error)
    }

    fn grown(&mut self) {
        if let Some(rotated) = &mut self.rotated {
            rotated.grown(self.length);
        }
    }

    /// Goes on in the file that is at the path now, whichever that is.
    fn go_on(&mut self) -> Result<(), ConnectorError> {
        let next = LineFile::open(&self.path, &self.files)?;
        // What is to be written next stays, too.
        let (rotated, place, text) = (self.rotated.take(), std::mem::take(&mut self.place), std::mem::take(&mut self.text));
        *self = LineFile { rotated, place, text, stop: self.stop.clone(), ..next };
        self.grown();
        Ok(())
    }

    /// Half a line that a failed write has left.
    fn take_back(&mut self) -> Result<(), ConnectorError> {
        if self.torn && self.file.metadata().is_ok_and(|found| found.len() > self.length) {
            self.file.set_len(self.length).map_err(|error| self.io("cannot take back half a line", error))?;
        }
        Ok(())
    }

    /// Puts the file aside, if it is time before `more` bytes come. All of it is on the disk then.
    fn rotate(&mut self, more: u64) -> Result<(), ConnectorError> {
        if !self.rotated.as_ref().is_some_and(|rotated| rotated.is_due(self.length, more)) {
            return Ok(());
        }
        self.take_back()?;
        self.file.sync_data().map_err(|error| self.io("cannot bring the file to the disk", error))?;
        let Some(rotated) = &mut self.rotated else { return Ok(()) };
        if !rotated.wait(&self.stop) {
            return Err(ConnectorError::passing(
                &self.place,
                "the file that was put aside before is not compressed yet".to_owned(),
            ));
        }
        let before = rotated.known.number;
        let put_aside = rotated.put_aside(&self.path);
        if rotated.known.number > before {
            // Also where what follows fails: the file at the path, if any, is another one.
            (self.length, self.head, self.torn) = (0, Head::default(), false);
        }
        put_aside.map_err(|error| self.io("cannot put the file aside", error))?;
        self.go_on()
    }

    /// Notices what others have done to the file: put it aside, to begin with a new one, or cut it off.
    fn look(&mut self) -> Result<(), ConnectorError> {
        let is_there = match fs::metadata(&self.path) {
            Ok(found) => identity(&found) == self.identity,
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) => return Err(self.io("cannot look at the file", error)),
        };
        if !is_there {
            self.take_back()?;
            self.file.sync_data().map_err(|error| self.io("cannot bring the file to the disk", error))?;
            let length = self.length;
            self.go_on()?;
            tracing::info!("{} was put aside with {length} bytes; results go on in a new one", self.place);
            return Ok(());
        }
        let length = self.file.metadata().map_err(|error| self.io("cannot look at the file", error))?.len();
        if length < self.length {
            tracing::info!(
                "{} was cut off: it had {} bytes and has {length}; results go on behind them",
                self.place,
                self.length
            );
            self.begin(length);
        } else if length > self.length && self.torn {
            self.file.set_len(self.length).map_err(|error| self.io("cannot take back half a line", error))?;
        } else if length > self.length {
            // Somebody else has written to it.
            self.begin(length);
        }
        Ok(())
    }

    /// Writes to a pipe or a device. What it has taken does not come again, not even the beginning of a line that is too long to
    /// be taken as a whole: who reads on, or comes then, finds the rest behind it.
    fn pour(&mut self, results: &[Outgoing]) -> Result<Written, ConnectorError> {
        self.text.clear();
        let mut ends = Vec::with_capacity(results.len());
        for result in results {
            self.text.extend_from_slice(&result.body);
            self.text.push(b'\n');
            ends.push(self.text.len());
        }
        let mut out = self.begun;
        let failed = self.write_from(&ends, &mut out);
        let whole = ends.partition_point(|end| *end <= out);
        self.begun = out - line_of(&ends, out);
        match failed {
            Ok(()) => Ok(Written::default()),
            Err(error) if whole == 0 || !error.retryable() => Err(error),
            Err(error) => {
                let left = (whole..results.len()).collect();
                // One stands behind the other: of those that wait nobody was asked but the first.
                let untried = (whole + 1..results.len()).collect();
                Ok(Written { left, left_reason: Some(error.to_string()), untried, ..Written::default() })
            }
        }
    }

    /// The pipe that has taken the place of this one at the path, where somebody has removed this one and made another. Nothing
    /// is made there, and nothing but a pipe is opened.
    fn new_pipe(&self) -> Result<Option<File>, ConnectorError> {
        let own = self.file.metadata().map_err(|error| self.io("cannot look at the pipe", error))?;
        let is_pipe = |found: &Metadata| found.file_type().is_fifo();
        let is_new = |found: Metadata| is_pipe(&found) && (found.dev(), found.ino()) != (own.dev(), own.ino());
        if !is_pipe(&own) || !fs::metadata(&self.path).is_ok_and(is_new) {
            return Ok(None);
        }
        self.files.check_to_write(&self.path)?;
        match OpenOptions::new().append(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&self.path) {
            // What is there may have changed since it was looked at.
            Ok(file) => Ok(file.metadata().is_ok_and(is_new).then_some(file)),
            Err(error) if error.kind() == ErrorKind::NotFound || Errno::from_io_error(&error) == Some(Errno::NXIO) => Ok(None),
            Err(error) => Err(self.io(UNOPENED, error)),
        }
    }

    /// Writes `text` from there on, waiting for whoever reads it until the output ends. `ends` are where its lines end.
    fn write_from(&mut self, ends: &[usize], out: &mut usize) -> Result<(), ConnectorError> {
        while *out < self.text.len() {
            match self.file.write(&self.text[*out..end_of_part(ends, *out)]) {
                Ok(0) => return Err(self.io(UNWRITTEN, ErrorKind::WriteZero.into())),
                Ok(count) => *out += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::BrokenPipe => match self.new_pipe()? {
                    Some(pipe) => {
                        tracing::info!("{} is another pipe than before; results go on in that", self.place);
                        self.file = pipe;
                        // Who reads this one would take the rest of a line for a line.
                        *out = line_of(ends, *out);
                    }
                    None => return Err(ConnectorError::passing(&self.place, UNREAD.to_owned())),
                },
                Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(self.io(UNWRITTEN, error)),
                Err(_) if self.stop.load(Ordering::Relaxed) => {
                    let problem = "whoever reads it takes nothing, and the output ends".to_owned();
                    return Err(ConnectorError::passing(&self.place, problem));
                }
                Err(_) => wait_writable(&self.file, LOOK).map_err(|error| self.io("cannot wait for its reader", error))?,
            }
        }
        Ok(())
    }
}

/// Where the line begins that a place before the last end is in.
fn line_of(ends: &[usize], place: usize) -> usize {
    let before = ends.partition_point(|end| *end <= place);
    before.checked_sub(1).map_or(0, |last| ends[last])
}

/// Up to where to write at once, from a place before the last end: no line is torn that a pipe can take as a whole.
fn end_of_part(ends: &[usize], from: usize) -> usize {
    let next = ends.partition_point(|end| *end <= from);
    let whole = ends.partition_point(|end| *end <= from + WHOLE_MAX);
    ends[whole.max(next + 1) - 1]
}

/// Waits until a write would do something, at most so long.
fn wait_writable(file: &File, wait: Duration) -> io::Result<()> {
    let limit = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
    match poll(&mut [PollFd::new(file, PollFlags::OUT)], Some(&limit)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

impl Destination for LineFile {
    fn write(&mut self, results: &[Outgoing], upper: u64) -> Result<Written, ConnectorError> {
        if self.identity.is_some() {
            self.look()?;
        }
        if self.identity.is_none() {
            return self.pour(results);
        }
        self.text.clear();
        let repeats = |result: &&Outgoing| self.rotated.as_ref().is_some_and(|rotated| rotated.repeats(result.mark));
        for result in results.iter().filter(|result| !repeats(result)) {
            self.text.extend_from_slice(&result.body);
            self.text.push(b'\n');
        }
        self.rotate(self.text.len() as u64)?;
        self.torn = true;
        self.file.write_all(&self.text).map_err(|error| self.io(UNWRITTEN, error))?;
        self.torn = false;
        self.length += self.text.len() as u64;
        self.head.grow(&self.file, self.length);
        if let Some(rotated) = &mut self.rotated {
            rotated.wrote(upper);
            rotated.grown(self.length);
        }
        Ok(Written::default())
    }

    fn ends_by(&mut self, stop: &Arc<AtomicBool>) {
        self.stop = stop.clone();
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        if self.rotated.as_ref().is_some_and(|rotated| rotated.is_due(self.length, 0)) {
            self.look()?;
            self.rotate(0)?;
        }
        self.rotated.as_mut().map_or(Ok(()), Rotated::look)
    }

    fn rests(&self) -> bool {
        self.rotated.as_ref().is_none_or(|rotated| rotated.rests(self.length))
    }

    fn position(&self) -> Position {
        if self.identity.is_none() {
            return Position::default();
        }
        let mut bytes = self.length.to_le_bytes().to_vec();
        bytes.extend_from_slice(&self.head.to_bytes());
        if let Some(rotated) = &self.rotated {
            bytes.extend_from_slice(&rotated.known.to_bytes());
        }
        Position(bytes)
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        if self.identity.is_none() {
            return Ok(());
        }
        self.file.sync_data().map_err(|error| self.io("cannot bring the file to the disk", error))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::process::Command;

    use crossbeam_channel::bounded;

    use super::*;
    use crate::conformance::{output, runtime};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pipe(directory: &tempfile::TempDir) -> PathBuf {
        let path = directory.path().join("pipe");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    fn open(path: &Path) -> Result<Box<dyn Destination>, ConnectorError> {
        let config = WriteToFile { path: path.to_owned(), rotation: None, structure: Envelope::default() };
        // Whoever waits for the other end of a pipe waits for ever.
        let (sender, opened) = bounded(1);
        thread::spawn(move || {
            let runtime = runtime();
            let _ = sender.send(config.open(&output(&runtime), None));
        });
        opened.recv_timeout(PATIENCE).expect("nobody waits for a reader where a file is opened")
    }

    fn reader(path: &Path) -> File {
        OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path).unwrap()
    }

    /// What there is now.
    fn read(reader: &mut File) -> String {
        let (mut all, mut part) = (Vec::new(), [0; 4096]);
        while let Ok(count @ 1..) = reader.read(&mut part) {
            all.extend_from_slice(&part[..count]);
        }
        String::from_utf8(all).unwrap()
    }

    fn result(body: &str) -> Outgoing {
        Outgoing { body: body.as_bytes().to_vec(), positive: true, ..Outgoing::default() }
    }

    /// It blocked whoever created the output, and everybody behind them; and the next start.
    #[test]
    fn a_pipe_that_nobody_reads_is_tried_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = pipe(&directory);
        let refused = open(&path).err().unwrap();
        assert!(refused.retryable() && refused.to_string().ends_with(UNREAD), "{refused}");
        let mut reads = reader(&path);
        let mut destination = open(&path).unwrap();
        destination.write(&[result("a")], 2).unwrap();
        assert_eq!(read(&mut reads), "a\n");
        drop(reads);
        let failed = destination.write(&[result("b")], 3).unwrap_err();
        assert!(failed.retryable() && failed.to_string().ends_with(UNREAD), "{failed}");
        let mut reads = reader(&path);
        destination.write(&[result("b")], 3).unwrap();
        assert_eq!(read(&mut reads), "b\n");
    }

    /// As by a script that makes its pipe anew: the output held the old one, which nobody can come to read any more.
    #[test]
    fn a_pipe_that_was_made_anew_is_written_to() {
        let directory = tempfile::tempdir().unwrap();
        let path = pipe(&directory);
        let mut reads = reader(&path);
        let mut destination = open(&path).unwrap();
        // Longer than a pipe holds, so that a part of it is written.
        let long = "x".repeat(1 << 20);
        let stop = Arc::new(AtomicBool::new(true));
        destination.ends_by(&stop);
        let failed = destination.write(&[result(&long)], 2).unwrap_err();
        assert!(failed.retryable(), "{failed}");
        assert!(!read(&mut reads).is_empty());
        drop(reads);
        fs::remove_file(&path).unwrap();
        let unread = |destination: &mut Box<dyn Destination>| {
            let failed = destination.write(&[result(&long)], 2).unwrap_err();
            assert!(failed.retryable() && failed.to_string().ends_with(UNREAD), "{failed}");
        };
        unread(&mut destination);
        assert!(!path.exists(), "nothing is made in its place");
        fs::write(&path, "").unwrap();
        unread(&mut destination);
        assert_eq!(fs::read(&path).unwrap(), b"", "what is there is no pipe");
        fs::remove_file(&path).unwrap();
        assert_eq!(pipe(&directory), path);
        unread(&mut destination);
        let mut reads = reader(&path);
        let mut all = String::new();
        while let Err(failed) = destination.write(&[result(&long)], 2) {
            assert!(failed.retryable(), "{failed}");
            let came = read(&mut reads);
            assert!(!came.is_empty(), "{failed}");
            all += &came;
        }
        all += &read(&mut reads);
        assert!(all == format!("{long}\n"), "{} bytes: the whole line, from its beginning", all.len());
    }

    #[test]
    fn a_part_ends_with_a_line() {
        assert_eq!([0, 9, 10, 11, 29].map(|place| line_of(&[10, 30], place)), [0, 0, 10, 10, 10]);
        let ends = [1_000, 4_096, 4_097, 20_000, 20_001];
        let part = |from: usize| end_of_part(&ends, from);
        assert_eq!([0, 1, 999].map(part), [4_096, 4_097, 4_097], "as many as a pipe takes as a whole");
        assert_eq!([4_097, 4_098, 15_900].map(part), [20_000; 3], "one that is too long for that, alone");
        assert_eq!([15_905, 20_000].map(part), [20_001; 2]);
    }

    /// Whoever ends an output does not wait for one who reads nothing, and the next reader finds whole lines.
    #[test]
    fn a_pipe_that_is_full_is_waited_for_until_the_output_ends() {
        for (count, width) in [(3_000, 999), (300, 9_999)] {
            fill(count, width);
        }
    }

    /// Results that are more than a pipe holds, and whose lines no page ends with.
    fn fill(count: usize, width: usize) {
        let directory = tempfile::tempdir().unwrap();
        let path = pipe(&directory);
        let mut reads = reader(&path);
        let mut destination = open(&path).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        destination.ends_by(&stop);
        let results: Vec<Outgoing> = (0..count).map(|number| result(&format!("{number:0>width$}"))).collect();
        let (sender, has_ended) = bounded(1);
        let given = results.clone();
        thread::spawn(move || {
            let written = destination.write(&given, 2);
            let _ = sender.send((written, destination));
        });
        assert!(has_ended.recv_timeout(Duration::from_millis(200)).is_err(), "it waits for the reader");
        stop.store(true, Ordering::Relaxed);
        let (written, mut destination) = has_ended.recv_timeout(PATIENCE).expect("it ends");
        let mut left = written.unwrap().left;
        assert!(!left.is_empty() && left.len() < results.len() && left.is_sorted(), "{} are left", left.len());
        // What came is not written again, nor is a line torn.
        let mut all = read(&mut reads);
        while let Some(&first) = left.first() {
            assert!(width >= WHOLE_MAX || all.ends_with('\n'), "half a line came before the rest of it");
            let written = destination.write(&results[first..], 2);
            all += &read(&mut reads);
            left = match written {
                Ok(written) => written.left.iter().map(|index| first + index).collect(),
                Err(error) => panic!("nothing is written where there is room: {error}"),
            };
        }
        let lines: Vec<&str> = all.lines().collect();
        let expected: Vec<String> = (0..count).map(|number| format!("{number:0>width$}")).collect();
        assert!(lines == expected, "{} lines of {}", lines.len(), expected.len());
    }
}
