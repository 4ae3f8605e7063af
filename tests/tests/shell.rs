//! `weir shell` as a user has it, in a terminal, and as a script has it, in a pipe.

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use weir_tests::service::{Home, Weir, binary};
use weir_tests::terminal::Terminal;

fn shell(home: &Home, weir: &Weir) -> Command {
    let mut command = Command::new(binary());
    command.args(["shell", "--url", &format!("http://{}", weir.address())]);
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
    terminal.press("RETURN 'x' + reduce(s = '', i IN range(1, 99) | s + 'y') AS long, null AS n;\r");
    terminal.wait("| \"xyyyyyyy");
    let rest = terminal.wait("1 row, ");
    assert!(rest.starts_with("yyy") && rest.contains("… | null |\n"), "{rest}");
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
        terminal.wait("weir> ");
    }
    // Ctrl-C while typing drops the line; while a query runs it ends that.
    terminal.press("RETURN never\x03");
    terminal.wait("weir> ");
    terminal.press("CALL util.sleep(120000);\r");
    terminal.wait("sleep(120000);");
    std::thread::sleep(Duration::from_millis(300));
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
    terminal.press(":quit\r");
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
    let (output, _) = piped(&home, &weir, &[], ":source nowhere.cypher");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere.cypher cannot be read"));
    let (output, _) = piped(&home, &weir, &[], ":quit\nRETURN nope;");
    assert!(output.status.success() && output.stderr.is_empty());
    weir.stop();
}
