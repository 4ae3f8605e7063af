//! Delivery against a destination that fails as it is told.

use std::collections::VecDeque;

use super::*;
use crate::conformance::takes_less_than;
use crate::error::Fault;

const PATIENCE: Duration = Duration::from_secs(30);

type Log = Arc<Mutex<Vec<String>>>;

/// What the next call of `write` does; then all is written.
enum Step {
    Fail {
        retryable: bool,
    },
    Leave(Vec<usize>),
    Refuse(Vec<usize>),
    /// Begins to wait with the first signal and goes on with the second.
    Wait(Receiver<()>),
}

struct Scripted {
    steps: VecDeque<Step>,
    log: Log,
    /// How many results came with each call.
    calls: Arc<Mutex<Vec<usize>>>,
    tries_max: Option<u32>,
    lossy: bool,
}

impl Destination for Scripted {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        self.calls.lock().unwrap().push(results.len());
        let mut written = Written::default();
        match self.steps.pop_front() {
            Some(Step::Fail { retryable }) => {
                return Err(ConnectorError::World {
                    place: "there".into(),
                    problem: "down".into(),
                    fault: Fault::World,
                    retryable,
                    source: None,
                });
            }
            Some(Step::Leave(left)) => written.left = left,
            Some(Step::Refuse(refused)) => written.refused = refused.into_iter().map(|index| (index, "no".into())).collect(),
            Some(Step::Wait(signal)) => (0..2).for_each(|_| signal.recv().unwrap()),
            None => {}
        }
        let mut log = self.log.lock().unwrap();
        for (index, result) in results.iter().enumerate() {
            if !written.left.contains(&index) && !written.refused.iter().any(|(refused, _)| *refused == index) {
                log.push(String::from_utf8(result.body.clone()).unwrap());
            }
        }
        Ok(written)
    }

    fn position(&self) -> Position {
        Position(vec![self.log.lock().unwrap().len() as u8])
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy { tries_max: self.tries_max, backoff_min: Duration::from_millis(1), backoff_max: Duration::from_secs(10) }
    }

    fn lossy(&self) -> bool {
        self.lossy
    }

    fn results_max(&self) -> usize {
        4
    }
}

struct Rig {
    delivery: Delivery,
    log: Log,
    calls: Arc<Mutex<Vec<usize>>>,
    marks: Arc<Mutex<Vec<(u64, u8)>>>,
}

fn rig(steps: Vec<Step>, tries_max: Option<u32>, lossy: bool) -> Rig {
    let (log, marks) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
    let told = marks.clone();
    let calls = Arc::default();
    let destination = Box::new(Scripted { steps: steps.into(), log: log.clone(), calls: Arc::clone(&calls), tries_max, lossy });
    let delivered = Box::new(move |mark, position: Position| told.lock().unwrap().push((mark, position.0[0])));
    Rig { delivery: Delivery::start("out", destination, OnRefused::GiveUp, Retries::default(), delivered), log, calls, marks }
}

fn results(names: &str) -> Vec<Outgoing> {
    names.chars().map(|name| Outgoing { body: name.to_string().into_bytes(), positive: true, mark: 0, id: None }).collect()
}

