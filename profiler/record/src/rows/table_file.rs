//! A table in a file of the user, whose extension decides the format.

use std::path::Path;

use super::parquet::ParquetWriter;
use super::{
    columns::Columns,
    table::{Row, RowError, Writer},
};

/// The format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableFormat {
    Csv,
    Parquet,
}

impl TableFormat {
    /// The format for the extension of the file.
    ///
    /// # Errors
    /// The valid extensions.
    pub fn of(path: &Path) -> Result<TableFormat, String> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("csv") => Ok(TableFormat::Csv),
            Some("parquet") => Ok(TableFormat::Parquet),
            _ => Err("name a file that ends in .csv or .parquet".into()),
        }
    }
}

/// A table that is written in pieces and moves to its place when it is finished.
pub enum TableFile<T: Columns> {
    Csv(Writer<T>),
    Parquet(ParquetWriter<T>),
}

impl<T: Row + Columns> TableFile<T> {
    pub fn create(path: &Path, format: TableFormat) -> Result<TableFile<T>, RowError> {
        Ok(match format {
            TableFormat::Csv => TableFile::Csv(Writer::create(path)?),
            TableFormat::Parquet => TableFile::Parquet(ParquetWriter::create(path)?),
        })
    }

    pub fn push(&mut self, rows: &[T]) -> Result<(), RowError> {
        match self {
            TableFile::Csv(writer) => writer.push(rows),
            TableFile::Parquet(writer) => writer.push(rows),
        }
    }

    pub fn finish(self) -> Result<(), RowError> {
        match self {
            TableFile::Csv(writer) => writer.finish(),
            TableFile::Parquet(writer) => writer.finish(),
        }
    }
}
