//! `sched policies`: what it prints, and the tables of the documentation that follow from it.

use std::{env, fs, path::Path};

use formats::rows::{PolicyRow, SettingRow};
use front_door::Door;
use record::rows;

/// The line behind a table that is made from the rows of `sched policies --json`.
const END: &str = "<!-- end of table -->";

fn all(door: &Door) -> Vec<PolicyRow> {
    rows::from_json(&door.exits(0, "policies --json").out).expect("it prints rows")
}

#[test]
fn each_policy_has_a_line_and_a_page_of_eighty_columns() {
    let door = crate::door();
    let list = door.exits(0, "policies").out;
    let rows = all(&door);
    assert_eq!(
        list.lines().count(),
        rows.len() + 3,
        "a header, a line each, and how settings are written:\n{list}"
    );
    for line in [
        " tiresias            Tiresias, NSDI 2019    queue by service, then first start",
        " rubick              arXiv 2408.08586       guarantees, then steepest curves",
        " exec:COMMAND        your program           as your program decides",
    ] {
        assert!(list.lines().any(|printed| printed == line), "{line}\n{list}");
    }
    let pages = rows.iter().map(|row| door.exits(0, &format!("policies {}", row.name)).out);
    for line in pages.chain([list]).flat_map(|page| page.lines().map(str::to_owned).collect::<Vec<_>>()) {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn a_policy_is_shown_with_its_settings() {
    let door = crate::door();
    let page = door.exits(0, "policies tiresias").out;
    let words: Vec<&str> = page.split_whitespace().collect();
    let words = words.join(" ");
    for part in [
        "source Tiresias, NSDI 2019",
        "written tiresias[:THRESHOLD[/THRESHOLD..]] [:promote=FACTOR|never]",
        "example --policy tiresias:1h/4h:promote=8",
        "setting default values meaning THRESHOLD 3600s ascending times",
        "promote never a number above",
    ] {
        assert!(words.contains(part), "{part}\n{page}");
    }
    let rows: Vec<PolicyRow> =
        rows::from_json(&door.exits(0, "policies gandiva --json").out).expect("it prints rows");
    let [PolicyRow { name, settings, resizes: true, .. }] = &rows[..] else { panic!("{rows:?}") };
    let reports = settings.iter().find(|setting| setting.key == "reports").expect("gandiva has it");
    assert_eq!((&**name, settings.len()), ("gandiva", 14));
    assert_eq!((&*reports.default, &*reports.values), ("5", "a whole number from 2 to 10"));
    // A program is shown as it is written.
    let page = door.exits(0, "policies exec:COMMAND").out;
    assert!(page.contains("--policy \"exec:python3 my_policy.py\""), "{page}");
}

#[test]
fn a_name_that_no_policy_has_is_refused_with_the_nearest() {
    let door = crate::door();
    for (name, message) in [
        ("lifo", "there is no policy 'lifo'; did you mean fifo? There are fifo, fifo-backfill, sjf,"),
        ("pollux", "there is no policy 'pollux'; did you mean pollux-fixed-batch? There are fifo,"),
        ("lifo:1h", "there is no policy 'lifo'; did you mean fifo?"),
        ("quincy", "there is no policy 'quincy'; there are fifo,"),
        ("tiresias:1h", "'tiresias:..' has settings; write the name alone, as in `sched policies tiresias`"),
    ] {
        for json in ["", " --json"] {
            let error = door.exits(2, &format!("policies {name}{json}")).err;
            assert!(error.contains(message), "{error}");
        }
    }
}

#[test]
fn shells_complete_the_names_of_policies() {
    let script = crate::door().exits(0, "completions bash").out;
    assert_eq!(script.matches("\"fifo fifo-backfill sjf ").count(), 2, "of run and sim");
}

/// After a change of the declarations, `TANDEM_GOLDEN=write` writes the tables again.
#[test]
fn the_tables_of_the_documentation_are_those_of_the_declarations() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/policies.md");
    let text = fs::read_to_string(&path).expect("the documentation is there");
    let rows = all(&crate::door());
    let (mut made, mut told, mut is_in_table) = (String::new(), Vec::new(), false);
    for line in text.lines() {
        is_in_table &= line != END;
        if !is_in_table {
            made += &format!("{line}\n");
        }
        if let Some(names) = line.strip_prefix("<!-- settings of ").and_then(|rest| rest.strip_suffix(" -->"))
        {
            let names: Vec<&str> = names.split(", ").collect();
            made += &settings_table(&rows, &names);
            told.extend(names);
            is_in_table = true;
        } else if line == "<!-- all policies -->" {
            made += &policies_table(&rows);
            is_in_table = true;
        }
    }
    assert!(!is_in_table, "a table of {} lacks the line {END}", path.display());
    let with_settings = rows.iter().filter(|row| !row.settings.is_empty()).map(|row| &*row.name);
    let mut with_settings: Vec<&str> = with_settings.collect();
    with_settings.sort_unstable();
    told.sort_unstable();
    assert_eq!(told, with_settings, "each policy with settings is in one table");
    if env::var("TANDEM_GOLDEN").is_ok_and(|value| value == "write") {
        fs::write(&path, &made).expect("the documentation is writable");
    }
    let text = fs::read_to_string(&path).expect("the documentation is there");
    let differs = made.lines().zip(text.lines()).find(|(made, there)| made != there);
    assert!(
        made == text,
        "{} differs from the declarations: {differs:?}; run this test with TANDEM_GOLDEN=write",
        path.display()
    );
}

fn policies_table(rows: &[PolicyRow]) -> String {
    let mut table =
        "| name | source | order | a job that does not fit | preemption | packing | information needed |\n\
        | --- | --- | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for row in rows {
        let name = if row.settings.is_empty() { &row.usage } else { &format!("{}[:SETTING..]", row.name) };
        let PolicyRow { source, order, misfit, preemption, packing, needs, .. } = row;
        table +=
            &format!("| `{name}` | {source} | {order} | {misfit} | {preemption} | {packing} | {needs} |\n");
    }
    table
}

/// The settings of these policies, with a column for their names if there are several.
fn settings_table(rows: &[PolicyRow], names: &[&str]) -> String {
    let is_one = names.len() == 1;
    let mut table =
        if is_one { "|" } else { "| policy |" }.to_owned() + " setting | default | values | meaning |\n";
    table += if is_one { "| --- | --- | --- | --- |\n" } else { "| --- | --- | --- | --- | --- |\n" };
    for name in names {
        let row = rows.iter().find(|row| row.name == *name).unwrap_or_else(|| panic!("no policy {name}"));
        for SettingRow { key, default, values, meaning, .. } in &row.settings {
            let policy = if is_one { String::new() } else { format!(" `{name}` |") };
            table += &format!("|{policy} `{key}` | `{default}` | {values} | {meaning} |\n");
        }
    }
    table
}
