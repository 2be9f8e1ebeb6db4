//! The tables of a fit.

use cli::table::{self, Table, TableLayout, TableOptions};
use formats::fitted::{
    FitErrors, FittedParameter, FittedRow, FittedWorkload, FormulaFit, LaunchesDiffer, MemoryFit, ModelFile,
    Origin,
};
use model::{FittedModel, RowsLeftOut, formula, held_out, observation};
use rig::output;
use schema::units::Nanos;

use crate::measured::Measured;

/// The columns of the summary, with a line for each workload.
pub(super) const SUMMARY_COLUMNS: [&str; 9] = [
    "workload",
    "leave-one-out",
    "held out",
    "inside 95 %",
    "launches differ",
    "rows",
    "first formula",
    "assumed",
    "memory of a rank",
];

/// The errors of all workloads together, each with its first formula: leave-one-out, and on configurations that were held out.
struct Pooled {
    leave_one_out: Vec<FitErrors>,
    held_out: Vec<FitErrors>,
    launches_differ: Option<LaunchesDiffer>,
}

/// What is printed of a fit.
pub(super) struct Shown<'a> {
    file: &'a ModelFile,
    /// Absent if there is one workload.
    pooled: Option<Pooled>,
}

impl Shown<'_> {
    pub(super) fn new<'a>(file: &'a ModelFile, measured: &Measured, left_out: &RowsLeftOut) -> Shown<'a> {
        let launches = measured.workloads.iter().flat_map(|of| &of.launches).map(Vec::as_slice);
        let pooled = (file.workloads.len() > 1).then(|| Pooled {
            leave_one_out: held_out::errors_singly(&left_out.singly),
            held_out: held_out::errors(&left_out.held_out),
            launches_differ: LaunchesDiffer::of(launches),
        });
        Shown { file, pooled }
    }

    /// Prints a line for each workload: its rows, and the mean errors of the formula that is asked first.
    pub(super) fn summary(&self, options: &TableOptions) -> anyhow::Result<()> {
        let mut lines = table::new(&SUMMARY_COLUMNS);
        for workload in &self.file.workloads {
            let Some(first) = workload.fits.first() else { continue };
            let formula = match workload.rows.len() {
                rows if rows == first.rows as usize => first.formula.to_string(),
                _ => format!("{} ({} rows)", first.formula, first.rows),
            };
            let memory = workload.memory.as_ref().and_then(|memory| mean(&memory.leave_one_out));
            let is_assumed = |parameter: &&FittedParameter| parameter.origin == Origin::Assumed;
            let assumed = first.parameters.iter().filter(is_assumed).count();
            lines.add_row([
                workload.workload.clone(),
                table::or_dash(mean(&first.leave_one_out)),
                table::or_dash(mean(&workload.held_out)),
                table::or_dash(covered(&workload.held_out)),
                table::or_dash(workload.launches_differ.map(|launches| percent(launches.mean_percent))),
                workload.rows.len().to_string(),
                formula,
                format!("{assumed} of {}", first.parameters.len()),
                table::or_dash(memory),
            ]);
        }
        if let Some(Pooled { leave_one_out, held_out, launches_differ }) = &self.pooled {
            lines.add_row([
                "all".to_owned(),
                table::or_dash(mean(leave_one_out)),
                table::or_dash(mean(held_out)),
                table::or_dash(covered(held_out)),
                table::or_dash(launches_differ.map(|launches| percent(launches.mean_percent))),
                self.file.workloads.iter().map(|workload| workload.rows.len()).sum::<usize>().to_string(),
                "-".into(),
                "-".into(),
                "-".into(),
            ]);
        }
        options.print(&lines)
    }

    /// Prints the errors and the parameters of all formulas of each workload.
    pub(super) fn details(&self, layout: TableLayout) -> anyhow::Result<()> {
        for workload in &self.file.workloads {
            let rows = workload.rows.len();
            let launches = differences(workload.launches_differ);
            output::print(format_args!("{}: {rows} rows{launches}", workload.workload))?;
            let mut errors = error_table();
            for fit in &workload.fits {
                let first = format!("{} ({} rows)", fit.formula, fit.rows);
                add_errors(&mut errors, &first, Some(fit.scale), &fit.leave_one_out, &fit.held_out);
            }
            add_errors(&mut errors, "as chosen by the others", None, &[], &workload.held_out);
            layout.print(&errors)?;
            if let Some(memory) = &workload.memory {
                output::print(memory_line(memory))?;
            }
            output::print("")?;
            layout.print(&parameters(workload))?;
            output::print("")?;
        }
        let Some(Pooled { leave_one_out, held_out, launches_differ }) = &self.pooled else { return Ok(()) };
        let launches = differences(*launches_differ);
        output::print(format_args!("all workloads, with the first formula of each{launches}"))?;
        let mut errors = error_table();
        add_errors(&mut errors, "all", None, leave_one_out, held_out);
        layout.print(&errors)
    }
}

