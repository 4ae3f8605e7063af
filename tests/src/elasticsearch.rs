//! A stand-in for Elasticsearch: it takes `_bulk` as the real one describes it, strictly, keeps documents by their ids, and fails
//! as it is told to. It is no Elasticsearch: it knows no mappings but one, no shards and no search.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::endpoint::request;

/// A client that says nothing for this long is left.
const PATIENCE: Duration = Duration::from_secs(20);

#[derive(Default)]
pub struct Kept {
    /// By index and id.
    pub documents: BTreeMap<(String, String), Json>,
    /// What was not as it should be.
    pub wrong: Vec<String>,
    pub requests: usize,
    /// The most documents in one request.
    pub most: usize,
    pub overwritten: usize,
    pub deleted: usize,
}

#[derive(Clone)]
pub struct Elasticsearch {
    address: SocketAddr,
    authorization: String,
    kept: Arc<Mutex<Kept>>,
    /// Whether some requests and some documents are answered with errors, and some answers break off.
    pub failing: Arc<AtomicBool>,
}

impl Elasticsearch {
    /// Listens until the process ends. A document whose `data.id` is negative does not fit its mapping.
    pub fn start(authorization: &str) -> Elasticsearch {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let (address, authorization) = (listener.local_addr().expect("an address"), authorization.to_owned());
        let server = Elasticsearch { address, authorization, kept: Arc::default(), failing: Arc::default() };
        let own = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = own.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers in the documents of an index.
    pub fn numbers(&self, index: &str) -> Vec<i64> {
        let kept = self.kept();
        let of = kept.documents.iter().filter(|((name, _), _)| name == index);
        let mut numbers: Vec<i64> = of.filter_map(|(_, document)| document["data"]["id"].as_i64()).collect();
        numbers.sort_unstable();
        numbers
    }

    fn serve(&self, stream: TcpStream) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let Ok(mut out) = stream.try_clone() else { return };
        let mut input = BufReader::new(stream);
        while let Some((path, headers, body)) = request(&mut input) {
            let mut kept = self.kept();
            kept.requests += 1;
            let number = kept.requests;
            let header = |name: &str| headers.get(name).map(String::as_str).unwrap_or_default();
            let (mut status, mut answer) = (200, json!({}));
            if path != "/_bulk?filter_path=items.*._id,items.*.status,items.*.error.type,items.*.error.reason" {
                kept.wrong.push(format!("the path is {path}"));
            }
            if header("content-type") != "application/x-ndjson" {
                kept.wrong.push(format!("the type is {}", header("content-type")));
            }
            let failing = self.failing.load(Ordering::Relaxed);
            if header("authorization") != self.authorization {
                (status, answer) =
                    (401, json!({"error": {"type": "security_exception", "reason": "unable to authenticate"}, "status": 401}));
            } else if failing && number % 7 == 3 {
                (status, answer) = (503, json!({"error": {"type": "unavailable", "reason": "later"}}));
            } else {
                match bulk(&mut kept, &body, failing.then_some(number)) {
                    Ok(items) => answer = json!({"items": items}),
                    Err(problem) => {
                        kept.wrong.push(problem);
                        status = 400;
                    }
                }
            }
            drop(kept);
            let body = answer.to_string();
            let head = format!("HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len());
            // What was taken is taken, and nobody is told.
            let end = if failing && number % 5 == 4 { body.len() / 2 } else { body.len() };
            if out.write_all(head.as_bytes()).is_err() || out.write_all(&body.as_bytes()[..end]).is_err() || end < body.len() {
                return;
            }
        }
    }
}

/// Takes the lines of a request; an error says what is wrong with them.
fn bulk(kept: &mut Kept, body: &[u8], failing: Option<usize>) -> Result<Vec<Json>, String> {
    let text = std::str::from_utf8(body).map_err(|error| error.to_string())?;
    let text = text.strip_suffix('\n').ok_or("a request ends with a newline")?;
    let (mut lines, mut items, mut ids) = (text.split('\n'), Vec::new(), BTreeSet::new());
    while let Some(line) = lines.next() {
        let action: Json = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let (name, target) =
            action.as_object().and_then(|action| action.iter().next()).ok_or_else(|| format!("{line} is no action"))?;
        let (Some(index), Some(id)) = (target["_index"].as_str(), target["_id"].as_str()) else {
            return Err(format!("{line} lacks something"));
        };
        let expected = json!({name: {"_index": index, "_id": id}}).to_string();
        if expected != line {
            return Err(format!("{line} holds more than was expected"));
        }
        if !ids.insert(id.to_owned()) {
            return Err(format!("the id {id} comes twice in a request"));
        }
        let key = (index.to_owned(), id.to_owned());
        let document = match name.as_str() {
            "index" => {
                let line = lines.next().ok_or("the document is missing")?;
                let document: Json = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
                if !document.is_object() {
                    return Err(format!("{line} is no document"));
                }
                Some(document)
            }
            "delete" => None,
            other => return Err(format!("{other} is not done here")),
        };
        let mut told = json!({"_id": id});
        let unfit = document.as_ref().is_some_and(|document| document["data"]["id"].as_i64().is_some_and(|n| n < 0));
        if failing.is_some_and(|number| number % 3 == 0 && items.len() % 4 == 2) {
            told["status"] = 429.into();
            told["error"] = json!({"type": "es_rejected_execution_exception", "reason": "the queue is full"});
        } else if unfit {
            told["status"] = 400.into();
            told["error"] = json!({"type": "document_parsing_exception", "reason": "failed to parse field [data.id]"});
        } else {
            let deletes = document.is_none();
            let before = match document {
                Some(document) => kept.documents.insert(key, document),
                None => kept.documents.remove(&key),
            };
            told["status"] = match (deletes, &before) {
                (false, None) => 201.into(),
                (true, None) => 404.into(),
                _ => 200.into(),
            };
            kept.overwritten += usize::from(!deletes && before.is_some());
            kept.deleted += usize::from(deletes && before.is_some());
        }
        items.push(json!({name: told}));
    }
    kept.most = kept.most.max(items.len());
    Ok(items)
}
