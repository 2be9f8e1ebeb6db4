//! Comparisons of runs by the program.

use std::{fs, path::Path};

use formats::rows::{Fidelity, Outcome, Prediction, Totals, Utilisation};
use front_door::Door;
use record::rows::{self, Status, Summary};

/// Three runs of one trace, of which the second has noise and the third has more noise.
fn runs(door: &Door) {
    let make = "trace make any --jobs 40 --length exponential:60s --step-time 250ms --every 40s --out t.csv";
    door.exits(0, make);
    for (out, more) in [("calm", ""), ("noisy", "--noise 3"), ("wild", "--noise 60 --seed 3")] {
        let sim = format!("sim t.csv --policy fifo --cluster 1x2 --switch-cost 5s --out {out} {more}");
        door.exits(0, &sim);
    }
    // As in `sched run`, which predicts before it runs.
    for (predicted, run) in [("calm", "noisy"), ("wild", "calm")] {
        let outcomes: Vec<Outcome> = rows::read(&door.path(predicted).join("outcomes.csv")).unwrap();
        let predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
        rows::write(&door.path(run).join("predictions.csv"), &predictions).unwrap();
    }
}

fn json(door: &Door, code: i32, arguments: &str) -> Fidelity {
    let said = door.exits(code, &format!("fidelity {arguments} --json"));
    rows::from_json(&said.out).expect("it is a fidelity")
}

#[test]
fn a_run_is_held_against_its_predictions_and_another_run_says_what_can_be_asked() {
    let door = crate::door();
    runs(&door);
    let same = json(&door, 0, "calm/outcomes.csv calm");
    assert_eq!((same.jobs, same.job_jct.max_percent, same.average_jct.error_percent), (40, 0.0, 0.0));

    assert_eq!(same.utilisation.predicted_percent, None, "a file of outcomes does not name the devices");
    let said = door.exits(0, "sim t.csv --policy fifo --cluster 1x2 --switch-cost 5s --json");
    let totals: Vec<Totals> = rows::from_json(&said.out).unwrap();
    let utilisation = json(&door, 0, "noisy calm").utilisation;
    assert_eq!(same.utilisation.measured_percent, utilisation.measured_percent);
    assert_eq!(utilisation.measured_percent, totals[0].util_percent, "both commands define it alike");

    let found = json(&door, 0, "noisy");
    let backwards = json(&door, 0, "noisy calm");
    assert!(found.job_jct.median_percent > 0.0 && found.per_job.len() == 40);
    assert_eq!(found.average_jct.predicted_ns, backwards.average_jct.measured_ns);
    let parts = found.per_job.iter().map(|job| {
        let arose = job.arose;
        assert_eq!(arose.interference_ns, 0, "no two jobs share a device");
        arose.parts().iter().filter_map(|(_, ns)| *ns).sum::<i64>()
    });
    let whole = found.per_job.iter().map(|job| job.jct.predicted_ns as i64 - job.jct.measured_ns as i64);
    assert!(parts.eq(whole), "they add up");

    // A repeated run is equal to itself, so that the bars have the least length.
    let said = door.exits(0, "fidelity noisy --again noisy --jobs");
    assert!(said.out.contains("5.0 %: holds") && said.out.contains("where it arose"), "{}", said.out);
    let said = door.exits(1, "fidelity calm --again calm");
    assert!(said.out.contains("5.0 %: missed"), "{}", said.out);
    let both = door.exits(0, "fidelity noisy --again calm --json");
    let both: Vec<Fidelity> = rows::from_json(&both.out).unwrap();
    assert_eq!((both.len(), &both[0]), (2, &found));
}

/// The jobs that ended well were predicted exactly, and one has failed in both runs.
#[test]
fn a_job_that_failed_misses_the_limits() {
    let door = crate::door();
    runs(&door);
    let mut outcomes: Vec<Outcome> = rows::read(&door.path("calm/outcomes.csv")).unwrap();
    let predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
    rows::write(&door.path("calm/predictions.csv"), &predictions).unwrap();
    door.exits(0, "fidelity calm --again calm");
    (outcomes[3].status, outcomes[3].jct_ns) = (Status::Failed, None);
    rows::write(&door.path("calm/outcomes.csv"), &outcomes).unwrap();
    let said = door.exits(1, "fidelity calm --again calm");
    let name = &outcomes[3].name;
    assert!(
        said.err.contains(&format!("did not end well on both sides are left out: {name}")),
        "{}",
        said.err
    );
    door.exits(0, "fidelity calm");
}

