//! What `report table --json` prints: the numbers of figures.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The numbers that a figure draws.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FigureNumbers {
    /// The name of the figure in its report.
    pub figure: String,
    pub title: String,
    pub caption: String,
    /// Warnings of the rows that are drawn.
    pub doubts: Vec<String>,
    /// Values that the figure leaves out, each with the reason.
    pub missing: Vec<String>,
    /// One object for each row, by column. The name of a column has the unit.
    pub rows: Vec<BTreeMap<String, Value>>,
}

/// A value of a row; `null` if it was not measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    Missing,
    Number(f64),
    Text(String),
}
