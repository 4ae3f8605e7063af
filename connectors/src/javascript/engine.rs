//! The engine of a script: QuickJS within its limits, nothing in it but the language, and the thread's loop.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender};
use rquickjs::context::{EvalOptions, intrinsic};
use rquickjs::{Context, Ctx, Function, Object, Runtime};
use weir_model::Value;

use super::convert::{Tools, from_js, to_js};
use super::{RECORD_TIME_MAX, Transformed, Watch};
use crate::decode::VALUES_BYTES_MAX;

/// Bytes of everything a script has at a time, at most.
const MEMORY_BYTES_MAX: usize = 128 << 20;

/// What calls may take of the thread's stack.
const STACK_BYTES_MAX: usize = 1 << 20;

/// Characters of a reason.
const REASON_CHARACTERS_MAX: usize = 500;

const PRELUDE: &str = include_str!("prelude.js");

type Builtins = (
    intrinsic::Eval,
    intrinsic::Date,
    intrinsic::RegExpCompiler,
    intrinsic::RegExp,
    intrinsic::Json,
    intrinsic::Proxy,
    intrinsic::MapSet,
    intrinsic::TypedArrays,
    intrinsic::Promise,
);

/// The loop of the thread: an engine as long as it is sound, and then another one.
pub fn work(
    text: &str,
    watch: &Arc<Watch>,
    ready: &Sender<Result<(), String>>,
    jobs: &Receiver<Arc<Vec<Value>>>,
    done: &Sender<Transformed>,
) {
    let mut told = false;
    let mut job: Option<(Arc<Vec<Value>>, Transformed)> = None;
    loop {
        let life = live(text, watch, |script| {
            if !std::mem::replace(&mut told, true) {
                // Nobody waits for it any more.
                let _ = ready.send(Ok(()));
            }
            loop {
                if job.is_none() {
                    let Ok(records) = jobs.recv() else { return Life::Over };
                    job = Some((records, Transformed::default()));
                }
                let Some((records, transformed)) = &mut job else { continue };
                while let Some(record) = records.get(transformed.outcomes.len()) {
                    if watch.is_cancelled() || transformed.bytes >= VALUES_BYTES_MAX {
                        break;
                    }
                    let (outcome, sound) = script.apply(record, watch);
                    transformed.bytes += outcome.as_ref().map_or(0, |(_, bytes)| *bytes);
                    transformed.outcomes.push(outcome.map(|(value, _)| value));
                    if !sound {
                        return Life::Another;
                    }
                }
                if let Some((_, transformed)) = job.take()
                    && done.send(transformed).is_err()
                {
                    return Life::Over;
                }
            }
        });
        match life {
            Ok(Life::Another) => {}
            Ok(Life::Over) => return,
            Err(reason) => {
                let _ = ready.try_send(Err(reason));
                return;
            }
        }
    }
}

enum Life {
    /// After what has run out of time or memory, or left something to do.
    Another,
    Over,
}

/// Makes an engine, reads the script and does something with it.
fn live(text: &str, watch: &Arc<Watch>, within: impl FnOnce(&Script<'_>) -> Life) -> Result<Life, String> {
    let broken = |error: rquickjs::Error| format!("the engine cannot be started: {error}");
    let runtime = Runtime::new().map_err(broken)?;
    runtime.set_memory_limit(MEMORY_BYTES_MAX);
    runtime.set_max_stack_size(STACK_BYTES_MAX);
    let late = Rc::new(Cell::new(false));
    let (watched, noted) = (watch.clone(), late.clone());
    runtime.set_interrupt_handler(Some(Box::new(move || {
        let late = watched.running() > RECORD_TIME_MAX;
        noted.set(noted.get() || late);
        late || watched.is_cancelled()
    })));
    let context = Context::custom::<Builtins>(&runtime).map_err(broken)?;
    context.with(|ctx| {
        watch.begin();
        let tools: Object<'_> = ctx.eval(PRELUDE).map_err(|error| reason(&ctx, &error))?;
        let tools = Tools::of(&tools).map_err(broken)?;
        let function = read(&ctx, text, &tools)?;
        Ok(within(&Script { ctx, function, tools, late }))
    })
}

struct Script<'js> {
    ctx: Ctx<'js>,
    function: Function<'js>,
    tools: Tools<'js>,
    late: Rc<Cell<bool>>,
}

