//! Versions: what holds at a tick, out of what each fact of a node became and when, in one run or several.
//!
//! A version says what a fact became, not what it was. So the newest one at or before the tick decides; and a mark that the
//! properties were cleared ends those that older runs hold. Within its own run it has become removals.

use weir_model::codec::{FactKey, same_payload};
use weir_model::mutation::{Kind, Tag};

use super::segment::{Fact, Segment};

/// The versions of a node in one piece of a run.
#[derive(Clone, Copy)]
pub struct Hit<'a> {
    /// Counts up from the oldest; two pieces of one run share it.
    pub run: u32,
    pub segment: &'a Segment,
    pub facts: &'a [Fact],
}

/// The versions of a node without the marks that its properties were cleared, which are the last; and these.
pub fn split_marks(versions: &[Fact]) -> (&[Fact], &[Fact]) {
    let marks = versions.iter().rev().take_while(|fact| fact.tag.kind() == Kind::ClearProperties).count();
    versions.split_at(versions.len() - marks)
}

/// Which facts are asked for, and when.
pub struct Asked {
    pub from: Tag,
    pub to: Tag,
    /// Of all that have such a tag, one alone then, those from the first of these to the last.
    pub keys: Option<(FactKey, FactKey)>,
    /// The last tick that counts.
    pub at: u64,
}

impl Asked {
    pub fn all(at: u64) -> Asked {
        Asked { from: Tag(0), to: Tag(u32::MAX), keys: None, at }
    }

    pub fn tag(tag: Tag, at: u64) -> Asked {
        Asked { from: tag, to: tag, keys: None, at }
    }
}

/// Hands out the version that decides each fact that holds, by tag and key, until `each` says no. The hits come oldest first.
pub fn holding<'a>(hits: &[Hit<'a>], asked: &Asked, each: &mut dyn FnMut(&'a Segment, &'a Fact) -> bool) {
    let cleared = hits.iter().rev().find(|hit| hit.clears().any(|mark| hit.time(mark) <= asked.at)).map(|hit| hit.run);
    let ended = |run: u32, fact: &Fact| fact.tag.kind() == Kind::Property && cleared.is_some_and(|cleared| cleared > run);
    if let [hit] = hits {
        // Most nodes: nothing to be put in order.
        for fact in hit.deciding(asked) {
            if fact.adds() && !each(hit.segment, fact) {
                return;
            }
        }
        return;
    }
    let mut found: Vec<(Tag, FactKey, u32, &'a Segment, &'a Fact)> = Vec::new();
    for hit in hits {
        found.extend(hit.deciding(asked).map(|fact| (fact.tag, hit.segment.key(fact), hit.run, hit.segment, fact)));
    }
    // Stable, so that the newest of a fact stays the last.
    found.sort_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
    for same in found.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1)) {
        let (.., run, segment, fact) = same[same.len() - 1];
        if fact.adds() && !ended(run, fact) && !each(segment, fact) {
            return;
        }
    }
}

impl<'a> Hit<'a> {
    fn time(&self, fact: &Fact) -> u64 {
        self.segment.time(fact)
    }

    /// The marks that the properties were cleared.
    pub fn clears(&self) -> impl Iterator<Item = &'a Fact> {
        split_marks(self.facts).1.iter()
    }

    /// The last version of each fact at or before the tick. Marks are not facts.
    fn deciding(&self, asked: &Asked) -> impl Iterator<Item = &'a Fact> {
        let Hit { segment, facts, .. } = *self;
        let at = asked.at;
        let from = &facts[facts.partition_point(|fact| fact.tag < asked.from)..];
        let mut wanted = &from[..from.partition_point(|fact| fact.tag <= asked.to)];
        if let Some((first, last)) = asked.keys {
            wanted = &wanted[wanted.partition_point(|fact| segment.key(fact) < first)..];
            wanted = &wanted[..wanted.partition_point(|fact| segment.key(fact) <= last)];
        }
        wanted
            .chunk_by(move |a, b| a.tag == b.tag && segment.key(a) == segment.key(b))
            .filter(|group| group[0].tag.kind() != Kind::ClearProperties)
            .filter_map(move |group| group[..group.partition_point(|fact| segment.time(fact) <= at)].last())
    }
}

/// What a fact, or the mark that properties were cleared, became at a tick.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    pub tick: u64,
    pub adds: bool,
    pub segment: &'a Segment,
    pub fact: &'a Fact,
}

impl Step<'_> {
    /// Whether this changes nothing after another.
    fn repeats(&self, before: &Step<'_>) -> bool {
        let same = || match self.fact.tag.kind() {
            Kind::Property | Kind::EdgeProperty => {
                same_payload(self.fact.payload, &self.segment.arena, before.fact.payload, &before.segment.arena)
            }
            _ => true,
        };
        self.adds == before.adds && (!self.adds || same())
    }
}

/// The steps of each fact of a node, fact by fact in the order of a segment, as far as they can be told apart after the
/// horizon: what repeats the step before is left out, and the end of a property by a mark is a step.
///
/// `bottom` says that nothing older was left out; otherwise the marks come too, and removals that begin.
pub fn sequences(hits: &[Hit<'_>], bottom: bool, horizon: u64, each: &mut dyn FnMut(&[Step<'_>])) {
    let mut found: Vec<(Tag, FactKey, Step<'_>)> = Vec::new();
    let mut marks: Vec<u64> = Vec::new();
    for hit in hits {
        let step = |fact| Step { tick: hit.time(fact), adds: fact.adds(), segment: hit.segment, fact };
        marks.extend(hit.clears().map(|mark| hit.time(mark)));
        found.extend(hit.facts.iter().map(|fact| (fact.tag, hit.segment.key(fact), step(fact))));
    }
    marks.sort_unstable();
    found.sort_by(|a, b| (a.0, &a.1, a.2.tick).cmp(&(b.0, &b.1, b.2.tick)));
    let mut steps: Vec<Step<'_>> = Vec::new();
    for same in found.chunk_by(|a, b| (a.0, &a.1) == (b.0, &b.1)) {
        let kind = same[0].0.kind();
        if bottom && kind == Kind::ClearProperties {
            continue;
        }
        steps.clear();
        for (at, (.., step)) in same.iter().enumerate() {
            steps.push(*step);
            if kind == Kind::Property && step.adds {
                let next = same.get(at + 1).map_or(u64::MAX, |(.., next)| next.tick);
                let mark = marks.get(marks.partition_point(|mark| *mark <= step.tick));
                steps.extend(mark.filter(|mark| **mark < next).map(|mark| Step { tick: *mark, adds: false, ..*step }));
            }
        }
        let before = steps.partition_point(|step| step.tick <= horizon).saturating_sub(1);
        steps.drain(..before);
        if bottom {
            let adds = steps.iter().position(|step| step.adds).unwrap_or(steps.len());
            steps.drain(..adds);
        }
        if kind != Kind::ClearProperties {
            // A mark that stays would end what came before it.
            let marked = |before: &Step<'_>, step: &Step<'_>| {
                let next = marks.get(marks.partition_point(|mark| *mark <= before.tick));
                !bottom && next.is_some_and(|mark| *mark <= step.tick)
            };
            steps.dedup_by(|step, before| step.repeats(before) && !marked(before, step));
        }
        each(&steps);
    }
}
