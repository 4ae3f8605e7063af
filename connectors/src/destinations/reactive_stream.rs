//! A reactive stream: a TCP server, and each client gets every result from the moment it connects, behind its length.
//!
//! At most once: what a client has not read when it goes, and what comes while there is none, is gone. The slowest client
//! holds back the others, and in the end the graph.

use std::io::{Error, ErrorKind};
use std::net::{TcpListener as StdListener, ToSocketAddrs};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinSet};
use weir_model::Position;
use weir_model::lock::lock;

use crate::config;
use crate::delivery::{Outgoing, RetryPolicy};
use crate::destination::{Destination, DestinationConfig, DestinationContext, Written};
use crate::error::{ConnectorError, Fault};
use crate::length_prefix::{RECORD_BYTES_MAX, framed};
use crate::output_format::OutputFormat;
use crate::tcp;

/// Results that wait for one client.
const WAITING_MAX: usize = 256;

/// More clients are sent away.
const CLIENTS_MAX: usize = 256;

/// How long one call waits for the slowest client before it says that it does.
const WRITE_TIME_MAX: Duration = Duration::from_secs(1);

/// For clients to take what waits for them when the output ends.
const CLOSE_TIME_MAX: Duration = Duration::from_millis(500);

/// Opens a TCP port and sends each result to every client that is connected.
///
/// Each result arrives at most once: a client gets the results from its connection on. The slowest client holds back the others.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReactiveStream {
    /// The address to listen on. `localhost` when not given.
    #[serde(default = "localhost")]
    pub address: String,
    /// The TCP port to listen on.
    #[serde(deserialize_with = "config::port")]
    pub port: u16,
    /// How a result is written: as JSON, or by a Protobuf or Avro schema. JSON when not given.
    #[serde(default)]
    pub format: OutputFormat,
}

fn localhost() -> String {
    "localhost".to_owned()
}

type Frame = Arc<[u8]>;
type Clients = Arc<Mutex<Vec<Sender<Frame>>>>;

impl DestinationConfig for ReactiveStream {
    fn settings(&self) -> Json {
        crate::settings("ReactiveStream", self)
    }

    fn format(&self) -> Option<&OutputFormat> {
        Some(&self.format)
    }

    fn open(&self, context: &DestinationContext, _from: Option<&Position>) -> Result<Box<dyn Destination>, ConnectorError> {
        Ok(Box::new(self.serve(context)?))
    }
}

impl ReactiveStream {
    fn serve(&self, context: &DestinationContext) -> Result<Server, ConnectorError> {
        let place = format!("{}:{}", self.address, self.port);
        let listener = self.listen(&place)?;
        let _within = context.runtime.enter();
        let listener = TcpListener::from_std(listener).map_err(|error| ConnectorError::io(&place, "cannot listen", error))?;
        let clients = Clients::default();
        let writers = Arc::new(Mutex::new(JoinSet::new()));
        let accepting = context.runtime.spawn(accept(listener, place.clone(), clients.clone(), writers.clone()));
        let runtime = context.runtime.clone();
        let end: &[u8] = if self.format == OutputFormat::Json { b"\n" } else { b"" };
        let accepting = accepting.abort_handle();
        Ok(Server { place, end, runtime, clients, writers, accepting, stops_at_refused: false })
    }

    /// A port that is just being let go, by an output that is deleted and made anew, is waited for.
    fn listen(&self, place: &str) -> Result<StdListener, ConnectorError> {
        let found = (self.address.as_str(), self.port).to_socket_addrs();
        let addresses: Vec<_> = found.map_err(|error| ConnectorError::io(place, "is no address", error))?.collect();
        let deadline = Instant::now() + Duration::from_millis(500);
        loop {
            match StdListener::bind(addresses.as_slice()).and_then(|listener| listener.set_nonblocking(true).map(|()| listener)) {
                Ok(listener) => return Ok(listener),
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < deadline => {
                    thread::sleep(Duration::from_millis(10));
                }
                Err(error) => {
                    return Err(ConnectorError::World {
                        place: place.to_owned(),
                        problem: format!("cannot listen: {error}"),
                        fault: Fault::User,
                        retryable: false,
                        source: Some(Box::new(error)),
                    });
                }
            }
        }
    }
}

struct Server {
    place: String,
    /// What stands behind each result: texts are lines.
    end: &'static [u8],
    runtime: Handle,
    clients: Clients,
    writers: Arc<Mutex<JoinSet<()>>>,
    accepting: AbortHandle,
    /// Nothing is sent behind what is refused.
    stops_at_refused: bool,
}

