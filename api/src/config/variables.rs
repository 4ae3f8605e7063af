//! Variables of the environment that look as if they were meant for weir, and that nothing reads.

use std::collections::BTreeSet;

use weir_connectors::secret;
use weir_cypher_compiler::nearest;

use super::keys::{KEYS, variable};

const BEGINNING: &str = "WEIR_";

/// What is read besides keys: where the data lie, what is logged, which weir is asked and how; and what is said to those who
/// build it (`make run` hands that on).
const OTHERS: &[&str] =
    &["WEIR_DATA", "WEIR_LOG", "WEIR_URL", "WEIR_CERT", "WEIR_KEY", "WEIR_TOKEN", "WEIR_COMMIT", "WEIR_TOOLS"];

/// What is to be said of variables that set nothing: one that is misspelt would change nothing, and nobody would know.
/// `read` are those that the configuration has asked for, `secrets` those that definitions may refer to.
pub fn unknown_variables(
    given: impl Iterator<Item = (String, String)>,
    read: &BTreeSet<String>,
    secrets: &[String],
) -> Vec<String> {
    let unknown = given.filter(|(name, value)| {
        let is_known = read.contains(name) || OTHERS.contains(&name.as_str()) || secret::is_among(secrets, name);
        name.starts_with(BEGINNING) && !is_known && !is_of_a_service(name, value)
    });
    let mut unknown: Vec<String> = unknown.map(|(name, _)| name).collect();
    unknown.sort_unstable();
    unknown.iter().map(|name| told(name)).collect()
}

/// Kubernetes gives every container the addresses of services: those of one called `weir` or `weir-ui` begin like this, too.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let is_numbered = || name.split("_PORT_").skip(1).any(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || is_numbered()
        || (name.ends_with("_PORT") && value.contains("://"))
}

fn told(name: &str) -> String {
    let known: Vec<String> = KEYS.iter().map(|key| variable(key.path)).collect();
    // Whoever writes WEIR_PORT leaves something out, and misspells nothing.
    let end = name.strip_prefix(BEGINNING).filter(|end| !end.is_empty()).map(|end| format!("_{end}"));
    let longer = end.and_then(|end| known.iter().find(|known| known.ends_with(&end)));
    let longer = longer.map(|known| format!("did you mean `{known}`?"));
    // How all begin makes none of them more alike.
    let rest = name.strip_prefix(BEGINNING).unwrap_or(name);
    let rests = known.iter().map(String::as_str).chain(OTHERS.iter().copied()).filter_map(|known| known.strip_prefix(BEGINNING));
    let hint = longer.or_else(|| nearest(rest, rests).map(|hint| hint.replacen('`', &format!("`{BEGINNING}"), 1)));
    let hint = hint.unwrap_or_else(|| {
        "the variable of a key is its path in capitals, with _ for . and -, as WEIR_WEBSERVER_PORT for webserver.port".to_owned()
    });
    format!("the environment variable {name} sets nothing: no key is called so; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(given: &[(&str, &str)]) -> Vec<String> {
        let read = ["WEIR_WEBSERVER_PORT", "WEIR_OF_THE_FILE"].map(str::to_owned).into();
        let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        unknown_variables(given, &read, &["WEIR_SECRET_*".to_owned(), "WEIR_TOKEN".to_owned()])
    }

    #[test]
    fn variables_that_are_misspelt_are_told_with_what_was_meant() {
        assert_eq!(
            unknown(&[("WEIR_WEBSERVER_PROT", "1"), ("PATH", "/bin"), ("WEIR_WEBSERVER_PORT", "1")]),
            [
                "the environment variable WEIR_WEBSERVER_PROT sets nothing: no key is called so; did you mean `WEIR_WEBSERVER_PORT`?"
            ]
        );
        let said = unknown(&[("WEIR_ZZZZZZZZZZ", "1"), ("WEIR_PORT", "9090")]);
        assert!(said[0].contains("WEIR_PORT sets nothing") && said[0].ends_with("`WEIR_WEBSERVER_PORT`?"), "{said:?}");
        assert!(said[1].contains("in capitals"), "{said:?}");
        let said = unknown(&[("WEIR_SITE", "1"), ("WEIR_LOGS", "1")]);
        assert!(said[0].ends_with("`WEIR_LOG`?") && said[1].contains("in capitals"), "{said:?}");
    }

    #[test]
    fn those_that_somebody_reads_or_that_are_not_meant_for_weir_are_not_told() {
        for name in OTHERS.iter().copied().chain(["WEIR_OF_THE_FILE", "WEIR_SECRET_KAFKA", "WEIR_TOKEN", "weir_x", "TOWEIR_X"]) {
            assert!(unknown(&[(name, "x")]).is_empty(), "{name}");
        }
        for (name, value) in [
            ("WEIR_SERVICE_HOST", "10.0.0.1"),
            ("WEIR_SERVICE_PORT", "8080"),
            ("WEIR_SERVICE_PORT_HTTP", "8080"),
            ("WEIR_PORT", "tcp://10.0.0.1:8080"),
            ("WEIR_PORT_8080_TCP", "tcp://10.0.0.1:8080"),
            ("WEIR_PORT_8080_TCP_PORT", "8080"),
            ("WEIR_UI_SERVICE_HOST", "10.0.0.2"),
        ] {
            assert!(unknown(&[(name, value)]).is_empty(), "{name}");
        }
    }
}
