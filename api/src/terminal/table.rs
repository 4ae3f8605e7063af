//! Rows as a table that fits the terminal: columns are narrowed, the widest first, and what does not fit ends in `…`. Where
//! even that leaves no room, and for a single row that does not fit, each row is a list of its own, with every value whole.
//!
//! Rows are drawn some at a time: an answer may be larger than the memory. Columns grow where later rows need that.

use serde_json::Value as Json;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use weir_model::visible::visible;

use super::cell::cell;
use super::{Colour, Terminal};

/// Narrower columns show nothing worth reading.
const COLUMN_WIDTH_MIN: usize = 6;

/// At most this many rows are looked at together to know how wide the columns are.
const ROWS_TOGETHER_MAX: usize = 1000;

struct Cell {
    text: String,
    width: usize,
    number: bool,
    null: bool,
}

impl Cell {
    fn of(value: &Json) -> Cell {
        let text = cell(value);
        Cell { width: text.width(), text, number: value.is_number(), null: value.is_null() }
    }
}

/// How rows are drawn. The first ones settle it.
#[derive(PartialEq)]
enum Form {
    Open,
    Table,
    Lists,
}

pub struct Table {
    /// The names, as they are shown.
    columns: Vec<String>,
    terminal: Terminal,
    form: Form,
    /// Rows that are not drawn yet.
    held: Vec<Vec<Json>>,
    drawn_count: usize,
    /// What the columns would need.
    needed: Vec<usize>,
    /// What they have.
    widths: Vec<usize>,
}

impl Table {
    pub fn new(columns: &[String], terminal: Terminal) -> Table {
        let columns: Vec<String> = columns.iter().map(|name| visible(name)).collect();
        let needed: Vec<usize> = columns.iter().map(|name| name.width().max(1)).collect();
        Table { columns, terminal, form: Form::Open, held: Vec::new(), drawn_count: 0, widths: Vec::new(), needed }
    }

    /// Whether there are no columns, and nothing to be drawn.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Takes rows; gives what is drawn by now, whole lines.
    pub fn rows(&mut self, rows: Vec<Vec<Json>>) -> String {
        let mut out = String::new();
        for row in rows {
            self.held.push(row);
            if self.held.len() == ROWS_TOGETHER_MAX {
                self.draw(&mut out);
            }
        }
        out
    }

    /// The rest. Without columns it is empty.
    pub fn end(mut self) -> String {
        if self.is_empty() {
            return String::new();
        }
        if let Some(plan) = self.plan() {
            return plan;
        }
        let mut out = String::new();
        if self.form == Form::Open || !self.held.is_empty() {
            self.draw(&mut out);
        }
        if self.form == Form::Table && self.drawn_count > 0 {
            self.rule(&mut out);
        }
        out
    }

    fn draw(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let rows: Vec<Vec<Cell>> = held.iter().map(|row| row.iter().map(Cell::of).collect()).collect();
        for row in &rows {
            for (needed, cell) in self.needed.iter_mut().zip(row) {
                *needed = (*needed).max(cell.width);
            }
        }
        let mut widths = self.needed.clone();
        // `| a | b |`: three characters a column, and one.
        let room = self.terminal.width.map(|room| room.saturating_sub(3 * self.columns.len() + 1));
        let fits = room.is_none_or(|room| narrow(&mut widths, room));
        if self.form == Form::Open {
            let cut = !fits || (rows.len() == 1 && widths != self.needed);
            self.form = if cut { Form::Lists } else { Form::Table };
        }
        if self.form == Form::Lists {
            self.lists(&rows, out);
        } else {
            // Where there is no room for wider ones they stay as they are.
            if fits && widths != self.widths {
                let first = self.widths.is_empty();
                self.widths = widths;
                self.rule(out);
                if first {
                    self.names(out);
                }
            }
            rows.iter().for_each(|row| self.line(row, out));
        }
        self.drawn_count += rows.len();
    }

    fn rule(&self, out: &mut String) {
        self.widths.iter().for_each(|width| out.push_str(&format!("+{}", "-".repeat(width + 2))));
        out.push_str("+\n");
    }

    fn names(&self, out: &mut String) {
        for (name, width) in self.columns.iter().zip(&self.widths) {
            let shown = fitted(name, name.width(), *width);
            out.push_str("| ");
            out.push_str(&self.terminal.paint(Colour::Bold, &shown));
            out.push_str(&" ".repeat(width - shown.width().min(*width) + 1));
        }
        out.push_str("|\n");
        self.rule(out);
    }

    fn line(&self, row: &[Cell], out: &mut String) {
        for (cell, width) in row.iter().zip(&self.widths) {
            let shown = fitted(&cell.text, cell.width, *width);
            let blanks = " ".repeat(width - shown.width().min(*width));
            let painted = if cell.null { self.terminal.paint(Colour::Dim, &shown) } else { shown };
            match cell.number {
                true => out.push_str(&format!("| {blanks}{painted} ")),
                false => out.push_str(&format!("| {painted}{blanks} ")),
            }
        }
        out.push_str("|\n");
    }

    /// A row after the other, each value on a line of its own. The terminal breaks long ones, so that they are copied whole.
    fn lists(&self, rows: &[Vec<Cell>], out: &mut String) {
        let widest = self.columns.iter().map(|name| name.width()).max().unwrap_or(0);
        for (index, row) in rows.iter().enumerate() {
            out.push_str(&self.terminal.paint(Colour::Dim, &format!("--- row {}", self.drawn_count + index + 1)));
            out.push('\n');
            for (name, cell) in self.columns.iter().zip(row) {
                let blanks = " ".repeat(widest - name.width());
                let value = if cell.null { self.terminal.paint(Colour::Dim, &cell.text) } else { cell.text.clone() };
                out.push_str(&format!("{}{blanks}  {value}\n", self.terminal.paint(Colour::Bold, name)));
            }
        }
    }

