Feature: Values - functions and projections

  Scenario Outline: [1] The extremes of mixed values follow the order of types
    Given any graph
    When executing query:
      """
      UNWIND <list> AS x
      RETURN max(x) AS max, min(x) AS min
      """
    Then the result should be, in any order:
      | max   | min   |
      | <max> | <min> |

    Examples:
      | list                               | max      | min    |
      | [1, 2, 0, null, -1]                | 2        | -1     |
      | [1.0, 2.0, 0.5, null]              | 2.0      | 0.5    |
      | [1, 2.0, 5, null, 3.2, 0.1]        | 5        | 0.1    |
      | ['a', 'b', 'B', null, 'abc']       | 'b'      | 'B'    |
      | [[1], [2], [2, 1]]                 | [2, 1]   | [1]    |
      | [1, 'a', null, [1, 2], 0.2, 'b']   | 1        | [1, 2] |
      | [null]                             | null     | null   |

  Scenario Outline: [2] Sizes, keys and properties
    Given an empty graph
    And having executed:
      """
      CREATE (:A {x: 1, y: null, z: 2})-[:T {w: 3}]->()
      """
    When executing query:
      """
      MATCH (a:A)-[r]->(b)
      OPTIONAL MATCH (b)-[nothing]->(none)
      RETURN <expression> AS v
      """
    Then the result should be (ignoring element order for lists):
      | v       |
      | <value> |
    And no side effects

    Examples:
      | expression                    | value        |
      | size([1, [2, 3], null])       | 3            |
      | size(null)                    | null         |
      | size('')                      | 0            |
      | keys(a)                       | ['x', 'z']   |
      | keys(r)                       | ['w']        |
      | keys(b)                       | []           |
      | keys(none)                    | null         |
      | keys({k: 1, l: null})         | ['k', 'l']   |
      | keys(null)                    | null         |
      | 'x' IN keys(a)                | true         |
      | 'y' IN keys(a)                | false        |
      | properties(a)                 | {x: 1, z: 2} |
      | properties(r)                 | {w: 3}       |
      | properties({p: [1]})          | {p: [1]}     |
      | properties(null)              | null         |
      | properties(nothing)           | null         |
      | labels(none)                  | null         |
      | type(nothing)                 | null         |
      | none.x                        | null         |
      | a:A                           | true         |
      | a:B                           | false        |
      | a:A:B                         | false        |
      | none:A                        | null         |
      | r:T                           | true         |
      | id(a) = id(a)                 | true         |
      | id(r) = id(r)                 | true         |
      | id(nothing)                   | null         |
      | [a, r, b]                     | [(:A {x: 1, z: 2}), [:T {w: 3}], ()] |
      | {a: a, r: r}                  | {a: (:A {x: 1, z: 2}), r: [:T {w: 3}]} |

  Scenario: [3] Columns are named as the expressions are written
    Given an empty graph
    And having executed:
      """
      CREATE (:Foo {x: 1})
      """
    When executing query:
      """
      MATCH (n)
      RETURN (n:Foo), n : Foo, n.x+ 1, count( * ), COUNT(n.x)
      """
    Then the result should be, in any order:
      | (n:Foo) | n : Foo | n.x+ 1 | count( * ) | COUNT(n.x) |
      | true    | true    | 2      | 1          | 1          |

  Scenario Outline: [4] Constants in any case
    Given any graph
    When executing query:
      """
      RETURN <literal> AS v
      """
    Then the result should be, in any order:
      | v       |
      | <value> |

    Examples:
      | literal | value |
      | TRUE    | true  |
      | tRuE    | true  |
      | FALSE   | false |
      | fAlSe   | false |
      | NULL    | null  |
      | nUlL    | null  |

  Scenario: [5] DISTINCT goes by value, null is one
    Given any graph
    When executing query:
      """
      UNWIND [null, 1, [1, null], {a: null}, null, [1, null], {a: null}, 1] AS x
      RETURN DISTINCT x
      """
    Then the result should be, in any order:
      | x         |
      | null      |
      | 1         |
      | [1, null] |
      | {a: null} |

  Scenario: [6] UNION takes rows once, UNION ALL each
    Given any graph
    When executing query:
      """
      UNWIND [1, 1, 2] AS x
      RETURN x
      UNION
      UNWIND [2, 3, 3] AS x
      RETURN x
      """
    Then the result should be, in any order:
      | x |
      | 1 |
      | 2 |
      | 3 |

  Scenario: [7] LIMIT may be computed
    Given any graph
    When executing query:
      """
      UNWIND range(1, 9) AS x
      RETURN x
      ORDER BY x DESC
      SKIP toInteger(0.9) + 1
      LIMIT toInteger(ceil(1.7))
      """
    Then the result should be, in order:
      | x |
      | 8 |
      | 7 |

  Scenario: [8] Sort by several keys, each in its direction
    Given any graph
    When executing query:
      """
      UNWIND [[1, 'b'], [2, 'a'], [1, 'a'], [2, 'b']] AS p
      RETURN p[0] AS n, p[1] AS t
      ORDER BY n DESC, t ASCENDING
      """
    Then the result should be, in order:
      | n | t   |
      | 2 | 'a' |
      | 2 | 'b' |
      | 1 | 'a' |
      | 1 | 'b' |

  Scenario: [9] Null passes through arithmetic
    Given any graph
    When executing query:
      """
      RETURN 1 + (2 - (3 * (4 / (5 ^ (6 % null))))) AS a, null + 'x' AS b, [1] + null AS c, NOT null AS d
      """
    Then the result should be, in any order:
      | a    | b    | c    | d    |
      | null | null | null | null |

  Scenario: [10] A WITH forwards nodes, relationships, paths and nulls
    Given an empty graph
    And having executed:
      """
      CREATE (:A {n: 1})-[:T]->(:B {n: 2})
      """
    When executing query:
      """
      MATCH p = (a:A)-[r]->(b)
      OPTIONAL MATCH (b)-->(c)
      WITH p, a, r AS s, b, c, null AS nil
      MATCH (a)-[s]->(b)
      RETURN a.n, type(s), b, c, nil, p
      """
    Then the result should be, in any order:
      | a.n | type(s) | b           | c    | nil  | p                                |
      | 1   | 'T'     | (:B {n: 2}) | null | null | <(:A {n: 1})-[:T]->(:B {n: 2})>  |

  Scenario Outline: [11] Names of every kind in back-ticks
    Given any graph
    When executing query:
      """
      WITH {`<key>`: 1} AS m
      RETURN m.`<key>` AS v
      """
    Then the result should be, in any order:
      | v |
      | 1 |

    Examples:
      | key       |
      | a b       |
      | 1         |
      | RETURN    |
      | ü         |

  Scenario Outline: [12] Conversions that do not fail
    Given any graph
    When executing query:
      """
      RETURN <expression> AS v
      """
    Then the result should be, in any order:
      | v       |
      | <value> |

    Examples:
      | expression                                     | value                    |
      | toIntegerOrNull('7')                           | 7                        |
      | toIntegerOrNull('x')                           | null                     |
      | toIntegerOrNull([])                            | null                     |
      | toIntegerOrNull(true)                          | 1                        |
      | toFloatOrNull('1.5')                           | 1.5                      |
      | toFloatOrNull({})                              | null                     |
      | toBooleanOrNull('true')                        | true                     |
      | toBooleanOrNull(0)                             | false                    |
      | toBooleanOrNull(1.5)                           | null                     |
      | toStringOrNull(1)                              | '1'                      |
      | toStringOrNull([])                             | null                     |
      | toIntegerOrNull(null)                          | null                     |
      | toIntegerList(['1', 2.5, null, 'a'])           | [1, 2, null, null]       |
      | toFloatList(['1.5', 2, null])                  | [1.5, 2.0, null]         |
      | toBooleanList(['true', 0, 'x'])                | [true, false, null]      |
      | toStringList([1, true, null])                  | ['1', 'true', null]      |
      | toStringList(null)                             | null                     |

  Scenario Outline: [13] Small functions of today's Cypher
    Given any graph
    When executing query:
      """
      RETURN <expression> AS v
      """
    Then the result should be, in any order:
      | v       |
      | <value> |

    Examples:
      | expression                                     | value                    |
      | isEmpty('')                                    | true                     |
      | isEmpty([])                                    | true                     |
      | isEmpty({})                                    | true                     |
      | isEmpty([null])                                | false                    |
      | isEmpty(null)                                  | null                     |
      | isNaN(0.0 / 0.0)                               | true                     |
      | isNaN(1)                                       | false                    |
      | isNaN(null)                                    | null                     |
      | nullIf(1, 1)                                   | null                     |
      | nullIf(1, 2)                                   | 1                        |
      | nullIf(null, 2)                                | null                     |
      | nullIf(1, null)                                | 1                        |
      | char_length('abc')                             | 3                        |
      | character_length('')                           | 0                        |
      | btrim('  a ')                                  | 'a'                      |
      | btrim('xyaxy', 'xy')                           | 'a'                      |
      | size(randomUUID())                             | 36                       |
      | [sinh(0), cosh(0), tanh(0)]                    | [0.0, 1.0, 0.0]          |

  Scenario: [14] Rows of a range as its list would have them, and of one that no list could hold
    Given any graph
    When executing query:
      """
      UNWIND [[1, 3, 1], [3, 1, -2], [1, 3, -1], [5, 5, -7], [-9223372036854775808, 9223372036854775807, 9223372036854775807]] AS r
      UNWIND range(r[0], r[1], r[2]) AS n
      WITH r, collect(n) AS rows
      WITH collect(rows = range(r[0], r[1], r[2])) AS same, collect(rows) AS all
      CALL { UNWIND range(1, 9000000000000000000) AS n RETURN n SKIP 2 LIMIT 1 }
      RETURN same, all, n
      """
    Then the result should be, in any order:
      | same                     | all                                                                             | n |
      | [true, true, true, true] | [[1, 2, 3], [3, 1], [5], [-9223372036854775808, -1, 9223372036854775806]] | 3 |
    And no side effects
