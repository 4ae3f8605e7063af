//! An output of a running standing query is given another definition: it goes on where the one before it stood. All destinations
//! of a workflow change together, or none of them does.
//!
//!     open ─> end the old ones ─> open what they had ─> store, in one write ─> start the new ones
//!      └ the old go on, untouched           └──────────────┴ the old are opened again, where they stood
//!
//! Each definition has a frontier of its own in the engine, written before the definition is: so after a crash there are the old
//! ones with their frontiers and positions, or the new ones with theirs. Stored only when the old ones have ended, because where
//! the new ones begin is known then: begun earlier, they would deliver once more what the old ones still did.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value as Json;
use weir_connectors::DestinationConfig;
use weir_model::Position;

use super::check::check_free;
use super::parked::position_of;
use super::query::frontier;
use super::{DROP_PATIENCE, Query, StandingQueries, lock};
use crate::error::ApiError;
use crate::outputs::{Lane, Link, Named, Opened};
use crate::wire::standing::Output;

/// What is to become of the outputs of one name.
struct Change<'a> {
    query: &'a Arc<Query>,
    name: &'a str,
    old: Vec<Old>,
    /// A new output with the name of an old one takes its place. Old ones without a new one go.
    new: &'a [(String, Output)],
}

/// An output that is there, and where its results lie.
struct Old {
    lane: Arc<Lane>,
    output: Output,
}

impl StandingQueries {
    /// Gives the output of that name, or the workflow of that name, another definition. False when there is none; an error leaves
    /// all of it as it was.
    pub fn change_output(&self, query: &Arc<Query>, name: &str, new: Vec<(String, Output)>) -> Result<bool, ApiError> {
        let is_meant = |(other, output): &(String, Output)| other == name || output.workflow() == Some(name);
        let parts = || query.settings().outputs.into_iter().partition::<Vec<_>, _>(is_meant);
        let (old, kept) = parts();
        if old.is_empty() {
            return Ok(false);
        }
        // What is looked up for the new ones may take seconds, and nobody else should wait for that.
        let links = self.links(&query.graph, &kept, &new).map_err(|error| stays(name, &[], error))?;
        let _one = self.turn(query, "given another output")?;
        let (old, kept) = parts();
        if old.is_empty() {
            return Ok(false);
        }
        check_free(&kept, &new).map_err(|error| stays(name, &[], error))?;
        let change = Change { query, name, old: with_lanes(query, old)?, new: &new };
        let claimed: Vec<Claim> = change.old.iter().flat_map(|old| claims(&old.output)).collect();
        let (late, early) = links.into_iter().partition::<Vec<_>, _>(|(own, _)| change.waits(own, &claimed));
        // What cannot be opened disturbs nothing.
        let opened = self.open_all((query.id, &query.name), query.graph.ids(), &new, early);
        let mut opened = opened.map_err(|error| stays(name, &[], error))?;
        // On all ways out of here, also where the old ones are opened again.
        let takes = |old: &&Old| old.lane.running().is_some_and(|running| running.failure().is_none());
        let _changing: Vec<_> = change.old.iter().filter(takes).map(|old| Changing::begin(query, &old.lane)).collect();
        change.end_old();
        let changed = self.open_late(&change, late, &mut opened).and_then(|()| self.store_change(&change, &opened));
        if let Err(error) = changed {
            // A file that it has is one that an old output gets back.
            drop(opened);
            return Err(self.go_back(&change, error));
        }
        self.start_new(&change, opened);
        Ok(true)
    }

    /// Opens what could not be while the old ones were there.
    fn open_late(
        &self,
        change: &Change<'_>,
        late: Vec<(String, Link)>,
        opened: &mut Vec<(String, Opened)>,
    ) -> Result<(), ApiError> {
        let query = change.query;
        for (name, link) in late {
            let old = change.before(&name);
            if old.is_some_and(|old| old.lane.has_lost()) {
                continue;
            }
            let position = old.and_then(|old| change.position(old));
            let named = Named { query: &query.name, output: &name };
            let output = Opened::open(query.id, named, link, query.graph.ids(), position.as_ref(), &self.runtime)?;
            opened.push((name, output));
        }
        opened.sort_by_key(|(name, _)| change.new.iter().position(|(other, _)| other == name));
        Ok(())
    }

