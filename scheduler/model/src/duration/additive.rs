//! An additive model of durations with pairwise terms (GA2M; Lou et al., KDD 2013; used by Lucid, Hu et al., ASPLOS 2023):
//!
//! ```text
//! ln(duration in s) = mean + sum over terms of the shape of the term at the levels of the job
//! ```
//!
//! A term is a feature of a job, such as its user, or a pair of features; its shape has a value for each level that was seen, such as each
//! user, and 0 for others. Features are the user, the recurring job, the virtual cluster, the workload, the devices, the hour and the day
//! of the week, and how long the last job of the same user, virtual cluster and devices took that has ended, in steps of a factor of
//! [`STEP`]: jobs are often submitted in series.
//!
//! Shapes are fitted by backfitting: in turns, each value becomes the sum of the residuals of its jobs over their number plus `k`, which
//! is a ridge regression. `k` is the variance within levels over that between levels, of the same residuals (the estimate of a one-way
//! analysis of variance), so that a term that tells nothing is shrunk to 0. A level of one job, such as a name that is used once, has the
//! value 0. Pairs are those whose values have the largest sum of squares on what single features leave, of all pairs.
//! The exponential of the sum is a median. An estimate is the sum drawn to the last duration of the series ([`Bands`]).

use std::collections::HashMap;

use super::{
    Arrival, Durations, PastArrival,
    bands::{Bands, KeptAside, LastOnes},
    last::series,
};

/// Sweeps over all terms, before and after pairs are added.
const SWEEPS: usize = 12;
/// The factor between two levels of the last duration.
const STEP: f64 = 3.0;
/// A job that is shorter counts as this long, in seconds.
const SHORTEST_S: f64 = 1.0;

/// The usual number of pairs of features.
pub const PAIRS: usize = 4;

/// A feature of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Feature {
    User,
    RecurringJob,
    VirtualCluster,
    Workload,
    Devices,
    Hour,
    Day,
    /// The duration of the last job of the same user, virtual cluster and devices that has ended.
    Last,
}

impl Feature {
    pub const ALL: [Feature; 8] = [
        Feature::User,
        Feature::RecurringJob,
        Feature::VirtualCluster,
        Feature::Workload,
        Feature::Devices,
        Feature::Hour,
        Feature::Day,
        Feature::Last,
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Feature::User => "user",
            Feature::RecurringJob => "recurring_job",
            Feature::VirtualCluster => "vc",
            Feature::Workload => "workload",
            Feature::Devices => "devices",
            Feature::Hour => "hour",
            Feature::Day => "day",
            Feature::Last => "last_duration",
        }
    }

    /// The level of a job after the last ones of its series.
    fn level(self, job: &Arrival<'_>, last: Option<LastOnes>) -> String {
        match self {
            Feature::User => job.user.to_owned(),
            Feature::RecurringJob => job.name.to_owned(),
            Feature::VirtualCluster => job.virtual_cluster.to_owned(),
            Feature::Workload => job.workload.to_owned(),
            Feature::Devices => job.devices.to_string(),
            Feature::Hour => job.time.map(|time| time.hour.to_string()).unwrap_or_default(),
            Feature::Day => job.time.map(|time| time.day.to_string()).unwrap_or_default(),
            Feature::Last => {
                let level = |last: LastOnes| STEP.powi((last.log / STEP.ln()).round() as i32);
                last.map(|last| format!("{:.0}s", level(last))).unwrap_or_default()
            }
        }
    }
}

/// One feature, or two.
type Features = (Feature, Option<Feature>);

/// The values of a term and the numbers of jobs behind them, by level of its features.
type Shape = HashMap<(u32, u32), (f64, u32)>;

/// The levels of a job, by [`Feature::ALL`].
type Levels = [u32; Feature::ALL.len()];

/// [`Features`] by their places in [`Feature::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Term(usize, Option<usize>);

impl Term {
    fn key(self, levels: &Levels) -> (u32, u32) {
        (levels[self.0], self.1.map_or(0, |other| levels[other]))
    }
}

/// A job that was learned.
#[derive(Clone, Copy, Debug)]
struct Learned {
    levels: Levels,
    /// Logarithm of its duration in seconds.
    log: f64,
    last: Option<LastOnes>,
}

