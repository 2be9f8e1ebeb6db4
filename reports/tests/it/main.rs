//! `report` as a user runs it.

mod damaged;
mod documents;
mod durations;
mod measured;
mod received;
mod records;
mod replaced;
mod serve;
