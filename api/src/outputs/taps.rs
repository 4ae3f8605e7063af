//! Taps: what flows through an output, for whoever listens. They outlive its definition: who listens goes on with what
//! takes its place.

use std::sync::Arc;

use weir_connectors::{Encoder, Envelope, Generation};
use weir_model::IdScheme;

use super::{DestinationLink, Link, Sent};
use crate::events::Hub;

/// Where one listens to an output, whatever its definition.
#[derive(Default)]
pub struct Hubs {
    /// Behind the filter and the transformation.
    pub before: Hub,
    /// Behind the query that enriches, too: what destinations get.
    pub after: Hub,
}

impl Hubs {
    pub fn close(&self) {
        self.before.close();
        self.after.close();
    }
}

/// What one definition lets them hear.
pub struct Taps {
    hubs: Arc<Hubs>,
    envelope: Envelope,
    positive_only: bool,
    enriched: bool,
    ids: IdScheme,
}

impl Taps {
    pub fn of(link: &Link, hubs: Arc<Hubs>, ids: IdScheme) -> Taps {
        let (envelope, positive_only, enriched) = match link {
            Link::Destination(DestinationLink { form, .. }) => (form.envelope, form.positive_only, false),
            Link::Query(query) => (query.structure, query.positive_only, query.next.is_some()),
        };
        Taps { hubs, envelope, positive_only, enriched, ids }
    }

    /// Results as they come.
    pub fn show(&self, results: &[Sent]) {
        self.tell(&self.hubs.before, self.envelope, results);
        if !self.enriched {
            self.tell(&self.hubs.after, self.envelope, results);
        }
    }

    /// Whether somebody listens to rows of the query.
    pub fn hears_enriched(&self) -> bool {
        self.enriched && self.hubs.after.is_heard()
    }

    pub fn show_enriched(&self, rows: &[Sent]) {
        self.tell(&self.hubs.after, Envelope::Bare, rows);
    }

    fn tell(&self, hub: &Hub, envelope: Envelope, items: &[Sent]) {
        if hub.is_heard() {
            let encoder = Encoder { envelope, generation: Generation::V2, ids: self.ids };
            items.iter().filter(|item| item.positive || !self.positive_only).for_each(|item| hub.send(item.live(&encoder)));
        }
    }
}
