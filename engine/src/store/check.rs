//! Check: reads everything a store holds and says what of it is damaged. Nothing is changed.

use weir_model::Tick;
use weir_model::mutation::Kind;

use super::{GraphInfo, Part, RunInfo, Store, StoreError, lives};
use crate::arrangement::chunk::Chunk;
use crate::arrangement::numbering::Marks;
use crate::history::batches;
use crate::history::run::decode_index;

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    pub graphs: u64,
    pub chunks: u64,
    pub facts: u64,
    pub entries: u64,
    pub symbols: u64,
    /// Each with its place; nothing is wrong where there is none.
    pub damage: Vec<String>,
}

/// `say` is told what is looked at, before it is.
pub fn check(store: &dyn Store, say: &mut dyn FnMut(&str)) -> Checked {
    let mut checking = Checking { store, checked: Checked::default() };
    // Also where nobody reads what is in it.
    checking.checked.damage.extend(store.opened_without());
    say("symbols and metadata");
    let symbols = store.symbols().map(|symbols| symbols.len() as u64);
    checking.checked.symbols = checking.note("", symbols).unwrap_or(u64::MAX);
    checking.note("", store.list_metadata(""));
    for info in checking.note("", store.graphs()).unwrap_or_default() {
        say(&format!("graph '{}'", info.name));
        checking.graph(&info);
    }
    checking.checked
}

struct Checking<'a> {
    store: &'a dyn Store,
    checked: Checked,
}

impl Checking<'_> {
    fn note<T>(&mut self, place: &str, result: Result<T, StoreError>) -> Option<T> {
        match result {
            Ok(found) => Some(found),
            Err(error) => {
                self.checked.damage.push(if place.is_empty() { error.to_string() } else { format!("{place}: {error}") });
                None
            }
        }
    }

    fn wrong(&mut self, place: &str, what: &str) {
        self.checked.damage.push(format!("{place}: {what}"));
    }

    fn graph(&mut self, info: &GraphInfo) {
        self.checked.graphs += 1;
        let place = format!("graph '{}'", info.name);
        let progress = self.note(&place, self.store.progress(info.id)).unwrap_or_default();
        self.note(&place, lives::lives_of(self.store, info.id));
        let mut upper = Tick::ZERO;
        for run in self.note(&place, self.store.runs(info.id)).unwrap_or_default() {
            let place = format!("{place}, run {} (ticks {} to {})", run.id.0, run.first, run.upper);
            if run.first < upper {
                self.wrong(&place, "it overlaps the run before");
            }
            upper = run.upper;
            self.run(info, &run, &place);
        }
        if upper != progress.upto {
            self.wrong(&place, "the runs do not end where the log begins");
        }
        let (mut entries, mut symbol_max) = (0, None);
        let read = self.store.read_log(info.id, progress.upto, &mut |entry| {
            entries += 1;
            let symbols = entry.mutations.rows.iter().filter(|row| row.tag.kind() != Kind::ClearProperties);
            symbol_max = symbol_max.max(symbols.map(|row| row.tag.symbol().0).max());
            Ok(())
        });
        self.checked.entries += entries;
        self.note(&format!("{place}, after {entries} sound entries of the log"), read);
        self.symbols(&place, symbol_max);
    }

    fn symbols(&mut self, place: &str, used: Option<u32>) {
        if used.is_some_and(|used| u64::from(used) >= self.checked.symbols) {
            self.wrong(place, "a symbol that has no name");
        }
    }

    fn run(&mut self, info: &GraphInfo, run: &RunInfo, place: &str) {
        let known = self.note(place, self.store.chunk(info.id, run.id, Part::Index, 0)).flatten();
        let index = known.as_deref().map(decode_index);
        if matches!(index, Some(None)) {
            self.wrong(place, "an index that is not one");
        }
        let (mut count, mut problems) = (0, Vec::new());
        let read = self.store.read_run(info.id, run.id, Part::Batches, &mut |bytes| {
            let batches = batches::decode(bytes);
            let is_of_run = |batches: &Vec<_>| {
                batches.iter().all(|batch: &batches::Batch| run.first <= batch.first && batch.upper <= run.upper)
            };
            if !batches.as_ref().is_some_and(is_of_run) {
                problems.push(format!("chunk {count} does not tell what sources brought"));
            }
            count += 1;
            Ok(())
        });
        self.checked.chunks += count;
        let place_of_batches = format!("{place}, batches");
        self.note(&place_of_batches, read);
        problems.iter().for_each(|problem| self.wrong(&place_of_batches, problem));
        for (part, name) in [(Part::Newest, "newest"), (Part::Older, "older")] {
            let place = format!("{place}, {name} versions");
            let (mut firsts, mut last, mut problems) = (Vec::new(), None, Vec::new());
            let (mut facts, mut symbol_max) = (0, None);
            let (mut starts, mut marks) = (Vec::new(), Marks::default());
            let read = self.store.read_run(info.id, run.id, part, &mut |bytes| {
                let number = firsts.len();
                let Some(chunk) = Chunk::read(bytes, run.upper) else {
                    return Err(StoreError::damaged("a chunk that is not one", format!("chunk {number}")));
                };
                if chunk.segment().times.first().is_some_and(|time| *time < run.first.0) {
                    problems.push(format!("chunk {number} holds versions from before the run"));
                }
                if last >= chunk.ids().first().copied() {
                    problems.push(format!("chunk {number} does not follow the one before"));
                }
                last = chunk.ids().last().copied();
                facts += chunk.segment().facts.len() as u64;
                let of_facts = chunk.segment().facts.iter().filter(|fact| fact.tag.kind() != Kind::ClearProperties);
                symbol_max = symbol_max.max(of_facts.map(|fact| fact.tag.symbol().0).max());
                firsts.push(chunk.ids()[0]);
                starts.extend(chunk.numbers().first());
                chunk.numbers().iter().for_each(|number| marks.has_facts(*number));
                chunk.ends_numbered().for_each(|number| marks.is_an_end(number));
                Ok(())
            });
            self.checked.chunks += firsts.len() as u64;
            self.checked.facts += facts;
            let whole = self.note(&place, read).is_some();
            problems.iter().for_each(|problem| self.wrong(&place, problem));
            self.symbols(&place, symbol_max);
            if let Some(Some(index)) = &index
                && whole
                && (index.firsts[part as usize] != firsts || (part == Part::Newest && index.starts != starts))
            {
                self.wrong(&place, "the index does not tell where the nodes lie");
            }
            let strays = index.iter().flatten().flat_map(|index| &index.strays);
            strays.for_each(|(number, _)| marks.has_facts(*number));
            if whole && marks.strays().next().is_some() {
                self.wrong(&place, "an edge to a node that is not there");
            }
        }
    }
}
