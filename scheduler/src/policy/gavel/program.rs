//! The linear programs of Gavel: the fractions of time for which jobs have devices.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

/// Jobs, and the units in which they can be run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Program {
    pub(super) jobs: usize,
    /// The number of devices of each pool.
    pub(super) devices: Vec<f64>,
    pub(super) units: Vec<Unit>,
}

/// A job alone, or two jobs together, on devices of a pool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    pub(super) pool: usize,
    pub(super) devices: f64,
    /// Each job with its throughput there.
    pub(super) speeds: Vec<(usize, f64)>,
}

/// The fraction of time of each unit.
pub(super) type Fractions = Vec<f64>;

/// What a program maximises.
#[derive(Clone, Copy, Debug)]
enum Goal<'a> {
    /// The smallest ratio of the throughput of a job to what it needs.
    Ratio { needs: &'a [f64] },
    /// The sum of the throughputs of jobs times their weights. Each job has at least what it needs.
    Sum { weights: &'a [f64], needs: &'a [f64] },
}

/// Remaining work and times of a job, from which its finish-time fairness follows. All are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Finish {
    /// The time since its arrival.
    pub(super) age: f64,
    /// The remaining steps, over the unit of throughputs.
    pub(super) left: f64,
    /// The time from its arrival to its end on an isolated share.
    pub(super) isolated: f64,
}

impl Finish {
    /// The finish-time fairness at a throughput.
    pub(super) fn rho(&self, throughput: f64) -> f64 {
        (self.age + self.left / throughput) / self.isolated
    }

    /// The throughput with which the job has this finish-time fairness. Infinite if no throughput is enough.
    fn need(&self, rho: f64) -> f64 {
        let time = rho * self.isolated - self.age;
        if time > 0.0 { self.left / time } else { f64::INFINITY }
    }
}

impl Program {
    /// The relative amount by which the second of two programs may fall short of the optimum of the first, so that errors in the
    /// arithmetic of the solver do not make it infeasible.
    const SLACK: f64 = 1e-7;
    /// The relative gain of rho below which it is not improved further.
    const PRECISE: f64 = 1e-7;
    /// The number of odd sets after which a program is taken as it is.
    const CUTS: usize = 500;
    /// The most programs that are solved to improve rho. A few are enough.
    const IMPROVEMENTS: usize = 30;

    /// The fractions with the largest smallest throughput, in multiples of what each job needs, and of these the ones with the
    /// largest sum. Returns the smallest multiple with them.
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn max_min(&self, needs: &[f64]) -> Result<(f64, Fractions), String> {
        let (ratio, _) = self.solve(Goal::Ratio { needs })?;
        let weights: Vec<f64> = needs.iter().map(|need| 1.0 / need).collect();
        let least: Vec<f64> = needs.iter().map(|need| need * ratio * (1.0 - Program::SLACK)).collect();
        let (_, fractions) = self.solve(Goal::Sum { weights: &weights, needs: &least })?;
        Ok((ratio, fractions))
    }

    /// The fractions with the largest sum of weighted throughputs, and that sum.
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn max_sum(&self, weights: &[f64]) -> Result<(f64, Fractions), String> {
        self.solve(Goal::Sum { weights, needs: &vec![0.0; self.jobs] })
    }

    /// The fractions with the smallest largest finish-time fairness, and of these those with the largest sum of throughputs, each over what its job
    /// needs for that. Returns the largest rho with them. `isolated` has the throughputs on isolated shares.
    ///
    /// A rho can be reached if every job can have the throughput that it needs for it. The program for the largest multiple of
    /// these needs has an answer whose largest rho is smaller, unless the multiple is 1: then no smaller one can be reached.
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn min_max_rho(
        &self,
        finishes: &[Finish],
        isolated: &[f64],
    ) -> Result<(f64, Fractions), String> {
        let most = |throughputs: &[f64]| {
            let rho = finishes.iter().zip(throughputs).map(|(finish, throughput)| finish.rho(*throughput));
            rho.fold(0.0, f64::max)
        };
        let mut rho = most(isolated);
        for _ in 0..Program::IMPROVEMENTS {
            let needs: Vec<f64> = finishes.iter().map(|finish| finish.need(rho)).collect();
            let (_, fractions) = self.solve(Goal::Ratio { needs: &needs })?;
            let better = most(&self.throughputs(&fractions));
            let gain = rho - better;
            rho = rho.min(better);
            if gain <= rho * Program::PRECISE {
                break;
            }
        }
        let needs: Vec<f64> = finishes.iter().map(|finish| finish.need(rho)).collect();
        let (_, fractions) = self.max_min(&needs)?;
        Ok((rho, fractions))
    }

    /// The throughput of each job.
    pub(super) fn throughputs(&self, fractions: &[f64]) -> Vec<f64> {
        let mut throughputs = vec![0.0; self.jobs];
        for (unit, fraction) in self.units.iter().zip(fractions) {
            unit.speeds.iter().for_each(|(job, speed)| throughputs[*job] += speed * fraction);
        }
        throughputs
    }

