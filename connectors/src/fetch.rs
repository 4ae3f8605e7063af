//! Fetch: the records behind a path or URL that a query names, for LOAD CSV and `loadJsonLines`.
//!
//!     path, file: URL   ─ policy ─> file ─┐
//!                                         ├─> FrameReader ─ decode ─> values
//!     http: https: URL  ─ thread ─> chunks┘
//!
//! Unlike a source it has no position and no acknowledgement: it is read once, from the beginning, for as long as the query wants
//! rows. Files obey the policy of file streams, web servers that of outgoing requests. Whoever asks a web server waits no longer
//! than the bounds here.

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use reqwest::Url;
use weir_model::{Text, Value};

use crate::decode::{CsvCharacters, CsvDecoder, Decoder, JsonDecoder};
use crate::error::{ConnectorError, Fault};
use crate::file_policy::FilePolicy;
use crate::frames::{Frames, Limits, Progress};
use crate::framing::{ByteStream, Chunk, FrameReader, Framing};
use crate::host_policy::HostPolicy;
use crate::http;
use crate::source::Source;
use crate::sources::FileStream;

/// A longer line or row is an error.
const RECORD_BYTES_MAX: usize = 64 << 20;

/// For all of what is wanted at once, also from a server that never stops to send.
const WHOLE_TIME_MAX: Duration = Duration::from_secs(30);

/// Where others have taken all the time there was: a server that answers does so within a moment.
const WHOLE_TIME_MIN: Duration = Duration::from_millis(200);

/// Chunks of an answer that wait to be read.
const CHUNKS_WAITING_MAX: usize = 16;

/// What the records are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One JSON value a line. Empty lines are none.
    JsonLines,
    /// Lists of texts, or, with a first row of names, maps.
    Csv { separator: u8, headers: bool },
}

/// Reads what is there, in portions.
pub struct Fetch {
    place: String,
    source: FrameReader,
    form: Form,
    decoder: Arc<dyn Decoder>,
    frames: Frames,
    /// The first row is still to be taken for names.
    header_due: bool,
    columns: Option<Arc<[Text]>>,
    number: u64,
    /// What comes after the values that were before it.
    failure: Option<ConnectorError>,
    finished: bool,
}

impl Fetch {
    pub fn open(location: &str, form: Form, files: &FilePolicy, hosts: &HostPolicy) -> Result<Fetch, ConnectorError> {
        let stream = open(location, files, hosts)?;
        let (framing, decoder, header_due): (_, Arc<dyn Decoder>, _) = match form {
            Form::JsonLines => (Framing::Lines, Arc::new(JsonDecoder::default()), false),
            Form::Csv { separator, headers } => {
                if [b'"', b'\n', b'\r'].contains(&separator) {
                    return Err(ConnectorError::config("FIELDTERMINATOR", "a quote or a line end cannot separate fields"));
                }
                let characters = CsvCharacters { delimiter: separator, quote: b'"', escape: b'\\' };
                (Framing::CsvRows(characters), Arc::new(CsvDecoder { characters, columns: None }), headers)
            }
        };
        Ok(Fetch {
            place: shown(location),
            source: FrameReader::new(&shown(location), stream, framing, RECORD_BYTES_MAX, 0),
            form,
            decoder,
            frames: Frames::default(),
            header_due,
            columns: None,
            number: 0,
            failure: None,
            finished: false,
        })
    }

    /// The next values; waits for them no longer than `Limits::wait_max`, so the vector may stay empty. False at the end.
    /// What cannot be decoded is told by the call after the one that gave what was before it.
    pub fn next(&mut self, values: &mut Vec<Value>) -> Result<bool, ConnectorError> {
        if let Some(failure) = self.failure.take() {
            self.finished = true;
            return Err(failure);
        }
        if self.finished {
            return Ok(false);
        }
        self.frames.clear();
        self.finished = self.source.next(&Limits::default(), &mut self.frames)? == Progress::Finished;
        self.frames.columns = self.columns.clone();
        for at in 0..self.frames.len() {
            self.number += 1;
            let frame = self.frames.get(at);
            // A row of nothing but white space has fields: it may separate them.
            if self.form == Form::JsonLines && frame.bytes.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let record = match self.decoder.record(frame) {
                Ok(record) => record,
                Err(problem) => {
                    let problem = format!("record {}: {problem}", self.number);
                    self.failure = Some(ConnectorError::Framing { place: self.place.clone(), problem });
                    return Ok(true);
                }
            };
            match record {
                Value::List(names) if std::mem::take(&mut self.header_due) => {
                    let name = |value: &Value| if let Value::Text(text) = value { text.clone() } else { Text::default() };
                    self.columns = Some(names.iter().map(name).collect());
                    self.frames.columns = self.columns.clone();
                }
                record => values.push(record),
            }
        }
        Ok(true)
    }
}

