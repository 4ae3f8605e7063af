//! The command line: what was typed. Does not read files, nor decide what follows from it.
//!
//! The options of the service stand at the top; each command has a copy of those that have an effect on it (`shared`), so that
//! help, manual, completions and what is taken are the same.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use clap_complete::Shell;
use clap_mangen::Man;
use weir_cypher_compiler::nearest;

use crate::ask::{PlanOf, Question, Target};
use crate::client::DEFAULT_URL;
use crate::clock;
use crate::config::Sources;
use crate::recipe::gallery;
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

Exit codes: 0 stopped on request; 1 weir could not start, or failed; 2 the command line, the configuration or a recipe was wrong;
3 no weir could be asked (query, shell, plan, tools with --url); 4 asked to stop, and not everything was done in time.
`weir query` has more.";

const NAME: &str = "weir";

/// Behind the options that a command has of its own.
const SHARED_ORDER: usize = 100;

/// What `--port` means to a command that asks a weir.
const PORT_ASKED: &str = "Port on this machine of the weir that is asked, where --url does not say which";

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
    #[arg(short, long, value_name = "RECIPE")]
    pub recipe: Option<String>,

    /// A value for `$key` in the recipe; several stand with commas between, or are given one by one. The last one counts
    #[arg(short = 'x', long, value_name = "KEY=VALUE", value_parser = pair, value_delimiter = ',', action = ArgAction::Append)]
    pub recipe_value: Vec<(String, String)>,

    /// Port of the web server, over the configuration
    #[arg(short, long, value_parser = port)]
    pub port: Option<u16>,

    /// Start without the web server
    #[arg(short = 'W', long, conflicts_with = "port")]
    pub disable_web_service: bool,

    /// Keep the configured store while running a recipe or the demonstration, instead of a temporary one
    #[arg(long, conflicts_with = "no_delete")]
    pub force_config: bool,

    /// Keep the temporary store of a recipe or of the demonstration, and print where it is
    #[arg(long)]
    pub no_delete: bool,

    /// One configuration key, over the file; may be given several times (roots: weir, service, quine)
    #[arg(short = 'D', value_name = "KEY=VALUE", value_parser = pair, action = ArgAction::Append)]
    pub define: Vec<(String, String)>,

    /// Print version
    #[arg(short = 'V', visible_short_alias = 'v', long, action = ArgAction::Version)]
    pub version: (),

    #[command(subcommand)]
    pub command: Option<Command>,
}

#[derive(Subcommand, Debug, Clone, PartialEq)]
pub enum Command {
    /// A built-in stream with a standing query; matches and cancellations in the terminal and on a live page. It has a store of
    /// its own, which goes with it
    Demo {
        /// Processes started, renamed and ended a second; at least 1
        #[arg(long, default_value_t = 20, value_parser = rate)]
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

        /// The graph as it was at the end of this millisecond since 1970, or of a time such as 2026-11-29T14:09:00Z
        #[arg(long, value_name = "TIME", value_parser = clock::read_millis)]
        at_time: Option<u64>,
    },
    /// Read a graph from text or a table, into the configured store or, with --url, into a weir that runs
    Import(Transfer),
}

impl Arguments {
    /// What was typed. Where that is wrong, or asks for help, says so and ends.
    pub fn read() -> Arguments {
        Arguments::read_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
    }

