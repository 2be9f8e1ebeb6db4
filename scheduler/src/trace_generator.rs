//! Generates traces from a mix of jobs and from distributions of arrivals and lengths. All random numbers come from a seed.

mod mix;
mod nights;
mod recurring;
mod searches;

use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use fastrand::Rng;
use formats::trace::TraceRow;
use statrs::distribution::{ContinuousCDF as _, Exp, LogNormal};

use self::{
    mix::{Drawn, clusters_of, draw},
    recurring::RecurringJob,
};
pub use self::{
    mix::{JobKind, VirtualClusterShare},
    nights::set_nights,
    recurring::Recurring,
    searches::searches,
};

/// The parameters of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    pub mix: Vec<JobKind>,
    /// Empty if jobs have none.
    pub virtual_clusters: Vec<VirtualClusterShare>,
    /// The priorities of jobs, each with its weight. Empty if all have priority 0.
    pub priorities: Vec<(i32, f64)>,
    pub jobs: usize,
    pub arrivals: Arrivals,
    /// The unit of all lengths.
    pub unit: Unit,
    /// No job is longer: lengths beyond it are drawn from those below.
    pub longest: Option<f64>,
    /// Whether the kinds, the lengths of each kind and the virtual clusters of jobs of similar length are stratified samples, so that the
    /// work of all jobs, and of those of each virtual cluster, is almost what is expected. That of a plain sample varies much from seed
    /// to seed if lengths have a long tail.
    pub stratified: bool,
    /// The recurring jobs of which jobs are instances. `None` if each job is like no other.
    pub recurring: Option<Recurring>,
    pub seed: u64,
}

/// The arrivals of jobs.
#[derive(Clone, Debug, PartialEq)]
pub enum Arrivals {
    /// A Poisson process with this mean time between arrivals.
    Poisson { mean_gap_s: f64 },
    /// The arrivals of another trace, in order.
    Replayed(Vec<f64>),
}

/// The lengths of jobs: their distribution and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length {
    pub distribution: Distribution,
    pub unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    Fixed(f64),
    Exponential {
        mean: f64,
    },
    /// The logarithm of a length is normal with standard deviation `sigma`. The lengths of jobs in clusters have similarly long
    /// tails.
    LogNormal {
        median: f64,
        sigma: f64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Steps,
    /// The time of the job alone on what it asks for.
    Seconds,
}

/// The random numbers of a trace, as streams for gaps, kinds, lengths, virtual clusters, priorities, recurring jobs, and places in strata.
fn streams(seed: u64) -> [Rng; 7] {
    let mut seed = Rng::with_seed(seed);
    std::array::from_fn(|_| seed.fork())
}

/// The jobs of a trace. Each becomes a line when it is asked for: the lines of a million jobs take half a gigabyte.
pub struct DrawnTrace<'a> {
    recipe: &'a Recipe,
    jobs: Vec<DrawnJob>,
}

struct DrawnJob {
    submit_s: f64,
    steps: u64,
    /// The kind in the mix.
    kind: usize,
    recurring: Option<RecurringJob>,
    virtual_cluster: u32,
    priority: i32,
}

