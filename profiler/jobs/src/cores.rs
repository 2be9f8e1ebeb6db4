//! Cores of the host for ranks on GPUs: which there are, and who gets which.

pub mod assign;
pub mod topology;
