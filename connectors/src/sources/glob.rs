//! Paths with `*`, `?`, `[…]` and `**` in them: which files they name, in order.
//!
//! The order is that of names, part by part, so that it does not depend on when anybody looked. What begins with a dot is named
//! by a part that begins with one, as in a shell. Files that match and lie where nothing may be read are left out, and told of by
//! their directories. How much is looked at is bounded, but for the directories that files are read from.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use weir_model::lock::lock;

use crate::error::ConnectorError;
use crate::file_policy::FilePolicy;
use crate::moment;

/// What was listed is good for this long.
const LISTED: Duration = Duration::from_secs(1);

/// Names looked at in directories that no files are read from, at most: whoever sends a pattern must not have the whole disk
/// looked through.
const OUTSIDE_MAX: usize = 50_000;

/// Parts that a pattern may have, at most: the walk is as deep in the stack as there are.
const PARTS_MAX: usize = 256;

/// Directories that are named, at most.
const NAMED_MAX: usize = 3;

/// Whether the path stands for others: one that is there stands for itself.
pub fn is_pattern(path: &Path) -> bool {
    has_wildcards(path.as_os_str()) && fs::symlink_metadata(path).is_err()
}

fn has_wildcards(part: &OsStr) -> bool {
    part.as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
}

/// Whether a file matches that may be read.
pub fn names_any(path: &Path, files: &FilePolicy) -> Result<bool, ConnectorError> {
    Ok(list(path, files)?.iter().any(|file| files.check(file).is_ok()))
}

/// The files that match and may be read, looked for again and again.
pub struct Pattern {
    path: PathBuf,
    files: FilePolicy,
    listed: Mutex<Listed>,
}

#[derive(Default)]
struct Listed {
    when: Option<Instant>,
    files: Vec<PathBuf>,
    /// Where files lie that match and are left out, and whether that is below a directory that is allowed.
    left_out: BTreeMap<PathBuf, bool>,
    notice: Option<String>,
    /// Why the files could not be looked for, until they can be again.
    trouble: Option<String>,
}

impl Pattern {
    pub fn new(path: &Path, files: &FilePolicy) -> Pattern {
        Pattern { path: path.to_owned(), files: files.clone(), listed: Mutex::default() }
    }

    /// The next file behind that of this name, or the first one. `now`: among those that are there now, and not a moment ago.
    pub fn after(&self, name: Option<&Path>, now: bool) -> Result<Option<PathBuf>, ConnectorError> {
        let mut listed = lock(&self.listed);
        if now || listed.when.is_none_or(|when| when.elapsed() > LISTED) {
            self.list(name, &mut listed)?;
        }
        let first = name.map_or(0, |name| listed.files.partition_point(|file| file.as_path() <= name));
        Ok(listed.files[first..].iter().find(|file| self.files.check(file).is_ok()).cloned())
    }

    /// Says that files are left out, for whoever looks at the stream.
    pub fn notice(&self) -> Option<String> {
        lock(&self.listed).notice.clone()
    }

    /// Why files cannot be looked for at the moment.
    pub fn trouble(&self) -> Option<String> {
        lock(&self.listed).trouble.clone()
    }

    fn list(&self, name: Option<&Path>, listed: &mut Listed) -> Result<(), ConnectorError> {
        let files = list(&self.path, &self.files).inspect_err(|error| {
            // Whoever reads a file to its end meanwhile is not stopped by it, and looks again and again.
            listed.when = Some(Instant::now());
            let trouble = error.to_string();
            if listed.trouble.as_ref() != Some(&trouble) {
                tracing::warn!("{trouble}");
                listed.trouble = Some(trouble);
            }
        })?;
        listed.trouble = None;
        let new: Vec<&PathBuf> = files.iter().filter(|file| listed.files.binary_search(file).is_err()).collect();
        if listed.when.is_some() {
            for file in new.iter().filter(|file| name.is_some_and(|name| file.as_path() < name)) {
                tracing::warn!("{} is not read: it comes before what is read already of {}", file.display(), self.path.display());
            }
        }
        let outside = new.iter().filter_map(|file| self.files.outside(file));
        self.tell(outside.filter(|(directory, _)| !listed.left_out.contains_key(directory)).collect(), listed);
        listed.files = files;
        listed.when = Some(Instant::now());
        Ok(())
    }