/// Draws a trace. If lengths are times, `step_ns` gives the time of a step of a kind of job alone.
///
/// Arrivals, mix, lengths, virtual clusters, priorities and recurring jobs have separate streams of random numbers, so that a change of
/// arrivals alone keeps the jobs and their lengths.
///
/// # Errors
/// Fails if there are fewer arrivals to replay than jobs, if every length of a kind is above the longest, if no virtual cluster takes a
/// kind, and if `step_ns` fails.
pub fn make(
    recipe: &Recipe,
    step_ns: impl Fn(&TraceRow) -> anyhow::Result<f64>,
) -> anyhow::Result<DrawnTrace<'_>> {
    let [mut gaps, mut mix, mut lengths, mut virtual_clusters, mut priorities, recurring, mut strata] =
        streams(recipe.seed);
    let steps_ns: Vec<f64> = match recipe.unit {
        Unit::Steps => vec![1.0; recipe.mix.len()],
        Unit::Seconds => recipe.mix.iter().map(|kind| step_ns(&kind.row)).collect::<anyhow::Result<_>>()?,
    };
    if let Arrivals::Replayed(times) = &recipe.arrivals {
        ensure!(
            recipe.jobs <= times.len(),
            "{} jobs need as many arrivals, but there are {} arrivals to replay",
            recipe.jobs,
            times.len()
        );
    }
    // Of each kind, the part of the distribution that is not longer than the longest job.
    let most = |kind: &JobKind| recipe.longest.map_or(1.0, |longest| kind.lengths.part_up_to(longest));
    let most: Vec<f64> = recipe.mix.iter().map(most).collect();
    ensure!(most.iter().all(|most| *most > 0.0), "no length of a distribution is within the longest");
    let clusters = recipe.mix.iter().map(|kind| clusters_of(kind, &recipe.virtual_clusters));
    let clusters: Vec<Vec<f64>> = clusters.collect::<anyhow::Result<_>>()?;
    let of_kinds: Vec<f64> = recipe.mix.iter().map(|kind| kind.weight).collect();
    let of_priorities: Vec<f64> = recipe.priorities.iter().map(|(_, weight)| *weight).collect();
    let mut recurring = recipe.recurring.map(|of| {
        let of_jobs = of.seed.map(|seed| {
            let [.., jobs, _] = streams(seed);
            jobs
        });
        recurring::Instances::new(of, &recipe.mix, recurring, of_jobs)
    });
    let of_mix = match recipe.stratified {
        true => mix::strata(recipe.jobs, &mut strata),
        false => (0..recipe.jobs).map(|_| mix.f64()).collect(),
    };
    let job = |chance: f64| {
        let (kind, part) = (draw(&of_kinds, chance), lengths.f64());
        let instance = recurring.as_mut().map(|recurring| recurring.instance(kind, part));
        Drawn {
            kind,
            part: instance.as_ref().map_or(part, |of| of.part),
            cluster: virtual_clusters.f64(),
            recurring: instance.map(|of| of.job),
        }
    };
    let mut drawn: Vec<Drawn> = of_mix.into_iter().map(job).collect();
    if recipe.stratified {
        mix::spread_evenly(&mut drawn, recipe.mix.len(), &mut strata);
    }
    let mut submit_s = 0.0;
    let job = |(number, Drawn { kind, part, cluster, recurring }): (usize, Drawn)| {
        let virtual_cluster = draw(&clusters[kind], cluster) as u32;
        let priority = recipe.priorities.get(draw(&of_priorities, priorities.f64()));
        let length = recipe.mix[kind].lengths.at(most[kind] * part);
        let steps = match recipe.unit {
            Unit::Steps => length,
            Unit::Seconds => length * 1e9 / steps_ns[kind],
        };
        match &recipe.arrivals {
            Arrivals::Replayed(times) => submit_s = times[number],
            // The first arrives when the trace begins.
            Arrivals::Poisson { .. } if number == 0 => {}
            Arrivals::Poisson { mean_gap_s } => {
                submit_s += Distribution::Exponential { mean: *mean_gap_s }.at(gaps.f64());
            }
        }
        DrawnJob {
            submit_s: in_ms(submit_s),
            steps: (steps.round() as u64).max(1),
            kind,
            recurring,
            virtual_cluster,
            priority: priority.map_or(0, |(priority, _)| *priority),
        }
    };
    Ok(DrawnTrace { recipe, jobs: drawn.into_iter().enumerate().map(job).collect() })
}