/// A run of the record with packed jobs, whose outcomes lack `busy_share_ns`.
#[test]
fn the_utilisation_of_an_older_run_follows_from_its_journal() {
    let door = crate::door();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record/20261122-epyc/testbed");
    let run = record.join("packing-fifo-1");
    let found = json(&door, 0, &run.display().to_string());
    let outcomes: Vec<Outcome> = rows::read(&run.join("outcomes.csv")).unwrap();
    assert!(outcomes.iter().all(|row| row.busy_share_ns.is_none()));
    // Jobs of one device are packed in pairs and have half of that time each, but for the time in which the other one switches.
    assert!(outcomes.iter().all(|row| row.devices == 1));
    let busy =
        outcomes.iter().map(|row| row.running_ns.unwrap() as f64 - row.packed_ns.unwrap() as f64 / 2.0);
    let last = outcomes.iter().filter_map(|row| row.end_ns).max().unwrap();
    let expected = busy.sum::<f64>() / (2 * last) as f64 * 100.0;
    let measured = found.utilisation.measured_percent.unwrap();
    assert!((measured - expected).abs() < 0.1, "{measured} is not {expected}");
    let (file, again) = (run.join("outcomes.csv"), record.join("packing-fifo-2"));
    let both = json(&door, 0, &format!("{} {}", file.display(), again.display())).utilisation;
    assert!(both.predicted_percent.is_none() && both.measured_percent.is_some(), "{both:?}");

    // Without an input or the journal, all else is still compared.
    fs::create_dir(door.path("old")).unwrap();
    for name in ["manifest.toml", "decisions.jsonl", "outcomes.csv", "predictions.csv"] {
        fs::copy(run.join(name), door.path("old").join(name)).unwrap();
    }
    let said = door.exits(0, "fidelity old --json");
    for file in ["outcomes.csv", "predictions.csv"] {
        let note = format!("the utilisation by old/{file} is not known: old/inputs/trace.csv");
        assert!(said.err.contains(&note), "{}", said.err);
    }
    fs::remove_file(door.path("old/decisions.jsonl")).unwrap();
    assert_eq!(json(&door, 0, "old").utilisation, Utilisation::default());
}

/// The first run on a GPU. It was predicted without the costs of starts, and its README says what followed.
#[test]
fn the_errors_of_a_prediction_without_the_costs_of_starts_are_those_of_the_record() {
    let door = crate::door();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record/20261126-h200");
    let run = record.join("testbed-fifo");
    let fidelity = json(&door, 0, &run.display().to_string());
    let outcomes: Vec<Outcome> = rows::read(&run.join("outcomes.csv")).unwrap();
    let mean = |value: fn(&Outcome) -> u64| outcomes.iter().map(value).sum::<u64>() as f64 / 4.0;
    let measured = mean(|row| row.end_ns.unwrap() - row.submit_ns);
    // One device runs one job after the other, at the step times that the table has.
    let tables: Vec<Summary> = rows::read(&run.join("inputs/table-0/summary.csv")).unwrap();
    let mut end_ns = 0.0;
    let ends = outcomes.iter().map(|row| {
        let is_alone = |table: &&Summary| table.workload == row.workload && table.group.is_none();
        let step_ns = tables.iter().find(is_alone).unwrap().step_ns_mean.unwrap();
        end_ns += row.steps as f64 * step_ns as f64;
        end_ns - row.submit_ns as f64
    });
    let predicted = ends.sum::<f64>() / 4.0;
    let error = 100.0 * (predicted / measured - 1.0);
    assert!((error + 17.7).abs() < 0.1, "{error}");
    assert!(
        (fidelity.average_jct.error_percent - error).abs() < 0.1,
        "{}",
        fidelity.average_jct.error_percent
    );
    let switches = mean(|row| row.switching_ns.unwrap());
    assert_eq!(fidelity.arose.switch_cost_ns, -switches.round() as i64);
    let page = fs::read_to_string(record.join("README.md")).unwrap();
    assert!(
        page.contains("17.7 % too short") && page.contains("(0.45 to 1.46 s each; 5 of the 17.7 %"),
        "{page}"
    );
}

