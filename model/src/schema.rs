//! Schema: commands that are not about what is in the graph, but how it is kept: indexes, and what expires.

use crate::temporal::{Duration, SECONDS_PER_DAY};
use crate::value::Text;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schema {
    /// Nothing happens if an index of that name, or of that label and property, is there and `unless_exists` is set.
    CreateIndex {
        name: Option<Text>,
        label: Text,
        property: Option<Text>,
        unless_exists: bool,
    },
    DropIndex {
        name: Text,
        if_exists: bool,
    },
    ShowIndexes,
    /// As with indexes: of a name, or of a rule, there is one.
    CreateExpiry {
        name: Option<Text>,
        rule: ExpiryRule,
        unless_exists: bool,
    },
    DropExpiry {
        name: Text,
        if_exists: bool,
    },
    ShowExpiries,
}

/// When something ends: a while after the time that one of its own properties gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExpiryRule {
    pub of: Expires,
    /// The property that holds a time.
    pub on: Text,
    pub after_millis: u64,
    /// What ends: this property of it, or the whole.
    pub removes: Option<Text>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expires {
    /// Nodes of a label.
    Nodes(Text),
    /// Edges of a type.
    Edges(Text),
}

impl Schema {
    /// Those that only show something give rows.
    pub fn columns(&self) -> &'static [&'static str] {
        match self {
            Schema::ShowIndexes => &["name", "state", "type", "label", "property", "entries"],
            Schema::ShowExpiries => &["name", "state", "type", "label", "on", "after", "removes", "waiting", "expired"],
            Schema::CreateIndex { .. } | Schema::DropIndex { .. } | Schema::CreateExpiry { .. } | Schema::DropExpiry { .. } => {
                &[]
            }
        }
    }

    pub fn only_shows(&self) -> bool {
        !self.columns().is_empty()
    }
}

impl ExpiryRule {
    /// As a duration that reads well.
    pub fn after(&self) -> Duration {
        const DAY: u64 = 1000 * SECONDS_PER_DAY as u64;
        let (days, millis) = (self.after_millis / DAY, self.after_millis % DAY);
        Duration { months: 0, days: days as i64, seconds: (millis / 1000) as i64, nanos: (millis % 1000) as i32 * 1_000_000 }
    }
}
