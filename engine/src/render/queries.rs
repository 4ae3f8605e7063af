//! Queries: the standing queries of one graph, as one worker keeps them.
//!
//!     change ─ routes ─> families ─ walk ─> rows ─ by query ─> gathers
//!
//! A change is offered only to the families it can concern: those that ask for the label, property or type of edge it is of.
//! Inside a family constants tell whose matches come of it. A query that has nothing to do costs nothing.

use std::sync::Arc;

use differential_dataflow::operators::arrange::TraceAgent;
use rustc_hash::{FxHashMap, FxHashSet};
use timely::scheduling::Activator;
use weir_model::mutation::{Kind, Tag};
use weir_model::plan::Atom;

use super::aside::Aside;
use super::constants::Constants;
use super::dense::SieveTable;
use super::family::Family;
use super::health::{Health, ended};
use super::maintained::{Interest, Maintained, Source};
use super::program::Program;
use super::results::{Gather, Rested, RowChange};
use super::{FamilyNumber, QueryNumber, SieveNumber, Time};
use crate::arrangement::{Layers, Published};

/// The standing queries of one graph, on one worker.
#[derive(Default)]
pub struct Queries {
    families: FxHashMap<FamilyNumber, Family>,
    /// The numbers of families, by the name of their program.
    numbers: FxHashMap<Arc<str>, FamilyNumber>,
    /// How many families there ever were.
    families_ever: u32,
    pub sieves: SieveTable,
    pub routes: Routes,
    /// Queries whose stages hear of nodes that change.
    pub listeners: Vec<Listeners>,
    installed: FxHashMap<QueryNumber, Installed>,
    /// The number the next query has, at least.
    next: QueryNumber,
    /// Changes for queries that another worker has installed already, and this one has not.
    early: Vec<RowChange>,
    /// Queries with changes that have not been answered.
    changed: Vec<QueryNumber>,
    /// Queries whose answer passes with time.
    clocked: Vec<QueryNumber>,
    /// Queries with stages at work.
    aside: FxHashMap<QueryNumber, Arc<Aside>>,
    /// What `health::ended` said when it was last looked up which queries have.
    ended: usize,
    /// Everything before this has been answered, or handed over to stages.
    upper: Time,
    /// Calls the operator that walks, so that it sees a query that came.
    pub walks: Option<Activator>,
    /// Keeps apart the ticks at which the graph may still be looked at. There while any query looks at it.
    pub held: Option<TraceAgent<Layers>>,
}

/// Queries that hear of the same changes: those that ask alike, mostly.
pub struct Listeners {
    pub interest: Arc<Interest>,
    /// Their numbers, and since when they hear.
    pub queries: Vec<(QueryNumber, Time)>,
}

struct Installed {
    gather: Gather,
    /// The families its patterns are in.
    members: Vec<(Arc<str>, Arc<Constants>)>,
}

impl Queries {
    /// Takes in a query, which changes from tick `since` on concern.
    pub fn install(&mut self, query: QueryNumber, health: &Arc<Health>, since: Time, maintained: &Maintained, gather: Gather) {
        let mut members = Vec::new();
        for (source, pattern) in (0..).zip(&maintained.sources) {
            // The name is long: all share the first one's.
            let (name, number) = match self.numbers.get_key_value(&pattern.name) {
                Some((name, number)) => (name.clone(), *number),
                None => (pattern.name.clone(), self.begin_family(pattern)),
            };
            members.push((name, pattern.constants.clone()));
            if let Some(family) = self.families.get_mut(&number) {
                family.insert(pattern.member((query, source), since, health));
            }
        }
        if let Some(interest) = &maintained.interest {
            match self.listeners.iter_mut().find(|listeners| *listeners.interest == **interest) {
                Some(listeners) => listeners.queries.push((query, since)),
                None => self.listeners.push(Listeners { interest: interest.clone(), queries: vec![(query, since)] }),
            }
        }
        if maintained.clocked {
            self.clocked.push(query);
        }
        self.installed.insert(query, Installed { gather, members });
        self.next = QueryNumber(query.0 + 1);
        self.walks.iter().for_each(Activator::activate);
        let mut early = std::mem::take(&mut self.early);
        self.push(&mut early);
    }

