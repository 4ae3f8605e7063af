//! Spent: how long a worker walks for each family over one batch. All queries of a graph wait for what a pattern costs, so one
//! that keeps a worker busy is told in the log of the process, with the names of its queries.
//!
//! The clock is looked at after a visit of a family, or of several where they are short: a visit costs the count of it, and a
//! step of a walk nothing.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use crate::render::FamilyNumber;
use crate::render::family::Family;
use crate::render::health::Health;
use crate::render::queries::Queries;
use crate::render::walk::{Findings, Ground, Walk};

/// A family that a worker walks longer for than this, of one batch, is told.
const BUSY: Duration = Duration::from_secs(1);

/// After a visit that takes longer than this, the clock is looked at for each of the next `VISITS_WARY` visits: the next one like
/// it may be one in thousands, and among others it cannot be told whose it is.
const LONG: Duration = Duration::from_millis(1);
const VISITS_WARY: i32 = 4096;

/// After this many looks that found nothing long, there is one for `VISITS_CALM` visits.
const LOOKS_CALM: i32 = 8;
const VISITS_CALM: u32 = 16;

/// After a visit of at least this many steps the clock is looked at in any case.
const STEPS_MANY: u64 = 1024;

/// At most this many queries are named.
const NAMES_MAX: usize = 3;

/// What has been spent on the batch that a worker is at.
pub(super) struct Spent {
    looked: Cell<Instant>,
    /// Looks in a row that found nothing long; below zero after one that did.
    calm: Cell<i32>,
    /// Visits since the last look.
    visits: Cell<u32>,
    /// The family of the last visit.
    last: Cell<FamilyNumber>,
    /// Whether the visits since the last look were of several families.
    is_mixed: Cell<bool>,
    by_family: RefCell<FxHashMap<FamilyNumber, Duration>>,
}

impl Spent {
    pub fn new() -> Spent {
        Spent {
            looked: Cell::new(Instant::now()),
            calm: Cell::new(0),
            visits: Cell::new(0),
            last: Cell::new(FamilyNumber::NONE),
            is_mixed: Cell::new(false),
            by_family: RefCell::default(),
        }
    }

    /// The next batch.
    pub fn begin(&self) {
        self.looked.set(Instant::now());
        self.calm.set(self.calm.get().min(0));
        self.visits.set(0);
        self.is_mixed.set(false);
        self.by_family.borrow_mut().clear();
    }

    /// Walks for a family.
    pub fn visit<'a>(&self, family: &'a Family, ground: Ground<'a>, findings: &mut Findings, go: impl FnOnce(&mut Walk<'a, '_>)) {
        let mut walk = Walk::new(family, ground, findings);
        go(&mut walk);
        self.visited(family, walk.steps.taken());
    }

    /// A family was visited, and `steps` steps were taken.
    fn visited(&self, family: &Family, steps: u64) {
        let visits = self.visits.get() + 1;
        self.visits.set(visits);
        if self.last.replace(family.number) != family.number && visits > 1 {
            self.is_mixed.set(true);
        }
        if visits >= VISITS_CALM || self.calm.get() < LOOKS_CALM || steps >= STEPS_MANY {
            self.look(family, steps);
        }
    }

    /// The batch has been walked.
    pub fn end(&self, queries: &Queries) {
        if self.visits.get() > 0
            && let Some(family) = queries.family(self.last.get())
        {
            self.look(family, 0);
        }
    }

    /// What has been spent since the last look was on this family. Where several were visited, and the last one in few steps, a
    /// long time may have been any other's, and is nobody's: better none is named than one that costs nothing.
    fn look(&self, family: &Family, steps: u64) {
        let now = Instant::now();
        let since = now.saturating_duration_since(self.looked.replace(now));
        self.calm.set(if since >= LONG { -VISITS_WARY } else { self.calm.get() + 1 });
        self.visits.set(0);
        if self.is_mixed.replace(false) && since >= LONG && steps < STEPS_MANY {
            return;
        }
        let mut by_family = self.by_family.borrow_mut();
        let spent = by_family.entry(family.number).or_default();
        *spent += since;
        if *spent >= BUSY {
            tell(family, *spent);
        }
    }
}

/// Names the queries that have not ended: those that have say so themselves.
#[cold]
fn tell(family: &Family, spent: Duration) {
    let mut healths = family.all().map(|member| &member.health).filter(|health| !health.is_over());
    let Some(first) = healths.next().filter(|first| first.may_tell_busy()) else { return };
    let names = names(&at_work(family));
    tracing::warn!(
        query = names.as_str(),
        text = first.text(),
        "the pattern of a standing query keeps a worker busy, for {spent:.1?} so far with what one batch brought: the results of all standing queries of the graph wait for it. Narrow the pattern, or give it less at a time"
    );
}

/// The queries of a family, each once, however often it has the pattern.
fn at_work(family: &Family) -> Vec<&Arc<Health>> {
    let mut seen = FxHashSet::default();
    let healths = family.all().map(|member| &member.health);
    healths.filter(|health| !health.is_over() && seen.insert(Arc::as_ptr(health))).collect()
}

