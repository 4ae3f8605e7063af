//! How often and how soon an output tries again, in definitions: `retryPolicy`, which every destination takes beside the options
//! of its own.

use serde_json::Value as Json;
use weir_connectors::config::from_json;
use weir_connectors::{ConnectorError, DestinationConfig, Retries};

use super::decode::{Fields, Mistakes};
use super::family::Family;
use super::letters::Notation;
use super::v2::names::to_v2;

pub const RETRY_POLICY: &str = "retryPolicy";

/// Out of the definition of a destination.
pub fn read(fields: &Fields<'_>, config: &dyn DestinationConfig, mistakes: &mut Mistakes) -> Option<Retries> {
    let Some(given) = fields.get(RETRY_POLICY) else { return Some(Retries::default()) };
    let read = from_json::<Retries>(given).and_then(|retries| retries.check(config.why_kept()).map(|()| retries));
    match read.map_err(|error| error.within(RETRY_POLICY)) {
        Ok(retries) => Some(retries),
        Err(ConnectorError::Config { field, problem }) => {
            mistakes.at(&format!(".{field}"), problem);
            None
        }
        Err(other) => {
            mistakes.0.push(other.to_string());
            None
        }
    }
}

/// Adds it to the definition of its destination, where something is said.
pub fn write(retries: &Retries, definition: &mut Json, notation: Notation) {
    if *retries == Retries::default() {
        return;
    }
    let written = serde_json::to_value(retries).unwrap_or_default();
    definition[RETRY_POLICY] = match notation {
        Notation::Stored | Notation::Shown(Family::V1) => written,
        Notation::Shown(family) => to_v2(RETRY_POLICY, &written, family).1,
    };
}

#[cfg(test)]
mod tests {
    use serde_json::{Map as JsonMap, json};
    use weir_connectors::DESTINATIONS;

    use super::*;
    use crate::wire::standing::{Output, StandingSettings};
    use crate::wire::v2;

    type Read = Result<Output, Vec<String>>;

    /// In the notations of v1 and v2, of every destination there is.
    fn with(of_v1: &Json, of_v2: &Json) -> Vec<[Read; 2]> {
        let each = DESTINATIONS.iter().map(|row| {
            let mut v1 = (row.sample)();
            let mut v2 = Json::Object(v2::names::fields_to_v2(&v1, &["type"], Family::Current));
            v2["type"] = row.name.into();
            v1[RETRY_POLICY] = of_v1.clone();
            v2[RETRY_POLICY] = of_v2.clone();
            let in_v2 = v2::standing::decode_workflow(&json!({"name": "o", "destinations": [v2]}));
            [Output::decode(&v1), in_v2.map(|(_, mut parts)| parts.remove(0).1)]
        });
        each.collect()
    }

    fn retries(output: &Output) -> Retries {
        let Output::Destination(to) = output.end() else { panic!("a destination") };
        to.retries
    }

    #[test]
    fn every_destination_takes_it_and_shows_and_stores_it() {
        let v1 = json!({"maxTries": 0, "minBackoffMillis": 250, "maxBackoffMillis": 60_000});
        let v2 = json!({"maxTries": 0, "minBackoff": "250ms", "maxBackoff": "1m"});
        let expected = Retries { max_tries: Some(0), min_backoff_millis: Some(250), max_backoff_millis: Some(60_000) };
        for output in with(&v1, &v2).into_iter().flatten() {
            let output = output.expect("it is taken");
            assert_eq!(retries(&output), expected);
            assert_eq!(output.to_json()[RETRY_POLICY], v1, "{}", output.to_json());
            for (family, shown) in [(Family::Current, &v2), (Family::Preview, &v1)] {
                let workflow = v2::standing::workflows(&[("o".to_owned(), output.clone())], family).remove(0);
                assert_eq!(&workflow["destinations"][0][RETRY_POLICY], shown, "{workflow}");
            }
            let again = Output::decode(&output.to_stored_json()).expect("what is stored is read");
            assert_eq!((retries(&again), again.to_stored_json()), (expected, output.to_stored_json()));
        }
        // Where nothing is said of it, nothing is shown.
        for output in with(&json!({}), &Json::Null).into_iter().flatten() {
            let output = output.expect("it is taken");
            assert_eq!((retries(&output), output.to_json().get(RETRY_POLICY)), (Retries::default(), None));
            assert_eq!(v2::standing::destination_json(&output, Family::Current).get(RETRY_POLICY), None);
        }
    }