    fn begin_family(&mut self, pattern: &Source) -> FamilyNumber {
        let program = &pattern.program;
        let sieves: Vec<Option<SieveNumber>> = (0..program.edges.len()).map(|edge| self.sieves.number(program, edge)).collect();
        self.families_ever += 1;
        let number = FamilyNumber(self.families_ever);
        self.routes.add(number, program, &sieves);
        self.families.insert(number, Family::new(number, program.clone(), sieves));
        self.numbers.insert(pattern.name.clone(), number);
        number
    }

    pub fn remove(&mut self, query: QueryNumber) {
        let Some(installed) = self.installed.remove(&query) else { return };
        for ((name, constants), source) in installed.members.into_iter().zip(0..) {
            let Some(number) = self.numbers.get(&name).copied() else { continue };
            let Some(family) = self.families.get_mut(&number) else { continue };
            family.remove(query, source, &constants);
            if family.is_empty() {
                self.families.remove(&number);
                self.numbers.remove(&name);
                self.routes.remove(number);
                let families = &self.families;
                self.sieves.keep(|sieve| families.values().any(|family| family.sieves.contains(&Some(sieve))));
            }
        }
        self.listen_no_more(|of| of == query);
        self.changed.retain(|changed| *changed != query);
        self.clocked.retain(|clocked| *clocked != query);
        self.aside.remove(&query);
    }

    pub fn is_installed(&self, query: QueryNumber) -> bool {
        self.installed.contains_key(&query)
    }

    pub fn is_empty(&self) -> bool {
        self.installed.is_empty()
    }

    /// Changes when a query has come.
    pub fn ever(&self) -> u32 {
        self.next.0
    }

    pub fn families(&self) -> impl Iterator<Item = &Family> {
        self.families.values()
    }

    /// A family, unless its last query has gone.
    pub fn family(&self, number: FamilyNumber) -> Option<&Family> {
        self.families.get(&number)
    }

    /// Changes of rows, for the queries they belong to.
    pub fn push(&mut self, changes: &mut Vec<RowChange>) {
        let Some(first) = changes.first().map(|change| change.query) else { return };
        if changes.iter().all(|change| change.query == first) {
            return self.push_alike(changes, first);
        }
        let mut changes = changes.drain(..).peekable();
        let mut alike = Vec::new();
        while let Some(change) = changes.next() {
            let query = change.query;
            alike.push(change);
            while let Some(change) = changes.next_if(|change| change.query == query) {
                alike.push(change);
            }
            self.push_alike(&mut alike, query);
        }
    }

    /// Takes over changes of one query.
    fn push_alike(&mut self, changes: &mut Vec<RowChange>, query: QueryNumber) {
        match self.installed.get_mut(&query) {
            Some(Installed { gather, .. }) => {
                if gather.is_idle() {
                    self.changed.push(query);
                }
                gather.push(changes);
            }
            // Numbers are given in the order of installation: a smaller one has been taken away.
            None if query >= self.next => self.early.append(changes),
            None => changes.clear(),
        }
    }

    /// Every change before `frontier` has arrived: answers what is complete.
    pub fn advance(&mut self, frontier: Time, published: &Published, worker: usize) {
        if frontier <= self.upper {
            return;
        }
        self.upper = frontier;
        let ended = ended();
        if std::mem::replace(&mut self.ended, ended) != ended {
            self.let_go(frontier);
        }
        let Queries { installed, changed, clocked, aside, .. } = self;
        let turns = |query: &&QueryNumber| installed.get(query).is_some_and(|query| query.gather.may_turn(frontier));
        let turned: Vec<QueryNumber> = clocked.iter().filter(turns).filter(|query| !changed.contains(query)).copied().collect();
        changed.extend(turned);
        changed.retain(|query| {
            let Some(Installed { gather, .. }) = installed.get_mut(query) else { return false };
            gather.advance(frontier);
            if let Some(stages) = gather.aside() {
                aside.entry(*query).or_insert_with(|| stages.clone());
            }
            !gather.is_idle()
        });
        published.set_answered(worker, frontier);
    }

