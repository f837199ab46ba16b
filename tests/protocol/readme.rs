//! The table of versions in the README is made from the tables in the source.

use downspout::protocol::versions_table;

const BEGIN: &str = "<!-- versions:begin -->\n";
const END: &str = "<!-- versions:end -->";

/// `DOWNSPOUT_REWRITE=1` writes it anew.
#[test]
fn the_readme_lists_the_versions_that_the_code_has() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = std::fs::read_to_string(path).unwrap();
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (table, after) = rest.split_once(END).unwrap();
    if std::env::var_os("DOWNSPOUT_REWRITE").is_some() {
        std::fs::write(path, [before, BEGIN, &versions_table(), END, after].concat()).unwrap();
        return;
    }
    assert_eq!(table, versions_table(), "run it again with DOWNSPOUT_REWRITE=1");
}
