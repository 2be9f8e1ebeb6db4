//! The headings of options in `--help`.
//!
//! Options without a heading are for every day. `-h` lists these options alone, and names the headings.

/// Which jobs, and what of them.
pub const JOBS: &str = "Further choices of jobs";
pub const DEVICES: &str = "Devices, threads and memory";
pub const PROGRAMS: &str = "Programs of your own";
pub const BELIEFS: &str = "What a policy believes";
pub const SWITCHES: &str = "Costs of starts and switches";
pub const RULES: &str = "Rules for all jobs";
pub const CHANCE: &str = "Chance and failures";
pub const USERS: &str = "Users, days and priorities";
pub const FAST_FORWARD: &str = "Fast-forward";
pub const FIT: &str = "Further choices of a fit";
pub const PUBLISHED: &str = "Published tables";
pub const SUGGESTIONS: &str = "Suggestions of what to measure next";
pub const RUN: &str = "The run";
pub const PRINTED: &str = "Printed output";
