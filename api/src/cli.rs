//! The command line: what was typed. Does not read files, nor decide what follows from it.

use std::path::PathBuf;

use clap::{ArgAction, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::ask::{PlanOf, Question, Target};
use crate::client::DEFAULT_URL;
use crate::config::Sources;
use crate::tools::Backup;
use crate::transfer::Transfer;

const AFTER_HELP: &str = "\
Without a command weir serves its API until it is stopped (Ctrl-C, SIGTERM or POST /api/v1/admin/shutdown).

Examples:
  weir                                      serve on port 8080, data in ./graph.weir-data
  weir demo                                 a stream, a standing query, and its results, live
  weir -Dweir.webserver.port=9090 my.conf   a configuration file, one key of it overridden
  weir -r fraud-ring                        run a recipe that comes with weir
  weir -r door-log.yaml -x in_file=a.jsonl  run one of your own over a file
  weir config my.conf                       what is in force, and why
  weir shell                                ask a running weir
  weir query 'MATCH (n) RETURN count(*)'    the same from a script

Exit codes: 0 stopped on request; 1 weir could not start, or failed; 2 the command line was wrong. `weir query` has more.";

const NAME: &str = "weir";

const QUERY_AFTER_HELP: &str = "\
Examples:
  weir query 'MATCH (n) RETURN count(*) AS nodes'
  weir query 'MATCH (n {name: $name}) RETURN n.age AS age' --param 'name=\"Ann\"' --format csv
  weir query --file report.cypher --format jsonl | jq .

Exit codes: 0 answered; 1 the query is wrong or failed; 2 the command line was wrong; 3 weir could not be asked;
130 stopped with Ctrl-C.";

/// A streaming property graph: records in, matches of standing queries out.
#[derive(Parser, Debug, Clone, Default)]
#[command(name = NAME, version = crate::VERSION_LONG.as_str(), disable_version_flag = true, after_help = AFTER_HELP, max_term_width = 120)]
pub struct Arguments {
    /// Configuration file (HOCON); -Dconfig.file=<FILE> says the same
    pub config: Option<PathBuf>,

    /// Run a recipe: a YAML or JSON file of ingest streams and standing queries, its URL, or the name of one that comes with weir
    #[arg(short, long, value_name = "RECIPE", global = true)]
    pub recipe: Option<String>,

    /// A value for `$key` in the recipe; may be given several times, the last one counts
    #[arg(short = 'x', long, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',', action = ArgAction::Append, global = true)]
    pub recipe_value: Vec<(String, String)>,

    /// Port of the web server, over the configuration
    #[arg(short, long, global = true)]
    pub port: Option<u16>,

    /// Start without the web server
    #[arg(short = 'W', long, conflicts_with = "port", global = true)]
    pub disable_web_service: bool,

    /// Keep the configured store while running a recipe, instead of a temporary one
    #[arg(long, conflicts_with = "no_delete", global = true)]
    pub force_config: bool,

    /// Keep the temporary store of a recipe, and print where it is
    #[arg(long, global = true)]
    pub no_delete: bool,

    /// One configuration key, over the file; may be given several times (roots: weir, service, quine)
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = pair, action = ArgAction::Append, global = true)]
    pub define: Vec<(String, String)>,

    /// Print version
    #[arg(short = 'V', visible_short_alias = 'v', long, action = ArgAction::Version)]
    pub version: (),

    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand, Debug, Clone, PartialEq)]
