//! A fitted model, drawn.

use std::{collections::BTreeMap, fs};

use formats::fitted::{
    FitErrors, FittedRow, FittedWorkload, LaunchesDiffer, Layout, LeftOutStep, ModelFile, ModelSource,
};
use front_door::Door;
use record::rows::from_csv;

fn row(batch: u32, plan: &str, devices: u32, step_ns: u64) -> FittedRow {
    FittedRow {
        source: 0,
        global_batch: batch,
        plan: plan.parse().expect("a plan"),
        placement: vec![devices],
        cpus: None,
        ranks_per_device: 1,
        step_ns,
        forward_ns: None,
        synchronised_ns: None,
        updated_ns: None,
        peak_memory_bytes: None,
        doubtful: false,
        left_out: None,
    }
}

/// A prediction with an interval of a fifth to each side.
fn predicted(step_ns: u64) -> Option<LeftOutStep> {
    let ends = [step_ns / 5 * 4, step_ns / 5 * 6];
    Some(LeftOutStep { step_ns, step_ns_ci_lo: ends[0], step_ns_ci_hi: ends[1] })
}

fn model() -> ModelFile {
    let errors = |plans: &str, rows, mean_percent, covered_percent| FitErrors {
        plans: plans.into(),
        rows,
        mean_percent,
        p95_percent: 2.0 * mean_percent,
        max_percent: 3.0 * mean_percent,
        covered_percent,
    };
    let workload = |name: &str, rows, held_out| FittedWorkload {
        workload: name.into(),
        facts: Default::default(),
        rows,
        launches_differ: Some(LaunchesDiffer {
            launches: 6,
            mean_percent: 1.5,
            p95_percent: 2.5,
            max_percent: 3.0,
        }),
        fits: Vec::new(),
        held_out,
        memory: None,
    };
    let rows = vec![
        FittedRow { left_out: predicted(22_000_000), ..row(8, "dp1", 1, 20_000_000) },
        FittedRow { left_out: predicted(10_000_000), ..row(8, "dp2", 2, 12_500_000) },
        row(8, "dp2-gc", 2, 16_000_000),
        FittedRow { doubtful: true, ..row(8, "dp2-ga2", 2, 1_000_000) },
    ];
    ModelFile {
        format: ModelFile::FORMAT,
        version: "0.1.0".into(),
        seed: 1,
        device_type: "a device".into(),
        is_on_cores: true,
        within_rows: false,
        sources: vec![ModelSource::new("runs/a".as_ref(), Layout::Run, 4, b"rows")],
        workloads: vec![
            workload("lstm", rows, vec![errors("all", 20, 6.0, Some(95.0)), errors("dp", 8, 4.0, None)]),
            workload("new", vec![row(4, "dp1", 1, 5_000_000)], Vec::new()),
        ],
        unfit: Vec::new(),
        interference: None,
    }
}

#[test]
fn a_model_has_a_page_with_its_errors_and_the_rows_that_it_was_fitted_to() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    model().write(&door.path("MODEL.json")).expect("the folder is writable");
    let said = door.exits(0, "MODEL.json");
    assert_eq!((said.out.trim(), &*said.err), ("report/index.html", ""));
    let page = fs::read_to_string(door.path("report/index.html")).expect("a page");
    for words in [
        "lstm by 6.0 % on average and 18.0 % at most over 20 rows, 95 % inside their 95 % intervals",
        "while launches differ by 1.5 %",
        "For 1 workload, no error is known",
        "lstm@b8@dp2 with 640 samples/s on 2 devices",
        "Bars are 95 % intervals; 1 of 2 rows are inside",
        "2 rows that the first formula does not describe",
        "Fitted models",
        "new: no row was left out of a fit",
        "lstm@b8@dp2-ga2: all other rows contradict it",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let numbers = fs::read(door.path("report/figures/model-rows.csv")).expect("numbers");
    let (columns, cells) = from_csv(&numbers).expect("it is CSV");
    let at = |name: &str| columns.iter().position(|column| column == name).expect("a column");
    let drawn: BTreeMap<&str, (f64, f64)> = cells
        .iter()
        .map(|cells| {
            let number = |name: &str| cells[at(name)].parse::<f64>().expect("a number");
            (cells[at("label")].as_str(), (number("devices"), number("samples_per_s")))
        })
        .collect();
    for (label, expected) in [
        ("lstm@b8@dp1", (1.0, 8.0 / 0.02)),
        ("lstm@b8@dp2", (2.0, 8.0 / 0.0125)),
        ("lstm@b8@dp2-gc", (2.0, 8.0 / 0.016)),
        ("new@b4@dp1", (1.0, 4.0 / 0.005)),
    ] {
        let (devices, rate) = drawn[label];
        assert!(devices == expected.0 && (rate - expected.1).abs() < 1e-9, "{label}: {devices} {rate}");
    }
}

/// The errors of some plans say nothing of the others.
#[test]
fn the_errors_of_some_plans_are_not_shown_as_those_of_all() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let mut model = model();
    model.workloads[0].held_out.retain(|errors| errors.plans != "all");
    model.write(&door.path("MODEL.json")).expect("the folder is writable");
    door.exits(0, "MODEL.json");
    let said = crate::answers::in_short(&fs::read_to_string(door.path("report/index.html")).expect("a page"));
    assert!(said.contains("so the errors are unknown.") && !said.contains("4.0 %"), "{said}");
}

#[test]
fn predicted_steps_stand_against_the_measured_ones() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    model().write(&door.path("MODEL.json")).expect("the folder is writable");
    let csv = door.exits(0, "table model-predicted MODEL.json --csv").out;
    let (columns, cells) = from_csv(csv.as_bytes()).expect("it is CSV");
    let at = |name: &str| columns.iter().position(|column| column == name).expect("a column");
    let of_row = |cells: &Vec<String>| {
        let number = |name: &str| cells[at(name)].parse::<f64>().expect("a number");
        (cells[at("label")].clone(), number("measured_step_ns"), number("predicted_step_ns"))
    };
    let drawn: Vec<_> = cells.iter().map(of_row).collect();
    let expected = [("lstm@b8@dp2", 12.5e6, 10e6), ("lstm@b8@dp1", 20e6, 22e6)];
    assert_eq!(drawn, expected.map(|(label, measured, predicted)| (label.to_owned(), measured, predicted)));
}

#[test]
fn a_file_that_is_no_model_is_refused_with_the_remedy() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    door.write("MODEL.json", "{\"format\": 1, \"workloads\": 3}");
    let said = door.exits(2, "MODEL.json");
    assert!(
        said.err.contains("MODEL.json") && said.err.contains("fit again with `sched fit`"),
        "{}",
        said.err
    );
}
