//! Policies against schedules that are known, and against the plain form of what they compute.

mod exec;
mod packing;
mod preemptive;
mod queues;
pub(super) mod world;
