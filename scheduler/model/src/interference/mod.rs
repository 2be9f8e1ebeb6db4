//! How much jobs that share devices slow each other down: from rows where they were measured together, and otherwise from what each does
//! alone.

mod effects;
mod fair_share;
mod left_out;
mod mode;
mod reach;
mod ridge;
mod terms;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use formats::interference_fit::{InterferenceFit, JobAlone, MeasuredSlowdown, ModeFit};
use schema::{job::Job, plan::Plan, sharing::Sharing};
use statrs::distribution::{ContinuousCDF, StudentsT};

use self::mode::{Base, Mode, Row};
pub(crate) use self::terms::{Alone, known_of_all};
use crate::{
    JobKey, PredictRequest,
    packing::{self, Classified, PackingClasses, UseAlone},
};

/// What was measured of a job beside others on its devices. Jobs are named by their places in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct Together {
    pub job: usize,
    /// In ascending order.
    pub co_runners: Vec<usize>,
    /// Its step time in the group over that alone, by block.
    pub blocks: Vec<f64>,
}

impl Together {
    /// The mean of the logarithm of the slowdown over blocks, and half of its 95 % interval if there are several.
    fn log(&self) -> (f64, Option<f64>) {
        let logs: Vec<f64> = self.blocks.iter().map(|slowdown| slowdown.ln()).collect();
        let count = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
        let half = StudentsT::new(0.0, 1.0, count - 1.0)
            .ok()
            .map(|student| student.inverse_cdf(0.975) * (squares / (count - 1.0) / count).sqrt());
        (mean, half)
    }
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    /// What it shares effects with.
    family: String,
    /// Its job in full spelling.
    job: String,
    alone: Alone,
}

/// Fits a model to what was measured under each mode, with errors. Modes with too few rows are left out, and
/// named in the second list. `stressors` are the names of workloads that press on one resource each.
pub fn fit(
    jobs: Vec<JobAlone>,
    together: &BTreeMap<Sharing, Vec<Together>>,
    stressors: &BTreeSet<&str>,
) -> (InterferenceFit, Vec<Sharing>) {
    let members: Vec<Member> = jobs.iter().map(member).collect();
    let (mut modes, mut few) = (Vec::new(), Vec::new());
    for (sharing, measured) in together {
        let mut measured: Vec<Together> = measured.clone();
        measured.retain(|of| !of.blocks.is_empty());
        let rows: Vec<Row<'_>> = measured
            .iter()
            .map(|of| Row {
                members: std::iter::once(&of.job).chain(&of.co_runners).map(|job| &members[*job]).collect(),
                log: of.log().0,
            })
            .collect();
        if rows.len() < left_out::FEWEST {
            few.push(sharing.clone());
            continue;
        }
        let base = Base::of_rows(sharing, &rows);
        let mut mode = Mode::fit(&base, &rows);
        let of_groups = left_out::groups_left_out(&base, &rows, &measured);
        mode.reaches = left_out::reaches(&base, &rows, &of_groups);
        let (errors, errors_by_contention) = left_out::errors(&base, &rows, &measured, &of_groups, stressors);
        modes.push(ModeFit {
            measured: measured.iter().map(to_row).collect(),
            errors,
            errors_by_contention,
            ..mode.to_file()
        });
    }
    let classes = packing::fit(&jobs, together);
    (InterferenceFit { sources: Vec::new(), jobs, modes, classes }, few)
}

fn member(job: &JobAlone) -> Member {
    Member {
        family: job.family().to_owned(),
        job: Job {
            workload: job.workload.clone(),
            global_batch: job.global_batch,
            plan: job.plan,
            device: None,
        }
        .to_string(),
        alone: Alone::of(job),
    }
}

fn to_row(of: &Together) -> MeasuredSlowdown {
    let (log, half) = of.log();
    MeasuredSlowdown {
        job: of.job as u32,
        co_runners: of.co_runners.iter().map(|job| *job as u32).collect(),
        slowdown: log.exp(),
        ci_lo: half.map(|half| (log - half).exp()),
        ci_hi: half.map(|half| (log + half).exp()),
    }
}

/// A predicted slowdown, with its 95 % interval, and whether these jobs were measured together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedSlowdown {
    pub factor: f64,
    /// Absent if they were measured in one block only.
    pub interval: Option<(f64, f64)>,
    pub is_measured: bool,
}

/// The models of a file.
///
/// Jobs that were measured together have the slowdown of their rows. Others have that of the model of the mode, if each was measured
/// alone and the group is no larger than those that were measured; otherwise the slowdown is unknown. Jobs on several devices are taken to
/// slow each other down as they do on one, if they were measured alone on as many under the same plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Interference {
    places: HashMap<(String, Option<u32>, Option<Plan>), usize>,
    members: Vec<Member>,
    modes: Vec<(Mode, Measured)>,
    fit: InterferenceFit,
}

/// Slowdowns by the job and its co-runners.
type Measured = HashMap<(usize, Vec<usize>), PredictedSlowdown>;

impl Interference {
    pub fn new(fit: &InterferenceFit) -> Interference {
        let key = |job: &JobAlone| (job.workload.clone(), job.global_batch, job.plan);
        let mode = |file: &ModeFit| {
            let measured = file.measured.iter().map(|row| {
                let co_runners = row.co_runners.iter().map(|job| *job as usize).collect();
                let interval = row.ci_lo.zip(row.ci_hi);
                let found = PredictedSlowdown { factor: row.slowdown, interval, is_measured: true };
                ((row.job as usize, co_runners), found)
            });
            (Mode::from_file(file), measured.collect())
        };
        Interference {
            places: fit.jobs.iter().enumerate().map(|(place, job)| (key(job), place)).collect(),
            members: fit.jobs.iter().map(member).collect(),
            modes: fit.modes.iter().map(mode).collect(),
            fit: fit.clone(),
        }
    }

    /// The slowdown of the job of a question by its co-runners; `None` if it is not known.
    pub fn slowdown(&self, question: &PredictRequest<'_>) -> Option<PredictedSlowdown> {
        let (mode, measured) = self.modes.iter().find(|(mode, _)| mode.base.sharing == *question.sharing)?;
        let job = self.place(&question.job)?;
        let mut co_runners =
            question.co_runners.iter().map(|other| self.place(other)).collect::<Option<Vec<usize>>>()?;
        co_runners.sort_unstable();
        let key = (job, co_runners);
        if let Some(found) = measured.get(&key) {
            return Some(*found);
        }
        if key.1.len() + 1 > mode.largest_group {
            return None;
        }
        let members: Vec<&Member> =
            std::iter::once(&key.0).chain(&key.1).map(|place| &self.members[*place]).collect();
        let found = mode.predict(&members)?;
        let half = mode.reach(&members, found.class) * found.sd;
        let interval = Some(((found.mean - half).exp(), (found.mean + half).exp()));
        Some(PredictedSlowdown { factor: found.mean.exp(), interval, is_measured: false })
    }

    fn place(&self, job: &JobKey<'_>) -> Option<usize> {
        self.places.get(&(job.workload.to_owned(), job.global_batch, job.plan)).copied()
    }
}

impl PackingClasses for Interference {
    fn class(&self, job: &JobKey<'_>) -> Option<Classified> {
        let place = self.place(job)?;
        self.fit.classes.as_ref().map(|classes| packing::classify(&classes.nodes, &self.members[place].alone))
    }

    fn use_alone(&self, job: &JobKey<'_>) -> Option<UseAlone> {
        self.members[self.place(job)?].alone.of_device()
    }
}
