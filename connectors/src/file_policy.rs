//! Which files a stream may read (`file-ingest` of the configuration).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::ConnectorError;

/// When files are looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FileResolution {
    /// At use: any file that then lies in an allowed directory.
    #[default]
    Dynamic,
    /// Once: only regular files that were there when the policy was made.
    Static,
}

/// Files that lie directly in an allowed directory, sub-directories not included. Symbolic links are followed on both
/// sides before they are compared. `default()` allows nothing.
#[derive(Clone, Debug, Default)]
pub struct FilePolicy {
    directories: Vec<PathBuf>,
    /// The files of a static policy.
    files: Option<BTreeSet<PathBuf>>,
    anything: bool,
    /// A file, or a directory with all below it, that is out of reach wherever it lies.
    except: Option<PathBuf>,
}

impl FilePolicy {
    /// Every readable file; for programs that are not a service.
    pub fn allow_all() -> FilePolicy {
        FilePolicy { anything: true, ..FilePolicy::default() }
    }

    /// Relative directories count from the working directory. One that does not exist allows nothing and is no error; a
    /// path that is no directory is one.
    pub fn new(directories: &[PathBuf], resolution: FileResolution) -> Result<FilePolicy, ConnectorError> {
        let mut policy =
            FilePolicy { files: (resolution == FileResolution::Static).then(BTreeSet::new), ..FilePolicy::default() };
        for directory in directories {
            policy.allow(directory)?;
        }
        Ok(policy)
    }

    /// Allows one more directory: that of a file a recipe names.
    pub fn allow(&mut self, directory: &Path) -> Result<(), ConnectorError> {
        let Ok(resolved) = fs::canonicalize(directory) else {
            tracing::warn!("the allowed directory {} does not exist; nothing can be read from it", directory.display());
            return Ok(());
        };
        if !resolved.is_dir() {
            let problem = "is no directory; file-ingest.allowed-directories takes directories only".to_owned();
            return Err(ConnectorError::File { path: directory.to_owned(), problem });
        }
        if let Some(files) = &mut self.files {
            let listed = fs::read_dir(&resolved)
                .map_err(|error| ConnectorError::io(&resolved.display().to_string(), "cannot list the directory", error))?;
            files.extend(listed.flatten().filter_map(|entry| fs::canonicalize(entry.path()).ok()).filter(|path| path.is_file()));
        }
        self.directories.push(resolved);
        Ok(())
    }

    /// Not this, whatever is allowed: where weir keeps its own data, with the secrets of streams in them.
    pub fn except(self, place: Option<&Path>) -> FilePolicy {
        FilePolicy { except: place.map(Path::to_owned), ..self }
    }

    /// The resolved path of a file that is there and may be read.
    pub fn check(&self, path: &Path) -> Result<PathBuf, ConnectorError> {
        let refuse = |problem: String| ConnectorError::File { path: path.to_owned(), problem };
        if self.anything {
            return fs::canonicalize(path).map_err(|error| refuse(absent(&error)));
        }
        let resolved = fs::canonicalize(path);
        // Whether a file outside exists is nobody's business: it is refused before that is said.
        let inside = match &resolved {
            Ok(file) => file.parent(),
            Err(_) => path.parent(),
        };
        let inside = inside.map(|parent| if parent.as_os_str().is_empty() { Path::new(".") } else { parent });
        let inside = inside.and_then(|parent| fs::canonicalize(parent).ok());
        if !inside.is_some_and(|parent| self.directories.contains(&parent)) {
            let problem = "the file is not directly in a directory that file-ingest.allowed-directories names; move it there \
                           or add its directory";
            return Err(refuse(problem.to_owned()));
        }
        let resolved = resolved.map_err(|error| refuse(absent(&error)))?;
        if self.is_excepted(&resolved) {
            return Err(refuse("weir keeps its own data there".to_owned()));
        }
        if self.files.as_ref().is_some_and(|files| !files.contains(&resolved)) {
            let problem = "the file was not there when the service started, and file-ingest.resolution-mode is static";
            return Err(refuse(problem.to_owned()));
        }
        Ok(resolved)
    }

    /// The directory of a file that is there and could be read if its directory were allowed, and whether it lies below one that
    /// is.
    pub(crate) fn outside(&self, path: &Path) -> Option<(PathBuf, bool)> {
        if self.anything {
            return None;
        }
        let resolved = fs::canonicalize(path).ok()?;
        let directory = resolved.parent()?;
        if self.directories.iter().any(|allowed| allowed == directory) || self.is_excepted(&resolved) {
            return None;
        }
        let is_below = self.directories.iter().any(|allowed| directory.starts_with(allowed));
        Some((directory.to_owned(), is_below))
    }

