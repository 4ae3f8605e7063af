//! Values that are used and never shown: passwords, tokens, keys. One is given as it is, or by a reference to where it is kept:
//!
//!     "password": "hush"                              as it is
//!     "password": {"env": "WEIR_SECRET_REDIS"}        a variable of weir's environment
//!     "password": {"file": "/run/secrets/redis"}      what a file holds
//!
//! Of a reference only the reference is stored and shown. It is looked up whenever the value is needed, so that a file that has
//! another content counts from the next connection on. Whoever may define a stream could have any value sent to a server of
//! theirs, so only those are read that the policy allows (`secrets` of the configuration). There is one policy for the process,
//! as there is one environment.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map as JsonMap, Value as Json, json};
use weir_model::lock::{read, write};

use crate::error::ConnectorError;

/// What is shown instead of a secret.
pub const MASKED: &str = "Secret(****)";

/// A longer file holds no secret.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// What the environment may be asked for where nobody said otherwise.
pub const USUAL_VARIABLES: &str = "WEIR_SECRET_*";
/// Where secrets lie in containers.
pub const USUAL_DIRECTORY: &str = "/run/secrets";

/// A value that is used and stored, and never shown: wherever a definition is written down it is masked, but within
/// `with_secrets`.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    Plain(String),
    Kept(Reference),
}

/// Where a value is kept.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reference {
    /// In a variable of the environment.
    #[serde(rename = "env")]
    Environment(String),
    #[serde(rename = "file")]
    File(PathBuf),
}

impl Secret {
    pub fn plain(text: &str) -> Secret {
        Secret::Plain(text.to_owned())
    }

    /// The value as of now. An error says what is missing, and may pass.
    pub fn get(&self) -> Result<Cow<'_, str>, String> {
        match self {
            Secret::Plain(text) => Ok(Cow::Borrowed(text)),
            Secret::Kept(reference) => reference.look_up(&policy()).map(Cow::Owned),
        }
    }

    /// As `get`, for who makes something of it that may be made later.
    pub fn value(&self) -> Result<Cow<'_, str>, ConnectorError> {
        self.get().map_err(|problem| ConnectorError::Secret { problem })
    }

    /// If it is known without looking anywhere.
    pub fn known(&self) -> Option<&str> {
        match self {
            Secret::Plain(text) => Some(text),
            Secret::Kept(_) => None,
        }
    }
}

/// A text that may be kept elsewhere like a secret, and is shown where it is not.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(transparent)]
pub struct Open(pub Secret);

#[derive(Clone, Copy, PartialEq)]
enum Notation {
    /// For people.
    Masked,
    /// To be stored.
    Whole,
    /// To be checked: the same, and references can be told from what else a definition holds.
    Marked,
}

thread_local! {
    static NOTATION: Cell<Notation> = const { Cell::new(Notation::Masked) };
}

/// What stands around a reference that is marked; no definition that was read has such a key.
const MARK: &str = "\u{0}kept";

fn noted<T>(notation: Notation, write: impl FnOnce() -> T) -> T {
    NOTATION.with(|current| {
        let before = current.replace(notation);
        let written = write();
        current.set(before);
        written
    })
}

/// What is written down within has its secrets.
pub fn with_secrets<T>(write: impl FnOnce() -> T) -> T {
    // Who looks for references asks for what would be stored.
    if NOTATION.get() == Notation::Marked { write() } else { noted(Notation::Whole, write) }
}

/// An address, or several, or none.
pub trait Address: Serialize {
    fn masked(&self) -> Self;
}

impl Address for String {
    fn masked(&self) -> String {
        crate::http::without_password(self)
    }
}

impl<A: Address> Address for Option<A> {
    fn masked(&self) -> Option<A> {
        self.as_ref().map(A::masked)
    }
}

impl<A: Address> Address for Vec<A> {
    fn masked(&self) -> Vec<A> {
        self.iter().map(A::masked).collect()
    }
}

/// `serialize_with` for addresses that may have passwords in them: these are masked where secrets are.
pub fn address<A: Address, S: Serializer>(address: &A, out: S) -> Result<S::Ok, S::Error> {
    match NOTATION.get() {
        Notation::Whole | Notation::Marked => address.serialize(out),
        Notation::Masked => address.masked().serialize(out),
    }
}