fn names(queries: &[&Arc<Health>]) -> String {
    let mut names: Vec<String> = queries.iter().take(NAMES_MAX).map(|health| health.called()).collect();
    if queries.len() > NAMES_MAX {
        names.push(format!("{} more", queries.len() - NAMES_MAX));
    }
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::{IdScheme, NodeId, QueryId};

    use super::*;
    use crate::render::QueryNumber;
    use crate::render::maintained::Maintained;
    use crate::symbols::Symbols;

    fn family(number: u32, text: &str, health: &Arc<Health>) -> Family {
        let plan = compile_standing(text, StandingMode::AnyQuery, &Options::default()).expect("it is read").plan;
        let maintained = Maintained::new(&plan, &Symbols::default(), IdScheme::default()).expect("it can be maintained");
        let source = &maintained.sources[0];
        let mut family = Family::new(FamilyNumber(number), source.program.clone(), Vec::new());
        family.insert(source.member((QueryNumber(0), 0), 0, health));
        family
    }

    fn spent_on(spent: &Spent, family: u32) -> Duration {
        spent.by_family.borrow()[&FamilyNumber(family)]
    }

    /// As if the last look had been `time` ago.
    fn pass(spent: &Spent, time: Duration) {
        let before = Instant::now().checked_sub(time).expect("the machine runs for longer");
        spent.looked.set(before);
    }

    #[test]
    fn a_pattern_that_keeps_a_worker_busy_is_told_and_no_other_and_not_at_each_look() {
        let text = "MATCH (a:A) RETURN a.x AS x";
        let health = |name: &str| Arc::new(Health::new(QueryId(NodeId::new(1, 2)), text.into(), IdScheme::Uuid).named(name));
        let (cheap, costly) = (health("cheap"), health("costly"));
        let (of_cheap, of_costly) = (family(1, text, &cheap), family(2, text, &costly));
        let spent = Spent::new();
        let part = BUSY * 2 / 3;
        // Not in one batch.
        for _ in 0..3 {
            spent.begin();
            pass(&spent, part);
            spent.visited(&of_costly, 1);
        }
        assert!(spent_on(&spent, 2) < BUSY);
        spent.begin();
        for _ in 0..2 {
            spent.visited(&of_cheap, 1);
            pass(&spent, part);
            spent.visited(&of_costly, 1);
        }
        assert!(spent_on(&spent, 2) >= BUSY && spent_on(&spent, 1) < BUSY);
        assert!(!costly.may_tell_busy(), "it has just been told");
        assert!(cheap.may_tell_busy(), "it has not been told");
        assert_eq!((costly.called(), health("").called()), ("costly".to_owned(), NodeId::new(1, 2).to_string()));
    }

    #[test]
    fn queries_are_counted_and_not_how_often_they_have_the_pattern() {
        let text = "MATCH (a:A) RETURN a.x AS x";
        let health = |name: &str| Arc::new(Health::of_nobody(IdScheme::default()).named(name));
        let healths = ["a", "b", "a", "c", "b", "a", "d", "e", "a"].map(|name| (name, health(name)));
        let plan = compile_standing(text, StandingMode::AnyQuery, &Options::default()).expect("it is read").plan;
        let maintained = Maintained::new(&plan, &Symbols::default(), IdScheme::default()).expect("it can be maintained");
        let source = &maintained.sources[0];
        let mut family = Family::new(FamilyNumber::NONE, source.program.clone(), Vec::new());
        for (number, (name, _)) in (0..).zip(&healths) {
            let query = (0..).zip(&healths).find(|(_, (other, _))| other == name).expect("it is one of them");
            family.insert(source.member((QueryNumber(query.0), number), 0, &query.1.1));
        }
        assert_eq!(names(&at_work(&family)), "a, b, c, 2 more");
        assert_eq!(names(&at_work(&family)[..3]), "a, b, c");
    }

    #[test]
    fn the_clock_is_not_looked_at_for_each_of_many_short_visits() {
        let health = Arc::new(Health::of_nobody(IdScheme::default()));
        let text = "MATCH (a:A) RETURN a.x AS x";
        let (one, other) = (family(1, text, &health), family(3, text, &health));
        let spent = Spent::new();
        spent.begin();
        spent.calm.set(LOOKS_CALM);
        pass(&spent, BUSY);
        (1..VISITS_CALM).for_each(|_| spent.visited(&one, 1));
        assert!(spent.by_family.borrow().is_empty());
        spent.visited(&one, STEPS_MANY);
        assert!(spent_on(&spent, 1) >= BUSY, "a visit of many steps ends with a look");
        assert_eq!(spent.calm.get(), -VISITS_WARY, "and after a long one it is looked at each time");
        spent.calm.set(LOOKS_CALM);
        pass(&spent, BUSY);
        spent.visited(&other, 1);
        assert!(!spent.by_family.borrow().contains_key(&FamilyNumber(3)));
        spent.end(&Queries::default());
        assert!(!spent.by_family.borrow().contains_key(&FamilyNumber(3)), "its queries have gone");
    }

    #[test]
    fn a_long_visit_is_not_put_down_to_those_that_come_behind_it() {
        let health = Arc::new(Health::of_nobody(IdScheme::default()));
        let text = "MATCH (a:A) RETURN a.x AS x";
        let (one, other) = (family(1, text, &health), family(2, text, &health));
        let spent = Spent::new();
        spent.begin();
        spent.calm.set(LOOKS_CALM);
        pass(&spent, BUSY);
        spent.visited(&one, 1);
        (1..VISITS_CALM).for_each(|_| spent.visited(&other, 1));
        assert!(spent.visits.get() == 0 && spent.by_family.borrow().is_empty(), "nobody knows whose it was");
        // From there on it is known, and also in what comes next.
        spent.begin();
        (0..2 * LOOKS_CALM).for_each(|_| spent.visited(&other, 1));
        pass(&spent, BUSY);
        spent.visited(&one, 1);
        spent.visited(&other, 1);
        assert!(spent_on(&spent, 1) >= BUSY && spent_on(&spent, 2) < BUSY);
    }
}
