//! The language server over real web sockets: the protocol as editors speak it.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::socket::Socket;

/// Longer than names are kept.
const PATIENCE: Duration = Duration::from_secs(60);

fn weir() -> Weir {
    Home::new().start(&["-Dweir.store.type=in-memory", "-Dweir.workers=1"])
}

/// An editor that has one text open.
struct Editor {
    socket: Socket,
    id: i64,
}

impl Editor {
    fn start(weir: &Weir, path: &str) -> Editor {
        let mut editor = Editor { socket: Socket::open(weir, path).expect("a socket"), id: 0 };
        let capabilities = editor.ask("initialize", json!({"processId": null, "capabilities": {}}))["capabilities"].clone();
        assert_eq!(capabilities["textDocumentSync"], 2);
        assert_eq!(capabilities["hoverProvider"], true);
        assert_eq!(capabilities["completionProvider"]["triggerCharacters"], json!([".", " "]));
        let legend = &capabilities["semanticTokensProvider"]["legend"];
        assert_eq!((legend["tokenTypes"].as_array().map(Vec::len), &legend["tokenTypes"][21]), (Some(22), &json!("EdgeLabel")));
        editor.tell("initialized", json!({}));
        editor
    }

    fn answer(&mut self, method: &str, params: Json) -> Json {
        self.id += 1;
        self.socket.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).to_string());
        let answer = self.socket.expect();
        assert_eq!((&answer["id"], &answer["jsonrpc"]), (&json!(self.id), &json!("2.0")), "{answer}");
        answer
    }

    fn ask(&mut self, method: &str, params: Json) -> Json {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    fn refused(&mut self, method: &str, params: Json, code: i64) {
        assert_eq!(self.answer(method, params)["error"]["code"], code, "{method}");
    }

    fn tell(&mut self, method: &str, params: Json) {
        self.socket.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    fn open(&mut self, text: &str) {
        let document = json!({"uri": "file:///a.cypher", "languageId": "cypher", "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// Of the open text, at a place.
    fn about(&mut self, method: &str, line: usize, character: usize) -> Json {
        self.ask(method, json!({"textDocument": {"uri": "file:///a.cypher"}, "position": {"line": line, "character": character}}))
    }

    fn problems(&mut self) -> Vec<String> {
        let answer = self.about("textDocument/diagnostic", 0, 0);
        assert_eq!(answer["kind"], "full");
        let shown = |item: &Json| {
            let place = |end: &str| format!("{}:{}", item["range"][end]["line"], item["range"][end]["character"]);
            format!("{}-{} {}", place("start"), place("end"), item["message"].as_str().unwrap_or_default())
        };
        answer["items"].as_array().expect("items").iter().map(shown).collect()
    }

    /// The labels that are proposed, with their kinds.
    fn proposed(&mut self, line: usize, character: usize) -> Vec<(String, i64)> {
        let answer = self.about("textDocument/completion", line, character);
        let item = |item: &Json| {
            assert!(item["textEdit"]["range"]["end"]["character"] == json!(character), "{item}");
            (item["label"].as_str().expect("a label").to_owned(), item["kind"].as_i64().expect("a kind"))
        };
        answer["items"].as_array().expect("items").iter().map(item).collect()
    }
}

#[test]
fn a_text_is_followed_as_it_is_written() {
    let weir = weir();
    let mut editor = Editor::start(&weir, "/api/v2/lsp");
    editor.open("MATCH (n) RETURN m");
    assert_eq!(editor.problems(), ["0:17-0:18 Variable `m` not defined"]);
    let change = |text: &str, from: (usize, usize), to: (usize, usize)| {
        let place = |(line, character): (usize, usize)| json!({"line": line, "character": character});
        json!({"textDocument": {"uri": "file:///a.cypher", "version": 2},
            "contentChanges": [{"range": {"start": place(from), "end": place(to)}, "text": text}]})
    };
    editor.tell("textDocument/didChange", change("n", (0, 17), (0, 18)));
    assert_eq!(editor.problems(), Vec::<String>::new());
    assert_eq!(editor.about("quine/queryKind", 0, 0), json!({"kind": "node"}));
    // Two errors, on two lines, behind characters that are two units of UTF-16.
    editor.tell("textDocument/didChange", change("'🌈' AS x,\n nosuch(", (0, 17), (0, 17)));
    editor.tell("textDocument/didChange", change(")", (1, 9), (1, 9)));
    assert_eq!(editor.problems(), ["1:1-1:10 Failed to resolve function `nosuch`"], "the rainbow is two units");
    editor.tell(
        "textDocument/didChange",
        json!({"textDocument": {"uri": "file:///a.cypher"}, "contentChanges": [{"text": "  \n// nothing\n"}]}),
    );
    assert_eq!(editor.problems(), Vec::<String>::new());
    editor.tell("textDocument/didClose", json!({"textDocument": {"uri": "file:///a.cypher"}}));
    editor.refused("textDocument/diagnostic", json!({"textDocument": {"uri": "file:///a.cypher"}}), -32602);
}

#[test]
fn what_could_stand_at_a_place_is_proposed() {
    let weir = weir();
    weir.rows("MATCH (a), (b) WHERE id(a) = idFrom('l', 1) AND id(b) = idFrom('l', 2) SET a:Person, a.name = 'Ann', a.nick = 'A' CREATE (a)-[:PERSUADES]->(b)");
    let mut editor = Editor::start(&weir, "/api/v2/lsp");
    let text = "MATCH (person)-[r:Per]->(m) WHERE person.n RETURN pe, $parameter, coll.m, $p";
    editor.open(text);
    let after = |what: &str| text.find(what).expect(what) + what.len();
    let one = |name: &str, kind: i64| vec![(name.to_owned(), kind)];
    // The graph is asked for its names for a moment only. Where a busy machine does not answer in that, it is asked again later.
    let mut wait = |character: usize, expected: [Vec<(String, i64)>; 2]| {
        let expected = expected.concat();
        wait_until(&format!("{expected:?} are proposed"), PATIENCE, || editor.proposed(0, character) == expected);
    };
    wait(after(":Per"), [one("Person", 7), one("PERSUADES", 7)]);
    wait(after("person.n"), [one("name", 10), one("nick", 10)]);
    let found = editor.proposed(0, after("RETURN pe"));
    assert_eq!(found[0], ("person".to_owned(), 6), "{found:?}");
    assert!(found.contains(&("percentileCont".to_owned(), 3)), "{found:?}");
    let functions = editor.proposed(0, after("coll.m"));
    assert!(
        functions.contains(&("coll.max".to_owned(), 3)) && functions.iter().all(|(name, _)| name.starts_with("coll.m")),
        "{functions:?}"
    );
    assert_eq!(editor.proposed(0, text.len()), [one("parameter", 6), one("p", 6)].concat());
    editor.open("CALL rec");
    assert_eq!(editor.proposed(0, 8), [one("recentNodeIds", 2), one("recentNodes", 2)].concat());
    editor.open("MATCH (n) ret");
    assert_eq!(editor.proposed(0, 13), one("RETURN", 14));
    // After a blank anything goes.
    editor.open("MATCH (thing) ");
    let all = editor.proposed(0, 14);
    for wanted in [("thing", 6), ("WHERE", 14), ("idFrom", 3)] {
        assert!(all.contains(&(wanted.0.to_owned(), wanted.1)), "{wanted:?}");
    }
}

#[test]
fn names_are_explained_and_words_are_coloured() {
    let weir = weir();
    let mut editor = Editor::start(&weir, "/api/v1/lsp");
    editor.open("MATCH (n:Person) WHERE id(n) = idFrom('x')\nRETURN n.name, '🌈', 1.5");
    let hover = editor.about("textDocument/hover", 0, 33);
    let value = hover["contents"]["value"].as_str().expect("markdown");
    assert!(hover["contents"]["kind"] == "markdown" && value.contains("idFrom("), "{hover}");
    assert_eq!(hover["range"], json!({"start": {"line": 0, "character": 31}, "end": {"line": 0, "character": 37}}));
    assert!(
        editor.about("textDocument/hover", 1, 2)["contents"]["value"].as_str().is_some_and(|text| text.contains("**RETURN**"))
    );
    assert_eq!(editor.about("textDocument/hover", 0, 7), Json::Null, "a variable");
    assert_eq!(editor.about("textDocument/hover", 99, 99), Json::Null);
    let tokens = editor.about("textDocument/semanticTokens/full", 0, 0);
    // MATCH n Person WHERE id n idFrom 'x' RETURN n name '🌈' 1.5: lines and units since the word before, length, class.
    let expected = [
        [0, 0, 5, 0, 0],
        [0, 7, 1, 10, 0],
        [0, 2, 6, 9, 0],
        [0, 8, 5, 3, 0],
        [0, 6, 2, 13, 0],
        [0, 3, 1, 10, 0],
        [0, 5, 6, 13, 0],
        [0, 7, 3, 15, 0],
        [1, 0, 6, 1, 0],
        [0, 7, 1, 10, 0],
        [0, 2, 4, 20, 0],
        [0, 6, 4, 15, 0],
        [0, 6, 3, 19, 0],
    ];
    assert_eq!(tokens["data"], json!(expected.concat()));
    for (text, kind) in
        [("CREATE (n)", "sideEffects"), ("RETURN 1", "table"), ("RETURN", "unknown"), ("MATCH (n) RETURN n", "node")]
    {
        editor.open(text);
        assert_eq!(editor.about("quine/queryKind", 0, 0)["kind"], kind, "{text}");
    }
}

#[test]
fn what_is_no_message_is_answered_and_nothing_ends() {
    let weir = weir();
    let mut socket = Socket::open(&weir, "/api/v2/lsp").expect("a socket");
    let code = |socket: &mut Socket, text: &str| {
        socket.send(text);
        socket.expect()["error"]["code"].as_i64()
    };
    assert_eq!(code(&mut socket, "{"), Some(-32700));
    assert_eq!(code(&mut socket, "[]"), Some(-32600));
    assert_eq!(code(&mut socket, "{\"id\": 1}"), Some(-32600));
    assert_eq!(code(&mut socket, r#"{"id": 1, "method": "textDocument/hover"}"#), Some(-32002));
    drop(socket);
    let mut editor = Editor::start(&weir, "/api/v2/lsp");
    editor.refused("initialize", json!({}), -32600);
    editor.refused("textDocument/rename", json!({}), -32601);
    editor.refused("textDocument/hover", json!({}), -32602);
    editor.open("RETURN 1");
    editor.refused("textDocument/hover", json!({"textDocument": {"uri": "file:///a.cypher"}}), -32602);
    editor.refused(
        "textDocument/hover",
        json!({"textDocument": {"uri": "file:///a.cypher"}, "position": {"line": -1, "character": 0}}),
        -32602,
    );
    // Told nonsense: no answer, and the text is gone where it cannot be followed any more.
    editor.tell("textDocument/didChange", json!({"textDocument": {"uri": "file:///a.cypher"}, "contentChanges": 1}));
    editor.tell("$/setTrace", json!({"value": "off"}));
    editor.refused("textDocument/diagnostic", json!({"textDocument": {"uri": "file:///a.cypher"}}), -32602);
    for number in 0..65 {
        let document = json!({"uri": format!("file:///{number}.cypher"), "text": "RETURN 1"});
        editor.tell("textDocument/didOpen", json!({"textDocument": document}));
    }
    editor.refused("textDocument/diagnostic", json!({"textDocument": {"uri": "file:///64.cypher"}}), -32602);
    assert_eq!(editor.ask("shutdown", Json::Null), Json::Null);
    editor.refused("textDocument/diagnostic", json!({"textDocument": {"uri": "file:///0.cypher"}}), -32600);
    editor.tell("exit", Json::Null);
    assert!(editor.socket.message().is_none(), "the socket is closed");
    // A message may be binary too.
    let mut socket = Socket::open(&weir, "/api/v2/lsp").expect("a socket");
    socket.send_binary(br#"{"jsonrpc": "2.0", "id": "a", "method": "initialize"}"#);
    assert_eq!(socket.expect()["id"], "a");
    weir.get("/api/v2/lsp").expect(400);
    assert!(Socket::open(&weir, "/api/v2/lsp?namespace=nosuch").is_err());
}
