//! Estimates the number of launches of a run and its duration.

use record::manifest::{Manifest, Settings};
use schema::{sharing::Sharing, units::Nanos};
use statistics::stop::MIN_REPEATS;

use crate::order;

/// The time of a launch beyond its steady time: start, warm-up, end.
const AROUND_S: f64 = 3.0;

/// The smallest number of launches of each cell, at each of its places in a block.
pub fn fewest_launches(settings: &Settings) -> u32 {
    match settings.ci_percent {
        Some(_) => settings.repeats.max(MIN_REPEATS as u32),
        None => settings.repeats,
    }
}

/// The expected duration of a run, for `--dry-run` and the progress display.
pub fn estimate(manifest: &Manifest) -> Option<Nanos> {
    let seconds = manifest.settings.seconds?;
    let runnable = manifest.cells.iter().filter(|cell| cell.unsupported.is_none()).count() as f64;
    let alone_s = runnable * f64::from(order::passes(manifest.groups.len())) * (seconds + AROUND_S);
    let groups = manifest.groups.iter().filter(|group| group.unsupported.is_none());
    let together_s: f64 = groups
        .map(|group| {
            let members = group.members.len() as f64;
            // Members warm up one after another, and take turns of full length only in sequence.
            let steady_s = if group.sharing == Sharing::Sequential { members * seconds } else { seconds };
            members * AROUND_S + steady_s
        })
        .sum();
    Some(Nanos::from_secs_f64(f64::from(fewest_launches(&manifest.settings)) * (alone_s + together_s)))
}
