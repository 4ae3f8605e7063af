//! The syntax tree: the query as it was written, with places. Names are not resolved; everything the grammar knows is here,
//! also what later stages refuse. `Display` prints a tree with every operator in parentheses.

use std::fmt::{self, Display, Formatter};

use weir_model::Text;
use weir_model::expression::Quantifier;
use weir_model::plan::Search;
use weir_model::schema::{Expires, Schema};

use crate::error::Span;

#[derive(Clone, Debug)]
pub struct Query {
    pub first: Vec<Clause>,
    /// `true` for UNION ALL.
    pub unions: Vec<(bool, Span, Vec<Clause>)>,
}

#[derive(Clone, Debug)]
pub struct Clause {
    pub kind: ClauseKind,
    /// The keyword and all that follows it.
    pub span: Span,
}

#[derive(Clone, Debug)]
pub enum ClauseKind {
    Match {
        optional: bool,
        parts: Vec<PatternPart>,
        hints: Vec<Hint>,
        condition: Option<Expression>,
    },
    Unwind {
        list: Expression,
        variable: Name,
    },
    With {
        projection: Projection,
        condition: Option<Expression>,
    },
    Return(Projection),
    Create(Vec<PatternPart>),
    Merge {
        part: PatternPart,
        on_create: Vec<SetItem>,
        on_match: Vec<SetItem>,
    },
    Set(Vec<SetItem>),
    Remove(Vec<SetItem>),
    Delete {
        detach: bool,
        targets: Vec<Expression>,
    },
    ForEach {
        variable: Name,
        list: Expression,
        updates: Vec<Clause>,
    },
    /// Without `arguments`: by the parameters of the same names.
    Call {
        procedure: Name,
        arguments: Option<Vec<Expression>>,
        yields: Option<Yield>,
    },
    Subquery {
        imports: Option<Imports>,
        query: Box<Query>,
    },
    /// A call that gives a row with nulls where it would give none.
    OptionalCall(Box<Clause>),
    /// `CALL RECURSIVELY WITH first UNTIL (until) { query }`
    Recurse {
        first: Vec<(Expression, Name)>,
        until: Expression,
        query: Box<Query>,
    },
    LoadCsv {
        headers: bool,
        from: Expression,
        variable: Name,
        separator: Option<Expression>,
    },
    /// Alone in its query.
    Schema(Schema),
}

#[derive(Clone, Debug)]
pub enum Yield {
    /// `YIELD *`
    All,
    /// Columns, with new names; `YIELD -` has none.
    Columns { columns: Vec<(Name, Option<Name>)>, condition: Option<Expression> },
}

/// What `CALL (…) { … }` brings in.
#[derive(Clone, Debug)]
pub enum Imports {
    All,
    These(Vec<Name>),
}

#[derive(Clone, Debug)]
pub struct Name {
    pub text: Text,
    pub span: Span,
}

/// `USING SCAN n:Label` or `USING INDEX n:Label(key)`.
#[derive(Clone, Debug)]
pub struct Hint {
    pub scan: bool,
    pub variable: Name,
}

#[derive(Clone, Debug)]
pub struct Projection {
    pub distinct: bool,
    pub star: bool,
    pub items: Vec<Item>,
    pub order: Vec<(Expression, bool)>,
    pub skip: Option<Expression>,
    pub limit: Option<Expression>,
}

#[derive(Clone, Debug)]
pub struct Item {
    pub expression: Expression,
    pub alias: Option<Name>,
    /// The expression as written: the name of the column where there is no alias.
    pub source: Text,
}

#[derive(Clone, Debug)]
pub struct PatternPart {
    pub variable: Option<Name>,
    pub search: Search,
    pub start: NodePattern,
    pub steps: Vec<(EdgePattern, NodePattern)>,
    pub span: Span,
}

/// `A&(B|!C)`: what the labels of a node or the type of an edge have to be.
#[derive(Clone, Debug)]
pub enum LabelExpression {
    Name(Name),
    /// `%`: at least one.
    Any,
    Not(Box<LabelExpression>),
    And(Vec<LabelExpression>),
    Or(Vec<LabelExpression>),
}

impl LabelExpression {
    /// The names, if it is nothing but a conjunction of them: all that can be created or set.
    pub fn all_of(&self) -> Option<Vec<&Name>> {
        match self {
            LabelExpression::Name(name) => Some(vec![name]),
            LabelExpression::And(parts) => {
                parts.iter().map(|part| part.all_of()).collect::<Option<Vec<_>>>().map(|all| all.concat())
            }
            _ => None,
        }
    }

