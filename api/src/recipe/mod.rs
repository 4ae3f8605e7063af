//! Recipes: one file that names streams, standing queries and a query of state, run from the command line (`-r`).
//!
//!     file or gallery ─ read ─> Recipe ─ start ─> queries, then streams; when weir is ready, a look at them every second
//!
//! How its parts work is the affair of those parts.

pub mod gallery;
mod mistakes;
mod progress;
mod read;
mod status;

use std::io::{IsTerminal, stderr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value as Json;
use thiserror::Error;
use weir_connectors::{FilePolicy, HostPolicy, fetch, status_lines};

use self::progress::{Watched, watch};
use self::status::status;
use crate::app::App;
use crate::error::chain;
use crate::log::tell;
use crate::standing::Query;
use crate::temporary::Temporary;
use crate::terminal::counted;
use crate::wire::standing::StandingSettings;
use crate::wire::style::List;

/// What a server may send as a recipe.
const RECIPE_BYTES_MAX: usize = 4 << 20;

/// What one of them is called, and what several are.
type Words = [&'static str; 2];

pub struct Recipe {
    /// By name, in the notation of v1.
    ingests: Vec<(String, Json)>,
    standing: Vec<(String, StandingSettings)>,
    /// What the graph view offers, with words for it.
    ui: Vec<(List, Words, Json)>,
    status_query: Option<String>,
}

/// Why there is no recipe to run.
#[derive(Debug, Error)]
pub enum NoRecipe {
    /// It is wrong, or not where it was said to be: all that is.
    #[error("{}", .0.join("\n"))]
    Mistaken(Vec<String>),
    /// A server, or this machine, did not do its part.
    #[error("{0}")]
    Failed(String),
}

/// What runs of a recipe.
pub struct Started {
    streams: Vec<Watched>,
    queries: Vec<Arc<Query>>,
    status_query: Option<String>,
}

impl Recipe {
    /// Reads a recipe, a file, one behind a URL or one that came with weir, and fills in its values. Everything that is wrong is
    /// reported at once. Beside the recipe, where its data are, which must stay as long as it runs.
    pub fn load(argument: &str, values: &[(String, String)]) -> Result<(Recipe, Option<Temporary>), NoRecipe> {
        let lower = argument.to_lowercase();
        let unread = |error: &dyn std::fmt::Display| format!("the recipe {argument} cannot be read: {error}");
        let mistaken = |error: String| NoRecipe::Mistaken(vec![error]);
        let named =
            |errors: Vec<String>| NoRecipe::Mistaken(errors.into_iter().map(|error| format!("{argument}: {error}")).collect());
        if lower.contains("://") || lower.starts_with("file:") {
            // Whoever types a place may read there: the limits of the configuration are for what others send.
            let text = fetch::whole(argument, &FilePolicy::allow_all(), &HostPolicy::default(), RECIPE_BYTES_MAX);
            // What a server does not give now it may give later.
            let is_served = lower.starts_with("http:") || lower.starts_with("https:");
            let refused = |reason| if is_served { NoRecipe::Failed(reason) } else { mistaken(reason) };
            let text = text.map_err(|error| refused(unread(&chain(&error))))?;
            return Ok((read::read(&text, values).map_err(named)?, None));
        }
        if ["json", "yaml", "yml"].iter().any(|ending| lower.ends_with(&format!(".{ending}"))) {
            let text = std::fs::read(argument).map_err(|error| mistaken(unread(&error)))?;
            return Ok((read::read(&text, values).map_err(named)?, None));
        }
        let Some(shipped) = gallery::find(argument) else {
            let names: Vec<&str> = gallery::GALLERY.iter().map(|shipped| shipped.name).collect();
            return Err(mistaken(format!(
                "there is no recipe '{argument}'. A file ends in .yaml, .yml or .json; with weir come {}",
                names.join(", ")
            )));
        };
        let data = Temporary::new(false).map_err(NoRecipe::Failed)?;
        let values = shipped.values(&data.path, values).map_err(NoRecipe::Failed)?;
        Ok((read::read(shipped.text.as_bytes(), &values).map_err(named)?, Some(data)))
    }

    /// The directories of the files it reads: those may be read because the recipe says so.
    pub fn directories(&self) -> Vec<PathBuf> {
        let paths = self.ingests.iter().filter_map(|(_, ingest)| ingest.get("path")?.as_str());
        let parents = paths.filter_map(|path| Path::new(path).parent().map(Path::to_owned));
        parents.map(|parent| if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent }).collect()
    }

    /// Starts its parts, queries before streams. What cannot start is said, and the rest runs.
    pub fn start(self, app: &Arc<App>) -> Started {
        // Results come as soon as the queries are there.
        if stderr().is_terminal() {
            status_lines::begin();
        }
        let graph = app.engine.default_graph();
        for (kept, [one, several], block) in &self.ui {
            let count = block.as_array().map_or(0, Vec::len);
            if count > 0 {
                match app.engine.set_metadata(kept.key(), Some(block.to_string().as_bytes())) {
                    Ok(()) => tell(format_args!("Using {}", counted(count as u64, one, several))),
                    Err(error) => tell(format_args!("The {several} could not be stored: {error}")),
                }
            }
        }
        let mut queries = Vec::new();
        for (name, settings) in self.standing {
            match app.standing.create(&graph, &name, settings, false) {
                Ok((query, _)) => {
                    tell(format_args!("Running Standing Query {name}"));
                    queries.push(query);
                }
                Err(error) => tell(format_args!("Standing Query {name} could not be started: {error}")),
            }
        }
        let mut streams = Vec::new();
        for (name, definition) in &self.ingests {
            match app.ingests.create(&graph, name, definition) {
                Ok(stream) => {
                    tell(format_args!("Running Ingest Stream {name}"));
                    streams.push(Watched::new(stream, definition));
                }
                Err(error) => tell(format_args!("Ingest Stream {name} could not be started: {error}")),
            }
        }
        Started { streams, queries, status_query: self.status_query }
    }
}

impl Started {
    /// Reports on its parts until weir stops.
    pub fn follow(self, app: &Arc<App>, url: &str) {
        tokio::spawn(watch(app.clone(), self.streams, self.queries));
        if let Some(query) = self.status_query {
            if app.settings.webserver.enabled {
                // The explorer asks what stands in the fragment.
                tell(format_args!("Status query URL is {url}#{}", fragment(&query)));
            }
            tokio::spawn(status(app.clone(), query));
        }
    }
}

fn fragment(query: &str) -> String {
    let keep = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    query.bytes().map(|byte| if keep(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
