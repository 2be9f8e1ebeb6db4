//! What jobs are drawn from: the kinds of jobs and the virtual clusters, each with its weight.

use std::{ops::RangeInclusive, str::FromStr};

use anyhow::{Context as _, ensure};
use fastrand::Rng;
use formats::trace::TraceRow;

use super::{Distribution, recurring::RecurringJob};

/// A kind of job that can be drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct JobKind {
    /// A line without a name, a time and steps.
    pub row: TraceRow,
    /// The weight in the draw, above 0.
    pub weight: f64,
    pub lengths: Distribution,
}

/// A virtual cluster of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct VirtualClusterShare {
    pub name: String,
    /// The weight in the draw, above 0.
    pub weight: f64,
    /// The numbers of devices of its jobs.
    pub devices: RangeInclusive<u32>,
}

/// The weights of the virtual clusters for a kind of job: 0 for those that do not take it.
///
/// # Errors
/// Fails if there are virtual clusters and none takes jobs of this size.
pub(super) fn clusters_of(kind: &JobKind, shares: &[VirtualClusterShare]) -> anyhow::Result<Vec<f64>> {
    let devices = kind.row.devices();
    let weight = |share: &VirtualClusterShare| {
        if share.devices.contains(&devices) { share.weight } else { 0.0 }
    };
    let weights: Vec<f64> = shares.iter().map(weight).collect();
    ensure!(
        shares.is_empty() || weights.iter().any(|weight| *weight > 0.0),
        "no virtual cluster of --vc takes jobs of {devices} devices; widen the range of one"
    );
    Ok(weights)
}

/// The place that belongs to a number from 0 up to 1, by weights of which some are above 0.
pub(super) fn draw(weights: &[f64], chance: f64) -> usize {
    let mut left = chance * weights.iter().sum::<f64>();
    let found = weights.iter().position(|weight| {
        left -= weight;
        left < 0.0
    });
    // By rounding errors of the sum the search may find no place. The last one is then meant.
    found.or_else(|| weights.iter().rposition(|weight| *weight > 0.0)).unwrap_or_default()
}

/// A job before its length is known.
pub(super) struct Drawn {
    pub(super) kind: usize,
    /// The share of all jobs that are not longer.
    pub(super) part: f64,
    /// A number from 0 up to 1, which chooses the virtual cluster.
    pub(super) cluster: f64,
    /// The recurring job of which it is an instance.
    pub(super) recurring: Option<RecurringJob>,
}

/// A random number of each `n`th of those from 0 up to 1, in random order (a stratified sample).
pub(super) fn strata(n: usize, rng: &mut Rng) -> Vec<f64> {
    let mut places: Vec<usize> = (0..n).collect();
    rng.shuffle(&mut places);
    places.into_iter().map(|place| (place as f64 + rng.f64()) / n as f64).collect()
}

/// Spreads the parts of the jobs of each kind evenly: the shortest of `n` jobs has a part up to `1 / n`, the next one up to `2 / n`, and so
/// on. Jobs of about the same length are spread evenly over the virtual clusters: their numbers are multiples of the golden ratio, which
/// are evenly distributed in every stretch of them (a Kronecker sequence).
pub(super) fn spread_evenly(drawn: &mut [Drawn], kinds: usize, rng: &mut Rng) {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    for kind in 0..kinds {
        let mut of_kind: Vec<&mut Drawn> = drawn.iter_mut().filter(|drawn| drawn.kind == kind).collect();
        of_kind.sort_by(|a, b| a.part.total_cmp(&b.part));
        let count = of_kind.len() as f64;
        let start = rng.f64();
        for (drawn, rank) in of_kind.into_iter().zip(0u32..) {
            drawn.part = (f64::from(rank) + rng.f64()) / count;
            drawn.cluster = (start + f64::from(rank) * GOLDEN).fract();
        }
    }
}

impl FromStr for VirtualClusterShare {
    type Err = anyhow::Error;

    /// Parses `NAME[=WEIGHT][:DEVICES]`, where `DEVICES` is the largest number or a range.
    fn from_str(text: &str) -> anyhow::Result<VirtualClusterShare> {
        let (share, devices) = match text.rsplit_once(':') {
            Some((share, sizes)) => {
                let (least, most) = sizes.split_once("..").unwrap_or(("1", sizes));
                let range = least.parse().ok().zip(most.parse().ok()).map(|(least, most)| least..=most);
                let range = range.filter(|range| !range.is_empty() && !range.contains(&0));
                (
                    share,
                    range.context(
                        "write the numbers of devices after the colon, such as a=3:16 or a=3:16..128",
                    )?,
                )
            }
            None => (text, 1..=u32::MAX),
        };
        let (name, weight) = match share.rsplit_once('=') {
            Some((name, weight)) => {
                let weight = weight.parse().ok().filter(|weight: &f64| *weight > 0.0 && weight.is_finite());
                (name, weight.context("write a weight above 0 after the equals sign, such as a=3")?)
            }
            None => (share, 1.0),
        };
        ensure!(!name.is_empty(), "write a name before the weight, such as a=3");
        Ok(VirtualClusterShare { name: name.into(), weight, devices })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_its_place_by_the_weights() {
        let weights = [1.0, 0.0, 2.0, 1.0, 0.0];
        for (chance, place) in [(0.0, 0), (0.249, 0), (0.25, 2), (0.749, 2), (0.75, 3), (0.999, 3), (1.0, 3)]
        {
            assert_eq!(draw(&weights, chance), place, "{chance}");
        }
        assert_eq!(draw(&[], 0.5), 0);
    }

    #[test]
    fn every_stretch_of_lengths_is_spread_over_virtual_clusters() {
        let mut rng = Rng::with_seed(1);
        let job = |_| Drawn { kind: 0, part: rng.f64(), cluster: 0.0, recurring: None };
        let mut drawn: Vec<Drawn> = (0..1000).map(job).collect();
        spread_evenly(&mut drawn, 1, &mut rng);
        drawn.sort_by(|a, b| a.part.total_cmp(&b.part));
        for (place, job) in drawn.iter().enumerate() {
            assert_eq!((job.part * 1000.0) as usize, place);
        }
        for stretch in drawn.windows(20) {
            let first = stretch.iter().filter(|job| draw(&[3.0, 1.0], job.cluster) == 0).count();
            assert!((14..=16).contains(&first), "{first} of 20");
        }
    }

    #[test]
    fn virtual_clusters_are_spelled_with_weight_and_size() {
        let share = |name: &str, weight, devices| VirtualClusterShare { name: name.into(), weight, devices };
        for (text, expected) in [
            ("a", share("a", 1.0, 1..=u32::MAX)),
            ("a=0.5", share("a", 0.5, 1..=u32::MAX)),
            ("a:16", share("a", 1.0, 1..=16)),
            ("a=3:16", share("a", 3.0, 1..=16)),
            ("a=3:16..128", share("a", 3.0, 16..=128)),
        ] {
            assert_eq!(text.parse::<VirtualClusterShare>().unwrap(), expected);
        }
        for (text, message) in [
            ("=3", "write a name before the weight"),
            ("a=0", "write a weight above 0"),
            ("a=3:many", "write the numbers of devices after the colon"),
            ("a:0", "write the numbers of devices after the colon"),
            ("a:0..4", "write the numbers of devices after the colon"),
            ("a:8..4", "write the numbers of devices after the colon"),
        ] {
            let error = text.parse::<VirtualClusterShare>().unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
