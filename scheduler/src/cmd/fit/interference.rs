//! `sched fit --interference`: how much jobs that share devices slow each other down.

use std::collections::BTreeSet;

use anyhow::{Context as _, ensure};
use cli::table::{self, TableLayout, TableOptions};
use formats::{
    fitted::ModelFile,
    interference_fit::{
        ClassErrors, ClassesFit, InterferenceFit, LeftOutPart, ModeFit, SlowdownErrors, TreeNode,
    },
};
use jobs::software;
use record::rows;
use rig::{Exit, output};
use schema::catalog::Catalog;

use super::Args;
use crate::{cmd::busy, measured::together::MeasuredTogether};

/// The set of workloads that press on one resource each.
const STRESSORS: &str = "stress";

/// Writes a model that has slowdowns and no times of jobs alone, and prints its errors.
pub(super) fn run(together: &MeasuredTogether, args: &Args, catalog: &Catalog) -> anyhow::Result<Exit> {
    ensure!(
        args.machine.is_none() && !args.within_rows,
        "--machine and --within-rows are about the times of jobs alone; name runs or --csv tables of these, or leave the options out"
    );
    let interference = fit(together, catalog);
    if interference.modes.is_empty() {
        let why =
            "there are too few slowdowns for a fit; measure more groups with `profile colocate --all-pairs`";
        return Err(Exit::NothingMatched.because(why));
    }
    let file = ModelFile {
        format: ModelFile::FORMAT,
        version: software::VERSION.into(),
        seed: args.seed,
        device_type: together.device_type.clone(),
        is_on_cores: together.is_on_cores,
        within_rows: false,
        sources: Vec::new(),
        workloads: Vec::new(),
        unfit: Vec::new(),
        interference: Some(interference),
    };
    let out = args.out.as_deref().context("--out names the file to write")?;
    file.write(out)?;
    match (args.format.json, &file.interference) {
        (true, _) | (_, None) => output::print(rows::to_json(&file))?,
        (false, Some(interference)) => show(interference, args.verbose, &args.format.table)?,
    }
    let jobs = together.jobs.len();
    output::news(format_args!("fit: {}: {jobs} jobs on {}", out.display(), file.device_type));
    Ok(Exit::Ok)
}

/// Fits the slowdowns.
pub(super) fn fit(together: &MeasuredTogether, catalog: &Catalog) -> InterferenceFit {
    let stressors: BTreeSet<&str> = catalog.set(STRESSORS).map(|workload| workload.name.as_str()).collect();
    for (why, rows) in &together.left_out {
        output::note(format_args!("fit: interference: {rows} rows are left out: {why}"));
    }
    let rows: usize = together.together.values().map(Vec::len).sum();
    let spinner = busy(format!("fit: interference: {rows} slowdowns"));
    let (fit, few) = model::interference::fit(together.jobs.clone(), &together.together, &stressors);
    spinner.finish_and_clear();
    for sharing in few {
        output::note(format_args!("fit: interference: too few slowdowns under {sharing} for a fit"));
    }
    InterferenceFit { sources: together.sources.clone(), ..fit }
}

/// Prints the errors of each mode, with those of each class of contention and its terms if `verbose`, and the rules of classes.
pub(super) fn show(fit: &InterferenceFit, verbose: bool, options: &TableOptions) -> anyhow::Result<()> {
    for mode in &fit.modes {
        let rows = mode.measured.len();
        output::print(format_args!(
            "slowdowns under {}: {rows} of groups of up to {} jobs",
            mode.sharing, mode.largest_group
        ))?;
        show_errors(mode, options)?;
        output::print("")?;
        if verbose {
            show_classes_of_contention(mode, options.layout())?;
            show_terms(mode, options.layout())?;
            output::print("")?;
        }
    }
    fit.classes.as_ref().map_or(Ok(()), show_classes)
}