    /// Queries that have ended by themselves keep nothing from here on, though nothing may come for them any more, and hear of no
    /// change or time: none of them has an answer from `frontier` on.
    fn let_go(&mut self, frontier: Time) {
        let over = self.installed.iter_mut().filter_map(|(query, one)| one.gather.hears_until(frontier).then_some(*query));
        let over: FxHashSet<QueryNumber> = over.collect();
        self.listen_no_more(|query| over.contains(&query));
        self.clocked.retain(|query| !over.contains(query));
    }

    /// Some queries hear of no node any more. Without any that do, no tick has to be kept apart.
    fn listen_no_more(&mut self, is_among: impl Fn(QueryNumber) -> bool) {
        self.listeners.retain_mut(|listeners| {
            listeners.queries.retain(|(query, _)| !is_among(*query));
            !listeners.queries.is_empty()
        });
        if self.listeners.is_empty() {
            self.held = None;
        }
    }

    /// Matches of the graph at rest.
    pub fn at_rest(&mut self, query: QueryNumber, changes: &mut Vec<RowChange>) {
        match self.installed.get_mut(&query) {
            Some(Installed { gather, .. }) => gather.at_rest(changes),
            None => changes.clear(),
        }
    }

    /// The first tick at which stages may still look at the graph; None where all have what they need.
    pub fn behind(&mut self) -> Option<Time> {
        self.aside.retain(|_, stages| stages.behind().is_some());
        self.aside.values().filter_map(|stages| stages.behind()).min()
    }

    /// The graph at rest has been looked through for a query: from here on it keeps up. To be called again unless the answer is
    /// `Yes`.
    pub fn rested(&mut self, query: QueryNumber) -> Rested {
        let Some(Installed { gather, .. }) = self.installed.get_mut(&query) else { return Rested::Yes };
        let rested = gather.rested(self.upper);
        if !gather.is_rested() {
            return rested;
        }
        if !gather.is_idle() && !self.changed.contains(&query) {
            self.changed.push(query);
        }
        rested
    }

    /// Cancellations of ticks before this one are wanted.
    pub fn heed(&mut self, query: QueryNumber, until: Time) {
        if let Some(Installed { gather, .. }) = self.installed.get_mut(&query) {
            gather.heed(until);
        }
    }

    /// Whether everything before `upper` has been answered, or waits for stages or until the graph is looked through.
    pub fn is_current(&self, upper: Time) -> bool {
        self.upper >= upper
    }

    /// Whether the graph at rest has been looked through for every query.
    pub fn is_rested(&self) -> bool {
        self.installed.values().all(|installed| installed.gather.is_rested())
    }
}

/// The path of a family that begins at changes of some kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Route {
    pub family: FamilyNumber,
    pub path: u16,
    pub from: Origin,
}

/// What a path begins at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Origin {
    /// The local view of a node.
    Node,
    /// An edge that comes or goes.
    Edge,
    /// An edge of which properties are read, as it was and as it is.
    EdgeView,
}

/// Which paths a change of a fact can concern.
#[derive(Default)]
pub struct Routes {
    /// A bit for each tag that is asked for, by its hash: says of most facts at once that they concern nobody.
    asked: [u64; ASKED],
    by_tag: FxHashMap<Tag, Vec<Route>>,
    /// Routes that ask for any symbol.
    by_kind: Vec<(Kind, Route)>,
    /// Families and paths that begin at edges that begin or end to pass a sieve, by its number.
    by_sieve: FxHashMap<SieveNumber, Vec<(FamilyNumber, u16)>>,
}

const ASKED: usize = 32;

const KINDS: [Kind; 8] = [
    Kind::Label,
    Kind::Property,
    Kind::Out,
    Kind::In,
    Kind::OutParallel,
    Kind::InParallel,
    Kind::EdgeProperty,
    Kind::ClearProperties,
];

