Feature: Patterns - relationships of variable length, subqueries, label expressions, shortest paths

  Scenario: [1] A length of one is still a list
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (:A)-[r*1..1]->(x)
      RETURN r, x.name
      """
    Then the result should be, in any order:
      | r             | x.name |
      | [[:R {n: 1}]] | 'b'    |
    And no side effects

  Scenario: [2] The list runs as the pattern is written
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (x)<-[r*2]-(:A)
      RETURN [e IN r | e.n] AS n
      """
    Then the result should be, in any order:
      | n      |
      | [2, 1] |
    And no side effects

  Scenario: [3] Parts that may be empty are all tried
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (:A)-[:R*0..1]->(x)-[:R*0..1]->(y)
      RETURN x.name, y.name
      """
    Then the result should be, in any order:
      | x.name | y.name |
      | 'a'    | 'a'    |
      | 'a'    | 'b'    |
      | 'b'    | 'b'    |
      | 'b'    | 'c'    |
    And no side effects

  Scenario: [4] A property map holds for every relationship
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:W {y: 1}]->(b)-[:W {y: 1}]->(:B {n: 1}), (b)-[:W {y: 2}]->(:B {n: 2})
      """
    When executing query:
      """
      MATCH (:A)-[:W* {y: 1}]->(x:B)
      RETURN x.n
      """
    Then the result should be, in any order:
      | x.n |
      | 1   |
    And no side effects

  Scenario: [5] A property map may name the other end
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:W {y: 1}]->({z: 1}), (a)-[:W {y: 1}]->({z: 2})
      """
    When executing query:
      """
      MATCH (:A)-[:W* {y: x.z}]->(x)
      RETURN x.z
      """
    Then the result should be, in any order:
      | x.z |
      | 1   |
    And no side effects

  Scenario: [6] No relationship twice between the parts of one MATCH
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH ()-[r1:R]->(b)-[r2*1..2]->()
      RETURN r1 IN r2 AS twice, count(*) AS c
      """
    Then the result should be, in any order:
      | twice | c |
      | false | 6 |
    And no side effects

  Scenario: [7] A second MATCH may find it again
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (a:A)-[:R]->(b)
      MATCH (a)-[*1]-(b)
      RETURN count(*) AS c
      """
    Then the result should be, in any order:
      | c |
      | 1 |
    And no side effects

  Scenario: [8] A bound relationship is not in the chains beside it
    Given an empty graph
    And having executed:
      """
      CREATE (:N)-[:E]->(:N)-[:E]->(:N)
      """
    When executing query:
      """
      MATCH ()-[r]->()
      MATCH p = (x)-[*0..1]-()-[r]-()-[*0..1]-(y)
      RETURN length(p) AS l, count(*) AS c
      """
    Then the result should be, in any order:
      | l | c |
      | 1 | 4 |
      | 2 | 4 |
    And no side effects

  Scenario: [9] A list of relationships is matched as it is
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH ()-[x:R]->()-[y:R]->()
      WITH [x, y] AS rs
      MATCH (a)-[rs*]->(b)
      RETURN a.name, b.name
      """
    Then the result should be, in any order:
      | a.name | b.name |
      | 'a'    | 'c'    |
      | 'b'    | 'd'    |
    And no side effects

  Scenario: [10] A list in the wrong order is no match
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (:A)-[x:R]->()-[y:R]->()
      WITH [y, x] AS rs
      MATCH (a)-[rs*]->(b)
      RETURN a
      """
    Then the result should be, in any order:
      | a |
    And no side effects

  Scenario: [11] From null there is no way
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      OPTIONAL MATCH (n:None)
      OPTIONAL MATCH (n)-[r*0..]->(m)
      RETURN n, r, m
      """
    Then the result should be, in any order:
      | n    | r    | m    |
      | null | null | null |
    And no side effects

  Scenario: [12] A path that goes there and back
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH p = (:A)-[:R*]->(:C)-->(:A)
      RETURN p, length(p) AS l
      """
    Then the result should be, in any order:
      | p                                                                                                            | l |
      | <(:A {name: 'a'})-[:R {n: 1}]->(:B {name: 'b'})-[:R {n: 2}]->(:C {name: 'c'})-[:S {n: 4}]->(:A {name: 'a'})> | 3 |
    And no side effects

  Scenario: [13] A path against the direction
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH p = (:C)<-[:R*]-(:A)
      RETURN p
      """
    Then the result should be, in any order:
      | p                                                                              |
      | <(:C {name: 'c'})<-[:R {n: 2}]-(:B {name: 'b'})<-[:R {n: 1}]-(:A {name: 'a'})> |
    And no side effects

  Scenario: [14] Paths over the same parts are equal
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH p = (:A)-[*2]->()
      MATCH q = (:A)-->()-->()
      RETURN p = q AS same, nodes(p) = nodes(q) AS parts
      """
    Then the result should be, in any order:
      | same | parts |
      | true | true  |
    And no side effects

  Scenario: [15] A relationship of the path counts once however it is reached
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:R]->(a)
      """
    When executing query:
      """
      MATCH p = (a:A)-[*]-(b)
      RETURN length(p) AS l
      """
    Then the result should be, in any order:
      | l |
      | 1 |
    And no side effects

  Scenario: [16] What is deleted is found first
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (:A)-[r:R*3]->()
      UNWIND r AS e
      DELETE e
      RETURN count(*) AS c
      """
    Then the result should be, in any order:
      | c |
      | 3 |
    And the side effects should be:
      | -relationships | 3 |
      | -properties    | 3 |

  Scenario: [17] A pattern under NOT and OR
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n)
      WHERE NOT (n)-[:R]->() OR (n)-[:S]->()
      RETURN n.name
      """
    Then the result should be, in any order:
      | n.name |
      | 'c'    |
      | 'd'    |
    And no side effects

  Scenario: [18] A pattern between two variables with a label on one
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (x), (y)
      WHERE (x)-[:R*2]->(y:C)
      RETURN x.name, y.name
      """
    Then the result should be, in any order:
      | x.name | y.name |
      | 'a'    | 'c'    |
    And no side effects

  Scenario: [19] A pattern as the condition of CASE and of a quantifier
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH p = (:B)-[:R*]->(:D)
      RETURN [x IN nodes(p) | CASE WHEN (x)-[:S]->() THEN 1 ELSE 0 END] AS l, any(x IN nodes(p) WHERE (x)-[:S]->()) AS some
      """
    Then the result should be, in any order:
      | l         | some |
      | [0, 1, 0] | true |
    And no side effects

  Scenario: [20] A pattern in the condition of an OPTIONAL MATCH
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n)
      OPTIONAL MATCH (n)-[r]->(m)
      WHERE (m)-[:S]->()
      RETURN n.name, r.n
      """
    Then the result should be, in any order:
      | n.name | r.n  |
      | 'a'    | null |
      | 'b'    | 2    |
      | 'c'    | null |
      | 'd'    | null |
    And no side effects

  Scenario: [21] A pattern is no value: RETURN (n)-->()
    Given any graph
    When executing query:
      """
      MATCH (n)
      RETURN (n)-->()
      """
    Then a SyntaxError should be raised at compile time: UnexpectedSyntax

  Scenario: [22] A pattern is no value: WITH (n)-->() AS p RETURN p
    Given any graph
    When executing query:
      """
      MATCH (n)
      WITH (n)-->() AS p RETURN p
      """
    Then a SyntaxError should be raised at compile time: UnexpectedSyntax

  Scenario: [23] A pattern is no value: RETURN size((n)-->())
    Given any graph
    When executing query:
      """
      MATCH (n)
      RETURN size((n)-->())
      """
    Then a SyntaxError should be raised at compile time: UnexpectedSyntax

  Scenario: [24] A pattern is no value: SET n.x = (n)-->()
    Given any graph
    When executing query:
      """
      MATCH (n)
      SET n.x = (n)-->()
      """
    Then a SyntaxError should be raised at compile time: UnexpectedSyntax

  Scenario: [25] A pattern is no value: WITH n ORDER BY (n)-->() RETURN n
    Given any graph
    When executing query:
      """
      MATCH (n)
      WITH n ORDER BY (n)-->() RETURN n
      """
    Then a SyntaxError should be raised at compile time: UnexpectedSyntax

  Scenario: [26] A pattern predicate brings no variables: (n)-[r]->()
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE (n)-[r]->()
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: [27] A pattern predicate brings no variables: (n)-->(m)
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE (n)-->(m)
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: [28] A pattern predicate brings no variables: (n)-[:R*1..2]->(m {x: 1})
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE (n)-[:R*1..2]->(m {x: 1})
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: [29] A pattern predicate brings no variables: NOT (m)--(n)
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE NOT (m)--(n)
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: [30] A subquery sees the row, also behind WITH
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n)
      WHERE EXISTS {
        MATCH (n)-->(m)
        WITH m, count(*) AS c
        MATCH (m)-->(o)
        WHERE o.name > n.name
      }
      RETURN n.name
      """
    Then the result should be, in any order:
      | n.name |
      | 'a'    |
      | 'b'    |
    And no side effects

  Scenario: [31] A subquery may hold a UNION
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n)
      RETURN n.name, COUNT { MATCH (n)-[:S]->(m) RETURN m UNION MATCH (n)<-[:S]-(m) RETURN m } AS c
      """
    Then the result should be, in any order:
      | n.name | c |
      | 'a'    | 1 |
      | 'b'    | 0 |
      | 'c'    | 1 |
      | 'd'    | 0 |
    And no side effects

  Scenario: [32] A subquery collects in order
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n:C)
      RETURN COLLECT { MATCH (n)--(m) RETURN m.name ORDER BY m.name DESC } AS l
      """
    Then the result should be, in any order:
      | l               |
      | ['d', 'b', 'a'] |
    And no side effects

  Scenario: [33] What a subquery binds stays inside
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE EXISTS { (n)-->(m) }
      RETURN m
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

  Scenario: [34] A subquery changes nothing: CREATE (n)-[:X]->()
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE EXISTS { MATCH (n) CREATE (n)-[:X]->() }
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: [35] A subquery changes nothing: MERGE (n)-[:X]->(m)
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE EXISTS { MATCH (n) MERGE (n)-[:X]->(m) }
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: [36] A subquery changes nothing: DELETE n
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE EXISTS { MATCH (n) DELETE n }
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: [37] A subquery changes nothing: REMOVE n.x
    Given any graph
    When executing query:
      """
      MATCH (n)
      WHERE EXISTS { MATCH (n) REMOVE n.x }
      RETURN n
      """
    Then a SyntaxError should be raised at compile time: InvalidClauseComposition

  Scenario: [38] A comprehension in a comprehension
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n:A)
      RETURN [(n)-[:R]->(m) | [(m)-[:R]->(o) WHERE o.name <> n.name | n.name + m.name + o.name]] AS l
      """
    Then the result should be, in any order:
      | l         |
      | [['abc']] |
    And no side effects

  Scenario: [39] A comprehension over nothing
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      OPTIONAL MATCH (n:None)
      RETURN [(n)-->(m) | m] AS l
      """
    Then the result should be, in any order:
      | l  |
      | [] |
    And no side effects

  Scenario: [40] A comprehension groups
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (n)
      RETURN size([(n)-->() | 1]) AS degree, count(*) AS c
        ORDER BY degree
      """
    Then the result should be, in order:
      | degree | c |
      | 0      | 1 |
      | 1      | 2 |
      | 2      | 1 |
    And no side effects

  Scenario: [41] Either label, both, none
    Given an empty graph
    And having executed:
      """
      CREATE (:A {n: 1}), (:A:B {n: 2}), (:B {n: 3}), ({n: 4})
      """
    When executing query:
      """
      MATCH (n)
      RETURN n.n, n:A|B AS either, n:A&B AS both, n:!% AS none
      """
    Then the result should be, in any order:
      | n.n | either | both  | none  |
      | 1   | true   | false | false |
      | 2   | true   | true  | false |
      | 3   | true   | false | false |
      | 4   | false  | false | true  |
    And no side effects

  Scenario: [42] Label expressions in patterns
    Given an empty graph
    And having executed:
      """
      CREATE (:A {n: 1}), (:A:B {n: 2}), (:B {n: 3}), ({n: 4})
      """
    When executing query:
      """
      MATCH (x:A&!B), (y:!(A|B)), (z:A|B WHERE z.n = 3)
      RETURN x.n, y.n, z.n
      """
    Then the result should be, in any order:
      | x.n | y.n | z.n |
      | 1   | 4   | 3   |
    And no side effects

  Scenario: [43] Type expressions
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH ()-[r:!R|R&!%]->()
      RETURN r.n
      """
    Then the result should be, in any order:
      | r.n |
      | 4   |
    And no side effects

  Scenario: [44] A label test of null is null
    Given any graph
    When executing query:
      """
      OPTIONAL MATCH (n:None)
      RETURN n:A|B AS either, n:!A AS other
      """
    Then the result should be, in any order:
      | either | other |
      | null   | null  |
    And no side effects

  Scenario: [45] A shortest path
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (a:A), (d:D)
      MATCH p = shortestPath((a)-[*]-(d))
      RETURN p
      """
    Then the result should be, in any order:
      | p                                                                              |
      | <(:A {name: 'a'})<-[:S {n: 4}]-(:C {name: 'c'})-[:R {n: 3}]->(:D {name: 'd'})> |
    And no side effects

  Scenario: [46] The shortest of the paths that meet a condition
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH p = shortestPath((:A)-[*]-(:D))
      WHERE any(x IN nodes(p) WHERE x:B)
      RETURN length(p) AS l
      """
    Then the result should be, in any order:
      | l |
      | 3 |
    And no side effects

  Scenario: [47] All shortest paths
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:R]->({n: 1})-[:R]->(b:B), (a)-[:R]->({n: 2})-[:R]->(b)
      """
    When executing query:
      """
      MATCH p = allShortestPaths((:A)-[*]->(:B))
      RETURN nodes(p)[1].n AS n
      """
    Then the result should be, in any order:
      | n |
      | 1 |
      | 2 |
    And no side effects

  Scenario: [48] No shortest path is null
    Given an empty graph
    And having executed:
      """
      CREATE (a:A {name: 'a'})-[:R {n: 1}]->(b:B {name: 'b'})-[:R {n: 2}]->(c:C {name: 'c'})-[:R {n: 3}]->(d:D {name: 'd'}), (c)-[:S {n: 4}]->(a)
      """
    When executing query:
      """
      MATCH (a:A), (d:D)
      RETURN shortestPath((d)-[*]->(a)) AS p, allShortestPaths((d)-[*]->(a)) AS all
      """
    Then the result should be, in any order:
      | p    | all |
      | null | []  |
    And no side effects

  Scenario: [49] MERGE inside FOREACH finds what it made
    Given an empty graph
    And having executed:
      """
      CREATE ()
      """
    When executing query:
      """
      FOREACH (x IN [1, 2, 1] | MERGE (n:N {x: x}) ON MATCH SET n.again = true)
      WITH 1 AS one
      MATCH (n:N)
      RETURN n.x, n.again
      """
    Then the result should be, in any order:
      | n.x | n.again |
      | 1   | true    |
      | 2   | null    |
    And the side effects should be:
      | +nodes      | 2 |
      | +labels     | 1 |
      | +properties | 3 |
  Scenario: [50] OPTIONAL CALL keeps a row for which the call gives none
    Given an empty graph
    And having executed:
      """
      CREATE (:A {n: 1})-[:R]->(:B {n: 10}), (:A {n: 2})
      """
    When executing query:
      """
      MATCH (a IS A)
      OPTIONAL CALL (a) { MATCH (a)-[:R]->(b IS B) RETURN b.n AS found, a.n + b.n AS sum }
      OPTIONAL CALL { WITH a MATCH (a)-[:NONE]->(c) RETURN c }
      RETURN a.n, found, sum, c IS NULL AS none
      """
    Then the result should be, in any order:
      | a.n | found | sum  | none |
      | 1   | 10    | 11   | true |
      | 2   | null  | null | true |
    And no side effects

  Scenario: [51] OPTIONAL CALL of what only writes passes each row on
    Given an empty graph
    When executing query:
      """
      UNWIND [1, 2, 3] AS x
      OPTIONAL CALL (x) { WITH x WHERE x > 1 CREATE (:N {x: x}) }
      RETURN count(x) AS rows
      """
    Then the result should be, in any order:
      | rows |
      | 3    |
    And the side effects should be:
      | +nodes      | 2 |
      | +labels     | 1 |
      | +properties | 2 |

  Scenario: [52] OPTIONAL CALL of a procedure
    Given an empty graph
    When executing query:
      """
      UNWIND [true, false] AS known
      OPTIONAL CALL cypher.runTimeboxed('UNWIND $rows AS n RETURN n', {rows: CASE known WHEN true THEN [1, 2] ELSE [] END}, 1000) YIELD value
      RETURN known, value
      """
    Then the result should be, in any order:
      | known | value  |
      | true  | {n: 1} |
      | true  | {n: 2} |
      | false | null   |
    And no side effects

  Scenario: [53] Several values of one branch, FROM in trim, labels by IS
    Given an empty graph
    And having executed:
      """
      CREATE (:A:B {n: 'xxax'}), (:A {n: 'b'})
      """
    When executing query:
      """
      MATCH (a)
      RETURN CASE a.n WHEN 'a', 'b' THEN 1 WHEN 'xxax', 'c' THEN 2 END AS branch,
             a IS B AS b, a IS A&!B AS onlyA, trim(LEADING 'x' FROM a.n) AS text
      ORDER BY branch
      """
    Then the result should be, in order:
      | branch | b     | onlyA | text |
      | 1      | false | true  | 'b'  |
      | 2      | true  | false | 'ax' |
    And no side effects
