Feature: Errors - what is found before a query runs, and what is not

  Scenario Outline: [1] A variable of a value cannot be a node
    Given any graph
    When executing query:
      """
      WITH <value> AS x
      MATCH (x)
      RETURN x
      """
    Then a SyntaxError should be raised at compile time: VariableTypeConflict

    Examples:
      | value  |
      | true   |
      | 12     |
      | 1.5    |
      | 'text' |
      | []     |
      | [1]    |
      | {a: 1} |

  Scenario Outline: [2] A variable of a value cannot be a relationship
    Given any graph
    When executing query:
      """
      WITH <value> AS x
      MATCH ()-[x]->()
      RETURN x
      """
    Then a SyntaxError should be raised at compile time: VariableTypeConflict

    Examples:
      | value   |
      | false   |
      | 12      |
      | 1.5     |
      | 'text'  |
      | [[]]    |
      | {a: []} |

  Scenario Outline: [3] One name is not two things in one pattern
    Given any graph
    When executing query:
      """
      MATCH <pattern>
      RETURN x
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | pattern                      | detail                          |
      | (x)-[x]->()                  | VariableTypeConflict            |
      | ()-[x]->(x)                  | VariableTypeConflict            |
      | (x), ()-[x]-()               | VariableTypeConflict            |
      | ()-[x]-(), (x)               | VariableTypeConflict            |
      | x = ()-[]-(), (x)            | VariableTypeConflict            |
      | x = ()-[]-(), ()-[x]-()      | VariableTypeConflict            |
      | (x), x = ()-[]-()            | VariableAlreadyBound            |
      | ()-[x]-(), x = ()-[]-()      | VariableAlreadyBound            |
      | x = (), x = ()-[]-()         | VariableAlreadyBound            |
      | x = (x)-[]-()                | VariableAlreadyBound            |
      | ()-[x]->(), ()-[x]->()       | RelationshipUniquenessViolation |

  Scenario Outline: [4] A name keeps its meaning from clause to clause
    Given any graph
    When executing query:
      """
      <first>
      MATCH <second>
      RETURN x
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | first                    | second         | detail               |
      | MATCH ()-[x]->()         | (x)            | VariableTypeConflict |
      | MATCH (x)                | ()-[x]->()     | VariableTypeConflict |
      | MATCH x = ()-->()        | (x)            | VariableTypeConflict |
      | MATCH x = ()-->()        | ()-[x]-()      | VariableTypeConflict |
      | MATCH (x)                | x = ()         | VariableAlreadyBound |
      | UNWIND [1, 2] AS x       | (x)            | VariableTypeConflict |

  Scenario Outline: [5] What is not in scope is undefined
    Given any graph
    When executing query:
      """
      <query>
      """
    Then a SyntaxError should be raised at compile time: UndefinedVariable

    Examples:
      | query                                        |
      | MATCH (a) SET a.name = missing               |
      | MATCH (a) SET missing.name = 1               |
      | MATCH (a) REMOVE missing.name                |
      | MATCH (a) WHERE a.x = b.x RETURN a           |
      | MATCH (a) WITH a.x AS x RETURN a             |
      | MATCH (a) WITH count(*) AS n RETURN a.x, n   |
      | UNWIND missing AS x RETURN x                 |
      | CREATE (a {x: b})                            |
      | CREATE (a)-[:T {x: b}]->()                   |
      | MATCH (a) DELETE b                           |
      | RETURN [x IN [1] \| y]                        |
      | RETURN [x IN [1] \| x] + x                    |
      | RETURN all(x IN [1] WHERE y = 1)             |

  Scenario Outline: [6] The type of an argument is known where the text tells it
    Given any graph
    When executing query:
      """
      <query>
      """
    Then a SyntaxError should be raised at compile time: InvalidArgumentType

    Examples:
      | query                                           |
      | RETURN properties(1)                            |
      | RETURN properties('text')                       |
      | RETURN properties([true])                       |
      | RETURN size(1 + 1)                              |
      | MATCH p = ()-->() RETURN size(p)                |
      | MATCH p = ()-->() WHERE p.name = 'x' RETURN p   |
      | MATCH (n) RETURN length(n)                      |
      | MATCH (n) RETURN type(n)                        |
      | MATCH p = () RETURN labels(p)                   |
      | RETURN 1 IN 'text'                              |
      | WITH ['a', 'b'] AS l UNWIND l AS x RETURN x - 1 |
      | MATCH (n) WHERE 1 RETURN n                      |
      | MATCH (n) WHERE NOT 'a' RETURN n                |
      | RETURN {} AND true                              |
      | MATCH (n) SET n += 1                            |
      | MATCH (n) SET n = [n]                           |
      | WITH {a: 1} AS m SET m.a = 2                    |
      | WITH 1 AS x SET x:Label                         |
      | WITH 'x' AS x REMOVE x.y                        |
      | MATCH (n) DELETE [n]                            |
      | WITH 1 AS x DELETE x                            |

  Scenario Outline: [7] A number of rows is a constant that is not negative
    Given any graph
    When executing query:
      """
      MATCH (n)
      RETURN n
      <clause>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | clause           | detail                  |
      | LIMIT n.count    | NonConstantExpression   |
      | LIMIT -1         | NegativeIntegerArgument |
      | LIMIT 1.7        | InvalidArgumentType     |
      | SKIP 'two'       | InvalidArgumentType     |
      | SKIP 2 LIMIT -3  | NegativeIntegerArgument |

  Scenario Outline: [8] A number of rows from a parameter is looked at when the query runs
    Given any graph
    And parameters are:
      | rows | <rows> |
    When executing query:
      """
      MATCH (n)
      RETURN n
      LIMIT $rows
      """
    Then a SyntaxError should be raised at runtime: <detail>

    Examples:
      | rows | detail                  |
      | -1   | NegativeIntegerArgument |
      | 1.7  | InvalidArgumentType     |

  Scenario Outline: [9] Aggregates stand only where rows are gathered
    Given any graph
    When executing query:
      """
      <query>
      """
    Then a SyntaxError should be raised at compile time: <detail>

    Examples:
      | query                                     | detail                         |
      | MATCH (a) WHERE count(a) > 1 RETURN a     | InvalidAggregation             |
      | MATCH (a) SET a.x = count(*)              | InvalidAggregation             |
      | CREATE ({x: sum(1)})                      | InvalidAggregation             |
      | UNWIND collect(1) AS x RETURN x           | InvalidAggregation             |
      | MATCH (a) RETURN a.x ORDER BY count(*)    | InvalidAggregation             |
      | RETURN sum(count(*))                      | NestedAggregation              |
      | MATCH (a) RETURN a.x + count(*)           | AmbiguousAggregationExpression |

  Scenario: [10] A parameter that is not given
    Given any graph
    When executing query:
      """
      RETURN $missing
      """
    Then a ParameterMissing should be raised at compile time: MissingParameter

  Scenario: [11] Columns of both sides of a union have the same names
    Given any graph
    When executing query:
      """
      RETURN 1 AS a
      UNION
      RETURN 2 AS b
      """
    Then a SyntaxError should be raised at compile time: DifferentColumnsInUnion

  Scenario Outline: [12] No property holds a map or an entity
    Given an empty graph
    And having executed:
      """
      CREATE (:A)
      """
    When executing query:
      """
      MATCH (a:A)
      SET a.x = <value>
      """
    Then a TypeError should be raised at runtime: InvalidPropertyType

    Examples:
      | value          |
      | {n: 1}         |
      | [{n: 1}]       |
      | [1, [{n: 1}]]  |
      | a              |
      | [a]            |
