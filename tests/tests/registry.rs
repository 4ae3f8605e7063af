//! Schemas of a registry, with the real binary, a real broker of Kafka and a real registry: records that others wrote are read by
//! the schemas they name, and results are written so that they can be read again.

use std::time::Duration;

use serde_json::{Value as Json, json};
use weir_tests::kafka::shared;
use weir_tests::registry::Registry;
use weir_tests::service::{Home, Weir, wait_until};
use weir_tests::streams::{RESUME, STREAMS, counted};

/// Generous: machines under load are slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Each record counts itself, so that one that is lost or comes twice is seen.
const COUNT: &str =
    "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.name = $that.name, n.count = coalesce(n.count, 0) + 1";

fn zigzag(n: u64, out: &mut Vec<u8>) {
    let mut left = n << 1;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

/// What stands before a record.
fn header(schema: u32) -> Vec<u8> {
    [&[0][..], &schema.to_be_bytes()].concat()
}

fn text(text: &str, out: &mut Vec<u8>) {
    zigzag(text.len() as u64, out);
    out.extend_from_slice(text.as_bytes());
}

#[test]
fn records_are_read_by_the_schemas_of_avro_they_name() {
    let left_out = "records of Kafka whose schemas a registry has";
    let (Some(broker), Some(registry)) = (shared(left_out), Registry::start(left_out)) else { return };
    let schema = |fields: Json| json!({"type": "record", "name": "Person", "fields": fields}).to_string();
    let (id, name) = (json!({"name": "id", "type": "long"}), json!({"name": "name", "type": "string"}));
    let older = registry.register("people-value", "AVRO", &schema(json!([id])), json!([]));
    let with_default = json!({"name": "name", "type": "string", "default": ""});
    let newer = registry.register("people-value", "AVRO", &schema(json!([with_default, id])), json!([]));
    assert_ne!(older, newer);
    let other = registry.register(
        "other",
        "AVRO",
        &json!({"type": "record", "name": "o.Names", "fields": [name]}).to_string(),
        json!([]),
    );
    assert_ne!(other, newer);

    let mut records: Vec<Vec<u8>> = Vec::new();
    for n in 0..2_000u64 {
        let mut record = header(if n % 2 == 0 { older } else { newer });
        if n % 2 == 1 {
            text("new", &mut record);
        }
        zigzag(n, &mut record);
        records.push(record);
    }
    records.push(header(999_999));
    records.push(json!({"id": 5}).to_string().into_bytes());
    broker.create_topic("people", 1);
    let produce = |part: std::ops::Range<usize>| {
        broker.produce("people", 0, records[part].iter().map(|record| Some(record.as_slice())));
    };
    produce(0..1_500);

    let home = Home::new();
    let mut weir = home.start(RESUME);
    let format = json!({"type": "CypherAvro", "query": COUNT, "schemaRegistry": {"url": registry.url(), "username": "weir", "password": "hush"}});
    let definition = json!({"type": "KafkaIngest", "topics": {"people": [0]}, "bootstrapServers": broker.bootstrap(), "format": format,
        "autoOffsetReset": "earliest", "maximumPerSecond": 800});
    weir.post("/api/v1/ingest/people", &definition).expect(200);
    for round in 0..2 {
        let before = counted(&weir).0;
        // However quickly it reads meanwhile, there is more to come.
        produce(1_500 + round * 250..1_750 + round * 250);
        wait_until("some more records are read", PATIENCE, || counted(&weir).0 > before);
        weir.kill();
        weir = home.start(RESUME);
    }
    produce(2_000..records.len());
    wait_until("all records are read", PATIENCE, || counted(&weir).0 >= 2_000);
    assert_eq!(counted(&weir), (2_000, 1));
    assert_eq!(weir.rows("MATCH (n) WHERE n.name = 'new' RETURN count(n)"), [json!([1_000])]);
    let failed = || weir.get(&format!("{STREAMS}/people")).expect(200).json()["failedRecords"].clone();
    wait_until("two records have failed", PATIENCE, || failed()["count"] == 2);
    let reasons = failed().to_string();
    assert!(
        reasons.contains("schema 999999 is not in the schema registry") && reasons.contains("begins with 123 instead of 0"),
        "{reasons}"
    );
    let shown = weir.get(&format!("{STREAMS}/people")).expect(200).text();
    assert!(shown.contains("Secret(****)") && !shown.contains("hush"), "{shown}");
    weir.stop();
}

#[test]
fn records_are_read_by_the_declarations_of_protobuf_they_name() {
    let left_out = "messages of Protobuf whose declarations a registry has";
    let (Some(broker), Some(registry)) = (shared(left_out), Registry::start(left_out)) else { return };
    registry.register("base", "PROTOBUF", "syntax = \"proto3\"; package base; message Name { string text = 1; }", json!([]));
    let people = "syntax = \"proto3\"; package people; import \"base.proto\"; import \"google/protobuf/timestamp.proto\";\n\
        message Nobody { int32 x = 1; }\n\
        message Person { int64 id = 1; base.Name name = 2; google.protobuf.Timestamp at = 3; message Child { int64 id = 1; } }";
    let reference = json!([{"name": "base.proto", "subject": "base", "version": 1}]);
    let schema = registry.register("messages-value", "PROTOBUF", people, reference);
    // A person, and the child that is declared within one.
    let person = [&header(schema)[..], &[2, 2, 0x08, 7, 0x12, 3, 0x0a, 1, b'x', 0x1a, 2, 0x08, 5]].concat();
    let child = [&header(schema)[..], &[4, 2, 0, 0x08, 8]].concat();
    broker.create_topic("messages", 1);
    broker.produce("messages", 0, [person, child].iter().map(|record| Some(record.as_slice())));

    let weir = Home::new().start(&[]);
    let source = json!({"type": "Kafka", "topics": {"messages": [0]}, "bootstrapServers": broker.bootstrap(), "autoOffsetReset": "EARLIEST",
        "format": {"type": "Protobuf", "schemaRegistry": {"url": registry.url()}}});
    let query =
        "MATCH (n) WHERE id(n) = idFrom($that.id) SET n.id = $that.id, n.name = $that.name.text, n.second = $that.at.seconds";
    let created = weir.post(STREAMS, &json!({"name": "messages", "source": source, "query": query})).expect(201).json();
    assert_eq!(created["settings"]["source"]["format"], source["format"]);
    let rows = || weir.rows("MATCH (n) WHERE n.id IS NOT NULL RETURN n.id, n.name, n.second ORDER BY n.id");
    wait_until("both are read", PATIENCE, || rows().len() == 2);
    assert_eq!(rows(), [json!([7, "x", 5]), json!([8, null, null])]);
    weir.stop();
}

/// Results go to Kafka by a schema of a registry and are read again; the answer is what was read.
fn there_and_back(broker: &str, topic: &str, weir: &Weir, out: Json, back: Json) {
    let destination = json!({"type": "Kafka", "topic": topic, "bootstrapServers": broker, "format": out});
    let query = json!({"name": topic, "pattern": {"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"},
        "includeCancellations": true, "outputs": [{"name": "kafka", "resultEnrichment":
            {"query": "MATCH (n) WHERE id(n) = $that.data.id RETURN n.value AS id, 'n' + n.value AS name"}, "destinations": [destination]}]});
    weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201);
    let source = json!({"type": "Kafka", "topics": {topic: [0]}, "bootstrapServers": broker, "autoOffsetReset": "EARLIEST", "format": back});
    weir.post(STREAMS, &json!({"name": topic, "source": source, "query": COUNT})).expect(201);
    (1..=50).for_each(|value| {
        weir.query(&format!("MATCH (n) WHERE id(n) = idFrom('number', {value}) SET n:Number, n.value = {value}")).expect(200);
    });
    wait_until("all results have come back", PATIENCE, || counted(weir).0 == 50);
    assert_eq!(counted(weir), (50, 1));
    assert_eq!(weir.rows("MATCH (n) WHERE n.count = 1 AND n.name = 'n' + n.id RETURN count(n)"), [json!([50])]);
}

