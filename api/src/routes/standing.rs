//! Standing queries over HTTP.

use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value as Json, json};
use warp::http::StatusCode;
use weir_connectors::{Encoder, Envelope, Generation};
use weir_cypher_compiler::{Drawn, draw_standing};
use weir_model::Place;

use super::reply::{Reply, blocking, document};
use super::request::Request;
use crate::app::App;
use crate::error::{ApiError, INVALID, plain};
use crate::events;
use crate::openapi::unknown;
use crate::standing::{Follower, Query};
use crate::why::{self, Asked};
use crate::wire::family::{Family, pascal};
use crate::wire::standing::{Output, StandingSettings};
use crate::wire::v2;

const WHAT: &str = "standing query";

/// What the documents call an output of v2.
const WORKFLOW: &str = "Workflow";

pub async fn list(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let graph = request.graph(&app)?;
    Ok(Reply::Items(app.standing.list(&graph).iter().map(|query| query.to_json(request.family)).collect()))
}

pub async fn create(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let graph = request.graph(&app)?;
    let settings = StandingSettings::decode(&request.data()?).map_err(ApiError::Decode)?;
    blocking(move || app.standing.create(&graph, request.name(0), settings, false)).await?;
    Ok(Reply::Empty(StatusCode::CREATED))
}

/// v2: the name stands in the body, what the results are summed up to in the query. As of today, what matches already is
/// reported at once, unless that is not wanted.
pub async fn create_named(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let family = request.family;
    let graph = request.graph(&app)?;
    let mut mistakes = Vec::new();
    let hashed = request.boolean(&["shouldCalculateResultHashCode"], &mut mistakes);
    let propagate =
        request.parsed(&["propagateTo"], "one of NONE, EXCLUDE_SLEEPING, INCLUDE_SLEEPING", &mut mistakes, |text| match pascal(
            text,
        )
        .as_str()
        {
            "None" => Some(false),
            "ExcludeSleeping" | "IncludeSleeping" => Some(true),
            _ => None,
        });
    parallelism(&request, &mut mistakes);
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let body = request.data()?;
    let decoded = v2::standing::decode(&body).and_then(|(name, settings)| {
        let wrong = request.no_names(once(name.as_str()).chain(settings.workflows()));
        if wrong.is_empty() { Ok((name, settings)) } else { Err(wrong) }
    });
    let (name, mut settings) = match decoded {
        Ok(decoded) => decoded,
        Err(mistakes) => {
            let rest = move || Err(app.standing.with_the_rest(mistakes, &graph, &[], v2::standing::readable(&body)));
            return blocking(rest).await;
        }
    };
    let mut warnings = unknown::warnings("NamedStandingBody", &body);
    settings.hash_results = hashed.unwrap_or(false);
    let asked = propagate.unwrap_or(family == Family::Current);
    let (query, doubts) = blocking(move || app.standing.create(&graph, &name, settings, asked)).await?;
    warnings.extend(doubts);
    Ok(Reply::Created(query.to_json(family), warnings))
}

pub async fn get(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    Ok(Reply::Value(find(&app, &request)?.to_json(request.family)))
}

/// Answers with the query as it was before.
pub async fn delete(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = match find(&app, &request) {
        Ok(query) => query,
        // It may be there, and not have been restored.
        Err(absent) => {
            let (name, graph, family) =
                (request.resource(0, "standingQueryName")?.to_owned(), request.graph(&app)?, request.family);
            let delete = move || app.standing.delete_unrestored(&graph, &name, family)?.map(Reply::Value).ok_or(absent);
            return blocking(delete).await;
        }
    };
    blocking(move || {
        let before = query.to_json(request.family);
        let deleted = app.standing.delete(&query)?;
        if deleted { Ok(Reply::Value(before)) } else { Err(ApiError::absent(WHAT, &query.name)) }
    })
    .await
}

/// Another pattern for a running query. Answers with the query when it has taken over.
pub async fn replace(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = find(&app, &request)?;
    let body = request.data()?;
    let decoded = StandingSettings::decode_replacement(&body);
    let warnings = if request.family.is_v2() { unknown::warnings("StandingReplacement", &body) } else { Vec::new() };
    blocking(move || {
        let (pattern, cancellations) = match decoded {
            Ok(decoded) => decoded,
            Err(mistakes) if request.family == Family::V1 => return Err(ApiError::Decode(mistakes)),
            Err(mistakes) => {
                let rest = (v2::standing::readable(&body).0, Vec::new());
                return Err(app.standing.with_the_rest_for(&query, mistakes, None, rest));
            }
        };
        app.standing.replace(&query, pattern, cancellations)?;
        Ok(Reply::Changed(query.to_json(request.family), warnings))
    })
    .await
}