    fn read_from(line: impl Iterator<Item = OsString>) -> Result<Arguments, clap::Error> {
        let line: Vec<OsString> = line.collect();
        let mut grammar = grammar();
        // Of a command that is misspelt everything else is wrong, too.
        let roughly = grammar.clone().ignore_errors(true).try_get_matches_from(&line)?;
        if let Some(recipe) = roughly.get_one::<PathBuf>("config").and_then(|config| recipe(config)) {
            let message = format!("'{recipe}' is a recipe and no configuration file; a recipe is run with `weir -r {recipe}`");
            return Err(grammar.error(ErrorKind::ValueValidation, message));
        }
        if let Some(word) = roughly.get_one::<PathBuf>("config").and_then(|config| neither(config)) {
            let commands = grammar.get_subcommands().map(|command| command.get_name());
            let hint = nearest(word, commands).unwrap_or_else(|| "`weir --help` lists the commands".to_owned());
            let message = format!("'{word}' is neither a command nor a file; {hint}");
            return Err(grammar.error(ErrorKind::InvalidSubcommand, message));
        }
        let matches = grammar.try_get_matches_from_mut(&line)?;
        let mut arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut grammar))?;
        let Some((command, behind)) = matches.subcommand() else { return Ok(arguments) };
        arguments.take(behind);
        let is_idle = |option: &&Arg| {
            let id = option.get_id().as_str();
            matches.value_source(id) == Some(ValueSource::CommandLine) && !shared(command).contains(&id)
        };
        let idle = grammar.get_arguments().find(is_idle).map(|option| match option.is_positional() {
            true => "a configuration file".to_owned(),
            false => format!("'{option}'"),
        });
        let idle = idle.map(|option| format!("{option} has no effect on `weir {command}`, whose --help lists what has"));
        let Some(message) = idle.or_else(|| arguments.contradiction().map(str::to_owned)) else { return Ok(arguments) };
        // The usage below it is that of the command.
        grammar.build();
        Err(match grammar.find_subcommand_mut(command) {
            Some(command) => command.error(ErrorKind::ArgumentConflict, message),
            None => grammar.error(ErrorKind::ArgumentConflict, message),
        })
    }

    /// What stands behind the name of a command says the same as before it. Of what can be said once that is the last word.
    fn take(&mut self, behind: &ArgMatches) {
        let pairs = |id: &str| behind.try_get_many::<(String, String)>(id).ok().flatten().into_iter().flatten().cloned();
        self.define.extend(pairs("define"));
        self.recipe_value.extend(pairs("recipe_value"));
        let is_set = |id: &str| behind.try_get_one::<bool>(id).ok().flatten() == Some(&true);
        self.disable_web_service |= is_set("disable_web_service");
        self.force_config |= is_set("force_config");
        self.no_delete |= is_set("no_delete");
        if let Ok(Some(port)) = behind.try_get_one::<u16>("port") {
            self.port = Some(*port);
        }
        if let Ok(Some(recipe)) = behind.try_get_one::<String>("recipe") {
            self.recipe = Some(recipe.clone());
        }
    }

    /// What cannot be meant at once. Tools ask a weir or open the store, and each way leaves options of the other unheard.
    fn contradiction(&self) -> Option<&'static str> {
        // Of options on the same side of the command the grammar says so.
        if self.disable_web_service && self.port.is_some() {
            return Some("--port is that of the web server, and --disable-web-service starts none: leave out one");
        }
        if self.force_config && self.no_delete {
            return Some("--no-delete keeps the temporary store of a recipe, and --force-config makes none: leave out one");
        }
        let (url, opens_store) = match &self.command {
            Some(Command::Config { file: Some(_) }) if self.config.is_some() => {
                return Some("one configuration file is read: name it before `config` or behind it");
            }
            Some(Command::Shell(target)) => (&target.url, false),
            Some(Command::Query(question)) => (&question.target.url, false),
            Some(Command::Plan(of)) => (&of.url, false),
            Some(Command::Backup(backup)) => (&backup.url, true),
            Some(Command::Export { transfer, .. } | Command::Import(transfer)) => (&transfer.url, true),
            _ => return None,
        };
        if self.port.is_some() && url.as_ref().is_some_and(|url| !url.is_empty()) {
            return Some("--url says which weir is asked, and so does --port: leave out one");
        }
        match url {
            Some(_) if self.config.is_some() || !self.define.is_empty() => {
                Some("with --url a weir is asked that has a configuration of its own: leave out -D and the configuration file")
            }
            None if opens_store && self.port.is_some() => {
                Some("--port says which weir is asked, and none is without --url: add --url ''")
            }
            _ => None,
        }
    }

    /// Options of recipes where none is run, and no demonstration of those about the store. The reference service takes them, so
    /// whoever passes them is told, and not refused.
    pub fn without_recipe(&self) -> Vec<String> {
        if self.recipe.is_some() {
            return Vec::new();
        }
        let has_store = matches!(self.command, Some(Command::Demo { .. }));
        let values = ("-x", !self.recipe_value.is_empty());
        let options =
            [values, ("--force-config", self.force_config && !has_store), ("--no-delete", self.no_delete && !has_store)];
        let idle = options.into_iter().filter(|(_, is_given)| *is_given);
        idle.map(|(option, _)| format!("{option} (without -r)")).collect()
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
        Sources { file: self.config.clone().or(behind).or(named), overrides, has_own_store: self.has_own_store() }
    }

    /// Whether what is run, a recipe or the demonstration, is to have a store of its own.
    pub fn has_own_store(&self) -> bool {
        let is_run = match self.command {
            None => self.recipe.is_some(),
            Some(Command::Demo { .. }) => true,
            Some(_) => false,
        };
        is_run && !self.force_config
    }
}

