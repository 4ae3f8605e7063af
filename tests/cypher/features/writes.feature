Feature: Writes - what later clauses see of them

  Scenario Outline: [1] What was deleted is not asked for its content
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1})-[:T {y: 2}]->(:B)
      """
    When executing query:
      """
      MATCH (a:A)-[r:T]->(b)
      DELETE <deleted>
      RETURN <asked>
      """
    Then a EntityNotFound should be raised at runtime: DeletedEntityAccess

    Examples:
      | deleted | asked         |
      | r       | r.y           |
      | r       | properties(r) |
      | r       | keys(r)       |
      | a, r    | a.x           |
      | a, r    | labels(a)     |
      | a, r    | a['x']        |
      | a, r    | a:A           |

  Scenario Outline: [17] What was deleted is not changed
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1})-[:T {y: 2}]->(:B)
      """
    When executing query:
      """
      MATCH (a:A)-[r:T]->(b)
      DELETE a, r
      <change>
      """
    Then a EntityNotFound should be raised at runtime: DeletedEntityAccess

    Examples:
      | change                |
      | SET a.x = 2           |
      | SET a += {y: 1}       |
      | SET a:C               |
      | SET r.y = 1           |
      | SET r = {}            |
      | REMOVE a.x            |
      | CREATE (a)-[:S]->(b)  |

  Scenario: [2] The type of a deleted relationship is still known
    Given an empty graph
    And having executed:
      """
      CREATE ()-[:T]->()
      """
    When executing query:
      """
      MATCH ()-[r]->()
      DELETE r
      RETURN type(r) AS t
      """
    Then the result should be, in any order:
      | t   |
      | 'T' |
    And the side effects should be:
      | -relationships | 1 |

  Scenario: [3] A new relationship is not the one that was deleted before it
    Given an empty graph
    And having executed:
      """
      CREATE (a:A)-[:T {n: 1}]->(b:B)
      """
    When executing query:
      """
      MATCH (a)-[old:T]->(b)
      DELETE old
      CREATE (a)-[new:T {n: 2}]->(b)
      RETURN new.n AS n
      """
    Then the result should be, in any order:
      | n |
      | 2 |
    And the side effects should be:
      | +relationships | 1 |
      | -relationships | 1 |
      | +properties    | 1 |
      | -properties    | 1 |

  Scenario: [4] A bare node is there until it is deleted
    Given an empty graph
    And having executed:
      """
      CREATE (), (), ()
      """
    When executing query:
      """
      MATCH (n)
      WITH n LIMIT 2
      DELETE n
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes | 2 |
    When executing control query:
      """
      MATCH (n)
      RETURN n
      """
    Then the result should be, in any order:
      | n  |
      | () |

  Scenario: [5] Removing the last property leaves the node
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1})
      """
    When executing query:
      """
      MATCH (n:A)
      REMOVE n:A, n.x
      RETURN n
      """
    Then the result should be, in any order:
      | n  |
      | () |
    And the side effects should be:
      | -labels     | 1 |
      | -properties | 1 |

  Scenario: [6] Items of SET follow one another
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1})
      """
    When executing query:
      """
      MATCH (n:A)
      SET n.x = n.x + 1, n.y = n.x, (n).z = n.y + 1
      RETURN n.x, n.y, n.z
      """
    Then the result should be, in any order:
      | n.x | n.y | n.z |
      | 2   | 2   | 3   |
    And the side effects should be:
      | +properties | 3 |
      | -properties | 1 |

  Scenario: [7] A list property grows by a list
    Given an empty graph
    When executing query:
      """
      CREATE (n {l: [1, 2]})
      SET n.l = n.l + [3], n.k = [0] + n.l
      RETURN n.l, n.k
      """
    Then the result should be, in any order:
      | n.l       | n.k          |
      | [1, 2, 3] | [0, 1, 2, 3] |
    And the side effects should be:
      | +nodes      | 1 |
      | +properties | 2 |

  Scenario: [8] CREATE sees the rows of the clauses before it
    Given an empty graph
    And having executed:
      """
      CREATE (), ()
      """
    When executing query:
      """
      MATCH ()
      CREATE ()
      WITH *
      MATCH ()
      CREATE ()
      """
    Then the result should be empty
    And the side effects should be:
      | +nodes | 10 |

  Scenario: [9] Nodes pass from clause to clause and are connected at last
    Given an empty graph
    When executing query:
      """
      CREATE (a)
      WITH a
      UNWIND [0, 1] AS i
      MERGE (b {i: i})
      CREATE (a)<-[:T]-(b)
      WITH a
      WHERE a IS NOT NULL
      MATCH (a)<-[r:T]-()
      RETURN count(r) AS c
      """
    Then the result should be, in any order:
      | c |
      | 4 |
    And the side effects should be:
      | +nodes         | 3 |
      | +relationships | 2 |
      | +properties    | 2 |

  Scenario: [10] MERGE finds what it made for an earlier row
    Given an empty graph
    When executing query:
      """
      UNWIND [1, 2, 1, 2, 3] AS n
      MERGE (x:N {n: n})
        ON CREATE SET x.made = 1
        ON MATCH SET x.made = x.made + 1
      RETURN x.n AS n, max(x.made) AS made
      """
    Then the result should be, in any order:
      | n | made |
      | 1 | 2    |
      | 2 | 2    |
      | 3 | 1    |
    And the side effects should be:
      | +nodes      | 3 |
      | +labels     | 1 |
      | +properties | 6 |

  Scenario: [11] MERGE of a relationship without a direction finds either, and makes one
    Given an empty graph
    And having executed:
      """
      CREATE (a:A), (b:B), (b)-[:T]->(a)
      """
    When executing query:
      """
      MATCH (a:A), (b:B)
      MERGE (a)-[r:T]-(b)
      MERGE (a)-[s:S]-(b)
      RETURN startNode(r) = b AS found, startNode(s) = a AS made
      """
    Then the result should be, in any order:
      | found | made |
      | true  | true |
    And the side effects should be:
      | +relationships | 1 |

  Scenario Outline: [12] MERGE by null is refused
    Given any graph
    When executing query:
      """
      <query>
      """
    Then a SemanticError should be raised at runtime: MergeReadOwnWrites

    Examples:
      | query                                      |
      | MERGE ({x: null})                          |
      | MERGE (:A {x: 1, y: null})                 |
      | MERGE (a)-[:T {x: null}]->(b)              |
      | UNWIND [1, null] AS x MERGE (:A {x: x})    |

  Scenario: [13] LIMIT does not undo what the rows did
    Given an empty graph
    When executing query:
      """
      UNWIND range(1, 5) AS i
      CREATE (n:N {i: i})
      RETURN n.i AS i
      LIMIT 0
      """
    Then the result should be, in any order:
      | i |
    And the side effects should be:
      | +nodes      | 5 |
      | +labels     | 1 |
      | +properties | 5 |

  Scenario: [14] A deleted path takes its nodes and relationships along
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B)-[:T]->(:C)
      """
    When executing query:
      """
      MATCH p = (:A)-->()-->()
      DETACH DELETE p
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes         | 3 |
      | -relationships | 2 |
      | -labels        | 3 |

  Scenario: [15] Entities in lists and maps can be deleted
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B), (:C)
      """
    When executing query:
      """
      MATCH (a:A)-[r]->(b:B), (c:C)
      WITH [r] AS l, {n: {m: [c]}} AS m
      DELETE l[0], m.n.m[0]
      """
    Then the result should be empty
    And the side effects should be:
      | -nodes         | 1 |
      | -relationships | 1 |
      | -labels        | 1 |

  Scenario: [16] A node with relationships is not deleted
    Given an empty graph
    And having executed:
      """
      CREATE (:A)-[:T]->(:B)
      """
    When executing query:
      """
      MATCH (a:A)
      DELETE a
      """
    Then a ConstraintVerificationFailed should be raised at runtime: DeleteConnectedNode

  Scenario: [17] A path that FOREACH creates is there for what follows it
    Given an empty graph
    When executing query:
      """
      FOREACH (x IN [1, 2] |
        CREATE p = (a:A {x: x})-[:R]->(b:B)<-[:S]-(c:C), q = (d:D)
        SET a.length = length(p), d.length = length(q)
        FOREACH (n IN nodes(p) | SET n.seen = x))
      WITH 1 AS one
      MATCH (a:A)-[:R]->(b:B)<-[:S]-(c:C)
      RETURN a.x, a.length, a.seen, b.seen, c.seen
      """
    Then the result should be, in any order:
      | a.x | a.length | a.seen | b.seen | c.seen |
      | 1   | 2        | 1      | 1      | 1      |
      | 2   | 2        | 2      | 2      | 2      |
    And the side effects should be:
      | +nodes         | 8  |
      | +relationships | 4  |
      | +labels        | 4  |
      | +properties    | 12 |

  Scenario: [18] A path that FOREACH merges is there for what follows it
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1})-[:R]->(:B)
      """
    When executing query:
      """
      FOREACH (x IN [1, 2, 2] |
        MERGE p = (a:A {x: x})-[:R]->(b:B)
        SET a.length = length(p)
        FOREACH (n IN nodes(p) | SET n.count = coalesce(n.count, 0) + 1))
      WITH 1 AS one
      MATCH (a:A)-[:R]->(b:B)
      RETURN a.x, a.length, a.count, b.count
      """
    Then the result should be, in any order:
      | a.x | a.length | a.count | b.count |
      | 1   | 1        | 1       | 1       |
      | 2   | 1        | 2       | 2       |
    And the side effects should be:
      | +nodes         | 2 |
      | +relationships | 1 |
      | +properties    | 7 |