/// A simulation with packed jobs, without the column.
#[test]
fn utilisation_is_the_same_with_the_column_and_without_it() {
    let door = crate::door();
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../reports/record/20261122-epyc/testbed/packing-fifo-1/inputs");
    let [trace, machine] = ["trace.csv", "machine.toml"].map(|name| inputs.join(name).display().to_string());
    let tables: String =
        (0..7).map(|number| format!(" --table {}/table-{number}", inputs.display())).collect();
    let policy = "--policy packing-fifo --cluster 1x2 --progress-every 10s";
    door.exits(0, &format!("sim {trace} {policy} --machine {machine}{tables} --out r"));
    let with = json(&door, 0, "r r").utilisation;
    let mut outcomes: Vec<Outcome> = rows::read(&door.path("r/outcomes.csv")).unwrap();
    assert!(outcomes.iter().any(|row| row.packed_ns > Some(0)) && with.error_percent == Some(0.0));
    outcomes.iter_mut().for_each(|row| row.busy_share_ns = None);
    rows::write(&door.path("r/outcomes.csv"), &outcomes).unwrap();
    let mut predictions: Vec<Prediction> = outcomes.iter().map(Prediction::from).collect();
    rows::write(&door.path("r/predictions.csv"), &predictions).unwrap();
    assert_eq!(json(&door, 0, "r").utilisation, with);
    // The simulation of another version had other times.
    predictions[3].end_ns = predictions[3].end_ns.map(|ns| ns + 1);
    rows::write(&door.path("r/predictions.csv"), &predictions).unwrap();
    let found = json(&door, 0, "r").utilisation;
    assert_eq!((found.predicted_percent, found.measured_percent), (None, with.measured_percent));
}

/// The table without one of its columns. No cell of it contains a comma.
fn without(table: &str, column: &str) -> String {
    let index = table.lines().next().unwrap().split(',').position(|name| name == column).unwrap();
    let cut = |line: &str| {
        let mut cells: Vec<&str> = line.split(',').collect();
        cells.remove(index);
        cells.join(",") + "\n"
    };
    table.lines().map(cut).collect()
}

#[test]
fn a_table_without_a_required_column_is_refused_and_its_cells_may_be_empty() {
    let door = crate::door();
    runs(&door);
    let outcomes = fs::read_to_string(door.path("calm/outcomes.csv")).unwrap();
    let predictions: Vec<Prediction> = rows::read::<Outcome>(&door.path("calm/outcomes.csv"))
        .unwrap()
        .iter()
        .map(Prediction::from)
        .collect();
    rows::write(&door.path("calm/predictions.csv"), &predictions).unwrap();
    let predictions = fs::read_to_string(door.path("calm/predictions.csv")).unwrap();
    let is_refused = |err: &str, file: &str, missing: &str| err.contains(file) && err.contains(missing);
    for column in ["start_ns", "end_ns", "jct_ns", "queued_ns", "running_ns", "packed_ns", "device_time_ns"] {
        let missing = format!("missing field `{column}`");
        door.write("calm/outcomes.csv", &without(&outcomes, column));
        for command in ["fidelity wild calm", "fidelity calm wild", "fidelity calm/outcomes.csv wild"] {
            let said = door.exits(2, command);
            assert!(is_refused(&said.err, "calm/outcomes.csv: line ", &missing), "{command}: {}", said.err);
        }
        door.write("calm/outcomes.csv", &outcomes);
        door.write("calm/predictions.csv", &without(&predictions, column));
        let said = door.exits(2, "fidelity calm");
        assert!(is_refused(&said.err, "calm/predictions.csv: line ", &missing), "{}", said.err);
    }
    door.write("calm/outcomes.csv", &without(&outcomes, "first_100_ns"));
    door.exits(0, "fidelity calm/outcomes.csv wild");
}

#[test]
fn what_cannot_be_compared_is_told() {
    let door = crate::door();
    runs(&door);
    let text = fs::read_to_string(door.path("calm/outcomes.csv")).unwrap();
    let shorter: Vec<&str> = text.lines().take(40).collect();
    door.write("short.csv", &format!("{}\n", shorter.join("\n")));
    for (arguments, message) in [
        ("wild", "wild has no predictions; name a second run"),
        ("calm/outcomes.csv", "alone has no predictions"),
        ("short.csv calm", "short.csv and calm: job '"),
        ("short.csv calm", "was only measured; compare runs of one trace"),
        ("nowhere calm", "nowhere: there is no such run and no such file"),
    ] {
        let said = door.exits(2, &format!("fidelity {arguments}"));
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
    }
}
