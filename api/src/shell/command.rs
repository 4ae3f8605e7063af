//! What the shell does itself: lines that begin with a colon. Reading them only; the shell carries them out.

use std::path::PathBuf;

use weir_cypher_compiler::nearest;

use crate::clock;

#[derive(Debug, PartialEq)]
pub enum Command {
    /// `:param name => expression`
    SetParameter {
        name: String,
        expression: String,
    },
    /// `:param name`
    ShowParameter(String),
    Parameters,
    ForgetParameters,
    ClearScreen,
    Help,
    /// None goes back to the default namespace.
    Namespace(Option<String>),
    /// None goes back to the present.
    At(Option<u64>),
    Source(PathBuf),
    Quit,
}

/// Word, what follows it, what it does.
const COMMANDS: &[(&str, &str, &str)] = &[
    (":param", "NAME => EXPRESSION", "give a parameter a value, which the service computes; `:param NAME` shows it"),
    (":params", "[clear]", "list the parameters, or forget them all"),
    (":namespace", "[NAME]", "ask another namespace; without a name the default one"),
    (":at", "[TIME]", "read the graph as of a past millisecond since 1970 or 2026-11-29T14:09:00Z; alone the present again"),
    (":source", "FILE", "run the statements of a file, up to the first that fails"),
    (":clear", "", "clear the screen"),
    (":help", "", "this list"),
    (":quit", "", "leave, as Ctrl-D does"),
];

pub fn words() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|(word, ..)| *word)
}

pub fn help() -> String {
    let mut out = "A statement ends with `;` and may have many lines. Commands are lines of their own:\n".to_owned();
    for (word, arguments, description) in COMMANDS {
        out.push_str(&format!("  {:<32}{description}\n", format!("{word} {arguments}")));
    }
    out.push_str("Tab completes. Ctrl-C stops a query that runs, or drops what was typed.\n");
    out
}

/// What is a command without its colon, too: whoever comes from another shell types it so, and no statement begins with it.
const BARE: &[(&str, &str)] = &[("quit", ":quit"), ("exit", ":quit"), ("help", ":help")];

/// Whether a text is one for `parse`, and no statement.
pub fn is_one(text: &str) -> bool {
    text.trim_start().starts_with(':') || meant(bare(text)).is_some()
}

fn bare(line: &str) -> &str {
    line.trim().trim_end_matches(';').trim_end()
}

fn meant(line: &str) -> Option<&'static str> {
    BARE.iter().find(|(word, _)| word.eq_ignore_ascii_case(line)).map(|(_, command)| *command)
}

pub fn parse(line: &str) -> Result<Command, String> {
    let line = bare(line);
    let line = meant(line).unwrap_or(line);
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let rest = rest.trim();
    let alone = |command: Command| match rest {
        "" => Ok(command),
        _ => Err(format!("{word} stands alone, without '{rest}'")),
    };
    match word {
        ":param" => parameter(rest),
        ":params" if rest == "clear" => Ok(Command::ForgetParameters),
        ":params" => alone(Command::Parameters),
        ":clear" => alone(Command::ClearScreen),
        ":help" => alone(Command::Help),
        ":namespace" | ":use" => Ok(Command::Namespace(Some(rest.to_owned()).filter(|name| !name.is_empty()))),
        ":at" if rest.is_empty() => Ok(Command::At(None)),
        ":at" => clock::read_millis(rest).map(|millis| Command::At(Some(millis))),
        ":source" if rest.is_empty() => Err(":source needs the path of a file".to_owned()),
        ":source" => Ok(Command::Source(PathBuf::from(rest))),
        ":quit" | ":exit" => alone(Command::Quit),
        _ => {
            let hint = nearest(word, words()).unwrap_or_else(|| "`:help` lists what there is".to_owned());
            Err(format!("there is no command {word}; {hint}"))
        }
    }
}

fn parameter(rest: &str) -> Result<Command, String> {
    let usage = "a parameter is set by `:param name => expression`";
    let (name, expression) = match rest.split_once("=>") {
        Some((name, expression)) => (name.trim(), Some(expression.trim())),
        None => (rest, None),
    };
    let name = name.trim_start_matches('$').trim_matches('`');
    if name.is_empty() || (expression.is_none() && name.contains(char::is_whitespace)) {
        return Err(usage.to_owned());
    }
    match expression {
        None => Ok(Command::ShowParameter(name.to_owned())),
        Some("") => Err(usage.to_owned()),
        Some(expression) => Ok(Command::SetParameter { name: name.to_owned(), expression: expression.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read() {
        let set =
            |name: &str, expression: &str| Ok(Command::SetParameter { name: name.to_owned(), expression: expression.to_owned() });
        assert_eq!(parse(":param x => 1 + 1;"), set("x", "1 + 1"));
        assert_eq!(parse(":param $x=>{a: 'b => c'}"), set("x", "{a: 'b => c'}"));
        assert_eq!(parse(":param `odd name` => []"), set("odd name", "[]"));
        assert_eq!(parse(":param x"), Ok(Command::ShowParameter("x".to_owned())));
        assert_eq!(parse(":params"), Ok(Command::Parameters));
        assert_eq!(parse(":params clear"), Ok(Command::ForgetParameters));
        assert_eq!(parse(":namespace"), Ok(Command::Namespace(None)));
        assert_eq!(parse(":at 1700000000000"), Ok(Command::At(Some(1_700_000_000_000))));
        assert_eq!(parse(":at"), Ok(Command::At(None)));
        assert!(parse(":at noon").is_err_and(|reason| reason.contains("milliseconds")));
        assert_eq!(parse(":namespace a"), Ok(Command::Namespace(Some("a".to_owned()))));
        assert_eq!(parse(":source a b.cypher"), Ok(Command::Source("a b.cypher".into())));
        assert_eq!(parse(":at 2023-11-14T22:13:20Z;"), Ok(Command::At(Some(1_700_000_000_000))));
        assert_eq!(parse(" :quit ; "), Ok(Command::Quit));
        for (bare, command) in [("quit", Command::Quit), (" Exit ;\n", Command::Quit), ("help;", Command::Help)] {
            assert!(is_one(bare) && parse(bare) == Ok(command), "{bare}");
        }
        for statement in ["quit now", "help RETURN 1", "RETURN 1\nquit", ""] {
            assert!(!is_one(statement), "{statement}");
        }
        for wrong in [":param", ":param x =>", ":param => 1", ":param a b", ":params x", ":source", ":quit now", ":"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse(":hlep"), Err("there is no command :hlep; did you mean `:help`?".to_owned()));
        assert!(words().all(|word| help().contains(word)));
    }
}
