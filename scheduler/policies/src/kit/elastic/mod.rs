//! What policies that choose the plan and the resources of a job have in common.
//!
//! * `curve.rs`: the best plan of a job for each number of devices and cores, which is its resource-sensitivity curve;
//! * `roster.rs`: the jobs that may be started, resized or moved now, their remaining work and the cost of restarting them;
//! * `available.rs`: the nodes on which numbers of devices are found;
//! * `candidates.rs`: the configurations that a job can be given now, and the nodes for those that were chosen;
//! * `rounds.rs`: decisions at fixed times;
//! * `pursue.rs`: the actions that bring jobs to where a policy wants them.

mod available;
mod candidates;
mod curve;
mod pursue;
mod roster;
mod rounds;

pub(crate) use available::{Available, Wanted, find_nodes};
pub(crate) use candidates::{Candidate, Configuration, Elastic, Types, restart_factor};
pub(crate) use curve::{Curve, Curves, Freedom, Level, Point, WORTH};
pub(crate) use pursue::{Target, pursue};
pub(crate) use roster::{Roster, Standing, on_nodes, restart_s, steps_left};
pub(crate) use rounds::Rounds;