/// A value of a shape, for readers.
#[derive(Clone, Debug, PartialEq)]
pub struct ShapeValue {
    pub features: Features,
    /// The levels of the features; the second is empty if there is one feature.
    pub levels: (String, String),
    /// Jobs of these levels that it was fitted to.
    pub jobs: u32,
    /// What it adds to the logarithm of the duration.
    pub effect: f64,
}

/// The model, and the jobs that it has learned.
#[derive(Clone, Debug)]
pub struct Additive {
    pairs: usize,
    names: Vec<HashMap<String, u32>>,
    /// The last durations, by user, virtual cluster and devices.
    last: HashMap<(String, String, u32), LastOnes>,
    jobs: Vec<Learned>,
    bands: Bands,
    /// Jobs at the last fit.
    fitted: usize,
    mean: f64,
    shapes: Vec<(Term, Shape)>,
}

impl Additive {
    /// A model with this number of pairs of features.
    pub fn new(pairs: usize) -> Additive {
        let names = vec![HashMap::new(); Feature::ALL.len()];
        Additive {
            pairs,
            names,
            last: HashMap::new(),
            jobs: Vec::new(),
            bands: Bands::default(),
            fitted: 0,
            mean: 0.0,
            shapes: Vec::new(),
        }
    }

    /// Learns a job without fitting the shapes again. Jobs are to be learned in the order in which they end: the last job of the series
    /// is the one that was learned before.
    pub fn add(&mut self, job: &Arrival<'_>, duration_s: f64) {
        let log = duration_s.max(SHORTEST_S).ln();
        let series = series(job);
        let last = self.last.get(&series).copied();
        self.last.insert(series, last.map_or(LastOnes::first(log), |last| last.then(log)));
        let mut levels = [0; Feature::ALL.len()];
        for ((level, feature), names) in levels.iter_mut().zip(Feature::ALL).zip(&mut self.names) {
            let next = names.len() as u32;
            *level = *names.entry(feature.level(job, last)).or_insert(next);
        }
        self.jobs.push(Learned { levels, log, last });
    }

    /// Fits the bands to the last quarter of the jobs that were learned, by shapes of the others, and then the shapes to all.
    pub fn fit(&mut self) {
        self.fitted = self.jobs.len();
        let first = self.jobs.len() * 3 / 4;
        self.fit_shapes(first);
        let kept_aside = self.jobs[first..].iter().filter_map(|job| {
            let by_features =
                self.mean + self.effects(job.levels.map(Some)).map(|(_, effect)| effect).sum::<f64>();
            Some(KeptAside { by_features, last: job.last?, log: job.log })
        });
        self.bands = Bands::fitted(&kept_aside.collect::<Vec<_>>());
        self.fit_shapes(self.jobs.len());
    }

    /// Fits the shapes to the first jobs that were learned.
    fn fit_shapes(&mut self, count: usize) {
        self.shapes.clear();
        let jobs = &self.jobs[..count];
        if jobs.is_empty() {
            return;
        }
        self.mean = jobs.iter().map(|job| job.log).sum::<f64>() / count as f64;
        let mut residuals: Vec<f64> = jobs.iter().map(|job| job.log - self.mean).collect();
        // A feature without two levels says nothing.
        let singles = (0..Feature::ALL.len()).filter(|feature| self.names[*feature].len() > 1);
        let singles: Vec<usize> = singles.collect();
        let mut terms: Vec<Fitting> =
            singles.iter().map(|feature| Fitting::new(Term(*feature, None), jobs)).collect();
        sweep(&mut terms, &mut residuals);
        let mut pairs: Vec<(f64, Fitting)> = Vec::new();
        for (number, one) in singles.iter().enumerate() {
            for other in &singles[number + 1..] {
                let mut pair = Fitting::new(Term(*one, Some(*other)), jobs);
                pairs.push((pair.explained(&residuals), pair));
            }
        }
        pairs.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let chosen = pairs.into_iter().take(self.pairs).filter(|(explained, _)| *explained > 0.0);
        terms.extend(chosen.map(|(_, pair)| Fitting { effects: vec![0.0; pair.keys.len()], ..pair }));
        if terms.len() > singles.len() {
            sweep(&mut terms, &mut residuals);
        }
        self.shapes = terms.into_iter().map(|term| (term.term, term.shape())).collect();
    }

    /// The number of jobs that the shapes were fitted to.
    pub fn fitted_jobs(&self) -> usize {
        self.fitted
    }