async fn accept(listener: TcpListener, place: String, clients: Clients, writers: Arc<Mutex<JoinSet<()>>>) {
    loop {
        let (stream, client) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Too many open files, say: it may pass.
                tracing::warn!("{place}: a client could not be taken: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let mut known = lock(&clients);
        known.retain(|client| !client.is_closed());
        if known.len() >= CLIENTS_MAX {
            tracing::warn!("{place}: {client} is sent away: there are {CLIENTS_MAX} clients");
            continue;
        }
        tracing::info!("{place}: {client} is connected");
        let (sender, frames) = channel(WAITING_MAX);
        known.push(sender);
        let place = place.clone();
        let mut writers = lock(&writers);
        while writers.try_join_next().is_some() {}
        writers.spawn(async move {
            match write(stream, frames).await {
                Ok(()) => {}
                Err(error) => tracing::info!("{place}: {client} is gone: {error}"),
            }
        });
    }
}

async fn write(mut stream: TcpStream, mut frames: Receiver<Frame>) -> std::io::Result<()> {
    tcp::ask_for_life(&stream)?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.split();
    let sent = async {
        while let Some(frame) = frames.recv().await {
            writer.write_all(&frame).await?;
        }
        writer.shutdown().await
    };
    // Clients say nothing; the end of what they say is their end. Nothing else would tell, as long as no result comes.
    let mut nowhere = tokio::io::sink();
    let gone = tokio::io::copy(&mut reader, &mut nowhere);
    tokio::select! {
        sent = sent => sent,
        gone = gone => Err(gone.err().unwrap_or_else(|| Error::new(ErrorKind::UnexpectedEof, "it has closed the connection"))),
    }
}

impl Destination for Server {
    fn write(&mut self, results: &[Outgoing], _upper: u64) -> Result<Written, ConnectorError> {
        let deadline = tokio::time::Instant::from_std(Instant::now() + WRITE_TIME_MAX);
        let mut clients = lock(&self.clients).clone();
        let mut written = Written::default();
        for (index, result) in results.iter().enumerate() {
            clients.retain(|client| !client.is_closed());
            if clients.is_empty() {
                break;
            }
            let length = result.body.len() + self.end.len();
            // A weir that reads it would end at a longer one.
            let fits = length <= RECORD_BYTES_MAX;
            let Some(frame) = fits.then(|| framed(&[&result.body, self.end])).flatten() else {
                let problem = format!(
                    "{}: the result has {length} bytes, and a record of a reactive stream {RECORD_BYTES_MAX} at most",
                    self.place
                );
                written.refused.push((index, problem));
                if written.holds_up(self.stops_at_refused) {
                    written.leave_untried(index + 1..results.len());
                    break;
                }
                continue;
            };
            let frame = Frame::from(frame);
            // To all or to none, so that none gets it twice.
            let room = self.runtime.block_on(async {
                let mut room = Vec::with_capacity(clients.len());
                for client in &clients {
                    match tokio::time::timeout_at(deadline, client.reserve()).await {
                        Ok(Ok(place)) => room.push(place),
                        Ok(Err(_)) => {}
                        Err(_) => return None,
                    }
                }
                Some(room)
            });
            let Some(room) = room else {
                written.left.push(index);
                written.leave_untried(index + 1..results.len());
                written.left_reason = Some(format!("{}: a client takes nothing", self.place));
                break;
            };
            room.into_iter().for_each(|place| place.send(frame.clone()));
        }
        Ok(written)
    }

    fn stops_at_refused(&mut self) {
        self.stops_at_refused = true;
    }

    fn retry(&self) -> RetryPolicy {
        RetryPolicy { tries_max: None, backoff_min: Duration::from_millis(10), backoff_max: Duration::from_millis(200) }
    }

    fn close(&mut self) -> Result<(), ConnectorError> {
        self.accepting.abort();
        lock(&self.clients).clear();
        let mut writers = std::mem::take(&mut *lock(&self.writers));
        // What is left of them then is aborted.
        let _ = self.runtime.block_on(async {
            tokio::time::timeout(CLOSE_TIME_MAX, async { while writers.join_next().await.is_some() {} }).await
        });
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream as StdStream;
    use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};

    use serde_json::json;
    use weir_model::Value;

    use super::*;
    use crate::conformance::{anything, bodies, output, runtime};
    use crate::decode::decode;
    use crate::frames::{Frames, Limits, Progress};

    /// A port nobody listens on, which no other test is given, nor a client by the system: those are higher.
    fn free_port() -> u16 {
        static NEXT: AtomicU16 = AtomicU16::new(0);
        // Of two runs of the tests at a time each begins elsewhere.
        let begin = std::process::id() as u16;
        loop {
            let port = 10_000 + begin.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 20_000;
            if StdListener::bind(("127.0.0.1", port)).is_ok() {
                return port;
            }
        }
    }

    fn server(runtime: &tokio::runtime::Runtime, port: u16) -> Box<dyn Destination> {
        let definition = json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": port, "format": {"type": "JSON"}});
        crate::parse_destination_v1(&definition).unwrap().open(&output(runtime), None).unwrap()
    }

    fn connect(port: u16, destination: &mut dyn Destination) -> StdStream {
        let mut client = StdStream::connect(("127.0.0.1", port)).unwrap();
        client.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // It is a client as soon as a result reaches it.
        let mut probe = [0; 9];
        while client.read(&mut probe).is_err() {
            destination.write(&bodies(&["null"]), 1).unwrap();
        }
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client
    }

    /// What comes up to the end of the last result. Who closes does not wait for long until all have it.
    fn up_to(client: &mut StdStream, last: &[u8]) -> Vec<u8> {
        let (mut all, mut byte) = (Vec::new(), [0]);
        while !all.ends_with(last) {
            client.read_exact(&mut byte).unwrap();
            all.push(byte[0]);
        }
        all
    }

    /// `all`, and what comes behind it up to the end, but for what `connect` sent.
    fn rest(client: &mut StdStream, mut all: Vec<u8>) -> Vec<u8> {
        client.read_to_end(&mut all).unwrap();
        let probe = [0, 0, 0, 5, b'n', b'u', b'l', b'l', b'\n'];
        while let Some(at) = all.windows(9).position(|window| window == probe) {
            all.drain(at..at + 9);
        }
        all
    }

    #[test]
    fn every_client_gets_what_comes_while_it_is_there() {
        let (runtime, port) = (runtime(), free_port());
        let mut destination = server(&runtime, port);
        destination.write(&bodies(&["0"]), 1).unwrap();
        let mut first = connect(port, &mut *destination);
        destination.write(&bodies(&["1"]), 1).unwrap();
        let mut second = connect(port, &mut *destination);
        destination.write(&bodies(&["2", "3"]), 1).unwrap();
        let again =
            crate::parse_destination_v1(&json!({"type": "ReactiveStream", "address": "127.0.0.1", "port": port})).unwrap();
        assert!(again.open(&output(&runtime), None).err().unwrap().to_string().contains("cannot listen"));
        let last = [0, 0, 0, 2, b'3', b'\n'];
        let [of_first, of_second] = [&mut first, &mut second].map(|client| up_to(client, &last));
        destination.close().unwrap();
        assert_eq!(rest(&mut first, of_first), [0, 0, 0, 2, b'1', b'\n', 0, 0, 0, 2, b'2', b'\n', 0, 0, 0, 2, b'3', b'\n']);
        assert_eq!(rest(&mut second, of_second), [0, 0, 0, 2, b'2', b'\n', 0, 0, 0, 2, b'3', b'\n']);
    }

    #[test]
    fn nothing_overtakes_a_result_that_is_too_long_where_that_comes_again() {
        let runtime = runtime();
        // With the end of its line it has one byte too many.
        let results = bodies(&["1", "2", &"x".repeat(RECORD_BYTES_MAX), "3", "4"]);
        let refused = |written: &Written| written.refused.iter().map(|(index, _)| *index).collect::<Vec<_>>();
        for stops in [true, false] {
            let port = free_port();
            let definition = json!({"address": "127.0.0.1", "port": port});
            let mut server = config::from_json::<ReactiveStream>(&definition).unwrap().serve(&output(&runtime)).unwrap();
            if stops {
                server.stops_at_refused();
            }
            let mut client = connect(port, &mut server);
            let written = server.write(&results, 1).unwrap();
            let left = if stops { vec![3, 4] } else { vec![] };
            assert_eq!((refused(&written), &written.left, &written.untried), (vec![2], &left, &left));
            if stops {
                // As often as it comes again.
                let written = server.write(&results[2..], 1).unwrap();
                assert_eq!((refused(&written), written.left, written.untried), (vec![0], vec![1, 2], vec![1, 2]));
            }
            let expected: &[&[u8]] = if stops { &[b"1", b"2"] } else { &[b"1", b"2", b"3", b"4"] };
            let expected: Vec<Vec<u8>> = expected.iter().map(|body| framed(&[*body, b"\n"]).unwrap()).collect();
            let taken = up_to(&mut client, &expected[expected.len() - 1]);
            server.close().unwrap();
            assert_eq!(rest(&mut client, taken), expected.concat());
        }
    }

    #[test]
    fn a_slow_client_holds_results_back_and_one_that_goes_lets_them_pass() {
        let (runtime, port) = (runtime(), free_port());
        let mut destination = server(&runtime, port);
        let slow = connect(port, &mut *destination);
        let large = "x".repeat(1 << 16);
        let many = bodies(&vec![large.as_str(); 1000]);
        let begun = Instant::now();
        let written = destination.write(&many, 1).unwrap();
        assert!(!written.left.is_empty() && written.left_reason.is_some());
        // Those behind it have tries of their own.
        assert_eq!(written.untried, written.left[1..]);
        // Were it waited for, that would be for ever.
        assert!(begun.elapsed() < Duration::from_secs(30));
        drop(slow);
        let left = &many[written.left[0]..];
        let dropped = Instant::now();
        while !destination.write(left, 1).unwrap().left.is_empty() {
            assert!(dropped.elapsed() < Duration::from_secs(30), "they do not pass");
            thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn clients_that_went_leave_their_place_to_others() {
        let (runtime, port) = (runtime(), free_port());
        let definition = json!({"address": "127.0.0.1", "port": port});
        let mut server = config::from_json::<ReactiveStream>(&definition).unwrap().serve(&output(&runtime)).unwrap();
        let is_known = |server: &Server| lock(&server.clients).iter().any(|client| !client.is_closed());
        let begun = Instant::now();
        // As who looks whether it is alive. No result comes that would find out.
        for _ in 0..CLIENTS_MAX + 44 {
            drop(StdStream::connect(("127.0.0.1", port)).unwrap());
            while is_known(&server) {
                assert!(begun.elapsed() < Duration::from_secs(30), "clients that are gone are kept");
                thread::sleep(Duration::from_millis(1));
            }
        }
        let mut client = connect(port, &mut server);
        server.write(&bodies(&["1"]), 1).unwrap();
        up_to(&mut client, &[0, 0, 0, 2, b'1', b'\n']);
    }

    #[test]
    fn the_source_of_that_name_reads_it_and_comes_back_after_a_break() {
        let (runtime, port) = (runtime(), free_port());
        let definition = json!({"type": "ReactiveStream", "url": "127.0.0.1", "port": port,
            "format": {"type": "CypherJson", "query": "RETURN 1"}});
        let config = crate::parse_source_v1(&definition).unwrap();
        config.check(&anything()).unwrap();
        // The source reads it, and has all of it.
        let [is_there, has_all] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let waited_for = [is_there.clone(), has_all.clone()];
        let serving = thread::spawn(move || {
            // One that breaks off in the middle, then the destination.
            let listener = StdListener::bind(("127.0.0.1", port)).unwrap();
            let (mut stream, _) = listener.accept().unwrap();
            std::io::Write::write_all(&mut stream, &[0, 0, 0, 1, b'1', 0, 0, 0, 9, b'{']).unwrap();
            drop((stream, listener));
            let mut destination = server(&runtime, port);
            // Until somebody is there, and one more.
            while !waited_for[0].load(Ordering::Relaxed) {
                destination.write(&bodies(&["2"]), 1).unwrap();
                thread::sleep(Duration::from_millis(10));
            }
            destination.write(&bodies(&["3"]), 1).unwrap();
            while !waited_for[1].load(Ordering::Relaxed) {
                thread::sleep(Duration::from_millis(10));
            }
            destination.close().unwrap();
        });
        let mut stream = config.open(&anything(), None).unwrap();
        let (decoder, mut batch, mut failures) = (config.decoder(&anything()).unwrap(), Frames::default(), Vec::new());
        let (mut records, mut progress, begun) = (Vec::new(), Progress::More, Instant::now());
        while progress == Progress::More {
            assert!(begun.elapsed() < Duration::from_secs(60), "{records:?}");
            progress = stream.next(&Limits::default(), &mut batch).unwrap();
            decode(&*decoder, &batch, &mut records, &mut failures);
            is_there.store(records.len() > 1, Ordering::Relaxed);
            has_all.store(records.last() == Some(&Value::Integer(3)), Ordering::Relaxed);
        }
        serving.join().unwrap();
        let shown: Vec<String> = records.iter().map(Value::shown).collect();
        assert!(shown.len() > 2 && shown[0] == "1" && shown[1] == "2" && shown[shown.len() - 1] == "3", "{shown:?}");
        assert!(failures.is_empty(), "{failures:?}");
        let refused = |more: Json| {
            let mut definition = definition.clone();
            definition.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            crate::parse_source_v1(&definition).and_then(|config| config.check(&anything())).unwrap_err().to_string()
        };
        assert!(refused(json!({"port": 70000})).contains("option `port`"));
        assert!(refused(json!({"url": "a/b"})).contains("is no name of a host"));
    }
}
