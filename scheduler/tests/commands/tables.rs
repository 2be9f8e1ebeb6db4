//! Tables in terminals of different widths.

const TRACE: &str = "name,submit_s,job,steps,step_ns\nlong,0,any,300,100000000\nshort,0,any,100,100000000\n";

#[test]
fn the_totals_of_policies_fit_and_show_what_is_asked_for() {
    let door = crate::door();
    door.write("t.csv", TRACE);
    let sim = "sim t.csv --policy fifo,sjf --cluster 1x1 --switch-cost 1s";
    let narrow = door.prints_within(80, sim);
    assert!(narrow.starts_with(" policy  average JCT  makespan"), "{narrow}");
    assert!(narrow.contains("left out: ") && narrow.contains("notes\n"), "{narrow}");
    assert!(door.prints_within(120, sim).contains("first 100 steps"));
    let wide = door.exits(0, &format!("{sim} --wide")).out;
    assert!(wide.contains("a decision") && !wide.contains("left out"), "{wide}");

    let chosen = door.prints_within(80, &format!("{sim} --columns p99,policy"));
    assert!(chosen.contains("\n 40.0 s  fifo\n"), "{chosen}");
    let blocks = door.prints_within(80, &format!("{sim} --columns policy,starts --vertical"));
    assert!(blocks.starts_with(" policy  fifo\n starts  2\n\n policy  sjf\n"), "{blocks}");

    let said = door.exits(2, &format!("{sim} --columns jcts"));
    assert!(said.err.contains("there is no column 'jcts'; there are policy, average JCT"), "{}", said.err);
}
