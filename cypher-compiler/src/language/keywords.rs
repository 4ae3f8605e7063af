//! The keywords of Cypher, each with what it does in a line.

#[rustfmt::skip]
pub static KEYWORDS: &[(&str, &str)] = &[
    ("ALL", "With UNION: rows that both sides give are kept twice."),
    ("AND", "True when both sides are."),
    ("AS", "Gives what stands before it a name."),
    ("ASC", "Sorts small values first."),
    ("CALL", "Runs a procedure, or a subquery in braces, for each row."),
    ("CASE", "The value of the first branch whose condition holds."),
    ("COLLECT", "With braces: the values a subquery gives, as a list."),
    ("CONTAINS", "True when the text on the left has the text on the right in it."),
    ("COUNT", "With braces: how many rows a subquery gives."),
    ("CREATE", "Makes the nodes and relationships of a pattern."),
    ("DELETE", "Removes nodes that have no relationships, or relationships."),
    ("DESC", "Sorts large values first."),
    ("DETACH DELETE", "Removes nodes with their relationships."),
    ("DISTINCT", "Keeps one of rows that are equal."),
    ("ELSE", "The value of CASE when no branch fits."),
    ("END", "Ends CASE."),
    ("ENDS WITH", "True when the text on the left ends so."),
    ("EXISTS", "With braces: whether a pattern or subquery finds anything."),
    ("EXPLAIN", "Shows how the query would run, and does not run it."),
    ("EXPLAIN STANDING", "Shows what the query would be maintained by as a standing query."),
    ("FALSE", "The truth value."),
    ("FOREACH", "Makes changes for each element of a list."),
    ("FROM", "With LOAD CSV: where the file is."),
    ("IN", "True when the list on the right has the value."),
    ("IS NOT NULL", "True when there is a value."),
    ("IS NULL", "True when there is no value."),
    ("LIMIT", "Keeps so many rows."),
    ("LOAD CSV", "Gives a row for each line of a file."),
    ("MATCH", "Finds what fits a pattern; a row for each way it fits."),
    ("MERGE", "Finds a pattern, and makes it where it is not found."),
    ("NOT", "True when what follows is false."),
    ("NULL", "No value."),
    ("ON CREATE SET", "After MERGE: changes where the pattern was made."),
    ("ON MATCH SET", "After MERGE: changes where the pattern was found."),
    ("OPTIONAL CALL", "As CALL; where it gives no row there is one with nulls."),
    ("OPTIONAL MATCH", "As MATCH; where nothing fits there is one row with nulls."),
    ("OR", "True when one side is."),
    ("ORDER BY", "Sorts the rows."),
    ("PROFILE", "Runs the query and shows what each part of it did."),
    ("REMOVE", "Removes properties and labels."),
    ("RETURN", "What the query gives."),
    ("SET", "Sets properties and adds labels."),
    ("SHOW FUNCTIONS", "Gives every function."),
    ("SHOW PROCEDURES", "Gives every procedure."),
    ("SHOW QUERIES", "Gives every query that runs."),
    ("SKIP", "Leaves so many rows out."),
    ("STARTS WITH", "True when the text on the left begins so."),
    ("TERMINATE QUERY", "Ends queries that run."),
    ("THEN", "The value of a branch of CASE."),
    ("TRUE", "The truth value."),
    ("UNION", "The rows of both queries, equal ones once."),
    ("UNION ALL", "The rows of both queries."),
    ("UNWIND", "Gives a row for each element of a list."),
    ("USING", "Says where to begin looking for a pattern."),
    ("WHEN", "A branch of CASE."),
    ("WHERE", "Keeps rows for which the condition is true."),
    ("WITH", "What the rest of the query sees of the rows so far."),
    ("XOR", "True when one side is and the other is not."),
    ("YIELD", "Names the columns of a procedure that are wanted."),
];

/// Whether a word is one of those keywords are made of.
pub fn is_part(word: &str) -> bool {
    const OTHERS: &[&str] =
        &["ASCENDING", "DESCENDING", "HEADERS", "FIELDTERMINATOR", "OFFSET", "RECURSIVELY", "UNTIL", "SCAN", "INDEX"];
    KEYWORDS
        .iter()
        .flat_map(|(keyword, _)| keyword.split(' '))
        .chain(OTHERS.iter().copied())
        .any(|part| part.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_are_sorted_and_described() {
        assert!(KEYWORDS.is_sorted_by_key(|(word, _)| *word));
        assert!(KEYWORDS.iter().all(|(_, about)| about.ends_with('.')));
        assert!(is_part("by") && !is_part("name"));
    }
}