pub enum Command {
    /// A built-in stream with a standing query; matches and cancellations in the terminal and on a live page
    Demo {
        /// Processes started, renamed and ended a second
        #[arg(long, default_value_t = 20)]
        rate: u32,
    },
    /// Ask a running weir, interactively: history, completion, tables
    Shell(Target),
    /// Ask a running weir one question, for scripts
    #[command(after_help = QUERY_AFTER_HELP)]
    Query(Question),
    /// Show the dataflow of a standing query of a running weir
    Plan(PlanOf),
    /// Print the configuration in force, with where each value came from; what is printed is a configuration file
    Config {
        /// Configuration file (HOCON)
        file: Option<PathBuf>,
    },
    /// Print completions of the command line for a shell
    Completions {
        #[arg(value_enum)]
        shell: Shell,
    },
    /// Print the manual page, as troff
    Manual,
    /// Read everything in a store that no weir works with, and say what of it is damaged
    Check,
    /// Write everything in a store to one file, while no weir works with it or, with --url, while one does
    Backup(Backup),
    /// Make a store, of any type, out of a backup
    Restore {
        /// What `weir backup` wrote, and after it what it wrote `--since` then, in order
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Write a graph as text or as a table, from the configured store or, with --url, from a weir that runs
    Export {
        #[command(flatten)]
        transfer: Transfer,

        /// The graph as it was at the end of this millisecond since 1970
        #[arg(long, value_name = "MILLIS")]
        at_time: Option<u64>,
    },
    /// Read a graph from text or a table, into the configured store or, with --url, into a weir that runs
    Import(Transfer),
}

impl Arguments {
    /// An option of the service, which says nothing to a command that asks another one.
    pub fn of_service(&self) -> Option<&'static str> {
        [
            ("a configuration file", self.config.is_some()),
            ("--recipe", self.recipe.is_some()),
            ("--recipe-value", !self.recipe_value.is_empty()),
            ("--disable-web-service", self.disable_web_service),
            ("--force-config", self.force_config),
            ("--no-delete", self.no_delete),
            ("-D", !self.define.is_empty()),
        ]
        .into_iter()
        .find_map(|(option, given)| given.then_some(option))
    }

    /// Where the weir listens that is to be asked.
    pub fn url(&self, given: Option<&str>, environment: Option<String>) -> String {
        let by_port = self.port.map(|port| format!("http://127.0.0.1:{port}"));
        let of_environment = environment.filter(|url| !url.is_empty());
        let given = given.filter(|url| !url.is_empty()).map(str::to_owned);
        given.or(by_port).or(of_environment).unwrap_or_else(|| DEFAULT_URL.to_owned())
    }

    /// Where the configuration comes from. Of the keys below `config` only `config.file` has a meaning.
    pub fn sources(&self) -> Sources {
        let named = self.define.iter().rev().find(|(key, _)| key == "config.file").map(|(_, path)| PathBuf::from(path));
        let mut overrides: Vec<_> = self.define.iter().filter(|(key, _)| key != "config.file").cloned().collect();
        if let Some(port) = self.port {
            overrides.push(("weir.webserver.port".to_owned(), port.to_string()));
        }
        if self.disable_web_service {
            overrides.push(("weir.webserver.enabled".to_owned(), "false".to_owned()));
        }
        let behind = match &self.command {
            Some(Command::Config { file }) => file.clone(),
            _ => None,
        };
        Sources { file: self.config.clone().or(behind).or(named), overrides }
    }
}

/// What a shell reads to complete the command line.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), NAME, &mut text);
    text
}

