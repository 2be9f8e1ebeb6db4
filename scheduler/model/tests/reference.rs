//! Errors on published step times, on rows that no fit has seen.
//!
//! Skipped, saying so, where `shared/reference` is not beside the project.

mod support;

use std::{collections::BTreeSet, path::Path};

use formats::{
    fitted::{FittedRow, FormulaName},
    import::{Source, times},
};
use model::{
    Basis, Fit, Observation, Options, Parts, Placement, Setting, fit, fit_workload, formula,
    held_out::{self, LeftOut},
    observation, suggest,
};
use record::facts::Facts;
use schema::plan::Plan;

use support::model_of;

fn text(name: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference").join(name);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        schema::skips::skipped("published-traces", format_args!("there is no {}", path.display()));
    }
    text
}

/// A published row under the name that its authors give it, as `zero-dp@44`.
type Named = (String, Observation);

fn a800_rows(name: &str, global_batch: u32) -> Option<Vec<FittedRow>> {
    let text = text(&format!("rubick-a800/iterations/{name}.csv"))?;
    let source = Source { file: Path::new(name), text: text.as_bytes() };
    Some(times::rubick(source, global_batch).expect("a table of Rubick").rows)
}

/// The iteration times of a model on A800 GPUs.
fn a800(name: &str, facts: Facts, global_batch: u32) -> Option<Vec<Named>> {
    let rows = a800_rows(name, global_batch)?;
    let named = |row: &FittedRow| (name_of(row), observation(facts, row));
    Some(rows.iter().map(named).collect())
}

fn name_of(FittedRow { plan, placement, .. }: &FittedRow) -> String {
    let placement: String = placement.iter().map(u32::to_string).collect();
    let of_plan = match plan {
        Plan { tp: 2.., .. } | Plan { pp: 2.., .. } => format!("{}{}{}", plan.pp, plan.tp, plan.dp),
        Plan { offload: true, .. } => "zero-offload".into(),
        Plan { zero: 2, .. } => "zero-dp".into(),
        Plan { gc: true, .. } => "gc".into(),
        _ => "ga".into(),
    };
    format!("{of_plan}@{placement}")
}

const fn facts(parameters: u64, layers: u32, sequence: Option<u32>, hidden: u32) -> Facts {
    Facts {
        parameters: Some(parameters),
        layers: Some(layers),
        sequence,
        hidden: Some(hidden),
        state_per_parameter: None,
    }
}

const BERT: Facts = facts(336_297_858, 24, Some(512), 1024);
const T5: Facts = facts(1_240_809_472, 16, Some(768), 1280);
const VIT: Facts = facts(85_952_456, 12, None, 768);
const LLAMA7: Facts = facts(6_738_423_808, 32, Some(2048), 4096);

/// The rows that a test is about, cut into those of these names and the others, which are predicted.
fn left_out(
    formula: FormulaName,
    rows: &[Named],
    of_fit: &[&str],
    is_of_test: impl Fn(&Setting) -> bool,
) -> Vec<LeftOut> {
    let is_of_fit = |(name, _): &&Named| of_fit.contains(&name.as_str());
    let (own, others): (Vec<&Named>, Vec<&Named>) = rows.iter().partition(is_of_fit);
    let found: BTreeSet<&str> = own.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(found, of_fit.iter().copied().collect(), "the rows to fit to");
    let own: Vec<Observation> = own.iter().map(|(_, row)| *row).collect();
    let fitted = fit(formula, &own, &Options::new(Parts::A800, 1)).expect("it has rows");
    let others = others.into_iter().map(|(_, row)| *row).filter(|row| is_of_test(&row.setting));
    held_out::predict(&fitted, &others.collect::<Vec<_>>())
}

/// Mean and largest error in percent.
fn mean_and_most(left_out: &[LeftOut]) -> (f64, f64) {
    let errors = left_out.iter().map(|row| 100.0 * (row.predicted_s / row.measured_s - 1.0).abs());
    let (sum, most) =
        errors.fold((0.0, 0.0), |(sum, most): (f64, f64), error| (sum + error, most.max(error)));
    (sum / left_out.len() as f64, most)
}

fn is_3d(setting: &Setting) -> bool {
    setting.plan.tp > 1 || setting.plan.pp > 1
}

const ONE_NODE: [&str; 7] =
    ["ga@1", "gc@1", "gc@8", "zero-dp@2", "zero-dp@8", "zero-offload@1", "zero-offload@8"];
const SEVERAL_NODES: [&str; 5] = ["ga@2222", "ga@44", "zero-dp@53", "zero-offload@2222", "ga@22211"];

