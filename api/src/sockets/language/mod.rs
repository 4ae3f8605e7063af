//! The language server: JSON-RPC 2.0 over a web socket, one message a frame, the part of LSP 3.17 that a query editor needs.
//!
//!     initialize ─> capabilities    didOpen, didChange, didClose    completion, hover, diagnostic, semanticTokens/full, …
//!
//! It answers and never speaks first: clients ask for diagnostics. What it knows of a text stands in `document` and the
//! compiler, what it knows of the graph in `names`; here is the conversation.

mod answers;
mod document;
mod names;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};
use tokio_tungstenite::tungstenite::{Error, Message};
use weir_cypher_compiler::language::LEGEND;

use self::document::Document;
use self::names::Names;
use super::{Connection, Socket};
use crate::app::App;
use crate::wire::decode;

/// Texts open over one socket.
const DOCUMENTS_MAX: usize = 64;

/// Changes in one message. Each looks for its place in the text.
const CHANGES_MAX: usize = 1000;

const PARSE_ERROR: i64 = -32700;
const INVALID_REQUEST: i64 = -32600;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;
const NOT_INITIALIZED: i64 = -32002;
/// The request is right, and cannot be answered.
const REQUEST_FAILED: i64 = -32803;

/// Why a request has no result: the number of the protocol, and words.
struct Refusal(i64, String);

impl Refusal {
    fn params(reason: impl Into<String>) -> Refusal {
        Refusal(INVALID_PARAMS, reason.into())
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    New,
    Open,
    /// After `shutdown`.
    Over,
}

pub struct Conversation {
    app: Arc<App>,
    /// As the handshake has it. The graph is looked up for each question: its namespace may be deleted meanwhile.
    graph_name: Option<String>,
    phase: Phase,
    documents: HashMap<String, Document>,
    names: Names,
}

impl Conversation {
    pub fn new(app: Arc<App>, graph_name: Option<String>) -> Conversation {
        Conversation { app, graph_name, phase: Phase::New, documents: HashMap::new(), names: Names::default() }
    }

    pub async fn talk(mut self, connection: Connection) -> Result<(), Error> {
        let app = self.app.clone();
        let mut socket = Socket::over(connection, &app);
        let stopped = app.stopped();
        tokio::pin!(stopped);
        loop {
            let message = tokio::select! {
                message = socket.next() => message,
                () = &mut stopped => return socket.leave().await,
            };
            let answer = match message {
                None => return Ok(()),
                Some(Ok(Message::Close(_))) => return socket.answer_close().await,
                Some(Err(error)) => return Err(socket.fail(error).await),
                // A text may be long, and what is asked of the graph takes a moment.
                Some(Ok(Message::Text(text))) => tokio::task::block_in_place(|| self.answer(text.as_bytes())),
                Some(Ok(Message::Binary(bytes))) => tokio::task::block_in_place(|| self.answer(&bytes)),
                Some(Ok(_)) => continue,
            };
            match answer {
                Answer::Say(answer) => tokio::select! {
                    sent = socket.send(answer.to_string()) => sent?,
                    () = &mut stopped => return socket.leave().await,
                },
                Answer::Nothing => {}
                Answer::End => break,
            }
        }
        socket.close(None).await
    }

    fn answer(&mut self, message: &[u8]) -> Answer {
        let message = match decode::json(message) {
            Ok(message) => message,
            Err(problems) => {
                let reason = format!("This is not JSON: {}", problems.join("; "));
                return Answer::refused(Json::Null, Refusal(PARSE_ERROR, reason));
            }
        };
        let id = message.get("id").cloned();
        let Some(method) = message.get("method").and_then(Json::as_str) else {
            let reason = "A message is an object with a `method`; several at once are not taken";
            return Answer::refused(id.unwrap_or(Json::Null), Refusal(INVALID_REQUEST, reason.to_owned()));
        };
        let params = message.get("params").unwrap_or(&Json::Null);
        match id {
            // What is said without a number is not answered, whatever becomes of it.
            None => self.told(method, params),
            Some(id) => match self.asked(method, params) {
                Ok(result) => Answer::Say(json!({"jsonrpc": "2.0", "id": id, "result": result})),
                Err(refusal) => Answer::refused(id, refusal),
            },
        }
    }

    fn told(&mut self, method: &str, params: &Json) -> Answer {
        let told = match method {
            "exit" => return Answer::End,
            _ if self.phase != Phase::Open => Ok(()),
            "textDocument/didOpen" => self.open(params),
            "textDocument/didChange" => self.change(params),
            "textDocument/didClose" => uri(params).map(|uri| drop(self.documents.remove(uri))),
            _ => Ok(()),
        };
        if let Err(Refusal(_, reason)) = told {
            tracing::debug!("the language server was told {method}: {reason}");
        }
        Answer::Nothing
    }

