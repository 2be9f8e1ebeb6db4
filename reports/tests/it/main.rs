//! `report` as a user runs it.

mod compared;
mod damaged;
mod documents;
mod durations;
mod measured;
mod metrics;
mod output;
mod paired;
mod received;
mod records;
mod replaced;
mod serve;
mod served;
mod tables;