impl Script<'_> {
    /// What becomes of a record, with its bytes, and whether the engine is as it was before.
    fn apply(&self, record: &Value, watch: &Watch) -> (Result<(Value, usize), String>, bool) {
        watch.begin();
        let transformed = to_js(&self.ctx, &self.tools, record).and_then(|record| self.function.call((record,)));
        let outcome = match transformed {
            Ok(answer) => from_js(&self.tools, answer),
            Err(error) => Err(error.into()),
        };
        let outcome = outcome.map_err(|problem| problem.told(|error| reason(&self.ctx, error)));
        if self.late.get() {
            return (Err(format!("it takes longer than {} s", RECORD_TIME_MAX.as_secs())), false);
        }
        let spent = outcome.as_ref().is_err_and(|reason| reason.contains("out of memory"));
        // What a promise has left to be done would be left for the next record.
        (outcome, !spent && !self.ctx.execute_pending_job())
    }
}

/// The text of one function, and nothing else: what stands around it could remember.
fn read<'js>(ctx: &Ctx<'js>, text: &str, tools: &Tools<'js>) -> Result<Function<'js>, String> {
    let mut options = EvalOptions::default();
    options.filename = Some("transformation".to_owned());
    let value: rquickjs::Value<'js> =
        ctx.eval_with_options(format!("({text}\n)"), options).map_err(|error| reason(ctx, &error))?;
    let not = || "it is not the text of one function, such as `record => ({...record, seen: true})`".to_owned();
    let function = value.into_function().ok_or_else(not)?;
    let own = tools.text_of(&function).map_err(|error| reason(ctx, &error))?;
    let alone = |(at, _): (usize, &str)| surrounds(&text[..at]) && surrounds(&text[at + own.len()..]);
    if own.starts_with("class") || !text.match_indices(&own).any(alone) {
        return Err(not());
    }
    let ends_later = own.starts_with("async") && own[5..].starts_with([' ', '\t', '\n', '\r', '(', '/']);
    if ends_later {
        return Err("a function that answers later is not waited for; leave out `async`".to_owned());
    }
    tools.close(&function).map_err(|error| reason(ctx, &error))?;
    Ok(function)
}

/// What ends a line, and a comment with it.
const LINE_ENDS: [char; 4] = ['\n', '\r', '\u{2028}', '\u{2029}'];

/// Whether it is white space, parentheses and comments.
fn surrounds(mut text: &str) -> bool {
    loop {
        text = text.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '(' | ')'));
        text = if let Some(comment) = text.strip_prefix("//") {
            comment.split_once(LINE_ENDS).map_or("", |(_, rest)| rest)
        } else if let Some((_, rest)) = text.strip_prefix("/*").and_then(|comment| comment.split_once("*/")) {
            rest
        } else {
            return text.is_empty();
        };
    }
}

/// What the script has thrown, in words.
fn reason(ctx: &Ctx<'_>, error: &rquickjs::Error) -> String {
    if !error.is_exception() {
        return error.to_string();
    }
    let thrown = ctx.catch();
    let field = |name: &str| thrown.as_object().and_then(|object| object.get::<_, Option<String>>(name).ok().flatten());
    let said = match (field("name"), field("message")) {
        (Some(name), Some(message)) => format!("{name}: {message}"),
        (None, Some(message)) => message,
        _ => match thrown.as_string().and_then(|text| text.to_string().ok()) {
            Some(text) => text,
            // What the engine throws where not even the error fits. A script may throw it, too, and gets another engine for it.
            None if thrown.is_null() => "out of memory (or the script has thrown null)".to_owned(),
            None => format!("something was thrown that is no error, but {}", thrown.type_name()),
        },
    };
    said.chars().take(REASON_CHARACTERS_MAX).collect()
}
