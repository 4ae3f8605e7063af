//! What an editor asks of a text that is being written: the kinds of its words, what could stand at a place, which variables
//! are visible there, what a name means. Works on tokens, since most of the time the text is no whole query yet.

mod cursor;
mod keywords;
mod mark;
mod visible;

pub use cursor::{Wanted, name_at, wanted};
pub use keywords::KEYWORDS;
pub use mark::{Class, LEGEND, marks};
pub use visible::{parameters, visible};

use crate::bind::Holds;
use crate::functions;
use crate::{Options, bound, procedures, wanted as asked};

/// What a query gives, for those who choose how to show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// Nodes and nothing else.
    Nodes,
    Table,
    /// No rows.
    SideEffects,
    /// It cannot be compiled.
    Unknown,
}

pub fn gives(text: &str, options: &Options) -> Gives {
    let (wanted, text) = asked(text);
    match bound(&text, options) {
        Err(_) => Gives::Unknown,
        Ok(_) if wanted != crate::Wanted::Answer => Gives::Table,
        Ok((_, draft)) if draft.columns.is_empty() => Gives::SideEffects,
        Ok((_, draft)) if draft.columns.iter().all(|(_, slot)| draft.holds(*slot) == Holds::Node) => Gives::Nodes,
        Ok(_) => Gives::Table,
    }
}

/// A name that can be called, as people read about it.
pub struct Described {
    pub signature: String,
    pub about: String,
    pub example: String,
}

/// The function or aggregate of a name.
pub fn function(name: &str) -> Option<Described> {
    let described = |signature: &str, about: &str, example: &str| Described {
        signature: signature.to_owned(),
        about: about.to_owned(),
        example: example.to_owned(),
    };
    if let Some(row) = functions::AGGREGATES.iter().find(|row| row.name.eq_ignore_ascii_case(name)) {
        return Some(described(row.signature, row.description, row.example));
    }
    functions::find(name).map(|function| described(function.signature, function.description, function.example))
}

pub fn procedure(name: &str, options: &Options) -> Option<Described> {
    let found = procedures::all(options).into_iter().find(|procedure| procedure.name.eq_ignore_ascii_case(name))?;
    Some(Described { signature: found.signature(), about: format!("{}.", found.description), example: found.example.to_string() })
}

/// The names of all functions, aggregates among them.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    functions::all().map(|function| function.name).chain(functions::AGGREGATES.iter().map(|row| row.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_queries_give() {
        for (text, expected) in [
            ("MATCH (n) RETURN n", Gives::Nodes),
            ("MATCH (n)-[r]->(m) RETURN n, m", Gives::Nodes),
            ("MATCH (n) RETURN n, n.x", Gives::Table),
            ("EXPLAIN MATCH (n) RETURN n", Gives::Table),
            ("CREATE (n)", Gives::SideEffects),
            ("MATCH (n) RETURN m", Gives::Unknown),
            ("", Gives::Unknown),
        ] {
            assert_eq!(gives(text, &Options::default()), expected, "{text}");
        }
    }

    #[test]
    fn names_are_described() {
        let shown = function("IDFROM").expect("a function");
        assert!(shown.signature.starts_with("idFrom(") && shown.about.ends_with('.'), "{}", shown.signature);
        assert!(function("collect").is_some_and(|shown| shown.signature.starts_with("collect(")));
        assert!(procedure("recentnodes", &Options::default()).is_some_and(|shown| shown.signature.contains("node :: NODE")));
        assert!(function("nosuch").is_none() && procedure("nosuch", &Options::default()).is_none());
    }
}
