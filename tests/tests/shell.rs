//! `weir shell` as a user has it, in a terminal, and as a script has it, in a pipe.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use weir_tests::service::{Home, Weir, binary, wait_until};
use weir_tests::terminal::Terminal;

/// Machines under load are slow.
const SOON: Duration = Duration::from_secs(60);

fn shell(home: &Home, weir: &Weir) -> Command {
    shell_at(home, &format!("http://{}", weir.address()))
}

fn shell_at(home: &Home, url: &str) -> Command {
    let mut command = Command::new(binary());
    command.args(["shell", "--url", url]);
    command.current_dir(home.path()).env("XDG_DATA_HOME", home.path()).env("TERM", "xterm").env_remove("NO_COLOR");
    command
}

fn piped(home: &Home, weir: &Weir, arguments: &[&str], input: &str) -> (Output, String) {
    let mut command = shell(home, weir);
    let mut child = command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the shell starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("the shell reads");
    let output = child.wait_with_output().expect("the shell ends");
    let out = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    (output, out)
}

/// Without how long it took.
fn untimed(text: &str) -> String {
    let lines = text.lines().map(|line| match line.rsplit_once(", ") {
        Some((rows, time)) if time.ends_with(" ms") => rows,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_conversation() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    weir.rows("CREATE (:Person {name: 'Ann', nickname: 'A'})-[:KNOWS]->(:Place {name: 'Süd'})");
    let mut terminal = Terminal::start(&mut shell(&home, &weir), 60);
    terminal.wait("weir> ");
    // A statement of several lines.
    terminal.press("RETURN 1 AS one,\r'é你好' AS text;\r");
    let table = "+-----+---------+\n| one | text    |\n+-----+---------+\n|   1 | \"é你好\" |\n+-----+---------+\n1 row, ";
    terminal.wait(table);
    terminal.wait("weir> ");
    // What is too wide for the terminal is cut.
    terminal.press("UNWIND [1, 2] AS n RETURN 'x' + reduce(s = '', i IN range(1, 99) | s + 'y') AS long, n;\r");
    terminal.wait("| \"xyyyyyyy");
    let rest = terminal.wait("2 rows, ");
    assert!(rest.starts_with("yyy") && rest.contains("… | 1 |\n"), "{rest}");
    terminal.wait("weir> ");
    // A row alone is shown whole, and so is a plan.
    terminal.press("RETURN 'x' + reduce(s = '', i IN range(1, 99) | s + 'y') AS long, null AS n;\r");
    terminal.wait("--- row 1\nlong  \"xyyyyyyy");
    let rest = terminal.wait("1 row, ");
    assert!(rest.contains("y\"\nn     null\n"), "{rest}");
    terminal.wait("weir> ");
    terminal.press("EXPLAIN MATCH (n:Person) RETURN n;\r");
    terminal.wait("\nMatch  -- node 0 among those with :Person\n");
    terminal.wait("weir> ");
    // A comment may begin a statement, and have many lines.
    terminal.press("/* a;\r");
    terminal.press("b */ RETURN 3 AS three;\r");
    terminal.wait("| three |");
    terminal.wait("weir> ");
    // Errors are underlined and have a suggestion.
    terminal.press("MATCH (person) RETURN persn.name;\r");
    terminal.wait("MATCH (person) RETURN persn.name\n                      ^^^^^\ndid you mean `person`?\n");
    terminal.wait("weir> ");
    // So have labels nothing has.
    terminal.press("MATCH (n:Persn) RETURN n;\r");
    terminal.wait("0 rows, ");
    terminal.wait("nothing here has the label or relationship type `Persn`; did you mean `Person`?\n");
    terminal.wait("weir> ");
    terminal.press(":param p => [1, null, {a: 'é'}]\r");
    terminal.wait("$p = [1, null, {a: \"é\"}]\n");
    terminal.wait("weir> ");
    terminal.press("RETURN $p[2].a AS a;\r");
    terminal.wait("| \"é\" |");
    terminal.wait("weir> ");
    terminal.press(":parms\r");
    terminal.wait("there is no command :parms; did you mean `:params`?");
    terminal.wait("weir> ");
    // Completion: a keyword, a label, a property, a function, a procedure, a parameter, a command.
    for (typed, completed) in [
        ("RETU\t 1 AS x;", "RETURN 1 AS x;"),
        ("retu\t 1 AS x;", "return 1 AS x;"),
        ("MATCH (n:Per\t) RETURN count(*);", "MATCH (n:Person) RETURN count(*);"),
        ("MATCH (n) RETURN max(n.nick\t);", "MATCH (n) RETURN max(n.nickname);"),
        ("RETURN text.urlenc\t('a');", "RETURN text.urlencode('a');"),
        ("CALL help.proc\t() YIELD name RETURN count(*);", "CALL help.procedures() YIELD name RETURN count(*);"),
        ("RETURN $\t;", "RETURN $p;"),
        (":hel\t", ":help"),
    ] {
        terminal.press(typed);
        terminal.wait(completed);
        terminal.press("\r");
        terminal.wait(if typed.starts_with(':') { "Ctrl-C stops a query" } else { "1 row, " });
        terminal.wait("weir> ");
    }
    // Ctrl-C while typing drops the line; while a query runs it ends that.
    terminal.press("RETURN never\x03");
    terminal.wait("weir> ");
    terminal.press("CALL util.sleep(120000);\r");
    terminal.wait("sleep(120000);");
    let running = || weir.get("/api/v1/query/cypher/running").expect(200).json();
    wait_until("the query runs", SOON, || running()[0]["query"].as_str().is_some_and(|text| text.contains("sleep(120000)")));
    let began = Instant::now();
    terminal.interrupt();
    terminal.wait("stopped\n");
    terminal.wait("weir> ");
    assert!(began.elapsed() < Duration::from_secs(20));
    terminal.press("RETURN 'last';\r");
    terminal.wait("1 row, ");
    terminal.wait("weir> ");
    // Ctrl-D.
    terminal.press("\x04");
    assert!(terminal.wait_end().success());
    // The history is there again: one up.
    let mut terminal = Terminal::start(&mut shell(&home, &weir), 60);
    terminal.wait("weir> ");
    terminal.press("\x1b[A");
    terminal.wait("RETURN 'last';");
    terminal.press("\r");
    terminal.wait("1 row, ");
    terminal.wait("weir> ");
    // Some are commands without a colon, too.
    terminal.press("help\r");
    terminal.wait("Ctrl-C stops a query");
    terminal.wait("weir> ");
    terminal.press("quit\r");
    assert!(terminal.wait_end().success());
    weir.stop();
}

#[test]
fn a_pipe() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    home.write("more.cypher", ":param q => $p + 1\nUNWIND range(1, 1000) AS i RETURN count(i) AS rows, $q AS q; // done\n");
    let script = "CREATE (:A {x: 1}); MATCH (n:A) SET n.y = ';'\nRETURN n;\n:param p => 41\n:source more.cypher\n:params\n\nRETURN 'é' AS é, null AS n";
    let (output, out) = piped(&home, &weir, &[], script);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = "done\n\
        +---------------------+\n| n                   |\n+---------------------+\n\
        | (:A {x: 1, y: \";\"}) |\n+---------------------+\n1 row\n\
        $p = 41\n$q = 42\n\
        +------+----+\n| rows | q  |\n+------+----+\n| 1000 | 42 |\n+------+----+\n1 row\n\
        $p = 41\n$q = 42\n\
        +-----+------+\n| é   | n    |\n+-----+------+\n| \"é\" | null |\n+-----+------+\n1 row";
    assert_eq!(untimed(&out), expected);
    // The first error ends it.
    let (output, out) = piped(&home, &weir, &["--param", "x=2"], "RETURN $x AS x;\nRETURN nope;\nCREATE (:Late);\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(untimed(&out).ends_with("1 row"), "{out}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("RETURN nope\n       ^^^^\n") && !error.contains('\x1b'), "{error}");
    assert_eq!(weir.rows("MATCH (n:Late) RETURN count(*)")[0][0], 0);
    // Its place is that in the whole text, behind statements and commands.
    for (script, place) in [
        ("RETURN 2 AS x;\n:params\n\n  RETURN nope", "4.10"),
        ("RETURN 2 AS x; RETURN nope;", "1.23"),
        ("\nRETURN 2 AS é; WITH 1 AS y\n\n RETURN nope;", "4.9"),
    ] {
        let (output, _) = piped(&home, &weir, &[], script);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.starts_with(&format!("CompileError at {place} ")), "{script}: {error}");
    }
    let (output, _) = piped(&home, &weir, &[], ":source nowhere.cypher");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere.cypher cannot be read"));
    for quit in [":quit", "quit", "EXIT ;"] {
        let (output, _) = piped(&home, &weir, &[], &format!("{quit}\nRETURN nope;"));
        assert!(output.status.success() && output.stderr.is_empty(), "{quit}");
    }
    let (output, out) = piped(&home, &weir, &[], "help");
    assert!(output.status.success() && out.contains(":namespace"), "{out}");
    // Who has gone back in time cannot write there, and is told the way out.
    let long_ago = ":at 2020-01-01T00:00:00Z\nMATCH (n) RETURN count(n) AS nodes;\nCREATE (:Late);\n";
    let (output, out) = piped(&home, &weir, &[], long_ago);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && out.contains("| nodes |"), "{out}{error}");
    assert!(error.contains("past time") && error.contains("(`:at` goes back to the present)"), "{error}");
    weir.stop();
}

