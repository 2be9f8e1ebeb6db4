//! The best plans of a job on the command line.

mod outcomes;
mod planted;

use std::{path::Path, sync::LazyLock};

use formats::{
    decision::{self, Action},
    fitted::{FittedWorkload, FormulaName, ModelFile},
    rows::{BestPlan, MemorySource, RankBy},
};
use front_door::Door;
use jobs::plans::memory::{CUDA_CONTEXT_BYTES, DeviceMemory, Numbers, states_bytes};
use model::{FittedModel, MemoryModel, MemorySetting, formula};
use proptest::prelude::*;
use record::{
    rows::{self},
    run_dir::RunDir,
};
use scheduler::{
    best_plan::{Choice, Point, Search, flattened},
    measured::{self, Inputs},
    rank_memory::{self, RankMemory},
};
use schema::{
    catalog::{Catalog, CatalogEntry, Workload},
    plan::{Plan, Precision},
};

const BATCH: u32 = 16;

/// The names of the columns of published tables of Rubick.
const RUBICK: &str = "exec_plan,placement,iter_time\n";

static CATALOG: LazyLock<Catalog> = LazyLock::new(Catalog::embedded);

/// A model of GPT-2 on GPUs, with 12 cores for each rank.
static MODEL: LazyLock<ModelFile> = LazyLock::new(|| planted::model(workload(), BATCH, 3));

fn workload() -> &'static Workload {
    CATALOG.get("gpt2").expect("the catalog has it")
}

fn door() -> Door {
    let door = crate::door();
    MODEL.write(&door.path("m.json")).expect("the folder is writable");
    door
}

fn rows_of(door: &Door, arguments: &str) -> Vec<BestPlan> {
    let said = door.exits(0, &format!("plan --model m.json gpt2@b{BATCH} {arguments} --json"));
    rows::from_json(&said.out).expect("it prints rows")
}

/// All plans of up to `devices`, found another way than by the command.
fn all_plans(devices: u16) -> Vec<Plan> {
    let mut plans = Vec::new();
    let degrees = || 1..=devices;
    for (dp, tp, pp) in
        degrees().flat_map(|dp| degrees().flat_map(move |tp| degrees().map(move |pp| (dp, tp, pp))))
    {
        for (ga, zero) in [1, 2, 4, 8, 16].iter().flat_map(|ga| (0..4).map(move |zero| (*ga, zero))) {
            for switches in 0..8u8 {
                let is = |bit: u8| switches & bit > 0;
                let precision = if is(1) { Precision::Bf16 } else { Precision::Fp32 };
                plans.push(Plan { dp, tp, pp, zero, ga, gc: is(2), offload: is(4), precision });
            }
        }
    }
    plans.retain(|plan| {
        plan.ranks() <= devices.into()
            && [plan.tp, plan.pp].iter().all(|degree| degree.is_power_of_two())
            && plan.to_string().parse() == Ok(*plan)
            && workload().refuses(plan, BATCH).is_none()
    });
    plans
}

/// The shortest step of a plan on up to `devices` on one node, in seconds, by the closed form with the values in the file.
fn by_closed_form(devices: u16, fits: impl Fn(&Plan) -> bool) -> (f64, Plan) {
    let fitted = &MODEL.workloads[0];
    let fit = fitted.fits.iter().find(|fit| fit.formula == FormulaName::Tandem).expect("it describes all");
    let values: Vec<f64> = fit.parameters.iter().map(|parameter| parameter.value).collect();
    let time = |plan: Plan| {
        let setting = planted::setting(fitted.facts, BATCH, plan, &[plan.ranks()], Some(12));
        formula::applies(FormulaName::Tandem, &setting).ok()?;
        Some((formula::step(FormulaName::Tandem, &values, &setting).total, plan))
    };
    let times = all_plans(devices).into_iter().filter(fits).filter_map(time);
    times.min_by(|(a, _), (b, _)| a.total_cmp(b)).expect("some plan fits")
}