/// The options of the service that have an effect on a command. They stand before its name or, but for the file, behind it.
fn shared(command: &str) -> &'static [&'static str] {
    match command {
        "demo" => &["config", "recipe", "recipe_value", "port", "disable_web_service", "force_config", "no_delete", "define"],
        "config" => &["config", "port", "disable_web_service", "define"],
        "check" | "restore" => &["config", "define"],
        "backup" | "export" | "import" => &["config", "port", "define"],
        "shell" | "query" | "plan" => &["port"],
        _ => &[],
    }
}

/// All that can be typed.
fn grammar() -> clap::Command {
    let service = Arguments::command();
    let options: Vec<Arg> = service.get_arguments().filter(|option| !option.is_positional()).cloned().collect();
    service.mut_subcommands(|command| {
        let shared = shared(command.get_name());
        let serves = shared.contains(&"disable_web_service");
        let taken = options.iter().filter(|option| shared.contains(&option.get_id().as_str())).cloned();
        let copies = taken.enumerate().map(|(index, option)| {
            let option = option.display_order(SHARED_ORDER + index);
            if option.get_id().as_str() == "port" && !serves { option.help(PORT_ASKED) } else { option }
        });
        let command = command.args(copies);
        // Both have the same options of their own.
        match command.get_name() {
            "export" => command.mut_arg("file", |file| file.help("The file that is written")),
            "import" => command.mut_arg("file", |file| file.help("The file that is read")),
            _ => command,
        }
    })
}

/// What stands where a configuration file can, and is a recipe: HOCON is not written in YAML.
fn recipe(config: &Path) -> Option<&str> {
    let word = config.to_str()?;
    let lower = word.to_lowercase();
    let is_shipped = || gallery::find(word).is_some() && !config.exists();
    (lower.ends_with(".yaml") || lower.ends_with(".yml") || is_shipped()).then_some(word)
}

/// A word that stands where a command or a file can, and is none. What has a dot or a slash is meant as a file.
fn neither(config: &Path) -> Option<&str> {
    config.to_str().filter(|word| !word.contains(['.', '/']) && !config.exists())
}

/// What a shell reads to complete the command line.
pub fn completions(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut grammar(), NAME, &mut text);
    text
}