fn count(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

fn wait_until(what: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !what() {
        assert!(Instant::now() < deadline, "it did not happen within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn results_go_out_in_order_and_their_marks_after_them() {
    let rig = rig(vec![], None, false);
    for (mark, names) in ["ab", "", "cde"].iter().enumerate() {
        rig.delivery.send(results(names), mark as u64).unwrap();
    }
    assert!(rig.delivery.close(PATIENCE));
    assert_eq!(rig.log.lock().unwrap().concat(), "abcde");
    let marks = rig.marks.lock().unwrap();
    assert_eq!(marks.last(), Some(&(2, 5)));
    assert!(marks.is_sorted());
}

#[test]
fn what_waits_goes_along_up_to_what_the_destination_takes_and_some_bytes() {
    let (signal, wait) = crossbeam_channel::bounded(0);
    let rig = rig(vec![Step::Wait(wait)], None, false);
    rig.delivery.send(results("a"), 1).unwrap();
    signal.send(()).unwrap();
    let large = Outgoing { body: vec![b'l'; WRITE_BYTES_MAX], ..Outgoing::default() };
    for (mark, batch) in
        [results("b"), results("cd"), results("ef"), results("g"), vec![large], results("h")].into_iter().enumerate()
    {
        rig.delivery.send(batch, 2 + mark as u64).unwrap();
    }
    signal.send(()).unwrap();
    assert!(rig.delivery.close(PATIENCE));
    assert_eq!(*rig.calls.lock().unwrap(), [1, 5, 2, 1]);
    assert_eq!(rig.marks.lock().unwrap().last(), Some(&(7, 9)));
}

#[test]
fn what_fails_and_may_pass_is_tried_again_and_nothing_else() {
    let steps = vec![Step::Fail { retryable: true }, Step::Leave(vec![1, 2]), Step::Leave(vec![1])];
    let rig = rig(steps, None, false);
    rig.delivery.send(results("abcd"), 7).unwrap();
    wait_until(|| !rig.marks.lock().unwrap().is_empty());
    assert_eq!(rig.log.lock().unwrap().concat(), "adbc");
    assert_eq!(*rig.marks.lock().unwrap(), [(7, 4)]);
    let counters = rig.delivery.counters();
    assert_eq!((count(&counters.delivered), count(&counters.retries), count(&counters.waiting)), (4, 3, 0));
}

#[test]
fn a_destination_that_takes_some_each_time_is_not_waited_for_ever_longer() {
    let names = "abcdefghijklmnopqrst";
    let rig = rig((1..names.len()).rev().map(|left| Step::Leave((0..left).collect())).collect(), None, false);
    rig.delivery.send(results(names), 7).unwrap();
    // Pauses that double would come to most of a minute.
    wait_until(|| !rig.marks.lock().unwrap().is_empty());
    assert_eq!(rig.log.lock().unwrap().concat(), names.chars().rev().collect::<String>());
}

#[test]
fn what_is_refused_or_tried_too_often_is_counted_and_the_rest_goes_on() {
    let rig = rig(vec![Step::Refuse(vec![0]), Step::Leave(vec![0]), Step::Leave(vec![0])], Some(2), false);
    rig.delivery.send(results("ab"), 1).unwrap();
    wait_until(|| rig.marks.lock().unwrap().len() == 1);
    rig.delivery.send(results("cd"), 2).unwrap();
    wait_until(|| rig.marks.lock().unwrap().len() == 2);
    assert_eq!(rig.log.lock().unwrap().concat(), "bd");
    let counters = rig.delivery.counters();
    assert_eq!((count(&counters.delivered), count(&counters.failed), count(&counters.waiting)), (2, 2, 0));
    assert!(counters.last_error().is_some());
}

#[test]
fn an_output_of_all_gives_nothing_up_and_ends_with_what_is_refused() {
    let steps =
        vec![Step::Leave(vec![0]), Step::Leave(vec![0]), Step::Leave(vec![0]), Step::Leave(vec![]), Step::Refuse(vec![0])];
    let (log, marks) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
    let (told, calls) = (marks.clone(), Arc::default());
    let destination = Box::new(Scripted { steps: steps.into(), log: log.clone(), calls, tries_max: Some(2), lossy: false });
    let delivered = Box::new(move |mark, _| told.lock().unwrap().push(mark));
    let delivery = Delivery::start("out", destination, OnRefused::End, Retries::default(), delivered);
    delivery.send(results("ab"), 1).unwrap();
    wait_until(|| *marks.lock().unwrap() == [1]);
    // It may have ended by the time this returns.
    let _ = delivery.send(results("c"), 2);
    wait_until(|| delivery.failure().is_some());
    assert_eq!(log.lock().unwrap().concat(), "ba");
    assert_eq!(*marks.lock().unwrap(), [1]);
    assert!(delivery.failure().unwrap().ends_with("refused for good: no"), "{:?}", delivery.failure());
    assert_eq!(count(&delivery.counters().failed), 0);
}

/// Runs an output that ends by itself: what was written, up to which marks that was told, and why it has ended.
fn ended(
    on_refused: OnRefused,
    steps: Vec<Step>,
    (results, unfit, upper): (Vec<Outgoing>, Vec<(Outgoing, String)>, u64),
) -> (String, Vec<u64>, String) {
    let (log, marks) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
    let told = marks.clone();
    let destination =
        Box::new(Scripted { steps: steps.into(), log: log.clone(), calls: Arc::default(), tries_max: None, lossy: false });
    let delivered = Box::new(move |mark, _| told.lock().unwrap().push(mark));
    let delivery = Delivery::start("out", destination, on_refused, Retries::default(), delivered);
    // It may have ended by the time this returns.
    let _ = delivery.send_all(results, unfit, upper);
    wait_until(|| delivery.failure().is_some());
    let failure = delivery.failure().unwrap();
    assert!(!delivery.close(PATIENCE), "what was refused is not delivered");
    (log.lock().unwrap().concat(), marks.lock().unwrap().clone(), failure)
}

fn at_marks(names: &str, marks: &[u64]) -> Vec<Outgoing> {
    results(names).into_iter().zip(marks).map(|(result, mark)| Outgoing { mark: *mark, ..result }).collect()
}

#[test]
fn what_was_taken_before_a_refusal_that_ends_the_output_does_not_come_again() {
    for (marks, steps, log, told) in [
        ([1, 2, 3, 4], vec![Step::Refuse(vec![2])], "abd", 3),
        // All of a mark comes again, or none.
        ([1, 2, 2, 4], vec![Step::Refuse(vec![2])], "abd", 2),
        // Those that are tried again come behind others.
        ([1, 2, 3, 4], vec![Step::Leave(vec![0, 3]), Step::Refuse(vec![1])], "bca", 4),
        ([1, 2, 3, 4], vec![Step::Leave(vec![0, 3]), Step::Refuse(vec![0])], "bcd", 1),
    ] {
        let ended = ended(OnRefused::End, steps, (at_marks("abcd", &marks), Vec::new(), 5));
        assert_eq!((ended.0.as_str(), ended.1.as_slice()), (log, [told].as_slice()));
        assert!(ended.2.ends_with("refused for good: no"), "{}", ended.2);
    }
}

#[test]
fn what_comes_before_one_that_does_not_fit_is_written_before_that_ends_the_output() {
    for on_refused in [OnRefused::End, OnRefused::Retry] {
        let unfit = at_marks("yx", &[3, 2]).into_iter().map(|result| (result, "odd".to_owned())).collect();
        let steps = vec![Step::Fail { retryable: true }];
        let ended = ended(on_refused, steps, (at_marks("abcd", &[1, 1, 2, 3]), unfit, 4));
        assert_eq!((ended.0.as_str(), ended.1.as_slice()), ("ab", [2].as_slice()));
        assert!(ended.2.ends_with("a result cannot be sent: odd"), "{}", ended.2);
    }
}

/// Takes all, and holds it until somebody waits for it.
#[derive(Default)]
struct Holds {
    first: Option<u64>,
    now: bool,
    /// How often it was stored.
    stored: Arc<AtomicU64>,
}

impl Destination for Holds {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        self.first = self.first.or(results.first().map(|result| result.mark));
        Ok(Written::default())
    }

    fn store_now(&mut self) {
        self.now = true;
    }

    fn idle(&mut self) -> Result<(), ConnectorError> {
        if std::mem::take(&mut self.now) && self.first.take().is_some() {
            self.stored.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    fn settled(&self, upper: u64) -> u64 {
        self.first.unwrap_or(upper)
    }
}

#[test]
fn what_a_destination_holds_is_stored_when_somebody_waits_for_it_and_all_of_it_is_there() {
    let (told, holds) = (Arc::new(AtomicU64::new(0)), Holds::default());
    let (delivered, stored) = (told.clone(), holds.stored.clone());
    let delivered = Box::new(move |mark, _| delivered.store(mark, Ordering::Relaxed));
    let delivery = Delivery::start("out", Box::new(holds), OnRefused::GiveUp, Retries::default(), delivered);
    delivery.store_up_to(9);
    for mark in [3, 5] {
        delivery.send(at_marks("a", &[mark]), mark + 1).unwrap();
        wait_until(|| delivery.taken() == mark + 1);
        std::thread::sleep(LOOK * 5);
        assert_eq!((count(&told), count(&stored)), (3, 0), "more of it is to come");
    }
    delivery.send(at_marks("a", &[8]), 9).unwrap();
    wait_until(|| count(&told) == 9);
    // Nobody waits for what comes behind that.
    delivery.send(at_marks("a", &[9]), 10).unwrap();
    wait_until(|| delivery.taken() == 10);
    std::thread::sleep(LOOK * 5);
    assert_eq!((count(&told), count(&stored)), (9, 1));
    delivery.stopper().store_up_to(10);
    wait_until(|| count(&told) == 10);
    assert_eq!(count(&stored), 2);
}

#[test]
fn what_a_destination_has_is_taken_before_it_counts_as_written() {
    let (signal, wait) = crossbeam_channel::bounded(0);
    let slow = rig(vec![Step::Wait(wait)], None, false);
    slow.delivery.send(results("a"), 7).unwrap();
    signal.send(()).unwrap();
    assert_eq!(slow.delivery.taken(), 0, "it has not answered");
    signal.send(()).unwrap();
    wait_until(|| slow.delivery.taken() == 7 && slow.delivery.stopper().taken() == 7);
    let (signal, wait) = crossbeam_channel::bounded(0);
    let lossy = rig(vec![Step::Wait(wait)], None, true);
    assert_eq!(lossy.delivery.taken(), 0, "it was sent nothing");
    lossy.delivery.send(results("a"), 7).unwrap();
    signal.send(()).unwrap();
    assert_eq!(lossy.delivery.taken(), 7, "nobody waits for one that may lose, though it hangs");
    signal.send(()).unwrap();
    let told = Arc::new(AtomicU64::new(0));
    let delivered = told.clone();
    let delivered = Box::new(move |mark, _| delivered.store(mark, Ordering::Relaxed));
    let holds = Delivery::start("out", Box::new(Holds::default()), OnRefused::GiveUp, Retries::default(), delivered);
    holds.send(results("a"), 9).unwrap();
    wait_until(|| holds.taken() == 9);
    assert_eq!(count(&told), 0);
}

#[test]
fn an_output_that_cannot_go_on_ends_and_says_why() {
    let rig = rig(vec![Step::Fail { retryable: false }], None, false);
    // It may have ended by the time this returns.
    let _ = rig.delivery.send(results("a"), 1);
    wait_until(|| rig.delivery.failure().is_some());
    assert_eq!(rig.delivery.failure().unwrap(), "there: down");
    let refused = rig.delivery.send(results("b"), 2).unwrap_err();
    assert_eq!(refused.to_string(), "output out: there: down");
    assert!(rig.marks.lock().unwrap().is_empty());
    assert!(!rig.delivery.close(PATIENCE));
}

/// Panics on what it is to write.
struct Broken;

impl Destination for Broken {
    fn write(&mut self, _results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        panic!("on purpose")
    }
}

/// Whoever waits for what it was sent sends nothing more.
#[test]
fn an_output_that_panics_has_ended_before_anything_more_is_sent() {
    let delivery = Delivery::start("out", Box::new(Broken), OnRefused::GiveUp, Retries::default(), Box::new(|_, _| ()));
    let stopper = delivery.stopper();
    // It may have ended before this returns.
    let _ = delivery.send(results("a"), 1);
    wait_until(|| delivery.failure().is_some());
    assert_eq!(stopper.failure().as_deref(), Some("the delivery thread has panicked; this is a bug"));
    assert_eq!(delivery.taken(), 0);
    assert!(!delivery.close(PATIENCE));
}

#[test]
fn a_full_queue_holds_back_whoever_sends_unless_the_output_may_lose() {
    // Without a buffer: a signal is sent when it is received.
    let (go, signal) = crossbeam_channel::bounded(0);
    let lossy = rig(vec![Step::Wait(signal)], None, true);
    lossy.delivery.send(results("a"), 0).unwrap();
    go.send(()).unwrap();
    (1..200).for_each(|mark| lossy.delivery.send(results("a"), mark).unwrap());
    assert_eq!(count(&lossy.delivery.counters().dropped), 199 - QUEUE_BATCHES_MAX as u64);
    go.send(()).unwrap();
    assert!(lossy.delivery.close(PATIENCE));
    assert_eq!(lossy.marks.lock().unwrap().last().unwrap().0, 199);

    let (go, signal) = crossbeam_channel::bounded(0);
    let complete = rig(vec![Step::Wait(signal)], None, false);
    complete.delivery.send(results("a"), 0).unwrap();
    go.send(()).unwrap();
    let sent = AtomicU64::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for mark in 1..200 {
                complete.delivery.send(results("a"), mark).unwrap();
                sent.fetch_add(1, Ordering::Relaxed);
            }
        });
        wait_until(|| count(&sent) >= QUEUE_BATCHES_MAX as u64);
        thread::sleep(Duration::from_millis(50));
        let queued = count(&sent);
        go.send(()).unwrap();
        assert_eq!(queued, QUEUE_BATCHES_MAX as u64);
    });
    assert!(complete.delivery.close(PATIENCE));
    assert_eq!(complete.log.lock().unwrap().len(), 200);
}