/// Answers with the query as it is then.
pub async fn pause(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = find(&app, &request)?;
    blocking(move || app.standing.pause(&query).map(|()| Reply::Value(query.to_json(request.family)))).await
}

pub async fn resume(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = find(&app, &request)?;
    blocking(move || app.standing.resume(&query).map(|()| Reply::Value(query.to_json(request.family)))).await
}

pub async fn add_output(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = find(&app, &request)?;
    let output = Output::decode(&request.data()?).map_err(ApiError::Decode)?;
    blocking(move || app.standing.add_outputs(&query, vec![(request.name(1).to_owned(), output)])).await?;
    Ok(Reply::Empty(StatusCode::CREATED))
}

/// v2: the name stands in the body; a query that is not there is a mistake of the request.
pub async fn add_workflow(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let query = match find(&app, &request) {
        Err(ApiError::Absent(reason)) if request.graph(&app).is_ok() => return Err(ApiError::bad(reason)),
        found => found?,
    };
    let body = request.data()?;
    let warnings = unknown::warnings(WORKFLOW, &body);
    let decoded = v2::standing::decode_workflow(&body).and_then(|(name, outputs)| {
        let wrong = request.no_names(once(name.as_str()));
        if wrong.is_empty() { Ok(outputs) } else { Err(wrong) }
    });
    blocking(move || match decoded {
        Ok(outputs) => app.standing.add_outputs(&query, outputs),
        Err(mistakes) => {
            let rest = (None, v2::standing::readable_workflow(&body));
            Err(app.standing.with_the_rest_for(&query, mistakes, None, rest))
        }
    })
    .await?;
    Ok(Reply::Added(warnings))
}

/// Another definition for an output, which goes on where it stood. Answers with it.
pub async fn change_output(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let (family, name) = (request.family, request.resource(1, "outputName")?.to_owned());
    let query = find(&app, &request)?;
    let mut body = request.data()?;
    let warnings = if family.is_v2() { unknown::warnings(WORKFLOW, &body) } else { Vec::new() };
    let new = match family {
        Family::V1 => vec![(name.clone(), Output::decode(&body).map_err(ApiError::Decode)?)],
        _ => {
            if let Some(fields) = body.as_object_mut() {
                fields.entry("name").or_insert_with(|| name.clone().into());
            }
            let (named, outputs) = match v2::standing::decode_workflow(&body) {
                Ok(decoded) => decoded,
                Err(mistakes) => {
                    let wrong = move || {
                        let rest = (None, v2::standing::readable_workflow(&body));
                        Err(app.standing.with_the_rest_for(&query, mistakes, Some(&name), rest))
                    };
                    return blocking(wrong).await;
                }
            };
            if named != name {
                return Err(ApiError::Decode(vec![format!("the output is '{name}' in the path and '{named}' in the body")]));
            }
            outputs
        }
    };
    let changed = blocking({
        let (name, new) = (name.clone(), new.clone());
        move || app.standing.change_output(&query, &name, new)
    });
    if !changed.await? {
        return Err(ApiError::absent("output", &name));
    }
    Ok(match family {
        Family::V1 => Reply::Value(new[0].1.to_json()),
        _ => Reply::Changed(v2::standing::workflows(&new, family).pop().unwrap_or_default(), warnings),
    })
}

/// Answers with the output as it was.
pub async fn remove_output(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let (family, name) = (request.family, request.resource(1, "outputName")?.to_owned());
    let query = find(&app, &request)?;
    let removed = blocking({
        let name = name.clone();
        move || app.standing.remove_output(&query, &name)
    });
    let removed = removed.await?;
    let absent = || ApiError::absent("output", &name);
    Ok(Reply::Value(match family {
        Family::V1 => removed.first().ok_or_else(absent)?.1.to_json(),
        _ => v2::standing::workflows(&removed, family).pop().ok_or_else(absent)?,
    }))
}

/// Reports what matched when a query was created. Nothing sleeps here, so `include-sleeping` changes nothing.
pub async fn propagate(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let mut mistakes = Vec::new();
    request.boolean(&["include-sleeping", "includeSleeping"], &mut mistakes);
    parallelism(&request, &mut mistakes);
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let graph = request.graph(&app)?;
    blocking(move || app.standing.propagate(&graph)).await?;
    Ok(Reply::Accepted)
}

