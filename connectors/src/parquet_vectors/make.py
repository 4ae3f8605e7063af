"""Makes the files of Parquet the tests read, and what is in them: pip install pyarrow; python make.py"""
import base64, datetime, decimal, json
import pyarrow as pa, pyarrow.parquet as pq

UTC = datetime.timezone.utc
N = 150

def row(n):
    odd = n % 2 == 1
    return {
        "id": n, "small": -(n % 100), "big": 2**63 - 1 - n, "amount": n * 0.5, "half_sized": n * 0.25, "yes": odd,
        "name": None if n % 7 == 0 else f"name {n} é", "raw": bytes([n % 256, 0, 255]),
        "day": datetime.date(2022, 1, 8) + datetime.timedelta(days=n), "time": datetime.time(1, 2, 3, n),
        "at": datetime.datetime(2023, 11, 14, 22, 13, 20, n * 1000, UTC), "local": datetime.datetime(1969, 12, 31, 23, 59, 59, n),
        "price": decimal.Decimal(f"-{n}.25"), "unsigned": 2**32 - 1 - n,
        "tags": None if n % 5 == 0 else [f"t{i}" if i else None for i in range(n % 4)],
        "lists": [[n, None], [], [n + 1]] if odd else [],
        "where": None if n % 3 == 0 else {"street": f"s{n}", "at": {"x": n, "y": None}},
        "people": [{"name": f"p{n}", "ages": [n, n + 1]}, {"name": None, "ages": None}] if odd else None,
        "counts": [(f"k{i}", i if i else None) for i in range(n % 3)],
    }

schema = pa.schema([
    pa.field("id", pa.int64(), nullable=False), ("small", pa.int8()), ("big", pa.uint64()), ("amount", pa.float64()), ("half_sized", pa.float32()),
    ("yes", pa.bool_()), ("name", pa.string()), ("raw", pa.binary()), ("day", pa.date32()), ("time", pa.time64("us")),
    ("at", pa.timestamp("ms", "UTC")), ("local", pa.timestamp("us")), ("price", pa.decimal128(20, 2)), ("unsigned", pa.uint32()),
    ("tags", pa.list_(pa.string())), ("lists", pa.list_(pa.list_(pa.int64()))),
    ("where", pa.struct([("street", pa.string()), ("at", pa.struct([("x", pa.int32()), ("y", pa.string())]))])),
    ("people", pa.list_(pa.struct([("name", pa.string()), ("ages", pa.list_(pa.int32()))]))),
    ("counts", pa.map_(pa.string(), pa.int64())),
])

def shown(value):
    """As weir shows a value in JSON."""
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        text, zone = value.isoformat().removesuffix("+00:00"), "Z" if getattr(value, "tzinfo", None) else ""
        return (text.removesuffix("000") if "." in text else text) + zone
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: shown(inner) for key, inner in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], tuple):
        return {key: inner for key, inner in value}
    return [shown(inner) for inner in value] if isinstance(value, list) else value

rows = [row(n) for n in range(N)]
table = pa.Table.from_pylist(rows, schema)
with open("rows.jsonl", "w") as out:
    for row in rows:
        if row["counts"] == []:
            row["counts"] = {}
        out.write(json.dumps(shown(row), ensure_ascii=False) + "\n")
pq.write_table(table, "plain.parquet", compression="none", use_dictionary=False, row_group_size=64, data_page_size=512)
pq.write_table(table, "snappy.parquet", compression="snappy", row_group_size=50, data_page_version="2.0", data_page_size=700)
pq.write_table(table, "zstd.parquet", compression="zstd", version="1.0", use_deprecated_int96_timestamps=False)
delta = {name: "DELTA_BINARY_PACKED" for name in ["id", "day"]} | {"name": "DELTA_BYTE_ARRAY", "amount": "BYTE_STREAM_SPLIT"}
pq.write_table(table, "gzip.parquet", compression="gzip", use_dictionary=False, column_encoding=delta)
pq.write_table(table, "lz4.parquet", compression="lz4", write_page_index=True)
