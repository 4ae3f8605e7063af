//! The committed list of scenarios that are known to fail, each with its reason.
//!
//!     clauses/match/Match3.feature [7]: why
//!     expressions/list/List11.feature [5] #2: why           the second row of its examples
//!
//! A file and the number in brackets name a scenario within the kit.

use std::collections::BTreeMap;

use super::Scenario;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    reasons: BTreeMap<Key, String>,
}

/// File, number of the scenario, row of its examples.
type Key = (String, u32, Option<usize>);

const HEADER: &str = "\
# Scenarios of the openCypher TCK that weir fails, each with the reason. `make test` fails when one of them passes, and when
# one that is not here fails. UPDATE_EXPECT=1 writes the list anew; reasons that stand here stay.
";

/// What a run says of the list.
#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    /// Failed, and not in the list.
    pub failures: Vec<(String, String)>,
    /// In the list, and passed.
    pub passes: Vec<String>,
}

impl Differences {
    pub fn parse(text: &str) -> Result<Differences, String> {
        let mut reasons = BTreeMap::new();
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#')) {
            let read = || {
                let (file, rest) = line.split_once(" [")?;
                let (number, rest) = rest.split_once(']')?;
                let (example, reason) = rest.split_once(':')?;
                let example = match example.trim().strip_prefix('#') {
                    Some(example) => Some(example.parse().ok()?),
                    None if example.trim().is_empty() => None,
                    None => return None,
                };
                Some(((file.to_owned(), number.parse().ok()?, example), reason.trim().to_owned()))
            };
            let (key, reason) = read().ok_or_else(|| format!("line {}: not `file [number] #example: reason`: {line}", i + 1))?;
            if reason.is_empty() {
                return Err(format!("line {}: a reason is missing: {line}", i + 1));
            }
            if reasons.insert(key, reason).is_some() {
                return Err(format!("line {}: stands here twice: {line}", i + 1));
            }
        }
        Ok(Differences { reasons })
    }

    pub fn write(&self) -> String {
        let lines = self.reasons.iter().map(|(key, reason)| format!("{}: {reason}\n", shown(key)));
        std::iter::once(HEADER.to_owned()).chain(lines).collect()
    }

    pub fn len(&self) -> usize {
        self.reasons.len()
    }

    pub fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    pub fn contains(&self, scenario: &Scenario) -> bool {
        self.reasons.contains_key(&key(scenario))
    }

    /// Compares with what happened. Lines about scenarios that did not run are not looked at.
    pub fn compare<'a>(&self, outcomes: impl Iterator<Item = (&'a Scenario, Option<&'a str>)>) -> Verdict {
        let mut verdict = Verdict::default();
        for (scenario, failure) in outcomes {
            let key = key(scenario);
            match (failure, self.reasons.contains_key(&key)) {
                (Some(failure), false) => verdict.failures.push((shown(&key), failure.to_owned())),
                (None, true) => verdict.passes.push(shown(&key)),
                _ => {}
            }
        }
        verdict
    }

    /// The list as it should be after this run. A new line gets what the failure says as its reason, until someone knows better.
    pub fn updated<'a>(&self, outcomes: impl Iterator<Item = (&'a Scenario, Option<&'a str>)>) -> Differences {
        let mut updated = self.clone();
        for (scenario, failure) in outcomes {
            let key = key(scenario);
            match failure {
                None => drop(updated.reasons.remove(&key)),
                Some(failure) => {
                    updated.reasons.entry(key).or_insert_with(|| summary(failure));
                }
            }
        }
        updated
    }
}

fn key(scenario: &Scenario) -> Key {
    let number = scenario.name.trim_start_matches('[').split(']').next().and_then(|number| number.parse().ok());
    (scenario.file.clone(), number.unwrap_or_default(), scenario.example)
}

fn shown((file, number, example): &Key) -> String {
    match example {
        Some(example) => format!("{file} [{number}] #{example}"),
        None => format!("{file} [{number}]"),
    }
}

/// The line of a failure that says most, cut to a bearable length.
fn summary(failure: &str) -> String {
    let telling =
        |line: &&str| ["failed (", "found a ", "wanted", "side effects", "no rows"].iter().any(|word| line.starts_with(word));
    let lines: Vec<&str> = failure.lines().filter(|line| !line.trim().is_empty()).collect();
    let line = lines.iter().rev().find(|line| telling(line)).or(lines.last()).copied().unwrap_or("fails");
    line.trim().chars().take(120).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(file: &str, name: &str, example: Option<usize>) -> Scenario {
        Scenario { file: file.into(), name: name.into(), example, tags: Vec::new(), steps: Vec::new() }
    }

    #[test]
    fn the_list_is_read_and_written() {
        let text = format!("{HEADER}a/B.feature [2] #3: because\na/B.feature [10]: why: not\n");
        let list = Differences::parse(&text).expect("it is well formed");
        assert_eq!((list.len(), list.write()), (2, text));
        for wrong in ["a/B.feature [x]: y", "a/B.feature 1: y", "a/B.feature [1]:", "a [1]: y\na [1]: z", "a [1] 2: y"] {
            assert!(Differences::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn surprises_of_both_kinds_are_found() {
        let list = Differences::parse("f [1]: known\nf [2]: known").expect("it is well formed");
        let all = [1, 2, 3, 4].map(|n| scenario("f", &format!("[{n}] x"), None));
        let outcomes = || all.iter().zip([Some("RETURN 1\nfailed (a)"), None, Some("q\nfound a b\nc"), None]);
        let verdict = list.compare(outcomes());
        assert_eq!(verdict.failures, [("f [3]".to_owned(), "q\nfound a b\nc".to_owned())]);
        assert_eq!(verdict.passes, ["f [2]"]);
        let updated = list.updated(outcomes());
        assert_eq!(updated, Differences::parse("f [1]: known\nf [3]: found a b").expect("it is well formed"));
        assert_eq!(updated.compare(outcomes()), Verdict::default());
    }
}
