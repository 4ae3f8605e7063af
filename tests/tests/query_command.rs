//! `weir query` as scripts use it: the real binary, asked by the real binary.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir, binary, wait_until};

/// How long a line may take to be written.
const LINE_TIME_MAX: Duration = Duration::from_secs(30);

/// What a run of `weir query` left.
struct Ran {
    code: Option<i32>,
    out: String,
    error: String,
}

fn run(weir: &Weir, arguments: &[&str], input: &str) -> Ran {
    run_at(&format!("http://{}", weir.address()), arguments, input)
}

fn run_at(url: &str, arguments: &[&str], input: &str) -> Ran {
    let mut command = Command::new(binary());
    command.arg("query").args(["--url", url]).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("weir query starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It may not read it at all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("weir query ends");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    Ran { code: output.status.code(), out: text(output.stdout), error: text(output.stderr) }
}

#[test]
fn answers_in_every_form() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let query = "UNWIND [['Ann \"A\"', null, {k: [1, 2.5]}], ['你好, ça va', '', []]] AS row RETURN row[0] AS name, row[1] AS `odd, name`, row[2] AS more";
    let json = run(&weir, &[query, "--format", "json"], "");
    assert_eq!((json.code, json.error.as_str()), (Some(0), ""));
    let answer: Json = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(answer["columns"], json!(["name", "odd, name", "more"]));
    assert_eq!(answer["results"][0], json!(["Ann \"A\"", null, {"k": [1, 2.5]}]));
    // In a pipe that is the default.
    assert_eq!(run(&weir, &[query], "").out, json.out);
    let lines = run(&weir, &[query, "--format", "jsonl"], "").out;
    let objects: Vec<Json> = lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(objects[1], json!({"name": "你好, ça va", "odd, name": "", "more": []}));
    let csv = run(&weir, &[query, "--format", "csv"], "").out;
    assert_eq!(csv, "name,\"odd, name\",more\r\n\"Ann \"\"A\"\"\",,\"{\"\"k\"\":[1,2.5]}\"\r\n\"你好, ça va\",\"\",[]\r\n");
    let table = run(&weir, &[query, "--format", "table"], "").out;
    assert_eq!(
        table,
        "+---------------+-----------+---------------+\n\
         | name          | odd, name | more          |\n\
         +---------------+-----------+---------------+\n\
         | \"Ann \\\"A\\\"\"   | null      | {k: [1, 2.5]} |\n\
         | \"你好, ça va\" | \"\"        | []            |\n\
         +---------------+-----------+---------------+\n"
    );
    let many = run(&weir, &["UNWIND range(1, 1000) AS i RETURN i, {half: i / 2.0} AS m", "--format", "jsonl"], "");
    assert_eq!(many.out.lines().count(), 1000);
    assert_eq!(many.out.lines().last(), Some(r#"{"i":1000,"m":{"half":500.0}}"#));
    let nothing = run(&weir, &["CREATE (:Person {name: 'Bo'})", "--format", "table"], "");
    assert_eq!((nothing.code, nothing.out.as_str()), (Some(0), ""));
    weir.stop();
}

#[test]
fn texts_and_parameters_come_from_everywhere() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let given = ["RETURN $a AS a, $b AS b", "--param", "a=[1, null, \"é\"]", "--param", "$b={\"x\": 1.5}", "--format", "jsonl"];
    assert_eq!(run(&weir, &given, "").out, "{\"a\":[1,null,\"é\"],\"b\":{\"x\":1.5}}\n");
    // Numbers arrive as they were written.
    let numbers = ["RETURN $n AS n, $x AS x", "--param", "n=9007199254740993.0", "--param", "x=-1e400", "--format", "jsonl"];
    assert_eq!(run(&weir, &numbers, "").out, "{\"n\":9007199254740993,\"x\":\"-Infinity\"}\n");
    assert_eq!(run(&weir, &["--format", "csv"], "RETURN 1 AS a").out, "a\r\n1\r\n");
    assert_eq!(run(&weir, &["-", "--format", "csv"], "RETURN 1 AS a;").out, "a\r\n1\r\n");
    home.write("q.cypher", "// two of them;\nRETURN ';' AS a;\nRETURN 2 AS b\n");
    let path = home.file("q.cypher");
    let file = ["--file", path.to_str().expect("UTF-8"), "--format", "csv"];
    assert_eq!(run(&weir, &file, "").out, "a\r\n;\r\n\r\nb\r\n2\r\n");
    weir.stop();
}

#[test]
fn exit_codes_say_what_became_of_it() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let wrong = run(&weir, &["MATCH (person) RETURN persn.name, nope(1)"], "");
    assert_eq!((wrong.code, wrong.out.as_str()), (Some(1), ""));
    assert_eq!(
        wrong.error,
        "CompileError at 1.23 Variable `persn` not defined\n\n\
         MATCH (person) RETURN persn.name, nope(1)\n                      ^^^^^\ndid you mean `person`?\n\n\
         CompileError at 1.35 Failed to resolve function `nope`\n\n\
         MATCH (person) RETURN persn.name, nope(1)\n                                  ^^^^^^^\n"
    );
    // What was answered before stays, and nothing follows.
    let half = run(&weir, &["RETURN 1 AS a; UNWIND [0] AS x RETURN 1 / x; CREATE (:Late)", "--format", "csv"], "");
    assert_eq!((half.code, half.out.as_str()), (Some(1), "a\r\n1\r\n"));
    assert!(half.error.contains("ArithmeticError"), "{}", half.error);
    assert_eq!(weir.rows("MATCH (n:Late) RETURN count(*)"), [json!([0])]);
    // Its place is that in the file.
    home.write("late.cypher", "// first;\nRETURN 1 AS a;\n\nRETURN 2 AS é; MATCH (n)\n  RETURN m;\n");
    let path = home.file("late.cypher");
    let late = run(&weir, &["--file", path.to_str().expect("UTF-8")], "");
    assert!(late.code == Some(1) && late.error.starts_with("CompileError at 5.10 Variable `m` not defined"), "{}", late.error);
    let late = run(&weir, &["RETURN 1 AS é; RETURN m"], "");
    assert!(late.error.starts_with("CompileError at 1.23 Variable `m` not defined\n\n RETURN m\n        ^"), "{}", late.error);
    let empty = run(&weir, &[""], "");
    assert!(empty.code == Some(1) && empty.error.contains("expected a clause"), "{}", empty.error);
    let namespace = run(&weir, &["RETURN 1", "--namespace", "nowhere"], "");
    assert!(namespace.code == Some(1) && namespace.error.contains("'nowhere'"), "{}", namespace.error);
    for usage in
        [&["RETURN 1", "--format", "xml"][..], &["--file", "/nowhere/at/all"], &["RETURN 1", "-Da=b"], &["x", "--param", "a=b"]]
    {
        assert_eq!(run(&weir, usage, "").code, Some(2), "{usage:?}");
    }
    let url = format!("http://{}", weir.address());
    // Not every 404 is about a namespace.
    let elsewhere = run_at(&format!("{url}/prefix"), &["RETURN 1"], "");
    let expected = format!("no weir answers at {url}/prefix: {url}/prefix/api/v1/query/cypher was asked");
    assert!(elsewhere.code == Some(3) && elsewhere.error.contains(&expected), "{}", elsewhere.error);
    weir.stop();
    let gone = run_at(&url, &["RETURN 1"], "");
    assert!(gone.code == Some(3) && gone.error.contains("cannot be asked"), "{}", gone.error);
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    let mut command = Command::new(binary());
    command.args(["query", "--format", "jsonl", "UNWIND range(1, 300000) AS i RETURN i"]);
    command.args(["--url", &weir.address().to_string()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir query starts");
    let mut begin = [0; 8];
    child.stdout.take().expect("a pipe").read_exact(&mut begin).expect("an answer");
    // The pipe is closed here.
    let output = child.wait_with_output().expect("weir query ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    weir.stop();
}

/// The write waited for the reader, and nothing listened for the signal meanwhile.
#[test]
fn an_answer_that_nobody_takes_can_be_stopped() {
    let home = Home::new();
    let weir = home.start(&["-Dweir.store.type=in-memory"]);
    for format in ["jsonl", "json"] {
        let mut command = Command::new(binary());
        command.args(["query", "--format", format, "UNWIND range(1, 100000) AS i RETURN i, 'some text'"]);
        command.args(["--url", &weir.address().to_string()]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir query starts");
        let out = child.stdout.take().expect("a pipe");
        wait_until("the pipe is full", LINE_TIME_MAX, || ioctl_fionread(&out).expect("it can be asked") > 32 << 10);
        // Of the answer in one piece all is there then, and of rows as much as the pipe takes.
        std::thread::sleep(Duration::from_millis(300));
        let pid = Pid::from_raw(child.id() as i32).expect("a process has an id above zero");
        kill_process(pid, Signal::INT).expect("a signal can be sent to a child");
        let mut ended = None;
        wait_until("it ends", LINE_TIME_MAX, || {
            ended = child.try_wait().expect("it can be asked");
            ended.is_some()
        });
        assert_eq!(ended.and_then(|status| status.code()), Some(130), "{format}");
        drop(out);
    }
    weir.stop();
}

/// A weir that sends one row, and the rest of the answer when it is told so.
#[test]
fn rows_are_written_as_they_come() {
    for (format, first) in [("jsonl", "{\"a\":1}\n"), ("csv", "a\r\n")] {
        for whole in [true, false] {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            let url = format!("http://{}", listener.local_addr().expect("an address"));
            let mut command = Command::new(binary());
            command.args(["query", "--url", &url, "--format", format, "RETURN 1 AS a"]);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir query starts");
            let (mut connection, _) = listener.accept().expect("a connection");
            assert!(connection.read(&mut [0; 8192]).expect("a request") > 0);
            let part = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
            let begin = part("{\"columns\":[\"a\"],\"results\":[[1],[2");
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            connection.write_all(format!("{head}{begin}").as_bytes()).expect("an answer");
            let mut out = BufReader::new(child.stdout.take().expect("a pipe"));
            let (sender, receiver) = sync_channel(1);
            std::thread::spawn(move || {
                let mut line = String::new();
                out.read_line(&mut line).expect("a line");
                sender.send((line, out))
            });
            let (line, mut out) = receiver.recv_timeout(LINE_TIME_MAX).expect("the first row comes before the last");
            assert_eq!(line, first);
            if whole {
                connection.write_all((part("]]}") + "0\r\n\r\n").as_bytes()).expect("an answer");
            }
            drop((connection, listener));
            let mut rest = String::new();
            out.read_to_string(&mut rest).expect("UTF-8");
            let ended = child.wait_with_output().expect("weir query ends");
            let error = String::from_utf8_lossy(&ended.stderr);
            assert_eq!(rest.contains('2'), whole, "{rest}");
            assert_eq!(ended.status.code(), Some(if whole { 0 } else { 3 }), "{error}");
            assert_eq!(error.contains("broke off"), !whole, "{error}");
        }
    }
}
