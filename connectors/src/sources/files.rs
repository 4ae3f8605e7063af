//! Which file is read: one, the next one of a pattern, or the one that has taken the place of another.
//!
//!     pattern, name ─> Opened ─ FileIngest::source ─> Frames, until it ends ─> the next one
//!
//! A position says which file it lies in, what that is known by (its beginning), and where in it. So a file that has been
//! replaced while nobody read it is noticed. It is read from its beginning where files are followed, and an error otherwise.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use serde_json::{Map as JsonMap, Value as Json};
use weir_model::Position;

use super::file::{Fate, FileIngest, Opened};
use super::glob::{self, Pattern};
use crate::bell::Call;
use crate::error::ConnectorError;
use crate::file_head::Head;
use crate::frames::{Frames, Limits, Progress};
use crate::framing::FrameReader;
use crate::moment;
use crate::source::{Source, SourceContext};

pub struct Files {
    definition: FileIngest,
    context: SourceContext,
    /// None where the path is that of one file.
    pattern: Option<Arc<Pattern>>,
    current: Option<Current>,
    at: At,
    /// The next batch is the first of a file.
    begins: bool,
    /// What was not read of a file that is gone.
    notice: Option<String>,
}

struct Current {
    opened: Arc<Opened>,
    source: Box<dyn Source>,
}

/// What a position holds.
#[derive(Clone, PartialEq, Debug, Default)]
struct At {
    /// Which file of a pattern. Empty before the first one.
    name: PathBuf,
    /// It is read to its end, and the next one is to come.
    over: bool,
    head: Head,
    /// The position of the source that cuts the file.
    inner: Vec<u8>,
}

impl Files {
    pub fn open(definition: &FileIngest, context: &SourceContext, from: Option<&Position>) -> Result<Files, ConnectorError> {
        let place = definition.path.display().to_string();
        let at = match from.filter(|position| !position.0.is_empty()) {
            None => At::default(),
            Some(position) => At::read(&position.0).ok_or_else(|| ConnectorError::Position {
                place,
                problem: "the stored position is not one of files; delete the stream and create it anew".to_owned(),
            })?,
        };
        let pattern = glob::is_pattern(&definition.path).then(|| Arc::new(Pattern::new(&definition.path, &context.files)));
        let (definition, context) = (definition.clone(), context.clone());
        let mut files = Files { definition, context, pattern, current: None, at, begins: false, notice: None };
        files.go_on()?;
        Ok(files)
    }

    /// Opens the file of the position, or what comes behind it.
    fn go_on(&mut self) -> Result<(), ConnectorError> {
        let name = match &self.pattern {
            None => self.definition.path.clone(),
            Some(_) if self.at.over || self.at.name.as_os_str().is_empty() => return self.open_next().map(drop),
            Some(_) => self.at.name.clone(),
        };
        match self.open_file(&name) {
            Err(ConnectorError::File { problem, .. }) if self.pattern.is_some() => {
                let place = name.display().to_string();
                if !self.definition.follows() {
                    let problem = format!("{problem}; put the file back, or delete the stream and create it anew");
                    return Err(ConnectorError::Position { place, problem });
                }
                self.tell(format!("{place} is not there any more; what was not read of it is lost, and the next file is read"));
                self.at.over = true;
                self.open_next().map(drop)
            }
            other => other,
        }
    }

    /// Opens the next file, if there is one.
    fn open_next(&mut self) -> Result<bool, ConnectorError> {
        let Some(pattern) = &self.pattern else {
            // What lay there has been read. Between two files there may be none for a moment.
            return match self.open_file(&self.definition.path.clone()) {
                Err(ConnectorError::File { .. }) => Ok(false),
                other => other.map(|()| true),
            };
        };
        let pattern = pattern.clone();
        loop {
            let next = if self.at.over || self.at.name.as_os_str().is_empty() {
                let behind = Some(self.at.name.as_path()).filter(|name| !name.as_os_str().is_empty());
                match pattern.after(behind, false)? {
                    None => pattern.after(behind, !self.definition.follows())?,
                    found => found,
                }
            } else {
                // Another file has its name.
                Some(self.at.name.clone())
            };
            let Some(name) = next else { return Ok(false) };
            self.at = At { name: name.clone(), ..At::default() };
            match self.open_file(&name) {
                // It was there a moment ago.
                Err(ConnectorError::File { .. }) => self.at.over = true,
                other => return other.map(|()| true),
            }
        }
    }

    /// Opens a file at the position, or at its beginning where it is another one and files are followed.
    fn open_file(&mut self, name: &Path) -> Result<(), ConnectorError> {
        let path = self.context.files.check(name)?;
        let opened = Arc::new(Opened::open(&path, name, self.definition.file_ingest_mode, self.pattern.clone())?);
        let place = opened.place().to_owned();
        let changed = || {
            let problem = "the file has been replaced since the stream read it; put the old one back, or delete the stream and create \
                           it anew";
            ConnectorError::Position { place: place.clone(), problem: problem.to_owned() }
        };
        let from = Some(Position(self.at.inner.clone())).filter(|position| !position.0.is_empty());
        let source = match &from {
            Some(_) if !opened.begins_with(self.at.head) => Err(changed()),
            from => self.definition.source(&self.context, &opened, from.as_ref()),
        };
        let (source, begins) = match source {
            Err(ConnectorError::Position { .. }) if from.is_some() && opened.follows() => {
                self.tell(format!(
                    "{place} is not the file that was read before; it is read from its beginning, and what was written to the other one after \
                     weir read it last is not read"
                ));
                self.at.inner.clear();
                (self.definition.source(&self.context, &opened, None)?, true)
            }
            source => (source?, from.is_none()),
        };
        self.at.head = opened.head();
        self.begins = begins;
        self.current = Some(Current { opened, source });
        Ok(())
    }

