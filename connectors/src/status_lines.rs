//! Lines that stay at the bottom of the terminal, below whatever is written while they stand there: how far a recipe is.
//!
//!     results ──── above ─┐
//!     words, logs ─ above ┼─> one terminal:  what was written stays …
//!     the ticker ─── draw ┘                  … and the lines stand below it
//!
//! Standard output, standard error and the lines may be one terminal. Whoever writes to it takes the lines away, writes, and puts
//! them back, all under one lock; who drew over what others had written meanwhile would erase that. Does not know what the
//! lines say. It is here because the destination that prints results does not see those who draw.

use std::io::{self, IsTerminal, Write, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_model::lock::lock;

/// Whether lines may be drawn. Where they are not, which is nearly always, nobody who writes waits for anybody else.
static DRAWING: AtomicBool = AtomicBool::new(false);

/// What is drawn: whole lines, none of them wider than the terminal, and fewer than it has: nothing goes above its first.
static LINES: Mutex<String> = Mutex::new(String::new());

/// From here on lines may be drawn on standard error. Called before anything is started that writes.
pub fn begin() {
    DRAWING.store(true, Ordering::SeqCst);
}

/// What is drawn stays where it is, and is written below from here on.
pub fn leave() {
    let mut lines = lock(&LINES);
    lines.clear();
    DRAWING.store(false, Ordering::SeqCst);
}

/// Writes whole lines to a stream so that they stand above those that are drawn. `write` must not come here again.
pub fn above<T>(stream: &impl IsTerminal, write: impl FnOnce() -> T) -> T {
    // What goes into a file or a pipe is not on the terminal.
    if !DRAWING.load(Ordering::SeqCst) || !stream.is_terminal() {
        return write();
    }
    let lines = lock(&LINES);
    write_above(&lines, &mut stderr(), write)
}

/// Draws lines in place of those that are there, below a text of whole lines that stays.
pub fn draw(text: &str, lines: String) {
    let mut drawn = lock(&LINES);
    // Where the terminal is gone there is nobody to be told.
    let _ = draw_over(&drawn, text, &lines, &mut stderr());
    *drawn = lines;
}

fn write_above<T>(lines: &str, terminal: &mut impl Write, write: impl FnOnce() -> T) -> T {
    let _ = put(&erasure(lines), terminal);
    let written = write();
    let _ = put(lines, terminal);
    written
}

fn draw_over(drawn: &str, text: &str, lines: &str, terminal: &mut impl Write) -> io::Result<()> {
    // In one piece, so that nobody sees them gone.
    put(&[&erasure(drawn), text, lines].concat(), terminal)
}

fn put(text: &str, terminal: &mut impl Write) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    terminal.write_all(text.as_bytes())?;
    terminal.flush()
}

/// Leads to the beginning of the first line, and clears all from there on.
fn erasure(lines: &str) -> String {
    match lines.matches('\n').count() {
        0 => String::new(),
        count => format!("\x1b[{count}A\x1b[J"),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// A terminal that several write to.
    struct Shared<'s>(&'s RefCell<String>);

    impl Write for Shared<'_> {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().push_str(&String::from_utf8_lossy(bytes));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_written_stands_between_the_erased_lines_and_the_new_ones() {
        let screen = RefCell::new(String::new());
        write_above("one\ntwo\n", &mut Shared(&screen), || screen.borrow_mut().push_str("a result\n"));
        assert_eq!(screen.take(), "\x1b[2A\x1b[Ja result\none\ntwo\n");
        draw_over("one\ntwo\n", "one has ended\n", "two\n", &mut Shared(&screen)).unwrap();
        assert_eq!(screen.take(), "\x1b[2A\x1b[Jone has ended\ntwo\n");
        // Where nothing is drawn there is nothing to erase.
        write_above("", &mut Shared(&screen), || screen.borrow_mut().push_str("a result\n"));
        draw_over("", "", "one\n", &mut Shared(&screen)).unwrap();
        assert_eq!(screen.take(), "a result\none\n");
    }

    #[test]
    fn a_file_is_written_to_while_lines_are_drawn() {
        let file = tempfile::tempfile().unwrap();
        begin();
        // Whoever holds the lock keeps those from nothing who write elsewhere.
        let drawn = lock(&LINES);
        assert_eq!(above(&file, || 7), 7);
        drop(drawn);
        leave();
        assert!(!DRAWING.load(Ordering::SeqCst) && lock(&LINES).is_empty());
    }
}
