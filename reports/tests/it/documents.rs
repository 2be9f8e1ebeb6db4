//! What the documentation says of figures, and the numbers that it takes from records.

use std::{fs, path::Path};

use front_door::Door;
use reports::figures::KINDS;

pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[test]
fn every_kind_of_figure_is_in_the_list() {
    let text = fs::read_to_string(root().join("docs/report.md")).expect("the page is there");
    for kind in KINDS {
        let row = format!("| `{}` | {} |", kind.name, kind.about);
        assert!(text.lines().any(|line| line == row), "docs/report.md lacks: {row}");
    }
}

/// Documents with tables and pictures of records, and the records.
const SPLICED: [(&str, &[&str]); 2] = [
    ("README.md", &["reports/record/20261121-epyc", "reports/record/20261122-epyc/colocate/all-pairs-1"]),
    ("docs/colocate.md", &["reports/record/20261123-epyc/colocate/all-pairs-1"]),
];

#[test]
fn tables_and_pictures_of_documents_are_those_of_their_records() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    for (document, records) in SPLICED {
        let path = |name: &str| root().join(name).display().to_string();
        let records: Vec<String> = records.iter().map(|name| path(name)).collect();
        let said = door.exits(0, &format!("splice --check {} {}", path(document), records.join(" ")));
        assert_eq!(said.err, "", "{document}");
        let copied = "copy.md";
        let text = fs::read_to_string(root().join(document)).expect("it is there");
        door.write(copied, &text.replacen(" ms |", " s |", 1));
        door.exits(1, &format!("splice --check {copied} {}", records.join(" ")));
        door.exits(0, &format!("splice {copied} {}", records.join(" ")));
        assert_eq!(fs::read_to_string(door.path(copied)).expect("it was renewed"), text);
    }
}
