//! Tables in terminals of different widths.

use std::path::Path;

use front_door::Door;

#[test]
fn the_numbers_of_a_figure_fit_and_show_what_is_asked_for() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261121-epyc");
    let table = format!("table summary {}", record.display());
    let narrow = door.prints_within(80, &table);
    assert!(narrow.contains("median step") && narrow.contains("left out: "), "{narrow}");
    let wide = door.exits(0, &format!("{table} --wide")).out;
    assert!(wide.contains("peak resident") && !wide.contains("left out: "), "{wide}");
    let chosen = door.prints_within(80, &format!("{table} --columns p90,job"));
    assert!(chosen.starts_with("     p90  job\n"), "{chosen}");
    door.exits(2, &format!("{table} --columns p90 --csv"));
    door.prints_within(80, "table");
}