fn parallelism(request: &Request, mistakes: &mut Vec<String>) {
    let count = request.integer(&["wake-up-parallelism", "wakeUpParallelism"], mistakes);
    if count.is_some_and(|count| count < 1) {
        let name = if request.family == Family::Current { "wakeUpParallelism" } else { "wake-up-parallelism" };
        mistakes.push(match request.family {
            Family::V1 => format!("{name} must be at least 1"),
            _ => format!("{INVALID}query parameter {name} (must be at least 1)"),
        });
    }
}

/// Why the query has a result, or has none.
pub async fn why(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let common = request.common(&app)?;
    let query = find(&app, &request)?;
    let asked = Asked::decode(&request.data()?).map_err(ApiError::Decode)?;
    let answer = blocking(move || why::why(&query, (&common.graph, &app.ingests), &asked, common.at, request.family));
    Ok(Reply::Value(answer.await?))
}

/// The dataflow of a query: as data, as text, or as a drawing in Mermaid.
pub async fn plan(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let mut mistakes = Vec::new();
    let formats = "one of json, text, mermaid";
    let known = |text: &str| ["json", "text", "mermaid"].into_iter().find(|format| text.eq_ignore_ascii_case(format));
    let format = request.parsed(&["format"], formats, &mut mistakes, known).unwrap_or("json");
    if !mistakes.is_empty() {
        return Err(ApiError::Decode(mistakes));
    }
    let query = find(&app, &request)?;
    let drawn = blocking(move || Ok(draw_standing(&query.compiled()?))).await?;
    Ok(match format {
        "text" => Reply::Whole(document("text/plain; charset=utf-8", drawn.text(), Duration::ZERO)),
        "mermaid" => Reply::Whole(document("text/vnd.mermaid; charset=utf-8", drawn.mermaid(), Duration::ZERO)),
        _ => Reply::Value(plan_json(&drawn)),
    })
}

pub fn plan_json(drawn: &Drawn) -> Json {
    json!({"title": drawn.title, "details": drawn.details, "inputs": drawn.inputs.iter().map(plan_json).collect::<Vec<_>>()})
}

/// What one asks who follows a query.
pub struct Following {
    since: Option<Place>,
    with_tick: bool,
    family: Family,
}

impl Following {
    /// A browser that comes back says so in a header; its address is still that of the beginning.
    pub fn of(request: &Request) -> Result<Following, ApiError> {
        let mut mistakes = Vec::new();
        let since = request.parsed(&["since"], "id of a result", &mut mistakes, Place::parse);
        let with_tick = request.boolean(&["with-tick", "withTick"], &mut mistakes).unwrap_or(false);
        let last = request.headers.get("last-event-id").and_then(|given| given.to_str().ok()).filter(|given| !given.is_empty());
        let last = last.map(|given| Place::parse(given).ok_or_else(|| format!("Last-Event-ID '{given}' is no id of a result")));
        let last = last.transpose().unwrap_or_else(|mistake| {
            mistakes.push(mistake);
            None
        });
        if !mistakes.is_empty() {
            return Err(ApiError::Decode(mistakes));
        }
        Ok(Following { since: last.or(since), with_tick, family: request.family })
    }

    pub async fn begin(self, query: Arc<Query>) -> Result<(Follower, Encoder), ApiError> {
        let envelope = if self.with_tick { Envelope::WithTick } else { Envelope::WithMetadata };
        let generation = if self.family.is_v2() { Generation::V2 } else { Generation::V1 };
        let encoder = Encoder { envelope, generation, ids: query.ids() };
        let follower = blocking(move || query.follow(self.since)).await?;
        Ok((follower, encoder))
    }
}

/// Results from now on, or from behind one that the client has had, as server-sent events.
pub async fn results(app: Arc<App>, request: Request) -> Result<Reply, ApiError> {
    let following = Following::of(&request)?;
    match find(&app, &request) {
        Ok(query) => {
            let (follower, encoder) = following.begin(query).await?;
            Ok(Reply::Whole(events::following(events::follow(follower, encoder), request.caller.lease())))
        }
        Err(error) if request.family != Family::V1 => Err(error),
        Err(ApiError::Absent(_)) => {
            Ok(Reply::Whole(plain(StatusCode::BAD_REQUEST, "No Standing Query with the provided name was found")))
        }
        Err(error) => Err(error),
    }
}

pub fn find(app: &App, request: &Request) -> Result<Arc<Query>, ApiError> {
    let name = request.resource(0, "standingQueryName")?;
    app.standing.get(&request.graph(app)?, name).ok_or_else(|| ApiError::absent(WHAT, name))
}
