//! The linear programs of Gavel: the fractions of time for which jobs have devices.

use std::panic::{AssertUnwindSafe, catch_unwind};

use microlp::{ComparisonOp, OptimizationDirection, Problem, Solution, Variable};

use super::{FEW_JOBS, configurations::Configurations};

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
pub(super) enum Goal<'a> {
    /// The smallest ratio of the throughput of a job to what it needs.
    Ratio { needs: &'a [f64] },
    /// The sum of the throughputs of jobs times their weights. Each job has at least what it needs.
    Sum { weights: &'a [f64], needs: &'a [f64] },
}

impl<'a> Goal<'a> {
    pub(super) fn is_ratio(self) -> bool {
        matches!(self, Goal::Ratio { .. })
    }

    pub(super) fn needs(self) -> &'a [f64] {
        let (Goal::Ratio { needs } | Goal::Sum { needs, .. }) = self;
        needs
    }

    pub(super) fn weight(self, job: usize) -> f64 {
        match self {
            Goal::Ratio { .. } => 0.0,
            Goal::Sum { weights, .. } => weights[job],
        }
    }

    /// The sum of the throughputs of all jobs times their weights.
    pub(super) fn worth(self, throughputs: &[f64]) -> f64 {
        throughputs.iter().enumerate().map(|(job, throughput)| self.weight(job) * throughput).sum()
    }

    /// Adds that a job has what it needs, or `ratio` times that. `of` has its throughput by variable.
    pub(super) fn add_need(
        self,
        problem: &mut Problem,
        of: impl Iterator<Item = (Variable, f64)>,
        need: f64,
        ratio: Option<Variable>,
    ) {
        if need > 0.0 {
            // Divided by the need, the coefficients of all jobs are about as large.
            let mut row: Vec<(Variable, f64)> =
                of.map(|(variable, speed)| (variable, speed / need)).collect();
            row.extend(ratio.map(|ratio| (ratio, -1.0)));
            problem.add_constraint(&row, ComparisonOp::Ge, if ratio.is_some() { 0.0 } else { 1.0 });
        }
    }
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
    /// The part by which jobs can have more than they need for a rho at which the search ends.
    const PRECISE: f64 = 1e-6;
    /// The most programs that are solved for the smallest rho.
    const TRIES: usize = 40;

    /// The fractions with the largest smallest throughput, in multiples of what each job needs, and of these the ones with the
    /// largest sum. Returns the smallest multiple with them.
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn max_min(&self, needs: &[f64]) -> Result<(f64, Fractions), String> {
        self.max_min_among(needs, &mut Configurations::default())
    }

    fn max_min_among(&self, needs: &[f64], found: &mut Configurations) -> Result<(f64, Fractions), String> {
        let (ratio, _) = self.solve(Goal::Ratio { needs }, found)?;
        let weights: Vec<f64> = needs.iter().map(|need| 1.0 / need).collect();
        let least: Vec<f64> = needs.iter().map(|need| need * ratio * (1.0 - Program::SLACK)).collect();
        let (_, fractions) = self.solve(Goal::Sum { weights: &weights, needs: &least }, found)?;
        Ok((ratio, fractions))
    }

    /// The fractions with the largest sum of weighted throughputs, and that sum.
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn max_sum(&self, weights: &[f64]) -> Result<(f64, Fractions), String> {
        let needs = vec![0.0; self.jobs];
        self.solve(Goal::Sum { weights, needs: &needs }, &mut Configurations::default())
    }

    /// The fractions with the smallest largest finish-time fairness, and of these those with the largest sum of throughputs, each over
    /// what its job needs for that. Returns the largest rho with them. `isolated` has the throughputs on isolated shares.
    ///
    /// A rho can be reached if every job can have the throughput that it needs for it: if the largest multiple of these needs is
    /// at least 1. The smallest such rho lies between that of jobs that end now and that of equal parts of isolated shares, and is
    /// found by false position with the modification of Illinois (Dowell and Jarratt, BIT 1971).
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn min_max_rho(
        &self,
        finishes: &[Finish],
        isolated: &[f64],
    ) -> Result<(f64, Fractions), String> {
        let mut found = Configurations::default();
        let needs = |rho: f64| -> Vec<f64> { finishes.iter().map(|finish| finish.need(rho)).collect() };
        // Each bound has its rho, and by how much the multiple of the needs is above 1, or a half of that.
        let ended = finishes.iter().map(|finish| finish.age / finish.isolated);
        let mut low = (ended.fold(0.0, f64::max), -1.0);
        let (shares, _) = self.solve(Goal::Ratio { needs: isolated }, &mut found)?;
        let of_shares = finishes.iter().zip(isolated).map(|(finish, speed)| finish.rho(speed * shares));
        let rho = of_shares.fold(0.0, f64::max);
        let (ratio, _) = self.solve(Goal::Ratio { needs: &needs(rho) }, &mut found)?;
        let mut high = (rho, ratio - 1.0);
        let mut was_low = None;
        for _ in 0..Program::TRIES {
            if high.1 <= Program::PRECISE {
                break;
            }
            let rho = high.0 - high.1 * (high.0 - low.0) / (high.1 - low.1);
            let (ratio, _) = self.solve(Goal::Ratio { needs: &needs(rho) }, &mut found)?;
            let is_low = ratio < 1.0;
            let (moved, other) = if is_low { (&mut low, &mut high) } else { (&mut high, &mut low) };
            *moved = (rho, ratio - 1.0);
            // Without this, one bound may stay where it is while the other comes closer in ever smaller steps.
            if was_low == Some(is_low) {
                other.1 /= 2.0;
            }
            was_low = Some(is_low);
        }
        let (_, fractions) = self.max_min_among(&needs(high.0), &mut found)?;
        Ok((high.0, fractions))
    }

    /// The best fractions for a goal, and their value.
    fn solve(&self, goal: Goal<'_>, found: &mut Configurations) -> Result<(f64, Fractions), String> {
        if self.jobs <= FEW_JOBS { found.solve(self, goal) } else { self.relaxed(goal) }
    }

    /// The program of the paper, over the fraction of each unit.
    fn relaxed(&self, goal: Goal<'_>) -> Result<(f64, Fractions), String> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let worth = |unit: &Unit| unit.speeds.iter().map(|(job, speed)| goal.weight(*job) * speed).sum();
        let fractions: Vec<Variable> =
            self.units.iter().map(|unit| problem.add_var(worth(unit), (0.0, 1.0))).collect();
        let mut of_jobs: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.jobs];
        let mut of_pools: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.devices.len()];
        for (unit, &fraction) in self.units.iter().zip(&fractions) {
            of_pools[unit.pool].push((fraction, unit.devices));
            unit.speeds.iter().for_each(|(job, speed)| of_jobs[*job].push((fraction, *speed)));
        }
        for (units, devices) in of_pools.iter().zip(&self.devices) {
            problem.add_constraint(units, ComparisonOp::Le, *devices);
        }
        let ratio = goal.is_ratio().then(|| problem.add_var(1.0, (0.0, f64::INFINITY)));
        for (units, &need) in of_jobs.into_iter().zip(goal.needs()) {
            let times: Vec<(Variable, f64)> = units.iter().map(|(fraction, _)| (*fraction, 1.0)).collect();
            problem.add_constraint(&times, ComparisonOp::Le, 1.0);
            goal.add_need(&mut problem, units.into_iter(), need, ratio);
        }
        let solution = solved(&problem)?;
        let fractions = fractions.iter().map(|fraction| solution.var_value(*fraction).clamp(0.0, 1.0));
        Ok((solution.objective(), fractions.collect()))
    }
}

/// The solution of a problem.
///
/// # Errors
/// Fails if the solver does.
pub(super) fn solved(problem: &Problem) -> Result<Solution, String> {
    // Errors in the arithmetic of a solver may be panics. One allocation is no reason to end a run.
    let solved = catch_unwind(AssertUnwindSafe(|| problem.solve()));
    let solved = solved.map_err(|_| "the solver panicked")?;
    let solved = solved.map_err(|error| format!("the solver failed: {error}"))?;
    solved.into_solution().map_err(|_| "the solver gave up".into())
}

#[cfg(test)]
mod tests;
