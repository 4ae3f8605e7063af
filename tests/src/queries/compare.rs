//! Each query answered four ways over the same graph: by the engine with the plan of the compiler, by the evaluator with the
//! plan as written, by the reference, and, where it can be maintained, by what a standing query has reported up to each tick.
//! Some worlds have a clock, which stands still but where it is driven: every millisecond of it is a tick to compare. Some begin
//! again and again, from the log alone or from a checkpoint and what was logged since. Beside each is a smaller one, whose nodes
//! hold what is hard to compare.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use weir_cypher_compiler::{Options as CompileOptions, StandingMode, StandingPlan, compile, compile_plainly, compile_standing};
use weir_engine::evaluate::{Environment, Limits, Prepared, evaluate};
use weir_engine::reference::{Question, ReferenceGraph, pass_to};
use weir_engine::store::{InMemory, RocksDb, RocksDbOptions, Store};
use weir_engine::{Engine, EngineError, Graph, GraphOptions, HubBounds, Options, QueryOptions, checkpoint};
use weir_model::expression::FailureKind;
use weir_model::{Clock, Failure, Mutations, NodeId, Plan, QueryId, Tick, Value};

use super::forms::FORMS;
use super::graph::{BEGIN, History, MIXED_KEYS, MOMENT_KEYS, Record};
use super::maintained::{Counted, Watched};
use super::outcome::{Difference, Sort, Tally};
use super::replaced::Successor;
use super::setting::{Baseline, Setting};
use super::text::{Query, parameters, query_of_form, random_clocked_query, random_mixed_query, random_query};
use crate::random::Random;

/// Queries that share a graph: a graph costs more than a query.
const QUERIES_PER_WORLD: usize = 40;
const RECORDS: usize = 60;
/// What the engine gets at once; what is maintained is compared at each record of it.
const BATCH_SIZES: &[usize] = &[6, 6, 6, 1, 2, 15, 60];
/// Some worlds live long, so that batches can be large.
const LONG_WORLDS_ONE_IN: u64 = 100;
const LONG: (usize, usize) = (5, 10_000);
const LONG_BATCH_SIZES: &[usize] = &[10_000, 1_000, 300];
/// Some worlds have a clock, and queries that look at it.
const CLOCKED_ONE_IN: u64 = 3;
/// One of this many queries is of a form of its own. Each form comes in two worlds of seeds that follow one another.
const QUERIES_PER_FORM: usize = 8;
/// Pauses, clocks, replacements, checkpoints and the queries of forms, with the properties that these look at, come of numbers of
/// their own: without them a world is the one that it was before there were any.
const APART: u64 = 0xC10C << 48;
/// The worlds of what is hard to compare, too, come of numbers of their own, and are worlds of their own: a query that sorts the
/// maps of all properties would find ties in them.
const MIXED: u64 = 0x3ED << 48;
const MIXED_QUERIES: usize = 10;
/// So that nearly all of the queries have begun before the end.
const MIXED_BATCH_SIZES: &[usize] = &[6, 6, 4, 2, 1];
/// How often the other ways of answering are compared in a life.
const LOOKS: usize = 3;
/// What the reference may try for one answer before its answer is done without.
const CHOICES_MAX: u64 = 2_000_000;
/// What the reference may try for one answer of what is maintained, which is asked for after every record; beyond, the evaluator
/// answers.
const CHOICES_A_RECORD_MAX: u64 = 4_000;
const STEPS_A_RECORD_MAX: u32 = 50_000;
/// Nobody waits for a product of patterns that nobody would write.
const QUERY_PATIENCE: Duration = Duration::from_millis(500);

/// How it begins that a text is not maintained.
const REFUSED: &str = "refused in mode AnyQuery";

const MODES: &[StandingMode] = &[StandingMode::DistinctId, StandingMode::MultipleValues, StandingMode::AnyQuery];

type Rows = Vec<Vec<Value>>;
type Answer = Result<Rows, Failure>;

/// The two worlds of a seed.
pub fn run(seed: u64) -> Result<Tally, Box<Difference>> {
    let (mut tally, mixed) = (usual_world(seed)?, mixed_world(seed)?);
    tally.add(mixed);
    tally.filled_mixed = mixed.filled;
    Ok(tally)
}

