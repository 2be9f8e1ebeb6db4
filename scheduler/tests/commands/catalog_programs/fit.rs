//! Fits of programs, the plans that follow, and the rows behind both.

use formats::{
    fitted::ModelFile,
    rows::{BestPlan, Suggestion},
};
use record::{
    facts::Facts,
    rows::{self, Summary, Warning},
    run_dir::RunDir,
};

use super::{DEFINITION, TRACE, with_definition, with_rows};
use crate::{run::outcomes, startups::SECOND};

/// The sizes of the program's model, before the next key of its definition.
const MODEL: &str = "model = { parameters = 859_136, layers = 4, sequence = 64, hidden = 128 }\nbatches";

#[test]
fn rows_with_other_values_are_in_no_model_and_give_no_times() {
    let trace = "name,submit_s,job,steps\na,0,mine@b8@dp1,30\n";
    let Some(door) = with_definition(trace) else { return };
    with_rows(&door, &[(8, "dp1", 100), (8, "dp2", 60), (8, "ga2", 115), (16, "dp1", 190), (16, "dp2", 105)]);
    let path = RunDir::open(&door.path("t")).expect("it is a run").summary_path();
    let mut rows: Vec<Summary> = rows::read(&path).expect("they read");
    let of_mine = rows.iter().find(|row| row.job == "mine@b8@dp1").expect("it was written").clone();
    rows.push(Summary {
        job: "mine@b8@dp1 lr=0.5".into(),
        vary: Some("lr=0.5".into()),
        step_ns_median: Some(9 * SECOND),
        step_ns_mean: Some(9 * SECOND),
        ..of_mine
    });
    rows::write(&path, &rows).expect("they are written");
    // The other workload of the table has a single row.
    let said = door.exits(1, "fit t --out m.json");
    assert!(said.err.contains("fit: 1 rows are left out: they have values of --vary"), "{}", said.err);
    let sim =
        "sim trace.csv --policy fifo --switch-cost 1s --catalog mine.toml --table t --cluster 1x2 --out r";
    door.exits(0, sim);
    let ends = outcomes(&door).into_iter().map(|row| row.end_ns.map(|ns| (ns + 500) / 1_000_000));
    assert_eq!(ends.collect::<Vec<_>>(), [Some(3_000 + 28 * 100 + 2_000)]);
}

#[test]
fn a_program_is_fitted_and_its_best_plan_is_one_that_it_has() {
    let Some(door) = with_definition(TRACE) else { return };
    with_rows(&door, &[(8, "dp1", 100), (8, "dp2", 60), (8, "ga2", 115), (16, "dp1", 190), (16, "dp2", 105)]);
    door.write("mine.toml", &DEFINITION.replace("batches", MODEL));
    // The other workload of the table has a single row.
    door.exits(1, "fit t --catalog mine.toml --out m.json");
    let facts = ModelFile::read(&door.path("m.json")).expect("it reads").workloads[0].facts;
    let expected = Facts {
        parameters: Some(859_136),
        layers: Some(4),
        sequence: Some(64),
        hidden: Some(128),
        state_per_parameter: None,
    };
    assert_eq!(facts, expected);
    let json = door.exits(0, "plan mine@b8 --devices 1..2 --model m.json --catalog mine.toml --json").out;
    let best: Vec<BestPlan> = rows::from_json(&json).expect("it is rows of plans");
    let plans: Vec<_> = best.iter().map(|row| (row.devices, row.plan.map(|plan| plan.to_string()))).collect();
    assert_eq!(plans, [(1, Some("dp1".into())), (2, Some("dp2".into()))], "{best:?}");
    let ms: Vec<_> = best.iter().map(|row| row.step_ns.map(|ns| ns / 1_000_000)).collect();
    assert!(matches!(ms[..], [Some(90..=110), Some(54..=66)]), "they were measured: {ms:?}");
    let json = door.exits(0, "predict mine@b8 --devices 2 --model m.json --catalog mine.toml --json").out;
    assert!(json.contains("mine@b8@dp2"), "{json}");
    let said = door.exits(2, "predict mine@b8@gc --model m.json --catalog mine.toml");
    assert!(said.err.contains("mine runs no plans with gc"), "{}", said.err);
    let said = door.exits(2, "plan mine@b4 --devices 1..2 --model m.json --catalog mine.toml");
    assert!(said.err.contains("mine trains with batches 8, 16"), "{}", said.err);
    let said = door.exits(2, "plan mine@b8 --devices 1..2 --model m.json");
    assert!(
        said.err.contains("m.json has 'mine', and no catalog does: name the file of its definition"),
        "{}",
        said.err
    );
    let said = door.exits(2, "plan other@b8 --devices 1..2 --model m.json");
    assert!(said.err.contains("there is no workload 'other'"), "{}", said.err);
}

#[test]
fn rows_that_were_disturbed_are_fitted_and_named() {
    let Some(door) = with_definition(TRACE) else { return };
    with_rows(&door, &[(8, "dp1", 100), (8, "dp2", 60), (8, "ga2", 115), (16, "dp1", 190), (16, "dp2", 105)]);
    let path = RunDir::open(&door.path("t")).expect("it is a run").summary_path();
    let mut rows: Vec<Summary> = rows::read(&path).expect("they read");
    let mut of_mine = rows.iter_mut().filter(|row| row.workload == "mine");
    for warnings in [&[Warning::Spread, Warning::Foreign][..], &[Warning::FewRepeats], &[Warning::NotSteady]]
    {
        of_mine.next().expect("there are five").warnings = warnings.iter().copied().collect();
    }
    rows::write(&path, &rows).expect("they are written");
    let said = door.exits(1, "fit t --catalog mine.toml --out m.json").err;
    let words = "fit: 2 of 6 rows were disturbed or did not settle, and are fitted like the others: mine@b8@dp1 (foreign;spread), \
                 mine@b8@ga2 (not-steady); measure these jobs again on a quiet machine";
    assert!(said.contains(words), "{said}");
}

#[test]
fn suggestions_are_the_plans_of_a_program_that_no_row_has() {
    let Some(door) = with_definition(TRACE) else { return };
    let rows = [(8, "dp1", 100), (8, "dp2", 60), (8, "ga2", 115), (16, "dp1", 190), (16, "dp2", 105)];
    let more = [(8, "dp2-ga2", 70), (16, "ga2", 205), (16, "dp2-ga2", 115)];
    with_rows(&door, &[&rows[..], &more].concat());
    door.write("mine.toml", &DEFINITION.replace("batches", MODEL));
    door.exits(0, "fit t --suggest 400 --catalog mine.toml --out next.csv");
    let suggested: Vec<Suggestion> = rows::read(&door.path("next.csv")).expect("it reads");
    let of_mine = suggested.iter().map(|row| row.job.to_string()).filter(|job| job.starts_with("mine"));
    let mut jobs: Vec<String> = of_mine.collect();
    jobs.sort();
    let of_8 = ["dp2-ga4", "ga4", "ga8"].map(|plan| format!("mine@b8@{plan}"));
    let of_16 = ["dp2-ga4", "dp2-ga8", "ga4", "ga8"].map(|plan| format!("mine@b16@{plan}"));
    assert_eq!(jobs, [&of_16[..], &of_8].concat());
    let said = door.exits(0, "fit t --suggest 3 --out next.csv");
    assert!(said.err.contains("the catalog has no workload or program 'mine'"), "{}", said.err);
}
