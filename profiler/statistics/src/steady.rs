//! Where a launch's steady state begins and ends.
//!
//! A fixed number of warm-up steps is too many for one job and too few for another, so the start
//! is found in the step times themselves: by change points on the logarithm of step time, where a
//! change by some percentage is equally large whatever the step. The classes follow E. Barrett et
//! al., "Virtual Machine Warmup Blows Hot and Cold", OOPSLA 2017, arXiv 1602.00602.

use crate::noise::{block_medians, long_run_variance, running_median};
use crate::order::{median_in_place, robust_deviation};
use crate::pelt;
use crate::warm_up;

/// Launches of fewer steps are not judged.
pub const MIN_STEPS: usize = 20;

/// Logarithmic levels closer than this, about 1 %, are one level even where noise is so low that
/// they can be told apart.
const EQUIVALENT: f64 = 0.01;

/// The last level must hold for this share of the steps to be the steady state; without one, this share of
/// steps is the window.
const STEADY_SHARE: f64 = 0.5;

/// A level that holds for at most this share of the steps is an interruption (an evaluation, a
/// checkpoint, another program's moment) if the level before it returns or the launch ends.
const INTERRUPTION_SHARE: f64 = 0.05;

/// The window of the running median. No segment is shorter, since the filter cannot show one.
const FILTER_STEPS: usize = 5;

/// Longer launches are searched on at most this number of block medians: the search takes quadratic time
/// where nothing changes, and a start known to one step in two thousand is known well enough.
const MAX_POINTS: usize = 2_000;

/// The penalty of a change, in units of the noise's long-run variance times ln n, for a long
/// launch. Tuned on flat launches of AR(1) noise, so that fewer than 1 in 100 of 60 steps or more
/// are given a change at coefficients up to 0.6, and of 300 steps or more at 0.9.
const STRICTNESS: f64 = 3.0;

/// At this number of points the penalty is twice that of a long launch. In a short one the noise is judged
/// on few and short blocks, where it comes out low if it is strongly correlated.
const FEW_POINTS: f64 = 200.0;

/// Noise is taken to be at least 0.01 %, so that exactly equal steps do not make every
/// rounding of the clock a change.
const MIN_VARIANCE: f64 = 1e-8;

/// First steps farther than this many standard deviations from the level are cold-start steps.
const COLD_DEVIATIONS: f64 = 5.0;

/// The course of step time over a launch, from the most to the least reliable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// One level from the first step on.
    #[default]
    Flat,
    /// The steady state is the fastest level of the launch, or as fast.
    WarmUp,
    /// The launch had been faster before, for example until a queue filled up or a clock went down.
    Slowdown,
    /// The last level holds for less than half of the steps.
    NoSteadyState,
    /// Fewer than [`MIN_STEPS`] steps.
    TooShort,
}

impl Class {
    /// Whether the window is a steady state, and not merely the best available one.
    pub fn is_steady(self) -> bool {
        matches!(self, Class::Flat | Class::WarmUp | Class::Slowdown)
    }
}

/// The steps to measure: those from `start` up to, not including, `end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steady {
    /// How the launch got to the window, or why the window is not a steady state.
    pub class: Class,
    /// The first steady step, counted from 0.
    pub start: usize,
    /// One past the last steady step.
    pub end: usize,
}

impl Steady {
    /// [`Class::is_steady`] of its class.
    pub fn is_steady(&self) -> bool {
        self.class.is_steady()
    }
}

/// Finds the steady state in the step times of one launch, given in order of execution.
///
/// Without a steady state the window is the last half of the steps, the shortest that could have been one: a level that
/// came later may as well be another program's moment as the state that is to come. For [`Class::TooShort`] it is every
/// step; [`of_launch`] leaves out those that are cold.
/// A pattern that repeats many times in a launch, such as a slow step in every ten, is part of
/// its steady state: it widens the interval and does not move the window. A strongly correlated wander
/// in a short launch cannot be told from a change: at an AR(1) coefficient of 0.9, 1 in 6 flat launches
/// of 30 steps is given one.
pub fn detect(step_ns: &[u64]) -> Steady {
    let n = step_ns.len();
    if n < MIN_STEPS {
        return Steady { class: Class::TooShort, start: 0, end: n };
    }
    // A step of 0 ns is below the clock's resolution, and has no logarithm.
    let log_steps: Vec<f64> = step_ns.iter().map(|&step| (step.max(1) as f64).ln()).collect();
    let levels = Levels::find(&log_steps);
    let (last, earlier) = levels.found.split_last().expect("a launch with steps has a level");
    let cold_steps = last.cold_steps(&log_steps);
    let start = last.start + cold_steps;

    let cold = (cold_steps > 0).then(|| Level::of(&log_steps, last.start, start));
    let was_faster = |level: &Level| level.height < last.height && !levels.are_one(level, last);
    if !holds_enough(last.end - start, n) {
        let window = (STEADY_SHARE * n as f64).ceil() as usize;
        return Steady { class: Class::NoSteadyState, start: n - window, end: n };
    }
    let class = if start == 0 {
        Class::Flat
    } else if earlier.iter().chain(&cold).any(was_faster) {
        Class::Slowdown
    } else {
        Class::WarmUp
    };
    Steady { class, start, end: last.end }
}

