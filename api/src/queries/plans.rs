//! Plans by text, so that a text is compiled once. Parameters are no part of it: their values are given to each run. Only a call
//! that stands alone may go by which of them are given, and these are then a part of its key.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use weir_cypher_compiler::Diagnostic;
use weir_engine::{Graph, Prepared};
use weir_model::lock::lock;
use weir_model::plan::Operator;
use weir_model::{Plan, Text};

/// Texts of a generation; there are two.
const TEXTS_MAX: usize = 1024;

/// Longer texts are made by programs that put their data into them, and do not come again.
pub const TEXT_BYTES_MAX: usize = 16 << 10;

pub struct Compiled {
    pub prepared: Arc<Prepared>,
    /// See `is_quick`.
    pub quick: bool,
}

/// Two generations: what was not asked for while the young one filled goes. So nothing is counted or moved on a hit.
#[derive(Default)]
pub struct Plans {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<String, Arc<Compiled>>,
    old: HashMap<String, Arc<Compiled>>,
}

impl Plans {
    /// The plan of a text in a graph, compiled if it is not there. `given` are the names of parameters that it goes by.
    pub fn get(
        &self,
        graph: &Graph,
        text: &str,
        given: &[Text],
        compile: impl FnOnce() -> Result<Plan, Vec<Diagnostic>>,
    ) -> Result<Arc<Compiled>, Vec<Diagnostic>> {
        // A graph that is dropped and made again has another number, and names of its own behind the symbols.
        let key = format!("{:?} {given:?} {text}", graph.id());
        if let Some(known) = self.find(&key) {
            return Ok(known);
        }
        let plan = compile()?;
        let quick = is_quick(&plan);
        let compiled = Arc::new(Compiled { prepared: graph.prepare(plan), quick });
        if text.len() + given.iter().map(Text::len).sum::<usize>() <= TEXT_BYTES_MAX {
            self.lock().insert(key, compiled.clone());
        }
        Ok(compiled)
    }

    fn find(&self, key: &str) -> Option<Arc<Compiled>> {
        let mut generations = self.lock();
        if let Some(known) = generations.young.get(key) {
            return Some(known.clone());
        }
        let (key, known) = generations.old.remove_entry(key)?;
        generations.insert(key, known.clone());
        Some(known)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Generations> {
        lock(&self.generations)
    }
}

impl Generations {
    fn insert(&mut self, key: String, compiled: Arc<Compiled>) {
        if self.young.len() >= TEXTS_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, compiled);
    }
}

