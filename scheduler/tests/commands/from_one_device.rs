//! Models of rows of one device and of what is known of the links, asked for plans of more devices.

use std::{fs, path::Path};

use formats::{
    fitted::{BasisWord, FittedRow, FormulaName, PredictedStep},
    import::{Source, times},
};
use front_door::Door;
use model::{Fit, Observation, Parts, Placement, Setting, formula, observation};
use record::{facts::Facts, rows};
use schema::plan::Plan;

use crate::fit::published;

const FACTS: Facts = Facts {
    parameters: Some(1_000_000_000),
    layers: Some(24),
    sequence: Some(1024),
    hidden: Some(2048),
    state_per_parameter: None,
};

/// What `profile calibrate` says of two GPUs whose all-reduces have this bus bandwidth.
fn machine(bus_bytes_per_s: u64) -> String {
    let golden = include_str!("../../../profiler/record/golden/machine.toml");
    let (before, rest) = golden.split_once("[[all_reduce]]").expect("it has one");
    let (_, after) = rest.split_once("[[restart]]").expect("it has one");
    let bytes = 1_u64 << 30;
    let time_ns = (bytes as f64 / bus_bytes_per_s as f64 * 1e9) as u64;
    let row = |bytes: u64, time_ns: u64, rate: u64| {
        format!(
            "[[all_reduce]]\ndevices = [\"cuda:0\", \"cuda:1\"]\ncollectives = \"nccl\"\nbytes = {bytes}\n\
             time_ns = [{time_ns}, {time_ns}, {time_ns}]\nalgorithm_bytes_per_s = [{rate}, {rate}, {rate}]\n\
             bus_bytes_per_s = [{rate}, {rate}, {rate}]\nrepeats = 5\n\n"
        )
    };
    let small = row(1024, 20_000, 51_200_000);
    let text = format!("{before}{small}{}[[restart]]{after}", row(bytes, time_ns, bus_bytes_per_s));
    text.replace("pool = [\"cpu:0\", \"cpu:1\"]", "pool = [\"cuda:0\", \"cuda:1\"]")
}

/// The time of a step of GPUs that are joined by links of 150 GB/s, with parts that a fit has to find.
fn planted_s(global_batch: u32, plan: Plan) -> f64 {
    let devices = plan.ranks();
    let placement = Placement::of(&[devices]);
    let setting = Setting { facts: FACTS, global_batch, plan, placement, cpus: None, ranks_per_device: 1 };
    let mut values =
        Fit::of_priors(FormulaName::Tandem, &Parts::GPUS, &[Observation::new(setting, 1.0)]).values();
    for (name, value) in [
        ("t1", 0.02),
        ("a", 0.03),
        ("rho", 0.9),
        ("md", 1.1),
        ("b_intra", 150.0),
        ("kk", 0.4),
        ("k_opt", 0.05),
        ("tl", 3e-5),
        ("pp", 0.003),
    ] {
        let parameters = formula::parameters(FormulaName::Tandem);
        values[parameters.iter().position(|known| known.name == name).expect("it is one")] = value;
    }
    formula::step(FormulaName::Tandem, &values, &setting).total
}

fn predicted(door: &Door, model: &str, job: &str, devices: &str) -> PredictedStep {
    let said = door.exits(0, &format!("predict --model {model} {job} --devices {devices} --json"));
    rows::from_json(&said.out).expect("a prediction")
}

fn contains(row: &PredictedStep, step_s: f64) -> bool {
    (row.step_ns_ci_lo as f64..=row.step_ns_ci_hi as f64).contains(&(step_s * 1e9))
}

