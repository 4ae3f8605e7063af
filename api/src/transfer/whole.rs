//! Whole: a file that is written under another name until it is complete, so that nobody takes a part for it, and what was there
//! stays until then. What a link leads to is written, and not the link. A device, or a pipe, is none that another file could take
//! the place of: what comes is written straight into it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write, stderr, stdout};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::ask::end_when_interrupted;

/// At most this many links in a row are followed; the system allows no more, either.
const LINKS_MAX: usize = 40;

const FOR_ALL: u32 = 0o666;
const FOR_OWNER: u32 = 0o600;

/// Gives a file or a directory its name, also for a machine that loses power.
pub fn renamed(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
    match File::open(parent.unwrap_or(Path::new("."))).and_then(|directory| directory.sync_all()) {
        // Where directories cannot be synced, or not by us, that is how it is.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::PermissionDenied) => Ok(()),
        synced => synced,
    }
}

#[derive(Clone)]
pub struct Whole {
    file: PathBuf,
    /// None where it is written straight.
    unfinished: Option<PathBuf>,
    /// The rights it is made with, less what the process may not give.
    mode: u32,
}

impl Whole {
    pub fn new(file: &Path) -> Whole {
        let is_other = fs::metadata(file).is_ok_and(|found| !found.is_file());
        // Whatever the standard output leads to, it was opened already.
        let is_open = |place: PathBuf| place == Path::new("/dev") || place.starts_with("/proc");
        if is_other || fs::canonicalize(file.parent().unwrap_or(file)).is_ok_and(is_open) {
            return Whole { file: file.to_owned(), unfinished: None, mode: FOR_ALL };
        }
        let file = destination(file);
        let unfinished = Some(beside(&file, "part"));
        Whole { file, unfinished, mode: FOR_ALL }
    }

    /// One with secrets in it.
    pub fn private(file: &Path) -> Whole {
        Whole { mode: FOR_OWNER, ..Whole::new(file) }
    }

    /// Where it is until it is complete; none where it cannot be read again.
    pub fn unfinished(&self) -> Option<&Path> {
        self.unfinished.as_deref()
    }

    /// Begins to write it, in a command: when the user presses Ctrl-C nothing of it stays, and the process ends. The service
    /// takes `beside` and `renamed`, for it ends in order.
    pub fn begin(&self) -> io::Result<BufWriter<File>> {
        let opened = match &self.unfinished {
            Some(unfinished) => {
                let whole = self.clone();
                end_when_interrupted(move || whole.give_up());
                OpenOptions::new().write(true).create(true).truncate(true).mode(self.mode).open(unfinished)
            }
            None => OpenOptions::new().write(true).open(&self.file),
        };
        opened.map(BufWriter::new)
    }

    /// Everything reaches the disk.
    pub fn sync(&self, out: BufWriter<File>) -> io::Result<()> {
        match out.into_inner()?.sync_all() {
            // A pipe has no disk below it.
            Err(error) if self.unfinished.is_none() && error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            synced => synced,
        }
    }

    /// Takes its name.
    pub fn end(&self) -> io::Result<()> {
        self.unfinished.as_ref().map_or(Ok(()), |unfinished| renamed(unfinished, &self.file))
    }

    pub fn give_up(&self) {
        if let Some(unfinished) = &self.unfinished {
            let _ = fs::remove_file(unfinished);
        }
    }

    /// Says what was written, but not among it: a pipe may be the standard output.
    pub fn tell(&self, said: &str) {
        // Where nobody can read it, it was written all the same.
        let _ = if self.unfinished.is_some() { writeln!(stdout(), "{said}") } else { writeln!(stderr(), "{said}") };
    }
}

/// Where links lead, also to what is not there yet.
fn destination(file: &Path) -> PathBuf {
    let mut file = file.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(to) = fs::read_link(&file) else { break };
        file = file.parent().unwrap_or(Path::new("")).join(to);
    }
    file
}

/// This path, with a dot and `ending` behind its name.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{ending}"));
    PathBuf::from(name)
}
