//! `report` as a user runs it.

mod damaged;
mod documents;
mod measured;
mod records;