/// Probably over in no time, and waits for nothing: no scan of the graph, no call but of what is over at once. A command about
/// the graph as a whole is no query among others.
pub fn is_quick(plan: &Plan) -> bool {
    !plan.facts.scans && !plan.facts.calls && !matches!(plan.root, Operator::Schema(_))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use weir_connectors::{FilePolicy, HostPolicy};
    use weir_cypher_compiler::{Options, compile};
    use weir_engine::store::InMemory;
    use weir_engine::{Engine, Options as EngineOptions};

    use super::*;
    use crate::procedures::Procedures;

    fn engine() -> Engine {
        let engine = Engine::open(Arc::new(InMemory::default()), EngineOptions { workers: 1, ..EngineOptions::default() });
        engine.expect("an engine in memory")
    }

    #[test]
    fn texts_are_compiled_once_and_the_old_ones_go() {
        let engine = engine();
        let (plans, compiled) = (Plans::default(), Cell::new(0));
        let graph = engine.default_graph();
        let get = |text: &str| {
            plans.get(&graph, text, &[], || {
                compiled.set(compiled.get() + 1);
                compile(text, &Options::default())
            })
        };
        assert!(get("RETURN 1").expect("compiles").quick);
        assert!(get("RETURN 1").expect("compiles").quick);
        assert_eq!(compiled.get(), 1);
        assert!(get("RETURN").is_err() && get("RETURN").is_err());
        assert!(!get("CALL util.sleep(1)").expect("compiles").quick);
        for i in 0..3 * TEXTS_MAX {
            get("RETURN 1").expect("compiles");
            get(&format!("RETURN {i} AS a, 0 AS b")).expect("compiles");
        }
        let before = compiled.get();
        get("RETURN 1").expect("compiles");
        assert_eq!(compiled.get(), before, "what is asked for again and again stays");
        let generations = plans.lock();
        let kept = generations.young.len() + generations.old.len();
        assert!(kept <= 2 * TEXTS_MAX, "{kept}");
    }

    #[test]
    fn what_is_quick_calls_nothing_whatever_its_names_are() {
        let (engine, procedures) = (engine(), Procedures::new(FilePolicy::default(), HostPolicy::default(), usize::MAX));
        let options = procedures.options(&engine.default_graph(), vec![Text::new("given")]);
        let quick = |text: &str| is_quick(&compile(text, &options).expect("compiles"));
        for text in [
            "CREATE (:Show)",
            "CREATE (:Call {download: 'LOAD CSV, SHOW INDEXES, CALL x()'})",
            "MATCH (n) WHERE id(n) = idFrom(1) SET n.showId = 1",
            "RETURN 'showroom' AS calls",
            "SHOW QUERIES",
            "SHOW QUERIES YIELD id, query",
            "TERMINATE QUERY '1'",
        ] {
            assert!(quick(text), "{text}");
        }
        let at_once = |text: &str| compile(text, &options).expect("compiles").facts.at_once;
        for text in [
            "SHOW QUERIES YIELD id, query WHERE query CONTAINS 'x' RETURN id ORDER BY query LIMIT 5",
            "TERMINATE QUERIES '1', '2'",
            "CALL query.running() YIELD id CALL query.terminate(id) YIELD message RETURN message",
            "CALL query.terminate($given) YIELD message RETURN count(message)",
        ] {
            assert!(quick(text) && at_once(text), "{text}");
        }
        // What is beside the call may take long, or changes the graph and is tried again: it has to be as any other.
        for text in [
            "UNWIND range(1, 1000) AS x UNWIND range(1, 1000) AS y CALL query.running() YIELD id RETURN count(id)",
            "MATCH (n) WHERE id(n) = idFrom(1) CALL query.terminate(n.query) YIELD message RETURN message",
            "CALL query.terminate('1') YIELD message CREATE (:Told {message: message})",
            "CALL query.running() YIELD id CALL util.sleep(1) RETURN id",
            "CALL query.terminate([x IN range(1, 100000) | x]) YIELD id \
             RETURN id, reduce(t = 'x', n IN range(1, 20) | t + t) AS t",
            "CALL query.running() YIELD id RETURN size([x IN range(1, 30000) WHERE any(y IN range(1, 30000) WHERE x * y = -1)])",
            "CALL query.running() YIELD id RETURN size(range(1, toInteger(id)))",
            "CALL query.running() YIELD id RETURN COUNT { MATCH (n) } AS all",
            "CALL query.running() YIELD id AS a CALL query.running() YIELD id AS b CALL query.running() YIELD id AS c RETURN count(*)",
        ] {
            assert!(!quick(text) && !at_once(text), "{text}");
        }
        let ends = |text: &str| compile(text, &options).expect("compiles").facts.ends;
        assert!(ends("TERMINATE QUERY '1'") && !ends("SHOW QUERIES"));
        assert!(ends("MATCH (n) WHERE id(n) = idFrom(1) CALL query.terminate(n.query) YIELD message RETURN message"));
        assert!(!at_once("RETURN 1") && !at_once("CALL util.sleep(1)"));
        for text in [
            "CALL util.sleep(1)",
            "CREATE (n) WITH n CALL util.sleep(1) RETURN id(n)",
            "CALL { RETURN 1 AS x } RETURN x",
            "CALL RECURSIVELY WITH 1 AS x UNTIL (x > 3) { RETURN x + 1 AS x } RETURN x",
            "RETURN COLLECT { CALL { RETURN 1 AS x } RETURN x } AS all",
            "LOAD CSV FROM 'a.csv' AS line RETURN line",
            "SHOW INDEXES",
            "SHOW INDEXES YIELD name",
            "CREATE INDEX FOR (n:A) ON (n.x)",
            "MATCH (n) RETURN n",
        ] {
            assert!(!quick(text), "{text}");
        }
    }

    #[test]
    fn a_call_that_takes_parameters_by_name_has_a_plan_for_those_that_are_given() {
        let engine = engine();
        let (plans, compiled) = (Plans::default(), Cell::new(0));
        let graph = engine.default_graph();
        let text = "CALL int.add";
        let get = |names: &[&str]| {
            let given: Vec<Text> = names.iter().copied().map(Text::new).collect();
            let plan = plans.get(&graph, text, &given, || {
                compiled.set(compiled.get() + 1);
                compile(text, &Options { parameters: given.clone(), ..Options::default() })
            });
            plan.expect("compiles").prepared.plan.parameters.iter().map(Text::to_string).collect::<Vec<_>>()
        };
        for _ in 0..2 {
            assert_eq!(get(&["key", "node"]), ["key", "node"]);
            assert_eq!(get(&["add", "key", "node"]), ["add", "key", "node"]);
        }
        assert_eq!(compiled.get(), 2);
        // What is too long to be kept is so with its names.
        let long = "n".repeat(TEXT_BYTES_MAX);
        get(&[long.as_str()]);
        get(&[long.as_str()]);
        assert_eq!(compiled.get(), 4);
    }
}
