//! An output of a running standing query is given another definition: it goes on where the one before it stood.
//!
//! Each definition has a frontier of its own in the engine, written before the definition is: so after a crash there is the old
//! one with its frontier and position, or the new one with its own.

use std::sync::Arc;
use std::time::Instant;

use super::{DROP_PATIENCE, Query, StandingQueries, frontier, lock};
use crate::error::ApiError;
use crate::outputs::{Lane, Link, Opened};
use crate::wire::standing::{Output, StandingSettings};

impl StandingQueries {
    /// Gives the output of that name, or the workflow of that name, another definition. False when there is none.
    pub fn change_output(&self, query: &Arc<Query>, name: &str, new: Vec<(String, Output)>) -> Result<bool, ApiError> {
        let _one = lock(&self.changing);
        let settings = query.settings();
        let is_meant = |(other, output): &(String, Output)| other == name || output.workflow() == Some(name);
        let (old, kept) = settings.outputs.iter().cloned().partition::<Vec<_>, _>(is_meant);
        if old.is_empty() {
            return Ok(false);
        }
        let mut links = self.links(&query.graph, &kept, &new)?;
        // Of a workflow, destinations that stand at the same place change into one another; others come, or go.
        for (own, before) in &old {
            match links.iter().position(|(other, _)| other == own) {
                Some(index) => {
                    let (_, link) = links.swap_remove(index);
                    let after = new.iter().find(|(other, _)| other == own).map_or(before, |(_, output)| output);
                    self.exchange(query, own, (before, after), link)?;
                }
                None => self.remove_one(query, own)?,
            }
        }
        if !links.is_empty() {
            let is_added = |(other, _): &(String, Output)| links.iter().any(|(own, _)| own == other);
            let added = new.into_iter().filter(is_added).collect();
            self.add_linked(query, added, links)?;
        }
        Ok(true)
    }

    fn exchange(&self, query: &Arc<Query>, name: &str, (before, after): (&Output, &Output), link: Link) -> Result<(), ApiError> {
        let Some(lane) = query.lanes().into_iter().find(|lane| lane.name == name) else {
            return Err(ApiError::absent("output", name));
        };
        let open = |position| Opened::open((query.id, &query.name), name, link, query.graph.ids(), position, &self.runtime);
        let (early, late) = match touches(before, after) {
            // What cannot be opened disturbs nothing.
            false => (Some(open(None)?), None),
            true => (None, Some(open)),
        };
        // On all ways out of here, also where the old one is opened again.
        let takes = lane.running().is_some_and(|running| running.failure().is_none());
        let _changing = takes.then(|| Changing::begin(query, &lane));
        lane.close(Instant::now() + DROP_PATIENCE);
        // What the old one reports from here on is not heard: all that it has not reported is for the new one.
        lane.begin();
        let old = query.frontier(name);
        let Some((from, position)) = query.installed().delivered(&old) else { return Err(ApiError::absent("output", name)) };
        let opened = if lane.has_lost() {
            tracing::warn!(
                query = query.name,
                output = name,
                "too many results have come since the output ended: it begins when weir starts again"
            );
            Ok(None)
        } else {
            let position = Some(&position).filter(|position| !position.0.is_empty());
            late.map(|open| open(position)).transpose().map(|late| late.or(early))
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(self.go_back(query, &lane, before, error)),
        };
        let count = lock(&query.changes).get(name).copied().unwrap_or_default() + 1;
        let mut settings = query.settings();
        settings.outputs.iter_mut().filter(|(other, _)| other == name).for_each(|(_, output)| *output = after.clone());
        let position = opened.as_ref().map(Opened::position).unwrap_or_default();
        let stored = self.store_change(query, (name, count), &settings, (from, position));
        if let Err(error) = stored {
            drop(opened);
            return Err(self.go_back(query, &lane, before, error));
        }
        *lock(&query.settings) = settings;
        query.installed().remove_output(&old);
        opened.map_or(Ok(()), |opened| query.start_output(&lane, opened))
    }

    fn store_change(
        &self,
        query: &Query,
        (name, count): (&str, u64),
        settings: &StandingSettings,
        (from, position): (weir_model::Tick, weir_model::Position),
    ) -> Result<(), ApiError> {
        let new = frontier(name, Some(count));
        let before = lock(&query.changes).insert(name.to_owned(), count);
        let stored = query.installed().put_output(&new, from, position).map_err(ApiError::from);
        let stored = stored.and_then(|()| self.store_installed(query, settings));
        if stored.is_err() {
            query.installed().remove_output(&new);
            let mut changes = lock(&query.changes);
            match before {
                Some(before) => changes.insert(name.to_owned(), before),
                None => changes.remove(name),
            };
        }
        stored
    }

    /// The definition that was there takes the results again.
    fn go_back(&self, query: &Arc<Query>, lane: &Arc<Lane>, before: &Output, error: ApiError) -> ApiError {
        let opened = self.open_again(query, lane, before);
        if let Err(worse) = opened.and_then(|opened| query.start_output(lane, opened)) {
            self.park(query, lane, &format!("the output was not changed, and cannot be opened as it was: {worse}"));
        }
        error
    }
}

/// An output that takes results is changed, until this is dropped: what waits for it still holds ingest, and is not let go of.
struct Changing<'a>(&'a Query, &'a Lane);

impl<'a> Changing<'a> {
    fn begin(query: &'a Query, lane: &'a Lane) -> Changing<'a> {
        lane.set_changing(true);
        Changing(query, lane)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.1.set_changing(false);
        // Where none runs now, ingest need not wait for it; and a query that rests would not tell.
        self.0.weigh();
    }
}

/// Whether two definitions may be of one destination, which only one can have open. A position, which only files have, is then
/// one in the same file.
fn touches(before: &Output, after: &Output) -> bool {
    let place = |output: &Output| match output.end() {
        Output::Destination(to) => {
            let stored = to.config.stored();
            Some((stored["type"].clone(), stored["path"].clone()))
        }
        _ => None,
    };
    place(before).is_some_and(|of_before| place(after) == Some(of_before))
}