    /// What a crash leaves is all of the old before this returns, and all of the new from then on.
    fn store_change(&self, change: &Change<'_>, opened: &[(String, Opened)]) -> Result<(), ApiError> {
        let (query, installed) = (change.query, change.query.installed());
        let gone: Vec<_> = change.old.iter().map(|old| query.frontier(&old.lane.name)).collect();
        let before = lock(&query.changes).clone();
        let mut changes = before.clone();
        // Of each new one its frontier, and where it begins.
        let mut begun = Vec::with_capacity(change.new.len());
        for (name, _) in change.new {
            let at = opened.iter().find(|(own, _)| own == name).map(|(_, output)| output.position());
            let Some(old) = change.before(name) else {
                begun.push((query.frontier(name), query.graph.next(), at.unwrap_or_default()));
                continue;
            };
            let Some((from, _)) = installed.delivered(&query.frontier(name)) else {
                return Err(ApiError::absent("output", name));
            };
            // One that begins when weir starts again begins where a destination that stays the same stood.
            let at = at.filter(|_| !old.lane.has_lost()).or_else(|| change.position(old)).unwrap_or_default();
            let count = changes.entry(name.clone()).or_default();
            *count += 1;
            begun.push((frontier(name, Some(*count)), from, at));
        }
        let mut settings = query.settings();
        settings.outputs = settings.outputs.into_iter().filter_map(|output| change.after(output)).collect();
        settings.outputs.extend(change.new.iter().filter(|(name, _)| change.before(name).is_none()).cloned());
        *lock(&query.changes) = changes;
        let put = begun.iter().try_for_each(|(place, from, at)| installed.put_output(place, *from, at.clone()));
        let stored = put.map_err(ApiError::from).and_then(|()| self.store_installed(query, &settings));
        if let Err(error) = stored {
            begun.iter().for_each(|(place, ..)| installed.remove_output(place));
            *lock(&query.changes) = before;
            return Err(error);
        }
        *lock(&query.settings) = settings;
        gone.iter().for_each(|place| installed.remove_output(place));
        Ok(())
    }

    /// The new ones take the results. What cannot begin now is what the query has all the same, and is tried again.
    fn start_new(&self, change: &Change<'_>, opened: Vec<(String, Opened)>) {
        let query = change.query;
        for Old { lane, .. } in &change.old {
            if change.definition(&lane.name).is_none() {
                query.close_outputs(|name| name == lane.name);
            } else if lane.has_lost() {
                tracing::warn!(
                    query = query.name,
                    output = lane.name,
                    "too many results have come since the output ended: it begins when weir starts again"
                );
            }
        }
        // All lanes before the first output: with that, results are handed out to those there are.
        let lane = |name: &str| change.before(name).map_or_else(|| query.add_lane(name), |old| old.lane.clone());
        let lanes: Vec<_> = opened.iter().map(|(name, _)| lane(name)).collect();
        for (lane, (_, output)) in lanes.iter().zip(opened) {
            if lane.has_lost() {
                continue;
            }
            if let Err(error) = query.start_output(lane, output) {
                self.park(query, lane, &format!("the output was changed, and cannot be started: {error}"));
            }
        }
    }

    /// The definitions that were there take the results again.
    fn go_back(&self, change: &Change<'_>, error: ApiError) -> ApiError {
        let (query, mut parked) = (change.query, Vec::new());
        // Where results were let go of, they come when weir starts again, and nothing before them.
        for Old { lane, output } in change.old.iter().filter(|old| !old.lane.has_lost()) {
            let opened = self.open_again(query, lane, output);
            if let Err(worse) = opened.and_then(|opened| query.start_output(lane, opened)) {
                self.park(query, lane, &format!("the output was not changed, and cannot be opened as it was: {worse}"));
                parked.push(lane.name.as_str());
            }
        }
        stays(change.name, &parked, error)
    }
}