#[test]
fn what_is_typed_ahead_runs_in_order() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let mut terminal = Terminal::start(&mut shell(&home, &weir), 80);
    terminal.wait("weir> ");
    terminal.press("RETURN 1 AS a;\rRETURN 2\rAS b; // b\r:param x => 3\rRETURN $x AS c;\rRETURN 4");
    for shown in ["| a |", "1 row, ", "| b |", "1 row, ", "$x = 3\n", "| c |", "1 row, ", "weir> RETURN 4"] {
        terminal.wait(shown);
    }
    terminal.press(" AS d;\r");
    terminal.wait("| d |");
    terminal.wait("weir> ");
    // Each of them is in the history.
    terminal.press("\x1b[A");
    terminal.wait("RETURN 4 AS d;");
    terminal.press("\x1b[A");
    terminal.wait("RETURN $x AS c;");
    terminal.press("\r");
    terminal.wait("| c |");
    terminal.wait("weir> ");
    // Enter sends a statement wherever in it the cursor is.
    terminal.press("RETURN 5 AS e;\x1b[D\x1b[D\x1b[D\r");
    terminal.wait("| e |");
    terminal.wait("weir> ");
    // What is typed while a query runs waits.
    terminal.press("CALL util.sleep(500);\r");
    terminal.wait("sleep(500);");
    terminal.press("RETURN 6 AS f;\rRETURN 7 AS g;\r");
    terminal.wait("| f |");
    terminal.wait("| g |");
    terminal.wait("weir> ");
    terminal.press("\x04");
    assert!(terminal.wait_end().success());
    weir.stop();
}