#[test]
fn the_end_is_prompt_even_while_the_other_side_is_down() {
    takes_less_than(Duration::from_secs(1), "the end", || {
        let steps = (0..1000).map(|_| Step::Fail { retryable: true }).collect();
        let rig = rig(steps, None, false);
        rig.delivery.send(results("a"), 1).unwrap();
        let begun = Instant::now();
        assert!(!rig.delivery.close(Duration::from_millis(50)));
        let took = begun.elapsed();
        assert!(rig.marks.lock().unwrap().is_empty());
        took
    });
}

#[test]
fn an_output_that_hangs_is_waited_for_once() {
    takes_less_than(STOP_GRACE / 2, "the second end", || {
        let (go, signal) = crossbeam_channel::bounded(0);
        let mut rig = rig(vec![Step::Wait(signal)], None, false);
        rig.delivery.send(results("a"), 1).unwrap();
        go.send(()).unwrap();
        assert!(!rig.delivery.end(Duration::ZERO));
        let ended = Instant::now();
        drop(rig.delivery);
        let took = ended.elapsed();
        go.send(()).unwrap();
        took
    });
}

#[test]
fn outputs_that_hang_and_are_stopped_together_are_waited_for_together() {
    const COUNT: u32 = 6;
    takes_less_than(STOP_GRACE * COUNT / 2, "the end of all", || {
        let hanging: Vec<_> = (0..COUNT)
            .map(|_| {
                let (go, signal) = crossbeam_channel::bounded(0);
                let rig = rig(vec![Step::Wait(signal)], None, false);
                rig.delivery.send(results("a"), 1).unwrap();
                go.send(()).unwrap();
                (go, rig)
            })
            .collect();
        let begun = Instant::now();
        hanging.iter().for_each(|(_, rig)| rig.delivery.stopper().stop());
        let signals: Vec<_> = hanging
            .into_iter()
            .map(|(go, rig)| {
                assert!(!rig.delivery.close(Duration::ZERO));
                go
            })
            .collect();
        let took = begun.elapsed();
        signals.iter().for_each(|go| go.send(()).unwrap());
        took
    });
}

