//! Plans and drafts as text, for people and for tests.
//!
//! `explain` compiles a query and prints what each stage made of it. The printed form of a plan lists operators from the
//! result down to the source, each with what it does to a row; `#3` is slot 3, shown by the name of its variable where known.

mod drawing;

use std::fmt::Write as _;

use weir_model::expression::{Binary, Quantifier, SubqueryKind};
use weir_model::plan::{Atom, Chain, Lookup, Name, Operator, Pattern, PatternEdge, PatternNode, Plan, Search, Slot, Step, Write};
use weir_model::schema::{Expires, Schema};
use weir_model::{Aggregate, Expr, Text, Value};

pub use self::drawing::{Drawn, Words, draw_standing, names_of_slots};
use crate::bind::Draft;
use crate::error::Diagnostic;
use crate::lower::orders::Lists;
use crate::{Options, bind, bound, lower, rewrite};

/// Every stage of the compilation of `text`.
pub fn explain(text: &str, options: &Options) -> Result<String, Vec<Diagnostic>> {
    let (tree, mut draft) = bound(text, options)?;
    let mut out = format!("== syntax tree\n{tree}\n");
    let _ = write!(out, "== bound\n{}", Printer::of_draft(&draft).draft(&draft));
    rewrite::rewrite(&mut draft, options, &mut |rule, draft| {
        let _ = write!(out, "== {rule}\n{}", Printer::of_draft(draft).draft(draft));
    })
    .map_err(|broken| vec![broken.diagnostic(text)])?;
    let slots = slot_labels(&draft);
    let plan = lower::lower(text, draft, Lists::Lead);
    let _ = write!(out, "== plan\n{}", Printer::of_plan(&plan, slots).plan(&plan));
    Ok(out)
}

/// A plan by itself. Slots are shown by their numbers, which no two share, and columns by name.
pub fn explain_plan(plan: &Plan) -> String {
    explain_noted(plan, &|_| String::new())
}

/// As `explain_plan`, with a note behind each operator.
pub fn explain_noted(plan: &Plan, note: &dyn Fn(&Operator) -> String) -> String {
    Printer { note: Some(note), ..Printer::of_plan(plan, Vec::new()) }.plan(plan)
}

/// One operator of a plan, without what it stands on.
pub fn explain_operator(plan: &Plan, operator: &Operator) -> String {
    let mut out = String::new();
    Printer::of_plan(plan, Vec::new()).itself(operator, 0, &mut out);
    out.trim_end().to_owned()
}

/// An expression of a plan, as it might be written: by the names of variables.
pub fn expression_text(plan: &Plan, expr: &Expr) -> String {
    let label = |(i, name): (usize, &Text)| if name.is_empty() { format!("#{i}") } else { name.to_string() };
    Printer::of_plan(plan, plan.variables.iter().enumerate().map(label).collect()).expr(expr)
}

/// The name of a variable where it is the only one of that name, else the number.
fn slot_labels(draft: &Draft) -> Vec<String> {
    let unique = |name: &Text| !name.is_empty() && draft.slots.iter().filter(|slot| slot.name == *name).count() == 1;
    let label =
        |(i, slot): (usize, &bind::draft::SlotInfo)| if unique(&slot.name) { slot.name.to_string() } else { format!("#{i}") };
    draft.slots.iter().enumerate().map(label).collect()
}

struct Printer<'a> {
    names: &'a [Text],
    parameters: &'a [Text],
    slots: Vec<String>,
    note: Option<&'a dyn Fn(&Operator) -> String>,
    /// What expressions ask of the graph is shown as it would be written, not as a plan.
    in_words: bool,
    /// How equality in the stricter sense of the older modes is shown: nobody wrote it as anything but `=`.
    same: &'static str,
}

fn joined(items: impl IntoIterator<Item = String>, separator: &str) -> String {
    items.into_iter().collect::<Vec<_>>().join(separator)
}

