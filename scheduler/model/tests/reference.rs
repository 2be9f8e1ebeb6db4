//! Errors on published iteration times, on rows that no fit has seen.
//!
//! Skipped, saying so, where `shared/reference` is not beside the project.

use std::path::PathBuf;

use model::{Observation, Options, Parts, Placement, Setting, fit, formula, held_out};
use schema::{
    fitted::{Facts, FormulaName},
    plan::Plan,
};

/// The lines of a published table without its heading, cut at commas; `None` without the folder.
fn lines(name: &str) -> Option<Vec<Vec<String>>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/reference").join(name);
    let path = if path.is_file() { path } else { PathBuf::from("/work/shared/reference").join(name) };
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    };
    Some(text.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect())
}

fn placement(text: &str) -> Placement {
    Placement::of(&text.chars().map(|digit| digit.to_digit(10).expect("a digit")).collect::<Vec<_>>())
}

/// Rows of the artifact of Rubick with their names, without infeasible ones.
fn rubick(name: &str, facts: Facts, global_batch: u32) -> Option<Vec<(String, Observation)>> {
    let lines = lines(&format!("rubick-a800/iterations/{name}.csv"))?;
    let row = |line: Vec<String>| {
        let step_s: f64 = line[2].parse().expect("a time");
        let placement = placement(&line[1]);
        let dp = placement.devices as u16;
        let zero = if dp > 1 { 2 } else { 0 };
        let plan = match line[0].as_str() {
            "ga" => Plan { dp, ..Plan::default() },
            "gc" => Plan { dp, gc: true, ..Plan::default() },
            "zero-dp" => Plan { dp, zero, ..Plan::default() },
            "zero-offload" => Plan { dp, zero, offload: true, ..Plan::default() },
            digits => {
                let degree = |at: usize| digits[at..=at].parse().expect("a digit");
                Plan { pp: degree(0), tp: degree(1), dp: degree(2), ..Plan::default() }
            }
        };
        let setting = Setting { facts, global_batch, plan, placement, cpus: None, ranks_per_device: 1 };
        let part = |at: usize| {
            let time: f64 = line[at].parse().expect("a time");
            // Milliseconds in some files, seconds in others.
            (time > 0.0).then_some(if time > 2.0 * step_s { time / 1e3 } else { time })
        };
        let observation =
            Observation { setting, step_s, forward_s: part(3), synchronised_s: part(4), updated_s: part(5) };
        (step_s > 0.0).then(|| (format!("{}@{}", line[0], line[1]), observation))
    };
    Some(lines.into_iter().filter_map(row).collect())
}

const BERT: Facts =
    Facts { parameters: Some(336_297_858), layers: Some(24), sequence: Some(512), hidden: Some(1024) };
const T5: Facts =
    Facts { parameters: Some(1_240_809_472), layers: Some(16), sequence: Some(768), hidden: Some(1280) };
const VIT: Facts =
    Facts { parameters: Some(85_952_456), layers: Some(12), sequence: None, hidden: Some(768) };
const LLAMA7: Facts =
    Facts { parameters: Some(6_738_423_808), layers: Some(32), sequence: Some(2048), hidden: Some(4096) };

fn total_only(mut row: Observation) -> Observation {
    (row.synchronised_s, row.updated_s) = (None, None);
    row
}