#[test]
fn an_output_that_rests_has_no_thread_and_still_says_how_far_it_is() {
    let rig = rig(vec![], None, false);
    rig.delivery.send(vec![], 1).unwrap();
    assert!(rig.delivery.is_resting());
    rig.delivery.send(results("a"), 2).unwrap();
    wait_until(|| rig.marks.lock().unwrap().len() == 2);
    wait_until(|| rig.delivery.is_resting());
    rig.delivery.send(vec![], 3).unwrap();
    assert!(rig.delivery.is_resting());
    rig.delivery.send(results("b"), 4).unwrap();
    wait_until(|| rig.marks.lock().unwrap().len() == 4);
    assert_eq!(*rig.marks.lock().unwrap(), [(1, 0), (2, 1), (3, 1), (4, 2)]);
    wait_until(|| rig.delivery.is_resting());
    assert!(rig.delivery.close(PATIENCE));
}

/// Takes what is refused, after it has failed as often as it is told.
struct Kept {
    letters: Log,
    stops: bool,
}

impl TakesRefused for Kept {
    fn take(&mut self, refused: &[(Outgoing, String)], _: &AtomicBool, late: &mut dyn FnMut(String)) -> Result<bool, String> {
        late("they wait".to_owned());
        let text = |(result, reason): &(Outgoing, String)| format!("{}:{reason}", String::from_utf8_lossy(&result.body));
        self.letters.lock().unwrap().extend(refused.iter().map(text));
        Ok(!self.stops)
    }