#[test]
fn one_device_and_measured_links_predict_plans_of_more() {
    let door = crate::door();
    let mut table = "job,devices,step_s,parameters,layers,sequence,hidden\n".to_owned();
    for batch in [8, 16, 32] {
        for plan in ["dp1", "ga2", "ga4", "gc", "ga2-gc"] {
            let step_s = planted_s(batch, plan.parse().expect("canonical"));
            table.push_str(&format!("mine@b{batch}@{plan},1,{step_s},1000000000,24,1024,2048\n"));
        }
    }
    door.write("one.csv", &table);
    door.write("machine.toml", &machine(150_000_000_000));
    door.exits(0, "fit --csv one.csv --device-type G --machine machine.toml --out known.json");
    door.exits(0, "fit --csv one.csv --device-type G --out unknown.json");
    for plan in ["dp2", "dp4", "dp8", "dp4-zero2", "tp2", "tp4", "pp2-ga4", "dp2-tp2", "dp2-tp2-pp2-ga4"] {
        let (job, plan) = (format!("mine@b32@{plan}"), plan.parse::<Plan>().expect("canonical"));
        let truth_s = planted_s(32, plan);
        let row = predicted(&door, "known.json", &job, &plan.ranks().to_string());
        assert_eq!(row.basis, BasisWord::Extrapolated, "{row:?}");
        let error = row.step_ns as f64 / 1e9 / truth_s - 1.0;
        println!("{job}: {:+.1} %", 100.0 * error);
        assert!(contains(&row, truth_s), "{truth_s}: {row:?}");
        assert!(error.abs() < 0.15, "{truth_s}: {row:?}");
        let without = predicted(&door, "unknown.json", &job, &plan.ranks().to_string());
        let width = |row: &PredictedStep| row.step_ns_ci_hi as f64 / row.step_ns_ci_lo as f64;
        if plan.dp > 1 || plan.tp > 1 {
            assert!(width(&row) < width(&without), "{row:?} {without:?}");
        }
    }
}

/// The iteration times of a model on one GPU, as a table, and all others.
fn split(door: &Door, name: &str, global_batch: u32) -> Option<Vec<FittedRow>> {
    let text = fs::read_to_string(published(&format!("rubick-a800/iterations/{name}.csv"))?).expect("text");
    let header = text.lines().next().expect("a header");
    let column = header.split(',').position(|column| column == "placement").expect("placements");
    let own = text.lines().filter(|line| *line == header || line.split(',').nth(column) == Some("1"));
    door.write(&format!("{name}.csv"), &own.map(|line| format!("{line}\n")).collect::<String>());
    let source = Source { file: Path::new(name), text: text.as_bytes() };
    let rows = times::rubick(source, global_batch).expect("a table of Rubick").rows;
    Some(rows.into_iter().filter(|row| row.placement != [1]).collect())
}

/// Three published rows of one A800 and what is assumed of its links. Those of LLaMA have fewer than the three that a fit needs.
#[test]
fn intervals_of_published_rows_of_more_devices_cover_them() {
    let door = crate::door();
    for (name, workload, batch, most_on_one_node) in
        [("bert", "bert-large", 32, 6.0), ("t5", "t5-1b", 16, 10.0)]
    {
        let Some(others) = split(&door, name, batch) else { return };
        let said = door.exits(0, &format!("fit --csv {name}.csv --out {name}.json"));
        assert!(said.out.contains(workload), "{}", said.out);
        let (mut covered, mut asked, mut errors) = (0, 0, Vec::new());
        for (number, row) in others.iter().enumerate() {
            let is_on_one_node = row.placement.len() == 1;
            let is_described =
                formula::applies(FormulaName::Tandem, &observation(FACTS, row).setting).is_ok();
            if !is_described || (!is_on_one_node && number % 4 != 0) {
                continue;
            }
            let devices: Vec<String> = row.placement.iter().map(u32::to_string).collect();
            let job = format!("{workload}@b{batch}@{}", row.plan);
            let answer = predicted(&door, &format!("{name}.json"), &job, &devices.join("+"));
            let step_s = row.step_ns as f64 / 1e9;
            assert_eq!(answer.basis, BasisWord::Extrapolated, "{answer:?}");
            asked += 1;
            covered += usize::from(contains(&answer, step_s));
            if is_on_one_node {
                errors.push(100.0 * (answer.step_ns as f64 / row.step_ns as f64 - 1.0).abs());
            }
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        println!("{name}: {covered} of {asked} covered, {mean:.1} % on one node");
        assert!(asked >= 20 && covered as f64 >= 0.85 * asked as f64, "{name}: {covered} of {asked}");
        assert!(mean < most_on_one_node, "{name}: {mean}");
    }
    let Some(_) = split(&door, "llama7", 8) else { return };
    let said = door.exits(2, "fit --csv llama7.csv --out llama7.json");
    assert!(said.err.contains("1 configuration, and a fit needs 3 or more"), "{}", said.err);
}