/// Finds the steady state of a job without an earlier warm-up, such as a job alone.
///
/// If there are too few steps to judge, those of the [`warm_up`] are left out. If the launch ends before
/// the warm-up does, the window is its last half, as without a steady state.
pub fn of_launch(step_ns: &[u64]) -> Steady {
    let found = detect(step_ns);
    if found.class != Class::TooShort {
        return found;
    }
    let warm = warm_up::steps(step_ns).filter(|&steps| steps < step_ns.len());
    Steady { start: warm.unwrap_or(step_ns.len() / 2), ..found }
}

/// Consecutive steps of about the same time.
#[derive(Debug, Clone, Copy)]
struct Level {
    start: usize,
    end: usize,
    /// The median of the logarithm of step time.
    height: f64,
}

impl Level {
    fn of(log_steps: &[f64], start: usize, end: usize) -> Self {
        Self { start, end, height: median_in_place(&mut log_steps[start..end].to_vec()) }
    }

    fn steps(&self) -> usize {
        self.end - self.start
    }

    /// The number of first steps that do not belong to the level.
    ///
    /// The running median hides up to two wild steps, and the first step of a training job is
    /// exactly such a step: it allocates, compiles and picks kernels. It also leaves a boundary
    /// uncertain by as much.
    fn cold_steps(&self, log_steps: &[f64]) -> usize {
        let steps = &log_steps[self.start..self.end];
        let deviation = robust_deviation(&mut steps.to_vec());
        let far = EQUIVALENT.max(COLD_DEVIATIONS * deviation);
        steps.iter().take_while(|&step| (step - self.height).abs() > far).count()
    }
}

/// The levels of a launch, in order, and the threshold for two of them to differ.
struct Levels {
    found: Vec<Level>,
    /// The sum of squares over steps that a change must explain.
    penalty: f64,
    longest_interruption: usize,
}

impl Levels {
    fn find(log_steps: &[f64]) -> Self {
        let n = log_steps.len();
        let block = n.div_ceil(MAX_POINTS);
        let points = block_medians(&running_median(log_steps, FILTER_STEPS), block);
        let count = points.len() as f64;
        let variance = long_run_variance(&points).max(MIN_VARIANCE);
        let penalty = STRICTNESS * (1.0 + FEW_POINTS / count) * variance * count.ln();
        let starts: Vec<usize> =
            pelt::segment(&points, FILTER_STEPS, penalty).into_iter().map(|start| start * block).collect();

        let ends = starts.iter().copied().skip(1).chain([n]);
        let found = starts.iter().zip(ends).map(|(&start, end)| Level::of(log_steps, start, end));
        let mut levels = Self {
            found: found.collect(),
            penalty: penalty * block as f64,
            longest_interruption: ((INTERRUPTION_SHARE * n as f64) as usize).max(FILTER_STEPS * block),
        };
        levels.merge(log_steps);
        levels.drop_interrupted_end(n);
        levels
    }

    /// Whether two levels are equivalent, or differ by no more than a change's penalty.
    fn are_one(&self, a: &Level, b: &Level) -> bool {
        let distance = (a.height - b.height).abs();
        let (a_steps, b_steps) = (a.steps() as f64, b.steps() as f64);
        // The sum of squares that two means explain over one common mean, as in an analysis of variance.
        let explained = distance.powi(2) * a_steps * b_steps / (a_steps + b_steps);
        distance < EQUIVALENT || explained < self.penalty
    }

    /// Merges levels that are one, neighbours or on both sides of an interruption.
    ///
    /// The closest two go first and the merged level is measured anew, so that a slow drift, every
    /// step of which is small, does not end up as one level.
    fn merge(&mut self, log_steps: &[f64]) {
        loop {
            let neighbours = self.found.windows(2).zip(0..).map(|(pair, at)| (pair, at, at + 1));
            let interrupted = self
                .found
                .windows(3)
                .zip(0..)
                .filter(|(triple, _)| triple[1].steps() <= self.longest_interruption)
                .map(|(triple, at)| (triple, at, at + 2));
            let closest = neighbours
                .chain(interrupted)
                .map(|(run, first, last)| (run[0], run[run.len() - 1], first, last))
                .filter(|(a, b, ..)| self.are_one(a, b))
                .min_by(|(a, b, ..), (c, d, ..)| {
                    let distance = (a.height - b.height).abs();
                    distance.total_cmp(&(c.height - d.height).abs())
                });
            let Some((a, b, first, last)) = closest else { return };
            self.found.splice(first..=last, [Level::of(log_steps, a.start, b.end)]);
        }
    }

    /// Leaves out a change just before the end of a steady launch, because it is too late to tell whether
    /// it would have lasted.
    fn drop_interrupted_end(&mut self, steps: usize) {
        let is_long = |level: &Level| steps - level.start > self.longest_interruption;
        let last_long = self.found.iter().rposition(is_long);
        if let Some(at) = last_long.filter(|&at| holds_enough(self.found[at].steps(), steps)) {
            self.found.truncate(at + 1);
        }
    }
}

/// Whether a window of this number of steps can be the steady state of a launch.
fn holds_enough(window_steps: usize, launch_steps: usize) -> bool {
    window_steps as f64 >= STEADY_SHARE * launch_steps as f64
}