    fn solve(&self, goal: Goal<'_>) -> Result<(f64, Fractions), String> {
        // Errors in the arithmetic of a solver may be panics. One allocation is no reason to end a run.
        let mut cuts = Vec::new();
        loop {
            let solved = catch_unwind(AssertUnwindSafe(|| self.simplex(goal, &cuts)));
            let (value, fractions) = solved.unwrap_or_else(|_| Err("the solver panicked".into()))?;
            let more = self.odd_sets(&fractions);
            if more.is_empty() || cuts.len() > Program::CUTS {
                return Ok((value, fractions));
            }
            cuts.extend(more);
        }
    }

    /// The sets of an odd number of jobs whose pairs have more time than can be given to them, because one of the jobs is always left over:
    /// sets of three, and all that are joined by pairs. These are inequalities of the matching polytope (Edmonds, 1965).
    fn odd_sets(&self, fractions: &[f64]) -> Vec<BTreeSet<usize>> {
        let mut pairs: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for (unit, fraction) in self.units.iter().zip(fractions) {
            if let [(one, _), (other, _)] = unit.speeds[..]
                && *fraction > 1e-6
            {
                *pairs.entry((one.min(other), one.max(other))).or_default() += fraction;
            }
        }
        let mut sets: BTreeSet<BTreeSet<usize>> = BTreeSet::new();
        for &(one, other) in pairs.keys() {
            let third = pairs.keys().filter(|(a, _)| *a == other).map(|(_, b)| *b);
            let joined = third.filter(|third| pairs.contains_key(&(one, *third)));
            sets.extend(joined.map(|third| BTreeSet::from([one, other, third])));
        }
        let mut left: BTreeSet<(usize, usize)> = pairs.keys().copied().collect();
        while let Some((one, other)) = left.pop_first() {
            let mut set = BTreeSet::from([one, other]);
            while let Some(&pair) = left.iter().find(|(a, b)| set.contains(a) || set.contains(b)) {
                left.remove(&pair);
                set.extend([pair.0, pair.1]);
            }
            if !set.len().is_multiple_of(2) {
                sets.insert(set);
            }
        }
        let is_violated = |set: &BTreeSet<usize>| {
            let within = pairs.iter().filter(|((a, b), _)| set.contains(a) && set.contains(b));
            within.map(|(_, time)| time).sum::<f64>() > (set.len() / 2) as f64 + 1e-6
        };
        sets.into_iter().filter(is_violated).collect()
    }

    fn simplex(&self, goal: Goal<'_>, cuts: &[BTreeSet<usize>]) -> Result<(f64, Fractions), String> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let worth = |unit: &Unit| match goal {
            Goal::Ratio { .. } => 0.0,
            Goal::Sum { weights, .. } => unit.speeds.iter().map(|(job, speed)| weights[*job] * speed).sum(),
        };
        let fractions: Vec<Variable> =
            self.units.iter().map(|unit| problem.add_var(worth(unit), (0.0, 1.0))).collect();
        let ratio = match goal {
            Goal::Ratio { .. } => Some(problem.add_var(1.0, (0.0, f64::INFINITY))),
            Goal::Sum { .. } => None,
        };
        let mut of_jobs: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.jobs];
        let mut of_pools: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.devices.len()];
        for (unit, &fraction) in self.units.iter().zip(&fractions) {
            of_pools[unit.pool].push((fraction, unit.devices));
            unit.speeds.iter().for_each(|(job, speed)| of_jobs[*job].push((fraction, *speed)));
        }
        for (units, devices) in of_pools.iter().zip(&self.devices) {
            problem.add_constraint(units, ComparisonOp::Le, *devices);
        }
        for cut in cuts {
            let is_within =
                |unit: &Unit| unit.speeds.len() == 2 && unit.speeds.iter().all(|(job, _)| cut.contains(job));
            let within = self.units.iter().zip(&fractions).filter(|(unit, _)| is_within(unit));
            let within: Vec<(Variable, f64)> = within.map(|(_, fraction)| (*fraction, 1.0)).collect();
            problem.add_constraint(&within, ComparisonOp::Le, (cut.len() / 2) as f64);
        }
        let (Goal::Ratio { needs } | Goal::Sum { needs, .. }) = goal;
        for (mut units, &need) in of_jobs.into_iter().zip(needs) {
            let times: Vec<(Variable, f64)> = units.iter().map(|(fraction, _)| (*fraction, 1.0)).collect();
            problem.add_constraint(&times, ComparisonOp::Le, 1.0);
            // Divided by the need, the coefficients of all jobs are about as large.
            if need > 0.0 {
                units.iter_mut().for_each(|(_, speed)| *speed /= need);
                units.extend(ratio.map(|ratio| (ratio, -1.0)));
                let least = if ratio.is_some() { 0.0 } else { 1.0 };
                problem.add_constraint(&units, ComparisonOp::Ge, least);
            }
        }
        let solved = problem.solve().map_err(|error| format!("the solver failed: {error}"))?;
        let Ok(solution) = solved.into_solution() else { return Err("the solver gave up".into()) };
        let fractions = fractions.iter().map(|fraction| solution.var_value(*fraction).clamp(0.0, 1.0));
        Ok((solution.objective(), fractions.collect()))
    }
}

#[cfg(test)]
mod tests;
