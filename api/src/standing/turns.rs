//! Turns: whoever creates, changes or deletes a standing query has it alone meanwhile.
//!
//!     a change ─> turn of its query ─> lock of the graph ─> short locks: the list of queries, settings, what outputs have
//!
//! A change may wait for an output, or for a query that has the graph locked, for long. Other queries are changed meanwhile, also
//! those of the same namespace; so there is no one lock for all. Whoever has a turn takes no second one. Another change of the
//! same query waits for a while, and is then told what it waits for.
//!
//! What that leaves to others: an id is fresh, what is stored of a query is under a key of its own, and whoever looks at the list
//! has it locked for no longer than that. What concerns all queries of a namespace takes the turns of all of them: its deletion,
//! and forgetting how far outputs are that nobody has.

use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_engine::Graph;
use weir_model::lock::lock;

use crate::error::ApiError;

/// How long a change waits for another one of the same query; longer than outputs are given in any of them.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// When whoever waited in vain may come again.
const AGAIN_SECONDS: u32 = 5;

#[derive(Default)]
pub struct Turns {
    taken: Mutex<Taken>,
    freed: Condvar,
}

#[derive(Default)]
struct Taken {
    /// By namespace and name. There need not be a query of that name.
    queries: BTreeMap<(String, String), Doing>,
    /// Namespaces of which somebody has all queries, or waits for those that are still being changed: no other change begins.
    whole: BTreeMap<String, Doing>,
}

/// What is being done, and since when.
struct Doing {
    what: &'static str,
    since: Instant,
}

/// Given back when it is dropped.
#[must_use]
pub struct Turn<'t> {
    turns: &'t Turns,
    graph: String,
    /// None: all of its queries.
    query: Option<String>,
}

impl Turns {
    /// `what` is done with it: "replaced", say. There need not be a query of this name.
    pub fn of(&self, graph: &Graph, query: &str, what: &'static str) -> Result<Turn<'_>, ApiError> {
        self.of_within(PATIENCE, (graph.name(), query), what)
    }

    /// All queries of a graph, also those that are not there: none is created meanwhile.
    pub fn of_all(&self, graph: &Graph, what: &'static str) -> Result<Turn<'_>, ApiError> {
        self.of_all_within(PATIENCE, graph.name(), what)
    }

    /// Waits for less, or not at all.
    pub fn of_within(&self, patience: Duration, (graph, query): (&str, &str), what: &'static str) -> Result<Turn<'_>, ApiError> {
        let place = (graph.to_owned(), query.to_owned());
        let mut taken = self.wait(Instant::now() + patience, lock(&self.taken), |taken| taken.before(&place))?;
        taken.queries.insert(place, Doing::begins(what));
        Ok(Turn { turns: self, graph: graph.to_owned(), query: Some(query.to_owned()) })
    }

    fn of_all_within(&self, patience: Duration, graph: &str, what: &'static str) -> Result<Turn<'_>, ApiError> {
        let deadline = Instant::now() + patience;
        let mut taken = self.wait(deadline, lock(&self.taken), |taken| taken.of_whole(graph))?;
        taken.whole.insert(graph.to_owned(), Doing::begins(what));
        // From here on no other change begins; given back, too, where one that did takes too long.
        let turn = Turn { turns: self, graph: graph.to_owned(), query: None };
        drop(self.wait(deadline, taken, |taken| taken.within(graph))?);
        Ok(turn)
    }

    /// Waits until nothing is in the way any more. An error says what still is when the time is over.
    fn wait<'t>(
        &'t self,
        deadline: Instant,
        mut taken: MutexGuard<'t, Taken>,
        in_the_way: impl Fn(&Taken) -> Option<String>,
    ) -> Result<MutexGuard<'t, Taken>, ApiError> {
        while let Some(reason) = in_the_way(&taken) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ApiError::Busy { reason, seconds: AGAIN_SECONDS });
            }
            taken = self.freed.wait_timeout(taken, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(taken)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut taken = lock(&self.turns.taken);
        match self.query.take() {
            Some(query) => {
                taken.queries.remove(&(std::mem::take(&mut self.graph), query));
            }
            None => {
                taken.whole.remove(&self.graph);
            }
        }
        drop(taken);
        self.turns.freed.notify_all();
    }
}

impl Taken {
    /// What a change of this query waits for.
    fn before(&self, place: &(String, String)) -> Option<String> {
        let (graph, query) = place;
        let of_query = || self.queries.get(place).map(|doing| doing.told(&format!("The standing query '{query}' is")));
        self.of_whole(graph).or_else(of_query)
    }

