//! What a standing query costs that is installed on a graph of some size: how long it looks through what is there, and how much
//! of the machine it leaves to ingest.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_engine::{Graph, Ingester, Start};
use weir_model::{Mutations, NodeId, Tick, Value, json};

use crate::data::{Processes, mix};
use crate::measure::{Clock, Run};
use crate::passes::Settings;
use crate::weir::{self, Counter, Scratch};

/// Commits the next batch of events: how many, and the tick after them; none at the end.
type Feed<'a> = dyn FnMut() -> Result<Option<(u64, Tick)>, Box<dyn Error>> + 'a;

/// The chain of four, installed on `--events` of `procs` in memory while more of them come in as mutations, each batch visible
/// before the next.
pub fn run(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let engine = weir::filled(settings)?;
    let graph = engine.default_graph();
    let more = settings.events..2 * settings.events;
    let mut batches = weir::batches(&graph, &settings.processes(), more, settings.batch)?.into_iter();
    let mut feed = || -> Result<Option<(u64, Tick)>, Box<dyn Error>> {
        let Some((mutations, records)) = batches.next() else { return Ok(None) };
        let upper = graph.apply(mutations, records)?;
        // What waits for the workers is no progress.
        graph.wait_visible()?;
        Ok(Some((records as u64, upper)))
    };
    let run = measure(settings, &graph, settings.events, &mut feed)?;
    engine.shutdown()?;
    Ok(Run { settings: format!("mutations, in memory, {}", run.settings), ..run })
}

/// As `run`, beside ingest as it is: lines of JSON into a store.
pub fn beside_ingest(settings: &Settings) -> Result<Run, Box<dyn Error>> {
    let whole = Settings { events: 2 * settings.events, ..settings.clone() };
    let mut file = BufReader::with_capacity(1 << 20, File::open(whole.events_file()?)?);
    let scratch = Scratch::new(settings, "backfill")?;
    let engine = weir::started(weir::open_store(settings.store, &scratch.path())?, settings.workers)?;
    let graph = engine.default_graph();
    let mut ingester = Ingester::new(graph.clone(), weir::prepare(&graph, weir::INGEST)?);
    let (mut line, mut records) = (Vec::new(), Vec::new());
    let mut feed = || -> Result<Option<(u64, Tick)>, Box<dyn Error>> {
        records.clear();
        while (records.len() as u64) < settings.batch {
            line.clear();
            if file.read_until(b'\n', &mut line)? == 0 {
                break;
            }
            records.push(json::parse(&line)?);
        }
        if records.is_empty() {
            return Ok(None);
        }
        Ok(Some((records.len() as u64, ingester.ingest(&records, None)?.upper)))
    };
    let mut there = 0;
    while there < settings.events
        && let Some((records, _)) = feed()?
    {
        there += records;
    }
    graph.wait_visible()?;
    let run = measure(settings, &graph, there, &mut feed)?;
    engine.shutdown()?;
    Ok(Run { name: "backfill-ingest".to_owned(), settings: format!("JSON to {:?}, {}", settings.store, run.settings), ..run })
}

/// A quarter of as many events as are there comes in before the query is installed, and a half at most while it is.
fn measure(settings: &Settings, graph: &Graph, there: u64, feed: &mut Feed<'_>) -> Result<Run, Box<dyn Error>> {
    let mut events = there;
    let mut longest = Duration::ZERO;
    let mut upper = Tick::ZERO;
    let mut commit = |events: &mut u64| -> Result<bool, Box<dyn Error>> {
        let begun = Instant::now();
        let Some((records, after)) = feed()? else { return Ok(false) };
        longest = longest.max(begun.elapsed());
        *events += records;
        upper = after;
        Ok(true)
    };
    // What waits for the workers is no progress.
    let rate = |events: u64, begun: Instant| -> Result<f64, Box<dyn Error>> {
        graph.wait_visible()?;
        Ok(events as f64 / begun.elapsed().as_secs_f64())
    };
    let begun = Instant::now();
    while events < there + there / 4 && commit(&mut events)? {}
    let alone = rate(events - there, begun)?;

    let begun = Instant::now();
    let at = events;
    let clock = Clock::start()?;
    let query = Arc::new(weir::install_chain(graph, settings.mode, Start::WholeGraph)?);
    let call = begun.elapsed();
    let counter = Counter::start(query.clone(), |_| ())?;
    let (mut beside, mut others) = (None, 0);
    let seen = graph.symbols().intern("seen");
    let mut longest_other = Duration::ZERO;
    while query.backfill().is_some() {
        if events < there + there * 3 / 4 && commit(&mut events)? {
            continue;
        }
        if beside.is_none() {
            beside = Some(rate(events - at, begun)?);
        }
        // The rest is for afterwards; that others do not have to wait shows with changes that do not concern the query.
        others += 1;
        let mut mutations = Mutations::default();
        let number = u64::MAX - others;
        mutations.set_property(NodeId::new(mix(number), number), seen, &Value::Boolean(true));
        let begun = Instant::now();
        graph.apply(mutations, 1)?;
        graph.wait_visible()?;
        longest_other = longest_other.max(begun.elapsed());
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut run = clock.stop("backfill", at)?;
    let beside = match beside {
        Some(beside) => beside,
        None => rate(events - at, begun)?,
    };
    let (begun, from) = (Instant::now(), events);
    while commit(&mut events)? {}
    let after = rate(events - from, begun)?;
    let counted = counter.finish(upper)?;
    run.matches = Some(counted.matches);
    run.expected = Some(Processes { count: events, ..settings.processes() }.expected_chains(4));
    run.settings = format!(
        "the chain of four installed on {at} events until it has looked through them, {} workers; the call took {:.2} ms; \
         ingest: {alone:.0} events/s before, {beside:.0} meanwhile, {after:.0} afterwards, \
         {} ms the longest that a batch waited",
        settings.workers,
        call.as_secs_f64() * 1_000.0,
        longest.max(longest_other).as_millis()
    );
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes::test_settings;

    #[test]
    fn what_was_there_and_what_comes_is_counted_once() {
        for workers in [1, 2] {
            let settings = Settings { workers, ..test_settings("backfill", 20_000) };
            for measured in [run(&settings), beside_ingest(&settings)] {
                let run = measured.expect("it runs");
                assert!(run.count_is_right() && run.matches > Some(15_000), "{run:?}");
            }
        }
    }
}