    fn asked(&mut self, method: &str, params: &Json) -> Result<Json, Refusal> {
        match (method, self.phase) {
            ("initialize", Phase::New) => {
                self.phase = Phase::Open;
                return Ok(capabilities());
            }
            ("initialize", _) => return Err(Refusal(INVALID_REQUEST, "`initialize` is asked once".to_owned())),
            (_, Phase::New) => return Err(Refusal(NOT_INITIALIZED, "`initialize` comes first".to_owned())),
            (_, Phase::Over) => return Err(Refusal(INVALID_REQUEST, "nothing is answered after `shutdown`".to_owned())),
            ("shutdown", _) => {
                self.phase = Phase::Over;
                self.documents.clear();
                return Ok(Json::Null);
            }
            _ => {}
        }
        let graph = match self.app.graph(self.graph_name.as_deref()) {
            Ok(graph) => graph,
            Err(error) => {
                // What was known of it is not that of another one of its name.
                self.names = Names::default();
                return Err(Refusal(REQUEST_FAILED, error.to_string()));
            }
        };
        let options = self.app.procedures.options(&graph, Vec::new());
        match method {
            "textDocument/diagnostic" => Ok(answers::diagnostics(self.document(params)?, &options)),
            "textDocument/semanticTokens/full" => Ok(answers::tokens(self.document(params)?)),
            "textDocument/hover" => {
                let document = self.document(params)?;
                Ok(answers::hover(document, document.offset(position(params)?), &options))
            }
            "textDocument/completion" => {
                let at = self.document(params)?.offset(position(params)?);
                self.names.refresh(&self.app, &graph);
                Ok(answers::completion(self.document(params)?, at, &self.names, &options))
            }
            "quine/queryKind" => Ok(answers::kind(self.document(params)?, &options)),
            other => Err(Refusal(METHOD_NOT_FOUND, format!("there is no method `{other}`"))),
        }
    }

    fn document(&self, params: &Json) -> Result<&Document, Refusal> {
        let uri = uri(params)?;
        self.documents.get(uri).ok_or_else(|| {
            let bytes = self.app.queries.settings.text_bytes_max;
            let reason =
                format!("`{uri}` is not open; at most {DOCUMENTS_MAX} texts of {bytes} bytes (query.text-bytes-max) can be");
            Refusal::params(reason)
        })
    }

    fn open(&mut self, params: &Json) -> Result<(), Refusal> {
        let uri = uri(params)?;
        let text = params["textDocument"]["text"].as_str().ok_or_else(|| Refusal::params("there is no text"))?;
        if self.documents.len() >= DOCUMENTS_MAX && !self.documents.contains_key(uri) {
            return Err(Refusal::params(format!("{DOCUMENTS_MAX} texts are open")));
        }
        self.keep(uri, Document::new(text.to_owned()))
    }

    fn change(&mut self, params: &Json) -> Result<(), Refusal> {
        let uri = uri(params)?;
        let mut document = self.documents.remove(uri).ok_or_else(|| Refusal::params("the text is not open"))?;
        let changes = params["contentChanges"].as_array().ok_or_else(|| Refusal::params("there are no changes"))?;
        if changes.len() > CHANGES_MAX {
            return Err(Refusal::params(format!("more than {CHANGES_MAX} changes at once; send the text")));
        }
        for change in changes {
            let text = change["text"].as_str().ok_or_else(|| Refusal::params("a change has no text"))?;
            match change.get("range").filter(|range| !range.is_null()) {
                None => document = Document::new(text.to_owned()),
                Some(range) => {
                    let place =
                        |end: &str| document::Position::read(&range[end]).ok_or_else(|| Refusal::params("a range is wrong"));
                    document.replace(place("start")?, place("end")?, text);
                }
            }
            // Looked at after each, so that it cannot grow without bound in between.
            if document.text().len() > self.app.queries.settings.text_bytes_max {
                break;
            }
        }
        self.keep(uri, document)
    }

    /// A text that is too long is not kept, and with it none that was changed into it.
    fn keep(&mut self, uri: &str, document: Document) -> Result<(), Refusal> {
        if document.text().len() > self.app.queries.settings.text_bytes_max {
            self.documents.remove(uri);
            return Err(Refusal::params("the text is too long"));
        }
        self.documents.insert(uri.to_owned(), document);
        Ok(())
    }
}

enum Answer {
    Say(Json),
    Nothing,
    End,
}

impl Answer {
    fn refused(id: Json, Refusal(code, message): Refusal) -> Answer {
        Answer::Say(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
    }
}

fn uri(params: &Json) -> Result<&str, Refusal> {
    params["textDocument"]["uri"].as_str().ok_or_else(|| Refusal::params("there is no `textDocument.uri`"))
}

fn position(params: &Json) -> Result<document::Position, Refusal> {
    document::Position::read(&params["position"]).ok_or_else(|| Refusal::params("there is no `position` of line and character"))
}

fn capabilities() -> Json {
    json!({
        "capabilities": {
            "positionEncoding": "utf-16",
            "textDocumentSync": 2,
            "hoverProvider": true,
            "completionProvider": {"triggerCharacters": [".", " "]},
            "diagnosticProvider": {"interFileDependencies": false, "workspaceDiagnostics": false},
            "semanticTokensProvider": {"legend": {"tokenTypes": LEGEND, "tokenModifiers": []}, "full": true, "range": false},
        },
        "serverInfo": {"name": "weir", "version": env!("CARGO_PKG_VERSION")},
    })
}
