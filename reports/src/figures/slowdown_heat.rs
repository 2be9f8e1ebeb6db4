//! What each job of a pair costs the other: a matrix of slowdowns, victim by aggressor.

use schema::rows::Interference;

use super::together::{self, GroupsOfFigure, Together};
use crate::{
    chart::{Axis, Chart, Heat, HeatCell},
    colours::Colours,
    figure::Figure,
    run::Run,
    table::Unit,
};

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    together::parts(run).iter().filter_map(|part| figure(run, part)).collect()
}

fn figure(run: &Run, part: &GroupsOfFigure) -> Option<Figure> {
    let pairs: Vec<&Together> = part.groups.iter().filter(|group| group.rows.len() == 2).collect();
    let names = names(&pairs);
    // A run of two jobs has a table, and a matrix of them would say no more.
    let has_numbers = pairs.iter().flat_map(|pair| pair.rows).any(|row| row.slowdown.is_some());
    if names.len() < 2 || !has_numbers {
        return None;
    }
    let cell = |victim: &String, aggressor: &String| cell(&pairs, victim, aggressor);
    let cells = names.iter().map(|victim| names.iter().map(|aggressor| cell(victim, aggressor)).collect());
    let heat = Heat {
        row_column: "victim".into(),
        column_column: "aggressor".into(),
        value: Axis::new("slowdown", "slowdown", Unit::Ratio),
        neutral: 1.0,
        cells: cells.collect(),
        rows: names.clone(),
        columns: names,
    };
    let caption = format!(
        "Time of a step of the job of a row beside the job of a column, over that alone, on {} under {}: {}. Intervals are 95 %, \
         over blocks. A job beside itself has two seats: its value is their geometric mean, and its interval holds both of theirs. \
         Hatched cells are not valid, failed or were not measured.",
        part.devices,
        part.name,
        together::repeats(pairs.iter().copied())
    );
    let larger = part.groups.len() - pairs.len();
    let mut missing = together::failures(pairs.iter().copied());
    missing
        .extend((larger > 0).then(|| format!("{larger} groups of more than two jobs, which the table has")));
    Some(Figure {
        part: part.name.clone(),
        finding: finding(run, &pairs),
        doubts: together::doubts(pairs.iter().copied()),
        missing,
        ..Figure::new(format!("Slowdown by pair, {}", part.name), caption, Chart::Heat(heat))
    })
}

/// The jobs of all pairs, in order of their first appearance.
fn names(pairs: &[&Together]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for row in pairs.iter().flat_map(|pair| pair.rows) {
        if !names.contains(&row.job) {
            names.push(row.job.clone());
        }
    }
    names
}

/// The rows of a victim beside an aggressor: two, if they are the same job.
fn rows<'a>(pairs: &[&Together<'a>], victim: &str, aggressor: &str) -> Vec<&'a Interference> {
    let is_between = |pair: &&&Together| {
        let mut jobs = [pair.rows[0].job.as_str(), pair.rows[1].job.as_str()];
        let mut wanted = [victim, aggressor];
        jobs.sort_unstable();
        wanted.sort_unstable();
        jobs == wanted
    };
    let of = pairs.iter().filter(is_between).flat_map(|pair| pair.rows);
    of.filter(|row| row.job == victim).collect()
}

fn cell(pairs: &[&Together], victim: &str, aggressor: &str) -> HeatCell {
    let rows = rows(pairs, victim, aggressor);
    let values: Option<Vec<f64>> = rows.iter().map(|row| together::finite(row.slowdown)).collect();
    let values = values.filter(|values| !values.is_empty() && values.iter().all(|value| *value > 0.0));
    let value =
        values.map(|values| (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp());
    let intervals: Option<Vec<(f64, f64)>> =
        rows.iter().map(|row| together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi)).collect();
    let ci = value.and(intervals).filter(|intervals| !intervals.is_empty()).map(|intervals| {
        let lo = intervals.iter().map(|(lo, _)| *lo).fold(f64::INFINITY, f64::min);
        (lo, intervals.iter().map(|(_, hi)| *hi).fold(f64::NEG_INFINITY, f64::max))
    });
    let mut doubts: Vec<String> =
        rows.iter().map(|row| together::doubt(row)).filter(|d| !d.is_empty()).collect();
    doubts.dedup();
    HeatCell {
        is_hatched: value.is_none() || rows.iter().any(|row| !row.valid),
        value,
        ci,
        doubt: doubts.join("; "),
    }
}