    /// The names, if it is nothing but a choice between them.
    pub fn one_of(&self) -> Option<Vec<&Name>> {
        match self {
            LabelExpression::Name(name) => Some(vec![name]),
            LabelExpression::Or(parts) => {
                parts.iter().map(|part| part.one_of()).collect::<Option<Vec<_>>>().map(|all| all.concat())
            }
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct NodePattern {
    pub variable: Option<Name>,
    /// Labels it has to have.
    pub labels: Vec<Name>,
    /// What stands there where that is more than a conjunction; then `labels` is empty.
    pub label_expression: Option<LabelExpression>,
    pub properties: Option<Expression>,
    pub condition: Option<Expression>,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Right,
    Left,
    Either,
}

#[derive(Clone, Debug)]
pub struct EdgePattern {
    pub variable: Option<Name>,
    /// Types to choose from.
    pub kinds: Vec<Name>,
    /// What stands there where that is more than a choice; then `kinds` is empty.
    pub kind_expression: Option<LabelExpression>,
    /// `*2..5`
    pub length: Option<(Option<u64>, Option<u64>)>,
    pub properties: Option<Expression>,
    pub condition: Option<Expression>,
    pub direction: Direction,
    pub span: Span,
}

/// One item of SET, or (without a value) of REMOVE.
#[derive(Clone, Debug)]
pub enum SetItem {
    Property { of: Expression, key: Name, value: Option<Expression> },
    All { variable: Name, value: Expression, replace: bool },
    Labels { variable: Name, labels: Vec<Name> },
}

#[derive(Clone, Debug)]
pub struct Expression {
    pub kind: Box<ExpressionKind>,
    pub span: Span,
    /// How many expressions lie within each other here at most, those in patterns and subqueries included.
    pub height: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOperator {
    Xor,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Power,
    In,
    StartsWith,
    EndsWith,
    Contains,
    Regex,
}

#[derive(Clone, Debug)]
pub enum ExpressionKind {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(Text),
    Variable(Text),
    Parameter(Text),
    Property(Expression, Name),
    Labels(Expression, LabelExpression),
    Index(Expression, Expression),
    Slice(Expression, Option<Expression>, Option<Expression>),
    Not(Expression),
    Negate(Expression),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Binary(BinaryOperator, Expression, Expression),
    IsNull(Expression, bool),
    List(Vec<Expression>),
    Map(Vec<(Name, Expression)>),
    MapProjection(Expression, Vec<MapItem>),
    Case {
        subject: Option<Expression>,
        branches: Vec<(Expression, Expression)>,
        otherwise: Option<Expression>,
    },
    Call {
        name: Name,
        distinct: bool,
        arguments: Vec<Expression>,
    },
    CountRows,
    Comprehension {
        variable: Name,
        list: Expression,
        filter: Option<Expression>,
        result: Option<Expression>,
    },
    Quantifier {
        kind: Quantifier,
        variable: Name,
        list: Expression,
        condition: Expression,
    },
    Reduce {
        total: Name,
        initial: Expression,
        variable: Name,
        list: Expression,
        step: Expression,
    },
    /// A pattern where an expression stands: a predicate, or the search for a shortest path.
    Pattern(PatternPart),
    PatternComprehension {
        part: PatternPart,
        filter: Option<Expression>,
        result: Expression,
    },
    Subquery {
        kind: SubqueryKind,
        body: SubqueryBody,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubqueryKind {
    Exists,
    Count,
    Collect,
}

#[derive(Clone, Debug)]
pub enum SubqueryBody {
    /// `{ (a)-->(b) WHERE … }`
    Pattern {
        parts: Vec<PatternPart>,
        condition: Option<Expression>,
    },
    Query(Query),
}

#[derive(Clone, Debug)]
pub enum MapItem {
    /// `.key`
    Key(Name),
    /// `.*`
    All,
    /// `key: expression`
    Entry(Name, Expression),
    /// `variable`
    Variable(Name),
}

impl Expression {
    /// The expressions directly inside this one (not those inside patterns and subqueries).
    pub fn children(&self) -> Vec<&Expression> {
        use ExpressionKind::*;
        match &*self.kind {
            Null
            | Boolean(_)
            | Integer(_)
            | Float(_)
            | Text(_)
            | Variable(_)
            | Parameter(_)
            | CountRows
            | Pattern(_)
            | PatternComprehension { .. }
            | Subquery { .. } => Vec::new(),
            Property(e, _) | Labels(e, _) | Not(e) | Negate(e) | IsNull(e, _) => vec![e],
            Index(a, b) | Binary(_, a, b) => vec![a, b],
            Slice(e, from, to) => [Some(e), from.as_ref(), to.as_ref()].into_iter().flatten().collect(),
            And(all) | Or(all) | List(all) | Call { arguments: all, .. } => all.iter().collect(),
            Map(entries) => entries.iter().map(|(_, e)| e).collect(),
            MapProjection(e, items) => std::iter::once(e)
                .chain(items.iter().filter_map(|item| if let MapItem::Entry(_, e) = item { Some(e) } else { None }))
                .collect(),
            Case { subject, branches, otherwise } => {
                subject.iter().chain(branches.iter().flat_map(|(when, then)| [when, then])).chain(otherwise.iter()).collect()
            }
            Comprehension { list, filter, result, .. } => std::iter::once(list).chain(filter).chain(result).collect(),
            Quantifier { list, condition, .. } => vec![list, condition],
            Reduce { initial, list, step, .. } => vec![initial, list, step],
        }
    }

    pub fn any(&self, test: &dyn Fn(&Expression) -> bool) -> bool {
        test(self) || self.children().into_iter().any(|child| child.any(test))
    }

    /// Whether it names a variable that is not its own: those of a comprehension, a quantifier and a `reduce` are. Patterns and
    /// subqueries are not looked into.
    pub fn has_free_variable(&self) -> bool {
        self.names_others(&mut Vec::new())
    }

    fn names_others<'e>(&'e self, own: &mut Vec<&'e Text>) -> bool {
        use ExpressionKind::*;
        let (outside, names, inside) = match &*self.kind {
            Variable(name) => return !own.contains(&name),
            Comprehension { variable, list, filter, result } => {
                (vec![list], vec![variable], filter.iter().chain(result).collect())
            }
            Quantifier { variable, list, condition, .. } => (vec![list], vec![variable], vec![condition]),
            Reduce { total, initial, variable, list, step } => (vec![initial, list], vec![total, variable], vec![step]),
            _ => (self.children(), Vec::new(), Vec::new()),
        };
        if outside.into_iter().any(|part| part.names_others(own)) {
            return true;
        }
        let before = own.len();
        own.extend(names.into_iter().map(|name| &name.text));
        let names_others = inside.into_iter().any(|part| part.names_others(own));
        own.truncate(before);
        names_others
    }

    pub fn as_variable(&self) -> Option<&Text> {
        if let ExpressionKind::Variable(name) = &*self.kind { Some(name) } else { None }
    }

    /// Top-level conjuncts.
    pub fn conjuncts(&self) -> Vec<&Expression> {
        match &*self.kind {
            ExpressionKind::And(all) => all.iter().flat_map(|e| e.conjuncts()).collect(),
            _ => vec![self],
        }
    }
}

impl BinaryOperator {
    pub fn symbol(self) -> &'static str {
        use BinaryOperator::*;
        match self {
            Xor => "XOR",
            Equal => "=",
            NotEqual => "<>",
            Less => "<",
            LessOrEqual => "<=",
            Greater => ">",
            GreaterOrEqual => ">=",
            Add => "+",
            Subtract => "-",
            Multiply => "*",
            Divide => "/",
            Modulo => "%",
            Power => "^",
            In => "IN",
            StartsWith => "STARTS WITH",
            EndsWith => "ENDS WITH",
            Contains => "CONTAINS",
            Regex => "=~",
        }
    }
}

/// Items with a separator between them.
fn join<T: Display>(f: &mut Formatter<'_>, items: impl IntoIterator<Item = T>, separator: &str) -> fmt::Result {
    for (i, item) in items.into_iter().enumerate() {
        if i > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        join(f, &self.first, "\n")?;
        for (all, _, clauses) in &self.unions {
            writeln!(f, "\nUNION{}", if *all { " ALL" } else { "" })?;
            join(f, clauses, "\n")?;
        }
        Ok(())
    }
}

impl Display for Clause {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use ClauseKind::*;
        let condition = |f: &mut Formatter<'_>, condition: &Option<Expression>| match condition {
            Some(e) => write!(f, " WHERE {e}"),
            None => Ok(()),
        };
        match &self.kind {
            Match { optional, parts, hints, condition: c } => {
                f.write_str(if *optional { "OPTIONAL MATCH " } else { "MATCH " })?;
                join(f, parts, ", ")?;
                for hint in hints {
                    write!(f, " USING {} {}", if hint.scan { "SCAN" } else { "INDEX" }, hint.variable)?;
                }
                condition(f, c)
            }
            Unwind { list, variable } => write!(f, "UNWIND {list} AS {variable}"),
            With { projection, condition: c } => {
                write!(f, "WITH {projection}")?;
                condition(f, c)
            }
            Return(projection) => write!(f, "RETURN {projection}"),
            Create(parts) => {
                f.write_str("CREATE ")?;
                join(f, parts, ", ")
            }
            Merge { part, on_create, on_match } => {
                write!(f, "MERGE {part}")?;
                for (word, items) in [("CREATE", on_create), ("MATCH", on_match)] {
                    if !items.is_empty() {
                        write!(f, " ON {word} SET ")?;
                        join(f, items, ", ")?;
                    }
                }
                Ok(())
            }
            Set(items) => {
                f.write_str("SET ")?;
                join(f, items, ", ")
            }
            Remove(items) => {
                f.write_str("REMOVE ")?;
                join(f, items, ", ")
            }
            Delete { detach, targets } => {
                f.write_str(if *detach { "DETACH DELETE " } else { "DELETE " })?;
                join(f, targets, ", ")
            }
            ForEach { variable, list, updates } => {
                write!(f, "FOREACH ({variable} IN {list} | ")?;
                join(f, updates, " ")?;
                f.write_str(")")
            }
            Call { procedure, arguments, yields } => {
                write!(f, "CALL {procedure}")?;
                if let Some(arguments) = arguments {
                    f.write_str("(")?;
                    join(f, arguments, ", ")?;
                    f.write_str(")")?;
                }
                match yields {
                    None => Ok(()),
                    Some(Yield::All) => f.write_str(" YIELD *"),
                    Some(Yield::Columns { columns, condition: c }) => {
                        f.write_str(" YIELD ")?;
                        for (i, (column, alias)) in columns.iter().enumerate() {
                            write!(f, "{}{column}", if i == 0 { "" } else { ", " })?;
                            alias.iter().try_for_each(|alias| write!(f, " AS {alias}"))?;
                        }
                        condition(f, c)
                    }
                }
            }
            Subquery { imports, query } => {
                f.write_str("CALL ")?;
                match imports {
                    None => {}
                    Some(Imports::All) => f.write_str("(*) ")?,
                    Some(Imports::These(names)) => {
                        f.write_str("(")?;
                        join(f, names, ", ")?;
                        f.write_str(") ")?;
                    }
                }
                write!(f, "{{ {query} }}")
            }
            OptionalCall(call) => write!(f, "OPTIONAL {call}"),
            Recurse { first, until, query } => {
                f.write_str("CALL RECURSIVELY WITH ")?;
                for (i, (value, name)) in first.iter().enumerate() {
                    write!(f, "{}{value} AS {name}", if i == 0 { "" } else { ", " })?;
                }
                write!(f, " UNTIL ({until}) {{ {query} }}")
            }
            LoadCsv { headers, from, variable, separator } => {
                write!(f, "LOAD CSV {}FROM {from} AS {variable}", if *headers { "WITH HEADERS " } else { "" })?;
                separator.iter().try_for_each(|e| write!(f, " FIELDTERMINATOR {e}"))
            }
            ClauseKind::Schema(schema) => write_schema(schema, f),
        }
    }
}

fn write_schema(schema: &Schema, f: &mut Formatter<'_>) -> fmt::Result {
    match schema {
        Schema::CreateIndex { name, label, property, unless_exists } => {
            f.write_str(if property.is_some() { "CREATE INDEX" } else { "CREATE LOOKUP INDEX" })?;
            name.iter().try_for_each(|name| write!(f, " {name}"))?;
            write!(f, "{} FOR (n:{label})", if *unless_exists { " IF NOT EXISTS" } else { "" })?;
            property.iter().try_for_each(|property| write!(f, " ON (n.{property})"))
        }
        Schema::DropIndex { name, if_exists } => write!(f, "DROP INDEX {name}{}", if *if_exists { " IF EXISTS" } else { "" }),
        Schema::ShowIndexes => f.write_str("SHOW INDEXES"),
        Schema::CreateExpiry { name, rule, unless_exists } => {
            f.write_str("CREATE EXPIRY")?;
            name.iter().try_for_each(|name| write!(f, " {name}"))?;
            f.write_str(if *unless_exists { " IF NOT EXISTS" } else { "" })?;
            let variable = match &rule.of {
                Expires::Nodes(label) => {
                    write!(f, " FOR (n:{label})")?;
                    'n'
                }
                Expires::Edges(kind) => {
                    write!(f, " FOR ()-[r:{kind}]-()")?;
                    'r'
                }
            };
            write!(f, " ON {variable}.{}", rule.on)?;
            if rule.after_millis > 0 {
                write!(f, " AFTER duration('{}')", rule.after())?;
            }
            rule.removes.iter().try_for_each(|key| write!(f, " REMOVE {variable}.{key}"))
        }
        Schema::DropExpiry { name, if_exists } => write!(f, "DROP EXPIRY {name}{}", if *if_exists { " IF EXISTS" } else { "" }),
        Schema::ShowExpiries => f.write_str("SHOW EXPIRIES"),
    }
}

impl Display for Projection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        if self.star {
            f.write_str(if self.items.is_empty() { "*" } else { "*, " })?;
        }
        join(f, &self.items, ", ")?;
        for (i, (e, descending)) in self.order.iter().enumerate() {
            write!(f, "{}{e}{}", if i == 0 { " ORDER BY " } else { ", " }, if *descending { " DESC" } else { "" })?;
        }
        if let Some(e) = &self.skip {
            write!(f, " SKIP {e}")?;
        }
        if let Some(e) = &self.limit {
            write!(f, " LIMIT {e}")?;
        }
        Ok(())
    }
}

