//! Online: exports, imports and backups of a weir that runs, over HTTP.

use std::future::Future;
use std::path::Path;

use tokio::runtime::{Builder, Runtime};

use super::progress::size;
use super::{Format, Moved, Progress};
use crate::client::{Asked, Client, Problem, Token};
use crate::tools::ToolError;

/// Writes a part of what comes. Its errors say which file cannot be written: nobody here knows.
pub type WritePart<'a> = &'a mut dyn FnMut(&[u8]) -> Result<(), String>;

/// Which weir is asked, about which namespace, and by whom.
#[derive(Clone, Copy)]
pub struct Of<'a> {
    pub url: &'a str,
    pub namespace: Option<&'a str>,
    pub token_file: Option<&'a Path>,
}

impl Of<'_> {
    fn client(&self) -> Result<Client, ToolError> {
        Ok(Client::new(self.url, self.namespace.map(str::to_owned), Token::of(self.token_file))?)
    }
}

/// Writes an export as the service gives it. Says what it was.
pub fn export(of: Of<'_>, format: Format, at: Option<u64>, write: WritePart<'_>) -> Result<String, ToolError> {
    let mut client = of.client()?;
    client.at = at;
    let of = ("namespace", of.namespace.unwrap_or("default"));
    let bytes = download(&client, of, ("/api/v1/admin/export", &[("format", format.name().to_owned())], None), write)?;
    Ok(size(bytes))
}

/// Downloads a backup, of everything or `since` another one ended.
pub fn back_up_over_http(
    of: Of<'_>,
    since: Option<String>,
    pairs: &[(&str, String)],
    write: WritePart<'_>,
) -> Result<u64, ToolError> {
    const PATH: &str = "/api/v1/admin/backup";
    download(&of.client()?, ("route", PATH), (PATH, pairs, since), write)
}

fn download(client: &Client, of: (&str, &str), asked: Asked<'_>, write: WritePart<'_>) -> Result<u64, ToolError> {
    let mut progress = Progress::new("bytes", None);
    // The client calls it a weir that broke when its part is not taken.
    let mut unwritten = None;
    let mut take = |part: &[u8], so_far: u64| {
        progress.set(so_far);
        write(part).inspect_err(|reason| unwritten = Some(reason.clone()))
    };
    let bytes = run(client.download(of, asked, &mut take));
    unwritten.map_or(bytes, |reason| Err(ToolError::Failed(reason)))
}

/// Sends portions of whole lines.
pub struct Importer {
    client: Client,
    format: Format,
    runtime: Runtime,
}

impl Importer {
    pub fn new(of: Of<'_>, format: Format) -> Result<Importer, ToolError> {
        Ok(Importer { client: of.client()?, format, runtime: runtime()? })
    }

    pub fn send(&mut self, portion: &[u8], first: u64) -> Result<Moved, ToolError> {
        let pairs = [("format", self.format.name().to_owned()), ("line", first.to_string())];
        let answer = self.runtime.block_on(self.client.upload("/api/v1/admin/import", &pairs, portion.to_vec()));
        let read = serde_json::from_slice::<Moved>(&answer?);
        Ok(read.map_err(|error| format!("the answer of {} cannot be read: {error}", self.client.url()))?)
    }
}

fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread().enable_all().build().map_err(|error| format!("cannot ask over HTTP: {error}"))
}

