//! The labels, relationship types and property keys of a graph, for completion. Asked for when they are wanted, and again when
//! they have grown old; where the graph is too large to be looked through in a moment, a sample must do.

use std::time::{Duration, Instant};

use weir_engine::Graph;
use weir_model::Value;

use crate::app::App;
use crate::queries::fixed::Fixed;

const AGE_MAX: Duration = Duration::from_secs(10);
/// How long each question may take.
const TIME_MAX: Duration = Duration::from_millis(150);

#[derive(Default)]
pub struct Names {
    asked: Option<Instant>,
    pub labels: Vec<String>,
    pub types: Vec<String>,
    pub keys: Vec<String>,
}

impl Names {
    pub fn refresh(&mut self, app: &App, graph: &Graph) {
        if app.not_ready().is_some() || self.asked.is_some_and(|asked| asked.elapsed() < AGE_MAX) {
            return;
        }
        let column = |whole: &str, sample: &str| {
            let ask = |text: &str| {
                let fixed = Fixed { deadline: Instant::now().checked_add(TIME_MAX), ..Fixed::new(app, graph, None) };
                fixed.rows(text, &[]).ok()
            };
            let rows = ask(whole).or_else(|| ask(sample)).unwrap_or_default();
            let mut names: Vec<String> = rows
                .iter()
                .filter_map(|row| match row.first() {
                    Some(Value::Text(name)) => Some(name.to_string()),
                    _ => None,
                })
                .collect();
            names.sort();
            names
        };
        self.labels = column(
            "CALL dbms.labels() YIELD label RETURN label",
            "MATCH (n) WITH n LIMIT 2000 UNWIND labels(n) AS label RETURN DISTINCT label",
        );
        self.types = column(
            "CALL db.relationshipTypes() YIELD relationshipType RETURN relationshipType",
            "MATCH ()-[r]->() WITH r LIMIT 2000 RETURN DISTINCT type(r)",
        );
        self.keys = column(
            "CALL db.propertyKeys() YIELD propertyKey RETURN propertyKey",
            "MATCH (n) WITH n LIMIT 2000 UNWIND keys(n) AS key RETURN DISTINCT key",
        );
        self.asked = Some(Instant::now());
    }
}