impl Display for Item {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.alias {
            Some(alias) => write!(f, "{} AS {alias}", self.expression),
            None => write!(f, "{}", self.expression),
        }
    }
}

impl Display for PatternPart {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(variable) = &self.variable {
            write!(f, "{variable} = ")?;
        }
        f.write_str(match self.search {
            Search::All => "",
            Search::Shortest => "shortestPath(",
            Search::AllShortest => "allShortestPaths(",
        })?;
        write!(f, "{}", self.start)?;
        for (edge, node) in &self.steps {
            write!(f, "{edge}{node}")?;
        }
        f.write_str(if self.search == Search::All { "" } else { ")" })
    }
}

impl Display for LabelExpression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = |f: &mut Formatter<'_>, parts: &[LabelExpression], separator: &str| {
            f.write_str("(")?;
            join(f, parts, separator)?;
            f.write_str(")")
        };
        match self {
            LabelExpression::Name(name) => write!(f, "{name}"),
            LabelExpression::Any => f.write_str("%"),
            LabelExpression::Not(of) => write!(f, "!{of}"),
            LabelExpression::And(parts) => list(f, parts, "&"),
            LabelExpression::Or(parts) => list(f, parts, "|"),
        }
    }
}

impl Display for NodePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        join(f, &self.variable, "")?;
        for label in &self.labels {
            write!(f, ":{label}")?;
        }
        if let Some(labels) = &self.label_expression {
            write!(f, ":{labels}")?;
        }
        if let Some(properties) = &self.properties {
            write!(f, " {properties}")?;
        }
        if let Some(condition) = &self.condition {
            write!(f, " WHERE {condition}")?;
        }
        f.write_str(")")
    }
}

