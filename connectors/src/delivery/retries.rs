//! How what a destination cannot take at the moment is tried again: as it has it itself, and over that as its output says.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config;
use crate::error::ConnectorError;

/// Shorter pauses are refused: each try that fails is logged.
const BACKOFF_LEAST_MILLIS: u32 = 10;

/// What to do about failures that may pass.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RetryPolicy {
    /// Tries altogether. None: until it works.
    pub tries_max: Option<u32>,
    pub backoff_min: Duration,
    pub backoff_max: Duration,
}

impl Default for RetryPolicy {
    fn default() -> RetryPolicy {
        RetryPolicy { tries_max: None, backoff_min: Duration::from_millis(100), backoff_max: Duration::from_secs(10) }
    }
}

/// How often and how soon a result is tried again that the destination cannot take at the moment. What is not given is as the
/// destination has it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RetryPolicy")]
pub struct Retries {
    /// How often a result is tried altogether; 0: until it works. When not given, 6 for an HTTP endpoint, until it works for all
    /// others. A result that was tried so often is given up, or goes where `onResultError` says; with its types `Fail` and
    /// `Retry`, and for dead letters, it is tried until it works. Refused for files, for S3, and with `exactlyOnce`.
    #[serde(default, deserialize_with = "config::optional_count", skip_serializing_if = "Option::is_none")]
    pub max_tries: Option<u64>,
    /// About how long to wait before the second try; the pause doubles before each further one. At least 10 ms.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = BACKOFF_LEAST_MILLIS))]
    pub min_backoff_millis: Option<u32>,
    /// The longest pause between two tries, unless the server asks for a longer one. At least 10 ms.
    #[serde(default, deserialize_with = "config::optional_positive", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = BACKOFF_LEAST_MILLIS))]
    pub max_backoff_millis: Option<u32>,
}

impl Retries {
    /// `why_kept` is that of the destination.
    pub fn check(&self, why_kept: Option<&str>) -> Result<(), ConnectorError> {
        if let (Some(1..), Some(why)) = (self.max_tries, why_kept) {
            let problem = format!("{why}; leave it out, or give 0, so that it is tried until it works");
            return Err(ConnectorError::config("maxTries", problem));
        }
        let pauses = [("minBackoffMillis", self.min_backoff_millis), ("maxBackoffMillis", self.max_backoff_millis)];
        if let Some((field, _)) = pauses.iter().find(|(_, pause)| pause.is_some_and(|pause| pause < BACKOFF_LEAST_MILLIS)) {
            return Err(ConnectorError::config(field, format!("a pause must be at least {BACKOFF_LEAST_MILLIS} ms")));
        }
        match (self.min_backoff_millis, self.max_backoff_millis) {
            (Some(first), Some(longest)) if longest < first => {
                let problem = "the longest pause is shorter than the first one; give a longer one, or leave it out";
                Err(ConnectorError::config("maxBackoffMillis", problem))
            }
            _ => Ok(()),
        }
    }

    /// What is in force where a destination has `own`. Of its two pauses the one that is not given goes along with the other
    /// where they would cross.
    pub fn over(&self, own: RetryPolicy) -> RetryPolicy {
        let given = |millis: Option<u32>| millis.map(|millis| Duration::from_millis(millis.into()));
        let (first, longest) = (given(self.min_backoff_millis), given(self.max_backoff_millis));
        RetryPolicy {
            tries_max: match self.max_tries {
                None => own.tries_max,
                Some(0) => None,
                Some(tries) => Some(u32::try_from(tries).unwrap_or(u32::MAX)),
            },
            backoff_min: first.unwrap_or_else(|| longest.map_or(own.backoff_min, |longest| own.backoff_min.min(longest))),
            backoff_max: longest.unwrap_or_else(|| first.map_or(own.backoff_max, |first| own.backoff_max.max(first))),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn read(given: Json) -> Result<Retries, ConnectorError> {
        config::from_json::<Retries>(&given).and_then(|retries| retries.check(None).map(|()| retries))
    }

    #[test]
    fn what_an_output_says_goes_over_what_its_destination_has() {
        let policy = |tries_max, first, longest| {
            let (backoff_min, backoff_max) = (Duration::from_millis(first), Duration::from_millis(longest));
            RetryPolicy { tries_max, backoff_min, backoff_max }
        };
        let own = policy(Some(6), 100, 2000);
        for (given, expected) in [
            (json!({}), own),
            (json!({"maxTries": null, "minBackoffMillis": null}), own),
            (json!({"maxTries": 2}), policy(Some(2), 100, 2000)),
            (json!({"maxTries": "3"}), policy(Some(3), 100, 2000)),
            (json!({"maxTries": 0}), policy(None, 100, 2000)),
            (json!({"maxTries": 1u64 << 40}), policy(Some(u32::MAX), 100, 2000)),
            (json!({"minBackoffMillis": 4000}), policy(Some(6), 4000, 4000)),
            (json!({"maxBackoffMillis": 50}), policy(Some(6), 50, 50)),
            (json!({"maxBackoffMillis": 500}), policy(Some(6), 100, 500)),
            (json!({"maxTries": 1, "minBackoffMillis": 10, "maxBackoffMillis": 10}), policy(Some(1), 10, 10)),
        ] {
            assert_eq!(read(given.clone()).unwrap().over(own), expected, "{given}");
        }
        // Where there is no most, one can be given.
        assert_eq!(read(json!({"maxTries": 2})).unwrap().over(RetryPolicy::default()).tries_max, Some(2));
    }

    #[test]
    fn what_cannot_be_is_refused_with_its_field() {
        for (given, field) in [
            (json!({"maxTries": -1}), "maxTries"),
            (json!({"maxTries": 1.5}), "maxTries"),
            (json!({"minBackoffMillis": 9}), "minBackoffMillis"),
            (json!({"minBackoffMillis": 0}), "minBackoffMillis"),
            (json!({"maxBackoffMillis": 9}), "maxBackoffMillis"),
            (json!({"minBackoffMillis": 500, "maxBackoffMillis": 499}), "maxBackoffMillis"),
            (json!(5), ""),
        ] {
            let refused = read(given.clone()).unwrap_err();
            assert!(matches!(&refused, ConnectorError::Config { field: f, .. } if f == field), "{given}: {refused}");
        }
    }

    #[test]
    fn where_all_is_kept_there_is_no_most() {
        let retries = |max_tries| Retries { max_tries, min_backoff_millis: Some(20), max_backoff_millis: Some(30) };
        assert!(retries(None).check(Some("why")).is_ok() && retries(Some(0)).check(Some("why")).is_ok());
        let refused = retries(Some(3)).check(Some("each counts")).unwrap_err().to_string();
        assert!(refused.contains("maxTries") && refused.contains("each counts; leave it out"), "{refused}");
    }
}
