//! The integer program of Sia: each job has at most one of its choices, no pool gives out more devices than it has, and the sum of
//! the worths is the largest.

use std::panic::{AssertUnwindSafe, catch_unwind};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolutionStatus, SolveOptions, Variable};

/// A number of devices of a pool for a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Choice {
    pub(super) pool: usize,
    pub(super) devices: u32,
    /// What it adds to the objective. A choice that adds nothing is not made.
    pub(super) worth: f64,
}

/// The choices for each job, and the number of devices of each pool.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    pub(super) choices: Vec<Vec<Choice>>,
    pub(super) free: Vec<u32>,
}

/// The place of the choice of each job, or none.
pub(super) type Chosen = Vec<Option<usize>>;

impl Program {
    /// The number of nodes of its search after which the solver gives up. It does not depend on the speed of the machine, as a time
    /// would.
    const NODES: u64 = 2_000;

    /// Solves the program. If the solver does not, the choices are greedy, and the reason is returned with them.
    pub(super) fn solve(&self) -> (Chosen, Option<String>) {
        self.solve_within(Program::NODES)
    }

    fn solve_within(&self, nodes: u64) -> (Chosen, Option<String>) {
        let greedy = self.greedy();
        // Errors in the arithmetic of a solver may be panics. One round is no reason to end a run.
        let solved = catch_unwind(AssertUnwindSafe(|| self.branch_and_bound(&greedy, nodes)));
        match solved.unwrap_or_else(|_| Err("the solver panicked".into())) {
            Ok((chosen, is_best)) if is_best || self.worth(&chosen) > self.worth(&greedy) => (chosen, None),
            Ok(_) => (greedy, Some("the solver gave up".into())),
            Err(why) => (greedy, Some(why)),
        }
    }