/// A graph, and queries over it at several moments of its life.
fn usual_world(seed: u64) -> Result<Tally, Box<Difference>> {
    let mut random = Random::new(seed);
    let open_cypher = random.once_in(2);
    let ((queries, records), batch_sizes) = match random.once_in(LONG_WORLDS_ONE_IN) {
        true => (LONG, LONG_BATCH_SIZES),
        false => ((QUERIES_PER_WORLD, RECORDS), BATCH_SIZES),
    };
    let mut apart = Random::new(seed ^ APART);
    let clocked = apart.once_in(CLOCKED_ONE_IN);
    let beside = if clocked { MOMENT_KEYS } else { &[] };
    let mut history = History::random(&mut random, (open_cypher, beside), records);
    let query: fn(&mut Random) -> Query = if clocked { random_clocked_query } else { random_query };
    let mut queries: Vec<Query> = (0..queries).map(|_| query(&mut random)).collect();
    let batch_size = batch_sizes[random.below(batch_sizes.len() as u64) as usize];
    let mut setting = Setting::random(&mut random, batch_size);
    setting.add_pauses(&mut apart);
    if clocked {
        setting.add_clock(&mut apart, records.div_ceil(batch_size));
    }
    // None is replaced before the second batch.
    if records > batch_size {
        setting.add_replacements(&mut apart);
    }
    setting.add_checkpoints(&mut apart);
    history.add_properties(&mut apart);
    for (at, some) in queries.chunks_mut(QUERIES_PER_FORM).enumerate() {
        let form = FORMS[(seed as usize).wrapping_mul(QUERIES_PER_WORLD / QUERIES_PER_FORM).wrapping_add(at) % FORMS.len()];
        let place = apart.below(some.len() as u64) as usize;
        some[place] = query_of_form(&mut apart, form);
    }
    World::new(history, setting).live(&queries)
}

/// As the usual one, with values that are hard to compare and queries about them; without a clock and forms.
fn mixed_world(seed: u64) -> Result<Tally, Box<Difference>> {
    let mut random = Random::new(seed ^ MIXED);
    let open_cypher = random.once_in(2);
    let mut history = History::random(&mut random, (open_cypher, MIXED_KEYS), RECORDS);
    history.add_properties(&mut random);
    let queries: Vec<Query> = (0..MIXED_QUERIES).map(|_| random_mixed_query(&mut random)).collect();
    let batch_size = MIXED_BATCH_SIZES[random.below(MIXED_BATCH_SIZES.len() as u64) as usize];
    let mut setting = Setting::random(&mut random, batch_size);
    setting.add_pauses(&mut random);
    setting.add_replacements(&mut random);
    setting.add_checkpoints(&mut random);
    World::new(history, setting).live(&queries)
}

/// A graph, kept by an engine and by the reference.
pub struct World {
    /// Of a world whose engine ends now and then.
    directory: Option<TempDir>,
    /// None between two engines.
    engine: Option<(Engine, Graph)>,
    reference: ReferenceGraph,
    history: History,
    setting: Setting,
    /// The millisecond that it is, where the world has a clock.
    now: Option<u64>,
    /// Ends of what was committed and no checkpoint has taken in.
    in_log: Vec<Tick>,
    /// Some checkpoint has taken something in.
    has_checkpoint: bool,
}

/// A query as far as it compiles.
struct Asked<'q> {
    query: &'q Query,
    chosen: Prepared,
    plain: Prepared,
}

impl World {
    pub fn new(history: History, setting: Setting) -> World {
        let directory = setting.batches_per_life.map(|_| tempfile::tempdir().expect("a directory"));
        let now = setting.clock.as_ref().map(|_| BEGIN);
        let reference = ReferenceGraph::new();
        let mut world =
            World { directory, engine: None, reference, history, setting, now, in_log: Vec::new(), has_checkpoint: false };
        // Not started: there is nothing to replay, and housekeeping sleeps when it is to end.
        world.open();
        world.set_clock();
        world
    }

