//! CALL: procedures, queries in place of a call, and subqueries.
//!
//! What writes gets all its rows before it changes anything, as a write clause does; the rest hands rows on as they are found.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_model::expression::FailureKind;
use weir_model::extent::measured;
use weir_model::plan::{Operator, Slot};
use weir_model::procedure::{Body, Caller, Chosen, Each};
use weir_model::{Expr, Failure, IdScheme, Procedure, Text, Tick, Value};

use super::context::Reader;
use super::limits::{Budget, Limits, weight_of};
use super::operators::{Flow, GO_ON, Next, Rows, Run, STOP};
use super::profile::Counting;
use super::scan::Scans;
use super::spared::Spared;
use super::{Environment, contains_write, procedures};
use crate::history::Recall;
use crate::view::View;

/// A query can call itself, by its own text as a parameter.
const DEPTH_MAX: usize = 10;

/// How long a result waits for the graph to have got as far, before it is looked whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(20);

/// A procedure with its arguments, and its columns by number with their slots.
type Called<'c> = (&'c Arc<Procedure>, &'c [Expr], &'c [(usize, Slot)]);

/// The parts of `Operator::Recurse` besides its input.
pub(super) struct Recursion<'c> {
    pub first: &'c [Expr],
    pub state: &'c [Slot],
    pub variables: &'c [Text],
    pub inner: &'c Operator,
    pub again: &'c [Slot],
    pub until: &'c Expr,
}