/// A line for each configuration that the others contradict.
pub(super) fn doubtful(file: &ModelFile) -> anyhow::Result<Vec<String>> {
    let model = FittedModel::new(file)?;
    let mut lines = Vec::new();
    for of in &file.workloads {
        for row in of.rows.iter().filter(|row| row.doubtful) {
            let FittedRow { plan, global_batch, placement, .. } = row;
            let devices: Vec<String> = placement.iter().map(u32::to_string).collect();
            let answer = model.answer(&of.workload, &observation(of.facts, row).setting);
            let by_formula = answer.map_or(String::new(), |answer| {
                format!(", by which it takes {}", Nanos((answer.step_s * 1e9) as u64))
            });
            lines.push(format!(
                "{}@b{global_batch}@{plan} on {} devices is not fitted to: it took {}, and the other rows contradict it{by_formula}; measure it \
                 again",
                of.workload,
                devices.join("+"),
                Nanos(row.step_ns)
            ));
        }
    }
    Ok(lines)
}

/// The mean error over all plans.
fn mean(errors: &[FitErrors]) -> Option<String> {
    Some(percent(errors.first()?.mean_percent))
}

/// The share of the rows that lie in their predicted intervals.
fn covered(errors: &[FitErrors]) -> Option<String> {
    errors.first()?.covered_percent.map(percent)
}

fn percent(percent: f64) -> String {
    format!("{percent:.1} %")
}

fn differences(launches: Option<LaunchesDiffer>) -> String {
    launches.map_or(String::new(), |of| {
        let LaunchesDiffer { launches, mean_percent, p95_percent, max_percent } = of;
        format!(
            "; {launches} launches differ from the others of their configuration by {mean_percent:.1} % (mean), {p95_percent:.1} % \
             (p95), {max_percent:.1} % (max)"
        )
    })
}

/// The errors of the memory of a rank.
fn memory_line(memory: &MemoryFit) -> String {
    let errors = memory.leave_one_out.first().map_or(String::new(), |errors| {
        let FitErrors { mean_percent, p95_percent, max_percent, .. } = errors;
        format!(
            ", leave-one-out: {mean_percent:.1} % (mean), {p95_percent:.1} % (p95), {max_percent:.1} % (max)"
        )
    });
    format!(" memory of a rank: {} peaks{errors}", memory.rows)
}

fn error_table() -> Table {
    table::new(&[
        "formula",
        "scale",
        "plans",
        "leave-one-out",
        "mean",
        "p95",
        "max",
        "held out",
        "mean",
        "p95",
        "max",
        "inside 95 %",
    ])
}

/// A line for each family of plans.
fn add_errors(
    to: &mut Table,
    formula: &str,
    scale: Option<f64>,
    leave_one_out: &[FitErrors],
    held_out: &[FitErrors],
) {
    let mut families: Vec<&str> = vec!["all"];
    families.extend(
        leave_one_out.iter().chain(held_out).map(|of| of.plans.as_str()).filter(|name| *name != "all"),
    );
    families[1..].sort_unstable();
    families.dedup();
    for plans in families {
        let is_first = plans == "all";
        let mut cells = vec![
            if is_first { formula.to_owned() } else { String::new() },
            scale.filter(|_| is_first).map_or(String::new(), |scale| format!("{scale:.3}")),
            plans.to_owned(),
        ];
        let own = |errors: &[FitErrors]| errors.iter().find(|of| of.plans == plans).cloned();
        for errors in [own(leave_one_out), own(held_out)] {
            let percents = |of: &FitErrors| [of.mean_percent, of.p95_percent, of.max_percent].map(percent);
            cells.push(errors.as_ref().map_or(0, |of| of.rows).to_string());
            cells.extend(errors.as_ref().map_or(["-"; 3].map(str::to_owned), percents));
        }
        cells.push(table::or_dash(own(held_out).and_then(|of| of.covered_percent).map(percent)));
        to.add_row(cells);
    }
}

fn parameters(workload: &FittedWorkload) -> Table {
    let mut lines =
        table::new(&["parameter", "value", "95 % interval", "unit", "origin", "assumed", "meaning"]);
    lines.mark_text(&["unit", "origin", "meaning"]);
    for FormulaFit { formula, parameters, .. } in &workload.fits {
        for (known, parameter) in formula::parameters(*formula).iter().zip(parameters) {
            let FittedParameter { name, unit, value, ci_lo, ci_hi, origin, prior, .. } = parameter;
            lines.add_row([
                format!("{formula} {name}"),
                short(*value),
                format!("{} to {}", short(*ci_lo), short(*ci_hi)),
                unit.clone(),
                origin.to_string(),
                short(*prior),
                known.meaning.to_owned(),
            ]);
        }
    }
    lines
}

/// A number with three digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        size if (1e-3..1e4).contains(&size) => {
            let places = (2 - size.log10().floor() as i32).max(0) as usize;
            format!("{value:.places$}")
        }
        _ => format!("{value:.2e}"),
    }
}