#[test]
fn names_are_completed_so_that_they_can_be_read() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    weir.rows("CREATE (:`a b` {`x y`: 1}), (:`Zz\\u001b]0;title\\u0007`)");
    let mut terminal = Terminal::start(&mut shell(&home, &weir), 100);
    terminal.wait("weir> ");
    for (typed, completed) in [
        ("MATCH (n:a\t) RETURN count(*);", "MATCH (n:`a b`) RETURN count(*);"),
        ("MATCH (n:`a\t) RETURN count(*);", "MATCH (n:`a b`) RETURN count(*);"),
        ("MATCH (n:`a b`) RETURN max(n.`x\t);", "MATCH (n:`a b`) RETURN max(n.`x y`);"),
        ("MATCH (n:Zz\t) RETURN count(*);", "MATCH (n:`Zz\\u001b]0;title\\u0007`) RETURN count(*);"),
    ] {
        terminal.press(typed);
        terminal.wait(completed);
        terminal.press("\r");
        terminal.wait(" 1 |\n");
        terminal.wait("weir> ");
    }
    terminal.press("RETURN 1 AS `h\\u001b[35mhead`;\r");
    terminal.wait("| h\\u001b[35mhead |");
    terminal.wait("weir> ");
    terminal.press(":quit\r");
    assert!(terminal.wait_end().success());
    weir.stop();
}

