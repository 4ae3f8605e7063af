//! Completion: keywords, commands, and the names the service knows. Names are asked for when they are wanted, and again when
//! they have grown old.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value as Json};
use tokio::runtime::Runtime;
use weir_cypher_compiler::{functions, nearest};

use super::{command, statement};
use crate::client::Client;

/// Names are asked for anew after this long.
const NAMES_AGE_MAX: Duration = Duration::from_secs(10);
/// How long whoever pressed Tab may wait for the names.
const NAMES_TIME_MAX_MS: u64 = 300;
/// Where a graph is too large to be looked through, the labels and keys of so many nodes must do.
const SAMPLE_COUNT: usize = 2000;

const KEYWORDS: &[&str] = &[
    "ALL",
    "AND",
    "AS",
    "ASC",
    "CALL",
    "CASE",
    "COLLECT",
    "CONTAINS",
    "COUNT",
    "CREATE",
    "DELETE",
    "DESC",
    "DETACH DELETE",
    "DISTINCT",
    "ELSE",
    "END",
    "ENDS WITH",
    "EXISTS",
    "EXPLAIN",
    "FALSE",
    "FOREACH",
    "FROM",
    "IN",
    "IS NOT NULL",
    "IS NULL",
    "LIMIT",
    "LOAD CSV",
    "MATCH",
    "MERGE",
    "NOT",
    "NULL",
    "ON CREATE SET",
    "ON MATCH SET",
    "OPTIONAL MATCH",
    "OR",
    "ORDER BY",
    "PROFILE",
    "REMOVE",
    "RETURN",
    "SET",
    "SHOW FUNCTIONS",
    "SHOW PROCEDURES",
    "SHOW QUERIES",
    "SKIP",
    "STARTS WITH",
    "TERMINATE QUERY",
    "THEN",
    "TRUE",
    "UNION",
    "UNION ALL",
    "UNWIND",
    "USING",
    "WHEN",
    "WHERE",
    "WITH",
    "XOR",
    "YIELD",
];

/// What can stand for the word before the cursor.
#[derive(Debug, PartialEq)]
enum Wanted {
    Command,
    /// After `:` in a pattern: labels and relationship types.
    Label,
    /// After a dot behind a variable.
    Property,
    /// After `$`.
    Parameter,
    /// After CALL.
    Procedure,
    Any,
}

#[derive(Default)]
struct Names {
    asked: Option<Instant>,
    /// The namespace they were asked of.
    namespace: Option<String>,
    functions: Vec<String>,
    procedures: Vec<String>,
    labels: Vec<String>,
    types: Vec<String>,
    properties: Vec<String>,
}

pub struct Completion {
    client: Client,
    runtime: Rc<Runtime>,
    names: RefCell<Names>,
    pub parameters: Vec<String>,
}

impl Completion {
    pub fn new(client: Client, runtime: Rc<Runtime>) -> Completion {
        Completion { client, runtime, names: RefCell::default(), parameters: Vec::new() }
    }

    pub fn set_namespace(&mut self, namespace: Option<String>) {
        self.client.namespace = namespace;
    }

    /// Where the word begins that ends at the cursor, and what could stand for it.
    pub fn complete(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let (start, wanted) = wanted(&line[..cursor]);
        let word = &line[start..cursor];
        let starts = |name: &str| {
            let beginning = name.char_indices().nth(word.chars().count()).map_or(name, |(end, _)| &name[..end]);
            beginning.to_lowercase() == word.to_lowercase()
        };
        let mut found: Vec<String> = Vec::new();
        if wanted == Wanted::Command {
            found.extend(command::words().filter(|name| starts(name)).map(str::to_owned));
        } else if wanted == Wanted::Parameter {
            found.extend(self.parameters.iter().filter(|name| starts(name)).cloned());
        } else {
            self.refresh();
            let names = self.names.borrow();
            let groups: &[&Vec<String>] = match wanted {
                Wanted::Label => &[&names.labels, &names.types],
                Wanted::Property => &[&names.properties],
                Wanted::Procedure => &[&names.procedures],
                _ => &[&names.functions],
            };
            if wanted == Wanted::Any && !word.is_empty() {
                found.extend(KEYWORDS.iter().filter(|name| starts(name)).map(|name| in_case_of(name, word)));
            }
            if wanted != Wanted::Any || !word.is_empty() {
                found.extend(groups.iter().flat_map(|group| group.iter()).filter(|name| starts(name)).cloned());
            }
        }
        found.sort_by_key(|name| name.to_lowercase());
        found.dedup();
        (start, found)
    }

    /// A name of the text that the graph does not know, where it knows one that is spelled alike.
    pub fn suspect(&self, text: &str) -> Option<String> {
        self.refresh();
        let names = self.names.borrow();
        let unknown = |(mark, name): &(char, &str)| {
            let known: Vec<&String> = match mark {
                ':' => names.labels.iter().chain(&names.types).collect(),
                _ => names.properties.iter().collect(),
            };
            if known.iter().any(|known| known == name) {
                return None;
            }
            let hint = nearest(name, known.iter().map(|name| name.as_str()))?;
            let what = if *mark == ':' { "label or relationship type" } else { "property" };
            Some(format!("nothing here has the {what} `{name}`; {hint}"))
        };
        statement::marked_names(text).iter().find_map(unknown)
    }

