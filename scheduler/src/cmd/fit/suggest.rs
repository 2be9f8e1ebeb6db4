//! `sched fit --suggest`: configurations to measure next.

use std::path::Path;

use cli::table;
use formats::{
    fitted::{FittedRow, ModelFile},
    rows::Suggestion,
};
use jobs::plans;
use model::{
    Fit, FittedModel, Launches, Observation, Parts, Placement, Setting, observation,
    suggest::{Candidate, Design, suggest},
    widest,
};
use record::rows::{self, MOST_HALF_WIDTH_PERCENT};
use rig::{Exit, output};
use schema::{
    catalog::{Catalog, CatalogEntry},
    device::Device,
    job::Job,
    plan::Plan,
    units::Nanos,
};

use super::Format;
use crate::measured::{Measured, OfWorkload};

/// What the command line asks for.
pub(super) struct Wanted<'a> {
    pub(super) count: usize,
    /// The largest number of devices.
    pub(super) devices: Option<u32>,
    pub(super) out: &'a Path,
}

/// What could be measured of a workload and is predicted by one of its fits.
struct Choices<'a> {
    workload: &'a str,
    fit: Fit,
    settings: Vec<Setting>,
}

pub(super) fn run(
    wanted: &Wanted<'_>,
    file: &ModelFile,
    measured: &Measured,
    catalog: &Catalog,
    parts: &Parts,
    format: &Format,
) -> anyhow::Result<Exit> {
    let model = FittedModel::new(file)?;
    let mut choices = Vec::new();
    for of in &measured.workloads {
        let name = &of.workload;
        let Some(entry) = catalog.entry(name) else {
            output::note(format_args!(
                "fit: left out: the catalog has no workload or program '{name}', so that its plans are not known; name its file with \
                 --catalog"
            ));
            continue;
        };
        let settings = candidates(of, entry, measured.is_on_cores, wanted.devices);
        let fits = model.fits(name);
        if fits.is_empty() {
            output::note(format_args!(
                "fit: workload '{name}' is not fitted; its suggestions are from what is assumed"
            ));
        }
        choices.extend(by_fit(of, fits, settings, parts));
    }
    let launches = measured.launched.unwrap_or(Launches::DEFAULT);
    let mut designs: Vec<Design<'_>> = choices.iter().map(|of| design(of, &launches)).collect();
    let chosen = suggest(&mut designs, wanted.count);
    let suggestion = |choice: &model::suggest::Choice| {
        let (of, design) = (&choices[choice.design], &designs[choice.design]);
        let setting = of.settings[choice.candidate];
        let step_s = design.step_s(choice.candidate)?;
        let (before, after) = design.half_widths_percent(choice.candidate)?;
        let [half_width_percent, half_width_percent_after] =
            [before, after].map(|percent| percent.min(MOST_HALF_WIDTH_PERCENT));
        Some(Suggestion {
            job: Job {
                workload: of.workload.to_owned(),
                global_batch: Some(setting.global_batch),
                plan: Some(setting.plan),
                device: None,
            },
            devices: setting.placement.devices,
            step_ns: (step_s * 1e9).round() as u64,
            half_width_percent,
            half_width_percent_after,
            device_s: launches.device_s(&setting, step_s),
        })
    };
    let suggestions: Vec<Suggestion> = chosen.iter().filter_map(suggestion).collect();
    if suggestions.is_empty() {
        let message = "no configuration is left to measure; allow more devices with --devices, or measure another batch";
        return Err(Exit::NothingMatched.because(message));
    }
    rows::write(wanted.out, &suggestions)?;
    match format.json {
        true => output::print(rows::to_json(&suggestions))?,
        false => format.table.print(&printed(&suggestions))?,
    }
    let count: usize = designs.iter().map(Design::described).sum();
    let sums = designs.iter().map(Design::sums_of_half_widths_percent);
    let (now, after) = sums.fold((0.0, 0.0), |(a, b), (x, y)| (a + x, b + y));
    output::news(format_args!(
        "fit: {}: {} of {count} configurations, about {:.0} device seconds; the mean half width of the intervals of all falls from \
         {:.1} % to {:.1} %",
        wanted.out.display(),
        suggestions.len(),
        suggestions.iter().map(|row| row.device_s).sum::<f64>(),
        now / count as f64,
        after / count as f64,
    ));
    Ok(Exit::Ok)
}