    /// Whoever looks at the stream is told, too, and when it was.
    fn tell(&mut self, what: String) {
        tracing::warn!("{what}");
        self.notice = Some(format!("seen at {}: {what}", moment::now()));
    }

    /// The file has ended. Where the next one is looked for is the position of its last record.
    fn end(&mut self) {
        let Some(Current { opened, .. }) = self.current.take() else { return };
        match opened.ended() {
            Some(Fate::CutOff | Fate::Replaced) => self.at = At { name: std::mem::take(&mut self.at.name), ..At::default() },
            Some(Fate::Passed) | None => self.at.over = self.pattern.is_some(),
        }
    }
}

/// A position as people are shown it. Without a definition, as where the stream is gone, those of before are none, and so are
/// those within files of Avro or Parquet: nobody knows what they say.
pub fn shown_place(position: &[u8], definition: Option<&FileIngest>) -> Option<Json> {
    let at = At::read(position).filter(|_| definition.is_some() || position.starts_with(At::MARK))?;
    let name = Some(&at.name).filter(|name| !name.as_os_str().is_empty());
    let name = name.or(definition.map(|definition| &definition.path));
    let mut shown = JsonMap::new();
    shown.extend(name.map(|name| ("file".to_owned(), Json::from(name.display().to_string()))));
    shown.extend(at.over.then(|| ("ended".to_owned(), Json::from(true))));
    if !at.inner.is_empty() {
        let within = match definition {
            Some(definition) => definition.format.shown_position(&at.inner),
            None => FrameReader::shown_position(&at.inner),
        };
        let Json::Object(within) = within? else { return None };
        shown.extend(within);
    }
    Some(Json::Object(shown))
}

impl Source for Files {
    fn next(&mut self, limits: &Limits, batch: &mut Frames) -> Result<Progress, ConnectorError> {
        let deadline = Instant::now() + limits.wait_max;
        let progress = loop {
            let wait_max = deadline.saturating_duration_since(Instant::now());
            let Some(current) = &mut self.current else {
                if self.open_next()? {
                    continue;
                }
                if !self.definition.follows() {
                    break Progress::Finished;
                }
                thread::sleep(wait_max);
                break Progress::More;
            };
            let progress = current.source.next(&Limits { wait_max, ..*limits }, batch)?;
            batch.begins |= std::mem::take(&mut self.begins);
            self.at.inner.clone_from(&batch.position.0);
            self.at.head = current.opened.head();
            if progress == Progress::More {
                break progress;
            }
            let is_last = self.pattern.is_none() && current.opened.ended().is_none();
            if !is_last {
                self.end();
            }
            if is_last || !batch.is_empty() || wait_max.is_zero() {
                break if is_last { Progress::Finished } else { Progress::More };
            }
        };
        self.at.write(&mut batch.position.0);
        Ok(progress)
    }

    fn rest(&mut self, call: Call) -> bool {
        self.current.as_mut().is_some_and(|current| current.source.rest(call))
    }

    fn notice(&self) -> Option<String> {
        let left_out = self.pattern.as_ref().and_then(|pattern| pattern.notice());
        match (&self.notice, left_out) {
            (Some(gone), Some(left_out)) => Some(format!("{gone}; {left_out}")),
            (gone, left_out) => gone.clone().or(left_out),
        }
    }

    fn trouble(&self) -> Option<String> {
        match &self.current {
            // Whether another file follows on it is looked for meanwhile.
            Some(current) => current.source.trouble().or_else(|| self.pattern.as_ref()?.trouble()),
            None if self.definition.follows() => Some(format!("{}: there is no file yet", self.definition.path.display())),
            None => None,
        }
    }
}

impl At {
    /// As a number of eight bytes it is larger than any offset: positions of before begin with one.
    const MARK: &[u8; 8] = b"files\0\0\x01";

    fn write(&self, out: &mut Vec<u8>) {
        let name = self.name.as_os_str().as_bytes();
        out.clear();
        out.extend_from_slice(At::MARK);
        out.push(u8::from(self.over));
        out.extend_from_slice(&self.head.to_bytes());
        out.extend_from_slice(&(name.len() as u32).to_le_bytes());
        out.extend_from_slice(name);
        out.extend_from_slice(&self.inner);
    }

    fn read(bytes: &[u8]) -> Option<At> {
        let Some(rest) = bytes.strip_prefix(At::MARK) else {
            return Some(At { inner: bytes.to_vec(), ..At::default() });
        };
        let (over, rest) = rest.split_first()?;
        let (head, rest) = rest.split_first_chunk::<{ Head::BYTES }>()?;
        let (name, rest) = rest.split_first_chunk::<4>()?;
        let (name, inner) = rest.split_at_checked(u32::from_le_bytes(*name) as usize)?;
        Some(At { name: OsStr::from_bytes(name).into(), over: *over == 1, head: Head::from_bytes(head), inner: inner.to_vec() })
    }
}
