//! The floor: `procs` and its chain of four written by hand in differential dataflow, as an expert would, for one machine.
//!
//!     exists(p0) ⋉ edges ── by p1 ─⋈─ edges ── by p2 ─⋈─ edges ──> (p0, p1, p2, p3)
//!
//! It has everything made easy: numbers of 64 bits for ids, only the edge and the one property the query asks for, nothing
//! parsed, logged, looked up or delivered. What the dataflow part of weir costs is compared with it at the same batch size.

use std::cell::Cell;
use std::error::Error;
use std::rc::Rc;
use std::time::Instant;

use differential_dataflow::input::Input;

use crate::data::Processes;
use crate::measure::{Clock, Durations, Run};

pub fn run(processes: Processes, batch: u64) -> Result<Run, Box<dyn Error>> {
    // Made before the clock starts: the floor does not pay for its data.
    let parents: Vec<Option<u64>> = (0..processes.count).map(|i| processes.parent(i)).collect();
    let run = timely::execute_directly(move |worker| -> std::io::Result<Run> {
        let found = Rc::new(Cell::new(0i64));
        let counted = Rc::clone(&found);
        let (mut edges_in, mut exists_in, probe) = worker.dataflow::<u64, _, _>(|scope| {
            let (edges_in, edges) = scope.new_collection::<(u64, u64), isize>();
            let (exists_in, exists) = scope.new_collection::<u64, isize>();
            let by_child = edges.arrange_by_key();
            let first = by_child.clone().join_core(exists.arrange_by_self(), |p0, p1, ()| Some((*p1, *p0)));
            let second = first.arrange_by_key().join_core(by_child.clone(), |p1, p0, p2| Some((*p2, (*p0, *p1))));
            let third = second.arrange_by_key().join_core(by_child, |p2, (p0, p1), p3| Some((*p0, *p1, *p2, *p3)));
            let (probe, _) = third.inspect(move |(_, _, diff)| counted.set(counted.get() + *diff as i64)).probe();
            (edges_in, exists_in, probe)
        });
        let mut latencies = Durations::new();
        let clock = Clock::start()?;
        let mut tick = 0;
        let mut next = 0;
        while next < processes.count {
            let begun = Instant::now();
            for i in next..(next + batch).min(processes.count) {
                exists_in.insert(i);
                if let Some(parent) = parents[i as usize] {
                    edges_in.insert((i, parent));
                }
            }
            next += batch;
            tick += 1;
            edges_in.advance_to(tick);
            edges_in.flush();
            exists_in.advance_to(tick);
            exists_in.flush();
            while probe.less_than(&tick) {
                worker.step();
            }
            latencies.record(begun.elapsed());
        }
        let mut run = clock.stop("floor", processes.count)?;
        run.matches = Some(found.get().unsigned_abs());
        run.latency_us = latencies.latency();
        Ok(run)
    });
    let mut run = run?;
    run.expected = Some(processes.expected_chains(4));
    run.settings = format!("hand-written differential dataflow, 1 worker, {batch} events a batch, latency of a batch");
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_counts_right_at_every_batch_size() {
        for batch in [1, 7, 1_000] {
            let run = run(Processes { seed: 5, count: 2_000 }, batch).expect("it runs");
            assert!(run.count_is_right(), "{run:?}");
            assert!(run.matches > Some(1_000), "{run:?}");
        }
    }
}
