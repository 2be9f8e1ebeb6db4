//! How far predictions of a fitted model are off on rows that were left out of the fit, by workload and family of plans.

use formats::fitted::{FitErrors, FittedWorkload};

use crate::{
    chart::{Axis, Chart, MarkValue, RowMark, RowOf, Rows},
    colours::{Colour, Colours},
    figure::Figure,
    fitted::{FittedModel, errors, over_all},
    table::Unit,
};

pub(super) fn make(model: &FittedModel, _: &Colours) -> Vec<Figure> {
    let rows: Vec<RowOf> = model.file.workloads.iter().flat_map(of_workload).collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let caption = format!(
        "The errors of {} on {}: |predicted / measured - 1| of configurations that were left out of the fit, by workload and family of \
         plans, with the number of rows. No prediction of a launch can be better than launches differ among themselves. A note says how \
         many rows lie in their predicted 95 % intervals.",
        model.name, model.file.device_type
    );
    let chart = Rows {
        value: Axis::new("error of a predicted step time", "error_percent", Unit::Percent),
        column: "workload".into(),
        rows,
        rule: None,
    };
    let unfit = model.file.workloads.iter().filter(|of| over_all(of).is_none());
    vec![Figure {
        missing: unfit.map(|of| format!("{}: no row was left out of a fit", of.workload)).collect(),
        finding: finding(model),
        ..Figure::new("Errors of the model", caption, Chart::Rows(chart))
    }]
}

fn of_workload(workload: &FittedWorkload) -> Vec<RowOf> {
    let mark = |part: &str, colour, value| RowMark {
        part: part.into(),
        colour,
        quantity: MarkValue::Dot { value, ci: None },
        doubt: String::new(),
    };
    let row = |of: &FitErrors| {
        let mut marks = vec![
            mark("mean error", Colours::nth(0), of.mean_percent),
            mark("p95 of the errors", Colours::nth(1), of.p95_percent),
        ];
        let differ = workload.launches_differ.filter(|_| of.plans == "all");
        marks.extend(differ.map(|differ| mark("launches differ", Colour::Muted, differ.mean_percent)));
        RowOf {
            name: format!("{}, {} ({} rows)", workload.workload, of.plans, of.rows),
            marks,
            note: of.covered_percent.map_or(String::new(), |percent| format!("{percent:.0} % inside")),
        }
    };
    errors(workload).iter().map(row).collect()
}

fn finding(model: &FittedModel) -> String {
    let all = model.file.workloads.iter().filter_map(|of| Some((over_all(of)?.mean_percent, &of.workload)));
    let mut all: Vec<(f64, &String)> = all.collect();
    all.sort_by(|one, other| one.0.total_cmp(&other.0));
    match &all[..] {
        [] => String::new(),
        [(mean, workload)] => format!("mean error on rows that were left out: {mean:.1} % for {workload}"),
        [(least, best), .., (most, worst)] => format!(
            "mean errors on rows that were left out: {least:.1} % ({best}) to {most:.1} % ({worst}) of {} workloads",
            all.len()
        ),
    }
}
