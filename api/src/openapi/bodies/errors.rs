//! What is wrong, in the notation of each family.

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// What is wrong, as the preview tells it.
#[derive(JsonSchema)]
pub struct PreviewError {
    #[serde(rename = "type")]
    pub kind: PreviewErrorKind,
    pub message: String,
}

#[derive(JsonSchema)]
pub enum PreviewErrorKind {
    ApiError,
    DecodeError,
    CypherError,
}

/// More about an error: further messages, the kind of a failed query, the number of the request in the log.
#[derive(JsonSchema)]
#[serde(tag = "type")]
pub enum ErrorDetail {
    RequestInfo {
        #[serde(rename = "requestId")]
        request_id: String,
    },
    Help {
        message: String,
    },
    ErrorInfo {
        reason: String,
        domain: String,
        metadata: ErrorMetadata,
    },
}

/// Empty so far.
#[derive(JsonSchema)]
pub struct ErrorMetadata(pub BTreeMap<String, String>);

#[derive(JsonSchema)]
pub struct CurrentError {
    /// The status of the answer.
    pub code: u16,
    pub status: String,
    pub message: String,
    pub details: Vec<ErrorDetail>,
}

/// What is wrong: each generation of v2 finds its own key.
#[derive(JsonSchema)]
pub struct Failure {
    pub errors: Vec<PreviewError>,
    pub error: CurrentError,
}
