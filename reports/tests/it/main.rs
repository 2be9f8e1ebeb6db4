//! `report` as a user runs it.

mod answers;
mod best_policy;
mod columns;
mod compared;
mod damaged;
mod documents;
mod durations;
mod gate;
mod measured;
mod metrics;
mod models;
mod output;
mod over_runs;
mod paired;
mod received;
mod records;
mod replaced;
mod serve;
mod served;
mod tables;
mod tutorial;
mod version;