impl Run<'_> {
    pub(super) fn call(&self, input: &Operator, called: Called, row: &mut [Value], next: Next) -> Flow {
        if !called.0.writes {
            return self.run(input, row, &mut |row| self.call_once(called, row, next));
        }
        self.eagerly(input, row, next, &mut |row, next| self.call_once(called, row, next))
    }

    pub(super) fn call_subquery(&self, input: &Operator, inner: &Operator, unit: bool, row: &mut [Value], next: Next) -> Flow {
        let mut once = |row: &mut [Value], next: Next| {
            if !unit {
                return self.run(inner, row, next);
            }
            self.drain(inner, row, &mut |_| Ok(()))?;
            next(row)
        };
        self.each_once(input, contains_effect(inner), row, next, &mut once)
    }

    pub(super) fn recurse_each(&self, input: &Operator, recursion: &Recursion, row: &mut [Value], next: Next) -> Flow {
        let effect = contains_effect(recursion.inner);
        self.each_once(input, effect, row, next, &mut |row, next| self.recurse(recursion, row, next))
    }

    /// Round by round: the states of one are run before any of the next. That it ends is up to the query, and to its limits.
    fn recurse(&self, recursion: &Recursion, row: &mut [Value], next: Next) -> Flow {
        let Recursion { first, state, variables, inner, again, until } = recursion;
        let mut values = Vec::with_capacity(first.len());
        for value in *first {
            match value.evaluate(row, self) {
                Ok(value) => values.push(value),
                Err(failure) => return self.end_row(failure),
            }
        }
        self.budget.hold(&values)?;
        let mut round = vec![values];
        while !round.is_empty() {
            let mut following: Vec<Vec<Value>> = Vec::new();
            for values in round {
                self.budget.step()?;
                self.budget.release(weight_of(&values));
                let kinds: Vec<&str> = values.iter().map(Value::type_name).collect();
                let at = self.put(values.iter().cloned());
                let flow = self.with_swapped(state.iter().copied(), at, row, &mut |row| {
                    self.run(inner, row, &mut |row| {
                        let results: Vec<Value> = again.iter().map(|slot| row[slot.0 as usize].clone()).collect();
                        match until.evaluate(row, self) {
                            Ok(Value::Boolean(true)) => return next(row),
                            Ok(_) => {}
                            Err(failure) => return self.end_row(failure),
                        }
                        // A variable keeps its type; only null may become, and follow, anything.
                        let null = Value::Null.type_name();
                        let changes =
                            |(kind, value): (&&str, &Value)| *kind != null && !value.is_null() && *kind != value.type_name();
                        let changed = kinds.iter().zip(&results).position(changes);
                        if let Some(at) = changed {
                            let place = format!("recursive subquery return value (variable `{}`)", variables[at]);
                            return self.end_row(super::mismatch(kinds[at], &results[at], &place));
                        }
                        // What grows with every round is looked at in every round.
                        for result in &results {
                            measured(result, self.budget.room())?;
                        }
                        self.budget.hold(&results)?;
                        following.push(results);
                        GO_ON
                    })
                })?;
                if flow.is_break() {
                    return STOP;
                }
            }
            round = following;
        }
        GO_ON
    }

    /// `each` for every row of the input; where it has an effect, also for those that nobody wants any more.
    pub(super) fn each_once(
        &self,
        input: &Operator,
        effect: bool,
        row: &mut [Value],
        next: Next,
        each: &mut dyn FnMut(&mut [Value], Next) -> Flow,
    ) -> Flow {
        if !effect {
            return self.run(input, row, &mut |row| each(row, next));
        }
        if self.overlay.is_some() {
            return self.eagerly(input, row, next, each);
        }
        // What only writes needs no rows ahead of time.
        let mut stopped = false;
        self.drain(input, row, &mut |row| {
            let mut pass = |row: &mut [Value]| {
                stopped = stopped || next(row)?.is_break();
                GO_ON
            };
            each(row, &mut pass).map(drop)
        })?;
        if stopped { STOP } else { GO_ON }
    }

    /// All rows of the input, then `each` for all of them, and then what comes of it.
    fn eagerly(&self, input: &Operator, row: &mut [Value], next: Next, each: &mut dyn FnMut(&mut [Value], Next) -> Flow) -> Flow {
        let mut rows = Rows::new(self);
        self.drain(input, row, &mut |row| rows.push(row))?;
        let mut done = Rows::new(self);
        for row in rows.iter_mut() {
            let _ = each(row, &mut |row| done.push(row).and(GO_ON))?;
        }
        drop(rows);
        done.pass(next)
    }

    fn call_once(&self, (procedure, arguments, yields): Called, row: &mut [Value], next: Next) -> Flow {
        let mut values = Vec::with_capacity(procedure.inputs.len());
        for argument in arguments {
            match argument.evaluate(row, self) {
                Ok(value) => values.push(value),
                Err(failure) => return self.end_row(failure),
            }
        }
        let is_void = procedure.outputs.is_empty();
        // Like SET: what is written to nothing is not written.
        if is_void && procedure.writes && values.first().is_some_and(Value::is_null) {
            return next(row);
        }
        if let Err(failure) = procedure.accept(&mut values) {
            return self.end_row(failure);
        }
        if is_void {
            return match self.cleanly(|| self.give(procedure, &values, &mut |_| GO_ON)) {
                Ok(()) => next(row),
                Err(failure) => self.end_row(failure),
            };
        }
        let (mut flow, mut has_given) = (ControlFlow::Continue(()), false);
        let given = self.cleanly(|| {
            self.give(procedure, &values, &mut |columns| {
                has_given = true;
                self.budget.step()?;
                let at = self.put(yields.iter().map(|(column, _)| columns.get(*column).cloned().unwrap_or_default()));
                flow = self.with_swapped(yields.iter().map(|(_, slot)| *slot), at, row, next)?;
                Ok(flow)
            })
        });
        match given {
            // What has been given cannot be taken back: a failure behind it is one of all.
            Err(failure) if !has_given => self.end_row(failure),
            given => given.map(|()| flow),
        }
    }

    /// The rows of a procedure.
    fn give(&self, procedure: &Procedure, arguments: &[Value], each: Each) -> Result<(), Failure> {
        if procedure.listens && !self.may_listen() {
            let message = format!(
                "`{}` waits for results without end, so it can stand only in a query that is sent by itself and reads; to act on \
                 results give the standing query an output of type CypherQuery",
                procedure.name
            );
            return Err(Failure::new(FailureKind::Runtime, message));
        }
        match &procedure.body {
            Body::Graph => match procedures::find(&procedure.name) {
                Some(run) => run(self, procedure, arguments, each),
                None => {
                    let message = format!("Procedure `{}` is declared, but this engine does not have it", procedure.name);
                    Err(Failure::new(FailureKind::Runtime, message))
                }
            },
            Body::Rows(rows) => match self.fetched {
                None => rows(self, arguments, each),
                Some(fetched) => {
                    let key = (procedure.name.clone(), arguments.to_vec());
                    fetched.give(self.budget, (key, procedure.at_hand), each, |each| rows(self, arguments, each))
                }
            },
            Body::Query(choose) => match choose(self, arguments)? {
                Some(chosen) => match chosen.at_ms {
                    Some(at) => self.in_the_past(chosen, at, each),
                    None => self.in_place(chosen, each),
                },
                None => each(&[Value::map([])]).map(drop),
            },
        }
    }

    /// Whoever reads a moment of the past has said that nothing else is wanted.
    fn may_listen(&self) -> bool {
        self.reader.view.live().is_some() || self.environment.recall.is_some_and(|recall| recall.moment().is_some())
    }

    /// Runs another query, which only reads, as of the end of a millisecond.
    fn in_the_past(&self, chosen: Chosen, at: i64, each: Each) -> Result<(), Failure> {
        let recall = procedures::history::recall(self)?;
        if recall.is_open(at) {
            // For whoever commits it has read everything: what it reads of the moment is noted nowhere.
            self.reader.view.note_everything();
        }
        let (moment, recall) = recall.at(at).map_err(procedures::history::unavailable)?;
        let mut each = |row: &[Value]| if moment.has_failed() { STOP } else { each(row) };
        let ran = self.at_moment((moment.view(), &recall), |run| run.in_place(chosen, &mut each));
        moment.take_failure().map_or(ran, |error| Err(procedures::history::unavailable(error)))
    }

    /// Does something with another view than that of the query, where nothing the query has written is seen.
    pub(super) fn at_moment<R>(
        &self,
        (view, recall): (&dyn View, &Recall),
        act: impl FnOnce(&Run) -> Result<R, Failure>,
    ) -> Result<R, Failure> {
        let environment = Environment { view, recall: Some(recall), ..*self.environment };
        let counting = self.profile.map(|profile| Counting { base: view, profile });
        let view: &dyn View = counting.as_ref().map_or(view, |counting| counting);
        let reader = Reader {
            prepared: self.prepared,
            names: self.reader.names,
            view,
            environment: &environment,
            deleted: Default::default(),
        };
        act(&Run {
            prepared: self.prepared,
            environment: &environment,
            reader,
            overlay: None,
            applied: self.applied,
            mutations: self.mutations,
            budget: self.budget,
            scratch: self.scratch,
            chosen: Default::default(),
            figures: Default::default(),
            scans: &Scans::default(),
            watched: None,
            depth: self.depth,
            profile: self.profile,
            fetched: self.fetched,
            spared: &Spared::default(),
            unanchored: self.unanchored,
        })
    }

    /// Runs another query as a part of this one.
    fn in_place(&self, chosen: Chosen, each: Each) -> Result<(), Failure> {
        if self.depth >= DEPTH_MAX {
            let message = format!("Queries that run queries are nested more than {DEPTH_MAX} deep");
            return Err(Failure::new(FailureKind::Runtime, message));
        }
        let Chosen { plan, parameters, as_maps, time_ms_max, .. } = chosen;
        let prepared = self.prepared.inner(plan, self.reader.names.symbols());
        let ends = time_ms_max.and_then(|millis| Instant::now().checked_add(Duration::from_millis(millis)));
        let environment = Environment {
            view: self.environment.view,
            recall: self.environment.recall,
            parameters: &parameters,
            ids: self.environment.ids,
            now: self.environment.now,
            fresh_id: self.environment.fresh_id,
            limits: self.environment.limits,
            open_cypher: self.environment.open_cypher,
        };
        let shorter: Limits = ends.map_or(environment.limits, |ends| self.budget.shortened(ends));
        let own_budget = ends.map(|_| Budget::noting(&shorter, self.environment.view));
        let (scans, spared) = (Scans::default(), Spared::default());
        let run = Run {
            prepared: &prepared,
            environment: &environment,
            reader: Reader {
                prepared: &prepared,
                names: self.reader.names,
                view: self.reader.view,
                environment: &environment,
                deleted: self.reader.deleted.clone(),
            },
            overlay: self.overlay,
            applied: self.applied,
            mutations: self.mutations,
            budget: own_budget.as_ref().unwrap_or(self.budget),
            scratch: self.scratch,
            chosen: Default::default(),
            figures: Default::default(),
            scans: &scans,
            watched: None,
            depth: self.depth + 1,
            profile: self.profile,
            fetched: self.fetched,
            spared: &spared,
            unanchored: self.unanchored,
        };
        let stacks = self.scratch.mark();
        let is_over = || ends.is_some_and(|ends| Instant::now() >= ends);
        match run.columns_in_place(as_maps, &is_over, each) {
            // The time of the part was up, not that of the whole.
            Err(failure) if failure.kind == FailureKind::TimeLimit && is_over() && self.budget.check().is_ok() => {
                self.scratch.reset(stacks);
                Ok(())
            }
            result => result,
        }
    }

    fn columns_in_place(&self, as_maps: bool, is_over: &dyn Fn() -> bool, each: Each) -> Result<(), Failure> {
        let plan = &self.prepared.plan;
        let mut row = vec![Value::Null; plan.width.max(1)];
        if plan.columns.is_empty() {
            return self.drain(&plan.root, &mut row, &mut |_| Ok(()));
        }
        self.run(&plan.root, &mut row, &mut |row| {
            if is_over() {
                return STOP;
            }
            let columns = plan.columns.iter().map(|(name, slot)| (name.clone(), row[slot.0 as usize].clone()));
            if as_maps {
                return each(&[Value::map(columns)]);
            }
            let columns: Vec<(Text, Value)> = columns.collect();
            each(&columns.into_iter().map(|(_, value)| value).collect::<Vec<_>>())
        })
        .map(drop)
    }
}