thread_local! {
    /// Whether somebody still waits for what this thread fetches at once; where nothing is set, somebody does.
    static WANTED: RefCell<Option<Box<dyn Fn() -> bool>>> = const { RefCell::new(None) };
    /// For how long this thread may still wait for what web servers give it at once, where that is bounded.
    static TIME_LEFT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// What `work` fetches at once is given up as soon as it is not wanted any more. It is said here and not with each fetch: what
/// needs a schema is deep within definitions, which do not know who waits for them.
pub fn while_wanted<T>(wanted: impl Fn() -> bool + 'static, work: impl FnOnce() -> T) -> T {
    let before = WANTED.replace(Some(Box::new(wanted)));
    let done = work();
    WANTED.set(before);
    done
}

/// As `while_wanted`, where web servers are waited for no longer than `time_max`, all of them together, and those that come after
/// that for a moment each.
pub fn all_within<T>(time_max: Duration, work: impl FnOnce() -> T) -> T {
    let before = TIME_LEFT.replace(Some(time_max));
    let done = work();
    TIME_LEFT.set(before);
    done
}

/// All that is behind a path or URL, at once.
pub fn whole(location: &str, files: &FilePolicy, hosts: &HostPolicy, bytes_max: usize) -> Result<Vec<u8>, ConnectorError> {
    let Some(left) = TIME_LEFT.get().filter(|_| !is_file(location)) else {
        return whole_within(WHOLE_TIME_MAX, location, files, hosts, bytes_max);
    };
    let begun = Instant::now();
    let whole = whole_within(left.clamp(WHOLE_TIME_MIN, WHOLE_TIME_MAX), location, files, hosts, bytes_max);
    TIME_LEFT.set(Some(left.saturating_sub(begun.elapsed())));
    whole
}

fn whole_within(
    time_max: Duration,
    location: &str,
    files: &FilePolicy,
    hosts: &HostPolicy,
    bytes_max: usize,
) -> Result<Vec<u8>, ConnectorError> {
    let begun = Instant::now();
    let mut stream = open(location, files, hosts)?;
    let (mut whole, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        if !WANTED.with_borrow(|wanted| wanted.as_ref().is_none_or(|wanted| wanted())) {
            return Err(ConnectorError::passing(&shown(location), "is not waited for any more".to_owned()));
        }
        // Whoever gives the bytes bounds the time between two of them, and not all of it.
        if begun.elapsed() >= time_max {
            return Err(ConnectorError::passing(
                &shown(location),
                format!("was not there in full within {} s", time_max.as_secs().max(1)),
            ));
        }
        match stream.read(&mut buffer, Limits::default().wait_max)? {
            Chunk::Bytes(count) if whole.len() + count > bytes_max => {
                let problem = format!("has more than {bytes_max} bytes");
                return Err(ConnectorError::Framing { place: shown(location), problem });
            }
            Chunk::Bytes(count) => whole.extend_from_slice(&buffer[..count]),
            Chunk::Nothing => {}
            Chunk::End => return Ok(whole),
        }
    }
}

fn open(location: &str, files: &FilePolicy, hosts: &HostPolicy) -> Result<Box<dyn ByteStream>, ConnectorError> {
    match scheme(location) {
        Some("http" | "https") => Ok(Box::new(Answer::request(location, hosts)?)),
        Some("file") | None => open_file(location, files),
        Some(other) => {
            let problem = format!("`{other}:` URLs are not read; give an http or https URL, or the path of a file");
            Err(ConnectorError::config("", format!("{}: {problem}", shown(location))))
        }
    }
}

/// A path or URL as it is told: without a password, and of a web server without the query, where tokens are kept. What is no URL
/// may be one with a mistake in its password.
pub(crate) fn shown(location: &str) -> String {
    match (is_file(location), Url::parse(location)) {
        (true, _) => location.to_owned(),
        (false, Ok(url)) => http::shown(&url),
        (false, Err(_)) => format!("{}:…", scheme(location).unwrap_or_default()),
    }
}

/// What stands before the colon, if it is a scheme and no part of a path.
fn scheme(location: &str) -> Option<&str> {
    let (scheme, _) = location.split_once(':')?;
    let valid = scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    valid.then_some(scheme)
}

/// Whether it names a file, of this machine.
pub(crate) fn is_file(location: &str) -> bool {
    matches!(scheme(location), Some("file") | None)
}

/// The file that a path or `file:` URL names, if it is there and may be read.
pub(crate) fn file(location: &str, files: &FilePolicy) -> Result<PathBuf, ConnectorError> {
    let path = location.strip_prefix("file:").unwrap_or(location);
    // `file:///tmp/x` and `file:/tmp/x` are the same file.
    let path = PathBuf::from(path.strip_prefix("//").filter(|rest| rest.starts_with('/')).unwrap_or(path));
    let resolved = files.check(&path)?;
    if !resolved.is_file() {
        return Err(ConnectorError::File { path, problem: "is no regular file".to_owned() });
    }
    Ok(resolved)
}

fn open_file(location: &str, files: &FilePolicy) -> Result<Box<dyn ByteStream>, ConnectorError> {
    Ok(Box::new(FileStream::whole(&file(location, files)?, location)?))
}

/// The body of an answer, as a thread of its own receives it: the network wants a runtime, a query has none.
struct Answer {
    chunks: Receiver<Result<Vec<u8>, ConnectorError>>,
    /// What of a chunk did not fit.
    rest: Vec<u8>,
}

impl Answer {
    fn request(url: &str, hosts: &HostPolicy) -> Result<Answer, ConnectorError> {
        let parsed =
            Url::parse(url).map_err(|error| ConnectorError::config("", format!("{} is not a URL: {error}", shown(url))))?;
        hosts.check(&parsed)?;
        let (sender, chunks) = bounded(CHUNKS_WAITING_MAX);
        let (url, hosts) = (url.to_owned(), hosts.clone());
        let named = thread::Builder::new().name("fetch".to_owned());
        let place = shown(&url);
        named
            .spawn(move || {
                if let Err(error) = receive(&url, &hosts, &sender) {
                    let _ = sender.send(Err(error));
                }
            })
            .map_err(|error| ConnectorError::io(&place, "no thread could be started", error))?;
        Ok(Answer { chunks, rest: Vec::new() })
    }
}

/// Ends as soon as nobody takes the chunks any more.
fn receive(url: &str, hosts: &HostPolicy, sender: &Sender<Result<Vec<u8>, ConnectorError>>) -> Result<(), ConnectorError> {
    let place = shown(url);
    let world =
        |problem: String, fault| ConnectorError::World { place: place.clone(), problem, fault, retryable: true, source: None };
    let failed = |error: reqwest::Error| world(http::chain(&error.without_url()), Fault::World);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| ConnectorError::io(&place, "the network cannot be used", error))?;
    runtime.block_on(async {
        let mut answer = http::fetching_client(hosts)?.get(url).send().await.map_err(failed)?;
        if !answer.status().is_success() {
            return Err(world(format!("the server answered {}", answer.status()), Fault::User));
        }
        while let Some(chunk) = answer.chunk().await.map_err(failed)? {
            if sender.send(Ok(chunk.to_vec())).is_err() {
                break;
            }
        }
        Ok(())
    })
}

