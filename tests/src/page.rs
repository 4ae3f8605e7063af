//! Pages of the documentation that a test writes.

/// The committed page is what it would be now; `UPDATE_EXPECT=1` writes it anew.
pub fn check(path: &str, page: &str) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(path, page).expect("the page can be written");
        return;
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    let changed = page.lines().zip(committed.lines().chain(std::iter::repeat(""))).find(|(now, then)| now != then);
    assert_eq!(changed, None, "{path} is not what it would be now: run this test with UPDATE_EXPECT=1");
    assert_eq!(page.len(), committed.len(), "{path} has more than it would have now: run this test with UPDATE_EXPECT=1");
}