/// The manual page: that of the service, then each command with its options.
pub fn manual() -> std::io::Result<Vec<u8>> {
    let command = Arguments::command();
    let mut page = Vec::new();
    // The version by itself has several lines, and the head of a page is one.
    Man::new(command.clone()).source(format!("{NAME} {}", crate::VERSION)).render(&mut page)?;
    for command in command.get_subcommands() {
        let name = format!("{NAME} {}", command.get_name());
        let man = Man::new(command.clone());
        let mut section = Vec::new();
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        let section = String::from_utf8_lossy(&section).replace(".SH ", ".SS ");
        page.extend_from_slice(format!(".SH \"{}\"\n{section}", name.to_uppercase()).as_bytes());
    }
    Ok(page)
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' should be key=value")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split(' '))
    }

    #[test]
    fn options_become_sources() {
        let arguments =
            parse("weir -Dquine.webserver.port=9090 -p 1234 -D service.id.type=long -Dconfig.file=a.conf").expect("parses");
        let sources = arguments.sources();
        assert_eq!(sources.file, Some(PathBuf::from("a.conf")));
        let keys: Vec<&str> = sources.overrides.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(keys, ["quine.webserver.port", "service.id.type", "weir.webserver.port"]);
        for line in ["weir my.conf", "weir config my.conf", "weir my.conf config", "weir config my.conf -Dconfig.file=a.conf"] {
            assert_eq!(parse(line).expect("parses").sources().file, Some(PathBuf::from("my.conf")), "{line}");
        }
    }

    #[test]
    fn either_letter_asks_for_the_version() {
        for line in ["weir -V", "weir -v", "weir --version"] {
            let kind = parse(line).map(drop).map_err(|told| told.kind());
            assert_eq!(kind, Err(clap::error::ErrorKind::DisplayVersion), "{line}");
        }
    }

    #[test]
    fn recipes_take_values() {
        let arguments = parse("weir -r r.yaml -x a=1,b=2 -x a=3=4 --no-delete").expect("parses");
        let expected = [("a", "1"), ("b", "2"), ("a", "3=4")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(arguments.recipe_value, expected);
    }

    #[test]
    fn contradictions_are_refused() {
        for line in ["weir -W -p 1", "weir --force-config --no-delete", "weir -x novalue", "weir --nope", "weir -p x"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn what_is_asked_follows_from_the_options() {
        let url = |line: &str, environment: Option<&str>| {
            let arguments = parse(line).expect("parses");
            let Some(Command::Shell(target)) = &arguments.command else { panic!("{line}") };
            arguments.url(target.url.as_deref(), environment.map(str::to_owned))
        };
        assert_eq!(url("weir shell", None), "http://127.0.0.1:8080");
        assert_eq!(url("weir shell", Some("http://a")), "http://a");
        assert_eq!(url("weir shell -p 1", Some("http://a")), "http://127.0.0.1:1");
        assert_eq!(url("weir shell -p 1 --url http://b", Some("http://a")), "http://b");
        assert_eq!(url("weir shell --url=", Some("http://a")), "http://a");
        let arguments = parse("weir query - --format csv --param a=1 --param b=[2] -Dx=1").expect("parses");
        let Some(Command::Query(question)) = &arguments.command else { panic!("no query") };
        assert_eq!((question.text.as_deref(), question.target.param.len()), (Some("-"), 2));
        assert_eq!(arguments.of_service(), Some("-D"));
        for line in ["weir query x --file y", "weir query x --format xml", "weir query x --param a=b", "weir shell x"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn completions_and_the_manual_know_every_command() {
        let bash = String::from_utf8(completions(Shell::Bash)).expect("text");
        let manual = String::from_utf8(manual().expect("is written")).expect("text");
        for command in Arguments::command().get_subcommands() {
            assert!(bash.contains(command.get_name()), "{}", command.get_name());
            assert!(manual.contains(&format!("WEIR {}", command.get_name().to_uppercase())), "{}", command.get_name());
        }
        let head = format!(".TH weir 1  \"weir {}\"", crate::VERSION);
        assert!(manual.lines().any(|line| line.trim_end() == head), "{head} is not in\n{manual}");
        assert!(manual.starts_with(".ie") || manual.starts_with(".TH"), "{manual}");
        for words in ["Exit codes", "recipe\\-value", "Completions"] {
            assert!(manual.to_lowercase().contains(&words.to_lowercase()), "{words} is not in\n{manual}");
        }
    }

    #[test]
    fn the_demonstration_takes_options_too() {
        let arguments = parse("weir demo -p 9000").expect("parses");
        assert_eq!(arguments.command, Some(Command::Demo { rate: 20 }));
        assert_eq!(arguments.sources().overrides[0].1, "9000");
    }
}
