//! What Rubick says of a job: its curve, its slopes, and who gave and who got in its last exchange.

use std::{collections::HashMap, fmt::Write as _};

use engine::{cluster::JobId, view::View};
use schema::units::Nanos;

use super::{
    Settings,
    floor::{Claim, Exchange, Floor},
};
use crate::kit::elastic::Curve;

/// An exchange in which a job gave or got devices.
#[derive(Clone, Debug)]
pub(super) struct Told {
    at: Nanos,
    text: String,
}

/// Keeps an exchange, before which the jobs had what `has_had` says, for the explanations of its jobs.
pub(super) fn tell(
    view: &View<'_>,
    floor: &Floor,
    claim: Claim,
    exchange: &Exchange,
    told: &mut HashMap<JobId, Told>,
) {
    let taker = &floor.jobs[exchange.taker];
    let name = |place: usize| &view.request(floor.jobs[place].job).name;
    let mut text = format!(
        "{} got {} devices for its {claim}, at {:.3} times the speed that it asks for",
        name(exchange.taker),
        exchange.has.devices,
        exchange.has.speed
    );
    for (place, to) in &exchange.givers {
        let (devices, speed) = to.as_ref().map_or((0, 0.0), |to| (to.devices, to.speed));
        let _ = write!(text, "; {} gave, and has {devices} at {speed:.3}", name(*place));
    }
    let givers = exchange.givers.keys().map(|place| floor.jobs[*place].job);
    for job in givers.chain([taker.job]) {
        told.insert(job, Told { at: view.now, text: text.clone() });
    }
}

/// The same for nodes that are kept for a job.
pub(super) fn tell_reserved(view: &View<'_>, floor: &Floor, told: &mut HashMap<JobId, Told>) {
    for reserved in &floor.reserved {
        let job = floor.jobs[reserved.job].job;
        let nodes = reserved.nodes.iter().map(|node| &*view.topology.nodes()[node.0 as usize].name);
        let nodes = nodes.collect::<Vec<_>>().join(", ");
        let text = match Nanos::from_secs_f64(reserved.until_s) {
            Nanos::ZERO => format!("no other job comes to {nodes} until it starts there"),
            until => {
                format!("no other job that ends later than in {until} comes to {nodes} until it starts there")
            }
        };
        told.insert(job, Told { at: view.now, text });
    }
}

/// The explanation for a job that has arrived.
pub(super) fn text(
    view: &View<'_>,
    job: JobId,
    curve: Option<&Curve>,
    told: Option<&Told>,
    settings: &Settings,
) -> String {
    let asked = view.request(job);
    let Some(curve) = curve else { return String::new() };
    let reference = curve.reference(asked);
    let devices = view.job(job).placed().map_or(0, |placed| placed.devices.len() as u32);
    let mut text = format!(
        "asks for {} on {} devices ({}), which is {:.3} steps/s",
        asked.plan.map_or("no plan".into(), |plan| plan.to_string()),
        asked.devices,
        asked.class,
        reference
    );
    if !curve.is_known {
        text += "; no model knows its time, so that it gets what it asks for";
        return text;
    }
    if settings.freedom.quantile != 0.5 {
        let _ = write!(text, "; times are the {} quantiles of their predictions", settings.freedom.quantile);
    }
    text += "\n  devices  cpus  plan                  steps/s   speed  slope per device";
    let (mut fewer, mut below) = (0, 0.0);
    for level in &curve.levels {
        let slope = (level.fair().rate - below) / reference / f64::from(level.devices - fewer);
        for point in &level.points {
            let is_fair = point == level.fair();
            let _ = write!(
                text,
                "\n{} {:>7}  {:>4}  {:<20}  {:>7.3}  {:>6.3}  {}",
                if level.devices == devices && is_fair { ">" } else { " " },
                level.devices,
                point.cpus.map_or("-".into(), |cpus| cpus.to_string()),
                point.plan.map_or("-".into(), |plan| plan.to_string()),
                point.rate,
                point.rate / reference,
                if is_fair { format!("{slope:.3}") } else { "-".into() },
            );
        }
        (fewer, below) = (level.devices, level.fair().rate);
    }
    match told {
        Some(Told { at, text: last }) => {
            let _ = write!(text, "\n  last exchange, at {at}: {last}");
        }
        None => text += "\n  no exchange yet",
    }
    text
}