impl<'a> Printer<'a> {
    fn of_draft(draft: &'a Draft) -> Printer<'a> {
        Printer::new(&draft.names, &draft.parameters, slot_labels(draft))
    }

    fn of_plan(plan: &'a Plan, slots: Vec<String>) -> Printer<'a> {
        Printer::new(&plan.names, &plan.parameters, slots)
    }

    fn new(names: &'a [Text], parameters: &'a [Text], slots: Vec<String>) -> Printer<'a> {
        Printer { names, parameters, slots, note: None, in_words: false, same: "SAME" }
    }

    fn draft(&self, draft: &Draft) -> String {
        self.columns(&draft.columns) + &self.tree(&draft.root)
    }

    fn plan(&self, plan: &Plan) -> String {
        let facts = [
            (plan.facts.reads, "reads"),
            (plan.facts.writes, "writes"),
            (plan.facts.scans, "scans"),
            (plan.facts.impure, "impure"),
        ];
        let facts = joined(facts.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned()), " ");
        format!("Facts {}\n", if facts.is_empty() { "none" } else { &facts })
            + &self.columns(&plan.columns)
            + &self.tree(&plan.root)
    }

    fn columns(&self, columns: &[(Text, Slot)]) -> String {
        if columns.is_empty() {
            return String::new();
        }
        format!("Columns {}\n", joined(columns.iter().map(|(name, slot)| format!("{name}: {}", self.slot(*slot))), ", "))
    }

    fn tree(&self, operator: &Operator) -> String {
        let mut out = String::new();
        self.operator(operator, 0, &mut out);
        out
    }

    fn operator(&self, operator: &Operator, depth: usize, out: &mut String) {
        let begins = out.len();
        self.itself(operator, depth, out);
        if let Some(note) = self.note.map(|note| note(operator)).filter(|note| !note.is_empty()) {
            let line_ends = out[begins..].find('\n').map_or(out.len(), |at| begins + at);
            out.insert_str(line_ends, &format!("  -- {note}"));
        }
        let input = operator.input();
        for child in operator.children().into_iter().rev() {
            let is_input = input.is_some_and(|input| std::ptr::eq(input, child));
            self.operator(child, if is_input { depth + 1 } else { depth + 2 }, out);
        }
    }

