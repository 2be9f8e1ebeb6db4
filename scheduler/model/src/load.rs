//! The load of a cluster: how many jobs will arrive soon (the throughput model of Lucid: Hu et al., ASPLOS 2023, which boosts such
//! features).
//!
//! Time is divided into bins. The prediction is the mean number of jobs in each of the next bins, from the present one on, and additive:
//!
//! ```text
//! jobs = mean + hour of the day + day of the week + sum over windows of a factor times the mean of the window
//! ```
//!
//! The windows are the bins of the last hour, three hours and day that have ended. Coefficients are those of a ridge regression on the
//! bins of the past, which is kept as its normal equations, so that a bin costs the same whatever the length of the history. A bin is
//! learned when the bins that it is to predict have ended. A day without an arrival is a gap in the record and not a quiet day: bins are
//! counted anew after it. Bins weigh the less, the more jobs arrived in the hour before.

use std::cell::OnceCell;

use nalgebra::{DMatrix, DVector};

use crate::duration::TimeOfWeek;

const HOUR_S: u64 = 3600;
const DAY_S: u64 = 24 * HOUR_S;
/// The windows of recent arrivals, with their names.
const WINDOWS: [(&str, u64); 3] = [("last hour", HOUR_S), ("last 3 hours", 3 * HOUR_S), ("last day", DAY_S)];
/// The places of the coefficients: the mean, 24 hours, seven days, and windows.
const HOUR: usize = 1;
const DAY: usize = HOUR + 24;
const WINDOW: usize = DAY + 7;
const COEFFICIENTS: usize = WINDOW + WINDOWS.len();
/// What is added to the squares of all coefficients but the mean, which shrinks those that few bins tell of.
const RIDGE: f64 = 1.0;
/// The model has no prediction before it has learned the bins of this time.
const LEAST_S: u64 = DAY_S;

/// The bins of a record of arrivals, and the model of them.
#[derive(Clone, Debug)]
pub struct Load {
    bin_s: u64,
    ahead: usize,
    /// Whether times are seconds since 1970, so that they have an hour and a day.
    is_dated: bool,
    /// The number of the first bin since the last gap.
    first: u64,
    /// The jobs up to the start of each bin since `first`, and up to the present one.
    sums: Vec<u64>,
    /// The jobs of the present bin so far.
    open: u64,
    has_begun: bool,
    learned: u64,
    squares: DMatrix<f64>,
    products: DVector<f64>,
    /// Of the bins that were learned so far, when they are asked for. `None` if they do not suffice.
    coefficients: OnceCell<Option<DVector<f64>>>,
}

/// A predicted number of jobs in each of the next bins, and the terms that it is the sum of.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    pub jobs: f64,
    pub terms: Vec<(&'static str, f64)>,
}

/// The errors of predictions, in jobs of a bin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadErrors {
    /// The number of predictions.
    pub bins: u32,
    pub mean_absolute: f64,
    /// The share of the variance that the predictions explain; negative if they are worse than the mean.
    pub r2: f64,
}

impl Load {
    /// A model of bins of this length in seconds, which predicts the next `ahead` of them. Both count as at least 1.
    pub fn new(bin_s: u64, ahead: usize, is_dated: bool) -> Load {
        Load {
            bin_s: bin_s.max(1),
            ahead: ahead.max(1),
            is_dated,
            first: 0,
            sums: vec![0],
            open: 0,
            has_begun: false,
            learned: 0,
            squares: DMatrix::zeros(COEFFICIENTS, COEFFICIENTS),
            products: DVector::zeros(COEFFICIENTS),
            coefficients: OnceCell::new(),
        }
    }

    /// Counts a job that arrives at this time, in seconds. Times do not go back: an earlier one counts as the latest.
    pub fn arrive(&mut self, at_s: u64) {
        self.advance(at_s);
        if !self.has_begun {
            self.has_begun = true;
            self.first = at_s / self.bin_s;
        }
        self.open += 1;
    }

    /// Ends the bins up to this time, in seconds.
    pub fn advance(&mut self, to_s: u64) {
        let to = to_s / self.bin_s;
        if !self.has_begun || to <= self.present() {
            return;
        }
        if (to - self.last_arrival()) * self.bin_s > DAY_S.max(self.bin_s) {
            (self.has_begun, self.sums, self.open) = (false, vec![0], 0);
            return;
        }
        while self.present() < to {
            let sum = self.sums[self.sums.len() - 1];
            self.sums.push(sum + self.open);
            self.open = 0;
            self.learn();
        }
    }

    /// The end of the present bin, in seconds. `None` before the first arrival.
    pub fn bin_ends_s(&self) -> Option<u64> {
        self.has_begun.then(|| (self.present() + 1) * self.bin_s)
    }

    /// The prediction at the start of the present bin. `None` before a day of bins was learned.
    pub fn predict(&self) -> Option<Predicted> {
        if !self.has_begun || self.sums.len() == 1 {
            return None;
        }
        let coefficients = self.coefficients.get_or_init(|| self.solve()).as_ref()?;
        let row = self.row(self.sums.len() - 1);
        let of = |places: std::ops::Range<usize>| -> f64 {
            places.map(|place| coefficients[place] * row[place]).sum()
        };
        let mut terms = vec![("mean", of(0..HOUR))];
        if self.is_dated {
            terms.extend([("hour", of(HOUR..DAY)), ("day", of(DAY..WINDOW))]);
        }
        terms.extend((WINDOW..).zip(WINDOWS).map(|(place, (name, _))| (name, of(place..place + 1))));
        let jobs = terms.iter().map(|(_, jobs)| jobs).sum::<f64>().max(0.0);
        Some(Predicted { jobs, terms })
    }