    fn open(&mut self) {
        let graph = Some(GraphOptions { open_cypher: self.history.open_cypher });
        // These graphs are small: with this nearly every node is a hub.
        let hubs = HubBounds { edges_min: 2, ahead_min: 2, ..HubBounds::default() };
        let options = Options { workers: self.setting.workers, graph, hubs, ..Options::default() };
        let store: Arc<dyn Store> = match &self.directory {
            Some(directory) => Arc::new(self.rocks_db(directory.path())),
            None => Arc::new(InMemory::default()),
        };
        let engine = Engine::open(store, options).expect("a sound store opens");
        let graph = engine.default_graph();
        self.engine = Some((engine, graph));
    }

    fn set_clock(&self) {
        if let Some(now) = self.now {
            pass_to(self.graph(), now).expect("the workers are there");
        }
    }

    /// The current time to who asks for it; where the world has no clock, nobody does.
    fn now_millis(&self) -> i64 {
        self.now.map_or(0, |now| now as i64)
    }

    /// An engine that just ends may be let go by a thread of its own, a moment later.
    fn rocks_db(&self, path: &Path) -> RocksDb {
        let begun = Instant::now();
        loop {
            match RocksDb::open(RocksDbOptions::new(path)) {
                Ok(store) => return store,
                Err(problem) => assert!(begun.elapsed() < Duration::from_secs(20), "the directory is not free: {problem}"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn graph(&self) -> &Graph {
        &self.engine.as_ref().expect("only `live_again` is without one").1
    }

    /// Goes through the history, and compares what the queries answer on the way.
    pub fn live(mut self, queries: &[Query]) -> Result<Tally, Box<Difference>> {
        let mut tally = Tally { queries: queries.len(), ..Tally::default() };
        let mut asked = Vec::new();
        let mut watched = Vec::new();
        for (number, query) in queries.iter().enumerate() {
            match caught(|| self.compiled(query)) {
                Ok(Some(found)) => asked.push(found),
                Ok(None) => tally.refused += 1,
                Err(what) => return Err(self.difference(query, what, Sort::Asked)),
            }
            match caught(|| self.watched(query, number)) {
                Ok(found) => watched.extend(found),
                Err(what) => {
                    let sort = if what.starts_with(REFUSED) { Sort::Refused } else { Sort::Maintained };
                    return Err(self.difference(query, what, sort));
                }
            }
        }
        let history = self.history.clone();
        let setting = self.setting.clone();
        let batches = setting.batches(&history);
        let last = batches.len() - 1;
        let looks = batches.len().div_ceil(LOOKS);
        for (at, batch) in batches.enumerate() {
            self.begin((at, last), &mut watched, &mut tally)?;
            let passing = setting.passing(at);
            // Of what time brings, the first is of the next millisecond.
            let turns_from = self.now.filter(|_| passing.before > 0).map(|now| Tick::at_millis(now + 1));
            self.pass(passing.before, &mut watched, &mut tally)?;
            if passing.before > 0 && passing.rests {
                self.commit(Mutations::default(), 1);
            }
            let ends = setting.batches_per_life.filter(|life| (at + 1).is_multiple_of(*life));
            let mut upper = self.advance(batch, &mut watched, &mut tally)?;
            let first = turns_from.unwrap_or(Tick(upper.0 - batch.len() as u64));
            // What is to be reported of the batch was not taken yet: it stays in the log.
            if setting.makes_checkpoint(at) {
                self.checkpoint(&watched, &mut tally);
            }
            if let Some(life) = ends {
                let orderly = (at + 1) / life % 2 == 0;
                self.live_again(orderly, &mut asked, &mut watched, &mut tally)?;
            }
            if passing.after > 0 {
                self.pass(passing.after, &mut watched, &mut tally)?;
                upper = self.commit(Mutations::default(), 1);
            }
            self.compare((first, upper), &mut watched)?;
            if (at + 1).is_multiple_of(looks) || at == last {
                for query in &asked {
                    self.look(query, &mut tally)?;
                }
            }
        }
        Ok(tally)
    }

    fn difference(&self, query: &Query, what: String, sort: Sort) -> Box<Difference> {
        let (history, setting) = (self.history.clone(), self.setting.clone());
        Box::new(Difference { query: query.clone(), what, history, setting, sort })
    }

    fn prepare(&self, plan: Plan) -> Prepared {
        Prepared::new(plan, self.graph().symbols())
    }

    /// None where both roads refuse the text.
    fn compiled<'q>(&self, query: &'q Query) -> Result<Option<Asked<'q>>, String> {
        let options = CompileOptions { ids: self.graph().ids(), ..CompileOptions::default() };
        match (compile(&query.text, &options), compile_plainly(&query.without_anchors(&query.text), &options)) {
            (Ok(chosen), Ok(plain)) => Ok(Some(Asked { query, chosen: self.prepare(chosen), plain: self.prepare(plain) })),
            (Err(_), Err(_)) => Ok(None),
            (Err(problems), _) => Err(format!("the rules end in an error: {}\n", problems[0])),
            (_, Err(problems)) => Err(format!("only the plain plan is refused: {}\n", problems[0])),
        }
    }

    /// The query in every mode that takes it, and what is to take its place.
    fn watched<'q>(&self, query: &'q Query, number: usize) -> Result<Vec<Watched<'q>>, String> {
        let mut watched = Vec::new();
        for (place, mode) in MODES.iter().enumerate() {
            let Some((plan, asked)) = self.standing(query, *mode)? else { continue };
            let id = QueryId(NodeId::new(number as u64, place as u64));
            let parts = (*mode, plan, self.prepare(asked));
            let when = (self.setting.begin(number), self.setting.pause(number));
            let mut one = Watched::new(query, parts, when, id);
            if let Some(replacement) = self.setting.replacement(number) {
                let next = self.standing(&query.relative(replacement.by), *mode)?;
                one.successor = next.map(|(plan, asked)| Successor::new(replacement, plan, asked));
            }
            watched.push(one);
        }
        Ok(watched)
    }

