//! Properties of Java that command lines of the reference service hold besides the keys of the configuration: what each means
//! here.

use super::{ROOTS, hocon};

/// The properties of the reference service's loggers, and which of our loggers they are. The first is that of everything else.
const LEVELS: [(&str, &str); 3] = [("root.loglevel", ""), ("thatdot.loglevel", "weir="), ("thatdot.audit.loglevel", "audit=")];

/// Properties without meaning where there is no Java, or the beginnings of such.
const WITHOUT_EFFECT: [&str; 7] =
    ["logback.", "https.protocols", "https.cipherSuites", "javax.net.ssl.", "qp.", "file.encoding", "java."];

/// Where files come from that nobody gave.
const ELSEWHERE: [&str; 2] = ["config.resource", "config.url"];

#[derive(Debug, Default, PartialEq)]
pub struct Properties {
    /// For `log.level`, where that is not set itself.
    pub level: Option<String>,
    pub without_effect: Vec<String>,
    /// Below no root. A file may refer to them.
    pub others: Vec<String>,
    pub problems: Vec<String>,
}

/// Sorts out the options of the command line that are such properties; the others are left alone.
pub fn read(overrides: &[(String, String)]) -> Properties {
    let mut read = Properties::default();
    let mut levels = Vec::new();
    for (key, text) in overrides {
        if let Some((_, prefix)) = LEVELS.iter().find(|(known, _)| known == key) {
            match level(text) {
                // The last one counts, as among keys.
                Some(level) => {
                    levels.retain(|(of, _)| of != prefix);
                    levels.push((*prefix, level));
                }
                None => read.problems.push(format!(
                    "{}{key} is '{text}', and should be one of off, error, warn, info, debug, trace, all",
                    super::OF_COMMAND_LINE
                )),
            }
        } else if ELSEWHERE.contains(&key.as_str()) {
            read.problems.push(format!("{}{key}: give a file with -Dconfig.file=<FILE>", super::OF_COMMAND_LINE));
        } else if WITHOUT_EFFECT.iter().any(|known| key.starts_with(known)) {
            read.without_effect.push(format!("-D{key}"));
        } else if !key.split('.').next().is_some_and(|first| ROOTS.contains(&first)) {
            read.others.push(key.clone());
        }
    }
    if !levels.is_empty() {
        levels.sort_unstable();
        if levels.first().is_some_and(|(prefix, _)| !prefix.is_empty()) {
            levels.insert(0, ("", "info"));
        }
        read.level = Some(levels.iter().map(|(prefix, level)| format!("{prefix}{level}")).collect::<Vec<_>>().join(","));
    }
    read
}

/// The value of `log.level` that they come to.
pub fn value(level: &str) -> Result<hocon::Value, hocon::HoconError> {
    hocon::parse_override(&format!("\"{level}\""), &format!("{}…loglevel", super::OF_COMMAND_LINE))
}

fn level(text: &str) -> Option<&'static str> {
    let words = ["off", "error", "warn", "info", "debug", "trace"];
    let text = if text.eq_ignore_ascii_case("all") { "trace" } else { text };
    words.into_iter().find(|word| word.eq_ignore_ascii_case(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> Properties {
        read(&pairs.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned())).collect::<Vec<_>>())
    }

    #[test]
    fn levels_of_java_are_levels_here() {
        assert_eq!(of(&[("thatdot.loglevel", "DEBUG")]).level.as_deref(), Some("info,weir=debug"));
        let all = [("thatdot.audit.loglevel", "OFF"), ("root.loglevel", "WARN"), ("thatdot.loglevel", "ALL")];
        assert_eq!(of(&all).level.as_deref(), Some("warn,audit=off,weir=trace"));
        assert_eq!(of(&[("root.loglevel", "WARN"), ("root.loglevel", "ERROR")]).level.as_deref(), Some("error"));
        assert!(of(&[("root.loglevel", "loud")]).problems[0].contains("root.loglevel is 'loud'"));
        assert_eq!(of(&[("quine.webserver.port", "1"), ("weir", "2")]), Properties::default());
        assert_eq!(of(&[("pekko.x", "y"), ("foo", "z")]).others, ["pekko.x", "foo"]);
    }

    #[test]
    fn what_means_nothing_is_said() {
        let read = of(&[("javax.net.ssl.trustStore", "x"), ("qp.enabled", "true"), ("config.url", "http://x")]);
        assert_eq!(read.without_effect, ["-Djavax.net.ssl.trustStore", "-Dqp.enabled"]);
        assert_eq!(read.problems, ["option -Dconfig.url: give a file with -Dconfig.file=<FILE>"]);
    }
}
