//! Expiry: what ends when its time has come. A rule names a label or a type, the property that holds a time, and how long
//! after it nodes, edges or one of their properties end.
//!
//!     commit ─ rows a rule may concern ─> Queue (by time) ─ due ─> read again ─> an ordinary commit of removals
//!
//! The times are properties like any other: stored, logged, exported and seen in the past with the rest. So nothing here
//! is stored but the rules; the queue is made anew from the graph when it is opened, and whenever it has given up later
//! times for want of room. What lies in it is a hint to look: whether something is due says the graph at that moment, so
//! a time that was moved, or a label that was taken away, needs no bookkeeping.
//!
//! A graph without rules pays one load of a flag for each commit.

mod fire;
mod queue;
mod rule;

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_model::lock::lock;
use weir_model::schema::{Expires, ExpiryRule};
use weir_model::{Mutations, Text, Value};

use crate::commit::wall_clock_millis;
use crate::error::EngineError;
use crate::graph::Graph;
use queue::Queue;
use rule::{Interests, Rule};

/// What the queue holds at most, in about 80 MB; later times are looked for again when it is half empty.
const WAITING_MAX: usize = 500_000;

/// What is due waits this long before streams wait for it, in milliseconds.
const LATE: u64 = 20;

/// The longest sleep while something waits: the clock of the machine may be set forward meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The expiry of a graph.
pub struct Expiry {
    /// There are rules.
    on: AtomicBool,
    stopping: AtomicBool,
    /// What is due waits for others, who are to wait instead.
    late: AtomicBool,
    /// Held while rules are made or dropped: commits do not wait for the store to know.
    declaring: Mutex<()>,
    /// Held while something ends by the rules there are.
    ending: Mutex<()>,
    state: Mutex<State>,
    /// Its thread waits here.
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct State {
    /// By number; a number is not used again.
    rules: BTreeMap<u32, Arc<Rule>>,
    next_rule: u32,
    interests: Interests,
    queue: Queue,
    /// The graph is to be looked through: a rule is new, or the queue has given up what is now near.
    fill: bool,
    filling: bool,
}

impl Default for Expiry {
    fn default() -> Expiry {
        let state = State {
            rules: BTreeMap::new(),
            next_rule: 0,
            interests: Interests::default(),
            queue: Queue::new(WAITING_MAX),
            fill: false,
            filling: false,
        };
        Expiry {
            on: AtomicBool::new(false),
            stopping: AtomicBool::new(false),
            late: AtomicBool::new(false),
            declaring: Mutex::default(),
            ending: Mutex::default(),
            state: Mutex::new(state),
            wake: Condvar::new(),
            thread: Mutex::default(),
        }
    }
}

impl Expiry {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A half changed queue would only be looked at once too often: every hint is verified.
        lock(&self.state)
    }

    /// Takes note of what is being committed. The committer calls this with its lock held.
    #[inline]
    pub fn note(&self, mutations: &Mutations) {
        if self.on.load(Ordering::Acquire) {
            self.note_all(mutations);
        }
    }

    fn note_all(&self, mutations: &Mutations) {
        let mut state = self.lock();
        let State { interests, queue, .. } = &mut *state;
        let (before, now) = (queue.first(), wall_clock_millis());
        interests.each(mutations, &mut |subject, due| match due {
            Some(due) => queue.push(subject, due),
            None => queue.look_at(subject, now),
        });
        if queue.first() != before {
            self.wake.notify_all();
        }
    }

    pub fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Ends the thread. What is due stays until the graph is opened again.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        // With the lock, so that the thread is not between its last look and its sleep.
        drop(self.lock());
        self.wake.notify_all();
        let thread = lock(&self.thread).take();
        // The last handle of a graph may be the thread's own.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        // Nobody waits for what does not end any more.
        self.late.store(false, Ordering::Relaxed);
    }
}

impl Graph {
    /// When this returns, what is due already is being removed.
    pub(crate) fn create_expiry(&self, name: Option<&Text>, rule: &ExpiryRule, unless_exists: bool) -> Result<(), EngineError> {
        let (Expires::Nodes(of) | Expires::Edges(of)) = &rule.of;
        let name = name.cloned().unwrap_or_else(|| match &rule.removes {
            Some(removes) => format!("expiry_{of}_{}_{removes}", rule.on).into(),
            None => format!("expiry_{of}_{}", rule.on).into(),
        });
        let expiry = self.expiry();
        {
            let _one = lock(&expiry.declaring);
            let is_same = |other: &&Arc<Rule>| other.name == name || other.stored == *rule;
            if let Some(other) = expiry.lock().rules.values().find(is_same) {
                return if unless_exists { Ok(()) } else { Err(EngineError::ExpiryExists(other.name.to_string())) };
            }
            self.parts().store.put_metadata(&self.expiry_key(&name), &rule::encode(rule))?;
            self.add_rule(&mut expiry.lock(), name, rule.clone());
        }
        expiry.wake.notify_all();
        self.start_expiry()
    }

