//! Procedures: what CALL names. A procedure takes values and gives rows; its signature says which, so that a call is checked
//! before anything runs.
//!
//! The table of procedures lies in the compiler crate; callers may bring more. What a procedure does is one of three things:
//! the engine does it over its view, it follows from the arguments alone, or it is another query, run in place of the call.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use thiserror::Error;

use crate::expression::{Failure, FailureKind};
use crate::id::IdScheme;
use crate::plan::Plan;
use crate::tick::Tick;
use crate::value::{Text, Value};

pub struct Procedure {
    /// As documented; found without regard to case.
    pub name: Text,
    pub inputs: Vec<Field>,
    pub outputs: Vec<Field>,
    /// May change the graph.
    pub writes: bool,
    /// Doing it again changes nothing, and gives the same as long as the graph is the same.
    pub idempotent: bool,
    /// Visits every node.
    pub scans: bool,
    /// Waits for what comes, and gives rows as long as it does: for queries that only read. They go on with the graph as it is
    /// then.
    pub listens: bool,
    /// Waits for nobody, and is over in no time.
    pub at_once: bool,
    /// Ends queries that run.
    pub ends: bool,
    /// Brings things from outside (files, what web servers answer), or runs a text that is not known before and may.
    pub fetches: bool,
    /// Brings things from outside, and may be called all the same where that is not allowed (`Caller::may_fetch`): it goes by
    /// what is at hand then, and fails with `WouldFetch` where that is not enough.
    pub at_hand: bool,
    pub description: Text,
    /// A query that runs on an empty graph.
    pub example: Text,
    pub body: Body,
}

/// One argument or one column.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: Text,
    pub kind: Kind,
    /// The type as declared: `LIST OF STRING` is a list that is meant to hold texts.
    pub type_name: Text,
    /// Null is no value to refuse: the type ends in `?`, is ANY, or the default is null.
    pub nullable: bool,
    /// What an argument is when it is left out. Such arguments come last.
    pub default: Option<Value>,
    /// Whether the argument may be left out. One that has a default may; without one, the body gets an argument less.
    pub optional: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Any,
    Boolean,
    Integer,
    Float,
    Number,
    Text,
    Bytes,
    List,
    Map,
    Node,
    /// A node by itself or by what names it; declared as `NODE!`, shown as NODE.
    NodeOrId,
    Relationship,
    Path,
    DateTime,
}

#[derive(Clone)]
pub enum Body {
    /// The engine has it, by name.
    Graph,
    /// Its rows follow from the arguments; the graph is not asked.
    Rows(Arc<RowsFn>),
    /// Chooses a query, which runs in place of the call and in its transaction.
    Query(Arc<QueryFn>),
}

/// Takes a row of all columns, and says whether it wants more.
pub type Each<'e> = &'e mut dyn FnMut(&[Value]) -> Result<ControlFlow<()>, Failure>;

/// Gets one value for each input, but for those at the end that were left out and have no default. Whoever waits or works for
/// long between rows asks `Caller::check` every now and then.
pub type RowsFn = dyn Fn(&dyn Caller, &[Value], Each) -> Result<(), Failure> + Send + Sync;

/// `None`: no query runs and there are no rows.
pub type QueryFn = dyn Fn(&dyn Caller, &[Value]) -> Result<Option<Chosen>, Failure> + Send + Sync;

/// What a procedure may know of the query that calls it.
pub trait Caller {
    /// Fails when the query has run out of time or nobody wants its answer any more.
    fn check(&self) -> Result<(), Failure>;
    /// False while others wait for the query: nothing is brought from outside then.
    fn may_fetch(&self) -> bool;
    fn ids(&self) -> IdScheme;
    /// Milliseconds since 1970, the same for the whole query.
    fn now_millis(&self) -> i64;
    /// For one that listens, before it gives rows of a tick: from here on the query sees the graph as it is, with all that was
    /// committed up to that tick.
    fn move_on(&self, tick: Tick) -> Result<(), Failure>;
    /// For one that listens, while there is nothing to give: no moment of the graph is held for a query that does not look at it.
    fn rest(&self);
}

/// A query in place of a call.
pub struct Chosen {
    pub plan: Arc<Plan>,
    /// By `Plan::parameters`.
    pub parameters: Vec<Value>,
    /// Each row becomes one map in the only column of the procedure; otherwise the columns of the query are those of the
    /// procedure.
    pub as_maps: bool,
    /// After this many milliseconds the query ends without a failure, with the rows it has given.
    pub time_ms_max: Option<u64>,
    /// The moment as of which the query reads; it does nothing else then. None: the moment of the query around it.
    pub at_ms: Option<i64>,
}

/// A signature that says nothing.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{0}")]
pub struct SignatureError(String);

