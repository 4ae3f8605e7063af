//! Logins at Kafka by something else than a password that stays: a certificate of the client's own, and tokens that end soon.
//! Against a real broker, which refuses who has neither, and a server that gives out tokens.

use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Value as Json, json};
use weir_tests::kafka::Broker;
use weir_tests::server::Server;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{COUNT, counted, with};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(150);

/// Of a token.
const LIFE: Duration = Duration::from_secs(8);

/// Each stream has nodes of its own, by its name.
fn read(weir: &Weir, name: &str, topics: Json, more: Json) {
    let query = COUNT.replace("$that.id)", &format!("'{name}', $that.id)"));
    let format = json!({"type": "CypherJson", "query": query});
    let definition = json!({"type": "KafkaIngest", "topics": topics, "autoOffsetReset": "earliest", "format": format});
    weir.post(&format!("/api/v1/ingest/{name}"), &with(definition, more)).expect(200);
}

/// Writes numbers of nodes to the topic of this name, by an output that is called so, too.
fn write(weir: &Weir, name: &str, more: Json) {
    let query = "MATCH (n) WHERE n.out IS NOT NULL RETURN n.out AS out";
    let pattern = json!({"type": "Cypher", "query": query, "mode": "MultipleValues"});
    let output = json!({"type": "WriteToKafka", "topic": name, "structure": {"type": "Bare"}});
    let definition = json!({"pattern": pattern, "outputs": {"kafka": with(output, more)}});
    weir.post(&format!("/api/v1/query/standing/{name}"), &definition).expect(201);
}

fn produce(broker: &Broker, topic: &str, ids: Range<u64>) {
    let values: Vec<Vec<u8>> = ids.map(|id| json!({"id": id}).to_string().into_bytes()).collect();
    broker.produce(topic, 0, values.iter().map(|value| Some(value.as_slice())));
}

/// The stream runs and says what it waits for.
fn wait_message(weir: &Weir, stream: &str, part: &str) {
    wait_until(&format!("stream {stream} says '{part}'"), PATIENCE, || {
        let told = weir.get(&format!("/api/v1/ingest/{stream}")).expect(200).json();
        told["status"] == "Running" && told["message"].as_str().is_some_and(|message| message.contains(part))
    });
}

/// The output tries again and says why.
fn wait_error(weir: &Weir, name: &str, part: &str) {
    wait_until(&format!("output {name} says '{part}'"), PATIENCE, || {
        let told = weir.get(&format!("/api/v1/query/standing/{name}")).expect(200).json();
        let output = &told["stats"]["local"]["outputs"]["kafka"];
        output["state"] == "Retrying" && output["lastError"]["message"].as_str().is_some_and(|message| message.contains(part))
    });
}

/// Neither in the log nor in what is shown of streams and outputs.
fn assert_hidden(weir: &Weir, secrets: &[&str]) {
    let shown = ["/api/v1/ingest", "/api/v1/query/standing"].map(|path| weir.get(path).expect(200).text());
    for text in [&shown[0], &shown[1], &weir.log()] {
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "{text}");
    }
}

#[test]
fn a_broker_that_wants_a_certificate_of_its_clients_is_given_one_and_without_it_that_is_said() {
    let variables = vec![("KAFKA_MUTUAL", "1".to_owned())];
    let Some(broker) = Broker::start_with(variables, "certificates of clients of Kafka") else { return };
    broker.create_topic("sealed", 1);
    broker.create_topic("sealed-out", 1);
    produce(&broker, "sealed", 0..5);
    let weir = Home::new().start(&[]);
    let (client, password) = (broker.said("KAFKA_CLIENT"), broker.said("KAFKA_STORE_PASSWORD"));
    let reached = |properties: Json, more: Json| {
        let properties = with(json!({"ssl.truststore.location": broker.said("KAFKA_CA")}), properties);
        with(json!({"bootstrapServers": broker.said("KAFKA_MUTUAL"), "kafkaProperties": properties}), more)
    };
    let store = |end: &str| json!({"ssl.keystore.location": format!("{client}{end}")});
    let pair =
        |key: &str| json!({"ssl.certificate.location": format!("{client}.pem"), "ssl.key.location": format!("{client}{key}")});
    let ways = [
        ("pkcs12", store(".p12"), json!({"sslKeystorePassword": password})),
        ("typed", with(store(".p12"), json!({"ssl.keystore.type": "PKCS12", "ssl.keystore.password": password})), json!({})),
        ("pem", with(store("-store.pem"), json!({"ssl.keystore.type": "PEM"})), json!({})),
        ("pair", pair(".key"), json!({})),
        ("locked", pair("-locked.key"), json!({"sslKeyPassword": password})),
    ];
    let ssl = |more: &Json| with(json!({"securityProtocol": "SSL"}), more.clone());
    for (name, properties, more) in &ways {
        let more = with(ssl(more), json!({"endingOffset": 4}));
        read(&weir, name, json!({"sealed": [0]}), reached(properties.clone(), more));
    }
    for (name, _, _) in &ways {
        weir.wait_ingest(name, "Completed", PATIENCE);
    }
    assert_eq!(counted(&weir), (25, 1));

    let tls = concat!(env!("CARGO_MANIFEST_DIR"), "/tls");
    let stranger =
        json!({"ssl.certificate.location": format!("{tls}/client.pem"), "ssl.key.location": format!("{tls}/client.key")});
    for (name, properties) in [("none", json!({})), ("stranger", stranger)] {
        read(&weir, name, json!(["sealed"]), reached(properties, ssl(&json!({}))));
        wait_message(&weir, name, "certificate");
    }
    let wrong = reached(store(".p12"), ssl(&json!({"sslKeystorePassword": "wrong-hush"})));
    let format = json!({"type": "CypherJson", "query": COUNT});
    let wrong = with(json!({"type": "KafkaIngest", "topics": ["sealed"], "format": format}), wrong);
    let refused = weir.post("/api/v1/ingest/wrong", &wrong).expect(400).text();
    assert!(refused.contains("PKCS#12") && !refused.contains("hush"), "{refused}");

    let ssl = json!({"security.protocol": "SSL"});
    write(&weir, "sealed-out", reached(with(store(".p12"), ssl.clone()), json!({"sslKeystorePassword": password})));
    write(&weir, "unsealed-out", reached(ssl, json!({})));
    weir.query("CREATE ({out: 1})").expect(200);
    wait_until("the result is in the topic", PATIENCE, || broker.read("sealed-out") == ["{\"out\":1}"]);
    wait_error(&weir, "unsealed-out", "certificate");
    assert_hidden(&weir, &[password, "hush"]);
    // In good order it would wait for results that nobody takes.
    weir.kill();
}

