//! Drawing: the dataflow of a standing query, from its results down to the changes of the graph it begins with.
//!
//! One tree, which can be shown as text, as a drawing in Mermaid, or as data by whoever holds it.

use std::collections::BTreeSet;

use weir_model::Expr;
use weir_model::expression::{Subquery, SubqueryKind};
use weir_model::plan::{Atom, DeltaPath, Name, Operator, Pattern, PatternEdge, PatternNode, Plan, Slot, Step};

use super::{Printer, joined};
use crate::bind::Draft;
use crate::standing::{StandingMode, StandingPlan};

/// A part of the dataflow, and what it stands on.
#[derive(Clone, PartialEq, Debug)]
pub struct Drawn {
    pub title: String,
    pub details: Vec<String>,
    pub inputs: Vec<Drawn>,
}

/// A standing query's parts in the words of its text.
pub struct Words<'a>(Printer<'a>);

impl<'a> Words<'a> {
    /// What has no other name has that of the column that shows it.
    pub fn of(standing: &'a StandingPlan) -> Words<'a> {
        let mut labels = labels(standing);
        for (name, slot) in &standing.plan.columns {
            if let Some(label) = labels.get_mut(slot.0 as usize).filter(|label| label.starts_with('#')) {
                *label = name.to_string();
            }
        }
        Words(Printer { in_words: true, ..printer(standing, labels) })
    }

    pub fn slot(&self, slot: Slot) -> String {
        self.0.slot(slot)
    }

    pub fn name(&self, name: Name) -> &str {
        self.0.name(name)
    }

    pub fn expr(&self, expr: &Expr) -> String {
        self.0.expr(expr)
    }

    pub fn node(&self, node: &PatternNode) -> String {
        self.0.node(node)
    }

    pub fn edge(&self, pattern: &Pattern, edge: usize) -> String {
        self.0.edge(pattern, &pattern.edges[edge])
    }
}

fn printer(standing: &StandingPlan, slots: Vec<String>) -> Printer<'_> {
    Printer { same: "=", ..Printer::of_plan(&standing.plan, slots) }
}

/// The dataflow of a standing query.
pub fn draw_standing(standing: &StandingPlan) -> Drawn {
    let StandingPlan { plan, mode, .. } = standing;
    let printer = printer(standing, labels(standing));
    let counted = match mode {
        StandingMode::DistinctId => "DistinctId: the first and the last match of a node",
        StandingMode::MultipleValues => "MultipleValues: each way of matching",
        StandingMode::AnyQuery => "AnyQuery: each row of the answer",
    };
    let columns = joined(plan.columns.iter().map(|(name, slot)| shown_column(name, &printer.slot(*slot))), ", ");
    Drawn {
        title: format!("Results {columns}"),
        details: vec![counted.to_owned()],
        inputs: vec![printer.drawn(&plan.root, false)],
    }
}

fn shown_column(name: &str, slot: &str) -> String {
    if name == slot.trim_end_matches('\'') { name.to_owned() } else { format!("{name} = {slot}") }
}

/// The names of variables. Of several of one name the first has it, as that of a node has it before the column named after it.
pub fn names_of_slots(draft: &Draft) -> Vec<String> {
    let mut names: Vec<String> = Vec::with_capacity(draft.slots.len());
    let mut taken = BTreeSet::new();
    for (number, slot) in draft.slots.iter().enumerate() {
        let mut name = if slot.name.is_empty() { format!("#{number}") } else { slot.name.to_string() };
        while !taken.insert(name.clone()) {
            name.push('\'');
        }
        names.push(name);
    }
    names
}

/// The names of slots: of variables, and of what is read of them.
fn labels(standing: &StandingPlan) -> Vec<String> {
    let mut labels = standing.slots.clone();
    let mut name = |slot: Slot, label: String| {
        if let Some(there) = labels.get_mut(slot.0 as usize)
            && there.starts_with('#')
        {
            *there = label;
        }
    };
    let label = |slot: Slot| standing.slots.get(slot.0 as usize).cloned().unwrap_or_default();
    each_pattern(&standing.plan, &mut |pattern| {
        let nodes = pattern.nodes.iter().map(|node| (Some(node.slot), &node.reads, node.reads_all));
        let edges = pattern.edges.iter().map(|edge| (edge.slot, &edge.reads, None));
        for (of, reads, all) in nodes.chain(edges) {
            let of = of.map(&label).unwrap_or_default();
            for (key, slot) in reads {
                name(*slot, format!("{of}.{}", standing.plan.names.get(key.0 as usize).map_or("?", |key| key)));
            }
            all.into_iter().for_each(|slot| name(slot, format!("properties({of})")));
        }
    });
    labels
}

