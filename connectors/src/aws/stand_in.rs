//! A server on loopback that answers for Amazon's as a test says: what the real ones cannot be brought to say when it is wanted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::Value as Json;

use super::access::{Access, AwsCredentials, AwsRegion};
use crate::HostPolicy;
use crate::config::Secret;

/// A request.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// Path and query.
    pub(super) target: String,
    /// The operation, of services that speak JSON.
    pub(super) operation: String,
    pub(super) body: Json,
    /// Which key it is signed with.
    pub(super) key: String,
}

impl Asked {
    /// What is asked for by this name in the query.
    pub(super) fn query(&self, name: &str) -> Option<String> {
        let url = reqwest::Url::parse("http://stand-in/").ok()?.join(&self.target).ok()?;
        url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
    }
}

pub(super) struct StandIn {
    pub(super) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl StandIn {
    /// `answer` gives the status and the body.
    pub(super) fn start<B: Into<Vec<u8>> + 'static>(answer: impl Fn(&Asked) -> (u16, B) + Send + Sync + 'static) -> StandIn {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let (answer, asked) = (Arc::new(answer), Arc::new(Mutex::new(Vec::new())));
        let all = asked.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(mut client) = client else { return };
                let (answer, all) = (answer.clone(), all.clone());
                std::thread::spawn(move || {
                    let Some(asked) = read(&client) else { return };
                    all.lock().unwrap().push(asked.clone());
                    let (status, body) = answer(&asked);
                    let body: Vec<u8> = body.into();
                    let length = body.len();
                    let head = format!("HTTP/1.1 {status} Said\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
                    // Whoever asked may be gone.
                    let _ = client.write_all(&[head.into_bytes(), body].concat());
                });
            }
        });
        StandIn { url, asked }
    }

    pub(super) fn access(&self) -> Access {
        let secret = || Secret::plain("test");
        let credentials = AwsCredentials { access_key_id: secret(), secret_access_key: secret(), session_token: None };
        let region = Some(AwsRegion { region: "us-east-1".to_owned() });
        Access { credentials: Some(credentials), region, endpoint: Some(self.url.clone()), hosts: HostPolicy::default() }
    }

    /// What was asked since this was called the last time.
    pub(super) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    /// The keys of what `asked` gives.
    pub(super) fn keys(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.key).collect()
    }
}

fn read(client: &TcpStream) -> Option<Asked> {
    let (mut from, mut asked, mut length) = (BufReader::new(client), Asked::default(), 0);
    let mut first = String::new();
    from.read_line(&mut first).ok()?;
    asked.target = first.split(' ').nth(1)?.to_owned();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        let Some((name, value)) = line.trim().split_once(": ") else { continue };
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().ok()?,
            "x-amz-target" => asked.operation = value.rsplit('.').next()?.to_owned(),
            "authorization" => {
                if let Some((_, key)) = value.split_once("Credential=") {
                    asked.key = key.split('/').next()?.to_owned();
                }
            }
            _ => {}
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    asked.body = serde_json::from_slice(&body).unwrap_or_default();
    Some(asked)
}
