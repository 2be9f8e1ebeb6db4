//! The leases of a round when jobs share devices and all ask for as many: those to which most time is owed together.
//!
//! A pair has a lease only if neither of its jobs has one, so that leases which are chosen one after the other by priority, as in the
//! paper, may leave jobs over that have no lease with each other. The set of leases with the largest sum of the times that are owed to them keeps all of these times
//! bounded, if any choice does (Tassiulas and Ephremides, IEEE Transactions on Automatic Control 1992).

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::{AssertUnwindSafe, catch_unwind},
};

use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOptions, Variable};

use super::super::leases::Lease;
use crate::{cluster::JobId, occupancy::PoolId};

/// The number of nodes of its search after which the solver gives up.
const NODES: u64 = 500;

/// Of leases with the time that is owed to each, the set with the largest sum, with room for these numbers of leases in each pool. Empty if the solver fails, so that leases are
/// granted by priority alone.
pub(super) fn most_owed(of: &[(Lease, f64)], room: &BTreeMap<PoolId, u32>) -> BTreeSet<Lease> {
    // Errors in the arithmetic of a solver may be panics. One round is no reason to end a run.
    catch_unwind(AssertUnwindSafe(|| solve(of, room))).ok().flatten().unwrap_or_default()
}

fn solve(of: &[(Lease, f64)], room: &BTreeMap<PoolId, u32>) -> Option<BTreeSet<Lease>> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut of_jobs: BTreeMap<JobId, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut of_pools: BTreeMap<PoolId, Vec<(Variable, f64)>> = BTreeMap::new();
    let mut variables = Vec::new();
    for &(lease, owed_s) in of.iter().filter(|(_, owed_s)| *owed_s > 0.0) {
        let variable = problem.add_binary_var(owed_s);
        lease.jobs().for_each(|job| of_jobs.entry(job).or_default().push((variable, 1.0)));
        of_pools.entry(lease.pool).or_default().push((variable, 1.0));
        variables.push((lease, variable));
    }
    for leases in of_jobs.values() {
        problem.add_constraint(leases, ComparisonOp::Le, 1.0);
    }
    for (pool, leases) in &of_pools {
        let most = room.get(pool).copied().unwrap_or(0);
        problem.add_constraint(leases, ComparisonOp::Le, f64::from(most));
    }
    let mut options = SolveOptions::default();
    options.node_limit = Some(NODES);
    let solution = problem.solve_with(options).ok()?.into_solution().ok()?;
    let chosen = variables.iter().filter(|(_, variable)| solution.var_value(*variable) > 0.5);
    Some(chosen.map(|(lease, _)| *lease).collect())
}