    /// The baseline: the mean number of jobs of the bins of the last hour that have ended; 0 if none has.
    pub fn recent(&self) -> f64 {
        self.mean_before(self.sums.len() - 1, HOUR_S)
    }

    /// The jobs of the present bin so far, over the bins that are predicted: their mean is not below it.
    pub fn at_least(&self) -> f64 {
        self.open as f64 / self.ahead as f64
    }

    /// The number of the present bin.
    fn present(&self) -> u64 {
        self.first + self.sums.len() as u64 - 1
    }

    /// The last bin with an arrival, or the first.
    fn last_arrival(&self) -> u64 {
        let all = self.sums[self.sums.len() - 1];
        match self.open {
            0 => self.first + self.sums.partition_point(|sum| *sum < all).saturating_sub(1) as u64,
            _ => self.present(),
        }
    }

    /// Learns the bin of which the last one that it predicts has just ended. The first bin since a gap has nothing before it.
    fn learn(&mut self) {
        let Some(bin) = (self.sums.len() - 1).checked_sub(self.ahead).filter(|bin| *bin > 0) else { return };
        let jobs = (self.sums[bin + self.ahead] - self.sums[bin]) as f64 / self.ahead as f64;
        let row = self.row(bin);
        // The variance of a number of arrivals grows with its mean.
        let weight = 1.0 / (1.0 + row[WINDOW]);
        let places: Vec<usize> = (0..COEFFICIENTS).filter(|place| row[*place] != 0.0).collect();
        for &one in &places {
            for &other in &places {
                self.squares[(one, other)] += weight * row[one] * row[other];
            }
            self.products[one] += weight * row[one] * jobs;
        }
        self.learned += 1;
        self.coefficients = OnceCell::new();
    }

    fn solve(&self) -> Option<DVector<f64>> {
        if self.learned * self.bin_s < LEAST_S {
            return None;
        }
        let mut squares = self.squares.clone();
        for place in HOUR..COEFFICIENTS {
            squares[(place, place)] += RIDGE;
        }
        Some(squares.cholesky()?.solve(&self.products))
    }

    /// What is known at the start of a bin, by the places of the coefficients.
    fn row(&self, bin: usize) -> [f64; COEFFICIENTS] {
        let mut row = [0.0; COEFFICIENTS];
        row[0] = 1.0;
        if self.is_dated {
            let time = TimeOfWeek::of_unix_time((self.first + bin as u64) * self.bin_s);
            row[HOUR + usize::from(time.hour)] = 1.0;
            row[DAY + usize::from(time.day)] = 1.0;
        }
        for (place, (_, window_s)) in (WINDOW..).zip(WINDOWS) {
            row[place] = self.mean_before(bin, window_s);
        }
        row
    }

    /// The mean number of jobs of the bins of a window before a bin, as far as there are any since the last gap.
    fn mean_before(&self, bin: usize, window_s: u64) -> f64 {
        let bins = ((window_s / self.bin_s) as usize).clamp(1, bin.max(1)).min(bin);
        let jobs = self.sums[bin] - self.sums[bin - bins];
        if bins == 0 { 0.0 } else { jobs as f64 / bins as f64 }
    }
}

/// Walks through arrivals in order of time, in seconds, and predicts the next bins at the start of each from the time `from_s` on, from
/// the bins before it. Returns the errors of the model and of its baseline, [`Load::recent`], for the same bins. `None` if no bin has
/// both.
pub fn walk_load(arrivals_s: &[u64], from_s: u64, mut load: Load) -> Option<(LoadErrors, LoadErrors)> {
    let (bin_s, ahead) = (load.bin_s, load.ahead as u64);
    let bin_of = |at_s: &u64| at_s / bin_s;
    let (first, last) = (bin_of(arrivals_s.first()?), bin_of(arrivals_s.last()?));
    let mut arrivals = arrivals_s.iter().peekable();
    let (mut model, mut baseline) = (Vec::new(), Vec::new());
    for bin in first..=last {
        load.advance(bin * bin_s);
        // The bins that are predicted have to be in the record.
        if bin * bin_s >= from_s
            && bin + ahead <= last + 1
            && let Some(predicted) = load.predict()
        {
            let from = arrivals_s.partition_point(|at_s| bin_of(at_s) < bin);
            let to = arrivals_s.partition_point(|at_s| bin_of(at_s) < bin + ahead);
            let jobs = (to - from) as f64 / ahead as f64;
            model.push((predicted.jobs, jobs));
            baseline.push((load.recent(), jobs));
        }
        while let Some(at_s) = arrivals.next_if(|at_s| bin_of(at_s) == bin) {
            load.arrive(*at_s);
        }
    }
    Some((errors(&model)?, errors(&baseline)?))
}

fn errors(found: &[(f64, f64)]) -> Option<LoadErrors> {
    if found.is_empty() {
        return None;
    }
    let count = found.len() as f64;
    let mean = found.iter().map(|(_, jobs)| jobs).sum::<f64>() / count;
    let squares = |of: &dyn Fn(&(f64, f64)) -> f64| found.iter().map(|pair| of(pair).powi(2)).sum::<f64>();
    let (left, all) = (squares(&|(predicted, jobs)| predicted - jobs), squares(&|(_, jobs)| jobs - mean));
    Some(LoadErrors {
        bins: found.len() as u32,
        mean_absolute: found.iter().map(|(predicted, jobs)| (predicted - jobs).abs()).sum::<f64>() / count,
        r2: if all > 0.0 { 1.0 - left / all } else { 0.0 },
    })
}

#[cfg(test)]
mod tests;
