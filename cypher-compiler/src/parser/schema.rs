//! Commands about indexes: `CREATE INDEX`, `DROP INDEX`, `SHOW INDEXES`. A command is the whole text.

use weir_model::Text;
use weir_model::plan::Schema;

use super::{Parsed, Parser};
use crate::ast::{Clause, ClauseKind, Query};
use crate::error::Code;

/// Words between CREATE and INDEX. One sort of index answers all of them.
const SORTS: &[&str] = &["RANGE", "TEXT", "BTREE", "LOOKUP"];

impl Parser<'_> {
    /// The command the text is, if it is one.
    pub(super) fn schema(&mut self) -> Parsed<Option<Query>> {
        let from = self.at;
        let sorted = SORTS.iter().any(|sort| self.is_word_at(1, sort)) && self.is_word_at(2, "INDEX");
        let schema = if self.is_word_at(0, "CREATE") && (sorted || self.is_word_at(1, "INDEX")) {
            let lookup = self.is_word_at(1, "LOOKUP");
            (0..if sorted { 3 } else { 2 }).for_each(|_| self.advance());
            self.create_index(lookup)?
        } else if self.is_word_at(0, "DROP") && self.is_word_at(1, "INDEX") {
            self.advance();
            self.advance();
            let name = self.name("the name of an index")?.text;
            Schema::DropIndex { name, if_exists: self.words("IF EXISTS") }
        } else if self.is_word_at(0, "SHOW") && (self.is_word_at(1, "INDEXES") || self.is_word_at(1, "INDEX")) {
            self.advance();
            self.advance();
            Schema::ShowIndexes
        } else {
            return Ok(None);
        };
        let clause = Clause { kind: ClauseKind::Schema(schema), span: self.span_from(from) };
        Ok(Some(Query { first: vec![clause], unions: Vec::new() }))
    }

    /// `[name] [IF NOT EXISTS] FOR (n:Label) [ON (n.property)]`, or as it was once written, `ON :Label(property)`.
    fn create_index(&mut self, lookup: bool) -> Parsed<Schema> {
        if self.words("ON") {
            self.need_symbol(":")?;
            let label = self.name("a label")?.text;
            self.need_symbol("(")?;
            let property = Some(self.name("a property key")?.text);
            self.only_one("(")?;
            return Ok(Schema::CreateIndex { name: None, label, property, unless_exists: false });
        }
        let named = !self.words("IF NOT EXISTS") && !self.words("FOR");
        let name = if named { Some(self.name("a name")?.text) } else { None };
        let unless_exists = if named { self.words("IF NOT EXISTS") } else { !self.is_symbol("(") };
        if named || unless_exists {
            self.need_words("FOR")?;
        }
        let from = self.at;
        self.need_symbol("(")?;
        if self.is_symbol(")") {
            let message = "Only nodes have indexes; relationships are found from their ends";
            return Err(self.compile_error(self.span_from(from), Code::Unsupported, message));
        }
        let variable = self.variable()?.text;
        if self.is_symbol(")") {
            let message = "An index is for the nodes of one label: FOR (n:Label)";
            return Err(self.compile_error(self.span_from(from), Code::Unsupported, message));
        }
        self.need_symbol(":")?;
        let label = self.name("a label")?.text;
        self.need_symbol(")")?;
        if lookup {
            if self.words("ON EACH") {
                self.need_words("LABELS")?;
                self.need_symbol("(")?;
                self.the_variable(&variable)?;
                self.need_symbol(")")?;
            }
            return Ok(Schema::CreateIndex { name, label, property: None, unless_exists });
        }
        self.need_words("ON")?;
        let parentheses = self.symbol("(");
        self.the_variable(&variable)?;
        self.need_symbol(".")?;
        let property = Some(self.name("a property key")?.text);
        self.only_one(if parentheses { "(" } else { "" })?;
        Ok(Schema::CreateIndex { name, label, property, unless_exists })
    }

    fn the_variable(&mut self, variable: &Text) -> Parsed<()> {
        let name = self.variable()?;
        if name.text == *variable {
            return Ok(());
        }
        Err(self.compile_error(name.span, Code::UndefinedVariable, format!("Variable `{}` not defined", name.text)))
    }

    /// The end of a list of properties that has no second one.
    fn only_one(&mut self, opened: &str) -> Parsed<()> {
        if self.is_symbol(",") {
            let message = "An index is of one property; of several, make one each: a query uses the best of them";
            return Err(self.compile_error(self.span(), Code::Unsupported, message));
        }
        if opened == "(" { self.need_symbol(")") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::check;

    #[test]
    fn commands() {
        check("CREATE INDEX FOR (n:A) ON (n.x)", "CREATE INDEX FOR (n:A) ON (n.x)");
        check(
            "create range index `my index` if not exists for (p:Person) on (p.name);",
            "CREATE INDEX my index IF NOT EXISTS FOR (n:Person) ON (n.name)",
        );
        check("CREATE INDEX IF NOT EXISTS FOR (n:A) ON n.x", "CREATE INDEX IF NOT EXISTS FOR (n:A) ON (n.x)");
        check("CREATE INDEX ON :A(x)", "CREATE INDEX FOR (n:A) ON (n.x)");
        check("CREATE LOOKUP INDEX people FOR (n:Person) ON EACH labels(n)", "CREATE LOOKUP INDEX people FOR (n:Person)");
        check("CREATE LOOKUP INDEX FOR (n:Person)", "CREATE LOOKUP INDEX FOR (n:Person)");
        check("DROP INDEX people", "DROP INDEX people");
        check("DROP INDEX people IF EXISTS", "DROP INDEX people IF EXISTS");
        check("SHOW INDEXES", "SHOW INDEXES");
        check("CREATE INDEX FOR (n:A) ON (m.x)", "1.28 Variable `m` not defined");
        check(
            "CREATE INDEX FOR (n:A) ON (n.x, n.y)",
            "1.31 An index is of one property; of several, make one each: a query uses the best of them",
        );
        check("CREATE LOOKUP INDEX FOR (n)", "1.25 An index is for the nodes of one label: FOR (n:Label)");
        check("CREATE INDEX FOR ()-[r:R]-() ON (r.x)", "1.18 Only nodes have indexes; relationships are found from their ends");
        check("CREATE INDEX", "1.13 Unexpected end of input: expected ON, IF NOT EXISTS, FOR or a name");
        check("SHOW INDEXES RETURN 1", "1.14 Invalid input 'RETURN': expected ;");
        check("MATCH (n) CREATE INDEX FOR (n:A) ON (n.x)", "1.11 A command about indexes stands alone");
    }
}
