"""Makes the containers of the tests of `container.rs` with fastavro: `pip install fastavro cramjam backports.zstd`, then `python make.py` here."""
import datetime
import fastavro

schema = fastavro.parse_schema({"type": "record", "name": "Person", "namespace": "test", "fields": [
    {"name": "id", "type": "long"},
    {"name": "name", "type": ["null", "string"]},
    {"name": "born", "type": {"type": "int", "logicalType": "date"}},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "scores", "type": {"type": "map", "values": "double"}},
    {"name": "friend", "type": ["null", "Person"]}]})


def person(i):
    return {"id": i, "name": None if i % 3 == 0 else f"name {i}", "born": datetime.date(1970, 1, 1) + datetime.timedelta(days=i),
            "tags": ["a"] * (i % 4), "scores": {"x": i / 2} if i % 2 else {}, "friend": person(i // 10) if i >= 10 else None}


for codec in ["null", "deflate", "snappy", "zstandard"]:
    with open(f"{codec}.avro", "wb") as out:
        fastavro.writer(out, schema, [person(i) for i in range(200)], codec=codec, sync_interval=1500, sync_marker=b"0123456789abcdef")
