//! What follows WITH and RETURN.

use super::{Parsed, Parser};
use crate::ast::{Item, Projection};

impl Parser<'_> {
    pub(super) fn projection(&mut self) -> Parsed<Projection> {
        let distinct = self.words("DISTINCT");
        let star = self.symbol("*");
        let mut items = Vec::new();
        if !star || self.symbol(",") {
            items.push(self.item()?);
            while self.symbol(",") {
                items.push(self.item()?);
            }
        }
        let mut order = Vec::new();
        if self.words("ORDER BY") {
            order.push(self.order_key()?);
            while self.symbol(",") {
                order.push(self.order_key()?);
            }
        }
        let skip = if self.words("SKIP") || self.words("OFFSET") { Some(self.expression()?) } else { None };
        let limit = if self.words("LIMIT") { Some(self.expression()?) } else { None };
        Ok(Projection { distinct, star, items, order, skip, limit })
    }

    fn item(&mut self) -> Parsed<Item> {
        let from = self.at;
        let expression = self.expression()?;
        let source = self.source(self.span_from(from));
        let alias = if self.words("AS") { Some(self.name("a name")?) } else { None };
        Ok(Item { expression, alias, source })
    }

    fn order_key(&mut self) -> Parsed<(crate::ast::Expression, bool)> {
        let key = self.expression()?;
        let descending = self.words("DESC") || self.words("DESCENDING");
        if !descending {
            let _ = self.words("ASC") || self.words("ASCENDING");
        }
        Ok((key, descending))
    }
}