impl Routes {
    /// False for most facts that concern nobody.
    pub fn may_concern(&self, tag: Tag) -> bool {
        let (word, bit) = asked(tag);
        self.asked[word] & bit != 0 || !self.by_kind.is_empty()
    }

    pub fn each(&self, tag: Tag, mut visit: impl FnMut(Route)) {
        if let Some(routes) = self.by_tag.get(&tag) {
            routes.iter().for_each(|route| visit(*route));
        }
        self.by_kind.iter().filter(|(kind, _)| *kind == tag.kind()).for_each(|(_, route)| visit(*route));
    }

    /// Families and paths, by family.
    pub fn of_sieve(&self, sieve: SieveNumber) -> &[(FamilyNumber, u16)] {
        self.by_sieve.get(&sieve).map_or(&[], Vec::as_slice)
    }

    fn add(&mut self, family: FamilyNumber, program: &Program, sieves: &[Option<SieveNumber>]) {
        for (path, number) in program.paths.iter().zip(0..) {
            let from = match path.atom {
                Atom::Node(_) => Origin::Node,
                Atom::Edge(edge) if program.edges[edge].reads.is_empty() => Origin::Edge,
                Atom::Edge(edge) => match sieves[edge] {
                    Some(sieve) => {
                        self.by_sieve.entry(sieve).or_default().push((family, number));
                        continue;
                    }
                    None => Origin::EdgeView,
                },
            };
            let route = Route { family, path: number, from };
            match path.atom {
                Atom::Node(node) => {
                    let view = &program.nodes[node];
                    if view.must_exist {
                        self.by_kind.extend(KINDS.map(|kind| (kind, route)));
                        continue;
                    }
                    view.labels.iter().for_each(|label| self.add_tag(Tag::new(Kind::Label, *label), route));
                    view.present.iter().for_each(|key| self.add_tag(Tag::new(Kind::Property, *key), route));
                    match view.reads_all {
                        Some(_) => self.by_kind.push((Kind::Property, route)),
                        None => view.reads.iter().for_each(|(key, _)| self.add_tag(Tag::new(Kind::Property, *key), route)),
                    }
                }
                Atom::Edge(edge) => {
                    let view = &program.edges[edge];
                    let asked = if view.reads.is_empty() { 2 } else { 3 };
                    for kind in &[Kind::Out, Kind::OutParallel, Kind::EdgeProperty][..asked] {
                        if view.kinds.is_empty() {
                            self.by_kind.push((*kind, route));
                        }
                        view.kinds.iter().for_each(|symbol| self.add_tag(Tag::new(*kind, *symbol), route));
                    }
                }
            }
        }
    }

    fn add_tag(&mut self, tag: Tag, route: Route) {
        let (word, bit) = asked(tag);
        self.asked[word] |= bit;
        let routes = self.by_tag.entry(tag).or_default();
        if !routes.contains(&route) {
            routes.push(route);
        }
    }

    fn remove(&mut self, family: FamilyNumber) {
        self.by_kind.retain(|(_, route)| route.family != family);
        self.by_sieve.retain(|_, paths| {
            paths.retain(|(of, _)| *of != family);
            !paths.is_empty()
        });
        self.by_tag.retain(|_, routes| {
            routes.retain(|route| route.family != family);
            !routes.is_empty()
        });
        self.asked = [0; ASKED];
        for (word, bit) in self.by_tag.keys().map(|tag| asked(*tag)) {
            self.asked[word] |= bit;
        }
    }
}

/// Where the bit of a tag is.
fn asked(tag: Tag) -> (usize, u64) {
    let hash = tag.0.wrapping_mul(0x9E37_79B9) >> 21;
    (hash as usize % ASKED, 1 << (hash / ASKED as u32))
}

#[cfg(test)]
mod tests {
    use weir_cypher_compiler::{Options, StandingMode, compile_standing};
    use weir_model::IdScheme;

    use super::*;
    use crate::render::results::{Baseline, Outlet, Reported};
    use crate::symbols::Symbols;

    const REPORTED: Reported = Reported { cancellations_until: Time::MAX, baseline: Baseline::Known, installed: 1 };

