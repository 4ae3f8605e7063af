//! Procedures that run a query given as text: `do.when` and its like.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use weir_model::expression::FailureKind;
use weir_model::lock::lock;
use weir_model::procedure::{Caller, Chosen};
use weir_model::{Failure, Map, Plan, Text, Value};

use crate::{Options, compile};

/// How many compiled texts one call keeps. Most calls have one or two texts, whatever their parameters.
const KEPT_MAX: usize = 16;

/// The texts of one call, compiled as the query around it was.
pub struct Queries {
    options: Options,
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    text: Text,
    parameters: Vec<Text>,
    plan: Arc<Plan>,
}

impl Queries {
    pub fn new(options: &Options) -> Queries {
        Queries { options: options.clone(), kept: Mutex::default() }
    }

    /// The plan of a text whose parameters have these names.
    pub fn compile(&self, text: &str, parameters: Vec<Text>) -> Result<Arc<Plan>, Failure> {
        let mut kept = lock(&self.kept);
        if let Some(known) = kept.iter().find(|known| known.text == text && known.parameters == parameters) {
            return Ok(known.plan.clone());
        }
        let refused = |error: &crate::Diagnostic| {
            Failure::new(FailureKind::Runtime, format!("The query inside the query cannot run: {error:#}"))
        };
        let runs_as = Some("a query that another one runs");
        let options = Options { parameters: parameters.clone(), bare_parameters: true, runs_as, ..self.options.clone() };
        let plan = match compile(text, &options) {
            Ok(plan) => plan,
            Err(errors) => return Err(refused(&errors[0])),
        };
        if let Some(unknown) = plan.parameters.get(parameters.len()) {
            return Err(refused(&crate::unknown_parameter(text, unknown)));
        }
        let plan = Arc::new(plan);
        kept.truncate(KEPT_MAX - 1);
        kept.push_front(Kept { text: text.into(), parameters, plan: plan.clone() });
        Ok(plan)
    }

    /// Nothing is to be done where one of several texts is chosen and it is empty.
    fn choose(&self, text: &str, parameters: &Map) -> Result<Option<Chosen>, Failure> {
        if text.trim().is_empty() { Ok(None) } else { self.chosen(text, parameters).map(Some) }
    }

    fn chosen(&self, text: &str, parameters: &Map) -> Result<Chosen, Failure> {
        let plan = self.compile(text, parameters.iter().map(|(name, _)| name.clone()).collect())?;
        let parameters = parameters.iter().map(|(_, value)| value.clone()).collect();
        Ok(Chosen { plan, parameters, as_maps: true, time_ms_max: None, at_ms: None })
    }
}

/// A text; the only values that can stand for one are texts, and those that the signature lets pass as null.
fn text_of(value: &Value) -> Result<&str, Failure> {
    if let Value::Text(text) = value { Ok(text) } else { Err(expected("Str", value, "query statement in `cypher.do.case`")) }
}

fn expected(wanted: &str, value: &Value, place: &str) -> Failure {
    let (shown, kind) = (weir_model::arithmetic::shortened(value), value.type_name());
    let message = format!("Expected type(s) {wanted} but got value {shown} of type {kind} in {place}");
    Failure::new(FailureKind::TypeMismatch, message)
}

fn parameters_of(value: &Value) -> Map {
    if let Value::Map(map) = value { Map::clone(map) } else { Map::default() }
}

pub fn when(queries: &Queries, _: &dyn Caller, arguments: &[Value]) -> Result<Option<Chosen>, Failure> {
    let text = if arguments[0].is_true() { &arguments[1] } else { &arguments[2] };
    queries.choose(text_of(text)?, &parameters_of(&arguments[3]))
}

pub fn do_it(queries: &Queries, _: &dyn Caller, arguments: &[Value]) -> Result<Option<Chosen>, Failure> {
    queries.chosen(text_of(&arguments[0])?, &parameters_of(&arguments[1])).map(Some)
}

pub fn case(queries: &Queries, _: &dyn Caller, arguments: &[Value]) -> Result<Option<Chosen>, Failure> {
    let Value::List(conditionals) = &arguments[0] else { return Ok(None) };
    if conditionals.len() % 2 != 0 {
        let message = format!(
            "`cypher.do.case` expects each condition to be followed by a query, but the list of conditions and queries has odd length {}",
            conditionals.len()
        );
        return Err(Failure::new(FailureKind::Runtime, message));
    }
    let mut chosen = &arguments[1];
    for pair in conditionals.chunks_exact(2) {
        match &pair[0] {
            Value::Boolean(true) => {
                chosen = &pair[1];
                break;
            }
            Value::Boolean(false) | Value::Null => {}
            other => return Err(expected("Bool", other, "condition in `cypher.do.case`")),
        }
    }
    queries.choose(text_of(chosen)?, &parameters_of(&arguments[2]))
}

pub fn at(queries: &Queries, _: &dyn Caller, arguments: &[Value]) -> Result<Option<Chosen>, Failure> {
    let Value::Integer(at) = arguments[1] else { return Ok(None) };
    let chosen = queries.chosen(text_of(&arguments[0])?, &parameters_of(&arguments[2]))?;
    if chosen.plan.facts.writes {
        return Err(Failure::new(FailureKind::Runtime, "`history.queryAt` runs queries that only read, and this one writes"));
    }
    Ok(Some(Chosen { at_ms: Some(at), ..chosen }))
}

pub fn timeboxed(queries: &Queries, _: &dyn Caller, arguments: &[Value]) -> Result<Option<Chosen>, Failure> {
    let time_ms_max = match arguments[2] {
        Value::Integer(millis) => u64::try_from(millis).unwrap_or(0),
        _ => 0,
    };
    let chosen = queries.chosen(text_of(&arguments[0])?, &parameters_of(&arguments[1]))?;
    Ok(Some(Chosen { time_ms_max: Some(time_ms_max), ..chosen }))
}