    /// The terms of the estimate of a job, each as what it multiplies the duration by, after the duration of the mean job in seconds.
    /// Terms of which its levels were not seen are left out. The last duration has what draws the estimate to it, too.
    pub fn terms(&self, job: &Arrival<'_>) -> (f64, Vec<(Features, f64)>) {
        let last = self.last.get(&series(job)).copied();
        let mut effects: Vec<(Features, f64)> = self.effects(self.levels(job, last)).collect();
        if let Some(last) = last {
            let by_features = self.mean + effects.iter().map(|(_, effect)| effect).sum::<f64>();
            let drawn = self.bands.draw(by_features, last) - by_features;
            match effects.iter_mut().find(|(features, _)| *features == (Feature::Last, None)) {
                Some((_, effect)) => *effect += drawn,
                None => effects.push(((Feature::Last, None), drawn)),
            }
        }
        (self.mean.exp(), effects.into_iter().map(|(features, effect)| (features, effect.exp())).collect())
    }

    /// What the terms add to the logarithm of the duration at levels that were seen.
    fn effects(&self, levels: [Option<u32>; Feature::ALL.len()]) -> impl Iterator<Item = (Features, f64)> {
        let levels = levels.map(|level| level.unwrap_or(u32::MAX));
        self.shapes.iter().filter_map(move |(term, shape)| {
            let (effect, _) = shape.get(&term.key(&levels))?;
            Some((features(*term), *effect))
        })
    }

    /// All values of all shapes but those of one job: by term, and by level in the order of their first job.
    pub fn shape_values(&self) -> Vec<ShapeValue> {
        let mut values = Vec::new();
        let names: Vec<HashMap<u32, &str>> = self
            .names
            .iter()
            .map(|names| names.iter().map(|(name, level)| (*level, name.as_str())).collect())
            .collect();
        for (term, shape) in &self.shapes {
            let mut sorted: Vec<_> = shape.iter().collect();
            sorted.sort_unstable_by_key(|(key, _)| **key);
            for (key, (effect, jobs)) in sorted.into_iter().filter(|(_, (_, jobs))| *jobs > 1) {
                let name = |feature: usize, level: u32| {
                    names[feature].get(&level).copied().unwrap_or_default().to_owned()
                };
                let second = term.1.map_or_else(String::new, |other| name(other, key.1));
                values.push(ShapeValue {
                    features: features(*term),
                    levels: (name(term.0, key.0), second),
                    jobs: *jobs,
                    effect: *effect,
                });
            }
        }
        values
    }

    fn levels(&self, job: &Arrival<'_>, last: Option<LastOnes>) -> [Option<u32>; Feature::ALL.len()] {
        let mut levels = [None; Feature::ALL.len()];
        for ((level, feature), names) in levels.iter_mut().zip(Feature::ALL).zip(&self.names) {
            *level = names.get(&feature.level(job, last)).copied();
        }
        levels
    }
}

/// A term while it is fitted. Levels are in the order of their first job, so that sums do not depend on chance.
struct Fitting {
    term: Term,
    keys: Vec<(u32, u32)>,
    /// The place of the level of each job.
    of_jobs: Vec<u32>,
    effects: Vec<f64>,
    levels: Vec<Level>,
}

impl Fitting {
    fn new(term: Term, jobs: &[Learned]) -> Fitting {
        let mut places = HashMap::new();
        let mut keys = Vec::new();
        let place = |job: &Learned| {
            *places.entry(term.key(&job.levels)).or_insert_with_key(|key| {
                keys.push(*key);
                keys.len() as u32 - 1
            })
        };
        let of_jobs = jobs.iter().map(place).collect();
        let (effects, levels) = (vec![0.0; keys.len()], vec![Level::default(); keys.len()]);
        Fitting { term, keys, of_jobs, effects, levels }
    }

    /// Fits the values to the residuals, to which the present values are added first.
    fn fit(&mut self, residuals: &[f64]) {
        self.levels.fill(Level::default());
        for (place, residual) in self.of_jobs.iter().zip(residuals) {
            self.levels[*place as usize].add(residual + self.effects[*place as usize]);
        }
        let k = shrinkage(self.levels.iter());
        self.effects = self.levels.iter().map(|level| level.effect(k)).collect();
    }

