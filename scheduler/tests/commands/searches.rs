//! Searches over hyper-parameters: losses that jobs report, and a program that ends jobs by them.

use std::{collections::BTreeMap, path::Path};

use formats::{
    decision::{self, Action, ClusterEvent, JobId, Settled},
    loss_curve::LossCurve,
    rows::Outcome,
    trace::Trace,
};
use front_door::{Door, Said, definition, has_cores, torch_bin};
use record::{
    rows::{self, ErrorKind, Status},
    run_dir::RunDir,
    steps::job_steps,
};
use schema::{events::EventReader, spec::Program};

use crate::held::{Held, starts};

/// The path of the example that halves searches.
fn halving() -> String {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    examples.join("halving.py").to_str().expect("it is text").to_owned()
}

/// Runs a command whose policy is the example, with its first rung. `None` without Python.
fn halve(door: &Door, rung: u64, arguments: &str, bin: Option<&Path>) -> Option<Said> {
    let mut command = door.command(arguments);
    command.arg("--policy").arg(format!("exec:python3 '{}' {rung}", halving()));
    if let Some(bin) = bin {
        command.env("TANDEM_BIN", bin);
    }
    let output = command.output().expect("sched starts");
    let said = Said::of(&output);
    if said.err.contains("cannot be started") {
        schema::skips::skipped("python3", "there is no python3");
        return None;
    }
    assert!(output.status.success(), "{}", said.err);
    Some(said)
}

fn outcomes(run: &RunDir) -> Vec<Outcome> {
    rows::read(&run.outcomes_path()).expect("outcomes.csv reads back")
}

#[test]
fn a_trace_of_searches_has_a_member_for_each_learning_rate() {
    let door = crate::door();
    let jobs = "--jobs 2 --every 10s --length fixed:50 --step-time 1s --seed 3";
    door.exits(0, &format!("trace make any {jobs} --learning-rates 0.1,1e-3 --out t.csv"));
    let rows = Trace::read(&door.path("t.csv")).unwrap().rows;
    let of =
        |row: &formats::trace::TraceRow| (row.name.clone(), row.search.clone().unwrap(), row.learning_rate);
    let expected =
        [("any-0", "0.1", 0.1), ("any-0", "0.001", 0.001), ("any-1", "0.1", 0.1), ("any-1", "0.001", 0.001)]
            .map(|(search, rate, number)| (format!("{search}-lr{rate}"), search.to_owned(), Some(number)));
    assert_eq!(rows.iter().map(of).collect::<Vec<_>>(), expected);
    assert!(rows[0].submit_s == rows[1].submit_s && rows[1].submit_s < rows[2].submit_s);
    let said = door.exits(2, &format!("trace make any {jobs} --learning-rates 0"));
    assert!(said.err.contains("'0' is not a number above 0"), "{}", said.err);
    let said = door.exits(2, &format!("trace make any {jobs} --learning-rates 0.1,0.1"));
    assert!(said.err.contains("'any-0-lr0.1' stands in line 2 already"), "{}", said.err);
}

