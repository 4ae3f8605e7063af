//! The source against a server in this process, which speaks the protocol by tungstenite or breaks it by hand.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use serde_json::json;
use tokio_tungstenite::tungstenite::WebSocket;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;

use super::*;
use crate::conformance::{Run, anything, run};
use crate::frames::{Frames, Limits, Progress};

type Talk = Box<dyn FnOnce(&mut TcpStream) + Send>;

/// Answers connection after connection; `talk` begins behind the head of the answer.
fn server(talks: Vec<Talk>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/live", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        for talk in talks {
            let (mut stream, _) = listener.accept().unwrap();
            let head = head(&mut stream);
            let key = head.lines().find_map(|line| line.strip_prefix("sec-websocket-key: ")).unwrap();
            let accept = derive_accept_key(key.as_bytes());
            let answer =
                format!("HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
            stream.write_all(answer.as_bytes()).unwrap();
            talk(&mut stream);
        }
    });
    (url, answering)
}

fn head(stream: &mut TcpStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|n| n > 0) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn speaks(talk: impl FnOnce(&mut WebSocket<&mut TcpStream>) + Send + 'static) -> Talk {
    Box::new(|stream| talk(&mut WebSocket::from_raw_socket(stream, Role::Server, None)))
}

fn close(socket: &mut WebSocket<&mut TcpStream>, code: CloseCode) {
    socket.close(Some(CloseFrame { code, reason: "so".into() })).unwrap();
    while socket.read().is_ok() {}
}

fn source(url: &str, more: Json) -> Box<dyn SourceConfig> {
    let mut definition = json!({"type": "WebsocketSimpleStartupIngest", "url": url, "keepAlive": {"type": "NoKeepalive"},
        "format": {"type": "CypherJson", "query": "RETURN 1"}});
    definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    crate::parse_source_v1(&definition).unwrap()
}

fn read(url: &str, more: Json) -> Result<Run, ConnectorError> {
    run(&*source(url, more), None, &Limits { wait_max: Duration::from_secs(30), ..Limits::default() })
}

#[test]
fn messages_are_records_and_a_broken_connection_is_made_anew() {
    let (url, answering) = server(vec![
        speaks(|socket| {
            assert_eq!(socket.read().unwrap(), Message::text("subscribe"));
            assert_eq!(socket.read().unwrap(), Message::text("all"));
            socket.send(Message::text("{\"n\":1}")).unwrap();
            socket.send(Message::binary(b"\"caf\xe9\"".to_vec())).unwrap();
            socket.send(Message::text("no JSON")).unwrap();
            // Half a message, and gone.
            socket.get_mut().write_all(&[0x01, 0x03, b'[', b'1', b',', 0x80, 0x05, b'2']).unwrap();
        }),
        speaks(|socket| {
            assert_eq!(socket.read().unwrap(), Message::text("subscribe"));
            close(socket, CloseCode::Restart);
        }),
        // One message in three frames, with a ping between.
        speaks(|socket| {
            let frames = [&[0x01, 3, b'[', b'1', b','][..], &[0x89, 0], &[0x00, 1, b'2'], &[0x80, 1, b']']].concat();
            socket.get_mut().write_all(&frames).unwrap();
            close(socket, CloseCode::Normal);
        }),
    ]);
    let run = read(&url, json!({"initMessages": ["subscribe", "all"], "encoding": "ISO-8859-1"})).unwrap();
    assert_eq!(run.records, ["{ n: 1 }", "\"caf\\u00E9\"", "[ 1, 2 ]"]);
    assert_eq!(run.failures.len(), 1);
    assert!(run.finished);
    answering.join().unwrap();
}

#[test]
fn a_server_that_says_something_and_closes_is_asked_ever_less_often() {
    let greets = || {
        speaks(|socket| {
            socket.send(Message::text("1")).unwrap();
            close(socket, CloseCode::Error);
        })
    };
    let mut talks: Vec<Talk> = (0..4).map(|_| greets()).collect();
    talks.push(speaks(|socket| {
        socket.send(Message::text("2")).unwrap();
        // Until nobody listens any more.
        while socket.read().is_ok() {}
    }));
    let (url, answering) = server(talks);
    let begun = std::time::Instant::now();
    let mut stream = source(&url, json!({})).open(&anything(), None).unwrap();
    let limits = Limits { wait_max: Duration::from_secs(10), ..Limits::default() };
    let (mut frames, mut records) = (Frames::default(), Vec::<Vec<u8>>::new());
    while records.last().is_none_or(|last| last.as_slice() != b"2") {
        frames.clear();
        assert_eq!(stream.next(&limits, &mut frames).unwrap(), Progress::More);
        records.extend((0..frames.len()).map(|index| frames.get(index).bytes.to_vec()));
        assert!(begun.elapsed() < Duration::from_secs(60), "{records:?}");
    }
    assert_eq!(records.len(), 5);
    // Half of 200, 400, 800 and 1600 ms at least; four times 200 ms at most, where what was said counts as work.
    assert!(begun.elapsed() >= Duration::from_millis(1500), "{:?}", begun.elapsed());
    let trouble = stream.trouble();
    assert!(trouble.as_ref().is_some_and(|trouble| trouble.contains("closed the socket")), "{trouble:?}");
    drop(stream);
    answering.join().unwrap();
}