impl fmt::Debug for Procedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Procedure {
    /// A procedure that reads, declared by its signature: `name(in :: TYPE?, more :: TYPE = default) :: (out :: TYPE?)`. With
    /// `= none` an argument may be left out and has no default: null is a value like any other there.
    pub fn declare(signature: &str, body: Body) -> Result<Procedure, SignatureError> {
        let wrong = |what: &str| SignatureError(format!("{what} in the signature `{signature}`"));
        let (name, rest) = signature.split_once('(').ok_or_else(|| wrong("an opening parenthesis is missing"))?;
        let (inputs, rest) = rest.split_once(')').ok_or_else(|| wrong("a closing parenthesis is missing"))?;
        let outputs = rest.trim_start_matches([' ', ':']).trim_end_matches([' ', ':', ')']).trim_start_matches('(');
        let fields = |text: &str| -> Result<Vec<Field>, SignatureError> {
            text.split(',')
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(|text| field(text).map_err(|what| wrong(&what)))
                .collect()
        };
        Ok(Procedure {
            name: Text::new(name.trim()),
            inputs: fields(inputs)?,
            outputs: fields(outputs)?,
            writes: false,
            idempotent: true,
            scans: false,
            listens: false,
            at_once: false,
            ends: false,
            fetches: false,
            at_hand: false,
            description: Text::default(),
            example: Text::default(),
            body,
        })
    }

    /// This declaration with another body.
    pub fn with(&self, body: Body) -> Procedure {
        Procedure {
            name: self.name.clone(),
            inputs: self.inputs.clone(),
            outputs: self.outputs.clone(),
            description: self.description.clone(),
            example: self.example.clone(),
            body,
            ..*self
        }
    }

    /// As it is declared, without defaults.
    pub fn signature(&self) -> String {
        let field = |field: &Field| format!("{} :: {}", field.name, field.type_name);
        let fields = |fields: &[Field]| fields.iter().map(field).collect::<Vec<_>>().join(", ");
        let outputs = if self.outputs.is_empty() { "VOID".to_owned() } else { format!("({})", fields(&self.outputs)) };
        format!("{}({}) :: {outputs}", self.name, fields(&self.inputs))
    }

    pub fn required_count(&self) -> usize {
        self.inputs.iter().take_while(|input| !input.optional).count()
    }

    /// The arguments as the body takes them, with the defaults of those that were left out. One of a type it is not for is a
    /// failure.
    pub fn accept(&self, arguments: &mut Vec<Value>) -> Result<(), Failure> {
        for at in 0..arguments.len().min(self.inputs.len()) {
            match (self.inputs[at].kind, &arguments[at]) {
                (Kind::Float, Value::Integer(n)) => arguments[at] = Value::Float(*n as f64),
                (_, Value::Null) if self.inputs[at].nullable => {}
                (kind, value) if kind.admits(value) => {}
                _ => return Err(self.refused(arguments)),
            }
        }
        let left_out = self.inputs.get(arguments.len()..).unwrap_or_default();
        arguments.extend(left_out.iter().map_while(|input| input.default.clone()));
        Ok(())
    }

    /// The failure for arguments it is not for.
    pub fn refused(&self, arguments: &[Value]) -> Failure {
        let shown: Vec<String> = arguments.iter().map(crate::arithmetic::shortened).collect();
        let message = format!("Expected signature `{}` but got arguments {}", self.signature(), shown.join(", "));
        Failure::new(FailureKind::WrongSignature, message)
    }
}

impl Kind {
    const NAMES: &'static [(&'static str, Kind)] = &[
        ("ANY", Kind::Any),
        ("BOOLEAN", Kind::Boolean),
        ("INTEGER", Kind::Integer),
        ("FLOAT", Kind::Float),
        ("NUMBER", Kind::Number),
        ("STRING", Kind::Text),
        ("BYTES", Kind::Bytes),
        ("LIST", Kind::List),
        ("MAP", Kind::Map),
        ("NODE", Kind::Node),
        ("NODE!", Kind::NodeOrId),
        ("RELATIONSHIP", Kind::Relationship),
        ("PATH", Kind::Path),
        ("DATETIME", Kind::DateTime),
    ];

    fn admits(self, value: &Value) -> bool {
        match self {
            Kind::Any => true,
            Kind::Boolean => matches!(value, Value::Boolean(_)),
            Kind::Integer => matches!(value, Value::Integer(_)),
            Kind::Float | Kind::Number => matches!(value, Value::Integer(_) | Value::Float(_)),
            Kind::Text => matches!(value, Value::Text(_)),
            Kind::Bytes => matches!(value, Value::Bytes(_)),
            Kind::List => matches!(value, Value::List(_)),
            Kind::Map => matches!(value, Value::Map(_)),
            Kind::Node => matches!(value, Value::Node(_) | Value::FullNode(_)),
            Kind::NodeOrId => {
                matches!(value, Value::Node(_) | Value::FullNode(_) | Value::Id(_))
                    || matches!(value, Value::Integer(_) | Value::Text(_) | Value::Bytes(_))
            }
            Kind::Relationship => matches!(value, Value::Edge(_) | Value::FullEdge(_)),
            Kind::Path => matches!(value, Value::Path(_)),
            Kind::DateTime => matches!(value, Value::DateTime(_)),
        }
    }
}

