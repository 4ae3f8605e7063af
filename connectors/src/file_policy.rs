//! Which files a stream may read (`file-ingest` of the configuration), and which an output may write (`file-output`).

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

/// Links in a row that are followed, at most; the system follows no more, either.
const LINKS_MAX: usize = 40;

/// Files that lie directly in an allowed directory, sub-directories not included. Symbolic links are followed on both
/// sides before they are compared. `default()` allows nothing to be read, and anything to be written.
#[derive(Clone, Debug, Default)]
pub struct FilePolicy {
    directories: Vec<PathBuf>,
    /// The files of a static policy.
    files: Option<BTreeSet<PathBuf>>,
    anything: bool,
    /// A file, or a directory with all below it, that is out of reach wherever it lies.
    except: Option<PathBuf>,
    /// Files are written that lie in these; anywhere without it.
    written: Option<Vec<PathBuf>>,
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
        let Some(resolved) = resolved(directory, "file-ingest.allowed-directories")? else {
            tracing::warn!("the allowed directory {} does not exist; nothing can be read from it", directory.display());
            return Ok(());
        };
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

    /// Files may be written that lie directly in one of these, and no others. As with those that are read, one that does not
    /// exist allows nothing.
    pub fn writing_in(self, directories: &[PathBuf]) -> Result<FilePolicy, ConnectorError> {
        let mut written = Vec::new();
        for directory in directories {
            match resolved(directory, "file-output.allowed-directories")? {
                Some(resolved) => written.push(resolved),
                None => {
                    tracing::warn!("the allowed directory {} does not exist; nothing can be written to it", directory.display())
                }
            }
        }
        Ok(FilePolicy { written: Some(written), ..self })
    }

    /// Whether a file may be written, or made there. What else is wrong with a path is told when it is opened.
    pub fn check_to_write(&self, path: &Path) -> Result<(), ConnectorError> {
        let refuse = |problem: &str| Err(ConnectorError::File { path: path.to_owned(), problem: problem.to_owned() });
        let place = place_to_write(path);
        if place.as_ref().is_some_and(|place| self.is_own(place)) {
            return refuse("weir keeps its own data there; give a path elsewhere");
        }
        let Some(allowed) = &self.written else { return Ok(()) };
        let directory = place.as_deref().and_then(Path::parent);
        if directory.is_some_and(|directory| allowed.iter().any(|allowed| allowed == directory)) {
            return Ok(());
        }
        refuse(
            "the file is not directly in a directory that file-output.allowed-directories names; give a path in one of them, or add \
             its directory",
        )
    }

    /// Where a directory lies that files are read from.
    pub(crate) fn directory(&self, path: &Path) -> Option<PathBuf> {
        let resolved = fs::canonicalize(path).ok()?;
        (self.anything || self.directories.contains(&resolved)).then_some(resolved)
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
        if self.is_own(&resolved) {
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
        if self.directories.iter().any(|allowed| allowed == directory) || self.is_own(&resolved) {
            return None;
        }
        let is_below = self.directories.iter().any(|allowed| directory.starts_with(allowed));
        Some((directory.to_owned(), is_below))
    }

    /// Whether weir keeps its own data there. The path is resolved.
    pub fn is_own(&self, resolved: &Path) -> bool {
        // It may have come after this policy was made.
        let except = self.except.as_ref().and_then(|place| fs::canonicalize(place).ok());
        except.is_some_and(|place| resolved.starts_with(place))
    }
}

/// Where an allowed directory lies. None where there is nothing.
fn resolved(directory: &Path, key: &str) -> Result<Option<PathBuf>, ConnectorError> {
    let Ok(resolved) = fs::canonicalize(directory) else { return Ok(None) };
    if !resolved.is_dir() {
        let problem = format!("is no directory; {key} takes directories only");
        return Err(ConnectorError::File { path: directory.to_owned(), problem });
    }
    Ok(Some(resolved))
}

/// Where a file lies, or comes to lie when it is made: links are followed, also one that leads to nothing yet. None where nothing
/// can be made.
fn place_to_write(path: &Path) -> Option<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..=LINKS_MAX {
        if let Ok(found) = fs::canonicalize(&path) {
            return Some(found);
        }
        let parent = path.parent()?;
        let parent = fs::canonicalize(if parent.as_os_str().is_empty() { Path::new(".") } else { parent }).ok()?;
        let place = parent.join(path.file_name()?);
        match fs::read_link(&place) {
            Ok(target) => path = parent.join(target),
            Err(_) => return Some(place),
        }
    }
    None
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
        let own = |place: &str| policy("in/deeper").is_own(&fs::canonicalize(at(place)).unwrap());
        assert!(own("in/deeper") && own("in/deeper/b") && !own("in") && !FilePolicy::default().is_own(&at("in")));
        assert_eq!(policy("outside").outside(&at("outside")), None, "nobody can have meant to read it");
    }

    #[test]
    fn where_files_are_written() {
        let tree = tree();
        let at = |path: &str| tree.path().join(path);
        let link = |to: &str, from: &str| std::os::unix::fs::symlink(to, at(from)).unwrap();
        // A link to what is not there yet, by way of another, and to a directory.
        link("deeper/new", "in/to-new");
        link("to-new", "in/to-link");
        link("deeper", "in/to-deeper");
        link("to-itself", "in/to-itself");
        let anywhere = FilePolicy::default().except(Some(&at("in/deeper")));
        let within = |policy: &FilePolicy, directory: &str| policy.clone().writing_in(&[at(directory)]).unwrap();
        let refusal = |policy: &FilePolicy, path: &str| policy.check_to_write(&at(path)).unwrap_err().to_string();
        let own =
            ["in/deeper/b", "in/deeper/new", "in/deeper/../deeper/new", "in/to-new", "in/to-link", "in/to-deeper/b", "in/deeper"];
        for path in own {
            for policy in [&anywhere, &within(&anywhere, "in"), &within(&anywhere, "in/deeper")] {
                assert!(refusal(policy, path).contains("its own data"), "{path}");
            }
        }
        let elsewhere = ["outside", "in/a", "in/new", "in/deeper-too", "in/link", "absent/new", "in/to-itself"];
        elsewhere.iter().for_each(|path| anywhere.check_to_write(&at(path)).unwrap());
        anywhere.check_to_write(Path::new("no-such-file")).unwrap();

        let policy = within(&FilePolicy::default(), "in");
        ["in/a", "in/new", "in/deeper/../new"].iter().for_each(|path| policy.check_to_write(&at(path)).unwrap());
        // One of them is a link to what lies outside.
        for path in ["outside", "in/link", "in/deeper/new", "in/to-new", "in/../new", "absent/new"] {
            assert!(refusal(&policy, path).contains("file-output.allowed-directories"), "{path}");
        }
        assert!(policy.check(&at("in/a")).is_err(), "what may be written may not be read for that");
        let nothing = FilePolicy::default().writing_in(&[]).unwrap();
        assert!(nothing.check_to_write(&at("in/a")).is_err());
        assert!(within(&nothing, "absent").check_to_write(&at("absent/a")).is_err());
        let file = FilePolicy::default().writing_in(&[at("outside")]).unwrap_err().to_string();
        assert!(file.contains("file-output.allowed-directories takes directories only"), "{file}");
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