fn each_pattern(plan: &Plan, visit: &mut dyn FnMut(&Pattern)) {
    plan.root.each_below(&mut |operator| {
        if let Operator::Match { pattern, .. } = operator {
            visit(pattern);
        }
    });
}

impl Printer<'_> {
    /// `asked`: it is no part of the dataflow, but looked up for each row of one.
    fn drawn(&self, operator: &Operator, asked: bool) -> Drawn {
        if let Operator::Match { input, pattern } = operator {
            let nothing_below = matches!(**input, Operator::Unit | Operator::Argument);
            let below = (!nothing_below).then(|| self.drawn(input, asked));
            let changes = pattern.delta.iter().filter(|_| !asked).map(|path| self.changes(pattern, path));
            return Drawn {
                title: format!("Pattern {}", self.shape(pattern)),
                details: self.demands(pattern),
                inputs: below.into_iter().chain(changes).collect(),
            };
        }
        let mut text = String::new();
        self.itself(operator, 0, &mut text);
        let mut lines = text.lines().map(|line| line.trim().to_owned());
        let mut drawn = Drawn { title: lines.next().unwrap_or_default(), details: lines.collect(), inputs: Vec::new() };
        let input = operator.input();
        let looks_up = matches!(operator, Operator::Subquery { .. } | Operator::Optional { .. } | Operator::Recurse { .. });
        for child in operator.children() {
            let is_input = input.is_some_and(|input| std::ptr::eq(input, child));
            let child = self.drawn(child, asked || (looks_up && !is_input));
            drawn.inputs.push(if looks_up && !is_input && !asked {
                let details = vec!["again when a node changes that was looked at".to_owned()];
                Drawn { title: "Asked of the graph for each row".to_owned(), details, inputs: vec![child] }
            } else {
                child
            });
        }
        drawn
    }

    fn node(&self, node: &PatternNode) -> String {
        let labels = node.labels.iter().map(|label| format!(":{}", self.name(*label)));
        format!("({}{})", self.slot(node.slot), joined(labels, ""))
    }

    fn edge(&self, pattern: &Pattern, edge: &PatternEdge) -> String {
        let kinds = joined(edge.kinds.iter().map(|kind| self.name(*kind).to_owned()), "|");
        let kinds = if kinds.is_empty() { kinds } else { format!(":{kinds}") };
        let variable = edge.slot.map(|slot| self.slot(slot)).filter(|name| !name.starts_with('#')).unwrap_or_default();
        let chain = edge
            .chain
            .as_ref()
            .map_or(String::new(), |chain| format!("*{}..{}", chain.min, chain.max.map_or(String::new(), |max| max.to_string())));
        let arrow = if edge.directed { "->" } else { "-" };
        let [source, target] = [edge.source, edge.target].map(|node| self.node(&pattern.nodes[node]));
        format!("{source}-[{variable}{kinds}{chain}]{arrow}{target}")
    }

    /// The edges, and the nodes that have none.
    fn shape(&self, pattern: &Pattern) -> String {
        let alone = |(at, _): &(usize, &PatternNode)| pattern.edges.iter().all(|edge| ![edge.source, edge.target].contains(at));
        let nodes = pattern.nodes.iter().enumerate().filter(alone).map(|(_, node)| self.node(node));
        joined(pattern.edges.iter().map(|edge| self.edge(pattern, edge)).chain(nodes), ", ")
    }

    /// What must hold besides.
    fn demands(&self, pattern: &Pattern) -> Vec<String> {
        let nodes = pattern.nodes.iter().flat_map(|node| &node.conditions);
        let edges = pattern.edges.iter().flat_map(|edge| &edge.conditions);
        let conditions = nodes.chain(edges).chain(&pattern.conditions);
        let mut lines: Vec<String> = conditions.map(|condition| format!("where {}", self.expr(condition))).collect();
        let apart = |pairs: &[(usize, usize)], name: &dyn Fn(usize) -> String| {
            pairs.iter().map(|(a, b)| format!("{} is not {}", name(*a), name(*b))).collect::<Vec<_>>()
        };
        lines.extend(apart(&pattern.distinct_nodes, &|at| self.node(&pattern.nodes[at])));
        lines.extend(apart(&pattern.distinct_edges, &|at| self.edge(pattern, &pattern.edges[at])));
        lines
    }

    /// Patterns and conditions; `…` stands for all else. Nodes that nothing refers to have no name, as in the text.
    pub(super) fn asked_in_words(&self, subquery: &Subquery) -> String {
        let (mut patterns, mut conditions, mut is_more) = (Vec::new(), Vec::new(), false);
        subquery.plan.each_below(&mut |operator| match operator {
            Operator::Match { pattern, .. } => {
                patterns.push(pattern);
                let nodes = pattern.nodes.iter().flat_map(|node| &node.conditions);
                let edges = pattern.edges.iter().flat_map(|edge| &edge.conditions);
                conditions.extend(nodes.chain(edges).chain(&pattern.conditions));
            }
            Operator::Filter { condition, .. } => conditions.push(condition),
            Operator::Argument | Operator::Unit | Operator::Project { .. } => {}
            _ => is_more = true,
        });
        let item = match &subquery.kind {
            SubqueryKind::Collect(item) => Some(item),
            SubqueryKind::Exists | SubqueryKind::Count => None,
        };
        let mentioned: BTreeSet<Slot> = conditions.iter().copied().chain(item).flat_map(Expr::slots).collect();
        let mut slots = self.slots.clone();
        for (number, name) in slots.iter_mut().enumerate() {
            if name.starts_with('#') && !mentioned.contains(&Slot(number as u32)) {
                name.clear();
            }
        }
        let unnamed = Printer { slots, ..*self };
        let word = match subquery.kind {
            SubqueryKind::Exists => "EXISTS",
            SubqueryKind::Count => "COUNT",
            SubqueryKind::Collect(_) => "COLLECT",
        };
        let mut text = joined(patterns.iter().map(|pattern| unnamed.shape(pattern)).filter(|shape| !shape.is_empty()), ", ");
        if !conditions.is_empty() {
            text += &format!(" WHERE {}", joined(conditions.iter().map(|condition| unnamed.expr(condition)), " AND "));
        }
        if is_more {
            text += " …";
        }
        if let Some(item) = item {
            text += &format!(" RETURN {}", unnamed.expr(item));
        }
        format!("{word} {{ {} }}", text.trim_start())
    }

    fn changes(&self, pattern: &Pattern, path: &DeltaPath) -> Drawn {
        let of = match path.atom {
            Atom::Node(at) => self.node(&pattern.nodes[at]),
            Atom::Edge(at) => self.edge(pattern, &pattern.edges[at]),
        };
        let step = |step: &Step| match step {
            Step::Expand { edge, from } => {
                format!("cross {} from {}", self.edge(pattern, &pattern.edges[*edge]), self.node(&pattern.nodes[*from]))
            }
            Step::Test { condition } => format!("test {}", self.expr(&pattern.conditions[*condition])),
            other => self.steps(std::slice::from_ref(other)),
        };
        let details = match &path.steps[..] {
            [] => vec!["nothing more to visit".to_owned()],
            steps => steps.iter().map(step).collect(),
        };
        Drawn { title: format!("Changes of {of}"), details, inputs: Vec::new() }
    }
}

