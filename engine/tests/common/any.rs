//! What is asked in mode AnyQuery, and the changes it is asked of.

use weir_engine::Graph;
use weir_model::{Mutations, Value};

use super::{Random, Rows, node};

/// Some of every construct. Where the order of rows decides, it is complete.
pub const QUERIES: &[&str] = &[
    // Patterns.
    "MATCH (a)-[:r]->(b)-[:r]->(c)-[:r]->(a) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b)-[:r]->(c)-[:r]->(d)-[:r]->(a) RETURN id(a) AS a, id(c) AS c",
    "MATCH (a)-[:r]->(a) RETURN id(a) AS a",
    "MATCH (a)-[e:r]->(b) RETURN id(a) AS a, e.w AS w, b.x AS x",
    "MATCH (a)-[e:r]->(b) WHERE e.w > 1 AND a.z < b.z RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[e]->(b) RETURN id(a) AS a, type(e) AS t, id(b) AS b",
    "MATCH (a)-[:r|s]->(b:B) RETURN id(a) AS a, b.z AS z",
    "MATCH (a:A)-[e:r]-(b) RETURN id(a) AS a, id(b) AS b, e.w AS w",
    "MATCH (a)--(b)--(c) WHERE a.x = 1 RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b), (a)-[:r]->(c) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a)-[:r]->(b) MATCH (b)-[:r]->(c) WHERE a.x <> c.x RETURN id(a) AS a, id(c) AS c",
    "MATCH (a:A), (b:B) WHERE a.x = b.x RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A), (b:B), (c)-[:s]->(d) WHERE a.z < b.z AND c.z = a.z RETURN id(a) AS a, id(b) AS b, id(d) AS d",
    "MATCH (a:A)-[e]->(b), (c:B)-[f]->(d) RETURN id(a) AS a, id(b) AS b, id(c) AS c, id(d) AS d",
    "MATCH (a)-[:r]->(b) WHERE id(a) = quineId('9e3779b9-7f4a-7c15-0000-000000000000') RETURN id(b) AS b",
    "MATCH (a)-[:r]->(b), (c:A) WHERE id(a) = id(c) RETURN id(b) AS b, c.x AS x",
    "MATCH (c:A), (a)--(b) WHERE id(a) = id(b) RETURN id(b) AS b, id(c) AS c",
    "MATCH (a) WHERE id(a) = quineId('9e3779b9-7f4a-7c15-0000-000000000000') OR a.x = 1 RETURN id(a) AS a",
    "MATCH (a:A), (b) WHERE id(b) = idFrom('b', a.x) RETURN id(a) AS a, b.x AS x",
    "MATCH (b), (c:B), (a:A) WHERE id(b) = idFrom('b', a.x) AND a.z = c.z RETURN id(a) AS a, b.x AS x, id(c) AS c",
    "MATCH (a:A) MATCH (b)-[:s]->(c) WHERE strId(b) = strId(a) RETURN id(a) AS a, c.x AS x",
    "MATCH (a:A), (b:B) WHERE [a.x, a.z] = [b.x, b.z] RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A), (b:B) WHERE {of: a.x} = {of: b.z} RETURN id(a) AS a, id(b) AS b",
    "MATCH (n) WITH n.z AS z ORDER BY z DESC RETURN collect(DISTINCT z) AS apart, collect(z) AS all",
    "MATCH (a) WHERE a:A OR a.x = 1 RETURN id(a) AS a",
    "MATCH (a:A|B) RETURN id(a) AS a, a:B AS is",
    "MATCH (a)-[e:r {w: 2}]->(b {x: 1}) RETURN id(a) AS a, id(b) AS b",
    "MATCH (n) RETURN n",
    "MATCH (a:A)-[e:r]->(b) RETURN a, e, [b] AS bs",
    "MATCH p = (a:A)-[:r]->(b)-[:s]->(c) RETURN p, length(p) AS l",
    "MATCH (n) RETURN id(n) AS id, labels(n) AS l, keys(n) AS k, properties(n) AS p",
    "MATCH (n:A) RETURN toJson(properties(n)) AS j, keys(n {.*, of: 1}) AS k",
    "MATCH (n) RETURN count(DISTINCT toJson(properties(n))) AS c, size(collect(keys(properties(n)))) AS k",
    "MATCH (a)-[e:r]->(b) WHERE head(keys(properties(a))) = 'z' RETURN toJson(e) AS e, keys(properties(e)) AS k",
    "MATCH (n) WITH n.m AS m, count(*) AS c RETURN toJson(m) AS j, keys(m) AS k, c",
    "MATCH (a:A)-[:r]->(b) WITH {who: a, to: b} AS m WITH m {.*, n: 1} AS k RETURN k.who.x AS x, k.n AS n",
    "MATCH (a:A)-[:r]->(b) WITH {who: a, to: b} AS m RETURN m {.*, n: 1} AS k, properties(m).to.z AS z",
    // Pipelines.
    "RETURN 1 AS one",
    "UNWIND [1, 2, 2, null] AS x RETURN x, count(*) AS c",
    "MATCH (n) RETURN count(*) AS c, count(n.x) AS x, count(DISTINCT n.x) AS d",
    "MATCH (n) RETURN n.x AS x, count(*) AS c, min(n.z) AS low, max(n.z) AS high, sum(n.z) AS s, avg(n.z) AS a",
    "MATCH (n:A) RETURN collect(n.z) AS zs, collect(DISTINCT n.x) AS xs, sum(DISTINCT n.z) AS s, stDev(n.z) AS d",
    "MATCH (n) RETURN percentileDisc(n.z, 0.5) AS m, percentileCont(n.z, 0.25) AS q, max(n.z) AS x, min(n.z) AS y",
    "MATCH (a)-[:r]->(b) WITH a, count(b) AS c WHERE c > 2 RETURN id(a) AS a, c",
    "MATCH (a)-[:r]->(b) WITH a, count(*) AS c MATCH (a)-[:s]->(d) RETURN id(a) AS a, c, d.x AS x",
    "MATCH (a)-[:r]->(b) WITH a.x AS x, collect(b) AS bs UNWIND bs AS b RETURN x, b.z AS z, size(bs) AS s",
    "MATCH p = (a:A)-[:r]->(b) UNWIND p AS x RETURN x",
    "MATCH (n) WITH DISTINCT n.x AS x RETURN x",
    "MATCH (n) WITH DISTINCT n.x AS x, n.z AS z WITH x, count(z) AS c RETURN c, collect(x) AS xs",
    "MATCH (n:A) WITH n ORDER BY n.z DESC, id(n) LIMIT 3 RETURN id(n) AS n, n.z AS z",
    "MATCH (n) RETURN id(n) AS n, n.z AS z ORDER BY z, n SKIP 2 LIMIT 2",
    "MATCH (n) WITH n ORDER BY n.z, id(n) WITH collect(n.z) AS zs RETURN zs[0..3] AS zs",
    "MATCH (n) WITH n ORDER BY n.z DESC, id(n) LIMIT 4 RETURN collect(id(n)) AS ordered",
    "MATCH (a:A) WITH a ORDER BY a.z DESC, id(a) MATCH (b:B) RETURN b.z AS k, collect(id(a)) AS ids",
    "MATCH (a:A) WITH a ORDER BY a.z DESC, id(a) MATCH (b:B) WHERE b.x = a.x RETURN b.z AS k, collect(id(a)) AS ids",
    "MATCH (n:A) RETURN n.x AS x UNION MATCH (m:B) RETURN m.x AS x",
    "MATCH (n:A) RETURN n.z AS x UNION ALL MATCH (m)-[:s]->() RETURN m.x AS x",
    "MATCH (n) WITH [x IN [n.z, 1, 2] WHERE x > 1 | x * 2] AS l, {a: n.x} AS m RETURN l, m.a AS a, reduce(t = 0, x IN l | t + x) AS t",
    "MATCH (n:A) WITH n AS m WHERE m.z > 0 RETURN m.x AS x, CASE WHEN m.z > 1 THEN 'high' ELSE 'low' END AS c",
    // What is asked row by row.
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b:B) RETURN id(a) AS a, id(b) AS b",
    "OPTIONAL MATCH (a:A)-[:s]->(b) RETURN id(a) AS a, b.x AS x",
    "MATCH (a:A) OPTIONAL MATCH (a)-[e:r]->(b) WITH a, count(b) AS c, sum(e.w) AS w RETURN id(a) AS a, c, w",
    // OPTIONAL MATCH that is maintained, by one node, by several, over rows that are there more than once, one after the other.
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WHERE b.z > a.z AND a.x = 1 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (a)<-[:r|s]-(b) RETURN id(a) AS a, count(*) AS n, count(b) AS c",
    "MATCH (a:A)-[:r]->(h) OPTIONAL MATCH (h)<-[:s]-(m) RETURN id(a) AS a, id(h) AS h, id(m) AS m",
    "MATCH (a)-[:r]->(h) OPTIONAL MATCH (h)-[]-(m) RETURN id(h) AS h, id(m) AS m",
    "MATCH (a:A)-[:r]->(h) OPTIONAL MATCH (h)<-[:s]-(m) WHERE m.z > a.z RETURN id(h) AS h, count(m) AS c, count(*) AS n",
    "MATCH (a:A)-[q:r]->(h) OPTIONAL MATCH (h)-[e:s]->(m) WHERE e.w = q.w RETURN id(a) AS a, id(h) AS h, id(m) AS m",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) OPTIONAL MATCH (a)<-[e:s]-(c) RETURN id(a) AS a, id(b) AS b, id(c) AS c, e.w AS w",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) OPTIONAL MATCH (b)-[:s]->(c:B) RETURN id(a) AS a, b.x AS x, c.z AS z",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) OPTIONAL MATCH (b)-[:s]->(a) RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) OPTIONAL MATCH (a)-[:s]->(c)<-[:s]-(b) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WITH a, count(b) AS c OPTIONAL MATCH (a)-[:s]->(d) WHERE d.z = c RETURN id(a) AS a, c, id(d) AS d",
    "MATCH (a:A) WITH DISTINCT a UNWIND [1, 2, 2] AS i OPTIONAL MATCH (a:B)-[:s]-(b) RETURN id(a) AS a, i, b.x AS x, b.z AS z",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b) WHERE NOT EXISTS { (b)-[:s]->(a) } RETURN id(a) AS a, b.x AS x",
    "MATCH (a:A) OPTIONAL MATCH (a)-[e]->(b) RETURN properties(b) AS p, labels(b) AS l, e.w AS w, b",
    "MATCH (a:A) OPTIONAL MATCH (b:B), (c:A:B) WHERE c.z = b.z RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) OPTIONAL MATCH (a)-[:r]->(b), (c:B) WHERE c.x = b.x RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) WHERE a.z > 1 OPTIONAL MATCH (a:B) OPTIONAL MATCH (a {x: 1})-[:s]->() RETURN id(a) AS a, a.z AS z",
    "MATCH (a) WHERE EXISTS { (a)-[:r]->(:B) } RETURN id(a) AS a",
    "MATCH (a:A) WHERE NOT (a)-[:r]->() RETURN id(a) AS a",
    "MATCH (a)-[:r]->(b) WHERE NOT EXISTS { MATCH (b)-[:r]->(a) } RETURN id(a) AS a, id(b) AS b",
    "MATCH (n:A) WHERE [(n)-[:r]->(m) | m] RETURN id(n) AS n",
    "MATCH (n) WHERE labels(n) AND keys(n) RETURN id(n) AS n",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { (a)-[:r]->(b) WHERE b.x = 1 } AS c",
    "MATCH (a:A) RETURN id(a) AS a, COLLECT { MATCH (a)-[:r]->(b) RETURN b.z ORDER BY b.z } AS zs",
    "MATCH (a:A) RETURN id(a) AS a, [(a)-[:r]->(b) | b.z] AS zs",
    "MATCH (a) WITH a, [(a)-->(b) WHERE b:B | b.x] AS xs WHERE size(xs) > 1 RETURN xs, count(*) AS c",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN max(b.z) AS m } RETURN id(a) AS a, m",
    "CALL { MATCH (n:A) RETURN count(*) AS c } MATCH (m:B) RETURN id(m) AS m, c",
    "UNWIND [1, 2] AS x MATCH (n) WHERE n.x = x RETURN x, id(n) AS n",
    "MATCH (n:A) WITH max(n.z) AS top MATCH (m) WHERE m.z = top RETURN id(m) AS m, top",
    // What a join is by is asked for each row of a side.
    "MATCH (a)-[:r]->(b) WITH a, count(*) AS c MATCH (d:B {x: a.x}) RETURN id(a) AS a, c, id(d) AS d",
    "MATCH (a:A) WITH DISTINCT a MATCH (d:B) WHERE d.z = a.z RETURN id(a) AS a, id(d) AS d",
    "MATCH (a) WITH a ORDER BY a.z DESC, id(a) LIMIT 4 MATCH (d:B) WHERE size(labels(a)) = size(labels(d)) RETURN id(a) AS a, id(d) AS d",
    // What is looked for by a value, row by row.
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE b.x = a.x } RETURN id(a) AS a",
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:A) WHERE b.x = a.x AND b <> a } RETURN id(a) AS a, a.x AS x",
    "MATCH (a) WHERE EXISTS { MATCH (b {z: a.z})-[:r]->(:B) } RETURN id(a) AS a",
    "MATCH (a:A) OPTIONAL MATCH (b:B)-[:r]->(c) WHERE b.x = a.x RETURN id(a) AS a, id(b) AS b, c.z AS z",
    "MATCH (a:B) OPTIONAL MATCH (b:A:B) WHERE b.z = a.z AND b.x = a.x RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[:r]->(c) RETURN id(a) AS a, id(c) AS c, COUNT { MATCH (b:B) WHERE b.z = a.z AND b <> c } AS n",
    "MATCH (a:A) CALL { WITH a MATCH (b:B {x: a.x}) RETURN collect(b.z) AS zs } RETURN id(a) AS a, zs",
    "MATCH (a:A) WHERE EXISTS { MATCH (b:B {x: a.x})-[:s*1..2]->(c) WHERE c.z > a.z } RETURN id(a) AS a",
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B), (c:A) WHERE b.x = a.x AND c.z = b.z } RETURN id(a) AS a",
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE [b.x, b.z] = [a.x, a.z] } RETURN id(a) AS a",
    "MATCH (a)-[:s]->(b) OPTIONAL MATCH (c {x: a.x}) OPTIONAL MATCH (d:A {z: c.z}) RETURN id(a) AS a, id(b) AS b, id(c) AS c, id(d) AS d",
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE b.z + 1 = a.z } RETURN id(a) AS a",
    "MATCH (a:A) OPTIONAL MATCH (b:B)-[e:s]->(c) WHERE toString(b.x) = toString(a.z) RETURN id(a) AS a, id(b) AS b, e.w AS w",
    "MATCH (a)-[:r]->(c) WHERE EXISTS { MATCH (b) WHERE [v IN [b.x, b.z] WHERE v = 1 OR b:B | v] = [a.z] AND b <> c } RETURN id(a) AS a",
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE b.z IN [a.z, a.x, 1] AND b <> a } RETURN id(a) AS a",
    "MATCH (a:A) WHERE EXISTS { MATCH (b)-[:r]->(:B) WHERE coalesce(b.x, 2) = a.z AND b <> a } RETURN id(a) AS a",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (b:B) WHERE coalesce(b.x, 2) = a.z } AS n",
    // What is looked through, row by row.
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE b.z < a.z } RETURN id(a) AS a",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (b:B) } AS all, COUNT { MATCH (b:A:B) WHERE b.z >= a.z } AS some",
    "MATCH (a)-[:s]->(d) WHERE EXISTS { MATCH (b:B)-[e:r]->(c) WHERE b.z < a.z AND c.z > d.z AND e.w > 0 } RETURN id(a) AS a, id(d) AS d",
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE COUNT { (b)--() } = a.z RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE properties(b).z = a.z RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (b) WHERE b.z > a.z AND NOT b:A } AS others",
    "MATCH (a:A) WHERE NOT EXISTS { MATCH (b:B) WHERE b.z <= a.z AND a.z <= b.x } RETURN id(a) AS a",
    "MATCH (a:A) WHERE EXISTS { MATCH (b:A) WHERE b.z > a.z AND b.z <= a.x AND b <> a } RETURN id(a) AS a",
    "MATCH (a:B) RETURN id(a) AS a, COUNT { MATCH (b) WHERE b.x >= a.x } AS n, COUNT { MATCH (b:A) WHERE 1 < b.z } AS m",
    "MATCH (a:A) OPTIONAL MATCH (b)-[:r]->(c:B) WHERE b.x < a.x AND c.z > b.z RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A) OPTIONAL MATCH (b:B) WHERE b.x STARTS WITH a.x AND b.z < 3 RETURN id(a) AS a, id(b) AS b",
    "MATCH (a)-[:s]->(d) OPTIONAL MATCH (b:B) WHERE b.z < a.z AND b.z >= d.z RETURN id(a) AS a, id(d) AS d, b.x AS x",
    // What is looked at of edges, row by row: those between two nodes, of a type or any, and their properties.
    "MATCH (a)-[:r]->(b) WHERE NOT EXISTS { MATCH (b)-[e:r]->(a) WHERE e.w > 1 } RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A) RETURN id(a) AS a, [(a)-[e]-(b) | e.w + b.z] AS ws",
    "MATCH (a)-[e:r]->(b) RETURN id(a) AS a, e.w AS w, COUNT { MATCH (b)-[f:s]->(c) WHERE c.x = 1 AND f.w >= e.w } AS n",
    "MATCH (a:A) OPTIONAL MATCH (a)<-[e:r|s]-(b) RETURN id(a) AS a, id(b) AS b, type(e) AS t, e.w AS w",
    "MATCH (a)-[e:r]->(b) WHERE EXISTS { (a)-[:s]-(b) } RETURN id(a) AS a, id(b) AS b, e.w AS w",
    "MATCH (a)-[e:s]->(b) CALL { WITH e, a MATCH (a)-[:r]->(c) RETURN e.w + c.z AS s } RETURN id(b) AS b, s",
    "MATCH (a)-[:s]->(b) OPTIONAL MATCH (c {x: a.x})-[f:r]->(b) RETURN id(a) AS a, id(b) AS b, id(c) AS c, f.w AS w",
    "MATCH (a:A)-[:r]->(b) CALL { WITH a, b MATCH (a)-[e]->(b) RETURN collect(properties(e)) AS es } RETURN id(a) AS a, id(b) AS b, es",
    // A MATCH that goes on, with a part of its own that is held against what it goes on from.
    "MATCH (a)-[:r]->(b) MATCH (b), (c) WHERE (c)-[:s]-(b) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A)-[:r]->(b) MATCH (b), (c:B) WHERE c.x = b.x RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (a:A)-[:r]->(b) MATCH (b), (c)-[e:s]->(d) WHERE e.w > b.z AND d.z = a.z RETURN id(a) AS a, id(b) AS b, e.w AS w",
    // Chains.
    "MATCH (a:A)-[:r*1..2]->(b) RETURN id(a) AS a, id(b) AS b",
    "MATCH (a:A)-[es:s*]->(b:B) RETURN id(a) AS a, size(es) AS l, id(b) AS b",
    "MATCH (a:A)-[:s*0..2]-(b) RETURN id(a) AS a, count(*) AS c, sum(b.z) AS s",
    "MATCH (a)-[:r]->(b:B), (b)-[:s*1..3]->(c) RETURN id(a) AS a, id(c) AS c",
    "MATCH p = (a:A)-[:s*..3]->(b) RETURN length(p) AS l, count(*) AS c",
    "MATCH (a:A), (b:B), p = shortestPath((a)-[:r*]->(b)) RETURN id(a) AS a, id(b) AS b, length(p) AS l",
    "MATCH p = allShortestPaths((a:A)-[:r|s*..4]-(b:B)) RETURN id(a) AS a, id(b) AS b, count(p) AS c",
    "MATCH (a)-[e:r]->(b)-[:r*1..2]->(c:B) WHERE a.x = 1 RETURN e.w AS w, id(c) AS c",
    "MATCH (a) WHERE a.z > 0 MATCH (a)-[:s*1..2]->(b:B {x: 1}) RETURN id(a) AS a, a.z AS z, id(b) AS b",
    // Chains that ask for what stands elsewhere.
    "MATCH (c:B) MATCH p = shortestPath((a:A)-[:r*1..3]->(b:B)) WHERE c.z = length(p) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (c:B), p = shortestPath((a:A)-[:r*1..3]->(b:B)) WHERE c.z = length(p) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "UNWIND [1, 2] AS n MATCH p = allShortestPaths((a:A)-[:r*..3]->(b)) WHERE n = length(p) RETURN n, id(a) AS a, id(b) AS b",
    "MATCH (c:B) MATCH (a:A)-[rs:r*1..2]->(b) WHERE all(r IN rs WHERE r.w = c.z) RETURN id(a) AS a, id(b) AS b, id(c) AS c",
    "MATCH (c) MATCH (c)-[:s*1..2]->(d), (d)-[rs:r*1..2]->(b:B {x: 1}) WHERE none(r IN rs WHERE r.w = c.z) RETURN id(c) AS c, id(b) AS b",
    "MATCH (c:A)-[e:s]->(d) MATCH (d)-[rs:r*1..2]->(b:B {x: 1}) WHERE all(r IN rs WHERE r.w <= e.w) RETURN id(c) AS c, id(b) AS b",
];

