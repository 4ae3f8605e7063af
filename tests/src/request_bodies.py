"""How schemathesis, which makes requests from the OpenAPI documents, writes bodies of kinds that it does not know: records, one a line."""

import json

import schemathesis


@schemathesis.serializer("application/x-ndjson", "application/jsonl")
def lines(_, value):
    if isinstance(value, bytes):
        return value
    records = value if isinstance(value, list) else [value]
    return "\n".join(record if isinstance(record, str) else json.dumps(record) for record in records).encode("utf-8", "replace")
