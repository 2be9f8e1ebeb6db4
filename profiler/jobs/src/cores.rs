//! Cores of the host for ranks on GPUs: which cores there are, and which of them each rank gets.

pub mod assign;
pub mod topology;