fn run<T>(asked: impl Future<Output = Result<T, Problem>>) -> Result<T, ToolError> {
    Ok(runtime()?.block_on(asked)?)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::path::Path;

    use super::{Of, back_up_over_http};
    use crate::config::{Settings, Sources, StoreSettings, load};
    use crate::tools::{Backup, ToolError, back_up};
    use crate::transfer::{Transfer, export};

    /// Answers each request for a path that begins like one of these with its status and body.
    fn server(answers: &'static [(&str, &str, &str)]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let mut connection = connection.expect("somebody asks");
                let mut request = BufReader::new(connection.try_clone().expect("a handle")).lines();
                let first = request.next().and_then(Result::ok).unwrap_or_default();
                let _ = request.find(|line| line.as_ref().map_or(true, String::is_empty));
                let path = first.split(' ').nth(1).unwrap_or_default();
                let (_, status, body) = answers.iter().find(|(begin, ..)| path.starts_with(begin)).expect("a path that is known");
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                // Whoever asks may have given up.
                let _ = connection.write_all(head.as_bytes()).and_then(|()| connection.write_all(body.as_bytes()));
            }
        });
        url
    }

    fn backup(file: &Path, url: &str) -> String {
        let backup = Backup { file: file.to_owned(), ..Backup::default() };
        failed(back_up(&backup, Some(url), &StoreSettings::InMemory).expect_err("it fails"))
    }

    fn exported(file: &Path, url: &str) -> String {
        let settings: Settings = load(&Sources::default(), &|_| None).expect("defaults");
        let transfer = Transfer { file: file.to_owned(), ..Transfer::default() };
        failed(export(&transfer, Some(url), None, &settings).expect_err("it fails"))
    }

    /// Whoever answers could be asked.
    fn failed(error: ToolError) -> String {
        match error {
            ToolError::Failed(reason) => reason,
            ToolError::Unreachable(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn a_disk_that_is_full_is_named_by_the_file() {
        // More than what is collected before it is written.
        static MUCH: &str = match std::str::from_utf8(&[b'x'; 100_000]) {
            Ok(text) => text,
            Err(_) => "",
        };
        const ANSWERS: &[(&str, &str, &str)] = &[("/api/v1/admin/", "200 OK", MUCH)];
        let (url, full) = (server(ANSWERS), Path::new("/dev/full"));
        let because = "No space left on device (os error 28)";
        assert_eq!(backup(full, &url), format!("cannot write the backup /dev/full: {because}"));
        assert_eq!(exported(full, &url), format!("cannot write /dev/full: {because}"));
    }

    /// It stood in the URL, which has room for some hundred namespaces.
    #[test]
    fn where_a_backup_ended_is_sent_however_many_namespaces_there_are() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        let serving = std::thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("somebody asks");
            let mut request = BufReader::new(connection.try_clone().expect("a handle"));
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                assert!(request.read_line(&mut head).expect("a line") > 0, "it ends with {head}");
            }
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let mut body = vec![0; length.and_then(|length| length.parse().ok()).unwrap_or(0)];
            request.read_exact(&mut body).expect("all of it");
            connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\nmore").expect("it is read");
            (head.lines().next().unwrap_or_default().to_owned(), body)
        });
        let since = format!("1.2.3{}", ".4.5".repeat(100_000));
        let mut taken = Vec::new();
        let mut write = |part: &[u8]| {
            taken.extend_from_slice(part);
            Ok::<(), String>(())
        };
        let (pairs, of) = ([("leaveOut", "a,b".to_owned())], Of { url: &url, namespace: None, token_file: None });
        let bytes = back_up_over_http(of, Some(since.clone()), &pairs, &mut write);
        let (first, body) = serving.join().expect("it is asked");
        assert_eq!(first, "POST /api/v1/admin/backup?leaveOut=a%2Cb HTTP/1.1");
        assert!(body == since.as_bytes(), "it is all of the body");
        assert!(matches!(bytes, Ok(4)));
        assert_eq!(taken, b"more");
    }

    #[test]
    fn a_weir_that_is_not_ready_says_why() {
        const UNAVAILABLE: &str = "503 Service Unavailable";
        const WHY: &str = r#"{"error": {"code": 503, "message": "weir is not ready: the store is being opened"}}"#;
        const ANSWERS: &[(&str, &str, &str)] =
            &[("/api/v1/admin/", UNAVAILABLE, ""), ("/api/v2/admin/readiness", UNAVAILABLE, WHY)];
        const READY: &[(&str, &str, &str)] =
            &[("/api/v1/admin/", UNAVAILABLE, ""), ("/api/v2/admin/readiness", "204 No Content", "")];
        let directory = tempfile::tempdir().expect("a directory");
        let (url, file) = (server(ANSWERS), directory.path().join("file"));
        let expected = format!("{url} answers with status 503 weir is not ready: the store is being opened");
        assert_eq!((backup(&file, &url), exported(&file, &url)), (expected.clone(), expected));
        let url = server(READY);
        assert_eq!(backup(&file, &url), format!("{url} answers with status 503"));
    }
}
