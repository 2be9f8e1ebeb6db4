//! Tables that explain themselves: the type of a row and its data dictionary come out of one list of columns.

use serde::{Deserialize, Serialize};

use super::{
    export::{Definition, ProgramKind, Split},
    labels::{Arithmetic, ErrorKind, Status, Warnings, words},
};
use crate::{
    plan::{Plan, Precision},
    sharing::Sharing,
    spec::Collectives,
    wire::{Statistics, Timing},
};

/// A row whose columns are known by name.
pub trait Columns {
    /// In the order in which they are written.
    const COLUMNS: &'static [Column];
}

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Empty for what has no unit: names, counts, ratios.
    pub unit: &'static str,
    pub meaning: &'static str,
}

words! {
    /// What the cells of a column hold, where they hold anything.
    Kind {
        Text = "text",
        /// Whole, and never below 0.
        Integer = "integer",
        Real = "real",
        /// `true` or `false`.
        Flag = "flag",
    }
}

/// A line of a data dictionary: what stands in a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRow {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub unit: String,
    pub meaning: String,
}

/// The data dictionary of a table, a row a column.
pub fn dictionary<T: Columns>() -> Vec<ColumnRow> {
    let row = |column: &Column| ColumnRow {
        name: column.name.into(),
        kind: column.kind,
        unit: column.unit.into(),
        meaning: column.meaning.trim().into(),
    };
    T::COLUMNS.iter().map(row).collect()
}

/// What can stand in a column of such a table.
pub(super) trait Cell {
    const KIND: Kind;
}

impl<T: Cell> Cell for Option<T> {
    const KIND: Kind = T::KIND;
}

macro_rules! cells {
    ($($kind:ident: $($type:ty)+;)+) => {
        $($(impl Cell for $type { const KIND: Kind = Kind::$kind; })+)+
    };
}

cells! {
    Text: String Plan Precision Sharing Timing Statistics Collectives Warnings Status ErrorKind Arithmetic ProgramKind Definition Split;
    Integer: u32 u64;
    Real: f64;
    Flag: bool;
}

/// Lists the columns of a table once: `name: type [unit],`, each below what it means. Columns that another row has under
/// the same names stand first, after `from`, and are copied out of it.
macro_rules! columns {
    (
        $(#[doc = $doc:literal])+
        $row:ident {
            $($(#[doc = $meaning:literal])+ $name:ident: $type:ty $([$unit:literal])?,)+
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        pub struct $row { $($(#[doc = $meaning])+ pub $name: $type,)+ }

        impl $crate::rows::Columns for $row {
            const COLUMNS: &'static [$crate::rows::Column] = &[$($crate::rows::Column {
                name: stringify!($name),
                kind: <$type as $crate::rows::columns::Cell>::KIND,
                unit: concat!($($unit)?),
                meaning: concat!($($meaning),+),
            },)+];
        }
    };
    (
        $(#[doc = $doc:literal])+
        $row:ident from $source:ident {
            $($(#[doc = $copied_meaning:literal])+ $copied:ident: $copied_type:ty $([$copied_unit:literal])?,)+
        } and {
            $($(#[doc = $meaning:literal])+ $name:ident: $type:ty $([$unit:literal])?,)+
        }
    ) => {
        $crate::rows::columns::columns! {
            $(#[doc = $doc])+
            $row {
                $($(#[doc = $copied_meaning])+ $copied: $copied_type $([$copied_unit])?,)+
                $($(#[doc = $meaning])+ $name: $type $([$unit])?,)+
            }
        }

        impl $row {
            /// A row of which nothing is known but what it has of another.
            pub fn of(source: &$source) -> $row {
                $row { $($copied: Clone::clone(&source.$copied),)+ ..$row::default() }
            }
        }
    };
}

pub(super) use columns;