/// The manual page: that of the service, then each command with its options.
pub fn manual() -> std::io::Result<Vec<u8>> {
    let command = grammar();
    let mut main = Vec::new();
    // The version by itself has several lines, and the head of a page is one.
    Man::new(command.clone()).source(format!("{NAME} {}", crate::VERSION)).render(&mut main)?;
    // Of an option without a long name the value is left out.
    let main = titled(&main).replace(r"[\fB\-D \fR]", r"[\fB\-D\fR \fIKEY=VALUE\fR]");
    let mut page = main.into_bytes();
    for command in command.get_subcommands() {
        let name = format!("{NAME} {}", command.get_name());
        let man = Man::new(command.clone());
        let mut section = Vec::new();
        man.render_description_section(&mut section)?;
        man.render_options_section(&mut section)?;
        if command.get_after_help().is_some() {
            man.render_extra_section(&mut section)?;
        }
        let section = titled(&section).replace(".SH ", ".SS ");
        page.extend_from_slice(format!(".SH \"{}\"\n{section}", name.to_uppercase()).as_bytes());
    }
    Ok(page)
}

/// What stands behind the options has no title of its own.
fn titled(page: &[u8]) -> String {
    String::from_utf8_lossy(page).replace(".SH EXTRA\n", ".SH \"EXAMPLES AND EXIT CODES\"\n")
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
        _ => Err(format!("'{text}' should be key=value")),
    }
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("it should be a whole number from 0 to {}", u16::MAX))
}