    /// The sum of squares of the values that the term would have.
    fn explained(&mut self, residuals: &[f64]) -> f64 {
        self.fit(residuals);
        let squares = self.levels.iter().zip(&self.effects);
        squares.map(|(level, effect)| f64::from(level.jobs) * effect * effect).sum()
    }

    fn shape(self) -> Shape {
        let values = self.effects.iter().zip(&self.levels).map(|(effect, level)| (*effect, level.jobs));
        self.keys.into_iter().zip(values).collect()
    }
}

/// Fits the terms in turns. `residuals` are what they leave, before and after.
fn sweep(terms: &mut [Fitting], residuals: &mut [f64]) {
    for _ in 0..SWEEPS {
        for term in &mut *terms {
            let before = term.effects.clone();
            term.fit(residuals);
            for (place, residual) in term.of_jobs.iter().zip(&mut *residuals) {
                *residual += before[*place as usize] - term.effects[*place as usize];
            }
        }
    }
}

/// The residuals of the jobs of a level.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    sum: f64,
    squares: f64,
    jobs: u32,
}

impl Level {
    fn add(&mut self, residual: f64) {
        self.sum += residual;
        self.squares += residual * residual;
        self.jobs += 1;
    }

    fn effect(&self, k: f64) -> f64 {
        if self.jobs > 1 { self.sum / (f64::from(self.jobs) + k) } else { 0.0 }
    }
}

/// The variance within levels over that between them, from the levels of several jobs. Infinite if levels differ by no more than chance.
fn shrinkage<'a>(levels: impl Iterator<Item = &'a Level>) -> f64 {
    let (mut jobs, mut squares_of_jobs, mut count, mut of_means, mut all, mut sum) =
        (0.0, 0.0, 0.0, 0.0, 0.0, 0.0);
    for level in levels.filter(|level| level.jobs > 1) {
        let own = f64::from(level.jobs);
        jobs += own;
        squares_of_jobs += own * own;
        count += 1.0;
        of_means += level.sum * level.sum / own;
        all += level.squares;
        sum += level.sum;
    }
    if count < 2.0 || jobs <= count {
        return f64::INFINITY;
    }
    let within = (all - of_means).max(0.0) / (jobs - count);
    let between_squares = of_means - sum * sum / jobs;
    let between = (between_squares - (count - 1.0) * within) / (jobs - squares_of_jobs / jobs);
    if between > 0.0 { within / between } else { f64::INFINITY }
}

fn features(term: Term) -> Features {
    (Feature::ALL[term.0], term.1.map(|other| Feature::ALL[other]))
}

impl Durations for Additive {
    /// The estimate of the last fit.
    fn estimate(&self, job: &Arrival<'_>) -> Option<f64> {
        let (mean_s, terms) = self.terms(job);
        (self.fitted > 0).then(|| terms.iter().map(|(_, factor)| factor).product::<f64>() * mean_s)
    }

    /// Learns a job. When the jobs have grown by a sixteenth, the shapes are fitted again, so that the cost of each job does not grow with the
    /// history.
    fn learn(&mut self, job: &Arrival<'_>, duration_s: f64) {
        self.add(job, duration_s);
        if self.jobs.len() > self.fitted + self.fitted / 16 {
            self.fit();
        }
    }