impl Change<'_> {
    fn before(&self, name: &str) -> Option<&Old> {
        self.old.iter().find(|old| old.lane.name == name)
    }

    fn definition(&self, name: &str) -> Option<&Output> {
        self.new.iter().find(|(own, _)| own == name).map(|(_, output)| output)
    }

    /// What becomes of an output of the query.
    fn after(&self, (name, output): (String, Output)) -> Option<(String, Output)> {
        match self.before(&name) {
            None => Some((name, output)),
            Some(_) => self.definition(&name).cloned().map(|new| (name, new)),
        }
    }

    /// Where the destination stands that an old one and the new one in its place share.
    fn position(&self, old: &Old) -> Option<Position> {
        let new = self.definition(&old.lane.name)?;
        if touches(&old.output, new) { position_of(self.query, &old.lane) } else { None }
    }

    /// Whether a new one can only be opened when the old ones have ended: one of them has what it needs, or has yet to say behind
    /// which position it begins. Opened early otherwise, so that what is wrong with it is known before anything has ended.
    fn waits(&self, name: &str, claimed: &[Claim]) -> bool {
        self.before(name).is_some_and(|old| self.position(old).is_some())
            || self.definition(name).is_some_and(|new| claims(new).iter().any(|claim| claimed.contains(claim)))
    }

    /// Ends the old ones, which deliver what they have as far as the time allows. What they report from here on is not heard: all
    /// that they have not reported is for the new ones.
    fn end_old(&self) {
        let deadline = Instant::now() + DROP_PATIENCE;
        // Those that have waited for an answer for long come last: the others need not wait for them.
        let mut lanes: Vec<&Arc<Lane>> = self.old.iter().map(|old| &old.lane).collect();
        lanes.sort_by_cached_key(|lane| Reverse(lane.end_by(DROP_PATIENCE)));
        for lane in lanes {
            // Those that are late end together, not one after another.
            if Instant::now() >= deadline {
                self.old.iter().for_each(|late| late.lane.give_up());
            }
            lane.close(deadline);
            lane.begin();
        }
    }
}

/// The outputs, each with its lane. A query that was deleted meanwhile has none.
fn with_lanes(query: &Query, outputs: Vec<(String, Output)>) -> Result<Vec<Old>, ApiError> {
    let lanes = query.lanes();
    let with_lane = |(name, output): (String, Output)| {
        let lane = lanes.iter().find(|lane| lane.name == name).cloned();
        lane.map(|lane| Old { lane, output }).ok_or_else(|| ApiError::absent("output", &name))
    };
    outputs.into_iter().map(with_lane).collect()
}

/// Why nothing was changed. `parked` are those of the old ones that could not be opened again.
fn stays(name: &str, parked: &[&str], error: ApiError) -> ApiError {
    let waits = match parked.is_empty() {
        true => String::new(),
        false => {
            format!(" ('{}' could not be opened again yet: its results wait, and it is tried until it can)", parked.join("', '"))
        }
    };
    let told = |reason: String| format!("The output '{name}' stays as it was{waits}: {reason}");
    match error {
        ApiError::Bad(reasons) => ApiError::Bad(reasons.into_iter().map(told).collect()),
        ApiError::Decode(reasons) => ApiError::Decode(reasons.into_iter().map(told).collect()),
        ApiError::Failed(reason) => ApiError::Failed(told(reason)),
        other => other,
    }
}

/// An output is started, or one that takes results is changed, until this is dropped: what waits for it holds ingest, and is not
/// let go of.
pub(super) struct Changing<'a>(&'a Query, &'a Lane);

impl<'a> Changing<'a> {
    pub(super) fn begin(query: &'a Query, lane: &'a Lane) -> Changing<'a> {
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

/// Whether two definitions may be of one destination. A position, which files and buckets have, is then one in the same.
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

/// Something that one output at a time can have.
type Claim = (&'static str, Json);

/// What an output has alone while it is open, with its dead letters: files, ports, and the name under which it commits.
fn claims(output: &Output) -> Vec<Claim> {
    let Output::Destination(to) = output.end() else { return Vec::new() };
    let of = |config: &Arc<dyn DestinationConfig>| {
        let stored = config.stored();
        let named = ["path", "port"].map(|key| (key, stored[key].clone()));
        let commits = config.commits_with_results().then_some(("commits", Json::Null));
        named.into_iter().filter(|(_, value)| !value.is_null()).chain(commits).collect::<Vec<Claim>>()
    };
    let boxes = to.refusals.boxes().iter().map(|letters| &letters.config);
    std::iter::once(&to.config).chain(boxes).flat_map(of).collect()
}