/// Whether all is there that a definition refers to, and nothing in it only stands for what is not shown: who sends a definition
/// as it was told would have the mask used for the secret. `stored` writes it down. For what is new; an earlier version took
/// masks, and how that fails is to be seen.
pub fn check(stored: impl FnOnce() -> Json) -> Result<(), ConnectorError> {
    check_under(&policy(), stored)
}

fn check_under(policy: &SecretPolicy, stored: impl FnOnce() -> Json) -> Result<(), ConnectorError> {
    check_part(policy, &noted(Notation::Marked, stored), "")
}

fn check_part(policy: &SecretPolicy, written: &Json, path: &str) -> Result<(), ConnectorError> {
    let refused = |problem: String| ConnectorError::Config { field: path.to_owned(), problem };
    match written {
        Json::Object(fields) => match fields.get(MARK).map(Reference::deserialize) {
            Some(Ok(reference)) => reference.look_up(policy).map(drop).map_err(refused),
            _ => fields.iter().try_for_each(|(name, value)| {
                let below = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                check_part(policy, value, &below)
            }),
        },
        Json::Array(items) => {
            items.iter().enumerate().try_for_each(|(index, item)| check_part(policy, item, &format!("{path}[{index}]")))
        }
        Json::String(text) if text == MASKED => Err(refused(format!(
            r#"{MASKED} is the mask and not the secret; give its value, or where it is kept: {{"env": "NAME"}} or {{"file": "/path"}}"#
        ))),
        Json::String(text) if crate::http::holds_mask(text) => {
            Err(refused("the **** in it is the mask of what is not shown; give the whole address".to_owned()))
        }
        _ => Ok(()),
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match (self, NOTATION.get()) {
            (Secret::Plain(_), Notation::Masked) => out.serialize_str(MASKED),
            (Secret::Plain(text), _) => out.serialize_str(text),
            (Secret::Kept(reference), Notation::Marked) => {
                JsonMap::from_iter([(MARK.to_owned(), json!(reference))]).serialize(out)
            }
            (Secret::Kept(reference), _) => reference.serialize(out),
        }
    }
}

impl Serialize for Open {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0.known() {
            Some(text) => out.serialize_str(text),
            None => self.0.serialize(out),
        }
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Secret, D::Error> {
        let given = Json::deserialize(input)?;
        let Json::Object(fields) = &given else {
            let kind = match given {
                Json::String(text) => return Ok(Secret::Plain(text)),
                Json::Number(_) => "a number",
                Json::Array(_) => "an array",
                Json::Bool(_) => "a boolean",
                _ => "null",
            };
            // It may be the secret all the same: YAML takes digits for a number.
            return Err(D::Error::custom(format!(
                "Got {kind} with wrong type, expecting string; in YAML, digits alone are one in quotes"
            )));
        };
        let one =
            fields.iter().next().filter(|_| fields.len() == 1).and_then(|(kind, place)| Some((kind.as_str(), place.as_str()?)));
        // What else stands there may be a secret that was put at the wrong place: it is not told.
        match one {
            Some(("env", name)) if is_variable(name) => Ok(Secret::Kept(Reference::Environment(name.to_owned()))),
            Some(("env", _)) => Err(D::Error::custom("of a secret, `env` takes the name of an environment variable")),
            Some(("file", path)) if Path::new(path).is_absolute() && !path.contains('\0') => {
                Ok(Secret::Kept(Reference::File(PathBuf::from(path))))
            }
            Some(("file", _)) => Err(D::Error::custom("of a secret, `file` takes the path of a file, from the root on")),
            _ => Err(D::Error::custom(r#"a secret takes a text, or where it is kept: {"env": "NAME"} or {"file": "/path"}"#)),
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Secret::Plain(_) => f.write_str(MASKED),
            Secret::Kept(reference) => reference.fmt(f),
        }
    }
}

impl JsonSchema for Secret {
    fn schema_name() -> Cow<'static, str> {
        "Secret".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let about = "The secret itself. It is stored with the definition, and shown as `Secret(****)`.";
        schema(generator, json!({"type": "string", "format": "password", "description": about}))
    }
}

impl JsonSchema for Open {
    fn schema_name() -> Cow<'static, str> {
        "TextOrReference".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        schema(generator, json!({"type": "string", "description": "The value itself."}))
    }
}