#[test]
fn a_connection_is_kept_with_pings_or_texts_and_a_dead_one_is_given_up() {
    // One that does not answer some of them, as its machine stands still, is taken for dead.
    let ping = json!({"keepAlive": {"type": "PingPongInterval", "intervalMillis": 400}});
    let (url, answering) = server(vec![
        // Says nothing, takes everything: half open.
        Box::new(|stream| {
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            assert!(all.windows(2).filter(|frame| *frame == [0x89, 0x80]).count() >= 3, "{all:?}");
        }),
        speaks(|socket| {
            // Answers pings for long enough.
            for _ in 0..6 {
                assert!(matches!(socket.read().unwrap(), Message::Ping(_)));
                socket.flush().unwrap();
            }
            close(socket, CloseCode::Normal);
        }),
    ]);
    assert!(read(&url, ping).unwrap().finished);
    answering.join().unwrap();

    let text = json!({"keepAlive": {"type": "SendMessageInterval", "message": "still here", "intervalMillis": 20}});
    let (url, answering) = server(vec![speaks(|socket| {
        for _ in 0..3 {
            assert_eq!(socket.read().unwrap(), Message::text("still here"));
        }
        close(socket, CloseCode::Normal);
    })]);
    assert!(read(&url, text).unwrap().finished);
    answering.join().unwrap();
}

#[test]
fn what_is_too_long_or_no_web_socket_ends_the_source_with_the_reason() {
    let problem = |talks: Vec<Talk>| {
        let (url, answering) = server(talks);
        let problem = read(&url, json!({})).err().unwrap().to_string();
        answering.join().unwrap();
        problem
    };
    // A frame that says it has 2 EiB.
    let huge = |stream: &mut TcpStream| stream.write_all(&[0x82, 127, 0x20, 0, 0, 0, 0, 0, 0, 0, b'x']).unwrap();
    assert!(problem(vec![Box::new(huge)]).contains("a message has more than 16777216 bytes"));
    // Ever more frames of one message.
    let endless = |stream: &mut TcpStream| {
        let frame = [&[0x00, 127, 0, 0, 0, 0, 0, 0x10, 0, 0][..], &vec![b'x'; 1 << 20]].concat();
        stream.write_all(&[0x02, 0]).unwrap();
        while stream.write_all(&frame).is_ok() {}
    };
    assert!(problem(vec![Box::new(endless)]).contains("a message has more than 16777216 bytes"));

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("ws://{}/live", listener.local_addr().unwrap());
    let answering = thread::spawn(move || {
        for status in ["403 Forbidden", "200 OK", "101 Go"] {
            let (mut stream, _) = listener.accept().unwrap();
            head(&mut stream);
            let more = "Content-Length: 0\r\nConnection: close";
            let _ = stream.write_all(format!("HTTP/1.1 {status}\r\n{more}\r\n\r\n").as_bytes());
        }
    });
    let refused = || read(&url, json!({})).err().unwrap().to_string();
    assert!(refused().contains("the server answered 403 Forbidden"));
    assert!(refused().contains("does not speak the protocol of web sockets"));
    assert!(refused().contains("does not speak the protocol of web sockets"));
    answering.join().unwrap();
}

#[test]
fn frames_that_break_the_protocol_end_the_connection_only() {
    let bad: [&[u8]; 4] = [&[0xff, 0], &[0x81, 2, 0xc3, 0x28], &[0x80, 1, b'x'], &[0x88, 1, 0]];
    let mut talks: Vec<Talk> = bad
        .iter()
        .map(|bytes| {
            Box::new(|stream: &mut TcpStream| {
                stream.write_all(bytes).unwrap();
                let _ = stream.read_to_end(&mut Vec::new());
            }) as Talk
        })
        .collect();
    talks.push(speaks(|socket| {
        socket.send(Message::text("1")).unwrap();
        close(socket, CloseCode::Normal);
    }));
    let (url, answering) = server(talks);
    assert_eq!(read(&url, json!({})).unwrap().records, ["1"]);
    answering.join().unwrap();
}

#[test]
fn definitions_are_checked() {
    let refused = |more: Json| {
        let mut definition = json!({"type": "WebsocketSimpleStartupIngest", "url": "ws://h/"});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let checked = crate::parse_source_v1(&definition).and_then(|config| config.check(&crate::conformance::anything()));
        checked.unwrap_err().to_string()
    };
    assert!(refused(json!({"url": "http://h/"})).contains("the URL must begin with ws:// or wss://"));
    assert!(refused(json!({"url": "ws://u:geheim@:x"})).contains("option `url`"));
    assert_eq!(refused(json!({"keepAlive": {"type": "Nope"}})), "No decoder for discriminator 'Nope'!");
    assert!(refused(json!({"keepAlive": {"type": "SendMessageInterval"}})).contains("option `message`"));
    assert!(refused(json!({"keepAlive": {"type": "PingPongInterval", "intervalMillis": 0}})).contains("intervalMillis"));
    assert!(refused(json!({"encoding": "klingon"})).contains("klingon"));
}

#[test]
fn a_message_that_waits_for_room_outlives_its_connection() {
    const WAITING: usize = 10_000;
    let (url, answering) = server(vec![
        speaks(|socket| {
            (0..WAITING + 100).for_each(|n| socket.write(Message::text(n.to_string())).unwrap());
            socket.flush().unwrap();
            thread::sleep(Duration::from_secs(1));
        }),
        speaks(|socket| close(socket, CloseCode::Normal)),
    ]);
    let alive = json!({"keepAlive": {"type": "SendMessageInterval", "message": "still here", "intervalMillis": 20}});
    let mut stream = source(&url, alive).open(&anything(), None).unwrap();
    // Nobody takes anything before it is noticed that the connection is gone.
    thread::sleep(Duration::from_secs(4));
    let (limits, mut frames, mut count) =
        (Limits { wait_max: Duration::from_secs(10), ..Limits::default() }, Frames::default(), 0);
    let mut ended = false;
    while !ended {
        ended = stream.next(&limits, &mut frames).unwrap() == Progress::Finished;
        count += frames.len();
    }
    assert_eq!(count, WAITING + 1);
    answering.join().unwrap();
}
