//! `docs/configuration-keys.md` is the table of keys that the configuration is read by.
//!
//! `UPDATE_EXPECT=1` writes the page anew; the difference is reviewed like any other.

use std::fmt::Write;

use weir_api::config::keys::{Effect, KEYS, VALUES_REFUSED, variable};
use weir_tests::page;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/configuration-keys.md");

const HEAD: &str = "# Every key of the configuration

Each stands below `weir`, `service` or `quine`, as [configuration.md](configuration.md) tells. This page is written by a test from the table that
configurations are read by; `weir config` prints the same with what is in force.

| Key | Default | What it decides | A value is |
|---|---|---|---|
";

const IGNORED: &str = "
## Accepted, and without effect

Files of the reference service hold them. They are checked, told by `GET admin/config`, and said in the log to do nothing here.

";

const REFUSED: &str = "
## Refused

Only the default is taken of these, since anything else would change what a user relies on.

| Key | Default | Why |
|---|---|---|
";

const REFUSED_VALUES: &str = "
Of keys that are taken, these values of the reference service are not:

";

#[test]
fn the_page_says_what_the_table_says() {
    let mut page = HEAD.to_owned();
    let of = |wanted: fn(&Effect) -> bool| KEYS.iter().filter(move |key| wanted(&key.effect));
    let shown = |default: &str| if default.is_empty() { "none".to_owned() } else { format!("`{default}`") };
    for key in of(|effect| *effect == Effect::Used) {
        assert!(!key.about.is_empty(), "{} is not explained", key.path);
        writeln!(page, "| `{}` | {} | {} | {} |", key.path, shown(key.default), key.about, key.kind.expected())
            .expect("a string");
    }
    page.push_str(IGNORED);
    for key in of(|effect| *effect == Effect::Ignored) {
        let note = if key.about.is_empty() { String::new() } else { format!(": {}", key.about) };
        writeln!(page, "- `{}` ({}){note}", key.path, shown(key.default)).expect("a string");
    }
    page.push_str(REFUSED);
    for key in KEYS {
        let Effect::Refused(reason) = key.effect else { continue };
        writeln!(page, "| `{}` | {} | {reason} |", key.path, shown(key.default)).expect("a string");
    }
    page.push_str(REFUSED_VALUES);
    for (key, value, reason) in VALUES_REFUSED {
        writeln!(page, "- `{key} = {value}`: {reason}").expect("a string");
    }
    let example = KEYS[1].path;
    writeln!(
        page,
        "\nThe variable of the environment that sets a key is its name in capitals: `{}` for `{example}`.",
        variable(example)
    )
    .expect("a string");
    page::check(PAGE, &page);
}