    /// Tells of directories that nobody was told of. Whoever sees the stream may not be who chose what is allowed, and hears only
    /// of what lies below that.
    fn tell(&self, mut directories: BTreeMap<PathBuf, bool>, listed: &mut Listed) {
        if directories.is_empty() {
            return;
        }
        let names: Vec<&PathBuf> = directories.keys().collect();
        tracing::warn!("{}", self.left_out(&names));
        let has_more_below = directories.values().any(|is_below| *is_below);
        listed.left_out.append(&mut directories);
        if has_more_below {
            let below: Vec<&PathBuf> = listed.left_out.iter().filter(|(_, is_below)| **is_below).map(|(name, _)| name).collect();
            listed.notice = Some(format!("seen at {}: {}", moment::now(), self.left_out(&below)));
        }
    }

    fn left_out(&self, directories: &[&PathBuf]) -> String {
        let named: Vec<String> = directories.iter().take(NAMED_MAX).map(|directory| directory.display().to_string()).collect();
        let more = match directories.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "files that match {} lie in {}{more}, and are not read: file-ingest.allowed-directories has to name each directory that \
             files are read from",
            self.path.display(),
            named.join(", ")
        )
    }
}

fn list(pattern: &Path, files: &FilePolicy) -> Result<Vec<PathBuf>, ConnectorError> {
    list_within(pattern, files, OUTSIDE_MAX)
}

fn list_within(pattern: &Path, files: &FilePolicy, outside_max: usize) -> Result<Vec<PathBuf>, ConnectorError> {
    let mut parts: Vec<&OsStr> = pattern.components().map(|part| part.as_os_str()).collect();
    // Two of them name what one does.
    parts.dedup_by(|part, before| *part == "**" && *before == "**");
    if parts.len() > PARTS_MAX {
        let problem = format!("the pattern has more than {PARTS_MAX} parts; give one that has fewer directories");
        return Err(ConnectorError::File { path: pattern.to_owned(), problem });
    }
    let (seen, inside, found) = (HashSet::new(), HashSet::new(), Vec::new());
    let mut walk = Walk { parts: &parts, files, outside_left: outside_max, seen, inside, found };
    if walk.go(Path::new(""), 0).is_break() {
        let problem = format!(
            "to find what matches, more than {outside_max} names had to be looked at in directories that \
             file-ingest.allowed-directories does not name; write out more of the directories in the pattern, or name them there"
        );
        return Err(ConnectorError::File { path: pattern.to_owned(), problem });
    }
    let mut found = walk.found;
    found.sort_unstable();
    Ok(found)
}

/// One look for all that matches.
struct Walk<'a> {
    parts: &'a [&'a OsStr],
    files: &'a FilePolicy,
    /// How many more names may be looked at that are not in directories that files are read from.
    outside_left: usize,
    /// Directories, with the part that was looked for in them: with several `**` there are many ways to each.
    seen: HashSet<(PathBuf, usize)>,
    /// As `seen`, for the directories that files are read from, as they lie: by `..` and links they have any number of paths.
    inside: HashSet<(PathBuf, usize)>,
    found: Vec<PathBuf>,
}

impl Walk<'_> {
    /// Looks for the parts from this one on. A directory that cannot be looked into has nothing that matches. Breaks off where
    /// too much is looked at.
    fn go(&mut self, base: &Path, at: usize) -> ControlFlow<()> {
        let Some(part) = self.parts.get(at).copied() else {
            if base.is_file() {
                self.found.push(base.to_owned());
            }
            return ControlFlow::Continue(());
        };
        if !has_wildcards(part) {
            return self.go(&base.join(part), at + 1);
        }
        if !self.seen.insert((base.to_owned(), at)) {
            return ControlFlow::Continue(());
        }
        let deep = part == "**";
        if deep {
            self.go(base, at + 1)?;
        }
        let pattern: Vec<char> = part.to_string_lossy().chars().collect();
        let here = if base.as_os_str().is_empty() { Path::new(".") } else { base };
        let counts = !self.files.directory(here).is_some_and(|directory| self.inside.insert((directory, at)));
        for entry in fs::read_dir(here).into_iter().flatten().flatten() {
            if counts {
                let Some(left) = self.outside_left.checked_sub(1) else { return ControlFlow::Break(()) };
                self.outside_left = left;
            }
            let name = entry.file_name();
            let text: Vec<char> = name.to_string_lossy().chars().collect();
            if text.first() == Some(&'.') && pattern.first() != Some(&'.') {
                continue;
            }
            if deep {
                // Links are not gone along here: they may lead back.
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    self.go(&base.join(name), at)?;
                }
            } else if matches(&pattern, &text) {
                self.go(&base.join(name), at + 1)?;
            }
        }
        ControlFlow::Continue(())
    }
}

