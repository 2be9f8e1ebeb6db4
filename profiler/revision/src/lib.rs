//! The revision of the sources that the programs were built from.
//!
//! A commit changes it, and with it every crate that uses this one is built again. Only the crate of manifests and the programs do.

/// The first twelve digits, if the sources were a checkout.
pub const REVISION: Option<&str> = option_env!("TANDEM_REVISION");

/// What `--version` prints after the name of the program: `0.1.0 (abc123def456 2026-11-29)`, or `0.1.0 (unknown revision)`.
pub const LONG_VERSION: &str = env!("TANDEM_LONG_VERSION");
