//! What is shown to people in a terminal: colours, tables, errors. Plain text where the output is no terminal, or where the
//! user asked for that with NO_COLOR.

mod cell;
mod table;

use std::io::IsTerminal;
use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;
use weir_model::visible::steers;

use crate::client::Problem;

pub use cell::cell;
pub use table::Table;

/// Whether to colour, and how much room there is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Terminal {
    pub colours: bool,
    /// In columns; where there is no terminal, tables are as wide as they are.
    pub width: Option<usize>,
    /// In lines.
    pub height: Option<usize>,
}

#[derive(Clone, Copy)]
pub enum Colour {
    Bold,
    Dim,
    Red,
    Cyan,
}

impl Terminal {
    /// As standard output is now. A terminal may change its size at any time.
    pub fn of_output() -> Terminal {
        Terminal::of(&std::io::stdout())
    }

    /// For errors.
    pub fn of_error() -> Terminal {
        Terminal::of(&std::io::stderr())
    }

    fn of(stream: &(impl IsTerminal + AsFd)) -> Terminal {
        let size = stream.is_terminal().then(|| tcgetwinsize(stream).ok()).flatten();
        // Of a terminal that does not know its size both are zero.
        let known = |count: u16| Some(usize::from(count)).filter(|count| *count > 0);
        let (width, height) = size.map_or((None, None), |size| (known(size.ws_col), known(size.ws_row)));
        Terminal { colours: coloured(stream), width, height }
    }

    pub fn paint(self, colour: Colour, text: &str) -> String {
        if !self.colours || text.is_empty() {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Bold => "1",
            Colour::Dim => "2",
            Colour::Red => "31",
            Colour::Cyan => "36",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Errors as they are shown: what is wrong in red, suggestions apart from it.
    pub fn problem(self, problem: &Problem) -> String {
        let shown = shown(&problem.to_string());
        let mut place = false;
        let lines = shown.split('\n').map(|line| {
            let is_caret = !line.is_empty() && line.trim_start().chars().all(|c| c == '^');
            let is_hint = std::mem::replace(&mut place, is_caret) && !line.is_empty();
            match line {
                _ if is_caret => self.paint(Colour::Red, line),
                _ if is_hint => self.paint(Colour::Cyan, line),
                _ if line.contains("Error ") => self.paint(Colour::Red, line),
                _ => line.to_owned(),
            }
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// How many there are, of what.
pub fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// Text of unknown origin without what would steer the terminal.
fn shown(text: &str) -> String {
    text.chars().map(|c| if steers(c) && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c }).collect()
}

fn coloured(stream: &impl IsTerminal) -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stream.is_terminal() && !refused && !dumb
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Mistake;

    #[test]
    fn one_is_not_several() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "entry", "entries")), ["0 entries", "1 entry", "2 entries"]);
    }

    #[test]
    fn errors_are_coloured_where_wanted() {
        let text = "CompileError at 1.8 no `x`\n\nRETURN x\n       ^\ndid you mean `y`?".to_owned();
        let problem = Problem::Refused(vec![Mistake { text: text.clone(), length: None }]);
        assert_eq!(Terminal::default().problem(&problem), text);
        let colours = Terminal { colours: true, ..Terminal::default() }.problem(&problem);
        assert_eq!(
            colours,
            "\x1b[31mCompileError at 1.8 no `x`\x1b[0m\n\nRETURN x\n\x1b[31m       ^\x1b[0m\n\x1b[36mdid you mean `y`?\x1b[0m"
        );
        let hostile = Problem::Unreachable("a\x1b[2Jb\u{202e}".to_owned());
        assert_eq!(Terminal::default().problem(&hostile), "a\u{fffd}[2Jb\u{fffd}");
    }
}