fn rate(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(rate) if rate > 0 => Ok(rate),
        _ => Err(format!("it should be a whole number from 1 to {}", u32::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::read_from(line.split_whitespace().map(OsString::from))
    }

    #[track_caller]
    fn refused(line: &str) -> String {
        parse(line).expect_err(line).to_string()
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
        // Also where the one stands before a command and the other behind it.
        for (line, hint) in [
            ("weir -W demo -p 1", "--disable-web-service starts none"),
            ("weir -p 1 demo -W", "--disable-web-service starts none"),
            ("weir -p 1 config -W", "--disable-web-service starts none"),
            ("weir --force-config demo --no-delete", "--force-config makes none"),
            ("weir --no-delete demo --force-config", "--force-config makes none"),
        ] {
            let said = refused(line);
            assert!(said.contains(hint), "{line}: {said}");
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
        assert_eq!(url("weir shell -p 1 --url=", Some("http://a")), "http://127.0.0.1:1");
        assert_eq!(url("weir shell --url http://b", Some("http://a")), "http://b");
        assert_eq!(url("weir shell --url=", Some("http://a")), "http://a");
        let arguments = parse("weir query - --format csv --param a=1 --param b=[2]").expect("parses");
        let Some(Command::Query(question)) = &arguments.command else { panic!("no query") };
        assert_eq!((question.text.as_deref(), question.target.param.len()), (Some("-"), 2));
        for line in ["weir query x --file y", "weir query x --format xml", "weir query x --param a=b", "weir shell x"] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn completions_and_the_manual_know_every_command() {
        let bash = String::from_utf8(completions(Shell::Bash)).expect("text");
        let manual = String::from_utf8(manual().expect("is written")).expect("text");
        for command in grammar().get_subcommands() {
            assert!(bash.contains(command.get_name()), "{}", command.get_name());
            assert!(manual.contains(&format!("WEIR {}", command.get_name().to_uppercase())), "{}", command.get_name());
        }
        let head = format!(".TH weir 1  \"weir {}\"", crate::VERSION);
        assert!(manual.lines().any(|line| line.trim_end() == head), "{head} is not in\n{manual}");
        assert!(manual.starts_with(".ie") || manual.starts_with(".TH"), "{manual}");
        for words in ["Exit codes", "recipe\\-value", "Completions"] {
            assert!(manual.to_lowercase().contains(&words.to_lowercase()), "{words} is not in\n{manual}");
        }
        let synopsis = manual.lines().find(|line| line.contains("[\\fICONFIG\\fR]")).expect("a synopsis");
        assert!(synopsis.contains("[\\fB\\-D\\fR \\fIKEY=VALUE\\fR]"), "{synopsis}");
        let count = |title: &str| manual.lines().filter(|line| *line == title).count();
        let titles = [".SH \"EXAMPLES AND EXIT CODES\"", ".SS \"EXAMPLES AND EXIT CODES\""];
        assert_eq!(titles.map(count), [1, 1], "weir has it, and weir query");
        assert!(!manual.contains("EXTRA"), "{manual}");
    }

    #[test]
    fn what_is_said_of_a_command_is_about_that_command() {
        for (line, usage) in [
            ("weir query x --url x -p 1", "Usage: weir query "),
            ("weir -Da=1 shell", "Usage: weir shell "),
            ("weir export x -p 1", "Usage: weir export "),
            ("weir improt", "Usage: weir [OPTIONS]"),
        ] {
            let said = refused(line);
            assert!(said.contains(usage), "{line}: {said}");
        }
        for (command, expected) in [("export", "The file that is written"), ("import", "The file that is read")] {
            let mut grammar = grammar();
            let help = grammar.find_subcommand_mut(command).expect("a command").render_help().to_string();
            assert!(help.contains(expected) && !help.contains("written or read"), "{help}");
        }
    }

    #[test]
    fn a_command_lists_the_options_it_takes_and_takes_no_others() {
        const OPTIONS: [(&str, &str); 7] = [
            ("-r,", "-rx"),
            ("-x,", "-xa=1"),
            ("-p,", "-p1"),
            ("-W,", "-W"),
            ("--force-config", "--force-config"),
            ("--no-delete", "--no-delete"),
            ("-D", "-Da=1"),
        ];
        grammar().debug_assert();
        for (command, more, expected) in [
            ("demo", "", "-r, -x, -p, -W, --force-config --no-delete -D"),
            ("shell", "", "-p,"),
            ("query", "x", "-p,"),
            ("plan", "x", "-p,"),
            ("config", "", "-p, -W, -D"),
            ("completions", "bash", ""),
            ("manual", "", ""),
            ("check", "", "-D"),
            ("restore", "x", "-D"),
            ("backup", "x", "-p, -D"),
            ("export", "x", "-p, -D"),
            ("import", "x", "-p, -D"),
        ] {
            let mut grammar = grammar();
            let help = grammar.find_subcommand_mut(command).expect("a command").render_help().to_string();
            let is_listed = |option: &str| help.lines().any(|line| line.trim_start().starts_with(option));
            let listed: Vec<&str> = OPTIONS.iter().map(|(option, _)| *option).filter(|option| is_listed(option)).collect();
            assert_eq!(listed.join(" "), expected, "{help}");
            for (option, given) in OPTIONS {
                // Tools have a use for the port where they ask a weir.
                let url = if option == "-p," && expected == "-p, -D" { "--url=" } else { "" };
                for line in [format!("weir {command} {more} {given} {url}"), format!("weir {given} {command} {more} {url}")] {
                    assert_eq!(parse(&line).is_ok(), is_listed(option), "{line}");
                }
            }
            let takes_file = parse(&format!("weir my.conf {command} {more}")).is_ok();
            assert_eq!(takes_file, is_listed("-D"), "a configuration file goes with its keys: {command}");
        }
        assert!(refused("weir -Da=1 shell").contains("'-D <KEY=VALUE>' has no effect on `weir shell`"));
        assert!(refused("weir my.conf shell").contains("a configuration file has no effect on `weir shell`"));
        assert!(refused("weir my.conf config other.conf").contains("one configuration file"));
    }

    #[test]
    fn one_option_says_which_weir_is_asked() {
        for command in ["shell", "query x", "plan x", "backup x", "export x", "import x"] {
            for line in [format!("weir {command} -p 1 --url http://b"), format!("weir -p 1 {command} --url http://b")] {
                assert!(refused(&line).contains("leave out one"), "{line}");
            }
        }
    }

    #[test]
    fn options_of_recipes_are_taken_without_one_and_said() {
        let idle = |line: &str| parse(line).expect("parses").without_recipe().join(", ");
        assert_eq!(idle("weir -x a=1 --force-config"), "-x (without -r), --force-config (without -r)");
        assert_eq!(idle("weir --no-delete"), "--no-delete (without -r)");
        // The demonstration has a store of its own, as a recipe has, and no values.
        assert_eq!(idle("weir demo --no-delete"), "");
        assert_eq!(idle("weir demo --force-config -x a=1"), "-x (without -r)");
        assert_eq!(idle("weir -r y -x a=1 --no-delete"), "");
    }

    #[test]
    fn tools_that_open_the_store_ask_no_weir() {
        for tool in ["backup", "export", "import"] {
            assert!(refused(&format!("weir {tool} x -p 1")).contains("add --url ''"), "{tool}");
            for line in [format!("weir my.conf {tool} x --url="), format!("weir {tool} x --url= -Da=1")] {
                assert!(refused(&line).contains("a configuration of its own"), "{line}");
            }
        }
    }

    #[test]
    fn options_before_a_command_and_behind_it_are_put_together() {
        let arguments = parse("weir -Da=1 -p 1 -x c=1 --no-delete demo -Db=2 -p 2 -x d=2 -r y").expect("parses");
        let keys = |pairs: &[(String, String)]| pairs.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>().join(" ");
        assert_eq!((keys(&arguments.define), keys(&arguments.recipe_value)), ("a b".to_owned(), "c d".to_owned()));
        assert_eq!((arguments.port, arguments.recipe.as_deref(), arguments.no_delete), (Some(2), Some("y"), true));
        assert!(!arguments.force_config && !arguments.disable_web_service);
    }

    #[test]
    fn a_command_that_is_misspelt_is_no_file() {
        for (line, hint) in [
            ("weir improt", "'improt' is neither a command nor a file; did you mean `import`?"),
            ("weir improt graph.jsonl --url x", "did you mean `import`?"),
            ("weir -p 1 quer RETURN", "did you mean `query`?"),
            ("weir standing", "`weir --help` lists the commands"),
        ] {
            let said = refused(line);
            assert!(said.contains(hint), "{line}: {said}");
        }
        for line in ["weir src", "weir nowhere.conf", "weir ./nowhere"] {
            assert!(parse(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn a_recipe_is_no_configuration_file() {
        for recipe in ["door.yaml", "in/Door.YML", "fraud-ring"] {
            let said = refused(&format!("weir {recipe}"));
            assert!(said.contains(&format!("a recipe is run with `weir -r {recipe}`")), "{said}");
            assert!(parse(&format!("weir -r {recipe}")).is_ok(), "{recipe}");
        }
        // JSON is HOCON.
        assert!(parse("weir my.json").is_ok());
    }

    #[test]
    fn moments_are_milliseconds_or_times() {
        for (text, millis) in [("1700000000000", 1_700_000_000_000), ("2023-11-14T22:13:20Z", 1_700_000_000_000)] {
            let arguments = parse(&format!("weir export graph.jsonl --at-time {text}")).expect("parses");
            let Some(Command::Export { at_time, .. }) = arguments.command else { panic!("no export") };
            assert_eq!(at_time, Some(millis));
        }
        for command in ["export graph.jsonl", "query x", "shell"] {
            let said = refused(&format!("weir {command} --at-time noon"));
            assert!(said.contains("'noon' is no time") && said.contains("2026-11-29T14:09:00Z"), "{said}");
        }
    }

    #[test]
    fn the_demonstration_goes_on_at_some_rate() {
        for rate in ["0", "-1", "x", "4294967296"] {
            let said = refused(&format!("weir demo --rate={rate}"));
            assert!(said.contains("from 1 to 4294967295"), "{said}");
        }
    }

    #[test]
    fn a_port_that_is_none_is_told_which_there_are() {
        for port in ["http", "65536", "-1"] {
            let said = refused(&format!("weir --port={port}"));
            assert!(said.contains("from 0 to 65535"), "{said}");
        }
    }

    #[test]
    fn the_demonstration_takes_options_too() {
        let arguments = parse("weir demo -p 9000").expect("parses");
        assert_eq!(arguments.command, Some(Command::Demo { rate: 20 }));
        assert_eq!(arguments.sources().overrides[0].1, "9000");
    }
}