    /// Asks the service, unless that was done a moment ago. What it does not answer in time is not completed.
    fn refresh(&self) {
        let mut names = self.names.borrow_mut();
        let young = names.asked.is_some_and(|asked| asked.elapsed() < NAMES_AGE_MAX);
        if young && names.namespace == self.client.namespace {
            return;
        }
        self.runtime.block_on(async {
            if names.functions.is_empty() {
                names.functions = self.column("CALL help.functions() YIELD name RETURN DISTINCT name").await.unwrap_or_default();
                names.procedures =
                    self.column("CALL help.procedures() YIELD name RETURN DISTINCT name").await.unwrap_or_default();
            }
            let all = |whole: &'static str, sample: String| async move {
                match self.column(whole).await {
                    Some(found) => found,
                    None => self.column(&sample).await.unwrap_or_default(),
                }
            };
            names.labels = all(
                "CALL dbms.labels() YIELD label RETURN label",
                format!("MATCH (n) WITH n LIMIT {SAMPLE_COUNT} UNWIND labels(n) AS label RETURN DISTINCT label"),
            )
            .await;
            names.types = all(
                "CALL db.relationshipTypes() YIELD relationshipType RETURN relationshipType",
                format!("MATCH ()-[r]->() WITH r LIMIT {SAMPLE_COUNT} RETURN DISTINCT type(r)"),
            )
            .await;
            names.properties = all(
                "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey",
                format!("MATCH (n) WITH n LIMIT {SAMPLE_COUNT} UNWIND keys(n) AS key RETURN DISTINCT key"),
            )
            .await;
        });
        names.asked = Some(Instant::now());
        names.namespace.clone_from(&self.client.namespace);
    }

    /// The texts of the first column.
    async fn column(&self, query: &str) -> Option<Vec<String>> {
        let none = Map::new();
        let asked = self.client.query(query, &none, Some(NAMES_TIME_MAX_MS));
        // The limit of the service is for the query; this one is for all that can keep an answer away.
        let answer = tokio::time::timeout(Duration::from_millis(2 * NAMES_TIME_MAX_MS), asked).await.ok()?.ok()?;
        Some(answer.results.iter().filter_map(|row| row.first().and_then(Json::as_str)).map(str::to_owned).collect())
    }
}

/// Keywords are completed in the case they were begun in.
fn in_case_of(keyword: &str, word: &str) -> String {
    if word.chars().any(char::is_lowercase) { keyword.to_lowercase() } else { keyword.to_owned() }
}

/// Where the word begins that ends at the end of the text, and what it may be.
fn wanted(text: &str) -> (usize, Wanted) {
    if text.trim_start().starts_with(':') && !text.trim_start().contains(char::is_whitespace) {
        return (text.len() - text.trim_start().len(), Wanted::Command);
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let begin = |text: &str| text.char_indices().rev().take_while(|(_, c)| is_part(*c)).last().map_or(text.len(), |(at, _)| at);
    let start = begin(text);
    let before = &text[..start];
    match before.chars().next_back() {
        Some(':' | '|' | '&' | '!') => (start, Wanted::Label),
        Some('$') => (start, Wanted::Parameter),
        Some('.') => {
            // `text.split` is a function, `n.name` a property, and `CALL help.functions` a procedure.
            let dotted =
                text.char_indices().rev().take_while(|(_, c)| is_part(*c) || *c == '.').last().map_or(start, |(at, _)| at);
            let path = &text[dotted..start - 1];
            match (after_call(&text[..dotted]), path) {
                (true, _) => (dotted, Wanted::Procedure),
                (false, path) if is_namespace(path) => (dotted, Wanted::Any),
                _ => (start, Wanted::Property),
            }
        }
        _ if after_call(before) => (start, Wanted::Procedure),
        _ => (start, Wanted::Any),
    }
}

/// Whether names of functions begin with it and a dot.
fn is_namespace(path: &str) -> bool {
    let begins = |name: &str| name.get(..path.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(path));
    functions::all().any(|function| begins(function.name) && function.name[path.len()..].starts_with('.'))
}

fn after_call(text: &str) -> bool {
    let text = text.trim_end();
    let word = text.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    word.eq_ignore_ascii_case("call")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_follows_from_what_stands_before() {
        for (text, expected) in [
            (":he", (0, Wanted::Command)),
            ("MATCH (n:Per", (9, Wanted::Label)),
            ("MATCH (n)-[:KNOWS|LI", (18, Wanted::Label)),
            ("MATCH (n) WHERE n.na", (18, Wanted::Property)),
            ("RETURN größe.na", (15, Wanted::Property)),
            ("RETURN text.sp", (7, Wanted::Any)),
            ("RETURN $p", (8, Wanted::Parameter)),
            ("CALL rec", (5, Wanted::Procedure)),
            ("call help.fu", (5, Wanted::Procedure)),
            ("RET", (0, Wanted::Any)),
            ("", (0, Wanted::Any)),
        ] {
            assert_eq!(wanted(text), expected, "{text}");
        }
        assert_eq!(in_case_of("RETURN", "ret"), "return");
        assert_eq!(in_case_of("RETURN", "RET"), "RETURN");
    }
}
