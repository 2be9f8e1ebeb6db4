//! What `report` prints for people and for programs.

use std::{fs, path::Path};

use front_door::{Door, check_help};
use record::rows::{self, WrittenReport};

#[test]
fn a_short_help_fits_on_a_screen_and_names_what_the_long_one_has() {
    let commands = check_help(&Door::new(env!("CARGO_BIN_EXE_report")));
    assert!(["table", "compare", "serve"].iter().all(|name| commands.iter().any(|known| known == name)));
}

#[test]
fn a_program_is_told_the_page_and_its_figures() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
    let said = door.exits(0, &format!("{} --out page --json", record.display()));
    let written: WrittenReport = rows::from_json(&said.out).expect("stdout is JSON");
    assert_eq!((&*written.page, &written.problems[..]), ("page/index.html", &[][..]));
    let has_table = |name: &String| door.path(&format!("page/figures/{name}.csv")).is_file();
    assert!(!written.figures.is_empty() && written.figures.iter().all(has_table), "{:?}", written.figures);
    let tables = fs::read_dir(door.path("page/figures")).expect("it was written");
    let tables = tables.filter(|entry| {
        entry.as_ref().expect("it reads").path().extension().is_some_and(|ending| ending == "csv")
    });
    assert_eq!(tables.count(), written.figures.len());
}
