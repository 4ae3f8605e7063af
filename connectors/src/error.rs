//! What can go wrong at the rim. Whose fault it is and whether trying again can help are facts, not prose.

use std::error::Error;
use std::path::PathBuf;

use rustix::io::Errno;
use thiserror::Error;

/// Who has to act.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Whoever wrote the definition of the stream or output.
    User,
    /// The service, file or network at the other end.
    World,
}

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConnectorError {
    /// A definition that cannot work. `field` is the path of the option, empty for the whole.
    #[error("{}{problem}", if field.is_empty() { String::new() } else { format!("option `{field}`: ") })]
    Config { field: String, problem: String },
    /// A file that the policy keeps out of reach, or that is not there.
    #[error("{path}: {problem}")]
    File { path: PathBuf, problem: String },
    /// A stored position that no longer fits what it points into.
    #[error("{place}: cannot go on where the stream stood: {problem}")]
    Position { place: String, problem: String },
    /// The bytes cannot be cut into records any more, so that nothing after them can be read.
    #[error("{place}: {problem}")]
    Framing { place: String, problem: String },
    /// A value that is kept elsewhere is not there, or may not be looked at.
    #[error("a secret cannot be had: {problem}")]
    Secret { problem: String },
    /// The world failed.
    #[error("{place}: {problem}")]
    World { place: String, problem: String, fault: Fault, retryable: bool, source: Option<Box<dyn Error + Send + Sync>> },
}

impl ConnectorError {
    pub fn config(field: &str, problem: impl Into<String>) -> ConnectorError {
        ConnectorError::Config { field: field.to_owned(), problem: problem.into() }
    }

    /// The world failed, and may do otherwise the next time.
    pub fn passing(place: &str, problem: String) -> ConnectorError {
        ConnectorError::World { place: place.to_owned(), problem, fault: Fault::World, retryable: true, source: None }
    }

    /// The error of a definition as that of the one it is part of, at the option `outer`.
    pub fn within(self, outer: &str) -> ConnectorError {
        match self {
            ConnectorError::Config { field, problem } => {
                let field = if field.is_empty() { outer.to_owned() } else { format!("{outer}.{field}") };
                ConnectorError::Config { field, problem }
            }
            other => other,
        }
    }

    /// An operation of the operating system failed at `place`.
    pub fn io(place: &str, doing: &str, source: std::io::Error) -> ConnectorError {
        use std::io::ErrorKind::*;
        // Too many files are open, which has no kind of its own.
        let too_many = [Errno::MFILE, Errno::NFILE].iter().any(|errno| source.raw_os_error() == Some(errno.raw_os_error()));
        // These pass by themselves or after somebody makes room; the others need a changed definition.
        let retryable =
            too_many || matches!(source.kind(), Interrupted | WouldBlock | TimedOut | StorageFull | QuotaExceeded | ResourceBusy);
        let fault = match source.kind() {
            NotFound | PermissionDenied | IsADirectory | NotADirectory | InvalidInput | InvalidFilename => Fault::User,
            _ => Fault::World,
        };
        let advice =
            if matches!(source.kind(), StorageFull | QuotaExceeded) { "; make room there, it is tried again" } else { "" };
        let problem = format!("{doing}: {source}{advice}");
        ConnectorError::World { place: place.to_owned(), problem, fault, retryable, source: Some(Box::new(source)) }
    }

    pub fn fault(&self) -> Fault {
        match self {
            ConnectorError::Config { .. } | ConnectorError::File { .. } | ConnectorError::Secret { .. } => Fault::User,
            ConnectorError::Position { .. } | ConnectorError::Framing { .. } => Fault::World,
            ConnectorError::World { fault, .. } => *fault,
        }
    }

    /// Whether a secret is not where it is kept.
    pub fn is_of_secret(&self) -> bool {
        matches!(self, ConnectorError::Secret { .. })
    }

    /// Whether the same thing may succeed later without anybody changing the definition.
    pub fn retryable(&self) -> bool {
        matches!(self, ConnectorError::World { retryable: true, .. } | ConnectorError::Secret { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_of_what_the_process_may_have_passes() {
        let retryable = |errno: Errno| {
            let error = std::io::Error::from_raw_os_error(errno.raw_os_error());
            ConnectorError::io("here", "cannot open", error).retryable()
        };
        assert_eq!([Errno::MFILE, Errno::NFILE, Errno::AGAIN].map(retryable), [true; 3]);
        assert_eq!([Errno::NOENT, Errno::ACCESS, Errno::IO].map(retryable), [false; 3]);
    }
}