    /// An operator without those it stands on.
    fn itself(&self, operator: &Operator, depth: usize, out: &mut String) {
        let mut line = |text: String| {
            let _ = writeln!(out, "{}{text}", "  ".repeat(depth));
        };
        let slots = |slots: &[Slot]| joined(slots.iter().map(|slot| self.slot(*slot)), ", ");
        match operator {
            Operator::Unit => line("Unit".into()),
            Operator::Argument => line("Argument".into()),
            Operator::Schema(schema) => line(match schema {
                Schema::CreateIndex { name, label, property, .. } => {
                    let name = name.as_ref().map_or(String::new(), |name| format!(" {name}"));
                    let property = property.as_ref().map_or(String::new(), |property| format!(" ({property})"));
                    format!("CreateIndex{name} :{label}{property}")
                }
                Schema::DropIndex { name, .. } => format!("DropIndex {name}"),
                Schema::ShowIndexes => "ShowIndexes".into(),
                Schema::CreateExpiry { name, rule, .. } => {
                    let name = name.as_ref().map_or(String::new(), |name| format!(" {name}"));
                    let (Expires::Nodes(of) | Expires::Edges(of)) = &rule.of;
                    let after = if rule.after_millis > 0 { format!(" + {}", rule.after()) } else { String::new() };
                    let removes = rule.removes.as_ref().map_or(String::new(), |key| format!(", removes {key}"));
                    format!("CreateExpiry{name} :{of} ({}{after}){removes}", rule.on)
                }
                Schema::DropExpiry { name, .. } => format!("DropExpiry {name}"),
                Schema::ShowExpiries => "ShowExpiries".into(),
            }),
            Operator::Match { pattern, .. } => {
                line("Match".into());
                self.pattern(pattern, depth + 1, out);
            }
            Operator::Optional { nulls, .. } => line(format!("Optional, else null: {}", slots(nulls))),
            Operator::Filter { condition, .. } => line(format!("Filter {}", self.expr(condition))),
            Operator::Project { items, .. } => line(format!("Project {}", self.items(items))),
            Operator::Aggregate { keys, aggregates, .. } => {
                let aggregates =
                    joined(aggregates.iter().map(|(slot, a)| format!("{} = {}", self.slot(*slot), self.aggregate(a))), ", ");
                line(format!("Aggregate {aggregates} by {}", if keys.is_empty() { "nothing".into() } else { self.items(keys) }));
            }
            Operator::Distinct { slots: of, .. } => line(format!("Distinct {}", slots(of))),
            Operator::Sort { keys, limit, .. } => {
                let keys =
                    keys.iter().map(|key| format!("{}{}", self.expr(&key.expr), if key.descending { " DESC" } else { "" }));
                let limit = limit.as_ref().map_or(String::new(), |limit| format!(" first {}", self.expr(limit)));
                line(format!("Sort {}{limit}", joined(keys, ", ")));
            }
            Operator::Skip { count, .. } => line(format!("Skip {}", self.expr(count))),
            Operator::Limit { count, .. } => line(format!("Limit {}", self.expr(count))),
            Operator::Unwind { list, into, .. } => line(format!("Unwind {} as {}", self.expr(list), self.slot(*into))),
            Operator::Write { writes, .. } => {
                line("Write".into());
                self.writes(writes, depth + 1, out);
            }
            Operator::Merge { pattern, create, on_create, on_match, .. } => {
                line("Merge".into());
                self.pattern(pattern, depth + 1, out);
                self.titled_writes(&[("else", create), ("on create", on_create), ("on match", on_match)], depth + 1, out);
            }
            Operator::Call { procedure, arguments, yields, .. } => {
                let arguments = joined(arguments.iter().map(|e| self.expr(e)), ", ");
                let yields = yields.iter().map(|(at, slot)| format!("{} as {}", procedure.outputs[*at].name, self.slot(*slot)));
                let yields = joined(yields, ", ");
                line(format!("Call {}({arguments}){}{yields}", procedure.name, if yields.is_empty() { "" } else { " yields " }));
            }
            Operator::Recurse { first, state, again, until, .. } => {
                let first =
                    joined(first.iter().zip(state).map(|(e, slot)| format!("{} = {}", self.slot(*slot), self.expr(e))), ", ");
                line(format!("Recurse {first} until {}, else again with {}", self.expr(until), slots(again)));
            }
            Operator::Subquery { unit, .. } => line(format!("Subquery{}", if *unit { " for its effect" } else { "" })),
            Operator::Join { keys, nulls, .. } => {
                let key = |(left, right): &(Expr, Expr)| match (self.expr(left), self.expr(right)) {
                    (left, right) if left == right => left,
                    (left, right) => format!("{left} = {right}"),
                };
                let keys = joined(keys.iter().map(key), ", ");
                let on = if keys.is_empty() { "" } else { " on " };
                let otherwise = nulls.as_ref().map_or(String::new(), |nulls| format!(", else null: {}", slots(nulls)));
                line(format!("{}{on}{keys}{otherwise}", if nulls.is_some() { "Optional join" } else { "Join" }));
            }
            Operator::Union { distinct, .. } => {
                line(format!("Union{}", distinct.as_ref().map_or(" all".into(), |of| format!(" distinct {}", slots(of)))));
            }
        }
    }

    fn pattern(&self, pattern: &Pattern, depth: usize, out: &mut String) {
        let mut line = |text: String| {
            let _ = writeln!(out, "{}{text}", "  ".repeat(depth));
        };
        for (i, node) in pattern.nodes.iter().enumerate() {
            line(format!("node {i}: {}", self.pattern_node(node)));
        }
        for (i, edge) in pattern.edges.iter().enumerate() {
            line(format!("edge {i}: {}", self.pattern_edge(edge)));
        }
        for (i, condition) in pattern.conditions.iter().enumerate() {
            line(format!("condition {i}: {}", self.expr(condition)));
        }
        for (what, pairs) in [("edges", &pattern.distinct_edges), ("nodes", &pattern.distinct_nodes)] {
            if !pairs.is_empty() {
                line(format!("distinct {what}: {}", joined(pairs.iter().map(|(a, b)| format!("{a}-{b}")), ", ")));
            }
        }
        for path in &pattern.paths {
            let edges = joined(path.edges.iter().map(usize::to_string), ", ");
            line(format!("path {}: from node {} over edges {edges}", self.slot(path.slot), path.start));
        }
        if !pattern.steps.is_empty() {
            line(format!("steps: {}", self.steps(&pattern.steps)));
        }
        for steps in &pattern.orders {
            line(format!("or: {}", self.steps(steps)));
        }
        if !pattern.presumed.is_empty() {
            let presumed = pattern.presumed.iter().map(|(operator, value)| format!("{} {}", symbol(*operator), self.expr(value)));
            line(format!("where there is: {}", joined(presumed, ", ")));
        }
        for path in &pattern.delta {
            let atom = match path.atom {
                Atom::Node(i) => format!("node {i}"),
                Atom::Edge(i) => format!("edge {i}"),
            };
            line(format!(
                "delta of {atom}: {}",
                if path.steps.is_empty() { "nothing more".into() } else { self.steps(&path.steps) }
            ));
        }
    }