/// The settings by the fit that answers for them: the first one that describes them. Without any fit, what is assumed answers.
fn by_fit<'a>(
    of: &'a OfWorkload,
    fits: &[Fit],
    mut settings: Vec<Setting>,
    parts: &Parts,
) -> Vec<Choices<'a>> {
    let workload = &of.workload;
    if fits.is_empty() {
        let rows: Vec<Observation> = of.rows.iter().map(|row| observation(of.facts, row)).collect();
        let fit = Fit::of_priors(widest(settings.iter()), parts, &rows);
        return vec![Choices { workload, fit, settings }];
    }
    let mut choices = Vec::new();
    for fit in fits {
        let (own, others) = settings.into_iter().partition(|setting| fit.predict(setting).is_some());
        choices.push(Choices { workload, fit: fit.clone(), settings: own });
        settings = others;
    }
    if !settings.is_empty() {
        output::note(format_args!(
            "fit: {} configurations of '{workload}' are left out, because no formula describes them; measure one with each axis",
            settings.len()
        ));
    }
    choices
}

fn design<'a>(of: &'a Choices<'_>, launches: &Launches) -> Design<'a> {
    let candidate = |setting: &Setting| {
        let step_s = of.fit.predict(setting).map_or(0.0, |(step_s, _)| step_s);
        Candidate { setting: *setting, device_s: launches.device_s(setting, step_s) }
    };
    Design::new(&of.fit, of.settings.iter().map(candidate).collect())
}

/// Every valid plan at each batch of the rows that no row has, with a device of its own for each rank, on one node.
fn candidates(
    of: &OfWorkload,
    entry: CatalogEntry<'_>,
    is_on_cores: bool,
    devices: Option<u32>,
) -> Vec<Setting> {
    let most = || of.rows.iter().filter_map(|row| row.placement.iter().max()).max().copied();
    let most = devices.or_else(most).unwrap_or(1);
    let device = |index: u32| match is_on_cores {
        true => Device::Cpu(vec![index as u16]),
        false => Device::Cuda(index),
    };
    let pool: Vec<Device> = (0..most).map(device).collect();
    let mut batches: Vec<u32> = of.rows.iter().map(|row| row.global_batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let cpus = of.rows.first().and_then(|row| row.cpus);
    let cpus = cpus.filter(|_| of.rows.iter().all(|row| row.cpus == cpus));
    let is_measured = |global_batch: u32, plan: Plan| {
        let is_of = |row: &FittedRow| {
            (row.global_batch, row.plan, row.ranks_per_device) == (global_batch, plan, 1)
                && row.placement == [plan.ranks()]
        };
        of.rows.iter().any(is_of)
    };
    let mut settings = Vec::new();
    for global_batch in batches {
        for plans::Candidate { plan, refusal } in plans::of_entry(entry, global_batch, &pool) {
            if refusal.is_none() && !is_measured(global_batch, plan) {
                let placement = Placement::of(&[plan.ranks()]);
                let facts = of.facts;
                settings.push(Setting { facts, global_batch, plan, placement, cpus, ranks_per_device: 1 });
            }
        }
    }
    settings
}

fn printed(suggestions: &[Suggestion]) -> table::Table {
    let mut lines =
        table::new(&["job", "devices", "step", "half width now", "after all of these", "device seconds"]);
    for row in suggestions {
        lines.add_row([
            row.job.to_string(),
            row.devices.to_string(),
            Nanos(row.step_ns).to_string(),
            format!("{:.1} %", row.half_width_percent),
            format!("{:.1} %", row.half_width_percent_after),
            format!("{:.1}", row.device_s),
        ]);
    }
    lines
}
