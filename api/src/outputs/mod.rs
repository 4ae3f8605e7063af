//! Outputs of standing queries: from results to destinations, by way of Cypher queries where the definition says so.
//!
//!     results ─ encode ─> Delivery ─> destination                       an output that is a destination
//!     results ─ queue ─> query ─ rows ─> … ─ encode ─> Delivery         an output that begins with CypherQuery
//!
//! How far an output has got is reported by its last link, so that nothing counts as delivered before it is. Queries may
//! run again after a crash, destinations that know their place (files) get each result once.
//!
//!     link          an output that is checked and compiled, and not yet opened
//!     running       one at work: results in, to the delivery at its end
//!     enrichment    its queries, from results to the rows that go on
//!     side_by_side  several threads for what takes long, its items in their order
//!     chain         outputs that bring each other results without end
//!     lane          an output for as long as it has its name, whatever its definition becomes
//!     letters       results that a destination refuses, on their way to dead letters
//!     taps          what flows through, for whoever listens
//!     figures       how an output is
//!     spans         deliveries under way, in traces

use std::fmt;
use std::sync::Arc;

use weir_connectors::{DeadLetters, DestinationContext, Encoder, Generation, Meta, OnRefused, destination};
use weir_engine::Cause;
use weir_model::{IdScheme, Map, NodeId, Place, Position, QueryId};

use crate::error::ApiError;
use crate::events::Event;
use crate::ingest::refused;
use crate::wire::letters::Refusals;

mod link;
mod running;
mod enrichment;
mod side_by_side;
mod chain;
mod lane;
mod letters;
mod taps;
mod figures;
mod spans;
pub use figures::{Figures, State};
pub use lane::{Given, Lane};
use letters::Letters;
use link::DestinationLink;
pub use link::{Link, check_secrets};
pub use running::RunningOutput;
pub use taps::{Tap, TapPoints};

/// A result on its way.
#[derive(Clone)]
pub struct Sent {
    pub place: Place,
    pub positive: bool,
    /// A match and its cancellation have one id.
    pub id: NodeId,
    pub data: Arc<Map>,
    /// Of its tick, where an output has written that.
    pub cause: Option<Arc<Cause>>,
}

impl Sent {
    /// As those who listen get it.
    pub fn event(&self, encoder: &Encoder) -> Event {
        let mut body = Vec::with_capacity(128);
        encoder.row(&self.meta(), &self.data, &mut body);
        let name = if self.positive { "result" } else { "cancellation" };
        Event { name, id: Some(self.place.to_string()), data: String::from_utf8_lossy(&body).into_owned() }
    }

    fn meta(&self) -> Meta {
        Meta { positive: self.positive, id: Some(self.id), place: self.place }
    }
}

/// An opened destination, or none for queries that run for their effect.
pub struct Opened {
    link: Link,
    destination: Option<(Box<dyn weir_connectors::Destination>, OnRefused)>,
    ids: IdScheme,
}

/// An output of a standing query, by the names of both.
#[derive(Clone, Copy)]
pub struct Named<'a> {
    pub query: &'a str,
    pub output: &'a str,
}

/// What an output is called where it is told of.
impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of standing query {}", self.output, self.query)
    }
}

impl Opened {
    /// Opens the destination at the end of the output, behind a position it gave before.
    pub fn open(
        id: QueryId,
        named: Named<'_>,
        link: Link,
        ids: IdScheme,
        from: Option<&Position>,
        runtime: &tokio::runtime::Handle,
    ) -> Result<Opened, ApiError> {
        let open = |DestinationLink { config, refusals, letter_schemas, hosts, files, form, .. }: &DestinationLink| {
            let (output, identity) = (named.output.to_owned(), format!("{}-{}", id.0, named.output));
            let (generation, runtime, hosts, files) = (form.generation, runtime.clone(), hosts.clone(), files.clone());
            let context = DestinationContext { output, identity, generation, runtime, hosts, files };
            let whose = named.to_string();
            let opened = destination::open(config, &whose, &context, from)?;
            let on_refused = match refusals {
                Refusals::GiveUp => OnRefused::GiveUp,
                Refusals::Fail => OnRefused::End,
                Refusals::Retry => OnRefused::Retry,
                Refusals::DeadLetter(boxes) => {
                    let mut open = DeadLetters::default();
                    let whose = format!("dead letters of {whose}");
                    for (index, (letters, schema)) in boxes.iter().zip(letter_schemas).enumerate() {
                        let identity = format!("{}-dead-{index}", context.identity);
                        let context = DestinationContext { identity, generation: Generation::V2, ..context.clone() };
                        let destination = destination::open(&letters.config, &whose, &context, None)?;
                        open.add(&whose, destination, letters.retries, (letters.form, schema.clone()));
                    }
                    OnRefused::Letters(Box::new(Letters::new(open, named, ids)))
                }
            };
            Ok((opened, on_refused))
        };
        let destination = link.destination().map(open).transpose().map_err(refused)?;
        Ok(Opened { link, destination, ids })
    }

    /// Where the destination stands, to be stored before the first result.
    pub fn position(&self) -> Position {
        self.destination.as_ref().map_or_else(Position::default, |(destination, _)| destination.position())
    }
}