    fn close(&mut self, all: bool) {
        self.letters.lock().unwrap().push(format!("closed:{all}"));
    }
}

fn letters_rig(steps: Vec<Step>, tries_max: Option<u32>, stops: bool) -> (Delivery, Log, Log, Arc<Mutex<Vec<u64>>>) {
    let (log, letters, marks) = (Log::default(), Log::default(), Arc::new(Mutex::new(Vec::new())));
    let destination =
        Box::new(Scripted { steps: steps.into(), log: log.clone(), calls: Arc::default(), tries_max, lossy: false });
    let (told, kept) = (marks.clone(), Kept { letters: letters.clone(), stops });
    let delivered = Box::new(move |mark, _| told.lock().unwrap().push(mark));
    let on_refused = OnRefused::Letters(Box::new(kept));
    (Delivery::start("out", destination, on_refused, Retries::default(), delivered), log, letters, marks)
}

#[test]
fn dead_letters_are_what_is_refused_what_was_tried_too_often_and_what_does_not_fit() {
    let steps = vec![Step::Refuse(vec![1]), Step::Leave(vec![0]), Step::Leave(vec![0])];
    let (delivery, log, letters, marks) = letters_rig(steps, Some(2), false);
    delivery.send(results("abc"), 1).unwrap();
    wait_until(|| marks.lock().unwrap().len() == 1);
    let unfit = results("e").into_iter().map(|result| (result, "odd".to_owned())).collect();
    delivery.send_all(results("d"), unfit, 2).unwrap();
    wait_until(|| marks.lock().unwrap().len() == 2);
    let counters = delivery.counters().clone();
    assert_eq!((count(&counters.delivered), count(&counters.dead_letters), count(&counters.failed)), (2, 3, 0));
    assert_eq!((count(&counters.waiting), counters.state().tries), (0, 0));
    assert!(delivery.close(PATIENCE));
    assert_eq!(log.lock().unwrap().concat(), "ac");
    assert_eq!(*letters.lock().unwrap(), ["b:no", "e:odd", "d:not written", "closed:true"]);
}