    /// What is maintained for a query in a mode, and what the reference is asked. None where the mode does not take it.
    fn standing(&self, query: &Query, mode: StandingMode) -> Result<Option<(Plan, Plan)>, String> {
        let options = CompileOptions { ids: self.graph().ids(), ..CompileOptions::default() };
        let text = query.without_parameters();
        let plan = match compile_standing(&text, mode, &options) {
            Ok(StandingPlan { plan, .. }) => plan,
            // Whatever can be asked can be maintained.
            Err(problems) if mode == StandingMode::AnyQuery && compile(&text, &options).is_ok() => {
                return Err(format!("{REFUSED}: {}\n", problems[0]));
            }
            Err(_) => return Ok(None),
        };
        let asked = match mode {
            StandingMode::AnyQuery => {
                let plain = compile_plainly(&query.without_anchors(&text), &options);
                plain.map_err(|problems| problems[0].to_string())?
            }
            _ => plan.clone(),
        };
        Ok(Some((plan, asked)))
    }

    /// Installs the queries whose time has come, asks for what others held back, pauses some and ends their pauses, and lets
    /// others take their place.
    fn begin(&self, (at, last): (usize, usize), watched: &mut Vec<Watched>, tally: &mut Tally) -> Result<(), Box<Difference>> {
        let mut broken = None;
        watched.retain_mut(|one| {
            if one.begin.after == at {
                match self.answer(one, tally) {
                    Ok(Some(answer)) => {
                        *(if one.mode == StandingMode::AnyQuery { &mut tally.any_query } else { &mut tally.maintained }) += 1;
                        tally.clocked += usize::from(one.query.looks_at_clock());
                        if let Err(what) = caught(|| one.install(self.graph(), answer)) {
                            broken.get_or_insert_with(|| self.difference(one.query, what, Sort::Maintained));
                        }
                    }
                    Ok(None) => {
                        tally.maintained_not += 1;
                        return false;
                    }
                    Err(failure) => {
                        broken.get_or_insert_with(|| self.difference(one.query, failure.message, Sort::Fails));
                    }
                }
            }
            if let Baseline::Later(batches) = one.begin.baseline
                && one.is_installed()
                && at == one.begin.after + batches
                && let Err(what) = one.propagate()
            {
                broken.get_or_insert_with(|| self.difference(one.query, what, Sort::Maintained));
            }
            match caught(|| one.pause_or_go_on(at, last)) {
                Ok(brings) => tally.paused += usize::from(brings),
                Err(what) => {
                    broken.get_or_insert_with(|| self.difference(one.query, what, Sort::Maintained));
                }
            }
            if let Err(difference) = self.replace((at, last), one, tally) {
                broken.get_or_insert(difference);
            }
            true
        });
        broken.map_or(Ok(()), Err)
    }

