//! The throughput that a model was fitted to, over the number of devices, for each workload.

use std::collections::{BTreeMap, BTreeSet};

use formats::fitted::{FittedRow, FittedWorkload};

use crate::{
    alone,
    chart::{Axis, Chart, Form, Plane, Point, Series},
    colours::Colours,
    figure::Figure,
    fitted::FittedModel,
    planes,
    table::Unit,
};

pub(super) fn make(model: &FittedModel, _: &Colours) -> Vec<Figure> {
    let batches: BTreeSet<u32> =
        model.file.workloads.iter().flat_map(|of| &of.rows).map(|row| row.global_batch).collect();
    let workloads = model.file.workloads.iter().filter(|of| !of.rows.is_empty()).collect();
    planes::in_figures::<&FittedWorkload>(workloads)
        .into_iter()
        .map(|(part, of)| {
            let caption = format!(
                "Samples per second of the measured rows of {} on {}, over the number of devices, with a colour for each global batch. \
                 The fastest plan of a batch on so many devices is ringed. Hollow points are rows that all others contradict, to which \
                 nothing is fitted. The rows have no intervals.",
                model.name, model.file.device_type
            );
            let planes = of.iter().map(|workload| plane(workload, &batches)).collect();
            let doubtful = of.iter().flat_map(|of| of.rows.iter().filter(|row| row.doubtful).map(|row| label(of, row)));
            Figure {
                part,
                doubts: doubtful.map(|name| format!("{name}: all other rows contradict it")).collect(),
                ..Figure::new("Measured rows of the model", caption, Chart::Planes(planes))
            }
        })
        .collect()
}

/// The number of devices of a row, and its samples per second.
pub(crate) fn numbers(row: &FittedRow) -> (u32, f64) {
    (row.placement.iter().sum(), f64::from(row.global_batch) * 1e9 / row.step_ns as f64)
}

pub(crate) fn label(workload: &FittedWorkload, row: &FittedRow) -> String {
    format!("{}@b{}@{}", workload.workload, row.global_batch, row.plan)
}

fn plane(workload: &FittedWorkload, batches: &BTreeSet<u32>) -> Plane {
    let mut by_batch: BTreeMap<u32, Vec<&FittedRow>> = BTreeMap::new();
    for row in &workload.rows {
        by_batch.entry(row.global_batch).or_default().push(row);
    }
    let series = by_batch.iter().map(|(batch, rows)| {
        let point = |row: &&FittedRow| {
            let (devices, rate) = numbers(row);
            let is_beaten = |other: &&FittedRow| numbers(other).0 == devices && numbers(other).1 > rate;
            Point {
                label: label(workload, row),
                doubt: if row.doubtful { "all other rows contradict it".into() } else { String::new() },
                is_marked: !row.doubtful && !rows.iter().filter(|row| !row.doubtful).any(is_beaten),
                ..Point::at(f64::from(devices), rate)
            }
        };
        Series::new(
            format!("b{batch}"),
            Colours::nth(batches.iter().position(|of| of == batch).unwrap_or_default()),
            Form::Dots,
            rows.iter().map(point).collect(),
        )
    });
    let rates = workload.rows.iter().map(|row| numbers(row).1);
    let y = alone::scaled(Axis::new("throughput in samples", "samples_per_s", Unit::PerS), rates);
    let x = Axis::new("devices", "devices", Unit::Count);
    Plane { title: workload.workload.clone(), series: series.collect(), ..Plane::new(x, y) }
}
