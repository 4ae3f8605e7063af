"""Makes the vectors of the Protobuf tests with Google's own compiler and library: `pip install protobuf grpcio-tools`, then
`python make.py` here. Writes `all.desc`, `letters.desc` and `vectors.txt`, whose lines are: message, bytes in hex, the values in JSON.

Bytes are base64 in the JSON, and floats that JSON cannot write are texts; the tests write what they decode in the same way."""
import base64, json, math
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_tools import protoc
import pathlib, grpc_tools

include = str(pathlib.Path(grpc_tools.__file__).parent / "_proto")
assert protoc.main(["", "-I.", f"-I{include}", "--include_imports", "--descriptor_set_out=all.desc",
                    "shapes.proto", "old.proto", "new.proto", "event.proto"]) == 0
assert protoc.main(["", "-I.", "--descriptor_set_out=letters.desc", "letters.proto"]) == 0
files = descriptor_pb2.FileDescriptorSet.FromString(open("all.desc", "rb").read())
pool = descriptor_pool.DescriptorPool()
for file in files.file:
    pool.Add(file)
kind = lambda name: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


def plain(field, value):
    if field.type in (field.TYPE_MESSAGE, field.TYPE_GROUP):
        return shown(value)
    if field.type == field.TYPE_ENUM:
        named = field.enum_type.values_by_number.get(value)
        return named.name if named else value
    if field.type == field.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, int) and value >= 1 << 63:
        return value - (1 << 64)
    return value


def shown(message):
    """What weir's documentation says a message becomes."""
    out = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated and field.message_type and field.message_type.GetOptions().map_entry:
            of = field.message_type.fields_by_name["value"]
            text = lambda key: json.dumps(key) if isinstance(key, bool) else str(key)
            out[field.name] = {text(key): plain(of, value[key]) for key in sorted(value)}
        elif field.is_repeated:
            out[field.name] = [plain(field, item) for item in value]
        elif not field.has_presence or message.HasField(field.name):
            out[field.name] = plain(field, value)
        elif field.has_default_value:
            out[field.name] = plain(field, field.default_value)
    return out


lines = []


def vector(name, fill=lambda message: None, extra=b"", canonical=True):
    message = kind(name)()
    fill(message)
    data = message.SerializeToString(deterministic=True) + extra
    again = kind(name)()
    again.ParseFromString(data)
    # What is marked is written by weir in just these bytes.
    lines.append(f"{name} {'=' if canonical and not extra else '~'} {data.hex() or '-'} {json.dumps(shown(again))}")


def scalars(m, big):
    s = 1 if big else -1
    m.a_double, m.a_float, m.an_int32, m.an_int64 = 1e300 * s, 1.5 * s, (2**31 - 1) * s, (2**63 - 1) * s
    m.a_uint32, m.a_uint64 = 2**32 - 1, 2**64 - 1
    m.a_sint32, m.a_sint64, m.a_sfixed32, m.a_sfixed64 = -2**31, -2**63, -2**31, -2**63
    m.a_fixed32, m.a_fixed64, m.a_bool, m.a_string, m.some_bytes = 2**32 - 1, 2**64 - 1, True, "Zoë ✓", b"\0\xff"
    m.a_color = -2


def tree(m):
    m.name = ""
    m.left.left.name = "deep"
    m.left.number = 0
    m.more.add().word = "w"
    m.more.add()
    m.more.add().subtree.name = "s"
    m.inner.x = 3


def many(m):
    m.numbers.extend([0, 1, -1, 300])
    m.unpacked.extend([5, 0, 6])
    m.words.extend(["", "a" * 200])
    m.colors.extend([0, -2, 1, 77])
    m.doubles.extend([0.0, -0.0, math.inf])
    m.counts["a"], m.counts[""] = 0, -5
    m.trees[-4].name = "four"
    m.trees[9].inner.x = 1
    m.flags[True], m.flags[False] = 1, 0
    m.blobs[2**64 - 1] = b"\1"


def times(m):
    m.at.seconds, m.at.nanos = 1_700_000_000, 5
    m.length.seconds, m.length.nanos = -3, -500_000_000
    m.millis, m.text = 12, "x"


def part(m):
    m.id, m.label, m.size, m.count = 0, "l", 1, 0
    m.numbers.extend([1, 2])
    m.packed.extend([3, 400])
    m.box.width = -1
    m.box.slot.add().name = "one"
    m.box.slot.add()
    m.next.id = 9
    m.grades["s"] = 1
    m.all.extend([2, 1])


def note(m):
    m.required, m.explicit = 0, 0
    m.expanded.extend([1, 2])
    m.packed.extend([1, 2])
    m.delimited.required = 5
    m.lenient = "x"
    m.moods.extend([1, 0])


vector("shapes.Scalars")
vector("shapes.Scalars", lambda m: scalars(m, True))
vector("shapes.Scalars", lambda m: scalars(m, False))
vector("shapes.Scalars", lambda m: setattr(m, "a_double", math.nan))
vector("shapes.Scalars", lambda m: setattr(m, "a_double", -0.0))
vector("shapes.Scalars", lambda m: setattr(m, "a_color", 42))
vector("shapes.Tree")
vector("shapes.Tree", tree)
vector("shapes.Many")
vector("shapes.Many", many)
vector("shapes.Times", times)
vector("old.Part", lambda m: setattr(m, "id", 1), canonical=False)
vector("old.Part", part, canonical=False)
vector("fresh.Note", lambda m: setattr(m, "required", 1))
vector("fresh.Note", note)
# Defaults that are declared are there once decoded, so they are written, too: what is of `old` comes back in other bytes.
# Packed and unpacked the other way round, fields twice, fields nobody knows, a wrong wire type.
vector("shapes.Many", many, bytes.fromhex("0805" "0806" "12020708" "fa3e0161" "0a00" "1801"))
vector("shapes.Scalars", extra=bytes.fromhex("1801" "1802" "7801" "6a0161"))
# A message in two pieces is merged; of a oneof the last one stays, and pieces of the same member are merged.
vector("shapes.Tree", extra=bytes.fromhex("1203 0a0161" "1204 2a026262" "2001" "3203 0a0163" "3203 2a0164"))
vector("shapes.Tree", extra=bytes.fromhex("3203 0a0163" "2001" "3203 2a0164" "2a0165"))
# Entries of maps without keys or values, and one key twice.
vector("shapes.Many", extra=bytes.fromhex("3200" "3a00" "4200" "4a00" "3205 0a0161 1001" "3205 0a0161 1002"))
# Unknown numbers of a closed enumeration, alone, in a list; groups within an unknown group; an extension.
vector("old.Part", lambda m: setattr(m, "id", 1), bytes.fromhex("1805" "6205 0a0161 1009" "6805" "6801" "f301" "fb01" "0801" "fc01" "f401" "a20601 61"))
open("vectors.txt", "w").write("\n".join(lines) + "\n")
