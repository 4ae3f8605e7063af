//! CALL of procedures and of subqueries, LOAD CSV, SHOW, TERMINATE.

use weir_model::schema::Schema;

use super::{Parsed, Parser};
use crate::ast::{ClauseKind, ExpressionKind, Imports, Name, Yield};
use crate::error::Code;

impl Parser<'_> {
    /// After CALL.
    pub(super) fn call(&mut self) -> Parsed<ClauseKind> {
        if self.is_symbol("{") {
            return self.call_subquery(None);
        }
        if self.words("RECURSIVELY WITH") {
            return self.recursion();
        }
        if self.symbol("(") {
            let imports = if self.symbol("*") { Imports::All } else { Imports::These(self.imported()?) };
            self.need_symbol(")")?;
            return self.call_subquery(Some(imports));
        }
        let procedure = self.dotted_name("a procedure")?;
        let arguments = if self.symbol("(") { Some(self.arguments()?) } else { None };
        let yields = if self.words("YIELD") { Some(self.yields()?) } else { None };
        Ok(ClauseKind::Call { procedure, arguments, yields })
    }

    fn imported(&mut self) -> Parsed<Vec<Name>> {
        let mut names = Vec::new();
        if !self.is_symbol(")") {
            names.push(self.variable()?);
            while self.symbol(",") {
                names.push(self.variable()?);
            }
        }
        Ok(names)
    }

    fn arguments(&mut self) -> Parsed<Vec<crate::ast::Expression>> {
        let mut arguments = Vec::new();
        if !self.is_symbol(")") {
            arguments.push(self.expression()?);
            while self.symbol(",") {
                arguments.push(self.expression()?);
            }
        }
        self.need_symbol(")")?;
        Ok(arguments)
    }

    /// `a.b.c`
    fn dotted_name(&mut self, what: &'static str) -> Parsed<Name> {
        let from = self.at;
        let mut text = self.name(what)?.text;
        while self.symbol(".") {
            text.push('.');
            text.push_str(&self.name("a name")?.text);
        }
        Ok(Name { text, span: self.span_from(from) })
    }

    fn yields(&mut self) -> Parsed<Yield> {
        if self.symbol("*") {
            return Ok(Yield::All);
        }
        if self.symbol("-") {
            return Ok(Yield::Columns { columns: Vec::new(), condition: None });
        }
        let mut columns = vec![self.yielded()?];
        while self.symbol(",") {
            columns.push(self.yielded()?);
        }
        let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
        Ok(Yield::Columns { columns, condition })
    }

    fn yielded(&mut self) -> Parsed<(Name, Option<Name>)> {
        let column = self.name("a column of the procedure")?;
        let alias = if self.words("AS") { Some(self.variable()?) } else { None };
        Ok((column, alias))
    }

    fn recursion(&mut self) -> Parsed<ClauseKind> {
        let mut first = Vec::new();
        loop {
            let value = self.expression()?;
            self.need_words("AS")?;
            first.push((value, self.variable()?));
            if !self.symbol(",") {
                break;
            }
        }
        self.need_words("UNTIL")?;
        self.need_symbol("(")?;
        let until = self.expression()?;
        self.need_symbol(")")?;
        self.need_symbol("{")?;
        let query = Box::new(self.nested(|parser| parser.regular_query())?);
        self.need_symbol("}")?;
        Ok(ClauseKind::Recurse { first, until, query })
    }

    fn call_subquery(&mut self, imports: Option<Imports>) -> Parsed<ClauseKind> {
        self.need_symbol("{")?;
        let query = Box::new(self.nested(|parser| parser.regular_query())?);
        self.need_symbol("}")?;
        let batched = self.is_word_at(0, "IN") && (1..=3).any(|ahead| self.is_word_at(ahead, "TRANSACTIONS"));
        if batched {
            let message = "CALL { ... } IN TRANSACTIONS is not supported: a query is one transaction. Leave IN TRANSACTIONS out, or \
                           send the rows as an ingest stream, where each record is a transaction of its own";
            return Err(self.compile_error(self.span(), Code::Unsupported, message));
        }
        Ok(ClauseKind::Subquery { imports, query })
    }

    /// After LOAD.
    pub(super) fn load_csv(&mut self) -> Parsed<ClauseKind> {
        self.need_words("CSV")?;
        let headers = self.words("WITH HEADERS");
        self.need_words("FROM")?;
        let from = self.expression()?;
        self.need_words("AS")?;
        let variable = self.variable()?;
        let separator = if self.words("FIELDTERMINATOR") { Some(self.expression()?) } else { None };
        Ok(ClauseKind::LoadCsv { headers, from, variable, separator })
    }

    /// After SHOW: what procedures list.
    pub(super) fn show(&mut self) -> Parsed<ClauseKind> {
        let from = self.at;
        let procedure = if self.words("PROCEDURES") || self.words("PROCEDURE") {
            self.executable()?;
            "help.procedures"
        } else if self.words("FUNCTIONS") || self.words("FUNCTION") {
            self.executable()?;
            "help.functions"
        } else if self.words("QUERIES") || self.words("QUERY") {
            "query.running"
        } else if self.words("INDEXES") || self.words("INDEX") {
            return self.chosen_of(&Schema::ShowIndexes, "schema.indexes", from);
        } else if self.words("EXPIRIES") || self.words("EXPIRY") {
            return self.chosen_of(&Schema::ShowExpiries, "schema.expiries", from);
        } else {
            return Err(self.unexpected());
        };
        let span = self.span_from(from);
        let yields = if self.words("YIELD") { Some(self.yields()?) } else { None };
        Ok(ClauseKind::Call { procedure: Name { text: procedure.into(), span }, arguments: Some(Vec::new()), yields })
    }

    /// What a command shows, as a procedure gives it. All of its columns are meant by `YIELD *`, and by WHERE alone.
    fn chosen_of(&mut self, command: &Schema, procedure: &str, from: usize) -> Parsed<ClauseKind> {
        let span = self.span_from(from);
        let given = if self.words("YIELD") { self.yields()? } else { Yield::All };
        let yields = match given {
            Yield::All => {
                let columns = command.columns().iter().map(|column| (Name { text: (*column).into(), span }, None)).collect();
                let condition = if self.words("WHERE") { Some(self.expression()?) } else { None };
                Yield::Columns { columns, condition }
            }
            columns => columns,
        };
        let procedure = Name { text: procedure.into(), span };
        Ok(ClauseKind::Call { procedure, arguments: Some(Vec::new()), yields: Some(yields) })
    }

    /// Whoever may ask may execute everything.
    fn executable(&mut self) -> Parsed<()> {
        if self.words("EXECUTABLE") && self.words("BY") && !self.words("CURRENT USER") {
            self.name("the name of a user")?;
        }
        Ok(())
    }

    /// After TERMINATE: `QUERY 'id'`, or several ids after QUERIES.
    pub(super) fn terminate(&mut self) -> Parsed<ClauseKind> {
        let from = self.at;
        if !self.words("QUERIES") {
            self.need_words("QUERY")?;
        }
        let procedure = Name { text: "query.terminate".into(), span: self.span_from(from) };
        let from = self.at;
        let mut ids = vec![self.expression()?];
        while self.symbol(",") {
            ids.push(self.expression()?);
        }
        if ids.len() > 1 {
            ids = vec![self.make(from, ExpressionKind::List(ids))];
        }
        let yields = if self.words("YIELD") { Some(self.yields()?) } else { None };
        Ok(ClauseKind::Call { procedure, arguments: Some(ids), yields })
    }
}