/// Eight members on three devices, of which the sixth is the best, and a job that is no member. Curves are fitted to the reports of the
/// simulation, and the simulation with these decides alike.
#[test]
fn a_simulated_search_is_halved_by_its_loss_curves() {
    let door = crate::door();
    let floors = [0.8, 0.3, 0.7, 0.6, 0.2, 0.1, 0.5, 0.4];
    let member =
        |(id, floor): (usize, f64)| format!("m{id},0,any,1000,1000000000,rates,0.{id}1,0.01/1/{floor}\n");
    let members: String = floors.into_iter().enumerate().map(member).collect();
    let header = "name,submit_s,job,steps,step_ns,search,learning_rate,loss_curve\n";
    door.write("trace.csv", &format!("{header}{members}other,0,any,50,1000000000,,,\n"));
    let options = "--cluster 1x3 --switch-cost 0s --progress-every 10s";
    if halve(&door, 100, &format!("sim trace.csv {options} --out first"), None).is_none() {
        return;
    }
    let run = door.run("first");
    let steps = [100, 200, 100, 100, 400, 1_000, 100, 200, 50];
    let found = outcomes(&run);
    assert_eq!(found.iter().map(|row| row.steps).collect::<Vec<_>>(), steps);
    let ended = |row: &Outcome| row.status == Status::EndedByPolicy;
    assert_eq!(found.iter().filter(|row| ended(row)).count(), 7);
    // The last report before the end of each, of its last ten steps; the best one has no report with its end.
    let curve = |floor| LossCurve::new(0.01, 1.0, floor).unwrap();
    for ((row, floor), until) in found.iter().zip(floors).zip([100, 200, 100, 100, 400, 990, 100, 200]) {
        assert_eq!(row.loss, curve(floor).mean(until - 10, until), "{row:?}");
    }
    assert_eq!(found[8].loss, None);
    let said = door.exits(0, "explain first m0");
    assert!(said.out.contains("reported 100 steps and a loss of 1.3116"), "{}", said.out);
    door.exits(0, "replay first --yes");

    let said = door.exits(0, "trace curves first --out curves.csv");
    assert!(said.err.contains("8 of 9 jobs have a loss curve"), "{}", said.err);
    let said = door.exits(2, "trace curves first --load 0.5 --devices 2");
    assert!(said.err.contains("error: first/inputs/trace.csv: all jobs arrive at once"), "{}", said.err);
    let (before, after) =
        ["trace.csv", "curves.csv"].map(|name| Trace::read(&door.path(name)).unwrap().rows).into();
    for (before, after) in before.iter().zip(&after) {
        let at =
            |row: &formats::trace::TraceRow| row.loss_curve.map(|curve| [50, 100, 900].map(|k| curve.at(k)));
        for (one, other) in at(before).into_iter().flatten().zip(at(after).into_iter().flatten()) {
            assert!((one / other - 1.0).abs() < 0.05, "{before:?} {after:?}");
        }
        assert_eq!((&before.search, before.learning_rate), (&after.search, after.learning_rate));
    }
    halve(&door, 100, &format!("sim curves.csv {options} --out second"), None);
    assert_eq!(outcomes(&door.run("second")).iter().map(|row| row.steps).collect::<Vec<_>>(), steps);
    door.write("plain.csv", "name,submit_s,job,steps,step_ns\na,0,any,100,1000000000\n");
    door.exits(
        0,
        "sim plain.csv --policy fifo --cluster 1x1 --switch-cost 0s --progress-every 10s --out plain",
    );
    let said = door.exits(4, "trace curves plain");
    assert!(said.err.contains("no job of plain has 4 reports of a loss"), "{}", said.err);
}

/// The losses of reports are those of the events of each launch, and each launch of a member has its learning rate.
fn losses_and_rates_are_as_on_file(run: &RunDir, rates: &[f64]) {
    let turns = decision::read(&run.decisions_path()).expect("decisions.jsonl reads back");
    // By the job, and the number of its start.
    let mut losses: BTreeMap<(JobId, u32), Vec<Option<f64>>> = BTreeMap::new();
    for row in outcomes(run) {
        for launch in run.launches().expect("they are listed") {
            let spec = run.spec(&launch).expect("it reads");
            if spec.cell != row.name {
                continue;
            }
            let Program::Training(training) = &spec.program else { panic!("{spec:?}") };
            let rate = training.workload.optimizer.learning_rate();
            assert_eq!(rate, rates[row.job.0 as usize], "{launch}");
            let mut lines = Vec::new();
            // A killed process may leave a partial line or an empty file.
            if let Ok(mut reader) = EventReader::open(&run.events_path(&launch, 0), 0) {
                reader.poll(&mut lines).expect("it reads");
            }
            let steps = job_steps(std::slice::from_ref(&lines), 1);
            losses.insert((row.job, spec.block), steps.into_iter().map(|step| step.loss).collect());
        }
    }
    let mut reports = 0;
    for job in (0..rates.len() as u32).map(JobId) {
        // The events of the job, each with the number of its starts before.
        let (mut starts, mut story) = (0, Vec::new());
        for turn in &turns {
            let events = turn.events.iter().filter(|happened| happened.job() == Some(job));
            story.extend(events.map(|happened| (starts, happened)));
            let is_start = |action: &&Action| matches!(action, Action::Start { job: of, .. } if *of == job);
            starts += turn.actions.iter().filter(is_start).count() as u32;
        }
        // Steps kept from before the launch, steps in the reports, and steps that the scheduler has counted.
        let (mut kept, mut reported, mut known) = (0, 0, 0);
        for (index, (starts, happened)) in story.iter().enumerate() {
            match **happened {
                ClusterEvent::Settled { now: Settled::Stopped, steps, .. }
                | ClusterEvent::Failed { steps, .. } => {
                    (kept, reported, known) = (steps, steps, steps);
                }
                ClusterEvent::Settled { steps, .. } => known = steps,
                ClusterEvent::Progress { steps, loss, .. } => {
                    let after = story.get(index + 1).map(|(_, happened)| *happened);
                    let has_died =
                        matches!(after, Some(ClusterEvent::Failed { kind: ErrorKind::Interrupted, .. }));
                    let from = if has_died { known } else { reported };
                    let of_launch = &losses[&(job, starts - 1)];
                    let within = &of_launch[(from - kept) as usize..(steps - kept) as usize];
                    let finite: Vec<f64> = within.iter().copied().flatten().collect();
                    let mean = finite.iter().sum::<f64>() / finite.len() as f64;
                    match loss {
                        Some(loss) => {
                            assert!((loss / mean - 1.0).abs() < 1e-12, "{job:?}: {loss} is not {mean}")
                        }
                        None => assert!(finite.is_empty(), "{job:?} at {steps}: {finite:?}"),
                    }
                    (reported, known, reports) = (steps, steps, reports + 1);
                }
                _ => {}
            }
        }
    }
    assert!(reports >= rates.len(), "{reports}");
}