impl Drawn {
    /// A tree, the results at its root.
    pub fn text(&self) -> String {
        let mut out = String::new();
        self.lines("", "", &mut out);
        out
    }

    /// `first` stands before its own line, `rest` before all others.
    fn lines(&self, first: &str, rest: &str, out: &mut String) {
        out.push_str(&format!("{first}{}\n", self.title));
        let bar = if self.inputs.is_empty() { "    " } else { "│   " };
        self.details.iter().for_each(|line| out.push_str(&format!("{rest}{bar}{line}\n")));
        for (at, input) in self.inputs.iter().enumerate() {
            let (corner, bar) = if at + 1 == self.inputs.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            input.lines(&format!("{rest}{corner}"), &format!("{rest}{bar}"), out);
        }
    }

    /// For whatever draws Mermaid: rows flow upwards.
    pub fn mermaid(&self) -> String {
        let mut out = "flowchart BT\n".to_owned();
        self.boxes(&mut 0, &mut out);
        out
    }

    /// Gives the number of its box.
    fn boxes(&self, next: &mut usize, out: &mut String) -> usize {
        let number = *next;
        *next += 1;
        let lines = std::iter::once(&self.title).chain(&self.details).map(|line| escaped(line));
        out.push_str(&format!("  n{number}[\"{}\"]\n", joined(lines, "<br/>")));
        for input in &self.inputs {
            let below = input.boxes(next, out);
            out.push_str(&format!("  n{below} --> n{number}\n"));
        }
        number
    }
}

