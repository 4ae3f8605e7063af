//! A program behind a terminal of the system, as a user has it: keys in, whatever it draws out.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long something may take to appear; machines under load are slow.
const SHOW_MAX: Duration = Duration::from_secs(60);

pub struct Terminal {
    child: Child,
    keys: File,
    shown: Arc<Mutex<String>>,
    /// All that was written, as it came.
    written: Arc<Mutex<Vec<u8>>>,
    /// How much of what was shown has been looked at.
    seen: usize,
}

impl Terminal {
    /// Starts the program in a terminal of `columns` columns.
    pub fn start(command: &mut Command, columns: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).expect("a terminal");
        grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
        tcsetwinsize(&master, Winsize { ws_row: 50, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }).expect("a terminal");
        let name = ptsname(&master, Vec::new()).expect("a terminal");
        let side =
            || File::from(open(&name, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).expect("a terminal"));
        let child = command.stdin(side()).stdout(side()).stderr(side()).spawn().expect("the program starts");
        let mut screen = File::from(master);
        let keys = screen.try_clone().expect("a terminal");
        let shown = Arc::new(Mutex::new(String::new()));
        let drawn = shown.clone();
        let written = Arc::new(Mutex::new(Vec::new()));
        let kept = written.clone();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            // Ends with the program, whose side of the terminal closes.
            while let Ok(count @ 1..) = screen.read(&mut part) {
                let mut bytes = kept.lock().expect("the bytes");
                bytes.extend_from_slice(&part[..count]);
                *drawn.lock().expect("the text") = plain(&String::from_utf8_lossy(&bytes));
            }
        });
        Terminal { child, keys, shown, written, seen: 0 }
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("the program reads keys");
    }

    /// Waits until a text is shown behind what was looked at before, and gives what stands before it.
    pub fn wait(&mut self, text: &str) -> String {
        let deadline = Instant::now() + SHOW_MAX;
        loop {
            let shown = self.shown.lock().expect("the text").clone();
            let new = shown.get(self.seen..).unwrap_or_default();
            if let Some(at) = new.find(text) {
                self.seen += at + text.len();
                return new[..at].to_owned();
            }
            assert!(Instant::now() < deadline, "{text:?} is not shown; what is:\n{new}");
            sleep(Duration::from_millis(5));
        }
    }

    /// The lines that a user sees, with those that have left at the top.
    pub fn screen(&self) -> Vec<String> {
        screen(&String::from_utf8_lossy(&self.written.lock().expect("the bytes")))
    }

    /// What Ctrl-C does where the program leaves the key to the terminal.
    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id() as i32).expect("a process has an id above zero");
        kill_process(pid, signal).expect("a signal can be sent to a child");
    }

    pub fn wait_end(mut self) -> ExitStatus {
        let deadline = Instant::now() + SHOW_MAX;
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(Instant::now() < deadline, "the program does not end; it shows:\n{}", self.shown.lock().expect("the text"));
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Fails only when it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is left on a terminal of any height when it has followed the sequences that go up and that erase. Lines that are wider
/// than the terminal, and its other sequences, are not looked at.
fn screen(text: &str) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\r' => column = 0,
            '\n' => {
                row += 1;
                if row == lines.len() {
                    lines.push(Vec::new());
                }
            }
            '\x1b' => {
                if chars.next() != Some('[') {
                    continue;
                }
                let mut number = String::new();
                let end = chars.by_ref().find(|c| {
                    number.push(*c);
                    ('@'..='~').contains(c)
                });
                let count = number.trim_end_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(1);
                match end {
                    Some('A') => row = usize::saturating_sub(row, count),
                    Some('J') => {
                        lines[row].truncate(column);
                        lines.truncate(row + 1);
                    }
                    Some('K') => lines[row].truncate(column),
                    _ => {}
                }
            }
            c => {
                let line = &mut lines[row];
                while line.len() <= column {
                    line.push(' ');
                }
                line[column] = c;
                column += 1;
            }
        }
    }
    lines.into_iter().map(|line| line.into_iter().collect()).collect()
}

/// Without the sequences that steer the terminal.
fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '\x1b' => {
                if chars.next() == Some('[') {
                    for c in chars.by_ref() {
                        if ('@'..='~').contains(&c) {
                            break;
                        }
                    }
                }
            }
            '\r' => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_erased_is_not_on_the_screen() {
        assert_eq!(screen("a\r\nb\r\nc\r\n\x1b[2A\x1b[Jd\r\n\x1b[31mred\x1b[0m\rR"), ["a", "d", "Red"]);
        assert_eq!(screen("one\r\x1b[Ktwo"), ["two"]);
    }
}