    fn pattern_node(&self, node: &PatternNode) -> String {
        let mut text = self.slot(node.slot);
        if node.bound {
            text += " (bound)";
        }
        for label in &node.labels {
            let _ = write!(text, ":{}", self.name(*label));
        }
        text + &self.reads(&node.reads, node.reads_all) + &self.conditions(&node.conditions)
    }

    fn pattern_edge(&self, edge: &PatternEdge) -> String {
        let slot = edge.slot.map_or(String::new(), |slot| self.slot(slot));
        let bound = if edge.bound { " (bound)" } else { "" };
        let kinds = joined(edge.kinds.iter().map(|kind| self.name(*kind).to_owned()), "|");
        let kinds = if kinds.is_empty() { kinds } else { format!(":{kinds}") };
        let arrow = if edge.directed { "->" } else { "-" };
        let length = edge
            .chain
            .as_ref()
            .map_or(String::new(), |chain| format!("*{}..{}", chain.min, chain.max.map_or(String::new(), |max| max.to_string())));
        format!(
            "{}-[{slot}{bound}{kinds}{length}]{arrow}{}{}{}{}",
            edge.source,
            edge.target,
            self.reads(&edge.reads, None),
            self.conditions(&edge.conditions),
            edge.chain.as_ref().map_or(String::new(), |chain| self.chain(chain))
        )
    }

    fn chain(&self, chain: &Chain) -> String {
        let mut text = match chain.search {
            Search::All => "",
            Search::Shortest => " shortest",
            Search::AllShortest => " all shortest",
        }
        .to_owned();
        for (what, conditions) in [("edge", &chain.edges), ("node", &chain.nodes)] {
            for (slot, condition) in conditions {
                let _ = write!(text, " each {what} {} where {}", self.slot(*slot), self.expr(condition));
            }
        }
        if let Some(path) = chain.path {
            let _ = write!(text, " as path {}", self.slot(path));
        }
        text + &self.conditions(&chain.whole)
    }

    fn reads(&self, reads: &[(Name, Slot)], all: Option<Slot>) -> String {
        let each = reads.iter().map(|(key, slot)| format!("{} = .{}", self.slot(*slot), self.name(*key)));
        let all = all.iter().map(|slot| format!("{} = .*", self.slot(*slot)));
        let text = joined(each.chain(all), ", ");
        if text.is_empty() { text } else { format!(" read {text}") }
    }

    fn conditions(&self, conditions: &[Expr]) -> String {
        if conditions.is_empty() {
            return String::new();
        }
        format!(" where {}", joined(conditions.iter().map(|e| self.expr(e)), ", "))
    }

    fn steps(&self, steps: &[Step]) -> String {
        let lookup =
            |lookup: &Lookup| format!("{} {} {}", self.expr(&lookup.of), symbol(lookup.operator), self.expr(&lookup.value));
        let step = |step: &Step| match step {
            Step::Bound { node } => format!("bound {node}"),
            Step::Seek { node, id } => format!("seek {node} by {}", self.expr(id)),
            Step::SeekEach { node, ids, .. } => format!("seek each {node} by {}", joined(ids.iter().map(lookup), " or ")),
            Step::Scan { node, lookups } => {
                let lookups = joined(lookups.iter().map(lookup), ", ");
                format!("scan {node}{}{lookups}", if lookups.is_empty() { "" } else { " by " })
            }
            Step::Ends { node, edge } => format!("ends of edge {edge} as {node}"),
            Step::Expand { edge, from } => format!("expand edge {edge} from {from}"),
            Step::Test { condition } => format!("test {condition}"),
        };
        joined(steps.iter().map(step), "; ")
    }

