//! Simulations of so many jobs that a journal is written only if it is asked for.

use std::fs;

/// A trace of jobs of one second that arrive at once.
fn trace(jobs: u32) -> String {
    let rows = (0..jobs).map(|job| format!("{job},0,any,1,1000000000\n"));
    format!("name,submit_s,job,steps,step_ns\n{}", rows.collect::<String>())
}

#[test]
fn more_than_a_hundred_thousand_jobs_have_a_journal_if_it_is_asked_for() {
    let door = crate::door();
    door.write("most.csv", &trace(100_000));
    door.write("more.csv", &trace(100_001));
    let sim = "--policy fifo --cluster 1x1000 --switch-cost 0s --out";
    let said = door.exits(0, &format!("sim most.csv {sim} most"));
    assert!(!said.err.contains("journal"), "{}", said.err);
    assert!(door.run("most").decisions_path().is_file());

    let said = door.exits(0, &format!("sim more.csv {sim} more"));
    let note = "no journal: 100001 jobs are more than 100000; `sched replay` and `sched explain` need one, which --journal writes";
    assert!(said.err.contains(note), "{}", said.err);
    let more = door.run("more");
    assert!(!more.decisions_path().exists());
    for command in ["replay more", "explain more 7"] {
        let said = door.exits(4, command);
        let message = "more has no decisions.jsonl; simulate its trace again with --journal, or name a run that has one";
        assert!(said.err.contains(message), "{}", said.err);
    }

    door.exits(0, &format!("sim more.csv {sim} asked --journal"));
    let asked = door.run("asked");
    let outcomes = |path: std::path::PathBuf| fs::read(path).expect("it is written");
    assert!(
        outcomes(asked.outcomes_path()) == outcomes(more.outcomes_path()),
        "the jobs end as without a journal"
    );
    let journal = fs::read_to_string(asked.decisions_path()).expect("it is written");
    let starts = |job: u32| journal.matches(&format!("{{\"start\":{{\"job\":{job},")).count();
    assert_eq!([0, 50_000, 100_000].map(starts), [1, 1, 1], "each job was started once");
}