    /// Learns all jobs before the shapes are fitted, once.
    fn learn_all(&mut self, history: &[PastArrival<'_>]) {
        history.iter().for_each(|past| self.add(&past.job, past.duration_s));
        self.fit();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use fastrand::Rng;

    use super::*;
    use crate::duration::TimeOfWeek;

    const USERS: [&str; 3] = ["ann", "bob", "eve"];

    /// A job of a virtual cluster of its own, so that it is in no series.
    fn job(user: &str, devices: u32, hour: u8) -> Arrival<'_> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let virtual_cluster = format!("vc{}", NEXT.fetch_add(1, Ordering::Relaxed)).leak();
        let time = Some(TimeOfWeek { day: 0, hour });
        Arrival { name: "train", user, virtual_cluster, workload: "any", plan: None, devices, time }
    }

    /// Known effects of users and devices, and one of a pair: `bob` on eight devices takes ten times as long.
    fn planted_s(user: &str, devices: u32) -> f64 {
        let of_user = match user {
            "ann" => 100.0,
            "bob" => 400.0,
            _ => 1600.0,
        };
        let of_pair = if user == "bob" && devices == 8 { 10.0 } else { 1.0 };
        of_user * f64::from(devices) * of_pair
    }

    fn learned(pairs: usize, count: usize) -> Additive {
        let mut model = Additive::new(pairs);
        let mut rng = Rng::with_seed(1);
        for _ in 0..count {
            let (user, devices) = (USERS[rng.usize(0..3)], [1, 2, 8][rng.usize(0..3)]);
            let noise = (0.2 * (rng.f64() - 0.5)).exp();
            model.learn(&job(user, devices, rng.u8(0..24)), planted_s(user, devices) * noise);
        }
        model.fit();
        model
    }

    #[test]
    fn planted_shapes_are_found() {
        let model = learned(1, 3000);
        for user in USERS {
            for devices in [1, 2, 8] {
                let estimate_s = model.estimate(&job(user, devices, 3)).expect("it has learned");
                let ratio = estimate_s / planted_s(user, devices);
                assert!((ratio - 1.0).abs() < 0.03, "{user} {devices}: {ratio}");
            }
        }
        // The pair is the one that was planted.
        let pairs: Vec<_> =
            model.shape_values().into_iter().filter(|value| value.features.1.is_some()).collect();
        assert!(
            pairs.iter().all(|value| value.features == (Feature::User, Some(Feature::Devices))),
            "{pairs:?}"
        );
        assert_eq!(pairs.len(), 9);
        // Without pairs, both features share the effect of the pair.
        let single = learned(0, 3000);
        let ratio = single.estimate(&job("bob", 8, 3)).unwrap() / planted_s("bob", 8);
        assert!(ratio < 0.5, "{ratio}");
    }

    #[test]
    fn the_terms_of_an_estimate_multiply_to_it() {
        let model = learned(2, 500);
        let of = job("eve", 2, 5);
        let (mean_s, terms) = model.terms(&of);
        let product = terms.iter().map(|(_, factor)| factor).product::<f64>() * mean_s;
        assert!((product / model.estimate(&of).unwrap() - 1.0).abs() < 1e-12);
        // A new user has the terms of the others.
        let (_, of_new) = model.terms(&job("zoe", 2, 5));
        assert!(of_new.iter().all(|(features, _)| features.0 != Feature::User), "{of_new:?}");
        assert_eq!(Additive::new(PAIRS).estimate(&of), None);
    }

    /// Series of jobs that take as long as the one before, ten times longer from series to series: nothing else tells them apart.
    #[test]
    fn a_series_is_known_by_its_last_job() {
        let mut model = Additive::new(PAIRS);
        let of = Arrival { virtual_cluster: "vc", ..job("ann", 1, 0) };
        for number in 0..400 {
            model.learn(&of, [30.0, 3000.0][number / 20 % 2]);
        }
        model.fit();
        // The last job took 3,000 s.
        let estimate_s = model.estimate(&of).expect("it has learned");
        assert!((2000.0..3500.0).contains(&estimate_s), "{estimate_s}");
        model.add(&of, 30.0);
        let estimate_s = model.estimate(&of).expect("it has learned");
        assert!((25.0..50.0).contains(&estimate_s), "{estimate_s}");
    }

    /// Levels whose means have the variance 1, and in which jobs have the variance 4.
    #[test]
    fn shrinkage_is_the_ratio_of_variances() {
        let mut rng = Rng::with_seed(3);
        // The sum of twelve numbers from 0 to 1 has the variance 1, and is nearly normal.
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let mut levels = vec![Level::default(); 2000];
        for level in &mut levels {
            let mean = normal();
            (0..5).for_each(|_| level.add(mean + 2.0 * normal()));
        }
        let k = shrinkage(levels.iter());
        assert!((k - 4.0).abs() < 0.6, "{k}");
        assert!((levels[0].effect(k) * (5.0 + k) - levels[0].sum).abs() < 1e-12);
        // Levels without a difference are shrunk to 0, and so is a level of one job.
        let mut alike = [Level::default(); 2];
        alike.iter_mut().for_each(|level| [1.0, -1.0].into_iter().for_each(|residual| level.add(residual)));
        assert_eq!(shrinkage(alike.iter()), f64::INFINITY);
        assert_eq!(alike[0].effect(f64::INFINITY), 0.0);
        assert_eq!(Level { sum: 3.0, squares: 9.0, jobs: 1 }.effect(0.5), 0.0);
    }
}
