//! The reports of several ranks in the row of their job.

use front_door::has_cores;
use std::path::Path;

use record::{
    rows::{self, ByStage, ExportStep, Status, Warning},
    steps::job_steps,
};
use schema::{
    events::{self, EventWriter},
    units::Nanos,
    wire::{Event, EventLine, Phases, Statistics},
};

/// Makes a rank report other events at the same times.
fn say_otherwise(path: &Path, rank: u32, change: impl Fn(&mut Event)) -> Vec<EventLine> {
    let mut lines = events::read(path, rank).expect("events read");
    std::fs::remove_file(path).expect("it was just read");
    let mut writer = EventWriter::create(path, rank).expect("the folder is writable");
    for line in &mut lines {
        change(&mut line.event);
        writer.say_at(line.mono_ns, line.event.clone()).expect("the file is writable");
    }
    lines
}

#[test]
fn bytes_are_those_of_all_ranks_and_a_loss_is_their_mean() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.exits(0, "single synthetic-sleep@b8@dp2 --device cpu:0,cpu:1 --steps 30 --repeats 1 --out r");
    let run = door.run("r");
    let before = &door.measurements("r")[0];
    assert_eq!((before.sent_bytes, before.statistics), (None, None), "a synthetic worker sends nothing");

    // As in real training, each rank sends its gradients, waits for the others', and reports its own loss.
    let ranks = [0, 1].map(|rank| {
        say_otherwise(&run.events_path("0001-synthetic-sleep", rank), rank, |event| match event {
            Event::Ready(ready) => ready.statistics = Some(Statistics::Local),
            Event::Step(step) => {
                step.sent_bytes = Some(1_000 + u64::from(rank));
                step.loss = Some(2.0 + 3.0 * f64::from(rank) - step.index as f64 / 100.0);
                let phases = step.phases.as_mut().expect("a synthetic worker says phases");
                (phases.sync_total_ns, phases.sync_exposed_ns) = (Some(Nanos(900)), Some(Nanos(400)));
            }
            _ => {}
        })
    });
    door.exits(0, "derive r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.status, row.steps_used), (Status::Ok, before.steps_used));
    assert_eq!(row.statistics, Some(Statistics::Local));
    assert_eq!(row.sent_bytes, Some(2_001 * row.steps_used));
    assert_eq!((row.sync_total_ns_median, row.sync_exposed_ns_median), (Some(900), Some(400)));
    let summary = &door.summaries("r")[0];
    assert_eq!(summary.statistics, Some(Statistics::Local));

    let steps = job_steps(&ranks, 1);
    assert_eq!(steps.len() as u64, row.steps_total);
    for (index, step) in steps.iter().enumerate() {
        let apart = step.loss.expect("both ranks said one") - (3.5 - index as f64 / 100.0);
        assert!(apart.abs() < 1e-12 && step.samples == Some(8), "{step:?}");
    }
}

/// Ranks 0 and 1 are stages. The synthetic worker neither waits for stages nor sends, so this is reported for it.
#[test]
fn each_stage_of_a_pipeline_has_its_own_phases() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    let staged = front_door::definition("staged", "step_us = 1000, busy_percent = 0")
        .replace(r#"axes = ["dp", "ga"]"#, r#"axes = ["dp", "pp"]"#);
    door.write("mine.toml", &staged);
    let arguments = "--device cpu:0,cpu:1 --catalog mine.toml --steps 30 --repeats 1 --out r";
    door.exits(0, &format!("single staged@b8@pp2 {arguments}"));
    for rank in [0, 1] {
        say_otherwise(&door.run("r").events_path("0001-staged", rank), rank, |event| {
            if let Event::Step(step) = event {
                step.sent_bytes = Some(10 + u64::from(rank));
                let data_ns = (rank == 0).then_some(Nanos(3));
                let (forward_ns, pipeline_ns) = (Some(Nanos(100)), Some(Nanos(40 + u64::from(rank))));
                step.phases = Some(Phases { data_ns, forward_ns, pipeline_ns, ..Phases::default() });
            }
        });
    }
    door.exits(0, "derive r");
    let row = &door.measurements("r")[0];
    assert_eq!(row.status, Status::Ok, "{row:?}");
    assert!(!row.warnings.iter().any(|warning| warning == Warning::LossNotFinite), "{row:?}");
    assert_eq!((row.data_ns_median, row.forward_ns_median), (None, None), "of no stage alone");
    let by_stage = |cell: &Option<ByStage>| cell.as_ref().map(ByStage::to_string);
    assert_eq!(by_stage(&row.data_ns_median_by_stage).as_deref(), Some("3;"));
    assert_eq!(by_stage(&row.forward_ns_median_by_stage).as_deref(), Some("100;100"));
    assert_eq!(by_stage(&row.pipeline_ns_median_by_stage).as_deref(), Some("40;41"));
    assert_eq!((by_stage(&row.tensor_ns_median_by_stage), row.sent_bytes), (None, Some(21 * row.steps_used)));

    door.exits(0, "export r --steps --out steps.csv");
    let steps: Vec<ExportStep> = rows::read(&door.path("steps.csv")).expect("the table reads back");
    assert_eq!(steps.len() as u64, 2 * row.steps_total);
    for pair in steps.chunks(2) {
        let [first, last] = pair else { panic!("{pair:?}") };
        assert_eq!((first.stage, last.stage, first.index), (0, 1, last.index));
        assert_eq!((first.dur_ns, first.in_window), (last.dur_ns, last.in_window));
        assert_eq!((first.samples, first.loss, last.samples), (Some(0), None, Some(8)));
        assert!(last.loss.is_some(), "{last:?}");
        assert_eq!((first.pipeline_ns, last.pipeline_ns), (Some(40), Some(41)));
        assert_eq!((first.sent_bytes, last.sent_bytes), (Some(10), Some(11)));
    }
    let samples: u64 = steps.iter().filter_map(|step| step.samples).sum();
    assert_eq!(samples, 8 * row.steps_total);
}

#[test]
fn layers_that_do_not_compute_in_the_arithmetic_of_the_plan_are_a_warning() {
    let door = crate::door();
    door.exits(0, "single synthetic-sleep --device cpu:0 --steps 30 --repeats 1 --out r");
    let warns = || door.measurements("r")[0].warnings.iter().any(|warning| warning == Warning::Fp32Layers);
    assert!(!warns());
    say_otherwise(&door.run("r").events_path("0001-synthetic-sleep", 0), 0, |event| {
        if let Event::Ready(ready) = event {
            ready.fp32_layers = vec!["LSTM".into()];
        }
    });
    let said = door.exits(0, "derive r");
    assert!(
        said.err.contains("fp32-layers: computed in fp32 because there is no bf16 kernel: LSTM; "),
        "{}",
        said.err
    );
    assert!(warns());
}
