//! The set of units with the largest sum of weights, of all that fit beside each other at an instant.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

/// A unit from which a set can be made.
pub(super) struct Candidate {
    /// Its jobs. No two units of a set share one.
    pub(super) jobs: Vec<usize>,
    pub(super) pool: usize,
    pub(super) devices: f64,
    pub(super) weight: f64,
}

/// The number of nodes of its search after which the solver returns the best set so far.
const NODES: u64 = 500;

/// The places of the candidates of the heaviest set, with this number of devices in each pool. Candidates without a weight are left
/// out.
///
/// # Errors
/// Fails if the solver does.
pub(super) fn heaviest(candidates: &[Candidate], devices: &[f64]) -> Result<Vec<usize>, String> {
    // Errors in the arithmetic of a solver may be panics. One round is no reason to end a run.
    catch_unwind(AssertUnwindSafe(|| solve(candidates, devices)))
        .unwrap_or_else(|_| Err("the solver panicked".into()))
}

fn solve(candidates: &[Candidate], devices: &[f64]) -> Result<Vec<usize>, String> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut of_jobs: BTreeMap<usize, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut of_pools: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); devices.len()];
    let mut variables = Vec::new();
    for (place, candidate) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.weight > 0.0) {
        let variable = problem.add_binary_var(candidate.weight);
        candidate.jobs.iter().for_each(|job| of_jobs.entry(*job).or_default().push((variable, 1.0)));
        of_pools[candidate.pool].push((variable, candidate.devices));
        variables.push((place, variable));
    }
    for units in of_jobs.values() {
        problem.add_constraint(units, ComparisonOp::Le, 1.0);
    }
    for (units, devices) in of_pools.iter().zip(devices) {
        problem.add_constraint(units, ComparisonOp::Le, *devices);
    }
    let mut options = SolveOptions::default();
    options.node_limit = Some(NODES);
    let solved = problem.solve_with(options).map_err(|error| format!("the solver failed: {error}"))?;
    let Ok(solution) = solved.into_solution() else { return Err("the solver gave up".into()) };
    let chosen = variables.iter().filter(|(_, variable)| solution.var_value(*variable) > 0.5);
    Ok(chosen.map(|(place, _)| *place).collect())
}
