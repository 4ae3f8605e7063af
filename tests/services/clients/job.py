"""The main job with a client that openapi-python-client made: a standing query, records, a question.

    job.py FAMILY URL      FAMILY (v1, preview, current) is the name of the package that was generated, beside where it is run
"""

import importlib
import os
import pkgutil
import sys
import time

sys.path.insert(0, os.getcwd())
family, url = sys.argv[1], sys.argv[2]
package = importlib.import_module(family)
# Every module there is can be imported: what was generated is whole.
modules = [module.name for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")]
for module in modules:
    importlib.import_module(module)
models = importlib.import_module(f"{family}.models")
client = package.Client(base_url=url, raise_on_unexpected_status=True)


def call(group, operation, *arguments, **named):
    module = importlib.import_module(f"{family}.api.{group}.{operation}")
    answer = module.sync_detailed(*arguments, client=client, **named)
    assert 200 <= answer.status_code < 300, (operation, answer.status_code, answer.content)
    return answer.parsed


def content(answer):
    """What is in the envelope of the preview."""
    return answer.content if family == "preview" else answer


graph = ["quine"] if family == "current" else []
pattern = {
    "type": "Cypher",
    "mode": "MULTIPLE_VALUES" if family == "current" else "MultipleValues",
    "query": f"MATCH (n) WHERE n.{family} > 5 RETURN n.{family} AS i",
}
query = f"MATCH (n) WHERE id(n) = idFrom('{family}', toInteger($that)) SET n.{family} = toInteger($that)"
question = models.CypherQuestion.from_dict(
    {"text": "MATCH (n) WHERE id(n) = idFrom($family, $i) RETURN n.%s AS i" % family, "parameters": {"family": family, "i": 7}}
)
if family == "v1":
    body = models.StandingBody.from_dict({"pattern": pattern, "outputs": {"none": {"type": "Drop"}}})
    call("standing_queries", "create_standing_query", family, body=body)
    body = models.NumberIteratorIngest.from_dict(
        {"type": "NumberIteratorIngest", "ingestLimit": 10, "format": {"type": "CypherLine", "query": query}}
    )
    call("ingest_streams", "create_ingest", family, body=body)
else:
    output = {"name": "none", "destinations": [{"type": "Drop"}]}
    body = models.NamedStandingBody.from_dict({"name": family, "pattern": pattern, "outputs": [output]})
    call("standing_queries", "create_standing_query", *graph, body=body)
    ingest = {"name": family, "query": query, "source": {"type": "NumberIterator", "limit": 10}}
    body = next(
        model.from_dict(ingest)
        for name, model in vars(models).items()
        if name.startswith("IngestBody") and hasattr(model, "from_dict") and "source" in model.__annotations__
    )
    call("ingest_streams", "create_ingest", *graph, body=body)

deadline = time.monotonic() + 20
while True:
    stream = content(call("ingest_streams", "get_ingest_status", *graph, family))
    found = content(call("standing_queries", "get_standing_query_status", *graph, family))
    # Numbers begin at 0: of ten, four are greater than 5.
    if stream.stats.ingested_count == 10 and found.stats["local"].rates.count == 4:
        break
    assert time.monotonic() < deadline, (stream, found)
    time.sleep(0.05)

table = content(call("cypher_query_language", "query_cypher", *graph, body=question))
assert table.columns == ["i"] and table.results == [[7]], table
call("ingest_streams", "delete_ingest", *graph, family)
call("standing_queries", "delete_standing_query", *graph, family)
print(f"{family}: {len(modules)} modules, and the job is done")
