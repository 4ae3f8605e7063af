//! The OpenAPI documents, one a family: every row of the table of routes, with the schemas of what it takes and answers.
//!
//!     table of routes ─ handler ─> operations ─ types ─> schemas ─ spelt by family ─> document
//!
//! What follows from the row itself (its path, the statuses of bodies, names and limits of time) is not said again.

pub mod bodies;
pub mod why;
mod definitions;
mod operations;
mod parameters;
mod schemas;
pub mod unknown;

use std::collections::HashSet;

use serde_json::{Map as JsonMap, Value as Json, json};
use weir_connectors::body::{CONTENT_TYPES, Cut};

use self::bodies::{Accepted, Failure};
use self::operations::{GROUPS, Operation, Shape, of_handler};
use self::schemas::{Schemas, of};
use crate::auth::rights::RIGHTS;
use crate::auth::{AuthSettings, Permission};
use crate::routes::{ROUTES, Route, Takes};
use crate::wire::family::Family;

pub const PAGE: &str = include_str!("page.html");

/// What is said of weir, and of each family. The page shows it as plain text.
const ABOUT: &str = "weir is a streaming property graph. Ingest streams run a Cypher query on each record that arrives, and \
                     standing queries report every match as it appears. A graph is also called a namespace. Bodies are JSON, or \
                     YAML where that is listed. While weir starts or stops any request may be answered with 503 and the header \
                     Retry-After, and at other times those that list 503; send it again then.";
const OF_V1: &str = "This is version 1: an answer is the bare value, durations are milliseconds, and an error is a list of \
                     texts. New programs should use version 2.";
const OF_PREVIEW: &str = "This is the preview of version 2: an answer is an object with the value in content, and warnings. New \
                          programs should use version 2 itself, which names the graph in the path.";
const OF_CURRENT: &str = "This is version 2: durations are texts such as 1m30s, times are texts such as \
                          2026-03-01T10:00:00Z, and lists of resources are objects with items.";

/// The document of a family, where there are no logins. `server`: where clients find weir; without it nothing is said of that.
pub fn document(family: Family, server: Option<&str>) -> Json {
    document_of(family, server, None)
}

