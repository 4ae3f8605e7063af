//! Administration: what runs here, how it is set, whether it lives, and its end.

use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json, json};
use warp::http::StatusCode;
use warp::reply::Response;

use super::{Request, blocking, empty, json as json_reply};
use crate::app::App;
use crate::error::ApiError;
use crate::wire::standing::Output;

/// The format of the store, as the reference numbers its own.
const STORE_FORMAT: &str = "1.0.0";

pub async fn build_info(_: Arc<App>, _: Request) -> Result<Response, ApiError> {
    let mut body = json!({"version": crate::VERSION});
    if let Some(commit) = option_env!("WEIR_COMMIT") {
        body["gitCommit"] = commit.into();
    }
    // Clients of the reference service require the field; there is no Java here.
    body["javaVersion"] = "n/a".into();
    body["persistenceWriteVersion"] = STORE_FORMAT.into();
    Ok(json_reply(&body))
}

/// The full form below both product roots, and beside it the summary newer clients read.
pub async fn config(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    let settings = &app.settings;
    let full = &settings.effective;
    Ok(json_reply(&json!({
        "quine": full,
        "service": full,
        "persistor": {"persistorType": settings.store.label(), "isLocal": true},
        "webserver": {
            "address": settings.webserver.address,
            "port": settings.webserver.port,
            "enabled": settings.webserver.enabled,
            "useTls": false,
        },
        "shardCount": full["shard-count"],
        "inMemorySoftNodeLimit": full["in-memory-soft-node-limit"],
        "inMemoryHardNodeLimit": full["in-memory-hard-node-limit"],
        "metricsReporterTypes": [],
        "defaultApiVersion": full["default-api-version"],
    })))
}

pub async fn liveness(_: Arc<App>, _: Request) -> Result<Response, ApiError> {
    Ok(empty(StatusCode::NO_CONTENT))
}

pub async fn readiness(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    match app.not_ready() {
        None => Ok(empty(StatusCode::NO_CONTENT)),
        Some(reason) => Err(ApiError::NotReady(reason.to_owned())),
    }
}

pub async fn shutdown(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    app.stop("POST /api/v1/admin/shutdown");
    Ok(empty(StatusCode::ACCEPTED))
}

pub async fn metadata(app: Arc<App>, _: Request) -> Result<Response, ApiError> {
    let entries = blocking(move || Ok(app.engine.metadata_list("")?)).await?;
    let encoded = entries.into_iter().map(|(key, value)| (key, Json::String(base64(&without_secrets(value)))));
    Ok(json_reply(&Json::Object(encoded.collect::<JsonMap<_, _>>())))
}

/// Definitions of standing queries are stored with the secrets of their outputs; these stay here.
fn without_secrets(stored: Vec<u8>) -> Vec<u8> {
    let Ok(mut definition) = serde_json::from_slice::<Json>(&stored) else { return stored };
    let outputs = definition.pointer_mut("/settings/outputs").and_then(Json::as_object_mut);
    let Some(outputs) = outputs else { return stored };
    for output in outputs.values_mut() {
        *output = Output::decode(output).map_or(Json::Null, |decoded| decoded.to_json());
    }
    definition.to_string().into_bytes()
}

/// Standard alphabet, padded.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let word = chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for digit in 0..4 {
            let shown = digit <= chunk.len();
            text.push(if shown { ALPHABET[(word >> (18 - 6 * digit)) as usize & 63].into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_here() {
        let output = json!({"type": "PostToEndpoint", "url": "http://x/", "headers": {"X-Key": "hush"}});
        let stored = json!({"name": "q", "settings": {"outputs": {"o": output}}}).to_string();
        let shown = String::from_utf8(without_secrets(stored.into_bytes())).expect("text");
        assert!(shown.contains("http://x/") && !shown.contains("hush"), "{shown}");
        assert_eq!(without_secrets(b"\x00\x01".to_vec()), b"\x00\x01");
    }

    #[test]
    fn base64_is_padded() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy"), ("{}", "e30=")];
        for (plain, encoded) in pairs {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
