//! Configurations: sets of units that fit beside each other at an instant. What rounds can give is a mix of them.
//!
//! The program over the fractions of single units, as in the paper, has optima that no rounds give: of three jobs that share one device in
//! pairs, each pair would have half of the time, although two pairs never run at once. The program over the time of each configuration
//! has none of these. There are too many configurations to write all of them down, and few of them are in the optimum. They are found one
//! after the other (Gilmore and Gomory, Operations Research 1961): the dual program over the configurations found so far gives a price to the
//! throughput of each job, and with these prices one configuration is worth most. If it is worth no more than those found,
//! no other can improve the optimum.

use std::collections::BTreeSet;

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::{
    heaviest::{Candidate, heaviest},
    program::{Fractions, Goal, Program, solved},
};

/// The configurations of a program that were found so far.
#[derive(Debug, Default)]
pub(super) struct Configurations {
    found: BTreeSet<Vec<usize>>,
}

/// What a throughput of 1 of each job is worth.
struct Prices {
    of_jobs: Vec<f64>,
    /// The worth of the most valuable configuration found so far.
    most: f64,
}

impl Configurations {
    /// The relative gain of a configuration below which no more are looked for.
    const PRECISE: f64 = 1e-6;
    /// The most configurations of a program.
    const MOST: usize = 2_000;

    /// The largest value of a goal, and the fraction of time of each unit with it.
    ///
    /// # Errors
    /// Fails if the solver does.
    pub(super) fn solve(&mut self, program: &Program, goal: Goal<'_>) -> Result<(f64, Fractions), String> {
        while self.found.len() < Configurations::MOST {
            let prices = self.prices(program, goal)?;
            let candidates: Vec<Candidate> = program
                .units
                .iter()
                .map(|unit| Candidate {
                    jobs: unit.speeds.iter().map(|(job, _)| *job).collect(),
                    pool: unit.pool,
                    devices: unit.devices,
                    weight: unit.speeds.iter().map(|(job, speed)| prices.of_jobs[*job] * speed).sum(),
                })
                .collect();
            let best = heaviest(&candidates, &program.devices)?;
            let worth: f64 = best.iter().map(|place| candidates[*place].weight).sum();
            if worth <= prices.most * (1.0 + Configurations::PRECISE) || !self.found.insert(best) {
                break;
            }
        }
        self.mix(program, goal)
    }

    /// The throughput of each job in each configuration, in order.
    fn throughputs(&self, program: &Program) -> Vec<Vec<f64>> {
        let of = |units: &Vec<usize>| {
            let mut throughputs = vec![0.0; program.jobs];
            for (job, speed) in units.iter().flat_map(|place| &program.units[*place].speeds) {
                throughputs[*job] += speed;
            }
            throughputs
        };
        self.found.iter().map(of).collect()
    }

    /// The solution of the dual of the program over the configurations found so far.
    fn prices(&self, program: &Program, goal: Goal<'_>) -> Result<Prices, String> {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let most = problem.add_var(1.0, (0.0, f64::INFINITY));
        // A price is that of all that a job needs, so that those of all jobs are about as large.
        let cost = if goal.is_ratio() { 0.0 } else { -1.0 };
        let jobs = goal.needs().iter().copied().enumerate().filter(|(_, need)| *need > 0.0);
        let prices: Vec<(usize, f64, Variable)> =
            jobs.map(|(job, need)| (job, need, problem.add_var(cost, (0.0, f64::INFINITY)))).collect();
        for throughputs in self.throughputs(program) {
            let mut row = vec![(most, 1.0)];
            row.extend(prices.iter().map(|(job, need, price)| (*price, -throughputs[*job] / need)));
            problem.add_constraint(&row, ComparisonOp::Ge, goal.worth(&throughputs));
        }
        if goal.is_ratio() {
            let all: Vec<(Variable, f64)> = prices.iter().map(|(.., price)| (*price, 1.0)).collect();
            problem.add_constraint(&all, ComparisonOp::Eq, 1.0);
        }
        let solution = solved(&problem)?;
        let mut of_jobs: Vec<f64> = (0..program.jobs).map(|job| goal.weight(job)).collect();
        prices.iter().for_each(|(job, need, price)| of_jobs[*job] += solution.var_value(*price) / need);
        Ok(Prices { of_jobs, most: solution.var_value(most) })
    }

    /// The best mix of the configurations found so far: its value, and the fraction of time of each unit.
    fn mix(&self, program: &Program, goal: Goal<'_>) -> Result<(f64, Fractions), String> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let throughputs = self.throughputs(program);
        let times: Vec<Variable> =
            throughputs.iter().map(|of| problem.add_var(goal.worth(of), (0.0, f64::INFINITY))).collect();
        let all: Vec<(Variable, f64)> = times.iter().map(|time| (*time, 1.0)).collect();
        problem.add_constraint(&all, ComparisonOp::Le, 1.0);
        let ratio = goal.is_ratio().then(|| problem.add_var(1.0, (0.0, f64::INFINITY)));
        for (job, &need) in goal.needs().iter().enumerate() {
            let of = times.iter().zip(&throughputs).map(|(time, of)| (*time, of[job]));
            goal.add_need(&mut problem, of, need, ratio);
        }
        let solution = solved(&problem)?;
        let mut fractions = vec![0.0; program.units.len()];
        for (units, time) in self.found.iter().zip(&times) {
            units.iter().for_each(|unit| fractions[*unit] += solution.var_value(*time));
        }
        Ok((solution.objective(), fractions))
    }
}