/// References have names of their own: a generator of clients that knew objects within unions only by where they stand would lose
/// them.
fn schema(generator: &mut SchemaGenerator, plain: Json) -> Schema {
    json_schema!({
        "oneOf": [plain, generator.subschema_for::<EnvironmentReference>(), generator.subschema_for::<FileReference>()],
        "examples": [{"env": "WEIR_SECRET_ORDERS"}, {"file": "/run/secrets/orders"}],
    })
}

fn reference(kind: &str, pattern: &str, about: &str) -> Schema {
    let value = json!({"type": "string", "pattern": pattern, "description": about});
    json_schema!({"type": "object", "properties": {kind: value}, "required": [kind], "additionalProperties": false,
        "description": about})
}

struct EnvironmentReference;

impl JsonSchema for EnvironmentReference {
    fn schema_name() -> Cow<'static, str> {
        "EnvironmentReference".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "An environment variable of weir that holds the value. It has to be among those of `secrets.environment`.";
        reference("env", "^[^=\\u0000]+$", about)
    }
}

struct FileReference;

impl JsonSchema for FileReference {
    fn schema_name() -> Cow<'static, str> {
        "FileReference".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "The path of a file that holds the value, directly in a directory of `secrets.directories`. A newline at its \
                     end is ignored.";
        reference("file", "^/[^\\u0000]*$", about)
    }
}

/// What may be referred to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecretPolicy {
    directories: Vec<PathBuf>,
    /// Names, or with a star behind it what names begin with.
    variables: Vec<String>,
}

impl Default for SecretPolicy {
    fn default() -> SecretPolicy {
        SecretPolicy { directories: vec![PathBuf::from(USUAL_DIRECTORY)], variables: vec![USUAL_VARIABLES.to_owned()] }
    }
}

static POLICY: RwLock<Option<Arc<SecretPolicy>>> = RwLock::new(None);

fn policy() -> Arc<SecretPolicy> {
    read(&POLICY).clone().unwrap_or_default()
}

/// From now on this is what may be referred to.
pub fn allow(policy: SecretPolicy) {
    *write(&POLICY) = Some(Arc::new(policy));
}

/// Whether a variable is one of these: its name, or the beginning of names with a star behind it.
pub fn is_among(variables: &[String], variable: &str) -> bool {
    variables.iter().any(|known| match known.strip_suffix('*') {
        Some(beginning) => variable.starts_with(beginning),
        None => known == variable,
    })
}

impl SecretPolicy {
    pub fn new(directories: Vec<PathBuf>, variables: Vec<String>) -> Result<SecretPolicy, ConnectorError> {
        if let Some(relative) = directories.iter().find(|directory| !directory.is_absolute()) {
            let problem = format!("{} is no directory from the root on, as {USUAL_DIRECTORY} is", relative.display());
            return Err(ConnectorError::config("secrets.directories", problem));
        }
        let is_pattern = |name: &String| is_variable(name) && !name.strip_suffix('*').unwrap_or(name).contains('*');
        if let Some(wrong) = variables.iter().find(|name| !is_pattern(name)) {
            let problem = format!("{wrong:?} is no variable; give its name, or the beginning of names with a star behind it");
            return Err(ConnectorError::config("secrets.environment", problem));
        }
        Ok(SecretPolicy { directories, variables })
    }

    fn allows(&self, variable: &str) -> bool {
        is_among(&self.variables, variable)
    }

    /// The file itself, if it is named directly in an allowed directory and does not lead out of that: mounted secrets are links
    /// to what lies deeper there.
    fn file(&self, path: &Path) -> Result<PathBuf, String> {
        let parent = path.parent().and_then(|parent| fs::canonicalize(parent).ok());
        let allowed = |directory: &PathBuf| fs::canonicalize(directory).ok().filter(|found| Some(found) == parent.as_ref());
        // Whether a file outside exists is nobody's business: it is refused before that is said.
        let outside = || format!("the file {} is not directly in a directory that secrets.directories names", path.display());
        let directory = self.directories.iter().find_map(allowed).ok_or_else(outside)?;
        let resolved = fs::canonicalize(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => format!("there is no file {}", path.display()),
            _ => format!("the file {} cannot be reached: {error}", path.display()),
        })?;
        if resolved.starts_with(&directory) { Ok(resolved) } else { Err(outside()) }
    }
}