    /// Lets what is to take the place of a query begin, and do so, when the time has come.
    fn replace(&self, (at, last): (usize, usize), one: &mut Watched, tally: &mut Tally) -> Result<(), Box<Difference>> {
        caught(|| one.begin_successor(self.graph(), at)).map_err(|what| self.difference(one.query, what, Sort::Maintained))?;
        let Some(next) = one.asked_next(at, last).cloned() else { return Ok(()) };
        let before = std::mem::replace(&mut one.asked, self.prepare(next));
        match self.answer(one, tally) {
            Ok(Some(answer)) => {
                let brings = caught(|| one.succeed(self.graph(), answer));
                let brings = brings.map_err(|what| self.difference(one.query, what, Sort::Maintained))?;
                tally.replaced += 1;
                tally.replaced_brought += usize::from(brings);
            }
            Ok(None) => {
                one.asked = before;
                one.stay(self.graph());
            }
            Err(failure) => return Err(self.difference(one.query, failure.message, Sort::Fails)),
        }
        Ok(())
    }

    /// What is maintained must answer this now. None where it takes too long to find out.
    fn answer(&self, one: &mut Watched, tally: &mut Tally) -> Result<Option<Counted>, Failure> {
        let question = Question { choices_max: CHOICES_A_RECORD_MAX, ..self.question(&one.asked, &[]) };
        let rows = match one.mode {
            _ if one.evaluated => Err(Failure::new(FailureKind::Interrupted, "as before")),
            // Of what is maintained, only the rows are left out that fail; the answer as a whole fails, as does the evaluator's.
            StandingMode::AnyQuery if !one.query.may_fail() => question.answer(),
            _ => match question.matches() {
                Err(failure) if failure.kind == FailureKind::Interrupted => return Ok(None),
                answer => return answer.map(Some),
            },
        };
        let rows = match rows {
            Err(failure) if failure.kind == FailureKind::Interrupted => {
                tally.maintained_evaluated += usize::from(!one.evaluated);
                one.evaluated = true;
                let limits = Limits { steps_max: Some(STEPS_A_RECORD_MAX), ..Limits::default() };
                self.by_evaluator(&one.asked, &[], limits)
            }
            rows => rows,
        };
        match rows {
            Ok(rows) => {
                let mut answer = Counted::new();
                for row in rows {
                    *answer.entry(one.query.comparable(&row)).or_default() += 1;
                }
                Ok(Some(answer))
            }
            Err(failure) if is_interruption(&failure) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Some records more, as one batch, with what is then to be reported at each.
    fn advance(&mut self, batch: &[Record], watched: &mut Vec<Watched>, tally: &mut Tally) -> Result<Tick, Box<Difference>> {
        let mut all = Mutations::default();
        for (index, record) in batch.iter().enumerate() {
            let mutations = self.history.mutations(record, self.graph().symbols());
            all.start_record(index as u32);
            all.append(&mutations);
            self.reference.apply_all(&mutations);
            self.ask(watched, tally, false, |one, answer| one.answer(index, answer))?;
        }
        let upper = self.commit(all, batch.len());
        let first = Tick(upper.0 - batch.len() as u64);
        assert!(self.now.is_none_or(|now| now == first.millis()), "the clock of the world is driven by nobody else");
        watched.iter_mut().for_each(|one| one.place(first));
        Ok(upper)
    }

    /// Time goes by, and nothing else happens: what turns in a millisecond is to be reported at its first tick.
    fn pass(&mut self, millis: u64, watched: &mut Vec<Watched>, tally: &mut Tally) -> Result<(), Box<Difference>> {
        for _ in 0..millis {
            let Some(now) = &mut self.now else { return Ok(()) };
            *now += 1;
            let tick = Tick::at_millis(*now);
            let mut turned = 0;
            self.ask(watched, tally, true, |one, answer| turned += usize::from(one.turn(tick, answer)))?;
            tally.turned += turned;
        }
        self.set_clock();
        Ok(())
    }

    /// What those that are installed must answer by now. Where only time went by, those are asked that look at the clock.
    fn ask(
        &self,
        watched: &mut Vec<Watched>,
        tally: &mut Tally,
        only_time: bool,
        mut take: impl FnMut(&mut Watched, Counted),
    ) -> Result<(), Box<Difference>> {
        let mut failed = None;
        watched.retain_mut(|one| {
            if !one.is_installed() || (only_time && !one.query.looks_at_clock()) {
                return true;
            }
            match self.answer(one, tally) {
                Ok(Some(answer)) => take(one, answer),
                Ok(None) => {
                    *(if one.mode == StandingMode::AnyQuery { &mut tally.any_query } else { &mut tally.maintained }) -= 1;
                    tally.clocked -= usize::from(one.query.looks_at_clock());
                    tally.maintained_not += 1;
                    one.drop_from(self.graph());
                    return false;
                }
                Err(failure) => {
                    failed.get_or_insert_with(|| self.difference(one.query, failure.message, Sort::Fails));
                }
            }
            true
        });
        failed.map_or(Ok(()), Err)
    }

    /// Gives the tick after it, when it can be read and outlives the engine.
    fn commit(&mut self, mutations: Mutations, records: usize) -> Tick {
        let upper = self.graph().apply(mutations, records).expect("the store takes it");
        self.graph().wait_durable(upper).expect("it is durable soon");
        self.graph().wait_visible().expect("the workers are there");
        self.in_log.push(upper);
        upper
    }

    /// Takes into pages what of the log nobody needs any more.
    fn checkpoint(&mut self, watched: &[Watched], tally: &mut Tally) {
        let needed = watched.iter().filter_map(Watched::needs_from).min().unwrap_or(Tick::MAX);
        let until = needed.min(self.graph().durable());
        checkpoint::make(self.graph(), until).expect("the store takes it");
        let taken = self.in_log.partition_point(|upper| *upper <= until);
        self.in_log.drain(..taken);
        self.has_checkpoint |= taken > 0;
        tally.checkpoints += usize::from(taken > 0);
    }

    /// What was reported before a tick; the first that counts says where what is due between batches belongs.
    fn compare(&self, (first, upper): (Tick, Tick), watched: &mut [Watched]) -> Result<(), Box<Difference>> {
        for one in watched {
            one.compare(first, upper).map_err(|what| self.difference(one.query, what, Sort::Maintained))?;
        }
        Ok(())
    }

    /// The engine ends, in good order or as if the process were killed, and another goes on with what is stored.
    fn live_again(
        &mut self,
        orderly: bool,
        asked: &mut [Asked],
        watched: &mut [Watched],
        tally: &mut Tally,
    ) -> Result<(), Box<Difference>> {
        if let Some((engine, _)) = self.engine.take().filter(|_| orderly) {
            engine.shutdown().expect("it ends");
        }
        tally.from_log += usize::from(!self.has_checkpoint);
        tally.from_checkpoint += usize::from(self.has_checkpoint && !self.in_log.is_empty());
        tally.replaced_again += watched.iter_mut().map(|one| usize::from(one.lose_successor())).sum::<usize>();
        let installed: Vec<&mut Watched> = watched.iter_mut().filter_map(|one| one.leave().then_some(one)).collect();
        self.open();
        // What was never stored has lost its number.
        for one in asked {
            one.chosen = self.prepare((*one.chosen.plan).clone());
            one.plain = self.prepare((*one.plain.plan).clone());
        }
        for one in installed {
            one.asked = self.prepare((*one.asked.plan).clone());
            one.resume(self.graph()).map_err(|what| self.difference(one.query, what, Sort::Maintained))?;
        }
        // As weir does when it has installed what there was.
        self.graph().forget_delivery_to_nobody();
        self.engine.iter().for_each(|(engine, _)| engine.start().expect("it replays its log"));
        self.set_clock();
        Ok(())
    }

    fn question<'a>(&'a self, prepared: &'a Prepared, parameters: &'a [Value]) -> Question<'a> {
        Question {
            prepared,
            graph: &self.reference,
            symbols: self.graph().symbols(),
            ids: self.graph().ids(),
            parameters,
            now_millis: self.now_millis(),
            choices_max: CHOICES_MAX,
        }
    }

