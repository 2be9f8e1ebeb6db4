//! The throughput of every plan of a workload over the fastest plan at the same batch: plans by batches.

use record::rows::Summary;
use schema::plan::Plan;

use super::{pareto::is_on_front, together::distinct};
use crate::{
    alone::throughput,
    chart::{Axis, Chart, Heat, HeatCell},
    colours::Colours,
    doubt,
    figure::Figure,
    planes::grouped,
    run::Run,
    table::Unit,
};

/// A configuration with its batch, its plan and its samples per second.
type Configuration<'a> = (&'a Summary, u32, &'a Plan, f64);

pub(super) fn make(run: &Run, _: &Colours) -> Vec<Figure> {
    let alone = run.summaries.iter().filter(|row| row.group.is_none() && row.vary.is_none());
    let known =
        alone.filter_map(|row| Some((row, row.global_batch?, row.plan.as_ref()?, throughput(row)?.0)));
    let workloads: Vec<Vec<Configuration>> = grouped(known, |(row, ..)| &row.workload);
    let several: Vec<(&str, Heat)> =
        workloads.iter().filter_map(|of| Some((of.first()?.0.workload.as_str(), heat(of)?))).collect();
    let figure = |(workload, heat): (&str, Heat)| {
        let caption = format!(
            "The samples per second of each plan (row) of {workload} over those of the fastest plan at the same global batch (column), \
             alone on {}. Plans with several ranks use as many devices. A star marks plans of the Pareto front of step time and peak \
             memory at a batch or more. The ratios are of the rates that the figure of throughput has with their intervals.",
            run.devices()
        );
        let mut figure = Figure::new(format!("Plans by batch: {workload}"), caption, Chart::Heat(heat));
        figure.part = workload.into();
        figure
    };
    several.into_iter().map(figure).collect()
}

/// `None` for fewer than two plans or two batches.
fn heat(of: &[Configuration]) -> Option<Heat> {
    let mut batches = distinct(of.iter().map(|(_, batch, ..)| *batch));
    batches.sort_unstable();
    let plans = distinct(of.iter().map(|(_, _, plan, _)| *plan));
    if plans.len() < 2 || batches.len() < 2 {
        return None;
    }
    let at = |batch: u32| of.iter().filter(move |(_, of_batch, ..)| *of_batch == batch);
    let fastest = |batch: u32| at(batch).map(|(.., rate)| *rate).fold(0.0, f64::max);
    let cell = |plan: &Plan, batch: u32| match at(batch).find(|(_, _, of_plan, _)| *of_plan == plan) {
        Some((row, .., rate)) => {
            HeatCell { value: Some(rate / fastest(batch)), ci: None, doubt: doubt::of_job(row) }
        }
        None => HeatCell::default(),
    };
    let name = |plan: &Plan| {
        let is_starred = of
            .iter()
            .filter(|(_, _, of_plan, _)| *of_plan == plan)
            .filter_map(|(row, batch, ..)| Some((step_and_memory(row)?, *batch)))
            .any(|(own, batch)| is_on_front(own, at(batch).filter_map(|(row, ..)| step_and_memory(row))));
        if is_starred { format!("{plan} *") } else { plan.to_string() }
    };
    Some(Heat {
        row_column: "plan".into(),
        column_column: "global_batch".into(),
        value: Axis::new("throughput over the fastest plan", "throughput_ratio", Unit::Ratio),
        neutral: 1.0,
        rows: plans.iter().map(|plan| name(plan)).collect(),
        columns: batches.iter().map(|batch| format!("b{batch}")).collect(),
        cells: plans.iter().map(|plan| batches.iter().map(|batch| cell(plan, *batch)).collect()).collect(),
    })
}

/// The median step and the peak of memory. A row without a peak is on no front.
fn step_and_memory(row: &Summary) -> Option<(f64, f64)> {
    row.step_ns_median.zip(row.peak_memory_bytes).map(|(step, memory)| (step as f64, memory as f64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alone::tests::record;

    #[test]
    fn the_fastest_plan_of_each_batch_is_one_and_the_front_is_starred() {
        let run = record("20261123-epyc/plans");
        let figures = make(&run, &Colours::default());
        assert!(figures.len() > 2);
        for figure in &figures {
            let Chart::Heat(heat) = &figure.chart else { panic!("a matrix") };
            for column in 0..heat.columns.len() {
                let values = heat.cells.iter().filter_map(|row| row[column].value);
                assert_eq!(values.fold(0.0, f64::max), 1.0, "{}", heat.columns[column]);
            }
            assert!(heat.rows.iter().any(|name| name.ends_with(" *")), "{:?}", heat.rows);
        }
        let of =
            |job: &str| run.summaries.iter().find(|row| row.job == job).and_then(|row| row.samples_per_s);
        let Chart::Heat(heat) = &figures[0].chart else { panic!("a matrix") };
        let row = heat.rows.iter().position(|name| name.starts_with("dp2-gc")).expect("it was measured");
        let column = heat.columns.iter().position(|name| name == "b32").expect("it was measured");
        let ratio = of("resnet18-mini@b32@dp2-gc").zip(of("resnet18-mini@b32@dp2")).map(|(a, b)| a / b);
        assert_eq!(heat.cells[row][column].value, ratio);
    }
}