    fn writes(&self, writes: &[Write], depth: usize, out: &mut String) {
        let labels = |labels: &[Name]| joined(labels.iter().map(|label| format!(":{}", self.name(*label))), "");
        let properties = |properties: &Option<Expr>| properties.as_ref().map_or(String::new(), |e| format!(" {}", self.expr(e)));
        for write in writes {
            let text = match write {
                Write::CreateNode { slot, labels: of, properties: p } => {
                    format!("create node {}{}{}", self.slot(*slot), labels(of), properties(p))
                }
                Write::CreateEdge { slot, source, kind, target, properties: p } => {
                    let slot = slot.map_or(String::new(), |slot| self.slot(slot));
                    let (source, target) = (self.slot(*source), self.slot(*target));
                    format!("create edge {source}-[{slot}:{}{}]->{target}", self.name(*kind), properties(p))
                }
                Write::SetProperty { target, key, value } => {
                    format!("set {}.{} = {}", self.expr(target), self.name(*key), self.expr(value))
                }
                Write::SetProperties { target, value, replace } => {
                    format!("set {} {} {}", self.slot(*target), if *replace { "=" } else { "+=" }, self.expr(value))
                }
                Write::AddLabels { target, labels: of } => format!("add {}{}", self.slot(*target), labels(of)),
                Write::RemoveProperty { target, key } => format!("remove {}.{}", self.expr(target), self.name(*key)),
                Write::RemoveLabels { target, labels: of } => format!("remove {}{}", self.slot(*target), labels(of)),
                Write::Delete { target, detach } => {
                    format!("{}delete {}", if *detach { "detach " } else { "" }, self.expr(target))
                }
                Write::ForEach { slot, list, .. } => format!("for each {} in {}", self.slot(*slot), self.expr(list)),
                Write::Merge { .. } => "merge".into(),
            };
            let _ = writeln!(out, "{}{text}", "  ".repeat(depth));
            match write {
                Write::ForEach { writes, .. } => self.writes(writes, depth + 1, out),
                Write::Merge { pattern, create, on_create, on_match, then } => {
                    self.pattern(pattern, depth + 1, out);
                    let parts = [("else", create), ("on create", on_create), ("on match", on_match), ("then", then)];
                    self.titled_writes(&parts, depth + 1, out);
                }
                _ => {}
            }
        }
    }

    fn titled_writes(&self, parts: &[(&str, &Vec<Write>)], depth: usize, out: &mut String) {
        for (title, writes) in parts.iter().filter(|(_, writes)| !writes.is_empty()) {
            let _ = writeln!(out, "{}{title}", "  ".repeat(depth));
            self.writes(writes, depth + 1, out);
        }
    }

    fn items(&self, items: &[(Slot, Expr)]) -> String {
        joined(items.iter().map(|(slot, e)| format!("{} = {}", self.slot(*slot), self.expr(e))), ", ")
    }

    fn aggregate(&self, aggregate: &Aggregate) -> String {
        let distinct = if aggregate.distinct { "distinct " } else { "" };
        let arguments = joined(aggregate.arguments.iter().map(|e| self.expr(e)), ", ");
        format!("{:?}({distinct}{arguments})", aggregate.kind)
    }

    fn slot(&self, slot: Slot) -> String {
        self.slots.get(slot.0 as usize).cloned().unwrap_or_else(|| format!("#{}", slot.0))
    }

    fn name(&self, name: Name) -> &str {
        self.names.get(name.0 as usize).map_or("?", |name| name)
    }