    fn of_whole(&self, graph: &str) -> Option<String> {
        self.whole.get(graph).map(|doing| doing.told(&format!("Standing queries of the namespace '{graph}' are")))
    }

    /// What whoever wants all queries of a graph waits for.
    fn within(&self, graph: &str) -> Option<String> {
        let ((_, query), doing) = self.queries.iter().find(|((of, _), _)| of == graph)?;
        Some(doing.told(&format!("The standing query '{query}' is")))
    }
}

impl Doing {
    fn begins(what: &'static str) -> Doing {
        Doing { what, since: Instant::now() }
    }

    /// `subject` is what it is done to, with "is" or "are".
    fn told(&self, subject: &str) -> String {
        let (what, seconds) = (self.what, self.since.elapsed().as_secs());
        format!(
            "{subject} being {what}, for {seconds} s so far: that waits for an output, or for a query that has the graph locked. \
             Make this request again later"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn reason(refused: Result<Turn<'_>, ApiError>) -> String {
        match refused.err() {
            Some(ApiError::Busy { reason, .. }) => reason,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_query_is_changed_once_at_a_time_and_others_meanwhile() {
        let turns = Turns::default();
        let first = turns.of_within(LONG, ("a", "q"), "replaced").expect("nobody has it");
        let reason = reason(turns.of_within(Duration::ZERO, ("a", "q"), "paused"));
        assert!(reason.starts_with("The standing query 'q' is being replaced, for 0 s so far"), "{reason}");
        for other in [("a", "other"), ("b", "q")] {
            drop(turns.of_within(Duration::ZERO, other, "paused").expect("nobody has it"));
        }
        std::thread::scope(|scope| {
            let next = scope.spawn(|| turns.of_within(LONG, ("a", "q"), "paused").map(drop));
            std::thread::sleep(Duration::from_millis(20));
            drop(first);
            assert!(next.join().expect("it ends").is_ok());
        });
        drop(turns.of_within(Duration::ZERO, ("a", "q"), "paused").expect("it was given back"));
    }

    #[test]
    fn who_has_a_whole_namespace_has_waited_for_those_who_began_and_nobody_else_begins() {
        let turns = Turns::default();
        let first = turns.of_within(LONG, ("a", "q"), "created").expect("nobody has it");
        let refused = reason(turns.of_all_within(Duration::ZERO, "a", "deleted"));
        assert!(refused.starts_with("The standing query 'q' is being created"), "{refused}");
        drop(turns.of_within(Duration::ZERO, ("a", "other"), "created").expect("who waited in vain is in nobody's way"));
        let (tell, told) = crossbeam_channel::bounded(0);
        std::thread::scope(|scope| {
            let all = scope.spawn(|| {
                let _all = turns.of_all_within(LONG, "a", "deleted").expect("those who began get through");
                let _ = told.recv_timeout(LONG);
            });
            while lock(&turns.taken).whole.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
            let refused = reason(turns.of_within(Duration::ZERO, ("a", "other"), "created"));
            assert!(refused.starts_with("Standing queries of the namespace 'a' are being deleted"), "{refused}");
            drop(turns.of_within(Duration::ZERO, ("b", "q"), "created").expect("it is of another namespace"));
            drop(first);
            tell.send_timeout((), LONG).expect("it has all of them");
            all.join().expect("it ends");
        });
        drop(turns.of_within(Duration::ZERO, ("a", "q"), "created").expect("they were given back"));
    }
}
