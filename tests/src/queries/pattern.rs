//! Random patterns: chains, trees, cycles, several parts, variable lengths, paths, and what earlier clauses bound.

use super::graph::{KINDS, LABELS, choose};
use super::text::{Holds, Variable, Writer};

impl Writer<'_> {
    /// One to `parts_max` parts, with commas, of up to `edges_max` edges each. What they declare enters the scope.
    pub fn patterns(&mut self, parts_max: usize, edges_max: usize) -> String {
        let parts = if self.chance(4) { parts_max } else { 1 };
        let mut declared = Vec::new();
        let written: Vec<String> = (0..parts).map(|_| self.part(edges_max, &mut declared)).collect();
        self.scope.extend(declared);
        written.join(", ")
    }

    /// Variables of paths and edges count from the end of the clause on; nodes at once, so that patterns close to circles.
    fn part(&mut self, edges_max: usize, declared: &mut Vec<Variable>) -> String {
        if self.chance(25) {
            return self.shortest(declared);
        }
        if edges_max > 1 && self.chance(16) {
            return self.closed();
        }
        let edges = if self.chance(4) { 0 } else { 1 + self.below(edges_max) };
        let mut text = self.node();
        for _ in 0..edges {
            let chain = self.chance(6);
            let name = if self.chance(3) { self.edge_variable(chain, declared) } else { String::new() };
            text += &self.edge(&name, chain);
            text += &self.node();
        }
        if edges > 0 && self.chance(8) {
            let path = self.fresh("p");
            declared.push(Variable { name: path.clone(), holds: Holds::Path });
            return format!("{path} = {text}");
        }
        text
    }

    /// A ring of two to four nodes, or three of which each has an edge to each.
    fn closed(&mut self) -> String {
        let nodes: Vec<String> = (0..2 + self.below(3)).map(|_| self.new_node()).collect();
        let first = nodes[0].clone();
        let mut text = format!("({first})");
        for node in nodes.iter().skip(1).chain([&first]) {
            text += &self.edge("", false);
            text += &format!("({node})");
        }
        if nodes.len() == 3 && self.chance(3) {
            text += &format!(", ({}){}({first})", nodes[1], self.edge("", false));
        }
        text
    }

    /// One of the shortest paths: of it, only the length is the same for everyone.
    fn shortest(&mut self, declared: &mut Vec<Variable>) -> String {
        let (path, all) = (self.fresh("p"), self.chance(2));
        let (from, to) = (self.node(), self.node());
        let arrow = choose(self.random, &["-[:R*]->", "-[*..3]-", "<-[:S|T*0..2]-", "-[:R|S*1..4]->"]);
        declared.push(Variable { name: path.clone(), holds: Holds::Shortest });
        format!("{path} = {}({from}{arrow}{to})", if all { "allShortestPaths" } else { "shortestPath" })
    }

    fn node(&mut self) -> String {
        let (name, known) = match self.below(10) {
            0..=2 => (String::new(), false),
            3..=5 => match self.variable(Holds::Node) {
                Some(name) => (name, true),
                None => (self.new_node(), false),
            },
            _ => (self.new_node(), false),
        };
        let labels = match self.below(12) {
            0 | 1 => format!(":{}", choose(self.random, LABELS)),
            4 => self.labels(),
            _ => String::new(),
        };
        let properties = if !known && self.mixed && self.chance(8) {
            format!(" {{v: {}}}", self.mixed_constant())
        } else if !known && self.chance(10) {
            let key = choose(self.random, &["x", "y", "s"]);
            let value = if key == "s" { "'a'".to_owned() } else { self.below(3).to_string() };
            format!(" {{{key}: {value}}}")
        } else {
            String::new()
        };
        format!("({name}{labels}{properties})")
    }

    fn new_node(&mut self) -> String {
        let name = self.fresh("n");
        self.declare(&name, Holds::Node);
        name
    }

    /// A new variable, or one that an earlier clause bound; that one once a clause.
    fn edge_variable(&mut self, chain: bool, declared: &mut Vec<Variable>) -> String {
        let holds = if chain { Holds::Edges } else { Holds::Edge };
        if self.chance(8)
            && let Some(name) = self.variable(holds)
            && !self.bound_edges.contains(&name)
        {
            self.bound_edges.push(name.clone());
            return name;
        }
        let name = self.fresh("r");
        declared.push(Variable { name: name.clone(), holds });
        name
    }

    /// `-[name:R|S*1..2 {w: 1}]->`
    pub fn edge(&mut self, name: &str, chain: bool) -> String {
        let kinds = match self.below(6) {
            0 | 1 => String::new(),
            2 => format!(":{}|{}", choose(self.random, KINDS), choose(self.random, KINDS)),
            _ => format!(":{}", choose(self.random, KINDS)),
        };
        let length = if chain { choose(self.random, &["*1..2", "*0..1", "*..2", "*2", "*1..3", "*0..2"]) } else { "" };
        let properties = if self.mixed && self.chance(12) {
            format!(" {{v: {}}}", self.mixed_constant())
        } else if self.chance(12) {
            format!(" {{w: {}}}", self.below(3))
        } else {
            String::new()
        };
        let inside = format!("{name}{kinds}{length}{properties}");
        let inside = if inside.is_empty() { inside } else { format!("[{inside}]") };
        match self.below(7) {
            0..=3 => format!("-{inside}->"),
            4 | 5 => format!("<-{inside}-"),
            _ => format!("-{inside}-"),
        }
    }
}
