//! What Lucid says of a job: its stage, its class with the path through the tree, its estimate with the terms of the model, its place in
//! the queue, and why it is packed or not.

use std::fmt::Write as _;

use engine::{
    cluster::JobId,
    job::{Phase, State},
    view::View,
};
use model::Classified;

use super::Lucid;
use crate::kit::belief::{self, Length};

/// The explanation for a job that has arrived. Empty if it has ended.
pub(super) fn text(lucid: &Lucid, view: &View<'_>, job: JobId) -> String {
    let state = &view.job(job).state;
    if matches!(state, State::Ended { .. }) || lucid.parts.is_empty() {
        return String::new();
    }
    let mut says = Vec::new();
    says.extend(of_stage(lucid, view, job));
    says.push(of_class(lucid, view, job));
    says.push(of_estimate(lucid, view, job));
    says.extend(of_queue(lucid, view, job));
    says.extend(of_pack(lucid, view, job));
    says.push(lucid.switch.why());
    says.join("; ")
}

fn of_stage(lucid: &Lucid, view: &View<'_>, job: JobId) -> Option<String> {
    let (stage, settings) = (&lucid.common.stage, &lucid.common.settings);
    let placed = view.job(job).placed();
    if let Some((place, all)) = stage.place_of(view, job) {
        Some(format!(
            "it is number {place} of {all} before the profiler stage, by devices and then by arrival"
        ))
    } else if stage.is_inside(job) {
        let since = placed.filter(|placed| placed.phase == Phase::Running).map(|placed| placed.since);
        let until =
            since.map(|since| format!(", until {} if it does not end before", since + settings.profile));
        Some(format!("it is in the profiler stage{}", until.unwrap_or_default()))
    } else if stage.has_profiled(job) {
        Some("it has been profiled".into())
    } else if stage.nodes().is_empty() {
        None
    } else if settings.is_profiling_free {
        Some("it counts as profiled, without a charge".into())
    } else {
        let (devices, most) = (view.request(job).devices, settings.profile_devices);
        Some(format!(
            "it is not profiled: it asks for {devices} devices, and the stage is for up to {most} of one node"
        ))
    }
}

fn of_class(lucid: &Lucid, view: &View<'_>, job: JobId) -> String {
    let known = belief::classified(view, job);
    match (lucid.common.stage.knows(&lucid.common.settings, job), known) {
        (true, Some(Classified { class, path })) if path.is_empty() => format!("its class is {class:?}"),
        (true, Some(Classified { class, path })) => format!("its class is {class:?}: {}", path.join(", ")),
        (true, None) => "its class is not known, so that it is not packed".into(),
        (false, _) => "its class is not known before it is profiled, so that it is not packed".into(),
    }
}

fn of_estimate(lucid: &Lucid, view: &View<'_>, job: JobId) -> String {
    let estimates = &lucid.common.estimates;
    let Length(time) = match estimates.first_of(job) {
        Length::UNKNOWN => return "nothing is known of how long it runs".into(),
        known => known,
    };
    let mut text = format!("it is estimated to run for {:.0} s", time.as_secs_f64());
    if let Some((mean_s, terms)) = estimates.terms(view, job) {
        let _ = write!(text, ": the {mean_s:.0} s of the mean job");
        for (features, factor) in &terms {
            let _ = write!(text, ", times {factor:.2} for {features}");
        }
        let now_s = terms.iter().map(|(_, factor)| factor).product::<f64>() * mean_s;
        if (now_s / time.as_secs_f64() - 1.0).abs() > 0.005 {
            let _ = write!(text, ", which is {now_s:.0} s by now");
        }
    }
    let corrected = estimates.of(view, job);
    if corrected != Length(time) {
        let Length(corrected) = corrected;
        let _ =
            write!(text, "; it has run for longer, and is taken to run for {:.0} s", corrected.as_secs_f64());
    }
    text
}

fn of_queue(lucid: &Lucid, view: &View<'_>, job: JobId) -> Option<String> {
    let (place, all, waits_too_long) = lucid.parts[super::part_of(view, job)].place_of(job)?;
    let devices = view.request(job).devices;
    let priority = match lucid.common.estimates.of(view, job) {
        Length::UNKNOWN => "not known".into(),
        Length(time) => format!("{:.0} device-seconds", time.as_secs_f64() * f64::from(devices)),
    };
    let mut text = format!("its priority is {priority}, and it is number {place} of {all} in the queue");
    if let Some(bound) = lucid.common.settings.bound.filter(|_| waits_too_long) {
        let _ = write!(text, ", as it has waited for more than {bound} and others wait for it");
    }
    Some(text)
}

fn of_pack(lucid: &Lucid, view: &View<'_>, job: JobId) -> Option<String> {
    let common = &lucid.common;
    if let Some(pack) = common.packs.of(job) {
        let names: Vec<&str> = pack.beside(job).map(|other| &*view.request(other).name).collect();
        let measured = pack.measured_at_most();
        let measured = measured.map(|sum| format!(", {sum:.3} times taking turns at most, as measured"));
        return Some(format!("it is packed with {}{}", names.join(", "), measured.unwrap_or_default()));
    }
    let refusals = lucid.parts[super::part_of(view, job)].refusals(view, common, job)?;
    if refusals.is_empty() {
        return Some("no job that runs alone on as many devices may be joined".into());
    }
    let counts: Vec<String> = refusals.iter().map(|(why, jobs)| format!("{jobs} {why}")).collect();
    Some(format!("of the jobs that run alone on as many devices, it joins none: {}", counts.join(", ")))
}