fn score(
    formula: FormulaName,
    rows: &[(String, Observation)],
    of_fit: &[&str],
    accept: impl Fn(&Observation) -> bool,
) -> (f64, f64, Vec<(String, f64)>) {
    let (own, rest): (Vec<_>, Vec<_>) =
        rows.iter().cloned().partition(|(name, _)| of_fit.contains(&name.as_str()));
    assert_eq!(own.len(), of_fit.len(), "{of_fit:?}");
    let own: Vec<_> = own.iter().map(|(_, row)| *row).collect();
    let mut fitted = fit(formula, &own, &Options::new(Parts::GPUS, 1)).expect("fits");
    held_out::leave_one_out(&mut fitted, &own);
    let mut errors = Vec::new();
    for (name, row) in
        rest.iter().filter(|(_, row)| accept(row) && formula::applies(formula, &row.setting).is_ok())
    {
        let (step_s, _) = fitted.predict(&row.setting).expect("applies");
        errors.push((name.clone(), 100.0 * (step_s / row.step_s - 1.0)));
    }
    let mean = errors.iter().map(|(_, e)| e.abs()).sum::<f64>() / errors.len() as f64;
    let max = errors.iter().map(|(_, e)| e.abs()).fold(0.0, f64::max);
    (mean, max, errors)
}

const S7: [&str; 7] = ["ga@1", "gc@1", "gc@8", "zero-dp@2", "zero-dp@8", "zero-offload@1", "zero-offload@8"];
const M5: [&str; 5] = ["ga@2222", "ga@44", "zero-dp@35", "zero-offload@2222", "ga@11222"];

#[test]
fn explore() {
    let dp = |row: &Observation| row.setting.plan.tp * row.setting.plan.pp == 1;
    for (name, facts, batch) in [("bert", BERT, 32), ("t5", T5, 16), ("vit", VIT, 64)] {
        let Some(rows) = rubick(name, facts, batch) else { return };
        let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
        let one = |row: &Observation| dp(row) && row.setting.placement.nodes == 1;
        let (mean, max, _) = score(FormulaName::Tandem, &rows, &S7, one);
        println!("S7 {name} {mean:.2} max {max:.2}");
        let m12: Vec<&str> = S7.iter().chain(&M5).copied().collect();
        for n in &m12 {
            if !names.contains(n) {
                println!("{name} lacks {n}");
            }
        }
        let have: Vec<&str> = m12.iter().filter(|n| names.contains(n)).copied().collect();
        let (mean, max, errors) = score(FormulaName::Tandem, &rows, &have, dp);
        println!("M12 {name} {mean:.2} max {max:.2}");
        let _ = errors;
        let pub7 =
            ["ga@2", "ga@4", "ga@8", "zero-offload@1", "zero-offload@2", "zero-offload@4", "zero-offload@8"];
        let (mean, max, errors) = score(FormulaName::Rubick, &rows, &pub7, one);
        println!("rubick {name} {mean:.2} max {max:.2} {errors:?}");
        let _ = total_only;
    }
}

fn pollux(name: &str) -> Option<Vec<Observation>> {
    let lines = lines(&format!("pollux-t4/{name}.csv"))?;
    let row = |line: Vec<String>| {
        let placement = placement(&line[0]);
        let batch: f64 = line[1].parse().expect("a batch");
        let plan = Plan { dp: placement.devices as u16, ..Plan::default() };
        let global_batch = (batch * f64::from(placement.devices)).round() as u32;
        let facts = Facts::default();
        let setting = Setting { facts, global_batch, plan, placement, cpus: None, ranks_per_device: 1 };
        Observation::new(setting, line[2].parse().expect("a time"))
    };
    Some(lines.into_iter().map(row).filter(|row| row.step_s > 0.0).collect())
}

#[test]
fn explore_pollux() {
    for name in ["cifar10", "bert", "deepspeech2"] {
        let Some(rows) = pollux(name) else { return };
        for formula in [FormulaName::TandemBatches, FormulaName::Pollux] {
            let mut line = String::new();
            let begin = std::time::Instant::now();
            for seed in 1..=3 {
                let left = held_out::held_out(formula, &rows, 0.5, &Options::new(Parts::GPUS, seed)).unwrap();
                let e = &held_out::errors(&left)[0];
                line += &format!(
                    " {:.2}/{:.1}/{:.0} cov {:.1}",
                    e.mean_percent, e.p95_percent, e.max_percent, e.covered_percent
                );
            }
            println!("{name} {formula} n={} {line} {:?}", rows.len(), begin.elapsed() / 3);
        }
    }
}