impl DrawnTrace<'_> {
    /// The lines of the trace.
    pub fn rows(&self) -> impl Iterator<Item = TraceRow> {
        self.jobs.iter().enumerate().map(|(number, job)| self.row(number, job))
    }

    fn row(&self, number: usize, job: &DrawnJob) -> TraceRow {
        let &DrawnJob { submit_s, steps, kind, recurring, virtual_cluster, priority } = job;
        let virtual_cluster = self.recipe.virtual_clusters.get(virtual_cluster as usize);
        let row = &self.recipe.mix[kind].row;
        let workload = row.job.as_ref().map_or("job", |job| &job.workload);
        TraceRow {
            name: format!("{workload}-{number}"),
            submit_s,
            steps: Some(steps),
            vc: virtual_cluster.map(|share| share.name.clone()).unwrap_or_default(),
            priority,
            recurring_job: recurring.map(|of| format!("job-{kind}-{}", of.number)),
            user: recurring.map(|of| format!("user-{}", of.user)).unwrap_or_default(),
            ..row.clone()
        }
    }
}

/// Sets the date of an arrival in a trace that starts at this date and time, to the second.
pub fn set_date(row: &mut TraceRow, start: SystemTime) {
    let at = start + Duration::from_secs_f64(row.submit_s);
    row.submit_utc = Some(humantime::format_rfc3339_seconds(at).to_string());
}

impl Distribution {
    /// The quantile function: the length that this share of all jobs does not exceed. Each length is drawn from one random number
    /// by it.
    fn at(self, part: f64) -> f64 {
        match self {
            Distribution::Fixed(length) => length,
            Distribution::Exponential { mean } => {
                Exp::new(1.0 / mean).expect("a mean is above 0").inverse_cdf(part)
            }
            Distribution::LogNormal { median, sigma } => LogNormal::new(median.ln(), sigma)
                .expect("a median and a sigma are above 0")
                .inverse_cdf(part),
        }
    }

    /// The share of all jobs that are not longer.
    fn part_up_to(self, length: f64) -> f64 {
        match self {
            Distribution::Fixed(fixed) => f64::from(fixed <= length),
            Distribution::Exponential { mean } => {
                Exp::new(1.0 / mean).expect("a mean is above 0").cdf(length)
            }
            Distribution::LogNormal { median, sigma } => {
                LogNormal::new(median.ln(), sigma).expect("a median and a sigma are above 0").cdf(length)
            }
        }
    }
}

impl Unit {
    /// Parses a length of this unit: a time such as `30s`, or a number of steps.
    ///
    /// # Errors
    /// Fails if the text is neither, or of the other unit.
    pub fn parse(self, text: &str) -> anyhow::Result<f64> {
        let length = size(text).filter(|(length, unit)| *length > 0.0 && *unit == self);
        let wanted = match self {
            Unit::Steps => "a number of steps, such as 1000",
            Unit::Seconds => "a time, such as 30s",
        };
        let (length, _) =
            length.with_context(|| format!("--longest '{text}': write {wanted}, as in --length"))?;
        Ok(length)
    }
}

/// A time or a number of steps.
fn size(text: &str) -> Option<(f64, Unit)> {
    match text.parse::<u32>() {
        Ok(steps) => Some((f64::from(steps), Unit::Steps)),
        Err(_) => Some((humantime::parse_duration(text).ok()?.as_secs_f64(), Unit::Seconds)),
    }
}

impl std::str::FromStr for Length {
    type Err = String;

    /// Parses a distribution such as `fixed:30s`, `exponential:1000` or `log-normal:10m:1.5`. The first number is a time or a
    /// number of steps: the length, the mean of an exponential distribution, or the median of a log-normal one. The second is the
    /// standard deviation of the logarithm.
    fn from_str(text: &str) -> Result<Length, String> {
        let wrong = || {
            format!(
                "'{text}' is no distribution; write fixed:L, exponential:MEAN or log-normal:MEDIAN:SIGMA, with times such as 30s \
                 or numbers of steps such as 1000"
            )
        };
        let (name, sizes) = text.split_once(':').ok_or_else(wrong)?;
        let (first, sigma) =
            sizes.split_once(':').map_or((sizes, None), |(first, sigma)| (first, Some(sigma)));
        let (size, unit) = size(first).filter(|(size, _)| *size > 0.0).ok_or_else(wrong)?;
        let sigma =
            sigma.map(|sigma| sigma.parse::<f64>().ok().filter(|sigma| *sigma > 0.0 && sigma.is_finite()));
        let distribution = match (name, sigma) {
            ("fixed", None) => Distribution::Fixed(size),
            ("exponential", None) => Distribution::Exponential { mean: size },
            ("log-normal", Some(Some(sigma))) => Distribution::LogNormal { median: size, sigma },
            _ => return Err(wrong()),
        };
        Ok(Length { distribution, unit })
    }
}