/// An order of one clause that another one goes by, and clauses in parts of their own: of UNION, of what is asked for each row,
/// and of CALL. Where the order of rows decides, it is complete.
pub const PARTS: &[&str] = &[
    // An order that goes on.
    "MATCH (n) WITH n ORDER BY n.z DESC, id(n) RETURN n.z AS z LIMIT 3",
    "MATCH (n) WITH n ORDER BY n.z DESC, id(n) LIMIT 5 RETURN id(n) AS n, n.z AS z SKIP 2",
    "MATCH (n) WITH n ORDER BY n.z DESC, id(n) SKIP 1 WITH n, n.x AS x LIMIT 3 OPTIONAL MATCH (n)-[:r]->(m) RETURN id(n) AS n, x, id(m) AS m",
    "CALL { MATCH (n:A) RETURN n ORDER BY n.z DESC, id(n) } RETURN id(n) AS n, n.z AS z LIMIT 2",
    "CALL { MATCH (n:A) RETURN n.z AS z ORDER BY n.x DESC, id(n) } RETURN z LIMIT 3",
    "MATCH (a)-[:r]->(b) WITH a, count(b) AS c ORDER BY c DESC, id(a) WHERE c < 4 RETURN id(a) AS a, c LIMIT 2",
    "MATCH (a:A) WITH a ORDER BY a.z DESC, id(a) MATCH (a)-[:r]->(b) RETURN id(a) AS a, a.z AS z LIMIT 3",
    "MATCH (a:A) WITH a ORDER BY a.z DESC, id(a) MATCH (b:B) WHERE b.x = a.x RETURN id(a) AS a LIMIT 4",
    "MATCH (a:A) WITH a ORDER BY a.z DESC, id(a) UNWIND [2, 2] AS two RETURN id(a) AS a, two SKIP 1 LIMIT 4",
    "MATCH (a:A) WITH a ORDER BY id(a) CALL { WITH a MATCH (a)-[:r]->(b) RETURN b ORDER BY b.z DESC, id(b) } RETURN id(a) AS a, id(b) AS b LIMIT 4",
    "MATCH (a:A) WITH a ORDER BY id(a) OPTIONAL CALL (a) { MATCH (a)-[:s]->(b) RETURN b ORDER BY b.z DESC, id(b) } RETURN id(a) AS a, id(b) AS b SKIP 1 LIMIT 4",
    // All of them: where nothing is found in there `a` stays what it is.
    "MATCH (a:A) OPTIONAL CALL (a) { MATCH (a)-[:r]->(b) CALL { WITH b MATCH (b)-[:s]->(c) RETURN c ORDER BY c.z } RETURN c } RETURN id(a) AS a, id(c) AS c LIMIT 100000",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN b ORDER BY b.z DESC, id(b) } RETURN id(a) AS a, collect(id(b)) AS bs",
    "MATCH (b:B) CALL { MATCH (a:A) RETURN a ORDER BY a.z DESC, id(a) } RETURN id(b) AS b, collect(id(a)) AS ids",
    // Of UNION.
    "MATCH (n:A) RETURN id(n) AS n, n.z AS z ORDER BY z DESC, n LIMIT 2 UNION ALL MATCH (n:B) RETURN id(n) AS n, n.z AS z ORDER BY z, n SKIP 1 LIMIT 2",
    "MATCH (n:A) RETURN n.z AS z ORDER BY z DESC LIMIT 3 UNION MATCH (n)-[:s]->(m) RETURN m.z AS z ORDER BY z LIMIT 3",
    "CALL { MATCH (n:A) RETURN n ORDER BY n.z DESC, id(n) LIMIT 2 UNION MATCH (n:B) RETURN n ORDER BY n.z, id(n) LIMIT 2 } OPTIONAL MATCH (n)-[:r]->(m) RETURN id(n) AS n, count(m) AS c",
    // UNION where something is asked for each row.
    "MATCH (a:A) WHERE EXISTS { MATCH (a)-[:r]->(b) WHERE b.z > 1 RETURN b UNION MATCH (a)<-[:s]-(b) WHERE b.z < 2 RETURN b } RETURN id(a) AS a",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (a)-[:r]->(b) RETURN b UNION MATCH (a)-[:s]->(b) RETURN b } AS c",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (a)-[:r]->(b) RETURN b.z AS z UNION ALL MATCH (a)-[:s]->(b) RETURN b.z AS z } AS c",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN b UNION ALL WITH a MATCH (a)<-[:s]-(b) RETURN b } RETURN id(a) AS a, count(b) AS c, sum(b.z) AS s",
    "MATCH (a:A) CALL { WITH a MATCH (a)-[:r]->(b) RETURN b.z AS z UNION WITH a MATCH (a)-[:s]->(b) RETURN b.z AS z } RETURN id(a) AS a, z",
    "MATCH (a:A) OPTIONAL CALL (a) { MATCH (a)-[:r]->(b) RETURN b.z AS z UNION MATCH (a)-[:s]->(b) RETURN b.x AS z } RETURN id(a) AS a, z",
    // WITH, aggregates, LIMIT and DISTINCT in there.
    "MATCH (a) WHERE EXISTS { MATCH (a)-[:r]->(b) WITH b.z AS z, count(*) AS c WHERE c > 1 RETURN z } RETURN id(a) AS a",
    "MATCH (a) WHERE NOT EXISTS { MATCH (a)-->(b) WITH b ORDER BY b.z DESC, id(b) LIMIT 1 WHERE b.z > 1 RETURN b } RETURN id(a) AS a",
    "MATCH (a:A) RETURN id(a) AS a, EXISTS { MATCH (a)-[:r]->(b) WITH max(b.z) AS m WHERE m > 2 RETURN m } AS e",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (a)-->(b) RETURN DISTINCT b.x AS x } AS c",
    "MATCH (a) WHERE COUNT { MATCH (a)-[:r]->(b) WITH b ORDER BY b.z, id(b) LIMIT 2 WHERE b.z > 0 RETURN b } = 2 RETURN id(a) AS a",
    "MATCH (a:A) RETURN id(a) AS a, COUNT { MATCH (a)-->(b) WITH DISTINCT b WHERE b.z > 0 RETURN b } AS c",
    "MATCH (a:A) RETURN id(a) AS a, COLLECT { MATCH (a)-[:r]->(b) RETURN b.z AS z ORDER BY z DESC LIMIT 2 } AS zs",
    "MATCH (a:A) RETURN id(a) AS a, COLLECT { MATCH (a)-->(b) WITH b.z AS z, count(*) AS c ORDER BY z RETURN [z, c] AS l } AS ls",
    "MATCH (a) WITH a, COLLECT { MATCH (a)-[:s]->(b) WITH b ORDER BY b.z DESC, id(b) SKIP 1 LIMIT 2 RETURN b.x AS x } AS xs WHERE size(xs) > 0 RETURN id(a) AS a, xs",
    "MATCH (a:A) OPTIONAL CALL (a) { MATCH (a)-[:r]->(b:B) RETURN b.z AS z ORDER BY z DESC LIMIT 2 } RETURN id(a) AS a, z",
    "MATCH (a:A) OPTIONAL CALL (a) { MATCH (a)-[:r]->(b) WITH b.x AS x, count(*) AS c WHERE c > 1 RETURN x, c } RETURN id(a) AS a, x, c",
    // What aggregates take, and `*`.
    "MATCH (a)-[e:r]->(b) RETURN id(a) AS a, sum(duration({minutes: coalesce(e.w, 0)})) AS s, avg(duration({hours: coalesce(b.z, 0)})) AS v",
    "MATCH (n) RETURN n.x AS x, sum(DISTINCT duration({days: coalesce(n.z, 1)})) AS s, max(duration({days: coalesce(n.z, 1)})) AS m",
    "MATCH (a:A)-[e:r]->(b) RETURN id(a) AS a, collect({z: b.z, w: e.w}) AS ms, collect(DISTINCT {x: b.x}) AS xs",
    "MATCH (a)-[:r]->(b) WITH a, b ORDER BY b.z DESC, id(b) RETURN id(a) AS a, collect({of: id(b), z: b.z})[0] AS first",
    "MATCH (a:A)-[e:r]->(b) WITH *, e.w * 2 AS d WHERE d > 2 RETURN id(a) AS a, d, count(b) AS c",
    "MATCH (n) WITH *, n.z AS z ORDER BY z DESC, id(n) LIMIT 3 RETURN id(n) AS n, z",
    "MATCH (a:A) WITH a.x AS x, a.z AS z RETURN *",
    "MATCH (a:A)-[:s]->(b) RETURN *",
    // Shortest paths where there may be none.
    "MATCH (a:A), (b:B) OPTIONAL MATCH p = shortestPath((a)-[:r*..3]->(b)) RETURN id(a) AS a, id(b) AS b, length(p) AS l",
    "MATCH (a:A) OPTIONAL MATCH p = allShortestPaths((a)-[:r|s*..3]-(b:B)) RETURN id(a) AS a, id(b) AS b, count(p) AS c",
    "MATCH (a:A), (b:B) WHERE EXISTS { MATCH p = shortestPath((a)-[:s*]-(b)) WHERE length(p) >= 2 } RETURN id(a) AS a, id(b) AS b",
];

