//! What the figures of single steps have in common.

use crate::{
    alone::Names,
    chart::{Chart, Plane, Series},
    figure::Figure,
    steps::StepsOfLaunch,
    table::{Cell, Table},
};

/// What stands in the place of a figure whose raw files cannot be read: a table of the reasons. No problem
/// has no figure.
pub fn unreadable(title: &str, problems: &[String]) -> Option<Figure> {
    problems.first()?;
    let mut table = Table::new(&[("problem", "problem")]);
    problems.iter().for_each(|problem| table.push(vec![Cell::text(problem)]));
    Some(Figure::new(title, "Raw files of the run that cannot be read.", Chart::Table(table)))
}

/// The job of a plane.
pub fn title(launches: &[&StepsOfLaunch], names: &Names) -> String {
    launches.first().map_or_else(String::new, |launch| names.name(&launch.job, &launch.device))
}

/// Warnings of launches.
pub fn doubts(jobs: &[Vec<&StepsOfLaunch>]) -> Vec<String> {
    let doubtful = jobs.iter().flatten().filter(|launch| !launch.doubt.is_empty());
    doubtful.map(|launch| format!("{}, {}: {}", launch.job, launch.name(), launch.doubt)).collect()
}

/// How many points are drawn, as a sentence.
pub fn decimation(planes: &[Plane]) -> String {
    let series = || planes.iter().flat_map(|plane| &plane.series);
    let drawn: usize = series().map(|series: &Series| series.points.len()).sum();
    let of: usize = series().map(|series| series.decimated_from.unwrap_or(series.points.len())).sum();
    if drawn == of {
        return "All points are drawn.".into();
    }
    format!("{drawn} of {of} points are drawn: of each stretch the first, the least and the largest.")
}