#[test]
fn nothing_counts_as_delivered_before_the_dead_letters_are() {
    let (delivery, _, letters, marks) = letters_rig(vec![Step::Refuse(vec![0])], None, true);
    delivery.send(results("a"), 1).unwrap();
    wait_until(|| !letters.lock().unwrap().is_empty());
    assert!(!delivery.close(PATIENCE));
    assert!(marks.lock().unwrap().is_empty());
}

/// Fails as often as it is told, and notes what it is told of what it was to be given again.
struct Failing {
    fails: usize,
    log: Log,
    gave_up: Arc<Mutex<Vec<Vec<bool>>>>,
    by_itself: Arc<Mutex<Retries>>,
}

impl Destination for Failing {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        if self.fails > 0 {
            self.fails -= 1;
            // The first is tried alone.
            let untried = (1..results.len()).collect();
            return Ok(Written { left: (0..results.len()).collect(), untried, ..Written::default() });
        }
        self.log.lock().unwrap().extend(results.iter().map(|result| String::from_utf8(result.body.clone()).unwrap()));
        Ok(Written::default())
    }

    fn tries_by_itself(&mut self, retries: Retries) {
        *self.by_itself.lock().unwrap() = retries;
    }

    fn gave_up(&mut self, comes_again: &[bool]) {
        self.gave_up.lock().unwrap().push(comes_again.to_vec());
    }
}