    #[test]
    fn it_is_that_of_the_destination_behind_a_query_and_of_dead_letters() {
        let policy = json!({"minBackoffMillis": 20});
        let letters = json!({"type": "PostToEndpoint", "url": "http://x/", "retryPolicy": policy});
        let end = json!({"type": "PostToSlack", "hookUrl": "http://x/", "retryPolicy": {"maxTries": 3},
            "onResultError": {"type": "DeadLetter", "destinations": [letters]}});
        let output = json!({"type": "CypherQuery", "query": "RETURN 1", "andThen": end});
        let pattern = json!({"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"});
        let settings = StandingSettings::decode(&json!({"pattern": pattern, "outputs": {"o": output}})).expect("is read");
        let again = StandingSettings::decode(&settings.to_stored_json()).expect("what is stored is read");
        for settings in [settings, again] {
            let output = &settings.outputs[0].1;
            assert_eq!(retries(output), Retries { max_tries: Some(3), ..Retries::default() });
            let Output::Destination(to) = output.end() else { panic!("a destination") };
            let boxes: Vec<Retries> = to.refusals.boxes().iter().map(|letters| letters.retries).collect();
            assert_eq!(boxes, [Retries { min_backoff_millis: Some(20), ..Retries::default() }]);
            let shown = output.to_json()["andThen"]["onResultError"]["destinations"][0][RETRY_POLICY].clone();
            assert_eq!(shown, policy);
        }
    }

    #[test]
    fn what_is_wrong_with_it_is_told_by_the_names_that_were_sent() {
        for (v1, in_v1, v2, in_v2) in [
            (
                json!({"minBackoffMillis": 9}),
                ".retryPolicy.minBackoffMillis: a pause must be at least 10 ms",
                json!({"minBackoff": "9ms"}),
                ".retryPolicy.minBackoff: a pause must be at least 10 ms",
            ),
            (
                json!({"minBackoffMillis": 500, "maxBackoffMillis": 20}),
                ".retryPolicy.maxBackoffMillis: the longest pause is shorter",
                json!({"minBackoff": "500ms", "maxBackoff": "20ms"}),
                ".retryPolicy.maxBackoff: the longest pause is shorter",
            ),
            (
                json!({"minBackoffMillis": "soon"}),
                ".retryPolicy.minBackoffMillis: Int",
                json!({"minBackoff": "soon"}),
                ".retryPolicy.minBackoff: a duration such as 10s",
            ),
            (json!({"maxTries": -1}), ".retryPolicy.maxTries: -1", json!({"maxTries": -1}), ".retryPolicy.maxTries: -1"),
            (json!([]), ".retryPolicy: Got", json!("x"), ".retryPolicy: Got"),
        ] {
            for read in with(&v1, &v2) {
                for (read, told) in read.into_iter().zip([in_v1, in_v2]) {
                    let reasons = read.err().expect("should have been refused");
                    assert!(reasons.len() == 1 && reasons[0].contains(told), "{reasons:?}: {told}");
                }
            }
        }
        // Beside what else is wrong.
        let both = json!({"type": "WriteToFile", "path": "x", "retryPolicy": 5, "onResultError": {"type": "Nope"}});
        assert_eq!(Output::decode(&both).err().map(|reasons| reasons.len()), Some(2));
    }

    /// With the results of a transaction, or those of a moment, what was promised of them would be given up.
    #[test]
    fn what_has_each_result_once_gives_none_up() {
        let kept = |definition: Json| {
            let with = |policy: Json| {
                let mut definition: JsonMap<String, Json> = definition.as_object().cloned().unwrap_or_default();
                definition.insert(RETRY_POLICY.to_owned(), policy);
                Output::decode(&Json::Object(definition))
            };
            let pauses = json!({"minBackoffMillis": 20, "maxBackoffMillis": 30});
            assert!(with(pauses).is_ok() && with(json!({"maxTries": 0})).is_ok(), "{definition}");
            let reasons = with(json!({"maxTries": 3})).err().unwrap_or_default();
            reasons.iter().any(|reason| reason.contains(".retryPolicy.maxTries: ") && reason.contains("; leave it out"))
        };
        assert!(kept(json!({"type": "WriteToFile", "path": "x"})));
        assert!(!kept(json!({"type": "WriteToRedis", "url": "redis://h", "key": "k"})));
        #[cfg(feature = "kafka")]
        for exactly_once in [false, true] {
            let definition =
                json!({"type": "WriteToKafka", "topic": "t", "bootstrapServers": "h:1", "exactlyOnce": exactly_once});
            assert_eq!(kept(definition), exactly_once);
        }
        #[cfg(feature = "aws")]
        assert!(kept(json!({"type": "WriteToS3", "bucket": "lake"})));
    }
}
