//! What is wrong, in the notation of each family.

use std::collections::BTreeMap;

use schemars::JsonSchema;

/// An error, in the form that the preview of v2 has.
#[derive(JsonSchema)]
pub struct PreviewError {
    /// What kind of error it is.
    #[serde(rename = "type")]
    pub kind: PreviewErrorKind,
    /// What is wrong, in words.
    pub message: String,
}

/// The kind of an error.
#[derive(JsonSchema)]
pub enum PreviewErrorKind {
    /// The request could be read, and cannot be fulfilled.
    ApiError,
    /// The body, a parameter or a header could not be read.
    DecodeError,
    /// The query is wrong, or failed as it ran.
    CypherError,
}

/// Further information about an error.
#[derive(JsonSchema)]
#[serde(tag = "type")]
pub enum ErrorDetail {
    /// The request, for an error inside of weir.
    RequestInfo {
        /// The id of the request. The log of weir has it beside the error.
        #[serde(rename = "requestId")]
        request_id: String,
    },
    /// A further message about the same request.
    Help {
        /// What is wrong, in words.
        message: String,
    },
    /// What the error belongs to. There for errors of queries.
    ErrorInfo {
        /// The reason, as a word for programs, such as `CYPHER_ERROR`.
        reason: String,
        /// The domain of the reason.
        domain: String,
        /// Further information about the reason.
        metadata: ErrorMetadata,
    },
}

/// Further information about the reason of an error. Always empty.
#[derive(JsonSchema)]
pub struct ErrorMetadata(pub BTreeMap<String, String>);

/// An error, in the form that current v2 has.
#[derive(JsonSchema)]
pub struct CurrentError {
    /// The HTTP status.
    pub code: u16,
    /// The status as a word, such as `INVALID_ARGUMENT` or `NOT_FOUND`.
    pub status: String,
    /// What is wrong, in words; the first message if there are several.
    pub message: String,
    /// Further messages and information.
    pub details: Vec<ErrorDetail>,
}

/// The body of an error in v2. It has the error in the forms of both generations: `errors` is for clients of the preview, `error`
/// for all others.
#[derive(JsonSchema)]
pub struct Failure {
    /// Everything that is wrong, one entry each.
    pub errors: Vec<PreviewError>,
    /// What is wrong.
    pub error: CurrentError,
}