/// The member that pays most, and how sure that is.
fn finding(run: &Run, pairs: &[&Together]) -> String {
    let all: Vec<(&Interference, String)> = pairs
        .iter()
        .flat_map(|pair| pair.rows.iter().enumerate().map(|(place, row)| (row, pair.beside(place))))
        .filter(|(row, _)| together::finite(row.slowdown).is_some())
        .collect();
    let slowdown = |row: &Interference| row.slowdown.unwrap_or(0.0);
    let Some((worst, beside)) = all.iter().max_by(|a, b| slowdown(a.0).total_cmp(&slowdown(b.0))) else {
        return String::new();
    };
    let ci = |row: &Interference| together::ends(row.slowdown_ci_lo, row.slowdown_ci_hi);
    let others: Vec<_> =
        all.iter().filter(|(row, _)| !std::ptr::eq(*row, *worst)).map(|(row, _)| ci(row)).collect();
    let doubt = if worst.valid { "" } else { ", not valid" };
    format!(
        "Worst of {} pairs under {}: {} beside {beside} takes {} times as long for a step{doubt}; {}.",
        pairs.len(),
        worst.sharing,
        worst.job,
        together::shown(slowdown(worst), ci(worst)),
        together::rivals(ci(worst), &others)
    ) + if run.manifest.settings.repeats < 2 { " One block has no interval." } else { "" }
}

#[cfg(test)]
mod tests {
    use super::{super::together::testing, *};

    fn heat(figure: &Figure) -> &Heat {
        match &figure.chart {
            Chart::Heat(heat) => heat,
            _ => panic!("a matrix"),
        }
    }

    #[test]
    fn every_pair_of_a_record_is_in_its_cell() {
        let run = testing::record("20261123-epyc/colocate/all-pairs-1");
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one matrix") };
        let heat = heat(figure);
        assert_eq!((heat.rows.len(), &heat.rows), (6, &heat.columns));
        for row in &run.interference {
            let beside =
                run.interference.iter().find(|other| other.group == row.group && other.seat != row.seat);
            let aggressor = &beside.expect("a pair").job;
            let at = |name: &String| heat.rows.iter().position(|of| of == name).expect("it is named");
            let cell = &heat.cells[at(&row.job)][at(aggressor)];
            if *aggressor != row.job {
                assert_eq!(cell.value, row.slowdown.map(|value| value.ln().exp()));
                assert_eq!(cell.ci, row.slowdown_ci_lo.zip(row.slowdown_ci_hi));
            }
            assert!(cell.is_hatched || row.valid, "{}", row.group);
        }
        let worst = run.interference.iter().filter_map(|row| row.slowdown).fold(0.0, f64::max);
        assert!(figure.finding.contains(&format!("{worst:.2}")), "{}", figure.finding);
    }

    #[test]
    fn a_job_beside_itself_has_the_geometric_mean_of_its_seats() {
        let run =
            testing::run([testing::pair("a", "a", [2.0, 8.0]), testing::pair("a", "b", [1.5, 1.2])].concat());
        let [figure] = &make(&run, &Colours::default())[..] else { panic!("one matrix") };
        let cell = &heat(figure).cells[0][0];
        assert!((cell.value.expect("it was measured") - 4.0).abs() < 1e-12);
        assert_eq!(cell.ci, Some((1.9, 8.1)));
        assert!(heat(figure).cells[1][1].is_hatched, "b beside itself was not measured");
        assert_eq!(heat(figure).cells[1][1].value, None);
    }
}
