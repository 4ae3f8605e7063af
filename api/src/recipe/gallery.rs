//! The recipes that come with weir, each with small data of its own: `weir -r fraud-ring`. They lie in `recipes/`.

use std::path::Path;

/// The value that names the data of a recipe; given on the command line, other data are read.
const IN_FILE: &str = "in_file";

pub struct Shipped {
    pub name: &'static str,
    pub text: &'static str,
    /// Its data: a name and what is in it.
    file: Option<(&'static str, &'static str)>,
    /// Other values that hold when they are not given.
    usual: &'static [(&'static str, &'static str)],
}

macro_rules! shipped {
    ($name:literal, $file:literal) => {
        Shipped {
            name: $name,
            text: include_str!(concat!("../../../recipes/", $name, "/recipe.yaml")),
            file: Some(($file, include_str!(concat!("../../../recipes/", $name, "/", $file)))),
            usual: &[],
        }
    };
}

pub const GALLERY: &[Shipped] = &[
    shipped!("cdn-logs", "requests.csv"),
    shipped!("certificate-watch", "certificates.jsonl"),
    shipped!("entity-resolution", "records.jsonl"),
    Shipped {
        name: "factors",
        text: include_str!("../../../recipes/factors/recipe.yaml"),
        file: None,
        usual: &[("service", "http://127.0.0.1:3000/factors")],
    },
    shipped!("fraud-ring", "transfers.jsonl"),
    shipped!("iot", "states.jsonl"),
    shipped!("login-anomalies", "logins.jsonl"),
    shipped!("outages", "events.jsonl"),
    shipped!("process-tree", "processes.jsonl"),
    shipped!("supply-chain", "items.csv"),
    shipped!("temporal-locality", "payments.jsonl"),
];

pub fn find(name: &str) -> Option<&'static Shipped> {
    GALLERY.iter().find(|shipped| shipped.name == name)
}

impl Shipped {
    /// The values of its names: the usual ones, with those of the command line over them. Its data are put into `place`.
    pub fn values(&self, place: &Path, given: &[(String, String)]) -> Result<Vec<(String, String)>, String> {
        let mut values: Vec<(String, String)> =
            self.usual.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if let Some((name, text)) = self.file {
            let path = place.join(name);
            std::fs::write(&path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
            values.push((IN_FILE.to_owned(), path.display().to_string()));
        }
        // The last one counts.
        values.extend_from_slice(given);
        Ok(values)
    }
}