#[test]
fn results_are_written_by_schemas_of_a_registry_and_read_again() {
    let left_out = "results that are written by schemas of a registry";
    let (Some(broker), Some(registry)) = (shared(left_out), Registry::start(left_out)) else { return };
    let at = json!({"url": registry.url()});
    let home = Home::new();
    let fields = json!([{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]);
    let schema = json!({"type": "record", "name": "Result", "fields": fields}).to_string();
    home.write("result.avsc", &schema);
    let weir = home.start(&[]);
    // Registered by weir, once.
    broker.create_topic("avro-out", 1);
    let out = json!({"type": "Avro", "schemaUrl": "result.avsc", "schemaRegistry": at});
    there_and_back(&broker.bootstrap(), "avro-out", &weir, out, json!({"type": "Avro", "schemaRegistry": at}));
    assert_eq!(registry.versions("avro-out-value"), 1);
    weir.stop();

    // The newest of a subject, of Protobuf.
    registry.register(
        "results",
        "PROTOBUF",
        "syntax = \"proto3\"; message Other {} message Result { int64 id = 1; string name = 2; }",
        json!([]),
    );
    broker.create_topic("protobuf-out", 1);
    let weir = Home::new().start(&[]);
    let out = json!({"type": "Protobuf", "typeName": "Result", "subject": "results", "schemaRegistry": at});
    there_and_back(&broker.bootstrap(), "protobuf-out", &weir, out, json!({"type": "Protobuf", "schemaRegistry": at}));

    let refused = |format: Json, expected: &str| {
        let destination = json!({"type": "Kafka", "topic": "t", "bootstrapServers": broker.bootstrap(), "format": format});
        let query = json!({"name": "refused", "pattern": {"type": "Cypher", "query": "MATCH (n) RETURN DISTINCT id(n)"},
            "outputs": [{"name": "o", "destinations": [destination]}]});
        let answer = weir.post("/api/v2/graph/quine/standingQueries", &query).expect(400).text();
        assert!(answer.contains(expected), "{answer}");
    };
    refused(json!({"type": "Avro", "schemaRegistry": at}), "subject t-value");
    refused(json!({"type": "Avro", "schemaRegistry": at, "subject": "results"}), "is of PROTOBUF, and the format is of AVRO");
    refused(
        json!({"type": "Protobuf", "schemaRegistry": at, "subject": "results", "typeName": "Nobody"}),
        "there is no message `Nobody`",
    );
    refused(json!({"type": "Avro"}), "say where the schema is found");
    weir.stop();
}

#[test]
fn a_match_and_its_cancellation_are_records_with_meta() {
    let left_out = "results with their meta, as records of Avro";
    let Some(broker) = shared(left_out) else { return };
    let home = Home::new();
    let meta = json!({"type": "record", "name": "Meta", "fields": [{"name": "isPositiveMatch", "type": "boolean"}, {"name": "resultId", "type": "string"}]});
    let data = json!({"type": "record", "name": "Data", "fields": [{"name": "id", "type": "string"}]});
    let schema =
        json!({"type": "record", "name": "Whole", "fields": [{"name": "meta", "type": meta}, {"name": "data", "type": data}]});
    home.write("whole.avsc", schema.to_string());
    home.write("data.avsc", json!({"type": "record", "name": "Data", "fields": [{"name": "id", "type": "string"}]}).to_string());
    let weir = home.start(&[]);
    for (topic, schema) in [("avro-meta", "whole.avsc"), ("avro-v1", "data.avsc")] {
        broker.create_topic(topic, 1);
        let format = json!({"type": "Avro", "schemaUrl": schema});
        let pattern = json!({"type": "Cypher", "query": "MATCH (n:Number) RETURN DISTINCT id(n) AS id"});
        if topic == "avro-meta" {
            let destination = json!({"type": "Kafka", "topic": topic, "bootstrapServers": broker.bootstrap(), "format": format});
            let query = json!({"name": topic, "pattern": pattern, "includeCancellations": true, "outputs": [{"name": "o", "destinations": [destination]}]});
            weir.post("/api/v2/graph/quine/standingQueries", &query).expect(201);
        } else {
            let output =
                json!({"type": "WriteToKafka", "topic": topic, "bootstrapServers": broker.bootstrap(), "format": format});
            let query = json!({"pattern": pattern, "includeCancellations": true, "outputs": {"o": output}});
            weir.post("/api/v1/query/standing/old", &query).expect(201);
        }
        let source = json!({"type": "KafkaIngest", "topics": {topic: [0]}, "bootstrapServers": broker.bootstrap(), "autoOffsetReset": "earliest",
            "format": {"type": "CypherAvro", "schemaUrl": schema, "query":
                format!("MATCH (n) WHERE id(n) = idFrom('{topic}', toJson($that)) SET n:Read, n.of = '{topic}', n.text = toJson($that)")}});
        weir.post(&format!("/api/v1/ingest/{topic}"), &source).expect(200);
    }
    weir.query("MATCH (n) WHERE id(n) = idFrom('a') SET n:Number").expect(200);
    weir.query("MATCH (n) WHERE id(n) = idFrom('a') REMOVE n:Number").expect(200);
    let read = |topic: &str| weir.rows(&format!("MATCH (n:Read) WHERE n.of = '{topic}' RETURN n.text ORDER BY n.text"));
    wait_until("both have come back", PATIENCE, || read("avro-meta").len() == 2 && read("avro-v1").len() == 1);
    let texts = read("avro-meta").iter().map(Json::to_string).collect::<String>();
    assert!(texts.contains("isPositiveMatch\\\":false") && texts.contains("isPositiveMatch\\\":true"), "{texts}");
    // In v1 cancellations have no place in a record.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(read("avro-v1").len(), 1);
    weir.stop();
}