    /// What EXPLAIN and PROFILE answer, as the text that is in it.
    fn plan(&self) -> Option<String> {
        let ([column], [row]) = (&self.columns[..], &self.held[..]) else { return None };
        let value = row.first().filter(|_| column == "plan")?;
        let lines = value["args"]["plan"].as_str()?.lines().map(|line| visible(line) + "\n");
        Some(lines.collect())
    }
}

/// Makes the widest columns narrower, all to the same width, until all fit. False where they would be too narrow to read.
fn narrow(widths: &mut [usize], room: usize) -> bool {
    if widths.iter().sum::<usize>() <= room {
        return true;
    }
    let mut sorted = widths.to_vec();
    sorted.sort_unstable();
    // The columns that stay as they are take their share; the others divide what is left.
    let mut left = room;
    let mut limit = 0;
    for (index, width) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index);
        if *width > share {
            limit = share;
            break;
        }
        left -= width;
    }
    if limit < COLUMN_WIDTH_MIN {
        return false;
    }
    widths.iter_mut().for_each(|width| *width = (*width).min(limit));
    true
}

/// The text, or as much of it as fits, and `…`.
fn fitted(text: &str, width: usize, room: usize) -> String {
    if width <= room {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = c.width().unwrap_or(0);
        if used + next + 1 > room {
            break;
        }
        used += next;
        out.push(c);
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(columns: &[&str], rows: Json, width: Option<usize>) -> String {
        drawn(columns, rows, Terminal { width, ..Terminal::default() })
    }

    fn drawn(columns: &[&str], rows: Json, terminal: Terminal) -> String {
        let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
        let mut table = Table::new(&columns, terminal);
        table.rows(serde_json::from_value(rows).expect("rows")) + &table.end()
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let table = shown(&["name", "n"], json!([["Ann", 1], ["你好", 100], ["é🌈", null]]), None);
        assert_eq!(
            table,
            "+--------+------+\n\
             | name   | n    |\n\
             +--------+------+\n\
             | \"Ann\"  |    1 |\n\
             | \"你好\" |  100 |\n\
             | \"é🌈\"  | null |\n\
             +--------+------+\n"
        );
        assert_eq!(shown(&["a"], json!([]), Some(80)), "+---+\n| a |\n+---+\n");
        assert_eq!(shown(&[], json!([]), Some(80)), "");
    }

    #[test]
    fn tables_fit_the_terminal() {
        let long = "x".repeat(200);
        for width in [24, 30, 80, 100] {
            let table = shown(&["id", "text", "more"], json!([[7, long, "你好".repeat(50)], [8, "", ""]]), Some(width));
            assert!(table.lines().all(|line| line.width() <= width), "{width}\n{table}");
            assert!(table.contains('…'), "{table}");
        }
        // No room for a table.
        let records = shown(&["a", "long name"], json!([[1, "x".repeat(30)], [null, 2]]), Some(12));
        assert_eq!(
            records,
            format!("--- row 1\na          1\nlong name  \"{}\"\n--- row 2\na          null\nlong name  2\n", "x".repeat(30))
        );
    }

    #[test]
    fn colours_take_no_room() {
        let plain = shown(&["a"], json!([[null]]), Some(80));
        let coloured = drawn(&["a"], json!([[null]]), Terminal { colours: true, width: Some(80), height: None });
        assert_eq!(coloured.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", ""), plain);
    }

    #[test]
    fn a_single_row_is_shown_whole() {
        let long = "x".repeat(40);
        assert_eq!(
            shown(&["a", "long name"], json!([[1, long]]), Some(30)),
            format!("--- row 1\na          1\nlong name  \"{long}\"\n")
        );
        assert!(shown(&["a"], json!([[1]]), Some(30)).starts_with("+---+\n"));
        let plan = json!([[{"args": {"plan": "Facts\nUnit\u{1b}\n"}}]]);
        assert_eq!(shown(&["plan"], plan, Some(80)), "Facts\nUnit\\u001b\n");
        assert!(shown(&["plan"], json!([["Unit"]]), Some(80)).contains("| \"Unit\" |"));
    }

    #[test]
    fn names_do_not_steer_the_terminal() {
        let table = shown(&["a\u{1b}[35m", "b\nc"], json!([[1, 2]]), Some(80));
        assert!(table.contains("| a\\u001b[35m | b\\nc |\n"), "{table}");
        let lists = shown(&["a\u{1b}[35m"], json!([["x".repeat(90)]]), Some(80));
        assert!(lists.contains("\na\\u001b[35m  \""), "{lists}");
    }

    #[test]
    fn rows_are_drawn_while_they_come() {
        let columns = ["n".to_owned()];
        let mut table = Table::new(&columns, Terminal::default());
        let rows = |range: std::ops::Range<usize>| range.map(|n| vec![json!(n)]).collect::<Vec<_>>();
        assert_eq!(table.rows(rows(0..999)), "");
        let drawn = table.rows(rows(999..2100));
        assert_eq!(drawn.lines().count(), 2004, "rules and names, and two thousand rows");
        assert!(drawn.starts_with("+-----+\n|   n |\n") || drawn.starts_with("+-----+\n| n   |\n"), "{drawn:.40}");
        assert!(table.held.len() == 100);
        // Wider from where that is needed on, and nothing is cut.
        assert!(drawn.contains("| 999 |\n+------+\n| 1000 |\n"), "{drawn}");
        let rest = table.end();
        assert!(rest.starts_with("| 2000 |\n") && rest.ends_with("| 2099 |\n+------+\n"), "{rest}");
    }
}
