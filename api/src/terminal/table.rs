//! Rows as a table that fits the terminal: columns are narrowed, the widest first, and what does not fit ends in `…`. Where
//! even that leaves no room, each row is a list of its own.

use serde_json::Value as Json;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::cell::cell;
use super::{Colour, Terminal};
use crate::client::Answer;

/// Narrower columns show nothing worth reading.
const COLUMN_WIDTH_MIN: usize = 6;

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

/// The table, with a line end after each line. Without columns it is empty.
pub fn table(answer: &Answer, terminal: Terminal) -> String {
    let columns = &answer.columns;
    if columns.is_empty() {
        return String::new();
    }
    let rows: Vec<Vec<Cell>> = answer.results.iter().map(|row| row.iter().map(Cell::of).collect()).collect();
    let mut widths: Vec<usize> = columns.iter().map(|name| name.width().max(1)).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width);
        }
    }
    if let Some(room) = terminal.width {
        // `| a | b |`: three characters a column, and one.
        let room = room.saturating_sub(3 * columns.len() + 1);
        if !narrow(&mut widths, room) {
            return records(columns, &rows, terminal);
        }
    }
    let mut out = String::new();
    let rule: String = widths.iter().map(|width| format!("+{}", "-".repeat(width + 2))).collect::<String>() + "+\n";
    out.push_str(&rule);
    for (name, width) in columns.iter().zip(&widths) {
        let shown = fitted(name, name.width(), *width);
        out.push_str("| ");
        out.push_str(&terminal.paint(Colour::Bold, &shown));
        out.push_str(&" ".repeat(width - shown.width().min(*width) + 1));
    }
    out.push_str("|\n");
    out.push_str(&rule);
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            let shown = fitted(&cell.text, cell.width, *width);
            let blanks = " ".repeat(width - shown.width().min(*width));
            let painted = if cell.null { terminal.paint(Colour::Dim, &shown) } else { shown };
            match cell.number {
                true => out.push_str(&format!("| {blanks}{painted} ")),
                false => out.push_str(&format!("| {painted}{blanks} ")),
            }
        }
        out.push_str("|\n");
    }
    if !rows.is_empty() {
        out.push_str(&rule);
    }
    out
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

/// A row after the other, each value on a line of its own, whole.
fn records(columns: &[String], rows: &[Vec<Cell>], terminal: Terminal) -> String {
    let widest = columns.iter().map(|name| name.width()).max().unwrap_or(0);
    let mut out = String::new();
    for (index, row) in rows.iter().enumerate() {
        out.push_str(&terminal.paint(Colour::Dim, &format!("--- row {}", index + 1)));
        out.push('\n');
        for (name, cell) in columns.iter().zip(row) {
            let blanks = " ".repeat(widest - name.width());
            let value = if cell.null { terminal.paint(Colour::Dim, &cell.text) } else { cell.text.clone() };
            out.push_str(&format!("{}{blanks}  {value}\n", terminal.paint(Colour::Bold, name)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shown(columns: &[&str], rows: Json, width: Option<usize>) -> String {
        let results = serde_json::from_value(rows).expect("rows");
        let answer = Answer { columns: columns.iter().map(|name| (*name).to_owned()).collect(), results };
        table(&answer, Terminal { colours: false, width })
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
            let table = shown(&["id", "text", "more"], json!([[7, long, "你好".repeat(50)]]), Some(width));
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
        let answer = Answer { columns: vec!["a".to_owned()], results: vec![vec![Json::Null]] };
        let plain = table(&answer, Terminal { colours: false, width: Some(80) });
        let coloured = table(&answer, Terminal { colours: true, width: Some(80) });
        assert_eq!(coloured.replace("\x1b[1m", "").replace("\x1b[2m", "").replace("\x1b[0m", ""), plain);
    }
}