/// The upper end of the interval of the memory of a rank, with that of CUDA.
fn memory_bytes(plan: &Plan) -> f64 {
    let fitted = &MODEL.workloads[0];
    let measured = fitted.rows.iter().find(|row| row.plan == *plan);
    if let Some(bytes) = measured.and_then(|row| row.peak_memory_bytes) {
        return (bytes + CUDA_CONTEXT_BYTES) as f64;
    }
    let model =
        MemoryModel::of_file(fitted.memory.as_ref().expect("peaks were measured")).expect("of this version");
    let parameters = fitted.facts.parameters.expect("known");
    let per_parameter = workload().optimizer.state_per_parameter();
    let states_bytes = states_bytes(parameters, per_parameter, plan, DeviceMemory::Own, Numbers::Fp32);
    let setting = MemorySetting { parameters, states_bytes, global_batch: BATCH, plan: *plan };
    model.predict(&setting).1.1 + CUDA_CONTEXT_BYTES as f64
}

#[test]
fn the_best_plan_is_that_of_brute_force_in_closed_form() {
    let door = door();
    let rows = rows_of(&door, "--devices 1..8 --memory 80GiB --rank median");
    assert_eq!(rows.len(), 8);
    for row in &rows {
        let (step_s, plan) =
            by_closed_form(row.devices as u16, |plan| memory_bytes(plan) <= 80.0 * 1.073_741_824e9);
        // The mean of measured rows differs from the closed form by the error of the fit.
        let found = row.step_ns.expect("it fits") as f64 / 1e9;
        assert!(
            (found / step_s - 1.0).abs() < 0.02,
            "{} devices: {found} s, {plan} takes {step_s} s",
            row.devices
        );
        assert!(row.plan == Some(plan) || row.formula.is_none(), "{row:?}, not {plan}");
        assert!(row.step_ns_ci_lo < row.step_ns && row.step_ns < row.step_ns_ci_hi);
        assert!((row.samples_per_s.expect("it fits") * found / f64::from(BATCH) - 1.0).abs() < 1e-6);
        assert_eq!(row.ranks, row.plan.map(|plan| plan.ranks()));
    }
    // Plans that were measured are as long as their rows.
    let row = &rows[0];
    let measured = MODEL.workloads[0].rows.iter().find(|measured| Some(measured.plan) == row.plan);
    if let (Some(measured), Some(found)) = (measured, row.step_ns) {
        assert!(found.abs_diff(measured.step_ns) < 1_000);
        assert_eq!(row.memory_source, Some(MemorySource::Measured));
    }
}

#[test]
fn the_curve_leaves_units_that_are_worth_one_percent_or_less() {
    let door = door();
    let rows = rows_of(&door, "--devices 1..16 --per-node 4 --cpus 2,12,3 --rank median");
    let cpus: Vec<Option<u16>> = rows.chunks(16).map(|of| of[0].cpus).collect();
    assert_eq!(cpus, [Some(2), Some(3), Some(12)]);
    // Over devices, with the fewest cores: from one point, the next is the first that is better by more than 1 %.
    let raw: Vec<f64> = rows[..16].iter().map(|row| row.samples_per_s.expect("all fit")).collect();
    let mut at = 0;
    let mut expected = vec![raw[0]];
    while let Some(step) = raw[at + 1..].iter().position(|rate| *rate > 1.01 * raw[at]) {
        expected.extend(std::iter::repeat_n(raw[at], step));
        at += step + 1;
        expected.push(raw[at]);
    }
    expected.resize(16, raw[at]);
    let curve = |row: &BestPlan| row.curve_samples_per_s.expect("all fit");
    assert_eq!(rows[..16].iter().map(curve).collect::<Vec<f64>>(), expected);
    for (index, row) in rows.iter().enumerate() {
        let best = row.samples_per_s.expect("all fit");
        assert!(best <= 1.01 * 1.01 * curve(row) && curve(row) <= best * (1.0 + 1e-12), "{row:?}");
        assert!(row.curve_devices <= Some(row.devices) && row.curve_cpus <= row.cpus);
        if index % 16 > 0 {
            assert!(curve(&rows[index - 1]) <= curve(row), "monotone over devices");
        }
        if index >= 16 {
            assert!(curve(&rows[index - 16]) <= curve(row), "monotone over cores");
        }
    }
}