/// The synthetic worker is fastest at a learning rate of 0.1, and diverges above 0.2.
#[test]
fn a_search_over_learning_rates_is_halved_by_the_losses_of_real_processes() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.write("catalog.toml", &definition("short", "step_us = 5000, busy_percent = 0"));
    let rates = [0.02, 0.3, 0.1, 0.005];
    let member = |(id, rate): (usize, f64)| format!("m{id},0,short,600,5000000,rates,{rate}\n");
    let members: String = rates.into_iter().enumerate().map(member).collect();
    door.write("trace.csv", &format!("name,submit_s,job,steps,step_ns,search,learning_rate\n{members}"));
    let options = "--device cpu:0,cpu:1 --catalog catalog.toml --progress-every 200ms --switch-cost 50ms";
    if halve(&door, 60, &format!("run trace.csv {options} --out r"), None).is_none() {
        return;
    }
    let run = door.run("r");
    let found = outcomes(&run);
    let statuses: Vec<Status> = found.iter().map(|row| row.status).collect();
    let ended = Status::EndedByPolicy;
    assert_eq!(statuses, [ended, ended, Status::Ok, ended], "{found:?}");
    assert_eq!(found[2].steps, 600);
    // The last report of the second member has its first steps only if it is the only one. The loss is 2 before them.
    assert!(found[1].loss.is_none_or(|loss| loss > 2.0), "{found:?}");
    assert!(found[2].loss.is_some_and(|loss| loss < 1.2), "{found:?}");
    // The second best comes to the second rung, and the others to the first.
    assert!(found[0].steps >= 120 && found[1].steps >= 60 && found[3].steps >= 60, "{found:?}");
    losses_and_rates_are_as_on_file(&run, &rates);
    door.exits(0, "replay r --yes");
}

/// The loss of the steps that were not reported when the scheduler was killed is reported when the run goes on.
#[test]
fn a_resumed_run_goes_on_with_its_learning_rates_and_reports_what_was_left() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.write("catalog.toml", &definition("short", "step_us = 5000, busy_percent = 0"));
    let rates = [0.05, 0.1];
    let member = |(id, rate): (usize, f64)| format!("m{id},0,short,400,5000000,rates,{rate}\n");
    let members: String = rates.into_iter().enumerate().map(member).collect();
    door.write("trace.csv", &format!("name,submit_s,job,steps,step_ns,search,learning_rate\n{members}"));
    let options =
        "--device cpu:0,cpu:1 --catalog catalog.toml --progress-every 300ms --checkpoint-every 400ms";
    let both = starts(&[(0, "dp1", &[0]), (1, "dp1", &[1])]);
    let run = door.command(&format!("run trace.csv {options} --out r"));
    // The journal lacks the reports of the turn in which the run halts.
    let has_reported = "grep -q progress r/decisions.jsonl";
    Held::start(&door, run, (&both, &both), has_reported).kill();
    door.exits(0, "run --resume r --yes");
    let run = door.run("r");
    let found = outcomes(&run);
    assert!(found.iter().all(|row| row.status == Status::Ok && row.starts == 2), "{found:?}");
    losses_and_rates_are_as_on_file(&run, &rates);
    door.exits(0, "replay r --yes");
}

/// A rate that is far too small learns nothing in these steps, and one that is far too large diverges.
#[test]
fn a_search_over_learning_rates_of_a_model_finds_one_that_learns() {
    let Some(bin) = torch_bin() else { return };
    let door = crate::door();
    let rates = [1e-8, 3e-4, 1e3];
    let member = |(id, rate): (usize, f64)| format!("m{id},0,llama-mini@b8,30,100000000,rates,{rate}\n");
    let members: String = rates.into_iter().enumerate().map(member).collect();
    door.write("trace.csv", &format!("name,submit_s,job,steps,step_ns,search,learning_rate\n{members}"));
    let options = "--device cpu:0 --progress-every 500ms --switch-cost 1s";
    if halve(&door, 12, &format!("run trace.csv {options} --out r"), Some(&bin)).is_none() {
        return;
    }
    let run = door.run("r");
    let found = outcomes(&run);
    let statuses: Vec<Status> = found.iter().map(|row| row.status).collect();
    let ended = Status::EndedByPolicy;
    assert_eq!(statuses, [ended, Status::Ok, ended], "{found:?}");
    losses_and_rates_are_as_on_file(&run, &rates);
}