impl Caller for Run<'_> {
    fn check(&self) -> Result<(), Failure> {
        self.budget.check()
    }

    fn may_fetch(&self) -> bool {
        self.fetched.is_none_or(|fetched| !fetched.is_closed())
    }

    fn ids(&self) -> IdScheme {
        self.environment.ids
    }

    fn now_millis(&self) -> i64 {
        self.environment.now.millis
    }

    fn move_on(&self, tick: Tick) -> Result<(), Failure> {
        let Some(live) = self.reader.view.live() else { return Ok(()) };
        while !live.move_on(tick.next(), LOOK) {
            self.budget.check()?;
        }
        // How a pattern is visited best, and what was found for it, goes by what was there.
        self.chosen.borrow_mut().clear();
        self.figures.borrow_mut().clear();
        self.budget.release(self.scans.forget());
        Ok(())
    }

    fn rest(&self) {
        if let Some(live) = self.reader.view.live() {
            live.rest();
        }
    }
}

/// Whether anything in it may write: a clause, or a procedure.
pub(super) fn contains_effect(operator: &Operator) -> bool {
    let here = match operator {
        Operator::Call { procedure, .. } => procedure.writes,
        Operator::Optional { inner, .. } | Operator::Subquery { inner, .. } | Operator::Recurse { inner, .. } => {
            contains_effect(inner)
        }
        Operator::Union { right, .. } | Operator::Join { right, .. } => contains_effect(right),
        _ => false,
    };
    here || contains_write(operator, &|_| true) || operator.input().is_some_and(contains_effect)
}