    fn is_excepted(&self, resolved: &Path) -> bool {
        // It may have come after this policy was made.
        let except = self.except.as_ref().and_then(|place| fs::canonicalize(place).ok());
        except.is_some_and(|place| resolved.starts_with(place))
    }
}

fn absent(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => {
            "there is no such file; check the path, which counts from the working directory".to_owned()
        }
        _ => format!("the file cannot be reached: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> tempfile::TempDir {
        let tree = tempfile::tempdir().unwrap();
        fs::create_dir_all(tree.path().join("in/deeper")).unwrap();
        for file in ["in/a", "in/deeper/b", "outside"] {
            fs::write(tree.path().join(file), "x").unwrap();
        }
        std::os::unix::fs::symlink(tree.path().join("outside"), tree.path().join("in/link")).unwrap();
        tree
    }

    fn refusal(policy: &FilePolicy, path: PathBuf) -> String {
        policy.check(&path).unwrap_err().to_string()
    }

    #[test]
    fn only_direct_children_of_allowed_directories() {
        let tree = tree();
        let at = |path: &str| tree.path().join(path);
        let policy = FilePolicy::new(&[at("in"), at("absent")], FileResolution::Dynamic).unwrap();
        assert_eq!(policy.check(&at("in/a")).unwrap(), fs::canonicalize(at("in/a")).unwrap());
        assert!(policy.check(&at("in/deeper/../a")).is_ok());
        assert!(refusal(&policy, at("in/deeper/b")).contains("allowed-directories"));
        assert!(refusal(&policy, at("outside")).contains("allowed-directories"));
        assert!(refusal(&policy, at("in/link")).contains("allowed-directories"));
        assert!(refusal(&policy, at("in/no")).contains("no such file"));
        assert!(refusal(&policy, at("no-such-outside")).contains("allowed-directories"));
        fs::write(at("in/later"), "x").unwrap();
        assert!(policy.check(&at("in/later")).is_ok());
        assert!(FilePolicy::default().check(&at("in/a")).is_err());
        assert!(FilePolicy::allow_all().check(&at("outside")).is_ok());
    }

    #[test]
    fn what_is_excepted_is_out_of_reach() {
        let tree = tree();
        let at = |path: &str| tree.path().join(path);
        let policy = |place: &str| {
            let policy = FilePolicy::new(&[at("in"), at("in/deeper")], FileResolution::Dynamic).unwrap();
            policy.except(Some(&at(place)))
        };
        assert!(refusal(&policy("in/a"), at("in/a")).contains("its own data"));
        assert!(refusal(&policy("in/deeper"), at("in/deeper/b")).contains("its own data"));
        assert!(policy("in/deeper").check(&at("in/a")).is_ok() && policy("in/absent").check(&at("in/a")).is_ok());
        assert_eq!(policy("outside").outside(&at("outside")), None, "nobody can have meant to read it");
    }

    #[test]
    fn files_outside_are_known_by_their_directory() {
        let tree = tree();
        let at = |path: &str| tree.path().join(path);
        let place = |path: &str| fs::canonicalize(at(path)).unwrap();
        let policy = FilePolicy::new(&[at("in")], FileResolution::Dynamic).unwrap();
        assert_eq!(policy.outside(&at("in/a")), None);
        assert_eq!(policy.outside(&at("in/deeper/b")), Some((place("in/deeper"), true)));
        for elsewhere in ["outside", "in/link"] {
            assert_eq!(policy.outside(&at(elsewhere)), Some((place(""), false)), "{elsewhere}");
        }
        assert_eq!(policy.outside(&at("in/no")), None);
        assert_eq!(FilePolicy::allow_all().outside(&at("outside")), None);
    }

    #[test]
    fn a_static_policy_knows_the_files_of_the_start() {
        let tree = tree();
        let policy = FilePolicy::new(&[tree.path().join("in")], FileResolution::Static).unwrap();
        assert!(policy.check(&tree.path().join("in/a")).is_ok());
        fs::write(tree.path().join("in/later"), "x").unwrap();
        assert!(refusal(&policy, tree.path().join("in/later")).contains("static"));
    }

    #[test]
    fn a_file_is_no_allowed_directory() {
        let tree = tree();
        assert!(FilePolicy::new(&[tree.path().join("outside")], FileResolution::Dynamic).is_err());
    }
}
