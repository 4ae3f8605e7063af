//! What help and the reference page say of aggregating functions. What they do is in the model, where they are found in a
//! query in the binder.

pub struct AggregateRow {
    pub name: &'static str,
    pub signature: &'static str,
    pub description: &'static str,
    pub example: &'static str,
}

const fn row(name: &'static str, signature: &'static str, description: &'static str, example: &'static str) -> AggregateRow {
    AggregateRow { name, signature, description, example }
}

pub static AGGREGATES: &[AggregateRow] = &[
    row(
        "count",
        "count(value :: ANY) :: INTEGER",
        "How many values are not null; of `*` how many rows there are.",
        "UNWIND [1, null, 1] AS x RETURN count(*), count(x), count(DISTINCT x)",
    ),
    row(
        "collect",
        "collect(value :: ANY) :: LIST OF ANY",
        "The values that are not null as a list, in the order of the rows.",
        "UNWIND [1, null, 2, 1] AS x RETURN collect(x), collect(DISTINCT x)",
    ),
    row(
        "sum",
        "sum(value :: ANY) :: ANY",
        "The sum of numbers, or of durations; 0 of none.",
        "UNWIND [1, 2.5, null] AS x RETURN sum(x)",
    ),
    row(
        "avg",
        "avg(value :: ANY) :: ANY",
        "The mean of numbers as a float, or of durations; null of none.",
        "UNWIND [1, 2, null] AS x RETURN avg(x)",
    ),
    row(
        "min",
        "min(value :: ANY) :: ANY",
        "The first value in the order of ORDER BY; null of none.",
        "UNWIND [3, 1, null] AS x RETURN min(x)",
    ),
    row(
        "max",
        "max(value :: ANY) :: ANY",
        "The last value in the order of ORDER BY that is not null; null of none.",
        "UNWIND [3, 1, null] AS x RETURN max(x)",
    ),
    row(
        "stDev",
        "stDev(value :: NUMBER) :: FLOAT",
        "The standard deviation of a sample; 0.0 of fewer than two numbers.",
        "UNWIND [1, 3] AS x RETURN stDev(x)",
    ),
    row(
        "stDevP",
        "stDevP(value :: NUMBER) :: FLOAT",
        "The standard deviation of a whole population; 0.0 of none.",
        "UNWIND [1, 3] AS x RETURN stDevP(x)",
    ),
    row(
        "percentileCont",
        "percentileCont(value :: NUMBER, fraction :: NUMBER) :: NUMBER",
        "The number below which a fraction of the numbers lies, between two of them where that is needed.",
        "UNWIND [10, 20] AS x RETURN percentileCont(x, 0.25)",
    ),
    row(
        "percentileDisc",
        "percentileDisc(value :: NUMBER, fraction :: NUMBER) :: NUMBER",
        "The one of the numbers that is nearest to the place below which a fraction of them lies.",
        "UNWIND [10, 20, 30] AS x RETURN percentileDisc(x, 0.5)",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_aggregate_is_described() {
        let sorted = |names: Vec<&'static str>| {
            let mut names = names;
            names.sort_unstable();
            names
        };
        let found = crate::bind::aggregate::NAMES.iter().map(|(name, _)| *name).collect();
        assert_eq!(sorted(AGGREGATES.iter().map(|row| row.name).collect()), sorted(found));
        for row in AGGREGATES {
            assert!(row.signature.starts_with(&format!("{}(", row.name)), "{}", row.signature);
            assert!(row.description.ends_with('.'), "{}", row.description);
            assert!(row.example.contains(&format!("{}(", row.name)), "{}", row.example);
        }
    }
}