#[test]
fn tokens_that_end_soon_are_fetched_anew_and_a_wrong_secret_is_told_and_not_shown() {
    const LEFT_OUT: &str = "tokens for Kafka from an authorization server";
    let life = LIFE.as_secs().to_string();
    let Some(issuer) = Server::start_with(&[("OIDC_LIFETIME", &life)], "oidc.sh", 1, LEFT_OUT) else { return };
    let Some(broker) = Broker::start_with(vec![("KAFKA_ISSUER", issuer.said("OIDC_ISSUER"))], LEFT_OUT) else { return };
    for topic in ["tokens", "tokens-out", "tokens-once"] {
        broker.create_topic(topic, 1);
    }
    let weir = Home::new().start(&[]);
    let secret = issuer.said("OIDC_CLIENT_SECRET");
    let (client, tokens) = (issuer.said("OIDC_CLIENT_ID"), issuer.said("OIDC_TOKENS"));
    let login = |secret: &str, tokens: &str| {
        let login = json!({"type": "OAuthBearerLogin", "clientId": client, "clientSecret": secret, "scope": "read & write",
            "tokenEndpointUrl": tokens});
        json!({"bootstrapServers": broker.said("KAFKA_OAUTH"), "saslJaasConfig": login})
    };
    let source = |secret: &str, tokens: &str| with(login(secret, tokens), json!({"securityProtocol": "SASL_PLAINTEXT"}));
    let output = |secret: &str| with(login(secret, &tokens), json!({"kafkaProperties": {"security.protocol": "SASL_PLAINTEXT"}}));
    read(&weir, "named", json!({"tokens": [0]}), source(&secret, &tokens));
    read(&weir, "grouped", json!(["tokens"]), source(&secret, &tokens));
    write(&weir, "tokens-out", output(&secret));
    write(&weir, "tokens-once", with(output(&secret), json!({"exactlyOnce": true})));
    // The broker ends a connection with the token that it began with, unless it is shown a newer one.
    let began = Instant::now();
    for round in 0..5 {
        let next = began + LIFE / 2 * round as u32;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
        produce(&broker, "tokens", round * 10..round * 10 + 10);
        weir.query(&format!("CREATE ({{out: {round}}})")).expect(200);
        let known = (round + 1) * 20;
        wait_until(&format!("{known} records are in the graph"), PATIENCE, || counted(&weir).0 == known);
        let results: Vec<String> = (0..=round).map(|out| json!({"out": out}).to_string()).collect();
        for topic in ["tokens-out", "tokens-once"] {
            wait_until(&format!("the results are in {topic}"), PATIENCE, || broker.read(topic) == results);
        }
    }
    assert_eq!(counted(&weir), (100, 1));
    let given = issuer.made("log").matches("token for weir").count();
    assert!(given >= 6, "the clients were given {given} tokens in {:?}", began.elapsed());

    read(&weir, "wrong", json!(["tokens"]), source("wrong-hush", &tokens));
    read(&weir, "nowhere", json!(["tokens"]), source(&secret, "http://127.0.0.1:1/token"));
    write(&weir, "wrong-out", output("wrong-hush"));
    weir.query("CREATE ({out: 5})").expect(200);
    wait_message(&weir, "wrong", "401 Unauthorized: unauthorized_client");
    wait_message(&weir, "nowhere", "Connection refused");
    wait_error(&weir, "wrong-out", "401 Unauthorized: unauthorized_client");
    // Tokens of somebody whom the broker does not know.
    let Some(other) = Server::start("oidc.sh", 1, LEFT_OUT) else { return };
    read(&weir, "other", json!(["tokens"]), source(&secret, &other.said("OIDC_TOKENS")));
    wait_message(&weir, "other", "invalid_token");

    // As it is, and as it goes over the wire.
    assert_hidden(&weir, &[&secret, "weir-secret", "hush"]);
    weir.kill();
}