fn show_errors(mode: &ModeFit, options: &TableOptions) -> anyhow::Result<()> {
    let mut lines = table::new(&[
        "left out",
        "predicted by",
        "mean error",
        "p95",
        "inside 95 %",
        "group size",
        "slowdowns",
    ]);
    lines.mark_text(&["predicted by"]);
    for row in &mode.errors {
        let SlowdownErrors {
            left_out,
            group_size,
            contention: _,
            estimator,
            rows,
            mean_percent,
            p95_percent,
            mean_speed_error: _,
            covered_percent,
        } = row;
        let what = match left_out {
            LeftOutPart::Workload => "each workload",
            LeftOutPart::BesideOthers => "each workload, beside stressors known",
            LeftOutPart::Group => "each group",
            LeftOutPart::Block => "each block",
        };
        lines.add_row([
            what.into(),
            estimator.to_string(),
            format!("{mean_percent:.1} %"),
            format!("{p95_percent:.1} %"),
            covered_percent.map_or_else(|| "-".to_owned(), |percent| format!("{percent:.1} %")),
            group_size.map_or_else(|| "all".to_owned(), |size| size.to_string()),
            rows.to_string(),
        ]);
    }
    options.print(&lines)
}

/// The errors of the model on workloads that were left out, for each class of contention.
fn show_classes_of_contention(mode: &ModeFit, layout: TableLayout) -> anyhow::Result<()> {
    if mode.errors_by_contention.is_empty() {
        return Ok(());
    }
    let mut lines =
        table::new(&["contention", "slowdowns", "mean error", "p95", "mean error of speed", "inside 95 %"]);
    for row in &mode.errors_by_contention {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        lines.add_row([
            or_dash(row.contention.map(|class| class.to_string())),
            row.rows.to_string(),
            format!("{:.1} %", row.mean_percent),
            format!("{:.1} %", row.p95_percent),
            or_dash(row.mean_speed_error.map(|error| format!("{error:.4}"))),
            or_dash(row.covered_percent.map(|percent| format!("{percent:.1} %"))),
        ]);
    }
    layout.print(&lines)?;
    output::print("")
}

/// The terms, each as the factor of a slowdown when the value grows by a standard deviation, and the effects of workloads.
fn show_terms(mode: &ModeFit, layout: TableLayout) -> anyhow::Result<()> {
    let mut lines = table::new(&["term", "slowdown times", "for each more of"]);
    for term in &mode.terms {
        let name =
            term.feature.map_or_else(|| term.term.to_string(), |feature| format!("{} {feature}", term.term));
        lines.add_row([name, format!("{:.3}", term.weight.exp()), format!("{:.3}", term.scale)]);
    }
    let names = ["victim", "aggressor", "burden", "disturbance", "victim", "aggressor"];
    for (name, effects) in names.into_iter().zip(mode.effects()) {
        for row in effects {
            lines.add_row([
                format!("{name} {}", row.workload),
                format!("{:.3}", row.effect.exp()),
                "-".into(),
            ]);
        }
    }
    layout.print(&lines)
}

fn show_classes(classes: &ClassesFit) -> anyhow::Result<()> {
    output::print(format_args!("classes of jobs, from pairs under {}", classes.sharing))?;
    print_node(&classes.nodes, 0, 1)?;
    let ClassErrors { jobs, right, pairs, good, packed, packed_good } = classes.errors;
    output::print(format_args!(
        "left out: {right} of {jobs} jobs have their class; of {pairs} pairs, {good} are good, {packed} are packed, and {packed_good} both \
         (precision {}, recall {})",
        percent(packed_good, packed),
        percent(packed_good, good)
    ))
}

fn percent(part: u32, of: u32) -> String {
    if of == 0 { "-".into() } else { format!("{:.0} %", 100.0 * f64::from(part) / f64::from(of)) }
}

/// Prints a node as a rule, and then those below it.
fn print_node(nodes: &[TreeNode], place: u32, depth: usize) -> anyhow::Result<()> {
    let indent = "  ".repeat(depth);
    match nodes.get(place as usize) {
        Some(TreeNode::Split { feature, at, below, above }) => {
            output::print(format_args!("{indent}if {feature} <= {}:", feature.shown(*at)))?;
            print_node(nodes, *below, depth + 1)?;
            output::print(format_args!("{indent}else:"))?;
            print_node(nodes, *above, depth + 1)
        }
        Some(TreeNode::Leaf { class, jobs: [tiny, medium, jumbo] }) => output::print(format_args!(
            "{indent}{class} (of jobs fitted to: {tiny} tiny, {medium} medium, {jumbo} jumbo)"
        )),
        None => Ok(()),
    }
}
