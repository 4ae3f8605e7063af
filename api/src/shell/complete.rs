//! Completion: keywords, commands, and the names the service knows. Names are asked for when they are wanted, and again when
//! they have grown old.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use tokio::runtime::Runtime;
use weir_cypher_compiler::language::{KEYWORDS, Wanted, wanted};
use weir_cypher_compiler::{nearest, quoted_name};
use weir_model::visible::visible;

use super::{command, statement};
use crate::client::{Client, Parameters};

/// Names are asked for anew after this long.
const NAMES_AGE_MAX: Duration = Duration::from_secs(10);
/// How long whoever pressed Tab may wait for the names.
const NAMES_TIME_MAX_MS: u64 = 300;
/// Where a graph is too large to be looked through, the labels and keys of this many nodes must do.
const SAMPLE_COUNT: usize = 2000;

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

    /// Where the word begins that ends at the cursor, and what could stand for it: as it is written in a query, without what
    /// would steer the terminal.
    pub fn complete(&self, line: &str, cursor: usize) -> (usize, Vec<String>) {
        let (before, after) = line.split_at(cursor);
        if let Some(start) = command_start(before) {
            let words = command::words().filter(|name| begins(name, &before[start..]));
            return (start, words.map(str::to_owned).collect());
        }
        let (start, mut found) = match statement::open_name(before) {
            Some(start) => {
                let word = before[start + 1..].replace("``", "`");
                let wanted = wanted(&before[..start]).1;
                (start, self.names(wanted, &word).iter().map(|name| in_ticks(name, after)).collect())
            }
            None => {
                let (start, wanted) = wanted(before);
                (start, self.words(wanted, &before[start..]))
            }
        };
        found.sort_by_key(|name: &String| name.to_lowercase());
        found.dedup();
        (start, found)
    }

    /// Where a word may stand that is in no back-ticks.
    fn words(&self, wanted: Wanted, word: &str) -> Vec<String> {
        let group = match wanted {
            Wanted::Procedure => |names: &Names| names.procedures.clone(),
            Wanted::Any => |names: &Names| names.functions.clone(),
            _ => return self.names(wanted, word).iter().map(|name| spelled(name)).collect(),
        };
        if wanted == Wanted::Any && word.is_empty() {
            return Vec::new();
        }
        self.refresh();
        let named = group(&self.names.borrow());
        let mut found: Vec<String> = named.iter().filter(|name| begins(name, word)).map(|name| visible(name)).collect();
        if wanted == Wanted::Any {
            let keywords = KEYWORDS.iter().map(|(name, _)| *name).filter(|name| begins(name, word));
            found.extend(keywords.map(|name| in_case_of(name, word)));
        }
        found
    }

    /// Names that users gave, which may be anything.
    fn names(&self, wanted: Wanted, word: &str) -> Vec<String> {
        if wanted != Wanted::Parameter {
            self.refresh();
        }
        let names = self.names.borrow();
        let known: &[&Vec<String>] = match wanted {
            Wanted::Parameter => &[&self.parameters],
            Wanted::Label => &[&names.labels, &names.types],
            Wanted::Property => &[&names.properties],
            _ => &[],
        };
        known.iter().flat_map(|known| known.iter()).filter(|name| begins(name, word)).cloned().collect()
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
            Some(visible(&format!("nothing here has the {what} `{name}`; {hint}")))
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
        let none = Parameters::new();
        let asked = self.client.query(query, &none, Some(NAMES_TIME_MAX_MS));
        // The limit of the service is for the query; this one is for all that can keep an answer away.
        let answer = tokio::time::timeout(Duration::from_millis(2 * NAMES_TIME_MAX_MS), asked).await.ok()?.ok()?;
        Some(answer.results.iter().filter_map(|row| row.first().and_then(Json::as_str)).map(str::to_owned).collect())
    }
}

/// Without regard to case.
fn begins(name: &str, word: &str) -> bool {
    let beginning = name.char_indices().nth(word.chars().count()).map_or(name, |(end, _)| &name[..end]);
    beginning.to_lowercase() == word.to_lowercase()
}

/// In back-ticks where it must be.
fn spelled(name: &str) -> String {
    let plain =
        name.starts_with(|c: char| c.is_alphabetic() || c == '_') && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { in_ticks(name, "") }
}

/// In back-ticks, unless the one at its end is there already.
fn in_ticks(name: &str, after: &str) -> String {
    // Some characters steer the terminal, and need no escape in Cypher.
    let mut name = visible(&quoted_name(name));
    if after.starts_with('`') {
        name.pop();
    }
    name
}

/// Keywords are completed in the case they were begun in.
fn in_case_of(keyword: &str, word: &str) -> String {
    if word.chars().any(char::is_lowercase) { keyword.to_lowercase() } else { keyword.to_owned() }
}

/// Where the command begins that ends at the end of the text, if it is one.
fn command_start(text: &str) -> Option<usize> {
    let trimmed = text.trim_start();
    (trimmed.starts_with(':') && !trimmed.contains(char::is_whitespace)).then(|| text.len() - trimmed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_alone_and_keywords_keep_their_case() {
        assert_eq!(command_start(" :he"), Some(1));
        assert_eq!(command_start("MATCH (n:he"), None);
        assert_eq!(command_start(":help x"), None);
        assert_eq!(in_case_of("RETURN", "ret"), "return");
        assert_eq!(in_case_of("RETURN", "RET"), "RETURN");
    }

    #[test]
    fn names_are_written_so_that_they_can_be_read() {
        assert_eq!(spelled("größe_1"), "größe_1");
        assert_eq!(spelled("a b"), "`a b`");
        assert_eq!(spelled("1a"), "`1a`");
        assert_eq!(spelled("a`\u{1b}]0;title\u{7}\n\u{202e}"), "`a``\\u001b]0;title\\u0007\\u000a\\u202e`");
        assert_eq!(in_ticks("ab", "`)"), "`ab");
    }
}
