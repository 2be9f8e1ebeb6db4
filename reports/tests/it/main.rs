//! `report` as a user runs it.

mod documents;
mod measured;
