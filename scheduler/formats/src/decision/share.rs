//! The share of the time for which a job may run.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number above 0 and at most 1, which is no limit.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(try_from = "f64", into = "f64")]
pub struct Share(f64);

/// A share is never NaN.
impl Eq for Share {}

impl Share {
    pub const FULL: Share = Share(1.0);

    /// Returns `None` for a number that is no share.
    pub fn new(share: f64) -> Option<Share> {
        (share > 0.0 && share <= 1.0).then_some(Share(share))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

impl Default for Share {
    fn default() -> Share {
        Share::FULL
    }
}

impl TryFrom<f64> for Share {
    type Error = String;

    fn try_from(share: f64) -> Result<Share, String> {
        let wrong = || format!("{share} is no share of the time; write a number above 0 and at most 1");
        Share::new(share).ok_or_else(wrong)
    }
}

impl From<Share> for f64 {
    fn from(share: Share) -> f64 {
        share.0
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