    /// False when there is none of that name.
    pub(crate) fn drop_expiry(&self, name: &Text) -> Result<bool, EngineError> {
        let expiry = self.expiry();
        let _one = lock(&expiry.declaring);
        let number = expiry.lock().rules.iter().find(|(_, rule)| rule.name == *name).map(|(number, _)| *number);
        let Some(number) = number else { return Ok(false) };
        self.parts().store.delete_metadata(&self.expiry_key(name))?;
        let mut state = expiry.lock();
        state.rules.remove(&number);
        state.interests = Interests::of(&state.rules);
        if state.rules.is_empty() {
            expiry.on.store(false, Ordering::Release);
            state.queue.clear();
        }
        drop(state);
        // What ends by it just now ends before it is gone.
        drop(lock(&expiry.ending));
        Ok(true)
    }

    /// Rows of SHOW EXPIRIES.
    pub(crate) fn show_expiries(&self, each: &mut dyn FnMut(&[Value]) -> ControlFlow<()>) {
        let rows: Vec<[Value; 9]> = {
            let state = self.expiry().lock();
            let row = |(number, rule): (&u32, &Arc<Rule>)| {
                let (kind, of) = match &rule.stored.of {
                    Expires::Nodes(label) => ("NODE", label),
                    Expires::Edges(kind) => ("RELATIONSHIP", kind),
                };
                let text = |text: &Text| Value::Text(text.clone());
                [
                    text(&rule.name),
                    Value::text(if state.fill || state.filling { "POPULATING" } else { "ONLINE" }),
                    Value::text(kind),
                    text(of),
                    text(&rule.stored.on),
                    Value::Duration(rule.stored.after().into()),
                    rule.stored.removes.as_ref().map_or(Value::Null, text),
                    Value::Integer(state.queue.count(*number) as i64),
                    Value::Integer(rule.expired.load(Ordering::Relaxed) as i64),
                ]
            };
            state.rules.iter().map(row).collect()
        };
        for row in rows {
            if each(&row).is_break() {
                return;
            }
        }
    }

    /// The rules that the store knows come into force; what became due while the graph was closed is removed.
    pub(crate) fn load_expiry(&self) -> Result<(), EngineError> {
        let prefix = self.expiry_key("");
        let stored = self.parts().store.list_metadata(&prefix)?;
        if stored.is_empty() {
            return Ok(());
        }
        {
            let mut state = self.expiry().lock();
            for (key, bytes) in stored {
                let name = Text::new(key.strip_prefix(&prefix).unwrap_or(&key));
                match rule::decode(&bytes) {
                    Some(rule) => self.add_rule(&mut state, name, rule),
                    None => tracing::error!(graph = self.name(), expiry = %name, "this rule cannot be read"),
                }
            }
        }
        self.start_expiry()
    }

    fn add_rule(&self, state: &mut State, name: Text, rule: ExpiryRule) {
        let number = state.next_rule;
        state.next_rule += 1;
        state.rules.insert(number, Arc::new(Rule::new(name, rule, self.symbols())));
        state.interests = Interests::of(&state.rules);
        state.fill = true;
        self.expiry().on.store(true, Ordering::Release);
    }

    fn start_expiry(&self) -> Result<(), EngineError> {
        if self.parts().nothing_ends {
            return Ok(());
        }
        let mut thread = lock(&self.expiry().thread);
        if thread.is_none() {
            let (expiry, graph) = (self.expiry().clone(), self.downgrade());
            let builder = std::thread::Builder::new().name("expiry".to_owned());
            let spawned = builder.spawn(move || fire::run(&expiry, &graph));
            *thread = Some(spawned.map_err(|error| EngineError::Workers(error.to_string()))?);
        }
        Ok(())
    }

    fn expiry_key(&self, name: &str) -> String {
        format!("{}expiry/{name}", self.id().metadata_prefix())
    }
}