/// Whether a name is as the pattern says. Of stars only the newest is ever tried longer: that suffices, and takes no more than
/// the product of both.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        let step = match pattern.get(p) {
            Some('*') => {
                star = Some((p, n));
                p += 1;
                continue;
            }
            Some('?') => Some(1),
            Some('[') => match class(&pattern[p..], name[n]) {
                Some((length, true)) => Some(length),
                Some((_, false)) => None,
                None => (name[n] == '[').then_some(1),
            },
            Some(c) => (*c == name[n]).then_some(1),
            None => None,
        };
        match (step, star) {
            (Some(step), _) => (p, n) = (p + step, n + 1),
            (None, Some((at, from))) => {
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
            (None, None) => return false,
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// How long the `[…]` is that stands at the beginning, and whether the character is one of it. None where it is not closed.
fn class(pattern: &[char], c: char) -> Option<(usize, bool)> {
    let negated = matches!(pattern.get(1), Some('!' | '^'));
    let first = if negated { 2 } else { 1 };
    // One that stands first is meant itself.
    let end = first + 1 + pattern.get(first + 1..)?.iter().position(|c| *c == ']')?;
    let (mut at, mut found) = (first, false);
    while at < end {
        if at + 2 < end && pattern[at + 1] == '-' {
            found |= (pattern[at]..=pattern[at + 2]).contains(&c);
            at += 3;
        } else {
            found |= pattern[at] == c;
            at += 1;
        }
    }
    Some((end + 1, found != negated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_as_in_a_shell() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            let matches = |name: &str| {
                let chars = |text: &str| text.chars().collect::<Vec<_>>();
                super::matches(&chars(pattern), &chars(name))
            };
            yes.iter().for_each(|name| assert!(matches(name), "{pattern} {name}"));
            no.iter().for_each(|name| assert!(!matches(name), "{pattern} {name}"));
        };
        check("*.jsonl", &["a.jsonl", ".jsonl", "a.jsonl.jsonl"], &["a.json", "a.jsonl.gz"]);
        check("a?c*", &["abc", "aéc", "abcd"], &["ac", "abd"]);
        check("[ab-d]", &["a", "b", "c", "d"], &["e", "-", "ab", ""]);
        check("[!ab]x", &["cx", "]x"], &["ax", "x"]);
        check("[]x]", &["]", "x"], &["[", "a"]);
        check("[a-]", &["a", "-"], &["b"]);
        check("[a", &["[a"], &["a"]);
        check("*a*b*", &["ab", "xaxxbx", "aab"], &["ba", "a", ""]);
        check(&format!("{}b", "a*".repeat(30)), &[], &["a".repeat(60).as_str()]);
    }

    #[test]
    fn files_are_found_in_order() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        fs::create_dir_all(at("in/deep/er")).unwrap();
        for file in ["in/b.txt", "in/a.txt", "in/.c.txt", "in/d.csv", "in/deep/e.txt", "in/deep/er/f.txt"] {
            fs::write(at(file), "x").unwrap();
        }
        fs::create_dir(at("in/z.txt")).unwrap();
        let check = |pattern: &str, expected: &[&str]| {
            let found = list(&at(pattern), &FilePolicy::default()).unwrap();
            assert_eq!(found, expected.iter().map(|path| at(path)).collect::<Vec<_>>(), "{pattern}");
        };
        check("in/*.txt", &["in/a.txt", "in/b.txt"]);
        check("in/.*.txt", &["in/.c.txt"]);
        check("*/*/*.txt", &["in/deep/e.txt"]);
        check("in/**/*.txt", &["in/a.txt", "in/b.txt", "in/deep/e.txt", "in/deep/er/f.txt"]);
        check("in/**/**/*.txt", &["in/a.txt", "in/b.txt", "in/deep/e.txt", "in/deep/er/f.txt"]);
        check("in/**/d*/**/*.txt", &["in/deep/e.txt", "in/deep/er/f.txt"]);
        check("in/d*/../*.txt", &["in/deep/../a.txt", "in/deep/../b.txt"]);
        check("no/*.txt", &[]);
        assert!(is_pattern(&at("in/*.txt")) && !is_pattern(&at("in/a.txt")));
        fs::write(at("in/[x].txt"), "x").unwrap();
        assert!(!is_pattern(&at("in/[x].txt")), "a file of that name is meant");

        let policy = FilePolicy::new(&[at("in")], crate::FileResolution::Dynamic).unwrap();
        let pattern = Pattern::new(&at("in/**/*.txt"), &policy);
        assert_eq!(pattern.after(Some(&at("in/b.txt")), true).unwrap(), None, "what may not be read does not match");
        assert_eq!(pattern.after(None, false).unwrap(), Some(at("in/[x].txt")));
        let names_any = |pattern: &str| names_any(&at(pattern), &policy).unwrap();
        assert!(names_any("in/**/*.txt") && !names_any("in/deep/*.txt"));
    }

    #[test]
    fn how_much_is_looked_at_is_bounded() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        // 30 directories, in which there are any number of ways to leave out some.
        let deep = ["a"; 30].join("/");
        fs::create_dir_all(at(&deep)).unwrap();
        fs::write(at(&deep).join("x.txt"), "x").unwrap();
        let nothing = FilePolicy::default();
        let found = list_within(&at("**/a*/**/a*/**/a*/**/a*/**/x*"), &nothing, 500).unwrap();
        assert_eq!(found, [at(&deep).join("x.txt")]);
        let refused = list_within(&at("**/x*"), &nothing, 30).unwrap_err().to_string();
        assert!(refused.contains("more than 30 names") && refused.contains("allowed-directories"), "{refused}");

        // Those are counted that lie where nothing is read.
        fs::create_dir_all(at("in/below")).unwrap();
        fs::create_dir_all(at("in/other")).unwrap();
        for n in 0..20 {
            fs::write(at(&format!("in/{n}.txt")), "x").unwrap();
        }
        let policy = FilePolicy::new(&[at("in")], crate::FileResolution::Dynamic).unwrap();
        let count = |pattern: &str, outside_max| list_within(&at(pattern), &policy, outside_max).map(|found| found.len()).ok();
        assert_eq!(count("in/**/*.txt", 0), Some(20));
        fs::write(at("in/below/x.txt"), "x").unwrap();
        assert_eq!((count("in/**/*.txt", 1), count("in/**/*.txt", 2)), (None, Some(21)));
        // Again and again the same directory, by another path.
        assert_eq!(count("in/*/../*/../*.txt", 0), None);
    }

    /// The walk went one deeper for each, and the stack ended.
    #[test]
    fn how_many_parts_a_pattern_has_is_bounded() {
        let policy = FilePolicy::default();
        for parts in ["a/", "**/../"] {
            let path = PathBuf::from(format!("{}*", parts.repeat(100_000)));
            let refused = [names_any(&path, &policy).map(drop), Pattern::new(&path, &policy).after(None, true).map(drop)];
            for refused in refused {
                assert!(refused.unwrap_err().to_string().contains("more than 256 parts"), "{parts}");
            }
        }
        let most = |count: usize| list(&PathBuf::from(format!("{}*", "no-such/".repeat(count))), &policy);
        assert!(most(PARTS_MAX - 1).unwrap().is_empty() && most(PARTS_MAX).is_err());
    }

    #[test]
    fn files_that_could_not_be_looked_for_are_no_trouble_when_they_can_be() {
        let tree = tempfile::tempdir().unwrap();
        let long = PathBuf::from(format!("{}*", "a/".repeat(PARTS_MAX)));
        let mut pattern = Pattern::new(&long, &FilePolicy::default());
        pattern.after(None, true).unwrap_err();
        assert!(pattern.trouble().is_some_and(|trouble| trouble.contains("more than 256 parts")), "{:?}", pattern.trouble());
        pattern.path = tree.path().join("*");
        assert_eq!(pattern.after(None, true).unwrap(), None);
        assert_eq!((pattern.trouble(), pattern.notice()), (None, None));
    }

    #[test]
    fn what_is_left_out_is_told() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        fs::create_dir_all(at("in/deep/er")).unwrap();
        for file in ["in/a.txt", "in/deep/b.txt"] {
            fs::write(at(file), "x").unwrap();
        }
        let place = |path: &str| fs::canonicalize(at(path)).unwrap().display().to_string();
        let of = |directories: &[&str]| {
            let directories: Vec<PathBuf> = directories.iter().map(|path| at(path)).collect();
            let policy = FilePolicy::new(&directories, crate::FileResolution::Dynamic).unwrap();
            let pattern = Pattern::new(&at("in/**/*.txt"), &policy);
            assert!(pattern.after(None, true).unwrap().is_some());
            pattern
        };
        let pattern = of(&["in"]);
        let notice = pattern.notice().unwrap();
        assert!(notice.contains(&format!(" lie in {}, and are not read", place("in/deep"))), "{notice}");
        assert_eq!(pattern.after(None, true).unwrap(), Some(at("in/a.txt")));
        assert_eq!(pattern.notice().unwrap(), notice, "once");
        fs::write(at("in/deep/er/c.txt"), "x").unwrap();
        pattern.after(None, true).unwrap();
        let both = format!("{}, {}", place("in/deep"), place("in/deep/er"));
        assert!(pattern.notice().unwrap().contains(&both), "{:?}", pattern.notice());
        assert_eq!(of(&["in", "in/deep", "in/deep/er"]).notice(), None);
        // What lies above is for the log alone.
        assert_eq!(of(&["in/deep/er"]).notice(), None);
    }
}