    fn maintained(mode: StandingMode, text: &str, symbols: &Symbols) -> Maintained {
        let plan = compile_standing(text, mode, &Options::default()).map(|standing| standing.plan);
        let plan = plan.unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
        Maintained::new(&plan, symbols, IdScheme::default()).expect("it can be maintained")
    }

    /// Only what is nothing: no family, no route, no row.
    fn holds_nothing(queries: &Queries) -> bool {
        let Queries { families, numbers, sieves, routes, listeners, installed, early, changed, clocked, aside, held, .. } =
            queries;
        families.is_empty()
            && numbers.is_empty()
            && sieves.is_empty()
            && routes.by_tag.is_empty()
            && routes.by_kind.is_empty()
            && listeners.is_empty()
            && installed.is_empty()
            && early.is_empty()
            && changed.is_empty()
            && clocked.is_empty()
            && aside.is_empty()
            && held.is_none()
    }

    #[test]
    fn constants_are_no_part_of_a_program_in_any_mode() {
        let symbols = Symbols::default();
        for (mode, columns) in [
            (StandingMode::DistinctId, "DISTINCT id(n) AS id"),
            (StandingMode::MultipleValues, "n.x AS x"),
            (StandingMode::AnyQuery, "n.x AS x"),
        ] {
            let name = |constant: &str| {
                let text = format!("MATCH (n:A)-[:r]->(m) WHERE n.x = {constant} AND m.y = {constant} RETURN {columns}");
                maintained(mode, &text, &symbols).sources[0].name.clone()
            };
            assert_eq!(name("1"), name("'two'"), "{mode:?}");
        }
    }

    #[test]
    fn edges_are_kept_once_where_the_same_is_asked_of_them_and_a_text_is_nothing_but_a_text() {
        let symbols = Symbols::default();
        let sieve = |pattern: &str| {
            let text = format!("MATCH {pattern} RETURN id(b) AS b");
            let program = maintained(StandingMode::AnyQuery, &text, &symbols).sources[0].program.clone();
            let sieve = program.edges.iter().find_map(|edge| edge.sieve.as_ref()).expect("a property of an edge is asked for");
            (sieve.slot, sieve.name.clone().expect("nothing else is asked of it"))
        };
        let asked = |text: &str| sieve(&format!("(a)-[e:r]->(b) WHERE e.k = '{text}'"));
        let (slot, name) = asked("it");
        let (elsewhere, same) = sieve("(c)-[:q]->(a)-[e:r]->(b) WHERE e.k = 'it'");
        assert!(elsewhere != slot && same == name, "{elsewhere} {slot}, {same} {name}");
        for other in [format!("Slot(Slot({slot}))"), "it\")), Equal(it, Text(\"it".to_owned(), "other".to_owned()] {
            assert_eq!(asked(&other).0, slot);
            assert_ne!(asked(&other).1, name, "{other}");
        }
    }

    #[test]
    fn queries_share_what_they_can_and_leave_nothing() {
        let symbols = Symbols::default();
        let texts = [
            "MATCH (n:A) WHERE n.x = 1 RETURN n.x AS x",
            "MATCH (n:A) WHERE n.x = 'two' RETURN n.x AS x",
            "MATCH (n:A) WHERE n.x = 1 RETURN n.x AS x",
            "MATCH (n:A) WHERE n.x > 1 AND n.x < 5 RETURN n.x AS x",
            "MATCH (n:A) WHERE 7 >= n.x RETURN n.x AS x",
            "MATCH (n) RETURN properties(n) AS p",
            "MATCH (a)-[e]->(b) WHERE e.w = 1 AND a.x = 3 RETURN id(b) AS b",
            "MATCH (a:A) WHERE NOT (a)-[:r]->() RETURN id(a) AS a",
        ];
        let mut queries = Queries::default();
        for (text, number) in texts.iter().zip(0..) {
            let maintained = maintained(StandingMode::AnyQuery, text, &symbols);
            let outlet = Outlet { results: None, inbox: Arc::default(), backfill: Arc::default() };
            let health = Arc::new(Health::of_nobody(IdScheme::Uuid));
            let gather = Gather::new(&maintained, health.clone(), None, REPORTED, outlet);
            queries.install(QueryNumber(number), &health, 1, &maintained, gather);
        }
        assert_eq!(queries.numbers.len(), 5, "those with an equality, those with a range, and three of their own");
        let offered = |label: &str| {
            let mut count = 0;
            queries.routes.each(Tag::new(Kind::Label, symbols.intern(label)), |_| count += 1);
            count
        };
        assert_eq!((offered("B"), offered("A")), (1, 4), "whether a node is there at all, and three that ask for A");
        let change = |query| RowChange { row: Default::default(), time: 3, diff: 1, query: QueryNumber(query), source: 0 };
        queries.push(&mut vec![change(2), change(2), change(4)]);
        for number in [3, 0, 7, 1, 2, 6, 5, 4] {
            assert!(!holds_nothing(&queries));
            queries.remove(QueryNumber(number));
        }
        assert!(holds_nothing(&queries));
        queries.push(&mut vec![change(2)]);
        assert!(holds_nothing(&queries), "what comes late for a query that has gone is dropped");
        queries.push(&mut vec![change(8)]);
        assert!(!holds_nothing(&queries), "and what comes early is kept");
    }

