//! Tables in terminals of different widths.

/// The names in the first line of a table, which are two or more spaces apart. The verdict stands above the table.
fn header(printed: &str) -> Vec<&str> {
    let names = printed.lines().find(|line| line.starts_with(' ')).expect("a header").split("  ");
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

#[test]
fn the_table_of_jobs_fits_and_shows_what_is_asked_for() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 25 --repeats 2 --out r");

    let narrow = door.prints_within(80, "derive r");
    assert_eq!(header(&narrow)[..3], ["job", "median step", "95 % interval"], "{narrow}");
    assert!(narrow.contains("left out: ") && narrow.contains("util"), "{narrow}");
    let medium = door.prints_within(120, "derive r");
    assert!(header(&medium).len() > header(&narrow).len(), "{medium}");
    let wide = door.exits(0, "derive r --wide").out;
    assert_eq!(header(&wide).len(), 10, "{wide}");

    let chosen = door.prints_within(80, "derive r --columns util,job");
    assert_eq!(header(&chosen), ["util", "job"]);
    let blocks = door.prints_within(80, "derive r --vertical --columns job,fastest");
    assert!(blocks.ends_with("\n job      synthetic-sleep@b32@dp1\n fastest  -\n"), "{blocks}");
}

#[test]
fn the_table_of_groups_fits() {
    let door = crate::door();
    door.exits(0, "colocate synthetic-sleep synthetic-sleep --device cpu:0 --steps 25 --repeats 2 --out r");
    let narrow = door.prints_within(80, "derive r");
    assert_eq!(header(&narrow)[..3], ["job", "beside", "slowdown"], "{narrow}");
    assert!(header(&door.prints_within(120, "derive r")).len() > header(&narrow).len());
}

#[test]
fn an_unknown_column_is_refused_before_anything_is_measured() {
    let door = crate::door();
    let said = door.exits(2, "single synthetic-sleep --device cpu:0 --columns job,p9 --out r");
    assert!(said.err.contains("there is no column 'p9'; did you mean 'p99'?"), "{}", said.err);
    assert!(!door.path("r").exists());
    for both in ["--wide", "--vertical", "--columns job"] {
        let said = door.exits(2, &format!("single synthetic-sleep --device cpu:0 --json {both}"));
        assert!(said.err.contains("--json"), "{}", said.err);
    }
}