/// The lists of rows were chosen by the study that the formula is from, before any of the others was predicted.
#[test]
fn few_rows_predict_the_others_under_data_parallelism() {
    let twelve: Vec<&str> = ONE_NODE.into_iter().chain(SEVERAL_NODES).collect();
    for (name, facts, batch, most_of_seven, most_of_twelve) in
        [("bert", BERT, 32, 2.5, 6.5), ("t5", T5, 16, 4.5, 6.0), ("vit", VIT, 64, 7.0, 15.0)]
    {
        let Some(rows) = a800(name, facts, batch) else { return };
        let on_one = |setting: &Setting| !is_3d(setting) && setting.placement.nodes == 1;
        let (mean, most) = mean_and_most(&left_out(FormulaName::Tandem, &rows, &ONE_NODE, on_one));
        println!("{name}, one node, from 7 rows: {mean:.2} %, at most {most:.1} %");
        assert!(mean < most_of_seven, "{name}: {mean}");
        let (mean, most) = mean_and_most(&left_out(FormulaName::Tandem, &rows, &twelve, |of| !is_3d(of)));
        println!("{name}, several nodes, from 12 rows: {mean:.2} %, at most {most:.1} %");
        assert!(mean < most_of_twelve, "{name}: {mean}");
    }
}

/// Whether the tensor-parallel ranks of each replica are on one node.
fn is_inside_nodes(setting: &Setting) -> bool {
    is_3d(setting) && setting.placement.fewest.is_multiple_of(u32::from(setting.plan.tp))
}

/// The rows to fit to are designed from the priors, with a compute time of 8 P s operations a sample at 100 TFLOP/s.
#[test]
fn six_designed_rows_predict_the_other_3d_plans() {
    for (name, facts, batch, most_mean, most) in
        [("t5", T5, 16, 3.0, f64::MAX), ("llama7", LLAMA7, 8, 2.0, 6.0)]
    {
        let Some(rows) = a800(name, facts, batch) else { return };
        let rows: Vec<Named> = rows.into_iter().filter(|(_, row)| is_inside_nodes(&row.setting)).collect();
        let operations = 8.0 * facts.parameters.unwrap() as f64 * f64::from(facts.sequence.unwrap());
        let one = Setting {
            facts,
            global_batch: 1,
            plan: Plan::default(),
            placement: Placement::of(&[1]),
            cpus: None,
            ranks_per_device: 1,
        };
        // The prior of compute is 0.6 of the time of a sample on a device.
        let guess = Observation::new(one, operations / 1e14 / 0.6);
        let known = Fit::of_priors(FormulaName::Tandem, &Parts::A800, &[guess]);
        let settings: Vec<Setting> = rows.iter().map(|(_, row)| row.setting).collect();
        let chosen = suggest::design(&known, &settings, 6);
        let names: Vec<&str> = chosen.iter().map(|index| rows[*index].0.as_str()).collect();
        let (mean, largest) = mean_and_most(&left_out(FormulaName::Tandem, &rows, &names, |_| true));
        println!("{name}, 3d, from {names:?}: {mean:.2} %, at most {largest:.1} %");
        assert!(mean < most_mean && largest < most, "{name}: {mean} {largest}");
    }
}

/// From the seven rows of the released code. Its authors' form has about 15 % on BERT and 11 % on T5 with another solver, which other
/// starts of that solver do not reach again; an independent program has 6.5 to 15.9 % by what is minimised.
#[test]
fn rubick_predicts_from_the_rows_of_its_authors() {
    let seven =
        ["ga@2", "ga@4", "ga@8", "zero-offload@1", "zero-offload@2", "zero-offload@4", "zero-offload@8"];
    for (name, facts, batch, bounds) in [("bert", BERT, 32, 5.0..16.0), ("t5", T5, 16, 2.0..16.0)] {
        let Some(rows) = a800(name, facts, batch) else { return };
        let on_one = |setting: &Setting| !is_3d(setting) && setting.placement.nodes == 1;
        let (mean, most) = mean_and_most(&left_out(FormulaName::Rubick, &rows, &seven, on_one));
        println!("{name}, Rubick's formula, from 7 rows: {mean:.2} %, at most {most:.1} %");
        assert!(bounds.contains(&mean), "{name}: {mean}");
    }
}

fn t4_rows(name: &str) -> Option<Vec<FittedRow>> {
    let text = text(&format!("pollux-t4/{name}.csv"))?;
    let source = Source { file: Path::new(name), text: text.as_bytes() };
    Some(times::pollux(source).expect("a table of Pollux").rows)
}

/// Step times on T4 GPUs by placement and batch.
fn t4(name: &str) -> Option<Vec<Observation>> {
    let rows = t4_rows(name)?;
    Some(rows.iter().map(|row| observation(Facts::default(), row)).collect())
}

