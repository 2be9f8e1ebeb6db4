//! Self-documenting tables: one list of columns gives the type of a row and its data dictionary.

use schema::words;
use schema::{
    plan::{Plan, Precision},
    sharing::Sharing,
    spec::Collectives,
    wire::{Statistics, Timing},
};
use serde::{Deserialize, Serialize};

use super::{
    by_stage::ByStage,
    export::{Definition, ProgramKind, Split},
    labels::{Arithmetic, ErrorKind, Status, Warnings},
};

/// A row with a list of its columns.
pub trait Columns {
    /// In the order of the file.
    const COLUMNS: &'static [Column];
}

/// One column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    /// Empty for names, counts and ratios.
    pub unit: &'static str,
    pub meaning: &'static str,
}

words! {
    /// The type of the cells of a column.
    Kind {
        Text = "text",
        /// A whole number that is not negative.
        Integer = "integer",
        Real = "real",
        /// `true` or `false`.
        Flag = "flag",
    }
}

/// A line of a data dictionary, which describes a column.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnRow {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: Kind,
    pub unit: String,
    pub meaning: String,
}

/// The data dictionary of a table, with one row per column.
pub fn dictionary<T: Columns>() -> Vec<ColumnRow> {
    let row = |column: &Column| ColumnRow {
        name: column.name.into(),
        kind: column.kind,
        unit: column.unit.into(),
        meaning: column.meaning.trim().into(),
    };
    T::COLUMNS.iter().map(row).collect()
}

/// A type that cells can have.
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
    Text: String Plan Precision Sharing Timing Statistics Collectives Warnings Status ErrorKind Arithmetic ProgramKind Definition Split ByStage;
    Integer: u32 u64;
    Real: f64;
    Flag: bool;
}

/// Lists the columns of a table: `name: type [unit],`, each after a comment with its meaning. The columns
/// of another row type come first, after `from`, and are copied from it.
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
            /// A row with the columns of the source, and otherwise empty.
            pub fn of(source: &$source) -> $row {
                $row { $($copied: Clone::clone(&source.$copied),)+ ..$row::default() }
            }
        }
    };
}

pub(super) use columns;