    /// Asks one query in the three ways that do not wait for changes.
    fn look(&self, asked: &Asked, tally: &mut Tally) -> Result<(), Box<Difference>> {
        let parameters = parameters(&asked.chosen.plan);
        let answers = caught(|| {
            let chosen = self.by_engine(&asked.chosen, &parameters);
            let limits = Limits { deadline: Some(Instant::now() + QUERY_PATIENCE), ..Limits::default() };
            let plain = self.by_evaluator(&asked.plain, &parameters, limits);
            Ok([chosen, plain, self.question(&asked.plain, &parameters).answer()])
        });
        let answers = answers.map_err(|what| self.difference(asked.query, what, Sort::Asked))?;
        tally.comparisons += 1;
        tally.without_reference += usize::from(is_interrupted(&answers[2]));
        let (may_fail, filled) = (asked.query.may_fail(), answers[0].as_ref().is_ok_and(|rows| !rows.is_empty()));
        tally.failed += usize::from(answers[0].is_err() && !may_fail);
        tally.filled += usize::from(filled);
        if let Some(form) = asked.query.form {
            let fails = answers[2].is_err() && !is_interrupted(&answers[2]);
            let others = || self.question(&asked.plain, &parameters).matches().is_ok_and(|rows| !rows.is_empty());
            tally.filled_forms[form as usize] += usize::from(if may_fail { fails && others() } else { filled });
        }
        let as_planned = asked.query.fails_as_planned();
        // Who ran out of time has not answered, nor has who failed where another plan need not.
        let ways: Vec<(&str, Answer)> = ["the engine", "the plain plan", "the reference"]
            .into_iter()
            .zip(answers)
            .filter(|(_, answer)| !(is_interrupted(answer) || as_planned && answer.is_err()))
            .collect();
        let alike: Vec<Result<Rows, ()>> = ways.iter().map(|(_, answer)| canonical(answer, asked.query)).collect();
        if alike.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(());
        }
        let mut what = String::new();
        for (way, answer) in &ways {
            what += &format!("{way}:\n{}", shown_answer(answer));
        }
        Err(self.difference(asked.query, what, Sort::Asked))
    }

    fn by_engine(&self, prepared: &Prepared, parameters: &[Value]) -> Answer {
        let mut rows = Rows::new();
        let deadline = Some(Instant::now() + QUERY_PATIENCE);
        let options = QueryOptions { now_millis: self.now, deadline, ..QueryOptions::default() };
        let answered = self.graph().query(prepared, parameters, options, &mut |row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        });
        match answered {
            Ok(_) => Ok(rows),
            Err(EngineError::Query(failure)) => Err(failure),
            Err(other) => panic!("the engine is no longer there: {other}"),
        }
    }

    fn by_evaluator(&self, prepared: &Prepared, parameters: &[Value], limits: Limits) -> Answer {
        let mut rows = Rows::new();
        let fresh_id = || NodeId::default();
        let environment = Environment {
            view: &self.reference,
            parameters,
            ids: self.graph().ids(),
            now: Clock::at(self.now_millis()),
            fresh_id: &fresh_id,
            limits,
            open_cypher: self.history.open_cypher,
            recall: None,
        };
        let answered = evaluate(prepared, self.graph().symbols(), &environment, &mut Mutations::default(), &mut |row| {
            rows.push(row.to_vec());
            ControlFlow::Continue(())
        });
        answered.map(|()| rows)
    }
}

fn is_interrupted(answer: &Answer) -> bool {
    matches!(answer, Err(failure) if is_interruption(failure))
}

fn is_interruption(failure: &Failure) -> bool {
    matches!(failure.kind, FailureKind::Interrupted | FailureKind::TimeLimit | FailureKind::MemoryLimit)
}

/// A panic is a difference too: it is made small and shown like the others.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err("panics\n".to_owned()))
}

/// The answer with everything in one order that nobody gave one.
fn canonical(answer: &Answer, query: &Query) -> Result<Rows, ()> {
    let Ok(rows) = answer else { return Err(()) };
    let mut rows: Rows = rows.iter().map(|row| query.comparable(row)).collect();
    if !query.ordered {
        rows.sort();
    }
    Ok(rows)
}

pub fn shown_row(row: &[Value]) -> String {
    row.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" | ")
}

fn shown_answer(answer: &Answer) -> String {
    match answer {
        Ok(rows) => rows.iter().map(|row| format!("    {}\n", shown_row(row))).collect(),
        Err(failure) => format!("    fails: {failure}\n"),
    }
}