/// The multiplication of all arrivals and lengths of a trace by a factor.
///
/// A number of steps is rounded, and is at least 1. If the trace has the time of a step, this time takes up the rounding, so that
/// the length is exact to half a nanosecond per step. Otherwise it is exact to half a step, except for the jobs that are counted,
/// whose scaled length is below half a step.
#[derive(Clone, Copy, Debug)]
pub struct TimeScale {
    factor: f64,
    /// The number of jobs of the trace.
    pub jobs: usize,
    /// The number of jobs that are longer than they should be by more than half a step.
    pub too_long: usize,
}

impl TimeScale {
    /// # Errors
    /// Fails if a job has no number of steps, such as a command that runs until it ends.
    pub fn new(rows: impl Iterator<Item = TraceRow>, factor: f64) -> anyhow::Result<TimeScale> {
        let mut scale = TimeScale { factor, jobs: 0, too_long: 0 };
        for row in rows {
            let Some(steps) = row.steps else {
                bail!("{} has no number of steps, so that --time-scale cannot scale its length", row.name)
            };
            scale.jobs += 1;
            scale.too_long += usize::from(row.step_ns.is_none() && steps as f64 * factor < 0.5);
        }
        Ok(scale)
    }

    /// Scales the arrival and the length of a job.
    pub fn scale(self, row: &mut TraceRow) {
        row.submit_s = in_ms(row.submit_s * self.factor);
        let Some(steps) = &mut row.steps else { return };
        let exact = *steps as f64 * self.factor;
        *steps = (exact.round() as u64).max(1);
        if let Some(step_ns) = &mut row.step_ns {
            *step_ns = ((*step_ns as f64 * (exact / *steps as f64)).round() as u64).max(1);
        }
    }
}

/// The scale of arrivals with which work arrives at a load.
#[derive(Clone, Copy, Debug)]
pub struct LoadScale {
    first_s: f64,
    factor: f64,
}

impl LoadScale {
    /// The scale with which, between the first and the last arrival, work arrives at `load` times the capacity of `devices` devices.
    ///
    /// # Errors
    /// Fails if the length of a job is not known, or if all jobs arrive at the same time.
    pub fn new(
        rows: impl Iterator<Item = TraceRow>,
        load: f64,
        devices: u32,
        step_ns: impl Fn(&TraceRow) -> anyhow::Result<f64>,
    ) -> anyhow::Result<LoadScale> {
        let (mut first_s, mut last_s) = (None, 0.0);
        let device_s = |row: TraceRow| {
            let Some(steps) = row.steps else {
                bail!("{} has no number of steps, so that its load is not known", row.name)
            };
            first_s.get_or_insert(row.submit_s);
            last_s = row.submit_s;
            Ok(steps as f64 * step_ns(&row)? / 1e9 * f64::from(row.devices()))
        };
        let work_s = rows.map(device_s).sum::<anyhow::Result<f64>>()?;
        let first_s = first_s.unwrap_or(last_s);
        let span_s = last_s - first_s;
        ensure!(span_s > 0.0, "all jobs arrive at once, so that no scale gives a load; remove --load");
        Ok(LoadScale { first_s, factor: work_s / (load * f64::from(devices)) / span_s })
    }

    /// Scales an arrival.
    pub fn scale(self, row: &mut TraceRow) {
        row.submit_s = in_ms((row.submit_s - self.first_s) * self.factor);
    }
}

/// Rounds a time to milliseconds, which is precise enough for a trace and keeps its lines short.
fn in_ms(seconds: f64) -> f64 {
    (seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