#[test]
fn a_point_is_kept_from_the_smaller_allocation() {
    let point = |devices, cpus, samples_per_s| Point {
        plan: Plan::default(),
        devices,
        cpus: Some(cpus),
        samples_per_s,
        rate: samples_per_s,
    };
    let best = [
        vec![None, Some(point(2, 1, 100.0)), Some(point(3, 1, 101.0)), Some(point(4, 1, 101.5))],
        vec![
            Some(point(1, 2, 90.0)),
            Some(point(2, 2, 100.5)),
            Some(point(3, 2, 103.0)),
            Some(point(4, 2, 103.0)),
        ],
    ];
    let curve = flattened(&best);
    // 101 is exactly 1 % more than 100, and 101.5 is compared with what was kept.
    let kept = |row: usize| {
        curve[row].iter().map(|point| point.map(|point| (point.devices, point.cpus))).collect::<Vec<_>>()
    };
    assert_eq!(kept(0), [None, Some((2, Some(1))), Some((2, Some(1))), Some((4, Some(1)))]);
    assert_eq!(kept(1), [Some((1, Some(2))), Some((2, Some(1))), Some((3, Some(2))), Some((3, Some(2)))]);
}

#[test]
fn table_json_and_csv_say_the_same() {
    let door = door();
    let arguments = "--devices 2..8 --per-node 4 --memory 24GiB";
    let printed = rows_of(&door, &format!("{arguments} --csv plans.csv"));
    let written: Vec<BestPlan> = rows::read(&door.path("plans.csv")).expect("it is a table");
    assert_eq!(written, printed);
    let said = door.exits(0, &format!("plan --model m.json gpt2@b{BATCH} {arguments}"));
    let mut lines = said.out.lines().skip(1);
    let mut line: Vec<&str> = Vec::new();
    let mut last = 0;
    for row in &printed {
        if row.devices > last {
            line = lines.next().expect("there is a line for each number").split_whitespace().collect();
            let (first, end) = line[0].split_once("..").unwrap_or((line[0], line[0]));
            assert_eq!(first, row.devices.to_string());
            last = end.parse().expect("a number");
        }
        assert_eq!(line[1], row.plan.expect("it fits").to_string());
        assert!(line.contains(&row.curve_plan.expect("it fits").to_string().as_str()));
        assert!(line.contains(&format!("{:.2}", row.samples_per_s.expect("it fits")).as_str()), "{line:?}");
    }
    assert_eq!((lines.next(), last), (None, 8));
}

#[test]
fn if_nothing_fits_the_message_says_what_would() {
    let door = door();
    let plan = format!("plan --model m.json gpt2@b{BATCH} --devices 1..2");
    let said = door.exits(4, &format!("{plan} --memory 1500MiB"));
    assert!(
        said.err.contains("no plan of gpt2@b16 fits on up to 2 devices with 1.46 GiB each; "),
        "{}",
        said.err
    );
    let enough = said.err.split_whitespace().find(|word| word.ends_with("MiB") && !word.contains("1500"));
    let enough = enough.expect("it names the memory").to_owned();
    let rows = rows_of(&door, &format!("--devices 2 --memory {enough}"));
    assert!(rows[0].memory_bytes_ci_hi.expect("it fits") as f64 > 1500.0 * 1_048_576.0, "{rows:?}");
    // Where some numbers of devices are too few, their rows are empty.
    let rows = rows_of(&door, &format!("--devices 1..2 --memory {enough}"));
    assert!(rows[1].plan.is_some(), "{rows:?}");
    for (arguments, message) in [
        ("gpt2@b16@dp2 --devices 2", "write NAME[@bN]"),
        ("gpt2 --devices 4..2", "write 1..8"),
        ("gpt --devices 2", "there is no workload 'gpt'"),
    ] {
        let said = door.exits(2, &format!("plan --model m.json {arguments}"));
        assert!(said.err.contains(message), "{}", said.err);
    }
    let said = door.exits(4, "plan --model m.json lstm --devices 2");
    assert!(said.err.contains("m.json has no 'lstm'; it has gpt2"), "{}", said.err);
}

#[test]
fn plans_in_bf16_need_a_row_in_bf16() {
    let door = crate::door();
    let mut file = MODEL.clone();
    let is_bf16 = |rows: &[BestPlan]| {
        rows.iter().any(|row| row.plan.is_some_and(|plan| plan.precision == Precision::Bf16))
    };
    file.workloads[0].rows.retain(|row| row.plan.precision == Precision::Fp32);
    file.write(&door.path("m.json")).expect("the folder is writable");
    assert!(!is_bf16(&rows_of(&door, "--devices 1..8")));
    assert!(is_bf16(&rows_of(&self::door(), "--devices 1..8")), "it is faster");
}