/// `name :: TYPE?`, with ` = default` behind it where the argument may be left out, or ` = none` where it has no default.
fn field(text: &str) -> Result<Field, String> {
    let (declared, default) = match text.split_once('=') {
        Some((declared, default)) => (declared, Some(default.trim())),
        None => (text, None),
    };
    let optional = default.is_some();
    let default = default.filter(|default| *default != "none").map(default_value).transpose()?;
    let (name, kind) = declared.split_once("::").ok_or_else(|| format!("`{text}` has no type"))?;
    let written = kind.trim().to_ascii_uppercase();
    let type_name = written.trim_end_matches('?');
    let known = Kind::NAMES.iter().find(|(name, _)| *name == type_name.split(' ').next().unwrap_or_default());
    let (_, kind) = known.ok_or_else(|| format!("the unknown type `{type_name}`"))?;
    let nullable = written != type_name || *kind == Kind::Any || matches!(default, Some(Value::Null));
    let type_name = type_name.trim_end_matches('!').into();
    Ok(Field { name: Text::new(name.trim()), kind: *kind, type_name, nullable, default, optional })
}

fn default_value(text: &str) -> Result<Value, String> {
    Ok(match text {
        "null" => Value::Null,
        "{}" => Value::map([]),
        "[]" => Value::list(Vec::new()),
        "''" => Value::text(""),
        number if number.contains('.') => Value::Float(number.parse().map_err(|_| format!("the default `{text}`"))?),
        number => Value::Integer(number.parse().map_err(|_| format!("the default `{text}`"))?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declare(signature: &str) -> Result<Procedure, SignatureError> {
        Procedure::declare(signature, Body::Graph)
    }

    #[test]
    fn signatures_are_read_as_they_are_written() {
        let all = "a.b(x :: INTEGER?, y :: LIST OF STRING, z :: FLOAT = 1.5, w :: STRING = '') :: (out :: ANY?, more :: NODE)";
        let procedure = declare(all).expect("reads");
        assert_eq!(
            procedure.signature(),
            "a.b(x :: INTEGER, y :: LIST OF STRING, z :: FLOAT, w :: STRING) :: (out :: ANY, more :: NODE)"
        );
        assert_eq!((procedure.inputs.len(), procedure.required_count()), (4, 2));
        assert_eq!(declare("f() :: ()").expect("reads").signature(), "f() :: VOID");
        assert_eq!(declare("f(in :: NUMBER?) :: (out :: STRING?) :").expect("loosely").outputs.len(), 1);
        for wrong in ["f", "f(", "f(x) :: ()", "f(x :: TEXT) :: ()", "f(x :: INTEGER = one) :: ()"] {
            assert!(declare(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn arguments_are_checked_and_integers_taken_for_floats() {
        let procedure = declare("f(x :: FLOAT, y :: STRING?, z :: INTEGER = 7) :: ()").expect("reads");
        let mut good = vec![Value::Integer(2), Value::Null];
        procedure.accept(&mut good).expect("fits");
        assert!(matches!(good[..], [Value::Float(2.0), Value::Null, Value::Integer(7)]));
        assert!(procedure.accept(&mut vec![Value::Null, Value::Null]).is_err(), "the first takes no null");
        let procedure_without = declare("f(x :: INTEGER, y :: ANY = none, z :: ANY = none) :: ()").expect("reads");
        assert_eq!(procedure_without.required_count(), 1);
        for given in 1..=3 {
            let mut arguments = vec![Value::Integer(1), Value::Null, Value::Null];
            arguments.truncate(given);
            procedure_without.accept(&mut arguments).expect("fits");
            assert_eq!(arguments.len(), given, "null is not what is left out");
        }
        let failure = procedure.accept(&mut vec![Value::Float(0.5), Value::Integer(1)]).expect_err("no text");
        assert_eq!(failure.kind, FailureKind::WrongSignature);
        assert!(
            failure.message.contains("`f(x :: FLOAT, y :: STRING, z :: INTEGER) :: VOID` but got arguments 0.5, 1"),
            "{failure}"
        );
    }
}