    /// The choices that the solver found, and whether it knows that they are the best. It begins with the greedy ones.
    fn branch_and_bound(&self, greedy: &Chosen, nodes: u64) -> Result<(Chosen, bool), String> {
        let mut problem = Problem::new(OptimizationDirection::Maximize);
        let mut variables: Vec<(usize, usize, Variable)> = Vec::new();
        let mut in_pools: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); self.free.len()];
        for (job, choices) in self.choices.iter().enumerate() {
            let mut of_job = Vec::new();
            for (place, choice) in self.worthwhile(choices) {
                let variable = problem.add_binary_var(choice.worth);
                variables.push((job, place, variable));
                of_job.push((variable, 1.0));
                in_pools[choice.pool].push((variable, f64::from(choice.devices)));
            }
            problem.add_constraint(&of_job, ComparisonOp::Le, 1.0);
        }
        for (of_pool, free) in in_pools.iter().zip(&self.free) {
            problem.add_constraint(of_pool, ComparisonOp::Le, f64::from(*free));
        }
        let is_greedy = |job: usize, place| f64::from(u8::from(greedy[job] == Some(place)));
        let warm_start = variables.iter().map(|&(job, place, variable)| (variable, is_greedy(job, place)));
        let mut options = SolveOptions::default();
        (options.node_limit, options.warm_start) = (Some(nodes), Some(warm_start.collect()));
        let solved = problem.solve_with(options).map_err(|error| format!("the solver failed: {error}"))?;
        let Ok(solution) = solved.into_solution() else { return Err("the solver gave up".into()) };
        let mut chosen = vec![None; self.choices.len()];
        for &(job, place, variable) in &variables {
            if solution.var_value(variable) > 0.5 {
                chosen[job] = Some(place);
            }
        }
        if !self.fits(&chosen) {
            return Err("the solver gave out too many devices".into());
        }
        Ok((chosen, solution.status() == SolutionStatus::Optimal))
    }

    /// The choices with which every step gains most for each further device: a job gets its first devices, or more of the same
    /// pool.
    fn greedy(&self) -> Chosen {
        let mut free = self.free.clone();
        let mut chosen: Chosen = vec![None; self.choices.len()];
        loop {
            let mut best: Option<(f64, usize, usize)> = None;
            for (job, choices) in self.choices.iter().enumerate() {
                let now = chosen[job].map(|place| choices[place]);
                for (place, choice) in self.worthwhile(choices) {
                    let (worth, has) = now.map_or((0.0, 0), |now| (now.worth, now.devices));
                    let is_more =
                        now.is_none_or(|now| now.pool == choice.pool && now.devices < choice.devices);
                    if !is_more || choice.devices - has > free[choice.pool] || choice.worth <= worth {
                        continue;
                    }
                    let gain = (choice.worth - worth) / f64::from(choice.devices - has);
                    if best.is_none_or(|(most, ..)| gain > most) {
                        best = Some((gain, job, place));
                    }
                }
            }
            let Some((_, job, place)) = best else { return chosen };
            let choice = self.choices[job][place];
            let has = chosen[job].map_or(0, |now| self.choices[job][now].devices);
            free[choice.pool] -= choice.devices - has;
            chosen[job] = Some(place);
        }
    }

    /// The choices of a job that add something.
    fn worthwhile<'a>(&self, choices: &'a [Choice]) -> impl Iterator<Item = (usize, &'a Choice)> {
        choices.iter().enumerate().filter(|(_, choice)| choice.worth > 0.0 && choice.worth.is_finite())
    }

    fn worth(&self, chosen: &Chosen) -> f64 {
        self.choices.iter().zip(chosen).filter_map(|(choices, chosen)| Some(choices[(*chosen)?].worth)).sum()
    }

    fn fits(&self, chosen: &Chosen) -> bool {
        let mut given = vec![0; self.free.len()];
        for (choices, chosen) in self.choices.iter().zip(chosen) {
            if let Some(choice) = chosen.map(|place| choices[place]) {
                given[choice.pool] += choice.devices;
            }
        }
        given.iter().zip(&self.free).all(|(given, free)| given <= free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(choices: &[&[(u32, f64)]], free: u32) -> Program {
        let choice = |&(devices, worth): &(u32, f64)| Choice { pool: 0, devices, worth };
        let choices = choices.iter().map(|of| of.iter().map(choice).collect()).collect();
        Program { choices, free: vec![free] }
    }

    /// Many jobs that are worth about the same for each device make the search long.
    #[test]
    fn choices_are_greedy_and_the_reason_is_told_if_the_solver_gives_up() {
        let worth = |devices: u32| (devices, f64::from(devices) + 3.0);
        let choices: Vec<[(u32, f64); 2]> =
            (0..40).map(|job| [worth(11 + job * 7 % 23), worth(40 + job * 11 % 31)]).collect();
        let choices: Vec<&[(u32, f64)]> = choices.iter().map(|of| &of[..]).collect();
        let program = program(&choices, 601);
        let greedy = program.greedy();
        let (best, none) = program.solve();
        assert!(program.fits(&best) && program.worth(&best) > program.worth(&greedy) && none.is_none());
        let (chosen, why) = program.solve_within(0);
        assert_eq!((chosen, why.as_deref()), (greedy, Some("the solver gave up")));
    }

    #[test]
    fn a_choice_that_is_worth_nothing_is_not_made() {
        let program = program(&[&[(1, 0.0)], &[(1, -1.0), (2, f64::NEG_INFINITY)], &[]], 5);
        assert_eq!(program.solve(), (vec![None; 3], None));
    }

    #[test]
    fn greedy_choices_of_a_job_are_of_one_pool() {
        let choice = |pool, devices, worth| Choice { pool, devices, worth };
        let choices = vec![vec![choice(0, 1, 1.0), choice(1, 1, 0.9), choice(1, 2, 5.0)]];
        let program = Program { choices, free: vec![1, 1] };
        assert_eq!((program.greedy(), program.solve()), (vec![Some(0)], (vec![Some(0)], None)));
    }
}
