//! Posting, against a small server that answers as it is told.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    Delivery, DestinationContext, FilePolicy, Generation, HostPolicy, OnRefused, Outgoing, Retries, parse_destination_v1,
};

/// One request: the head in lower case, and the body.
pub type Request = (String, String);

/// None when the client has gone, or sends none.
pub fn next_request(reader: &mut impl BufRead) -> Option<Request> {
    let (mut head, mut line) = (String::new(), String::new());
    while reader.read_line(&mut line).is_ok_and(|count| count > 2) {
        head.push_str(&line.to_lowercase());
        line.clear();
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok())?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Some((head, String::from_utf8(body).unwrap()))
}

#[derive(Clone, Default)]
struct Server {
    requests: Arc<Mutex<Vec<Request>>>,
    /// Statuses to answer with, the last one for ever; 0 cuts the connection.
    statuses: Arc<Mutex<Vec<u16>>>,
    /// What is refused whatever the statuses are, each as often as it is here.
    refused: Arc<Mutex<Vec<&'static str>>>,
    /// Headers of each answer.
    more: &'static str,
    port: u16,
}

impl Server {
    fn start(statuses: &[u16]) -> Server {
        Server::start_saying(statuses, "")
    }

    fn start_saying(statuses: &[u16], more: &'static str) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = Server { statuses: Arc::new(Mutex::new(statuses.to_vec())), more, port, ..Server::default() };
        let serving = server.clone();
        thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let serving = serving.clone();
                thread::spawn(move || serving.serve(connection));
            }
        });
        server
    }

    fn serve(&self, connection: TcpStream) {
        let mut reader = BufReader::new(connection.try_clone().unwrap());
        let mut writer = connection;
        while let Some((head, body)) = next_request(&mut reader) {
            let refused = {
                let mut refused = self.refused.lock().unwrap();
                refused.iter().position(|refused| *refused == body).map(|place| refused.remove(place)).is_some()
            };
            self.requests.lock().unwrap().push((head, body));
            let status = {
                let mut statuses = self.statuses.lock().unwrap();
                if refused {
                    400
                } else if statuses.len() > 1 {
                    statuses.remove(0)
                } else {
                    statuses[0]
                }
            };
            if status == 0 {
                return;
            }
            let more = self.more;
            if write!(writer, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\nLocation: /elsewhere\r\n{more}\r\n").is_err() {
                return;
            }
        }
    }

    fn bodies(&self) -> Vec<String> {
        self.requests.lock().unwrap().iter().map(|(_, body)| body.clone()).collect()
    }

    /// Posts the results and returns (delivered, failed) when there is nothing left to do.
    fn deliver(&self, more: serde_json::Value, count: usize) -> (u64, u64) {
        self.deliver_or(OnRefused::GiveUp, Retries::default(), more, count)
    }

    fn deliver_or(&self, on_refused: OnRefused, retries: Retries, more: serde_json::Value, count: usize) -> (u64, u64) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut definition = json!({"type": "PostToEndpoint", "url": format!("http://127.0.0.1:{}/hook?a=1", self.port)});
        definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let context = DestinationContext {
            output: "out".to_owned(),
            identity: "query-out".to_owned(),
            generation: Generation::V1,
            runtime: runtime.handle().clone(),
            hosts: HostPolicy::default(),
            files: FilePolicy::default(),
        };
        let destination = parse_destination_v1(&definition).unwrap().open(&context, None).unwrap();
        let delivery = Delivery::start("out", destination, on_refused, retries, Box::new(|_, _| {}));
        let results =
            (0..count).map(|n| Outgoing { body: n.to_string().into_bytes(), positive: true, mark: 0, id: None }).collect();
        delivery.send(results, 1).unwrap();
        let begun = Instant::now();
        while delivery.counters().waiting.load(Ordering::Relaxed) > 0 {
            assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", delivery.counters());
            thread::sleep(Duration::from_millis(1));
        }
        (delivery.counters().delivered.load(Ordering::Relaxed), delivery.counters().failed.load(Ordering::Relaxed))
    }
}

#[test]
fn one_result_a_request_with_the_headers_asked_for() {
    let server = Server::start(&[200]);
    let delivered = server.deliver(json!({"parallelism": 1, "headers": {"X-Test": "secret", "Authorization": "Bearer t"}}), 50);
    assert_eq!(delivered, (50, 0));
    assert_eq!(server.bodies(), (0..50).map(|n| n.to_string()).collect::<Vec<_>>());
    let (head, _) = &server.requests.lock().unwrap()[0];
    assert!(head.starts_with("post /hook?a=1 http/1.1\r\n"), "{head}");
    for expected in ["content-type: application/json\r\n", "x-test: secret\r\n", "authorization: bearer t\r\n"] {
        assert!(head.contains(expected), "{expected} is missing in {head}");
    }
}

#[test]
fn several_requests_at_a_time_lose_nothing() {
    let server = Server::start(&[204]);
    assert_eq!(server.deliver(json!({}), 500), (500, 0));
    let mut bodies: Vec<usize> = server.bodies().iter().map(|body| body.parse().unwrap()).collect();
    bodies.sort_unstable();
    assert!(bodies.into_iter().eq(0..500));
}

#[test]
fn what_the_server_cannot_take_now_comes_again_in_order() {
    let server = Server::start(&[200, 503, 429, 0, 200]);
    assert_eq!(server.deliver(json!({"parallelism": 1}), 3), (3, 0));
    let mut bodies = server.bodies();
    bodies.dedup();
    assert_eq!(bodies, ["0", "1", "2"]);
    assert_eq!(server.bodies().len(), 6);
}