#[test]
fn half_of_the_batches_and_placements_predict_the_others() {
    for (name, most_mean) in [("cifar10", 5.8), ("bert", 4.0), ("deepspeech2", 4.8)] {
        let Some(rows) = t4(name) else { return };
        let options = Options::new(Parts::A800, 1);
        let of = |formula| held_out::held_out(formula, &rows, 0.5, &options).expect("there are enough");
        let left_out = of(FormulaName::TandemBatches);
        let (mean, most) = mean_and_most(&left_out);
        let errors = &held_out::errors(&left_out)[0];
        let covered = errors.covered_percent.expect("their intervals are of other rows");
        println!("{name}: {mean:.2} %, at most {most:.1} %, covered {covered:.1} %");
        assert!(mean < most_mean, "{name}: {mean}");
        assert!((errors.mean_percent / mean - 1.0).abs() < 1e-9);
        assert!((90.0..=99.0).contains(&covered), "{name}: {covered}");
        let (of_pollux, _) = mean_and_most(&of(FormulaName::Pollux));
        println!("{name}, Pollux's formula: {of_pollux:.2} %");
        assert!((mean..8.0).contains(&of_pollux), "{name}: {of_pollux}");
    }
}

/// The published parameters, in their units, through the released equations, give what the formula gives at the same parameters.
#[test]
fn published_parameters_of_rubick_predict_as_the_released_code_does() {
    let Some(published) = text("rubick-a800/published-parameters.csv") else { return };
    for (name, facts, batch, intra) in [("bert", BERT, 32, 119.49), ("t5", T5, 16, 120.0)] {
        let Some(rows) = a800(name, facts, batch) else { return };
        let line = published.lines().find(|line| line.starts_with(&format!("{name},"))).expect("published");
        let k: Vec<f64> = line.split(',').skip(1).map(|value| value.parse().expect("a number")).collect();
        let [k_bwd, k_sync, k_opt, k_opt_off, k_const, k_off, k_swap] = k[..] else { panic!("seven") };
        let one = rows.iter().find(|(_, row)| row.setting.placement.devices == 1 && row.forward_s.is_some());
        let forward_of_sample = one.expect("a row of one device").1.forward_s.unwrap() / f64::from(batch);
        let (pcie, cores) = (64.0, 4.0);
        let (of_update, of_bandwidth) = (1e-3 * 1e9 / f64::from(1 << 20), f64::from(1 << 20) / 1e6);
        let values = [
            k_bwd - 1.0,
            k_sync - 1.0,
            k_opt * of_update,
            k_opt_off * of_update,
            k_const / 1e3,
            k_off / 1e3,
            k_swap / 1e3,
            forward_of_sample,
            intra * of_bandwidth,
            1.0,
            pcie * of_bandwidth,
        ];
        let mut errors = Vec::new();
        for (name, row) in
            rows.iter().filter(|(_, row)| row.setting.placement.nodes == 1 && !is_3d(&row.setting))
        {
            let plan = &row.setting.plan;
            let devices = f64::from(plan.dp);
            // Milliseconds, parameters in 2^20, GB/s as MB/ms.
            let parameters = facts.parameters.unwrap() as f64 / f64::from(1 << 20);
            let forward = 1e3 * forward_of_sample * f64::from(batch) / devices;
            let backward = k_bwd * forward;
            let reduce = 2.0 * 4.0 * parameters * (devices - 1.0) / devices / intra;
            let overlapped = (backward.powf(k_sync) + reduce.powf(k_sync)).powf(1.0 / k_sync);
            let copied = 4.0 * parameters / devices / pcie;
            let (exposed, update) = if plan.offload {
                (k_off + copied, k_opt_off * parameters / (devices * cores) + k_swap + copied)
            } else if plan.zero > 0 {
                (0.0, k_opt * parameters / devices)
            } else {
                (0.0, k_opt * parameters)
            };
            let passes = if plan.gc { 2.0 } else { 1.0 };
            let expected = passes * forward + overlapped + exposed + update + k_const;
            let found = formula::step(FormulaName::Rubick, &values, &row.setting).total;
            assert!((found * 1e3 / expected - 1.0).abs() < 1e-9, "{name}: {found} s, {expected} ms");
            errors.push(100.0 * (found / row.step_s - 1.0).abs());
        }
        let mean = errors.iter().sum::<f64>() / errors.len() as f64;
        println!("{name}, published parameters: {mean:.1} % over {} rows of one node", errors.len());
        assert!(mean < 25.0, "{name}: {mean}");
    }
}