impl Display for EdgePattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.direction == Direction::Left { "<-[" } else { "-[" })?;
        join(f, &self.variable, "")?;
        for (i, kind) in self.kinds.iter().enumerate() {
            write!(f, "{}{kind}", if i == 0 { ":" } else { "|" })?;
        }
        if let Some(kinds) = &self.kind_expression {
            write!(f, ":{kinds}")?;
        }
        if let Some((min, max)) = &self.length {
            f.write_str("*")?;
            join(f, min, "")?;
            f.write_str("..")?;
            join(f, max, "")?;
        }
        if let Some(properties) = &self.properties {
            write!(f, " {properties}")?;
        }
        if let Some(condition) = &self.condition {
            write!(f, " WHERE {condition}")?;
        }
        f.write_str(if self.direction == Direction::Right { "]->" } else { "]-" })
    }
}

impl Display for SetItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            SetItem::Property { of, key, value } => {
                write!(f, "{of}.{key}")?;
                match value {
                    Some(value) => write!(f, " = {value}"),
                    None => Ok(()),
                }
            }
            SetItem::All { variable, value, replace } => write!(f, "{variable} {} {value}", if *replace { "=" } else { "+=" }),
            SetItem::Labels { variable, labels } => {
                write!(f, "{variable}:")?;
                join(f, labels, ":")
            }
        }
    }
}