/// The destination itself would try until it works.
#[test]
fn what_an_output_says_of_its_tries_goes_over_what_its_destination_has() {
    let pauses = Retries { max_tries: None, min_backoff_millis: Some(10), max_backoff_millis: Some(20) };
    let twice = Retries { max_tries: Some(2), ..pauses };
    let of_letters = |letters: &Log| OnRefused::Letters(Box::new(Kept { letters: letters.clone(), stops: false }));
    let letters = Log::default();
    for (on_refused, retries, tries_max, given_up, dead) in [
        (OnRefused::GiveUp, pauses, None, 0, 0),
        // Two tries of the first, two of the second, one of the third that fails and one that does not.
        (OnRefused::GiveUp, twice, Some(2), 2, 0),
        (of_letters(&letters), twice, Some(2), 0, 2),
        // None is given up there.
        (OnRefused::Retry, twice, None, 0, 0),
        (OnRefused::End, twice, None, 0, 0),
    ] {
        let (log, gave_up, by_itself) = (Log::default(), Arc::<Mutex<Vec<Vec<bool>>>>::default(), Arc::default());
        let destination = Failing { fails: 5, log: log.clone(), gave_up: gave_up.clone(), by_itself: Arc::clone(&by_itself) };
        let delivery = Delivery::start("out", Box::new(destination), on_refused, retries, Box::new(|_, _| ()));
        assert_eq!(*by_itself.lock().unwrap(), retries);
        let policy = RetryPolicy { tries_max, backoff_min: Duration::from_millis(10), backoff_max: Duration::from_millis(20) };
        assert_eq!(delivery.counters().state().policy, policy, "before anything is written");
        delivery.send(results("abc"), 1).unwrap();
        wait_until(|| count(&delivery.counters().waiting) == 0);
        let counters = delivery.counters();
        assert_eq!((count(&counters.failed), count(&counters.dead_letters)), (given_up, dead));
        assert_eq!((count(&counters.delivered), count(&counters.retries)), (3 - given_up - dead, 5));
        assert_eq!(counters.state().policy, policy);
        assert_eq!(log.lock().unwrap().concat(), if tries_max.is_some() { "c" } else { "abc" });
        // Of three the first, of two the first.
        let masks = if tries_max.is_some() { vec![vec![false, true, true], vec![false, true]] } else { vec![] };
        assert_eq!(*gave_up.lock().unwrap(), masks);
        assert!(delivery.close(PATIENCE));
    }
    assert_eq!(*letters.lock().unwrap(), ["a:not written", "b:not written", "closed:true"]);
}

/// Sends `at_once` results at once, one after another, and refuses those that are named, each as often as it is named.
struct Picky {
    log: Log,
    refused: Vec<&'static str>,
    at_once: usize,
    stops_at_refused: bool,
}

impl Destination for Picky {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let (mut written, mut first) = (Written::default(), 0);
        for together in results.chunks(self.at_once) {
            for (index, result) in (first..).zip(together) {
                let name = String::from_utf8(result.body.clone()).unwrap();
                match self.refused.iter().position(|refused| *refused == name) {
                    Some(place) => {
                        self.refused.remove(place);
                        written.refused.push((index, "no".to_owned()));
                    }
                    None => self.log.lock().unwrap().push(name),
                }
            }
            first += together.len();
            if self.stops_at_refused && !written.refused.is_empty() {
                break;
            }
        }
        written.left.extend(first..results.len());
        written.untried.extend(first..results.len());
        Ok(written)
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy { tries_max: Some(2), backoff_min: Duration::from_millis(1), backoff_max: Duration::from_secs(10) }
    }
}

#[test]
fn what_is_refused_is_tried_again_where_that_is_chosen_and_what_comes_behind_it_waits() {
    for (at_once, refused, order, retries) in [
        (1, vec!["a", "c", "c", "c", "d"], "abcdef", 5),
        // What went together with it may be there before it, and nothing else.
        (2, vec!["a", "a"], "bcadef", 2),
    ] {
        let (log, marks) = (Log::default(), Arc::new(Mutex::new(Vec::new())));
        let told = marks.clone();
        let destination = Box::new(Picky { log: log.clone(), refused, at_once, stops_at_refused: false });
        let delivered = Box::new(move |mark, _| told.lock().unwrap().push(mark));
        let delivery = Delivery::start("out", destination, OnRefused::Retry, Retries::default(), delivered);
        delivery.send(results("abcd"), 1).unwrap();
        delivery.send(results("ef"), 2).unwrap();
        wait_until(|| marks.lock().unwrap().last() == Some(&2));
        assert_eq!(log.lock().unwrap().concat(), order);
        let counters = delivery.counters();
        assert_eq!((count(&counters.delivered), count(&counters.retries)), (6, retries));
        assert_eq!((count(&counters.failed), count(&counters.waiting)), (0, 0));
        assert!(matches!(counters.state().last_error, Some((error, _)) if error == "no"));
    }
}