/// Two parts, the second of which is held against the first: by its paths and lists, and by what is asked of the graph for each
/// row.
pub fn held_against(random: &mut Random) -> String {
    // What the first part is, and an integer of it.
    let (first, value) = pick(
        random,
        &[
            ("MATCH (c:A)", "c.z"),
            ("MATCH (c:B)-[e:s]->(d)", "e.w"),
            ("MATCH (c)-[:s]->(d:A)", "d.z"),
            ("MATCH (c:A) WITH c, c.z + 1 AS k", "k"),
            ("MATCH (c:A) MATCH (d:B)", "d.z"),
            ("MATCH (c:B) UNWIND [1, c.z] AS k", "k"),
            ("MATCH (c:A)-[:s*1..2]->(d)", "d.z"),
        ],
    );
    let (pattern, path) = pick(
        random,
        &[
            ("p = shortestPath((a:A)-[:r*1..3]->(b:B))", "relationships(p)"),
            ("p = allShortestPaths((a:A)-[:r|s*..3]-(b:B))", "relationships(p)"),
            ("p = shortestPath((a)-[rs:r*..4]->(b:B))", "rs"),
            ("p = (a:A)-[rs:r*1..2]->(b)", "rs"),
            ("p = (a:A)-[:s]->(b)-[rs:r*1..2]->(g:B)", "rs"),
            ("p = (a:A)-[rs:s]->(b)", "relationships(p)"),
            ("(g:B)-->(a), p = shortestPath((a)-[rs:r*1..3]->(b:A))", "rs"),
        ],
    );
    // What nothing stands behind goes on in the same MATCH, too.
    let go_on = [" MATCH ", " MATCH (c), ", " MATCH (c)--(y), ", ", "];
    let go_on = pick(random, if value == "k" { &go_on[..3] } else { &go_on });
    let conditions: Vec<String> = (0..2)
        .map(|_| {
            let condition = pick(
                random,
                &[
                    "length(p) = VALUE",
                    "length(p) + a.z >= VALUE",
                    "size(LIST) <> VALUE",
                    "all(n IN nodes(p) WHERE n.z IS NULL OR n.z <> VALUE)",
                    "none(n IN nodes(p) WHERE n.z = VALUE + 1)",
                    "any(n IN nodes(p) WHERE n.z = VALUE)",
                    "all(r IN LIST WHERE r.w IS NULL OR r.w >= VALUE)",
                    "none(r IN LIST WHERE r.w = VALUE)",
                    "reduce(t = 0, r IN LIST | t + coalesce(r.w, 0)) > VALUE",
                    "b.z = VALUE",
                    "size([(b)-->(o) WHERE o.z = VALUE | o]) > 0",
                    "COUNT { (a)--(o) WHERE o.z <= VALUE } >= length(p)",
                    "EXISTS { MATCH (b)-[:r]-(o) WHERE o.z = VALUE }",
                    "NOT EXISTS { MATCH (o:B) WHERE o.z = VALUE AND o <> b }",
                ],
            );
            condition.replace("VALUE", value).replace("LIST", path)
        })
        .collect();
    let condition = match pick(random, &["one", "AND", "OR"]) {
        "one" => conditions[0].clone(),
        word => conditions.join(&format!(" {word} ")),
    };
    let columns = pick(
        random,
        &[
            "id(a) AS a, id(b) AS b, id(c) AS c, length(p) AS l",
            "id(c) AS c, VALUE AS v, count(*) AS n, sum(length(p)) AS l",
            "DISTINCT id(a) AS a, VALUE AS v",
        ],
    );
    format!("{first}{go_on}{pattern} WHERE {condition} RETURN {}", columns.replace("VALUE", value))
}

