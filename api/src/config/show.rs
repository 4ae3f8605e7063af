//! The configuration in force as people read it: `weir config`. What is printed is a configuration file that says the same.

use std::fmt::Write;

use super::{Settings, Told};

/// Comments stand here, where lines are not longer.
const COMMENT_COLUMN: usize = 56;

/// One key a line, with where its value came from.
pub fn text(settings: &Settings) -> String {
    let mut out = String::new();
    for Told { path, value, origin, note } in &settings.told {
        // JSON is HOCON.
        let line = format!("weir.{path} = {value}");
        let note = if note.is_empty() || origin == "default" { String::new() } else { format!("; {note}") };
        let _ = writeln!(out, "{line:<COMMENT_COLUMN$} # {origin}{note}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Sources, load};

    fn loaded(file: &str, environment: &[(&str, &str)], overrides: &[(&str, &str)]) -> Result<Settings, String> {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("weir.conf");
        std::fs::write(&path, file).expect("write");
        let overrides = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let find = |name: &str| environment.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        load(&Sources { file: Some(path), overrides, has_own_store: false }, &find).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn line<'t>(text: &'t str, key: &str) -> &'t str {
        text.lines().find(|line| line.starts_with(&format!("weir.{key} "))).unwrap_or_else(|| panic!("no {key} in\n{text}"))
    }

    #[test]
    fn each_value_tells_where_it_came_from() {
        let file = "quine { webserver.port = 1\n workers = 2\n shard-count = 9\n history = 1 h }";
        let settings = loaded(
            file,
            &[("WEIR_WORKERS", "3"), ("WEIR_WEBSERVER_PORT", "4"), ("WEIR_DATA", "d")],
            &[("service.webserver.port", "5")],
        );
        let text = text(&settings.expect("is fine"));
        assert!(
            line(&text, "webserver.port").contains("= 5 ")
                && line(&text, "webserver.port").ends_with("# option -Dservice.webserver.port")
        );
        assert!(
            line(&text, "workers").contains("= 3 ") && line(&text, "workers").ends_with("# environment variable WEIR_WORKERS")
        );
        assert!(
            line(&text, "shard-count").contains("weir.conf, line 3, column")
                && line(&text, "shard-count").ends_with("without effect here")
        );
        assert!(line(&text, "history").contains("weir.conf, line 4"));
        assert!(line(&text, "timeout").ends_with("# default"));
        assert!(line(&text, "store.filepath").ends_with("# environment variable WEIR_DATA"));
    }

    #[test]
    fn a_reporter_for_java_is_told_to_do_nothing() {
        let noted = |reporters: &str| {
            let settings = loaded(&format!("weir.metrics-reporters = [{reporters}]"), &[], &[]).expect("is fine");
            let text = text(&settings);
            let (_, comment) = line(&text, "metrics-reporters").split_once(" # ").expect("a comment");
            comment.ends_with("; jmx is without effect here")
        };
        let log = "{type = slf4j, period = 10 s}";
        assert!(noted("{type = jmx}") && noted(&format!("{log}, {{type = jmx}}")) && !noted(log));
    }

    #[test]
    fn what_is_printed_can_be_read_again() {
        let settings = loaded("weir { query.memory-bytes-max = 64 MiB, file-ingest.allowed-directories = [a, b] }", &[], &[])
            .expect("is fine");
        let again = loaded(&text(&settings), &[], &[]).expect("is fine too");
        assert_eq!(again.effective, settings.effective);
    }

    #[test]
    fn secrets_are_hidden() {
        let settings = loaded(
            "weir { webserver.use-mtls.trust-store.password = hush, metrics-reporters = [{type = influxdb, period = 10 s, password = hush}], \
             traces.headers = { x-key = hush } }",
            &[],
            &[],
        );
        let text = text(&settings.expect("is fine"));
        assert!(!text.contains("hush") && text.contains("Secret(****)"), "{text}");
    }

    #[test]
    fn variables_that_are_wrong_are_named() {
        let error = loaded("", &[("WEIR_WEBSERVER_PORT", "x")], &[]).expect_err("x is no port");
        assert_eq!(
            error,
            "environment variable WEIR_WEBSERVER_PORT: weir.webserver.port is 'x', and should be a whole number from 0 to 65535"
        );
    }

    #[test]
    fn tls_is_on_when_asked_for_or_when_there_is_a_key_store() {
        let both = [("SSL_KEYSTORE_PATH", "k.pem"), ("SSL_KEYSTORE_PASSWORD", "x")];
        let tls =
            |file: &str, environment: &[(&str, &str)]| loaded(file, environment, &[]).map(|settings| settings.webserver.tls);
        assert_eq!(tls("", &[]), Ok(None));
        assert_eq!(tls("", &both[..1]), Ok(None));
        assert!(tls("", &both).expect("is fine").is_some_and(|tls| tls.private_key.ends_with("k.pem")));
        assert_eq!(tls("weir.webserver.use-tls = off", &both), Ok(None));
        assert!(tls("weir.webserver.use-tls = on", &[]).expect_err("no certificate").contains("needs a certificate"));
        let mutual = "weir.webserver { use-tls = on, tls.certificate = c.pem, use-mtls.enabled = on, use-mtls.health-endpoints.enabled = on";
        assert!(tls(&format!("{mutual} }}"), &[]).expect_err("no trust store").contains("trust-store.path"));
        let settings = loaded(&format!("{mutual}, use-mtls.trust-store.path = ca.pem }}"), &[], &[]).expect("is fine");
        assert_eq!(settings.webserver.health_port, Some(8081));
        let with_port = |more: &str| loaded(&format!("{mutual}, use-mtls.trust-store.path = ca.pem, {more} }}"), &[], &[]);
        let refused = with_port("port = 8081").expect_err("both are there");
        assert!(refused.contains("health-endpoints.port: 8081 is the port of the web server, too"), "{refused}");
        for fine in ["port = 8081, address = 192.0.2.1", "port = 0, use-mtls.health-endpoints.port = 0"] {
            assert!(with_port(fine).is_ok(), "{fine}");
        }
        assert!(settings.webserver.tls.is_some_and(|tls| tls.client_authorities.is_some()));
        assert!(loaded("weir.webserver.use-mtls.enabled = on", &[], &[]).expect_err("no TLS").contains("over TLS only"));
    }

    #[test]
    fn certificates_that_nothing_is_done_with_are_told() {
        let told = |file: &str| loaded(file, &[], &[]).map(|_| ()).err().unwrap_or_default();
        for (key, expected) in [
            ("tls.certificate", "weir.webserver.tls.certificate: a certificate or its key is given, and TLS is not on"),
            ("tls.private-key", "weir.webserver.tls.private-key: a certificate or its key is given, and TLS is not on"),
            ("use-mtls.trust-store.path", "weir.webserver.use-mtls.trust-store.path: a trust store is given"),
        ] {
            let problem = told(&format!("weir.webserver.{key} = a.pem"));
            assert!(problem.contains(expected), "{problem}");
        }
        // Whoever says no has the files for another time.
        let off =
            "weir.webserver { use-tls = off, tls.certificate = a.pem, use-mtls { enabled = off, trust-store.path = b.pem } }";
        assert_eq!(told(off), "");
    }
}
