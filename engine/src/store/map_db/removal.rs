//! Removal: what belongs to nothing any more goes from the file, by a thread of its own and in parts, so that no commit waits for
//! gigabytes.
//!
//!     replaced runs, dropped graphs ─ where they lie ─> Removal ─ a transaction for each part ─> room in the file
//!
//! Their records have gone before, in the transaction that replaced or dropped them. So nobody reads what is left, and where the
//! process ends before all of it has gone, the next start finds it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use redb::Database;

use super::super::keys::{after_prefix, run_pages};
use super::super::{GraphId, RunId};
use super::{Bytes, Definition, PAGES, PORTION_BYTES};

/// At most this many removals wait for their turn. What comes on top of that waits for the next start.
const ORDERS_MAX: usize = 1000;

/// At most this many entries make a part, however little is in them.
const ENTRIES_MAX: usize = 20_000;

/// Between two parts it rests as long as one took, up to this.
const REST_MAX: Duration = Duration::from_millis(100);

/// Entries of a table: from a key on, before another.
pub struct Leftover {
    pub table: Definition,
    pub from: Vec<u8>,
    pub to: Vec<u8>,
}

impl Leftover {
    /// The pages of a run.
    pub fn of_run(graph: GraphId, run: RunId) -> Leftover {
        Leftover { table: PAGES, from: run_pages(graph, run).to_vec(), to: run_pages(graph, RunId(run.0 + 1)).to_vec() }
    }

    /// What a graph has in a table.
    pub fn of_graph(table: Definition, graph: GraphId) -> Leftover {
        let prefix = graph.0.to_be_bytes();
        Leftover { table, from: prefix.to_vec(), to: after_prefix(&prefix) }
    }
}

enum Order {
    Remove(Vec<Leftover>),
    /// What was ordered before has been done.
    Tell(Sender<()>),
}

/// Ends after the part that is under way when it is dropped.
pub struct Removal {
    /// None: it ends.
    orders: Option<Sender<Order>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Removal {
    /// `place` is what the file is called in the log.
    pub fn start(db: Arc<Database>, place: String) -> std::io::Result<Removal> {
        let (orders, ordered) = bounded(ORDERS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let named = std::thread::Builder::new().name("removal".to_owned());
        let thread = named.spawn(move || run(&db, &place, &ordered, &told))?;
        Ok(Removal { orders: Some(orders), stop, thread: Some(thread) })
    }

    /// Removes these some time. Nothing leads to them any more.
    pub fn begin(&self, leftovers: Vec<Leftover>) {
        if let Some(orders) = &self.orders {
            // Where it cannot, the next start does.
            let _ = orders.try_send(Order::Remove(leftovers));
        }
    }

    /// Waits until all that was begun has been done, as far as that can be.
    pub fn wait(&self) {
        let (tell, told) = bounded(1);
        if let Some(orders) = &self.orders
            && orders.send(Order::Tell(tell)).is_ok()
        {
            // An error says that nothing more is done.
            let _ = told.recv();
        }
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.orders = None;
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that removes leftovers ended by a panic");
        }
    }
}

fn run(db: &Database, place: &str, orders: &Receiver<Order>, stop: &AtomicBool) {
    for order in orders {
        match order {
            Order::Remove(leftovers) => {
                for leftover in &leftovers {
                    if let Err(error) = remove(db, leftover, stop) {
                        tracing::warn!("some of what was replaced or dropped stays in {place} until the next start: {error}");
                    }
                }
            }
            Order::Tell(tell) => {
                let _ = tell.send(());
            }
        }
    }
}

fn remove(db: &Database, leftover: &Leftover, stop: &AtomicBool) -> Result<(), redb::Error> {
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        if !remove_part(db, leftover)? {
            break;
        }
        // A commit that waits would not always be the next one otherwise.
        std::thread::sleep(began.elapsed().min(REST_MAX));
    }
    Ok(())
}

/// The first of what is left, in a transaction of its own. False: that was all.
pub fn remove_part(db: &Database, Leftover { table, from, to }: &Leftover) -> Result<bool, redb::Error> {
    let mut transaction = db.begin_write()?;
    transaction.set_two_phase_commit(true);
    let mut table = transaction.open_table(*table)?;
    let more = take_some(&mut table, from, to)?;
    drop(table);
    transaction.commit()?;
    Ok(more)
}

fn take_some(table: &mut Bytes<'_>, from: &[u8], to: &[u8]) -> Result<bool, redb::Error> {
    let (mut count, mut bytes) = (0, 0);
    // What is not asked for stays.
    let mut entries = table.extract_from_if(from..to, |_, _| true)?;
    let mut more = true;
    while more && count < ENTRIES_MAX && bytes < PORTION_BYTES {
        match entries.next().transpose()? {
            Some((key, value)) => {
                count += 1;
                bytes += key.value().len() + value.value().len();
            }
            None => more = false,
        }
    }
    entries.close()?;
    Ok(more)
}