impl Reference {
    fn look_up(&self, policy: &SecretPolicy) -> Result<String, String> {
        match self {
            Reference::Environment(name) if !policy.allows(name) => {
                Err(format!("the environment variable {name} is not one that secrets.environment allows"))
            }
            Reference::Environment(name) => {
                let value = std::env::var_os(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
                full(value.into_string().ok(), &format!("the environment variable {name}"))
            }
            Reference::File(path) => {
                let place = format!("the file {}", path.display());
                let unread = |error: std::io::Error| format!("{place} cannot be read: {error}");
                let found = policy.file(path)?;
                // A pipe would be waited for.
                if !fs::metadata(&found).map_err(unread)?.is_file() {
                    return Err(format!("{place} is no regular file"));
                }
                let mut bytes = Vec::new();
                File::open(&found).map_err(unread)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unread)?;
                if bytes.len() as u64 > FILE_BYTES_MAX {
                    return Err(format!("{place} is longer than {FILE_BYTES_MAX} bytes, which no secret is"));
                }
                let line = bytes.strip_suffix(b"\n").map(|line| line.strip_suffix(b"\r").unwrap_or(line));
                let line = line.map(<[u8]>::to_vec).unwrap_or(bytes);
                full(String::from_utf8(line).ok(), &place)
            }
        }
    }
}