fn pick<T: Copy>(random: &mut Random, list: &[T]) -> T {
    list[random.below(list.len() as u64) as usize]
}

pub const NODES: u64 = 9;

/// The changes of one record: one to three of any kind, deletions included. `z` and `w` hold integers alone.
pub fn random_record(random: &mut Random, graph: &Graph, out: &mut Mutations) {
    let symbol = |name: &str| graph.symbols().intern(name);
    for _ in 0..=random.below(3) {
        let (source, target) = (node(random.below(NODES)), node(random.below(NODES)));
        let kind = symbol(if random.below(3) > 0 { "r" } else { "s" });
        match random.below(12) {
            0 | 1 => out.set_label(target, symbol(if random.below(2) == 0 { "A" } else { "B" }), random.below(3) > 0),
            2 | 3 => {
                let value = match random.below(6) {
                    0 => Value::Null,
                    1 => Value::text("a text that is too long to lie inline"),
                    2 => Value::Float(1.0),
                    n => Value::Integer(n as i64 - 3),
                };
                out.set_property(target, symbol("x"), &value);
            }
            4 | 5 => {
                let value = if random.below(5) == 0 { Value::Null } else { Value::Integer(random.below(4) as i64) };
                out.set_property(target, symbol("z"), &value);
            }
            6 if random.below(4) == 0 => out.clear_properties(target),
            7 | 8 => out.set_edge(source, kind, target, 0, true),
            9 => out.set_edge_property(source, kind, target, 0, symbol("w"), &Value::Integer(random.below(4) as i64)),
            // Edges of a small corner, so that those that are there go too.
            _ => out.set_edge(node(random.below(4)), kind, node(random.below(4)), 0, random.below(3) == 0),
        }
    }
}

/// Lists whose order nothing in the query tells are compared as multisets.
pub fn comparable(value: &Value, ordered: bool) -> Value {
    match value {
        Value::List(items) => {
            let mut items: Vec<Value> = items.iter().map(|item| comparable(item, ordered)).collect();
            if !ordered {
                items.sort();
            }
            Value::list(items)
        }
        other => other.clone(),
    }
}

pub fn comparable_rows(rows: Rows, ordered: bool) -> Rows {
    let mut result = Rows::new();
    for (row, count) in rows {
        *result.entry(row.iter().map(|value| comparable(value, ordered)).collect()).or_default() += count;
    }
    result
}