impl ByteStream for Answer {
    fn read(&mut self, buffer: &mut [u8], wait: Duration) -> Result<Chunk, ConnectorError> {
        if self.rest.is_empty() {
            self.rest = match self.chunks.recv_timeout(wait) {
                Ok(chunk) => chunk?,
                Err(RecvTimeoutError::Timeout) => return Ok(Chunk::Nothing),
                Err(RecvTimeoutError::Disconnected) => return Ok(Chunk::End),
            };
        }
        let count = self.rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(if count > 0 { Chunk::Bytes(count) } else { Chunk::Nothing })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::path::Path;

    use weir_model::json;

    use super::*;
    use crate::file_policy::FileResolution;

    fn all(location: &str, form: Form, files: &FilePolicy) -> Result<Vec<String>, ConnectorError> {
        let mut fetch = Fetch::open(location, form, files, &HostPolicy::default())?;
        let mut values = Vec::new();
        while fetch.next(&mut values)? {}
        let shown = |value: &Value| {
            let mut bytes = Vec::new();
            json::write(value, weir_model::IdScheme::Uuid, &mut bytes);
            String::from_utf8(bytes).expect("JSON is text")
        };
        Ok(values.iter().map(shown).collect())
    }

    fn allowed(directory: &Path) -> FilePolicy {
        FilePolicy::new(&[directory.to_owned()], FileResolution::Dynamic).expect("a directory")
    }

    const COMMA: Form = Form::Csv { separator: b',', headers: false };

    #[test]
    fn files_are_read_where_the_policy_lets_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |name: &str| directory.path().join(name).display().to_string();
        std::fs::write(at("a.json"), "{\"x\": 1}\n\n[2]\n").expect("written");
        std::fs::write(at("a.csv"), "name;age\n\"Ann; B\";30\n\nBob;\n").expect("written");
        std::fs::write(at("b.csv"), "\u{feff}name;age\r\n,\r\n").expect("written");
        std::fs::write(at("c.tsv"), "a\tb\n\t\n\n \t \n").expect("written");
        std::fs::write(at("bad.json"), "1\n \nnope\n").expect("written");
        let files = allowed(directory.path());
        assert_eq!(all(&at("a.json"), Form::JsonLines, &files).expect("reads"), [r#"{"x":1}"#, "[2]"]);
        let url = format!("file://{}", at("a.csv"));
        let with_headers = Form::Csv { separator: b';', headers: true };
        assert_eq!(
            all(&url, with_headers, &files).expect("reads"),
            [r#"{"name":"Ann; B","age":"30"}"#, r#"{"name":"Bob","age":""}"#]
        );
        assert_eq!(all(&at("b.csv"), COMMA, &files).expect("reads"), [r#"["name;age"]"#, r#"["",""]"#]);
        let tabs = |headers: bool| all(&at("c.tsv"), Form::Csv { separator: b'\t', headers }, &files).expect("reads");
        assert_eq!(tabs(false), [r#"["a","b"]"#, r#"["",""]"#, r#"[" "," "]"#]);
        assert_eq!(tabs(true), [r#"{"a":"","b":""}"#, r#"{"a":" ","b":" "}"#]);
        let refused = |location: &str, form| all(location, form, &files).expect_err("refused").to_string();
        assert!(refused("/etc/passwd", COMMA).contains("allowed-directories"));
        assert!(refused("file:///etc/passwd", COMMA).contains("allowed-directories"));
        assert!(refused("ftp://x/y", COMMA).contains("`ftp:` URLs are not read"));
        assert!(refused(&directory.path().display().to_string(), COMMA).contains("allowed-directories"));
        assert!(refused(&at("none"), COMMA).contains("no such file"));
        assert!(refused(&at("bad.json"), Form::JsonLines).contains("record 3"));
        assert!(refused(&at("a.csv"), Form::Csv { separator: b'"', headers: false }).contains("separate fields"));
    }

    #[test]
    fn passwords_and_tokens_of_addresses_are_not_told() {
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        for (location, told) in [
            (format!("http://u:hush@127.0.0.1:{port}/x?token=hush"), format!("http://127.0.0.1:{port}/x")),
            ("http://u:hush@h:999999/".to_owned(), "http:…".to_owned()),
            ("ftp://u:hush@h/x".to_owned(), "ftp://h/x".to_owned()),
        ] {
            let refused = all(&location, COMMA, &FilePolicy::default()).expect_err("refused").to_string();
            assert!(!refused.contains("hush") && refused.contains(&told), "{location}: {refused}");
            for (format, name) in [("CypherAvro", None), ("CypherProtobuf", Some("x.Y"))] {
                let mut format = serde_json::json!({"type": format, "query": "RETURN 1", "schemaUrl": location});
                name.iter().for_each(|name| format["typeName"] = (*name).into());
                let definition = serde_json::json!({"type": "ServerSentEventsIngest", "url": "http://h/", "format": format});
                let source = crate::parse_source_v1(&definition).expect("is read");
                let refused = source.check(&crate::conformance::anything()).expect_err("refused").to_string();
                assert!(!refused.contains("hush") && refused.contains(&told), "{definition}: {refused}");
                let parses = Url::parse(&location).is_ok();
                assert!(!parses || !source.settings().to_string().contains("u:hush@"), "{}", source.settings());
                assert!(source.stored().to_string().contains("u:hush@"), "{}", source.stored());
            }
        }
    }

    #[test]
    fn web_servers_are_read_and_their_failures_told() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            for answer in ["200 OK", "404 Not Found"] {
                let (mut stream, _) = listener.accept().expect("a client");
                let mut request = [0; 4096];
                let _ = stream.read(&mut request);
                let body = "a,b\n1,2\n";
                let head = format!("HTTP/1.1 {answer}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        });
        let url = format!("http://{address}/x.csv");
        let nothing = FilePolicy::default();
        assert_eq!(all(&url, COMMA, &nothing).expect("reads"), [r#"["a","b"]"#, r#"["1","2"]"#]);
        assert!(all(&url, COMMA, &nothing).expect_err("there is none").to_string().contains("404"));
        assert!(all("http://127.0.0.1:1/x", COMMA, &nothing).is_err());
    }

    #[test]
    fn a_server_that_never_stops_to_send_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n");
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(100));
            }
        });
        let begun = Instant::now();
        let url = format!("http://{address}/s.avsc");
        let (files, hosts) = (FilePolicy::default(), HostPolicy::default());
        let error = whole_within(Duration::from_secs(1), &url, &files, &hosts, 4096).expect_err("it never ends");
        assert!(error.retryable() && error.to_string().contains("within 1 s"), "{error}");
        // It would take 100 s to send all that it says it has.
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    }

    #[test]
    fn a_silent_server_is_waited_for_as_long_as_somebody_wants_and_has_time() {
        // What connects waits in its queue.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}/s.avsc", listener.local_addr().expect("an address"));
        let (files, hosts) = (FilePolicy::allow_all(), HostPolicy::default());
        let fails = |url: &str| {
            let error = whole(url, &files, &hosts, 4096).expect_err("nobody answers");
            assert!(error.retryable(), "{error}");
            error.to_string()
        };
        let begun = Instant::now();
        let told = while_wanted(move || begun.elapsed() < Duration::from_millis(200), || fails(&url));
        assert!(told.contains("is not waited for any more"), "{told}");

        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().display().to_string();
        let told = all_within(Duration::from_secs(1), || {
            let told = [fails(&url), fails(&url)];
            // A file is there, or is not.
            assert!(whole(&path, &files, &hosts, 4096).is_ok_and(|read| read.is_empty()));
            told
        });
        assert!(told.iter().all(|told| told.contains("was not there in full within 1 s")), "{told:?}");
        // Each of the three would take 30 s.
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(TIME_LEFT.get(), None);
    }

    #[test]
    fn hosts_that_are_not_allowed_are_not_asked_nor_redirected_to() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: http://localhost:1/\r\nContent-Length: 0\r\n\r\n");
        });
        let hosts = HostPolicy::new(&["127.0.0.1".to_owned()]).expect("a host");
        let fetch = |url: &str| -> Result<(), ConnectorError> {
            let mut fetch = Fetch::open(url, COMMA, &FilePolicy::default(), &hosts)?;
            while fetch.next(&mut Vec::new())? {}
            Ok(())
        };
        let refused = |url: &str| fetch(url).expect_err("refused by the policy").to_string();
        assert!(refused("http://localhost:1/").contains("localhost:1 is not one of outgoing-http.allowed-hosts"));
        assert!(refused(&format!("http://{address}/")).contains("outgoing-http.allowed-hosts"));
    }
}