/// As `document`, for a weir with these logins.
pub fn document_of(family: Family, server: Option<&str>, auth: Option<&AuthSettings>) -> Json {
    let mut schemas = Schemas::new(family);
    let mut paths = JsonMap::new();
    let mut ids = HashSet::new();
    // A path that is a web socket as well is described as what it is to everyone else.
    let shared = |route: &Route| {
        let other = |other: &&Route| other.path == route.path && other.method == route.method && !other.is_socket();
        route.is_socket() && ROUTES.iter().any(|route| other(&route))
    };
    for route in ROUTES.iter().filter(|route| route.family() == family && !shared(route)) {
        let Some(operation) = of_handler(route.name, family) else { continue };
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        let mut shown = described(route, operation, &mut schemas, &mut ids);
        if auth.is_some() {
            guard(route, &mut shown, &mut schemas);
        }
        path[route.method.as_str().to_ascii_lowercase()] = shown;
    }
    let (version, family_name, conventions) = match family {
        Family::V1 => ("3.0.3", "v1", OF_V1),
        Family::Preview => ("3.1.0", "v2, the preview in kebab-case", OF_PREVIEW),
        Family::Current => ("3.1.0", "v2", OF_CURRENT),
    };
    let used: HashSet<&str> = paths
        .values()
        .filter_map(Json::as_object)
        .flat_map(|path| path.values().filter_map(|operation| operation["tags"][0].as_str()))
        .collect();
    let tags: Vec<Json> = GROUPS
        .iter()
        .filter(|(name, _)| used.contains(name))
        .map(|(name, about)| json!({"name": name, "description": about}))
        .collect();
    let mut document = json!({
        "openapi": version,
        "info": {
            "title": format!("weir, {family_name}"),
            "version": crate::VERSION,
            "description": format!("{ABOUT} {conventions}"),
            "license": {"name": "Apache-2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "tags": tags,
        "paths": paths,
        "components": {"schemas": schemas.finish()},
    });
    if let Some(server) = server {
        document["servers"] = json!([{"url": server}]);
    }
    if let Some(auth) = auth {
        let (schemes, ways) = credentials(auth);
        document["components"]["securitySchemes"] = schemes;
        document["security"] = ways;
    }
    document
}

/// The ways to say who asks, of which a request needs one.
fn credentials(auth: &AuthSettings) -> (Json, Json) {
    let (mut schemes, mut ways) = (JsonMap::new(), Vec::new());
    if auth.audience.is_some() {
        let about = format!("A token of {}, signed, for the audience that weir is set up for.", auth.issuer);
        schemes.insert(
            "bearer".to_owned(),
            json!({"type": "http", "scheme": "bearer", "bearerFormat": "JWT", "description": about}),
        );
        ways.push(json!({"bearer": []}));
    }
    if auth.client.is_some() {
        let about = "The session of a browser, which `/api/v2/auth/login` leads to. Over TLS the name begins with `__Host-`.";
        schemes.insert(
            "session".to_owned(),
            json!({"type": "apiKey", "in": "cookie", "name": "weir_session", "description": about}),
        );
        ways.push(json!({"session": []}));
    }
    (Json::Object(schemes), Json::Array(ways))
}

/// What is answered to those whom nobody knows, or who may not.
fn guard(route: &Route, shown: &mut Json, schemas: &mut Schemas) {
    if route.permission == Permission::Open {
        shown["security"] = json!([]);
        return;
    }
    let mut add = |status: &str, text: &str| {
        if let Some(answers) = shown["responses"].as_object_mut() {
            answers.entry(status).or_insert_with(|| failure(text, Wrong::Family, schemas));
        }
    };
    add("401", "There is no credential, or one that does not hold. The body says why.");
    let about = RIGHTS.iter().find(|right| right.permission == route.permission).map(|right| format!(" ({})", right.about));
    let (needed, about) = (route.permission.name(), about.unwrap_or_default());
    add("403", &format!("The permission `{needed}`{about} is needed. The body says so."));
    add("503", "The provider of logins cannot be asked for its keys. `Retry-After` says in how many seconds to ask again.");
}

fn described(route: &Route, operation: Operation, schemas: &mut Schemas, ids: &mut HashSet<String>) -> Json {
    let family = schemas.family;
    let mut id = operation.id.to_owned();
    if !ids.insert(id.clone()) {
        // The same handler once more: the last words of its path tell them apart.
        let words = route.path.split(['/', '{', '}', ':', '.']).filter(|word| !matches!(*word, "" | "api" | "v1" | "v2"));
        id = format!("{id}-{}-{}", route.method.as_str().to_ascii_lowercase(), words.collect::<Vec<_>>().join("-"));
        ids.insert(id.clone());
    }
    let mut shown = json!({"operationId": id, "tags": [operation.group], "summary": operation.title});
    if operation.deprecated {
        shown["deprecated"] = true.into();
    }
    if !operation.about.is_empty() {
        shown["description"] = operation.about.into();
    }
    let in_path: Vec<&str> =
        route.path.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect();
    let mut all: Vec<Json> = in_path.iter().map(|name| parameters::in_path(name, route.name)).collect();
    all.extend(operation.parameters.iter().filter_map(|parameter| parameter.shown(family)));
    if operation.of_graph && !in_path.contains(&"graphName") {
        all.extend(parameters::NAMESPACE.shown(family));
    }
    if !all.is_empty() {
        shown["parameters"] = spelt(Json::Array(all.clone()), family);
    }
    if let Some(body) = operation.body {
        let schema = spelt(body(schemas), family);
        let mut content = json!({"application/json": {"schema": schema}, "application/yaml": {"schema": schema}});
        if let Some(example) = &operation.example {
            for kind in ["application/json", "application/yaml"] {
                content[kind]["example"] = example.clone();
            }
        }
        if route.takes == Takes::Query {
            let text = operation.example.as_ref().and_then(|example| example["text"].as_str());
            let example = text.unwrap_or(match route.name {
                "transfer::import" => IMPORTED,
                "transfer::back_up_since" => NO_BACKUP,
                _ if operation.deprecated => "g.V().limit(10)",
                _ => "MATCH (n) RETURN n LIMIT 10",
            });
            content["text/plain"] = json!({"schema": {"type": "string"}, "example": example});
        }
        if route.takes == Takes::Records {
            content = records();
        }
        shown["requestBody"] = json!({"required": true, "content": content});
    }
    let mut answers = JsonMap::new();
    for (status, shape) in &operation.answers {
        let mut described = answer(*status, *shape, schemas);
        for content in operation.texts {
            described["content"][*content] = json!({"schema": {"type": "string"}});
        }
        answers.insert(status.to_string(), described);
    }
    let readiness = operation.id == "get-readiness";
    for (status, text, error) in failures(route, !all.is_empty(), operation.answers.is_empty(), readiness) {
        answers.entry(status.to_string()).or_insert_with(|| failure(text, error, schemas));
    }
    shown["responses"] = answers.into();
    shown["x-weir-permission"] = route.permission.name().into();
    shown
}

/// Where a backup would end that is of nothing: any other is of one store alone.
const NO_BACKUP: &str = "0.0.0";

/// A node, as an export has it.
const IMPORTED: &str = r#"{"type": "node", "id": "00000000-0000-0000-0000-000000000001", "labels": ["Person"], "properties": {"name": "Ann"}}
"#;

/// Records as they may come.
fn records() -> Json {
    let described = |name: &str, cut: Cut| match cut {
        Cut::Json => {
            let about = "A list, each element of which is a record, or a single record.";
            json!({"schema": {"description": about}, "example": [{"id": 1}, {"id": 2}]})
        }
        Cut::Lines => {
            let about = "Records, one per line. Empty lines are ignored.";
            json!({"schema": {"type": "string", "description": about}, "example": "{\"id\": 1}\n{\"id\": 2}\n"})
        }
        Cut::Whole => {
            let about = format!("A single record: the whole body, in {name}.");
            json!({"schema": {"type": "string", "format": "binary", "description": about}})
        }
    };
    CONTENT_TYPES.iter().map(|(name, cut)| ((*name).to_owned(), described(name, *cut))).collect::<JsonMap<_, _>>().into()
}

/// What the body of an error is.
#[derive(Clone, Copy, PartialEq)]
enum Wrong {
    /// As the family has it.
    Family,
    /// Plain text in every family.
    Text,
    /// As the family has it, or plain text.
    Either,
    /// Nothing in v1, as the family has it in v2.
    Absent,
}

/// The errors that follow from what a route takes.
fn failures(route: &Route, parameters: bool, only_absent: bool, readiness: bool) -> Vec<(u16, &'static str, Wrong)> {
    let mut all = Vec::new();
    if only_absent {
        return vec![(404, "This is not part of weir. The body says so.", Wrong::Absent)];
    }
    // Only who listens to results is told in words that they are not there, and as of a wrong request: so clients of v1 know it.
    let in_words = route.name == "standing::results" && route.family() == Family::V1;
    if route.is_socket() {
        all.push((400, "The request is not a web socket handshake, or a parameter cannot be read.", Wrong::Either));
    } else if parameters || route.takes != Takes::Nothing {
        let wrong = if in_words { Wrong::Either } else { Wrong::Family };
        all.push((400, "The request is not valid or cannot be fulfilled. The body says why.", wrong));
    }
    if parameters && !in_words {
        all.push((404, "The graph, or another resource that the request names, does not exist.", Wrong::Absent));
    }
    if ["standing::results", "sockets::results", "sockets::tap"].contains(&route.name) {
        let gone = "Some results after the given id are no longer kept. The body says from where on there are results.";
        all.push((410, gone, Wrong::Family));
    }
    if !route.gives.is_empty() && !route.is_socket() {
        all.push((406, "The header `Accept` allows none of the types that this route can answer with.", Wrong::Text));
    }
    if route.takes != Takes::Nothing {
        all.push((408, "The body of the request did not arrive in time.", Wrong::Text));
        let too_large = match route.takes {
            Takes::Data => "The body is larger than 4 MiB, or than the setting `webserver.body-bytes-max`.",
            _ => "The body is larger than the setting `webserver.body-bytes-max` (64 MiB).",
        };
        all.push((413, too_large, Wrong::Text));
        all.push((415, "The `Content-Type` or `Content-Encoding` of the body is not supported.", Wrong::Text));
    }
    all.push((500, "The request failed inside of weir, or took longer than its limit. The body says why.", Wrong::Family));
    if route.takes == Takes::Records {
        all.push((
            503,
            "The graph is behind, or the stream is paused. Send the request again after `Retry-After`, with the same \
             `Idempotency-Key` if it has one: it may have had its effect.",
            Wrong::Family,
        ));
    }
    if route.name == "algorithms::save" {
        let taken = "Walks are being saved to as many files as may be at a time. Send the request again after `Retry-After`.";
        all.push((503, taken, Wrong::Family));
    }
    // A namespace is deleted with its standing queries.
    if route.permission == Permission::StandingWrite || route.name == "namespaces::delete" {
        all.push((
            503,
            "Another request was still changing a standing query that this one concerns after 30 seconds. The body says what is \
             done with it. Send the request again after `Retry-After`.",
            Wrong::Family,
        ));
    }
    if route.name.starts_with("auth::") && route.name != "auth::roles" {
        all.push((403, "Who asks may not do that. The body says why.", Wrong::Family));
        all.push((404, "There are no logins here. The body says so.", Wrong::Family));
        all.push((503, "The provider cannot be asked. `Retry-After` says in how many seconds to ask again.", Wrong::Family));
    }
    if readiness {
        all.push((503, "weir is not ready. `Retry-After` says in how many seconds to ask again.", Wrong::Absent));
    }
    all
}

fn failure(text: &str, wrong: Wrong, schemas: &mut Schemas) -> Json {
    let v1 = schemas.family == Family::V1;
    let of_family = |schemas: &mut Schemas| match v1 {
        true => json!({"type": "array", "items": {"type": "string"}}),
        false => of::<Failure>(schemas),
    };
    let content = match wrong {
        Wrong::Text => json!({"text/plain": {"schema": {"type": "string"}}}),
        Wrong::Absent if v1 => return json!({"description": text}),
        Wrong::Either => {
            json!({"application/json": {"schema": of_family(schemas)}, "text/plain": {"schema": {"type": "string"}}})
        }
        _ => json!({"application/json": {"schema": of_family(schemas)}}),
    };
    json!({"description": text, "content": content})
}

fn answer(status: u16, shape: Shape, schemas: &mut Schemas) -> Json {
    let family = schemas.family;
    let text = match status {
        101 => "The connection is a web socket from now on.",
        201 => "The resource was created.",
        202 => "The request was accepted. What it asks for goes on in the background.",
        204 => "Success, without a body.",
        302 => "The browser is sent on.",
        _ => "Success.",
    };
    let warnings = json!({"type": "array", "items": {"type": "string"},
        "description": "What the sender of the request should know, such as fields that are not known. Mostly empty."});
    let envelope = |content: Json| {
        json!({"type": "object", "required": ["content", "warnings"], "properties": {
            "content": content,
            "message": {"type": "string", "description": "A message for people."},
            "warnings": warnings,
        }})
    };
    let items = |item: Json| json!({"type": "array", "items": item});
    let schema = match shape {
        Shape::Empty => None,
        Shape::Accepted if family == Family::Preview => Some(of::<Accepted>(schemas)),
        Shape::Accepted => None,
        Shape::Text(content) => {
            return json!({"description": text, "content": {content: {"schema": {"type": "string"}}}});
        }
        Shape::Value(of) if family == Family::Preview => Some(envelope(of(schemas))),
        Shape::Value(of) => Some(of(schemas)),
        Shape::Items(of) => Some(match family {
            Family::V1 => items(of(schemas)),
            Family::Preview => envelope(items(of(schemas))),
            Family::Current => {
                let list = items(of(schemas));
                json!({"type": "object", "required": ["items"], "properties": {
                    "items": list,
                    "nextPageToken": {"type": "string", "description": "Never there: a list is answered as a whole."},
                    "content": list,
                    "warnings": warnings,
                }})
            }
        }),
        Shape::Created(of) => Some(match family {
            Family::V1 => of(schemas),
            Family::Preview => envelope(of(schemas)),
            Family::Current => {
                let of = of(schemas);
                json!({"allOf": [of, {"type": "object", "properties": {
                    "content": of,
                    "warnings": warnings,
                }}]})
            }
        }),
    };
    match schema {
        None => json!({"description": text}),
        Some(schema) => json!({"description": text, "content": {"application/json": {"schema": spelt(schema, family)}}}),
    }
}

fn spelt(mut schema: Json, family: Family) -> Json {
    // Behind a key, so that a schema that is nothing but `true` is one in the older dialect too.
    if schema == json!(true) && family == Family::V1 {
        return json!({});
    }
    schemas::spell(&mut schema, family);
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::Method;

    const FAMILIES: [Family; 3] = [Family::V1, Family::Preview, Family::Current];

    #[test]
    fn every_route_is_described() {
        for family in FAMILIES {
            let document = document(family, None);
            for route in ROUTES.iter().filter(|route| route.family() == family) {
                let method = route.method.as_str().to_ascii_lowercase();
                let operation = &document["paths"][route.path][&method];
                assert!(operation.is_object(), "{method} {} ({}) is not described", route.path, route.name);
                let answers = operation["responses"].as_object().expect("answers");
                assert!(
                    answers.keys().any(|status| route.name == "admin::not_enabled" || !status.starts_with(['4', '5'])),
                    "{}",
                    route.path
                );
                assert_eq!(operation.get("requestBody").is_some(), route.takes != Takes::Nothing, "{} {}", method, route.path);
                assert!(!operation["summary"].as_str().unwrap_or_default().is_empty());
            }
        }
    }

    #[test]
    fn where_there_are_logins_every_operation_says_what_it_needs() {
        let auth = AuthSettings {
            issuer: "https://login.example".to_owned(),
            client: None,
            audience: Some("weir".to_owned()),
            scopes: Vec::new(),
            roles_claim: "roles".to_owned(),
            session_lifetime: std::time::Duration::from_secs(1),
            sessions_max: 1,
            plain_http: false,
        };
        for family in FAMILIES {
            let (with, without) = (document_of(family, None, Some(&auth)), document(family, None));
            assert_eq!(with["security"], json!([{"bearer": []}]));
            assert_eq!(with["components"]["securitySchemes"]["bearer"]["scheme"], "bearer");
            assert!(without.get("security").is_none() && without["components"].get("securitySchemes").is_none());
            for route in ROUTES.iter().filter(|route| route.family() == family) {
                let operation = &with["paths"][route.path][route.method.as_str().to_ascii_lowercase()];
                let is_open = route.permission == Permission::Open;
                assert_eq!(operation["security"] == json!([]), is_open, "{}", route.path);
                assert_eq!(operation["responses"]["401"].is_object(), !is_open, "{}", route.path);
            }
        }
    }

    /// Of what refers to a definition the page has the words of that one, and a `type` is a word itself.
    #[test]
    fn fields_and_parameters_say_what_they_are() {
        fn look(schema: &Json, path: &str, silent: &mut Vec<String>) {
            for (name, field) in schema["properties"].as_object().into_iter().flatten() {
                let place = format!("{path}.{name}");
                let says = ["description", "$ref", "allOf", "anyOf"].into_iter().any(|part| field.get(part).is_some());
                if !says && name != "type" {
                    silent.push(place.clone());
                }
                look(field, &place, silent);
            }
            let parts = ["oneOf", "anyOf", "allOf"].into_iter().filter_map(|part| schema[part].as_array()).flatten();
            let inside = ["items", "additionalProperties"].into_iter().filter_map(|part| schema.get(part));
            parts.chain(inside).for_each(|schema| look(schema, path, silent));
        }
        for family in FAMILIES {
            let document = document(family, None);
            let mut silent = Vec::new();
            for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
                look(schema, name, &mut silent);
            }
            let operations = document["paths"].as_object().into_iter().flatten().flat_map(|(_, path)| path.as_object()).flatten();
            for (_, operation) in operations {
                let parameters = operation["parameters"].as_array().into_iter().flatten();
                let without = parameters.filter(|parameter| parameter["description"].as_str().is_none_or(str::is_empty));
                silent.extend(without.map(|parameter| format!("{}: {}", operation["operationId"], parameter["name"])));
            }
            assert!(silent.is_empty(), "{family:?}: {}", silent.join(", "));
        }
    }

    /// They wait for whoever changes the same standing query, and not for ever.
    #[test]
    fn whatever_changes_standing_queries_may_be_told_to_come_again() {
        for family in FAMILIES {
            let document = document(family, None);
            for route in ROUTES.iter().filter(|route| route.family() == family) {
                let responses = &document["paths"][route.path][route.method.as_str().to_ascii_lowercase()]["responses"];
                let is_of_one = route.name.starts_with("standing::");
                let changes = is_of_one && route.method != Method::GET && route.name != "standing::why";
                if changes || route.name == "namespaces::delete" {
                    assert!(responses["503"]["content"]["application/json"].is_object(), "{} {}", route.method, route.path);
                } else if is_of_one {
                    assert!(responses["503"].is_null(), "{} {}", route.method, route.path);
                }
            }
        }
    }

    /// Those whose schemas have no example, or one of something else.
    #[test]
    fn bodies_have_examples_of_what_they_are() {
        let example = |family, path: &str, method: &str| {
            let document = document(family, None);
            let content = document["paths"][path][method]["requestBody"]["content"].clone();
            let text = content["text/plain"]["example"].as_str().unwrap_or_default().to_owned();
            (content["application/json"]["example"].clone(), text)
        };
        assert_eq!(example(Family::V1, "/api/v1/debug/{id}/props", "put").0, json!("Ann"));
        assert_eq!(example(Family::V1, "/api/v1/query/cypher/user-defined", "post").0, json!([]));
        let (json, text) = example(Family::V1, "/api/v1/query/gremlin/edges", "post");
        assert_eq!((json["text"].as_str(), text.as_str()), (Some("g.V().limit(10).outE()"), "g.V().limit(10).outE()"));
        assert_eq!(example(Family::V1, "/api/v1/query/gremlin", "post").1, "g.V().limit(10)");
        let document = document(Family::V1, None);
        let gremlin = &document["components"]["schemas"]["GremlinQuestion"]["example"]["text"];
        assert!(gremlin.as_str().is_some_and(|text| text.starts_with("g.")), "{gremlin}");
        let sort = |family, path| example(family, path, "put").0[0]["quickQuery"]["sort"].clone();
        assert_eq!(sort(Family::V1, "/api/v1/query-ui/quick-queries"), "Node");
        assert_eq!(sort(Family::Preview, "/api/v2/query-ui/quick-queries"), json!({"type": "Node"}));
        assert_eq!(sort(Family::Current, "/api/v2/queryUi/quickQueries"), "NODE");
    }

    #[test]
    fn references_lead_somewhere_and_ids_are_unique() {
        fn references<'d>(value: &'d Json, found: &mut Vec<&'d str>) {
            match value {
                Json::Object(fields) => {
                    found.extend(fields.get("$ref").and_then(Json::as_str));
                    fields.values().for_each(|value| references(value, found));
                }
                Json::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        for family in FAMILIES {
            let document = document(family, Some("/"));
            let mut found = Vec::new();
            references(&document, &mut found);
            for reference in found {
                assert!(document.pointer(&reference[1..]).is_some(), "{family:?}: {reference} leads nowhere");
            }
            let text = document.to_string();
            for mark in ["x-words", "x-duration", "x-tagged", "x-only-v1", "x-default-word"] {
                assert!(!text.contains(mark), "{family:?}: {mark}");
            }
            let operations = document["paths"].as_object().into_iter().flatten().flat_map(|(_, path)| path.as_object()).flatten();
            let mut ids: Vec<&str> = operations.filter_map(|(_, operation)| operation["operationId"].as_str()).collect();
            let count = ids.len();
            ids.sort_unstable();
            ids.dedup();
            assert_eq!(ids.len(), count);
        }
    }

    #[test]
    fn every_option_of_every_connector_is_in_the_words_of_its_family() {
        let has = |family: Family, name: &str, field: &str| {
            let document = document(family, None);
            let definition = &document["components"]["schemas"][name];
            assert!(definition["properties"][field].is_object(), "{family:?} {name}.{field}: {definition}");
            definition["properties"][field].clone()
        };
        assert_eq!(has(Family::V1, "FileIngest", "startAtOffset")["default"], 0);
        assert_eq!(has(Family::Preview, "FileSource", "startOffset")["default"], 0);
        has(Family::Current, "FileSource", "format");
        assert_eq!(has(Family::Current, "CSVFormat", "delimiter")["default"], "COMMA");
        assert_eq!(has(Family::Preview, "CSVFormat", "delimiter")["default"], "Comma");
        assert_eq!(has(Family::Current, "SlackDestination", "interval")["default"], "20s");
        assert_eq!(has(Family::Preview, "SlackDestination", "intervalSeconds")["default"], 20);
        let current = document(Family::Current, None);
        let file = &current["components"]["schemas"]["FileSource"]["properties"];
        assert!(file.get("parallelism").is_none() && file["type"]["const"] == "File", "{file}");
        let about = |name: &str| current["components"]["schemas"][name]["description"].as_str().unwrap_or_default();
        assert!(about("CSVFormat").starts_with("Each row of CSV"), "{}", about("CSVFormat"));
        let mode = about("FileIngestMode");
        assert!(mode.starts_with("What happens at the end of a file.") && mode.contains("- `NAMED_PIPE`: "), "{mode}");
        let path = |handler: &str| parameters::in_path("id", handler)["description"].clone();
        assert_ne!(path("running::cancel"), path("debug::get"));
    }

    #[cfg(feature = "aws")]
    #[test]
    fn where_a_stream_of_kinesis_begins_is_described_as_each_family_writes_it() {
        let schema = |family: Family, name: &str| document(family, None)["components"]["schemas"][name].clone();
        let at = |family: Family| {
            let described = schema(family, "IteratorAt");
            let mut moments = described["oneOf"].as_array().expect("kinds").iter().filter(|kind| {
                let kind = &kind["properties"]["type"];
                kind["const"] == "AtTimestamp" || kind["enum"][0] == "AtTimestamp"
            });
            moments.next().expect("a moment").clone()
        };
        let current = at(Family::Current);
        assert_eq!(current["properties"]["at"]["format"], "date-time");
        assert_eq!(
            (&current["properties"]["at"]["type"], current["properties"].get("millisSinceEpoch")),
            (&json!("string"), None)
        );
        assert!(current["required"].as_array().is_some_and(|names| names.contains(&json!("at"))), "{current}");
        for family in [Family::V1, Family::Preview] {
            assert_eq!(at(family)["properties"]["millisSinceEpoch"]["type"], "integer", "{family:?}");
        }
        for family in [Family::Preview, Family::Current] {
            let words = schema(family, "IteratorWord");
            let names: Vec<&Json> =
                words["oneOf"].as_array().into_iter().flatten().map(|word| &word["properties"]["type"]["const"]).collect();
            assert_eq!(names, ["Latest", "TrimHorizon"], "{family:?}");
        }
        assert_eq!(schema(Family::V1, "IteratorWord")["enum"], json!(["Latest", "TrimHorizon"]));
        let default = &schema(Family::Current, "KinesisKCLSource")["properties"]["initialPosition"]["default"];
        assert_eq!(default, &json!({"type": "Latest"}));
        let leases = schema(Family::Current, "LeaseManagementConfig");
        assert!(
            leases["properties"]["failoverTime"]["type"].as_array().is_some_and(|types| types.contains(&json!("string"))),
            "{leases}"
        );
    }
}