/// The record of all plans of one and two ranks of six workloads, and of four ranks of two of them.
#[test]
fn memory_is_predicted_of_plans_and_numbers_of_ranks_that_were_left_out() {
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("../reports/record/20261124-epyc-avx512");
    let read = |run: &str| {
        let inputs = Inputs {
            runs: &[record.join(run)],
            tables: &[],
            workload: None,
            device_type: None,
            catalog: &CATALOG,
        };
        measured::read(&inputs).expect("the record can be read").workloads
    };
    let four = read("four-ranks");
    let (mut means, mut of_four) = (Vec::new(), Vec::new());
    for of in read("two-ranks") {
        let workload = CATALOG.get(&of.workload).expect("the catalog has it");
        let mut fitted = FittedWorkload {
            workload: of.workload.clone(),
            facts: of.facts,
            rows: of.rows,
            launches_differ: None,
            fits: Vec::new(),
            held_out: Vec::new(),
            memory: None,
        };
        fitted.memory = rank_memory::fit(CatalogEntry::Workload(workload), &fitted, DeviceMemory::Host);
        let errors = &fitted.memory.as_ref().expect("peaks were measured").leave_one_out[0];
        assert!(errors.rows >= 68 && errors.p95_percent <= 15.0, "{}: {errors:?}", of.workload);
        assert!(errors.covered_percent.is_none(), "{}: {errors:?}", of.workload);
        means.push(errors.mean_percent);
        let memory = RankMemory::new(CatalogEntry::Workload(workload), &fitted, DeviceMemory::Host);
        for row in four.iter().filter(|four| four.workload == of.workload).flat_map(|four| &four.rows) {
            let peak = memory.peak(&row.plan, row.global_batch).expect("it is fitted");
            assert_eq!(peak.source, MemorySource::Fitted, "{}", row.plan);
            let measured = row.peak_memory_bytes.expect("it was measured") as f64;
            of_four.push(100.0 * (peak.bytes as f64 / measured - 1.0).abs());
        }
    }
    assert!(means.iter().all(|mean| *mean <= 5.0), "{means:?}");
    let mean = of_four.iter().sum::<f64>() / of_four.len() as f64;
    assert!(of_four.len() >= 100 && mean < 7.0, "{mean} % of {}", of_four.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    /// Whatever the memory and the coefficients, plans fit by the upper end of their intervals, and no plan that fits is faster.
    #[test]
    fn what_does_not_fit_is_never_returned(
        name in prop::sample::select(vec!["gpt2", "gpt2-mini", "bert-base", "llama2-7b", "resnet50", "lstm"]),
        batch in prop::sample::select(vec![6u32, 8, 32]),
        gibibytes in 0.01..100.0f64,
        factors in prop::collection::vec(0.3..3.0f64, 12),
        rank_by in prop::sample::select(RankBy::ALL),
        top in 1usize..4,
        has_fit in any::<bool>(),
        is_on_cores in any::<bool>(),
    ) {
        let workload = CATALOG.get(name).expect("the catalog has it");
        let mut file = MODEL.clone();
        file.is_on_cores = is_on_cores;
        let fitted = &mut file.workloads[0];
        fitted.workload = name.into();
        fitted.facts.parameters = workload.parameters;
        if let Some(memory) = &mut fitted.memory {
            memory.parameters.iter_mut().zip(factors).for_each(|(parameter, factor)| parameter.value *= factor);
        }
        if !has_fit {
            fitted.memory = None;
        }
        let model = FittedModel::new(&file).expect("of this version");
        let fitted = &file.workloads[0];
        let mut search = Search::new(&model, &file, fitted, CatalogEntry::Workload(workload), batch);
        let capacity = (gibibytes * 1.073_741_824e9) as u64;
        (search.capacity, search.per_node) = (Some(capacity), Some(4));
        (search.rank_by, search.top) = (rank_by, top);
        let Ok(rows) = search.rows(1, 8, &[Some(12)]) else {
            search.plans(8).iter().for_each(|plan| assert_eq!(search.choice(plan, Some(12)), None, "{plan}"));
            return Ok(());
        };
        for rows in rows.chunk_by(|row, next| row.devices == next.devices) {
            let mut choices: Vec<Choice> = search
                .plans(rows[0].devices)
                .into_iter()
                .filter_map(|plan| search.choice(&plan, Some(12)))
                .collect();
            choices.sort_by(|a, b| a.score_s.total_cmp(&b.score_s));
            prop_assert_eq!(rows.len(), choices.len().clamp(1, top));
            for (row, best) in rows.iter().zip(&choices) {
                let score_s = search.choice(&row.plan.expect("one fits"), Some(12)).expect("it fits").score_s;
                prop_assert_eq!(score_s, best.score_s);
            }
            prop_assert_eq!(choices.is_empty(), rows[0].plan.is_none());
        }
        for row in rows {
            prop_assert!(row.memory_bytes_ci_hi.is_none_or(|bytes| bytes <= capacity));
            prop_assert!(row.memory_bytes <= row.memory_bytes_ci_hi);
            prop_assert_eq!(row.plan.is_some(), row.memory_bytes.is_some());
        }
    }
}

/// By default, by the mean of a normal distribution of the logarithm with this interval.
#[test]
fn plans_are_compared_by_median_mean_or_upper_end() {
    let door = crate::door();
    door.write("bert.csv", &format!("{RUBICK}ga,1,0.66\nga,2,0.36\nzero-dp,2,0.4\ngc,1,0.87\n"));
    door.exits(0, "fit --csv bert.csv --out m.json");
    let plan = |arguments: &str| -> Vec<BestPlan> {
        let said =
            door.exits(0, &format!("plan --model m.json bert-large@b32 --devices 4 --json {arguments}"));
        rows::from_json(&said.out).expect("it prints rows")
    };
    let interval =
        |row: &BestPlan| [row.step_ns_ci_lo, row.step_ns, row.step_ns_ci_hi].map(|ns| ns.unwrap() as f64);
    let score = |rank: &str, row: &BestPlan| {
        let [lo, median, hi] = interval(row);
        let deviation = (hi / lo).ln() / (2.0 * 1.96);
        match rank {
            "median" => median,
            "mean" => median * (deviation.powi(2) / 2.0).exp(),
            _ => hi,
        }
    };
    let all = ["median", "mean", "upper"].map(|rank| plan(&format!("--top 1000 --rank {rank}")));
    for (rank, rows) in ["median", "mean", "upper"].into_iter().zip(&all) {
        let orders: Vec<u32> = rows.iter().map(|row| row.order).collect();
        assert_eq!(orders, (1..=all[0].len() as u32).collect::<Vec<_>>());
        let is_sorted = rows.is_sorted_by(|a, b| score(rank, a) <= score(rank, b) * (1.0 + 1e-6));
        assert!(is_sorted, "{rank}: {rows:?}");
        assert_eq!(plan(&format!("--rank {rank} --top 5")), rows[..5], "{rank}");
    }
    let plans = all.each_ref().map(|rows| rows.iter().map(|row| row.plan).collect::<Vec<_>>());
    assert!(plans[0] != plans[1] && plans[1] != plans[2], "{plans:?}");
    assert_eq!(plan("--top 1000"), all[1]);
    // Beside a plan that was not measured is the best of those that were.
    assert_eq!(
        (all[1][0].measured_plan, all[1][0].measured_step_ns),
        ("dp2".parse().ok(), Some(360_000_000))
    );
    let said = door.exits(0, "plan --model m.json bert-large@b32 --devices 4 --top 3");
    assert!(said.out.contains("best measured") && said.out.contains("dp2, 360 ms"), "{}", said.out);
    let orders: Vec<&str> =
        said.out.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
    assert_eq!(orders, ["1", "2", "3"], "{}", said.out);
    let said = door.exits(0, "plan --model m.json bert-large@b32 --devices 1 --rank upper --json");
    let rows: Vec<BestPlan> = rows::from_json(&said.out).expect("it prints rows");
    assert_eq!(rows[0].measured_plan.is_some(), rows[0].formula.is_some(), "{rows:?}");
    let said = door.exits(2, "plan --model m.json bert-large@b32 --devices 1 --rank best");
    assert!(said.err.contains("'best' is not one of: median, mean, upper"), "{}", said.err);
}

/// The plan of the first start of a run.
pub(crate) fn first_plan(door: &Door, run: &str) -> Option<Plan> {
    let run = RunDir::open(&door.path(run)).expect("it is a run");
    let turns = decision::read(&run.decisions_path()).expect("it has decisions");
    turns.iter().flat_map(|turn| &turn.actions).find_map(|action| match action {
        Action::Start { plan, .. } => *plan,
        _ => None,
    })
}

/// The smallest memory needs another plan than the largest. The plan that a job asks for is taken to fit.
#[test]
fn a_simulated_job_gets_the_plan_that_fits_on_the_devices_of_its_cluster() {
    let door = door();
    let best = |memory: &str| {
        let rows = rows_of(&door, &format!("--devices 4 --memory {memory}"));
        rows[0].curve_plan.expect("a plan fits")
    };
    let (smallest, largest) = (best("3GiB"), best("80GiB"));
    assert_ne!(smallest, largest);
    for (asked, memory, expected) in [
        (smallest, "80GiB", largest),
        (smallest, "5GiB", best("5GiB")),
        (smallest, "4GiB", best("4GiB")),
        (smallest, "3GiB", smallest),
        (largest, "3GiB", largest),
    ] {
        let job = format!("gpt2@b{BATCH}@{asked}");
        door.write(
            "trace.csv",
            &format!("name,submit_s,job,steps,elastic,class\na,0,{job},50,true,best-effort\n"),
        );
        let cluster = format!(
            "[[nodes]]\ncount = 1\ndevices = 4\ndevice_type = \"H100\"\ndevice_memory = \"{memory}\"\n"
        );
        door.write("cluster.toml", &cluster);
        let out = format!("runs/{asked}-{memory}");
        door.exits(
            0,
            &format!("sim trace.csv --policy rubick --cluster cluster.toml --truth m.json --model m.json --switch-cost 1s --out {out}"),
        );
        assert_eq!(first_plan(&door, &out), Some(expected), "{asked} {memory}");
    }
}

/// Peaks of a program that keeps parameters, gradients and optimizer state in bf16 as well.
#[test]
fn memory_in_bf16_follows_measured_peaks() {
    let mut fitted = MODEL.workloads[0].clone();
    let mut coefficients = planted::COEFFICIENTS;
    coefficients[12] = 0.5;
    let parameters = fitted.facts.parameters.expect("known");
    let planted = |plan: &Plan| {
        let per_parameter = workload().optimizer.state_per_parameter();
        let states_bytes = states_bytes(parameters, per_parameter, plan, DeviceMemory::Own, Numbers::Fp32);
        let setting = MemorySetting { parameters, states_bytes, global_batch: BATCH, plan: *plan };
        model::memory::peak(&coefficients, &setting)
    };
    for row in &mut fitted.rows {
        row.peak_memory_bytes = Some(planted(&row.plan).round() as u64);
    }
    fitted.memory = rank_memory::fit(CatalogEntry::Workload(workload()), &fitted, DeviceMemory::Own);
    let memory = RankMemory::new(CatalogEntry::Workload(workload()), &fitted, DeviceMemory::Own);
    let mut plans = all_plans(4);
    plans.retain(|plan| plan.precision == Precision::Bf16 && fitted.rows.iter().all(|row| row.plan != *plan));
    assert!(plans.len() > 50, "{}", plans.len());
    for plan in &plans {
        let bytes = memory.peak(plan, BATCH).expect("its size is known").bytes - CUDA_CONTEXT_BYTES;
        assert!((bytes as f64 / planted(plan) - 1.0).abs() < 0.05, "{plan}: {bytes} and {}", planted(plan));
    }

    // In a model that was written without this parameter, it is 1.
    let mut older = MODEL.workloads[0].memory.clone().expect("peaks were measured");
    older.parameters.pop();
    older.covariance.pop();
    older.covariance.iter_mut().for_each(|row| {
        row.pop();
    });
    let mut expected = MODEL.workloads[0].memory.clone().expect("peaks were measured");
    expected.parameters[12].value = 1.0;
    let [older, expected] = [older, expected].map(|file| MemoryModel::of_file(&file).expect("it is known"));
    for plan in &plans {
        let states_bytes = states_bytes(
            parameters,
            workload().optimizer.state_per_parameter(),
            plan,
            DeviceMemory::Own,
            Numbers::Fp32,
        );
        let setting = MemorySetting { parameters, states_bytes, global_batch: BATCH, plan: *plan };
        assert_eq!(older.predict(&setting).0, expected.predict(&setting).0, "{plan}");
    }
}