#[test]
fn a_server_is_left_alone_for_as_long_as_it_asks_for() {
    let server = Server::start_saying(&[429, 503, 200], "Retry-After: 1\r\n");
    let begun = Instant::now();
    assert_eq!(server.deliver(json!({}), 1), (1, 0));
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(server.bodies(), ["0", "0", "0"]);
}

#[test]
fn each_result_has_tries_of_its_own() {
    // Each second request fails: never one result more than once, but more requests than one result has tries.
    let server = Server::start(&[503, 200].repeat(15));
    assert_eq!(server.deliver(json!({"parallelism": 1}), 15), (15, 0));
    let server = Server::start(&[500, 500, 500, 500, 500, 500, 200]);
    assert_eq!(server.deliver(json!({"parallelism": 1}), 3), (2, 1));
    assert_eq!(server.bodies(), ["0", "0", "0", "0", "0", "0", "1", "2"]);
}

#[test]
fn how_often_and_how_soon_it_is_tried_can_be_said() {
    let deliver = |server: &Server, policy: serde_json::Value, count: usize| {
        let retries = crate::config::from_json(&policy).unwrap();
        server.deliver_or(OnRefused::GiveUp, retries, json!({"parallelism": 1}), count)
    };
    let server = Server::start(&[500, 500, 200]);
    assert_eq!(deliver(&server, json!({"maxTries": 2, "minBackoffMillis": 10}), 2), (1, 1));
    assert_eq!(server.bodies(), ["0", "0", "1"]);
    // More often than it is tried where nothing is said.
    let server = Server::start(&[500, 500, 500, 500, 500, 500, 500, 500, 200]);
    assert_eq!(deliver(&server, json!({"maxTries": 0, "minBackoffMillis": 10, "maxBackoffMillis": 10}), 2), (2, 0));
    assert_eq!(server.bodies().len(), 10);
    let server = Server::start(&[500, 200]);
    let begun = Instant::now();
    assert_eq!(deliver(&server, json!({"minBackoffMillis": 4000}), 1), (1, 0));
    assert!(begun.elapsed() >= Duration::from_secs(2), "{:?}", begun.elapsed());
}

#[test]
fn what_the_server_refuses_is_counted_and_not_repeated() {
    let server = Server::start(&[200, 404, 302, 200]);
    assert_eq!(server.deliver(json!({"parallelism": 1}), 4), (2, 2));
    assert_eq!(server.bodies(), ["0", "1", "2", "3"]);
}

#[test]
fn what_is_refused_and_tried_again_is_not_overtaken() {
    let server = Server::start(&[200]);
    *server.refused.lock().unwrap() = vec!["1", "1", "3"];
    assert_eq!(server.deliver_or(OnRefused::Retry, Retries::default(), json!({"parallelism": 1}), 5), (5, 0));
    assert_eq!(server.bodies(), ["0", "1", "1", "1", "2", "3", "3", "4"]);
    // Side by side: what was under way with it may be there before, and no other.
    let server = Server::start(&[200]);
    *server.refused.lock().unwrap() = vec!["0"; 3];
    assert_eq!(server.deliver_or(OnRefused::Retry, Retries::default(), json!({"parallelism": 2}), 40), (40, 0));
    let bodies = server.bodies();
    assert_eq!(bodies.len(), 43);
    let last = bodies.iter().rposition(|body| body == "0").unwrap();
    // One other with the first of its four tries.
    assert!(last <= 4, "{bodies:?}");
}

#[test]
fn what_stands_behind_a_refusal_that_ends_the_output_is_not_sent() {
    let server = Server::start(&[200, 200, 404, 200]);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let definition = json!({"type": "PostToEndpoint", "url": format!("http://127.0.0.1:{}/", server.port), "parallelism": 1});
    let context = crate::conformance::output(&runtime);
    let destination = parse_destination_v1(&definition).unwrap().open(&context, None).unwrap();
    let marks = Arc::new(Mutex::new(Vec::new()));
    let told = marks.clone();
    let delivered = Box::new(move |mark, _| told.lock().unwrap().push(mark));
    let delivery = Delivery::start("out", destination, OnRefused::End, Retries::default(), delivered);
    let results = (0..5).map(|n: u64| Outgoing { body: n.to_string().into_bytes(), positive: true, mark: n, id: None }).collect();
    // It may have ended by the time this returns.
    let _ = delivery.send(results, 5);
    let begun = Instant::now();
    while delivery.failure().is_none() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", delivery.counters());
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(server.bodies(), ["0", "1", "2"]);
    // What was refused is the first that comes again.
    assert_eq!(*marks.lock().unwrap(), [2]);
    assert_eq!(delivery.counters().delivered.load(Ordering::Relaxed), 2);
}

#[test]
fn an_output_that_ends_makes_no_further_request() {
    for parallelism in [1, 4] {
        let server = Server::start(&[200]);
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let context = crate::conformance::output(&runtime);
        let definition =
            json!({"type": "PostToEndpoint", "url": format!("http://127.0.0.1:{}/", server.port), "parallelism": parallelism});
        let mut poster = parse_destination_v1(&definition).unwrap().open(&context, None).unwrap();
        let stop = Arc::default();
        poster.ends_by(&stop);
        let results = vec![Outgoing { body: b"1".to_vec(), positive: true, mark: 0, id: None }; 20];
        assert!(poster.write(&results, 1).unwrap().left.is_empty());
        stop.store(true, Ordering::Relaxed);
        assert_eq!(poster.write(&results, 1).unwrap().left, (0..20).collect::<Vec<_>>());
        assert_eq!(server.bodies().len(), 20);
    }
}

#[test]
fn a_broken_server_does_not_hold_results_for_ever() {
    let server = Server::start(&[500]);
    let begun = Instant::now();
    assert_eq!(server.deliver(json!({}), 3), (0, 3));
    assert_eq!(server.bodies().len(), 18);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}