#[test]
fn parameters_are_one_value_and_stay_what_they_are() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let script = ":param x => 1.0\n:param l => [{a: -2.0}, '$x']\nRETURN $x / 2 AS x, '$x' AS text, 1 + $l[0].a / 4 AS l;";
    let (output, out) = piped(&home, &weir, &[], script);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("$x = 1.0\n$l = [{a: -2.0}, \"$x\"]\n"), "{out}");
    assert!(out.contains("| 0.5 | \"$x\" | 0.5 |"), "{out}");
    let (_, out) =
        piped(&home, &weir, &["--param", "n=9007199254740993.0"], ":params\nRETURN $n AS n;\n:param n => 2.0\n:params");
    assert!(out.contains("$n = 9007199254740993.0\n") && out.contains("| 9007199254740993 |"), "{out}");
    assert!(out.ends_with("$n = 2.0\n$n = 2.0\n"), "{out}");
    for (wrong, reason) in [
        (":param x => 1 AS y, 2", "'1 AS y, 2' is not one value"),
        (":param x => 1 UNION CREATE (n:Late) RETURN 1", "is not one value"),
        (":param x => 1 +", "at 1.11 Unexpected end of input: expected an expression\n\nRETURN 1 +\n          ^"),
        (":param x => 1 / 0", "ArithmeticError"),
        (":param x => $nope", "nope"),
    ] {
        let (output, _) = piped(&home, &weir, &[], wrong);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{wrong}");
        assert!(error.contains(reason) && !error.contains("AS value"), "{wrong}: {error}");
    }
    assert_eq!(weir.rows("MATCH (n:Late) RETURN count(*)")[0][0], 0);
    weir.stop();
}

/// A server that closes a connection a moment after it answered, without having said so.
#[test]
fn a_connection_that_was_closed_is_made_anew() {
    let home = Home::new();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    // Those that were taken, and those that were closed.
    let counts = Arc::<[AtomicUsize; 2]>::default();
    let counted = counts.clone();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.expect("a connection");
            counted[0].fetch_add(1, Ordering::SeqCst);
            answer_once(&mut connection);
            std::thread::sleep(Duration::from_millis(50));
            drop(connection);
            counted[1].fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut terminal = Terminal::start(&mut shell_at(&home, &url), 80);
    terminal.wait("weir> ");
    for _ in 0..3 {
        wait_until("it is closed", SOON, || counts[1].load(Ordering::SeqCst) == counts[0].load(Ordering::SeqCst));
        std::thread::sleep(Duration::from_millis(300));
        terminal.press("RETURN 1;\r");
        terminal.wait("| a |");
        terminal.wait("1 row, ");
        terminal.wait("weir> ");
    }
    terminal.press("\x04");
    assert!(terminal.wait_end().success());
}

fn answer_once(connection: &mut TcpStream) {
    let mut lines = BufReader::new(connection.try_clone().expect("a connection"));
    let mut head = String::new();
    while lines.read_line(&mut head).expect("a request") > 2 {}
    let length = head.to_lowercase().split_once("content-length: ").map_or(0, |(_, rest)| {
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a length")
    });
    lines.read_exact(&mut vec![0; length]).expect("a body");
    let body = r#"{"version":"0","columns":["a"],"results":[[1]]}"#;
    let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    connection.write_all(answer.as_bytes()).expect("an answer");
}