impl Display for Expression {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        use ExpressionKind::*;
        let list = |f: &mut Formatter<'_>, open: &str, all: &[Expression], separator: &str, close: &str| {
            f.write_str(open)?;
            join(f, all, separator)?;
            f.write_str(close)
        };
        match &*self.kind {
            Null => f.write_str("null"),
            Boolean(b) => write!(f, "{b}"),
            Integer(n) => write!(f, "{n}"),
            Float(n) => write!(f, "{n:?}"),
            Text(t) => write!(f, "{t:?}"),
            Variable(name) => f.write_str(name),
            Parameter(name) => write!(f, "${name}"),
            Property(of, key) => write!(f, "{of}.{key}"),
            Labels(of, labels) => match labels.all_of() {
                Some(names) => {
                    write!(f, "({of}:")?;
                    join(f, names, ":")?;
                    f.write_str(")")
                }
                None => write!(f, "({of}:{labels})"),
            },
            Index(of, index) => write!(f, "{of}[{index}]"),
            Slice(of, from, to) => {
                write!(f, "{of}[")?;
                join(f, from, "")?;
                f.write_str("..")?;
                join(f, to, "")?;
                f.write_str("]")
            }
            Not(e) => write!(f, "(NOT {e})"),
            Negate(e) => write!(f, "(-{e})"),
            And(all) => list(f, "(", all, " AND ", ")"),
            Or(all) => list(f, "(", all, " OR ", ")"),
            Binary(operator, a, b) => write!(f, "({a} {} {b})", operator.symbol()),
            IsNull(e, negated) => write!(f, "({e} IS {}NULL)", if *negated { "NOT " } else { "" }),
            List(all) => list(f, "[", all, ", ", "]"),
            Map(entries) => {
                f.write_str("{")?;
                for (i, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            MapProjection(of, items) => {
                write!(f, "{of} {{")?;
                for (i, item) in items.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    match item {
                        MapItem::Key(key) => write!(f, ".{key}")?,
                        MapItem::All => f.write_str(".*")?,
                        MapItem::Entry(key, e) => write!(f, "{key}: {e}")?,
                        MapItem::Variable(name) => write!(f, "{name}")?,
                    }
                }
                f.write_str("}")
            }
            Case { subject, branches, otherwise } => {
                f.write_str("CASE")?;
                if let Some(subject) = subject {
                    write!(f, " {subject}")?;
                }
                for (when, then) in branches {
                    write!(f, " WHEN {when} THEN {then}")?;
                }
                if let Some(otherwise) = otherwise {
                    write!(f, " ELSE {otherwise}")?;
                }
                f.write_str(" END")
            }
            Call { name, distinct, arguments } => {
                write!(f, "{name}")?;
                list(f, if *distinct { "(DISTINCT " } else { "(" }, arguments, ", ", ")")
            }
            CountRows => f.write_str("count(*)"),
            Comprehension { variable, list, filter, result } => {
                write!(f, "[{variable} IN {list}")?;
                if let Some(filter) = filter {
                    write!(f, " WHERE {filter}")?;
                }
                if let Some(result) = result {
                    write!(f, " | {result}")?;
                }
                f.write_str("]")
            }
            Quantifier { kind, variable, list, condition } => {
                write!(f, "{}({variable} IN {list} WHERE {condition})", format!("{kind:?}").to_lowercase())
            }
            Reduce { total, initial, variable, list, step } => {
                write!(f, "reduce({total} = {initial}, {variable} IN {list} | {step})")
            }
            Pattern(part) => write!(f, "{part}"),
            PatternComprehension { part, filter, result } => {
                write!(f, "[{part}")?;
                if let Some(filter) = filter {
                    write!(f, " WHERE {filter}")?;
                }
                write!(f, " | {result}]")
            }
            Subquery { kind, body } => {
                write!(f, "{} {{ ", format!("{kind:?}").to_uppercase())?;
                match body {
                    SubqueryBody::Pattern { parts, condition } => {
                        join(f, parts, ", ")?;
                        if let Some(condition) = condition {
                            write!(f, " WHERE {condition}")?;
                        }
                    }
                    SubqueryBody::Query(query) => f.write_str(&query.to_string().replace('\n', " "))?,
                }
                f.write_str(" }")
            }
        }
    }
}
