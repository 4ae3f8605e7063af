//! Dead letters: what failed goes to destinations of its own, and nothing goes on before all of these have it.
//!
//! It does not know what failed: records of a stream, or results that a destination refuses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_model::lock::lock;

use crate::delivery::{Delivery, OnRefused, Outgoing, Retries};
use crate::destination::Destination;
use crate::error::ConnectorError;
use crate::output_format::RecordSchema;

/// What keeps them is given this long to take the last of them at the end.
const CLOSE_TIME_MAX: Duration = Duration::from_secs(5);

/// How soon whoever waits sees that it shall stop.
const STOP_LOOK: Duration = Duration::from_millis(20);

/// How often something can be sent in a millisecond, as bits, before marks of one life reach those of the next.
const MARKS_PER_MILLI_BITS: u32 = 16;

/// What of a letter is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LetterForm {
    /// What failed, as it was.
    Bytes,
    /// As JSON; with an envelope, beside the reason.
    Json { envelope: bool },
    /// As `Json`, by the schema that the destination is told.
    Message { envelope: bool },
}

/// The destinations, at work.
pub struct DeadLetters {
    boxes: Vec<LetterBox>,
    /// The mark of the next letters. Grows with what is sent, also from one life of the process to the next as far as the clock
    /// does.
    mark: u64,
}

impl Default for DeadLetters {
    fn default() -> DeadLetters {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        DeadLetters { boxes: Vec::new(), mark: (now.as_millis() as u64) << MARKS_PER_MILLI_BITS }
    }
}

struct LetterBox {
    delivery: Delivery,
    form: LetterForm,
    schema: Option<Arc<RecordSchema>>,
    /// Tries beyond the first, of what it has taken.
    retries: u64,
    /// The mark that has been reached, and its bell.
    reached: Arc<(AtomicU64, Mutex<()>, Condvar)>,
}

impl DeadLetters {
    /// `whose` is what it is called where it is told of. Of `retries` the pauses count: no letter is given up.
    pub fn add(
        &mut self,
        whose: &str,
        mut destination: Box<dyn Destination>,
        retries: Retries,
        (form, schema): (LetterForm, Option<Arc<RecordSchema>>),
    ) {
        // There are destinations that remember how far they got. The clock may have been set back since, and they took what is
        // new for something they have.
        destination.all_is_new();
        let reached = Arc::new((AtomicU64::new(0), Mutex::new(()), Condvar::new()));
        let telling = reached.clone();
        let delivered = Box::new(move |mark, _| {
            telling.0.store(mark, Ordering::Release);
            let _told = lock(&telling.1);
            telling.2.notify_all();
        });
        let delivery = Delivery::start(whose, destination, OnRefused::End, retries, delivered);
        self.boxes.push(LetterBox { delivery, form, schema, retries: 0, reached });
    }

    /// Sends `number` letters to every destination and waits until all have them. False: stopped before. An error: one will not
    /// take them, ever. `late` is told why a destination has not taken them yet.
    pub fn send(
        &mut self,
        number: usize,
        letter: impl Fn(usize, LetterForm, Option<&RecordSchema>) -> Result<Vec<u8>, String>,
        stopping: impl Fn() -> bool,
        mut late: impl FnMut(String),
    ) -> Result<bool, String> {
        if number == 0 {
            return Ok(true);
        }
        let mark = self.mark;
        self.mark += 1;
        for LetterBox { delivery, form, schema, .. } in &self.boxes {
            let outgoing = |index| {
                let body = letter(index, *form, schema.as_deref())?;
                Ok(Outgoing { body, positive: true, mark, id: None })
            };
            let sent = delivery.send((0..number).map(outgoing).collect::<Result<_, String>>()?, self.mark);
            sent.map_err(|error: ConnectorError| format!("a dead letter cannot be delivered: {error}"))?;
        }
        for LetterBox { delivery, retries, reached, .. } in &mut self.boxes {
            let (reached, told, bell) = &**reached;
            let tries = || delivery.counters().retries.load(Ordering::Relaxed);
            let mut before = *retries;
            while reached.load(Ordering::Acquire) < self.mark {
                if let Some(reason) = delivery.failure() {
                    return Err(format!("a dead letter cannot be delivered: {reason}"));
                }
                if stopping() {
                    return Ok(false);
                }
                if let (now @ 1.., Some(reason)) = (tries(), delivery.counters().last_error())
                    && now != before
                {
                    before = now;
                    late(format!("{number} dead letters wait for their destination: {reason}"));
                }
                drop(bell.wait_timeout(lock(told), STOP_LOOK));
            }
            *retries = tries();
        }
        Ok(true)
    }

    /// `all`: they have what was sent, as far as it is known.
    pub fn close(self, all: bool) {
        for LetterBox { delivery, .. } in self.boxes {
            delivery.close(if all { CLOSE_TIME_MAX } else { Duration::ZERO });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destination::Written;

    /// Notes what it is asked, and refuses a letter for good.
    struct Picky {
        refused: usize,
        all_is_new: Arc<Mutex<bool>>,
        marks: Arc<Mutex<Vec<u64>>>,
    }

    impl Destination for Picky {
        fn write(&mut self, results: &[Outgoing], upper: u64) -> Result<Written, ConnectorError> {
            let mut marks = self.marks.lock().unwrap();
            marks.extend(results.iter().map(|result| result.mark));
            marks.push(upper);
            let refused = (0..results.len()).filter(|index| *index == self.refused);
            Ok(Written { refused: refused.map(|index| (index, "no".to_owned())).collect(), ..Written::default() })
        }

        fn all_is_new(&mut self) {
            *self.all_is_new.lock().unwrap() = true;
        }
    }

    #[test]
    fn letters_of_which_one_is_refused_are_not_delivered() {
        let (all_is_new, marks) = <(Arc<Mutex<bool>>, Arc<Mutex<Vec<u64>>>)>::default();
        let mut letters = DeadLetters { boxes: Vec::new(), mark: 7 };
        let destination = Picky { refused: 1, all_is_new: all_is_new.clone(), marks: marks.clone() };
        letters.add("box", Box::new(destination), Retries::default(), (LetterForm::Bytes, None));
        assert!(*all_is_new.lock().unwrap());
        let mut send = |number| letters.send(number, |index, _, _| Ok(vec![index as u8]), || false, |_| {});
        assert_eq!(send(1), Ok(true));
        let problem = send(2).unwrap_err();
        assert!(problem.ends_with("refused for good: no"), "{problem}");
        assert_eq!(*marks.lock().unwrap(), [7, 8, 8, 8, 9]);
    }
}