    fn expr(&self, expr: &Expr) -> String {
        let all = |items: &[Expr], separator: &str| joined(items.iter().map(|e| self.expr(e)), separator);
        match expr {
            Expr::Literal(value) => literal(value),
            Expr::Slot(slot) => self.slot(*slot),
            Expr::Parameter(at) => format!("${}", self.parameters.get(*at as usize).map_or("?", |name| name)),
            Expr::Property { of, key } => format!("{}.{}", self.expr(of), self.name(*key)),
            Expr::HasLabels { of, labels } => {
                format!("{}{}", self.expr(of), joined(labels.iter().map(|label| format!(":{}", self.name(*label))), ""))
            }
            Expr::Index { of, index } => format!("{}[{}]", self.expr(of), self.expr(index)),
            Expr::Slice { of, from, to } => {
                let bound = |e: &Option<Box<Expr>>| e.as_ref().map_or(String::new(), |e| self.expr(e));
                format!("{}[{}..{}]", self.expr(of), bound(from), bound(to))
            }
            Expr::Not(of) => format!("NOT {}", self.expr(of)),
            Expr::And(items) => format!("({})", all(items, " AND ")),
            Expr::Or(items) => format!("({})", all(items, " OR ")),
            Expr::Xor(a, b) => format!("({} XOR {})", self.expr(a), self.expr(b)),
            Expr::IsNull { of, negated } => format!("{} IS {}NULL", self.expr(of), if *negated { "NOT " } else { "" }),
            Expr::Negate(of) => format!("-{}", self.expr(of)),
            Expr::Clocked(condition) => self.expr(condition),
            Expr::Binary { operator, left, right } => {
                let symbol = if *operator == Binary::Same { self.same } else { symbol(*operator) };
                format!("({} {symbol} {})", self.expr(left), self.expr(right))
            }
            Expr::List(items) => format!("[{}]", all(items, ", ")),
            Expr::Map(entries) => {
                format!("{{{}}}", joined(entries.iter().map(|(key, e)| format!("{key}: {}", self.expr(e))), ", "))
            }
            Expr::Case { branches, otherwise } => {
                let branches = joined(branches.iter().map(|(w, t)| format!(" WHEN {} THEN {}", self.expr(w), self.expr(t))), "");
                format!("CASE{branches} ELSE {} END", self.expr(otherwise))
            }
            Expr::Call { function, arguments } => format!("{}({})", function.name, all(arguments, ", ")),
            Expr::Comprehension { slot, list, filter, result } => {
                let filter = filter.as_ref().map_or(String::new(), |e| format!(" WHERE {}", self.expr(e)));
                let result = result.as_ref().map_or(String::new(), |e| format!(" | {}", self.expr(e)));
                format!("[{} IN {}{filter}{result}]", self.slot(*slot), self.expr(list))
            }
            Expr::Quantifier { kind, slot, list, condition } => {
                let kind = match kind {
                    Quantifier::All => "all",
                    Quantifier::Any => "any",
                    Quantifier::None => "none",
                    Quantifier::Single => "single",
                };
                format!("{kind}({} IN {} WHERE {})", self.slot(*slot), self.expr(list), self.expr(condition))
            }
            Expr::Reduce { total, initial, slot, list, step } => format!(
                "reduce({} = {}, {} IN {} | {})",
                self.slot(*total),
                self.expr(initial),
                self.slot(*slot),
                self.expr(list),
                self.expr(step)
            ),
            Expr::Let { slot, value, of } => format!("{} where {} = {}", self.expr(of), self.slot(*slot), self.expr(value)),
            Expr::Subquery(subquery) if self.in_words => self.asked_in_words(subquery),
            Expr::Subquery(subquery) => {
                let word = match &subquery.kind {
                    SubqueryKind::Exists => "EXISTS".to_owned(),
                    SubqueryKind::Count => "COUNT".to_owned(),
                    SubqueryKind::Collect(item) => format!("COLLECT {}", self.expr(item)),
                };
                let plan = self.tree(&subquery.plan);
                format!("{word} {{ {} }}", joined(plan.lines().map(|line| line.trim_start().to_owned()), " | "))
            }
        }
    }
}

fn symbol(operator: Binary) -> &'static str {
    match operator {
        Binary::Equal => "=",
        Binary::NotEqual => "<>",
        Binary::Less => "<",
        Binary::LessOrEqual => "<=",
        Binary::Greater => ">",
        Binary::GreaterOrEqual => ">=",
        Binary::Add => "+",
        Binary::Subtract => "-",
        Binary::Multiply => "*",
        Binary::Divide => "/",
        Binary::Modulo => "%",
        Binary::Power => "^",
        Binary::In => "IN",
        Binary::StartsWith => "STARTS WITH",
        Binary::EndsWith => "ENDS WITH",
        Binary::Contains => "CONTAINS",
        Binary::Regex => "=~",
        Binary::Same => "SAME",
    }
}

fn literal(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Boolean(b) => b.to_string(),
        Value::Integer(n) => n.to_string(),
        Value::Float(n) => format!("{n:?}"),
        Value::Text(text) => format!("{text:?}"),
        Value::Id(id) | Value::Node(id) => format!("#{id}"),
        Value::List(items) => format!("[{}]", joined(items.iter().map(literal), ", ")),
        Value::Map(map) => format!("{{{}}}", joined(map.iter().map(|(key, value)| format!("{key}: {}", literal(value))), ", ")),
        other => format!("{other:?}"),
    }
}