/// The ten rows of the study: the placements, and which of their batches.
#[test]
fn ten_rows_predict_the_other_batches_and_placements() {
    let ten: [(&[u32], f64); 10] = [
        (&[1], 0.0),
        (&[1], 0.25),
        (&[1], 0.5),
        (&[1], 1.0),
        (&[4], 0.5),
        (&[2, 1], 0.0),
        (&[4, 4], 0.5),
        (&[1, 1, 1, 1], 0.0),
        (&[4, 4, 4, 4], 0.0),
        (&[4, 3, 2], 0.5),
    ];
    for (name, most_mean) in [("cifar10", 7.5), ("bert", 4.5), ("deepspeech2", 6.5)] {
        let Some(rows) = t4(name) else { return };
        let mut own: Vec<Observation> = Vec::new();
        for (placement, quantile) in ten {
            let mut of: Vec<Observation> = rows
                .iter()
                .filter(|row| row.setting.placement == Placement::of(placement))
                .copied()
                .collect();
            of.sort_by_key(|row| row.setting.global_batch);
            own.push(of[((of.len() - 1) as f64 * quantile).round() as usize]);
        }
        let fitted = fit(FormulaName::TandemBatches, &own, &Options::new(Parts::A800, 1)).expect("ten rows");
        let others: Vec<Observation> =
            rows.iter().filter(|row| own.iter().all(|own| own.setting != row.setting)).copied().collect();
        let (mean, most) = mean_and_most(&held_out::predict(&fitted, &others));
        println!("{name}, from 10 rows: {mean:.2} %, at most {most:.1} %");
        assert!(mean < most_mean, "{name}: {mean}");
    }
}

/// Of the rows that are predicted from others, which a rule tells apart, 85 % or more lie in their intervals, and all are extrapolated.
fn covered_outside(
    rule: &str,
    (name, facts, rows): (&str, Facts, Vec<FittedRow>),
    is_of_fit: impl Fn(&FittedRow) -> bool,
) {
    let (own, others): (Vec<FittedRow>, Vec<FittedRow>) = rows.into_iter().partition(is_of_fit);
    let fitted = fit_workload(name, facts, own, 0.5, &Options::new(Parts::A800, 1)).expect("it has rows");
    let model = model_of(fitted);
    let mut covered = 0;
    for row in &others {
        let row = observation(facts, row);
        let answer = model.answer(name, &row.setting).expect("it is described");
        assert!(matches!(answer.basis, Basis::Formula { is_extrapolated: true, .. }), "{answer:?}");
        covered += usize::from((answer.interval_s.0..=answer.interval_s.1).contains(&row.step_s));
    }
    println!("{name}, {rule}: {covered} of {} rows are covered", others.len());
    assert!(covered as f64 >= 0.85 * others.len() as f64, "{name}, {rule}: {covered} of {}", others.len());
}

/// All published tables without rows of tensor and pipeline parallelism.
fn tables_of_data_parallelism() -> Option<Vec<(&'static str, Facts, Vec<FittedRow>)>> {
    let tables = [
        ("bert", BERT, a800_rows("bert", 32)?),
        ("t5", T5, a800_rows("t5", 16)?),
        ("vit", VIT, a800_rows("vit", 64)?),
        ("bert on T4", Facts::default(), t4_rows("bert")?),
        ("cifar10 on T4", Facts::default(), t4_rows("cifar10")?),
        ("deepspeech2 on T4", Facts::default(), t4_rows("deepspeech2")?),
    ];
    let is_data_parallel = |row: &FittedRow| row.plan.tp == 1 && row.plan.pp == 1;
    Some(
        tables
            .into_iter()
            .map(|(name, facts, rows)| (name, facts, rows.into_iter().filter(is_data_parallel).collect()))
            .collect(),
    )
}

#[test]
fn intervals_of_rows_on_more_nodes_than_were_measured_cover_them() {
    let Some(tables) = tables_of_data_parallelism() else { return };
    for table in tables {
        covered_outside("from one node", table.clone(), |row| row.placement.len() == 1);
        covered_outside("from one and two nodes", table, |row| row.placement.len() <= 2);
    }
}

#[test]
fn intervals_of_plans_of_another_kind_than_was_measured_cover_them() {
    let (Some(t5), Some(llama7)) = (a800_rows("t5", 16), a800_rows("llama7", 8)) else { return };
    for table in [("t5", T5, t5), ("llama7", LLAMA7, llama7)] {
        covered_outside("without tensor and pipeline parallelism", table.clone(), |row| {
            row.plan.tp == 1 && row.plan.pp == 1
        });
        covered_outside("without pipeline parallelism", table.clone(), |row| row.plan.pp == 1);
        covered_outside("without tensor parallelism", table.clone(), |row| row.plan.tp == 1);
        covered_outside("with tensor or pipeline parallelism", table, |row| {
            row.plan.tp > 1 || row.plan.pp > 1
        });
    }
    let Some(tables) = tables_of_data_parallelism() else { return };
    for table in tables.into_iter().take(3) {
        covered_outside("without offload", table.clone(), |row| !row.plan.offload);
        covered_outside("without ZeRO", table.clone(), |row| row.plan.zero == 0 && !row.plan.offload);
        covered_outside("without gc", table, |row| !row.plan.gc);
    }
}