fn full(value: Option<String>, place: &str) -> Result<String, String> {
    match value {
        None => Err(format!("{place} holds what is no text in UTF-8")),
        Some(value) if value.is_empty() => Err(format!("{place} is empty")),
        Some(value) => Ok(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Definition {
        password: Secret,
        hook: Open,
        list: Vec<Secret>,
    }

    fn policy(directory: &Path) -> SecretPolicy {
        SecretPolicy::new(vec![directory.to_owned()], vec!["WEIR_SECRET_*".to_owned(), "PATH".to_owned()]).unwrap()
    }

    fn problem(policy: &SecretPolicy, reference: Json) -> String {
        Reference::deserialize(reference).unwrap().look_up(policy).unwrap_err()
    }

    #[test]
    fn references_are_shown_and_stored_and_values_are_not_shown() {
        let given = json!({"password": "hush", "hook": "plain", "list": [{"env": "WEIR_SECRET_A"}, {"file": "/run/secrets/b"}]});
        let read: Definition = serde_json::from_value(given.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), json!({"password": MASKED, "hook": "plain", "list": given["list"]}));
        assert_eq!(with_secrets(|| serde_json::to_value(&read)).unwrap(), given);
        assert!(!format!("{:?}", read.password).contains("hush") && format!("{:?}", read.list).contains("WEIR_SECRET_A"));
        // What looks like a reference and is another part of a definition is none.
        let refused = check_under(&SecretPolicy::default(), || {
            with_secrets(|| json!({"format": {"env": "NOT"}, "inner": serde_json::to_value(&read).unwrap_or_default()}))
        });
        let refused = refused.unwrap_err().to_string();
        assert_eq!(refused, "option `inner.list[0]`: the environment variable WEIR_SECRET_A is not set");
        assert_eq!(serde_json::to_value(&read.password).unwrap(), MASKED, "the notation is as it was");
    }

    #[test]
    fn what_stands_for_a_secret_is_none() {
        #[derive(Serialize, Deserialize)]
        struct Addressed {
            #[serde(serialize_with = "address")]
            url: String,
            definition: Definition,
        }
        let given = |password: &str, hook: &str, item: &str, url: &str| {
            let definition = json!({"password": password, "hook": hook, "list": ["hush", item]});
            json!({"url": url, "definition": definition})
        };
        let refused = |given: Json| {
            // What an earlier version has stored is still read.
            let read: Addressed = serde_json::from_value(given.clone()).unwrap();
            assert_eq!(with_secrets(|| serde_json::to_value(&read)).unwrap(), given);
            let stored = || with_secrets(|| serde_json::to_value(&read).unwrap());
            check_under(&SecretPolicy::default(), stored).err().map(|error| error.to_string())
        };
        let url = "http://me:hush@h/?token=hush&page=1";
        assert_eq!(refused(given("hush", "****", "Secret(***)", url)), None);
        for (wrong, option) in [
            (given(MASKED, "plain", "hush", url), "definition.password"),
            (given("hush", MASKED, "hush", url), "definition.hook"),
            (given("hush", "plain", MASKED, url), "definition.list[1]"),
        ] {
            let told = refused(wrong).unwrap();
            assert!(told.starts_with(&format!("option `{option}`: {MASKED} is the mask")) && !told.contains("hush"), "{told}");
        }
        let shown = url.to_owned().masked();
        for shown in ["http://me:****@h/?token=hush", "http://me:hush@h/?page=1&token=****", shown.as_str()] {
            let told = refused(given("hush", "plain", "hush", shown)).unwrap();
            assert!(told.starts_with("option `url`: the **** in it") && !told.contains("hush"), "{told}");
        }
    }

    #[test]
    fn what_is_no_reference_is_refused_without_being_told() {
        for wrong in [
            json!({"env": ""}),
            json!({"env": "hush=1"}),
            json!({"env": 5}),
            json!({"file": "hush"}),
            json!({"env": "A", "file": "/hush"}),
            json!({"vault": "hush"}),
            json!({}),
        ] {
            let refused = crate::config::from_json::<Definition>(&json!({"password": wrong})).err().unwrap().to_string();
            assert!(refused.contains("password") && !refused.contains("hush"), "{wrong}: {refused}");
        }
    }

    #[test]
    fn files_are_read_in_allowed_directories_only_and_anew_each_time() {
        let tree = tempfile::tempdir().unwrap();
        let at = |path: &str| tree.path().join(path);
        fs::create_dir_all(at("in/..data")).unwrap();
        for (path, text) in [
            ("in/a", "one\n"),
            ("in/..data/mounted", "two\r\n"),
            ("outside", "hush"),
            ("in/empty", "\n"),
            ("in/long", &"x".repeat(65_537)),
            ("in/lines", "a\n\n"),
        ] {
            fs::write(at(path), text).unwrap();
        }
        fs::write(at("in/binary"), [0xff, 0xfe]).unwrap();
        std::os::unix::fs::symlink(at("in/..data/mounted"), at("in/mounted")).unwrap();
        std::os::unix::fs::symlink(at("outside"), at("in/link")).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(at("in/pipe")).status().unwrap().success());
        let policy = policy(&at("in"));
        let read = |path: &str| Reference::File(at(path)).look_up(&policy);
        assert_eq!(read("in/a").unwrap(), "one");
        assert_eq!(read("in/mounted").unwrap(), "two");
        assert_eq!(read("in/lines").unwrap(), "a\n");
        assert_eq!(read("in/../in/a").unwrap(), "one");
        fs::write(at("in/a"), "other").unwrap();
        assert_eq!(read("in/a").unwrap(), "other");
        for (path, expected) in [
            ("in/..data/mounted", "secrets.directories"),
            ("in/link", "secrets.directories"),
            ("in/../outside", "secrets.directories"),
            ("no-such", "secrets.directories"),
            ("in/no-such", "there is no file"),
            ("in/empty", "is empty"),
            ("in/long", "longer than 65536 bytes"),
            ("in/binary", "UTF-8"),
            ("in/pipe", "no regular file"),
        ] {
            let problem = read(path).unwrap_err();
            assert!(problem.contains(expected) && problem.contains(path) && !problem.contains("hush"), "{path}: {problem}");
        }
        assert!(SecretPolicy::new(vec![PathBuf::from("run")], Vec::new()).is_err());
    }

    #[test]
    fn variables_are_read_that_are_allowed() {
        let policy = policy(Path::new("/"));
        let path = Reference::Environment("PATH".to_owned()).look_up(&policy).unwrap();
        assert_eq!(Some(path), std::env::var("PATH").ok());
        assert!(problem(&policy, json!({"env": "PAT"})).contains("PAT is not one that secrets.environment allows"));
        assert!(problem(&SecretPolicy::default(), json!({"env": "PATH"})).contains("secrets.environment"));
        assert_eq!(
            problem(&policy, json!({"env": "WEIR_SECRET_NO_SUCH"})),
            "the environment variable WEIR_SECRET_NO_SUCH is not set"
        );
        for wrong in ["", "A*B", "**", "A=B"] {
            assert!(SecretPolicy::new(Vec::new(), vec![wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(SecretPolicy::new(Vec::new(), vec!["*".to_owned()]).unwrap().allows("ANY"));
    }
}