/// As a label of Mermaid, in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("#quot;"),
            '<' => out.push_str("#lt;"),
            '>' => out.push_str("#gt;"),
            '&' => out.push_str("#amp;"),
            '#' => out.push_str("#35;"),
            '`' => out.push_str("#96;"),
            '\\' => out.push_str("#92;"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Options, compile_standing};

    fn drawn(mode: StandingMode, text: &str) -> Drawn {
        let standing = compile_standing(text, mode, &Options::default());
        draw_standing(&standing.unwrap_or_else(|problems| panic!("{text}: {}", problems[0])))
    }

    #[test]
    fn a_pattern_shows_what_each_change_leads_to() {
        let text = "MATCH (u:User)-[:OWNS]->(d) WHERE d.risk > 7 RETURN id(u) AS u, d.risk AS risk";
        let tree = drawn(StandingMode::MultipleValues, text).text();
        let first = "Results u, risk = d.risk\n│   MultipleValues: each way of matching\n└─ Project u' = id(u)\n";
        let pattern = "   └─ Pattern (u:User)-[:OWNS]->(d)\n      │   where (d.risk > 7)\n";
        assert!(tree.starts_with(&format!("{first}{pattern}")), "{tree}");
        for changes in ["├─ Changes of (u:User)\n", "Changes of (d)\n", "Changes of (u:User)-[:OWNS]->(d)\n"] {
            assert!(tree.contains(changes), "no {changes} in\n{tree}");
        }
        assert!(tree.contains("cross (u:User)-[:OWNS]->(d) from (u:User)\n"), "{tree}");
        assert!(tree.contains("cross (u:User)-[:OWNS]->(d) from (d)\n"), "{tree}");
    }

    #[test]
    fn what_is_looked_up_row_by_row_is_told_apart() {
        let text = "MATCH (a:A) WHERE NOT EXISTS { (a)-[:R]->(:B) } WITH a.k AS k, count(*) AS n WHERE n > 1 RETURN k, n";
        let tree = drawn(StandingMode::AnyQuery, text).text();
        for part in ["Results k, n", "Aggregate", "Asked of the graph for each row", "Changes of (a:A)"] {
            assert!(tree.contains(part), "no {part} in\n{tree}");
        }
        assert_eq!(tree.matches("Changes of").count(), 1, "what is looked up begins nothing:\n{tree}");
    }

    #[test]
    fn what_an_expression_asks_is_told_in_words() {
        let told = |text: &str| {
            let standing = compile_standing(text, StandingMode::AnyQuery, &Options::default());
            let standing = standing.unwrap_or_else(|problems| panic!("{text}: {}", problems[0]));
            let mut all = Vec::new();
            standing.plan.root.all_expressions(&mut all);
            let words = Words::of(&standing);
            joined(all.into_iter().map(|expr| words.expr(expr)).filter(|text| text.contains('{')), "; ")
        };
        for (condition, expected) in [
            ("NOT EXISTS { (a)-[:K]->() }", "NOT EXISTS { (a)-[:K]->() }"),
            ("EXISTS { MATCH (a)-[:K]->(b:B) WHERE b.x > a.x }", "EXISTS { (a)-[:K]->(b:B) WHERE (b.x > a.x) }"),
            ("COUNT { (a)-[:K]->() } > 1", "(COUNT { (a)-[:K]->() } > 1)"),
        ] {
            let told = told(&format!("MATCH (a:A) WHERE {condition} RETURN id(a) AS a"));
            assert!(told.contains(expected), "{condition}: {told}");
        }
    }

    /// The older modes compare a property with a constant in a stricter way, which is no other operator to whoever wrote it.
    #[test]
    fn strict_equality_is_shown_as_it_is_written() {
        let text = "MATCH (o:Order) WHERE o.paid = true AND o.sum <> 5 RETURN DISTINCT id(o) AS o";
        let standing = compile_standing(text, StandingMode::DistinctId, &Options::default());
        let standing = standing.unwrap_or_else(|problems| panic!("{}", problems[0]));
        let (mut all, words) = (Vec::new(), Words::of(&standing));
        standing.plan.root.all_expressions(&mut all);
        let told = joined(all.into_iter().map(|expr| words.expr(expr)), "; ");
        let tree = draw_standing(&standing).text();
        for condition in ["(o.paid = true)", "NOT (o.sum = 5)"] {
            assert!(told.contains(condition), "no {condition} in {told}");
            assert!(tree.contains(condition), "no {condition} in\n{tree}");
        }
    }

    #[test]
    fn mermaid_has_a_box_for_each_part_and_nothing_breaks_out_of_it() {
        let text = "MATCH (n:`a\"]<b>`) WHERE n.x = '#\"`' RETURN DISTINCT id(n) AS id";
        let tree = drawn(StandingMode::DistinctId, text);
        let drawing = tree.mermaid();
        let boxes = drawing.lines().filter(|line| line.trim_start().starts_with('n') && line.contains("[\"")).count();
        let arrows = drawing.lines().filter(|line| line.contains(" --> ")).count();
        assert_eq!(boxes, arrows + 1, "{drawing}");
        for line in drawing.lines().filter(|line| line.contains("[\"")) {
            assert_eq!(line.matches('"').count(), 2, "{line}");
            assert!(!line.replace("<br/>", "").contains('<'), "{line}");
        }
    }
}