    #[test]
    fn one_that_looks_through_the_graph_is_current_and_one_that_has_ended_hears_of_nothing() {
        let symbols = Symbols::default();
        let text = "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE b.at > timestamp() - 1000 } RETURN id(a) AS a";
        let maintained = maintained(StandingMode::AnyQuery, text, &symbols);
        let (mut queries, published) = (Queries::default(), Published::new(1));
        let healths: Vec<Arc<Health>> = (0..2).map(|_| Arc::new(Health::of_nobody(IdScheme::Uuid))).collect();
        for (number, health) in (0..).zip(&healths) {
            let outlet = Outlet { results: None, inbox: Arc::default(), backfill: Arc::default() };
            let gather = Gather::new(&maintained, health.clone(), None, REPORTED, outlet);
            queries.install(QueryNumber(number), health, 1, &maintained, gather);
        }
        queries.advance(5, &published, 0);
        assert!(queries.is_current(5) && !queries.is_rested() && !queries.is_current(6));
        healths[0].fail("it costs too much");
        let told = |listeners: &Listeners| -> Vec<(u32, Time)> {
            listeners.queries.iter().map(|(query, since)| (query.0, *since)).collect()
        };
        let hear = |queries: &Queries| -> Vec<Vec<(u32, Time)>> { queries.listeners.iter().map(told).collect() };
        assert_eq!(hear(&queries), [[(0, 1), (1, 1)]], "they hear of the same");
        queries.advance(6, &published, 0);
        assert_eq!(hear(&queries), [[(1, 1)]]);
        assert!(!queries.clocked.contains(&QueryNumber(0)));
        assert!((0..2).all(|query| queries.rested(QueryNumber(query)) == Rested::Yes) && queries.is_rested());
    }

    #[test]
    fn only_what_is_looked_up_concerns_a_query_whatever_else_it_asks() {
        let symbols = Symbols::default();
        let concerned = |condition: &str, kind: Kind, name: &str| {
            let text =
                format!("MATCH (d:Device) WHERE NOT EXISTS {{ MATCH (d)-[:SEEN]->(e) WHERE {condition} }} RETURN d.name AS name");
            let interest = maintained(StandingMode::AnyQuery, &text, &symbols).interest.expect("it looks something up");
            interest.concerns(Tag::new(kind, symbols.intern(name)))
        };
        for condition in ["e.at > 3", "e.at > timestamp() - 300000", "datetime(e.at) > datetime('2026-01-01T00:00:00Z')"] {
            assert!(concerned(condition, Kind::Property, "at") && concerned(condition, Kind::Out, "SEEN"), "{condition}");
            assert!(!concerned(condition, Kind::Label, "Log") && !concerned(condition, Kind::Property, "text"), "{condition}");
        }
        assert!(concerned("labels(e) = ['Log']", Kind::Label, "Log") && concerned("properties(e).at > 3", Kind::Property, "at"));
    }
}
