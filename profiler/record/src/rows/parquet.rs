//! Tables as Parquet. Each column has the type in its dictionary, and all cells may be empty.

use std::{fs::File, io, path::Path, sync::Arc};

use ::parquet::{
    basic::{Compression, LogicalType, Repetition, Type as Physical},
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::types::Type,
};
use schema::unfinished::{self, Unfinished};
use serde_json::{Map, Value};

use super::{
    columns::{Column, Columns, Kind},
    table::{Row, RowError},
};

/// Rows that are compressed together. In a long table they take some megabytes, and a reader loads one
/// group at a time.
const ROWS_IN_GROUP: usize = 1 << 16;

/// Writes a whole table in pieces.
pub struct ParquetWriter<T> {
    writer: SerializedFileWriter<File>,
    waiting: Vec<Map<String, Value>>,
    unfinished: Unfinished,
    row: std::marker::PhantomData<fn(&T)>,
}

impl<T: Row + Columns> ParquetWriter<T> {
    pub fn create(path: &Path) -> Result<ParquetWriter<T>, RowError> {
        let (file, unfinished) =
            unfinished::begin(path).map_err(|cause| RowError::Write { file: path.into(), cause })?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = schema::<T>()
            .and_then(|schema| SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)))
            .map_err(|e| io_error(path, e))?;
        Ok(ParquetWriter { writer, waiting: Vec::new(), unfinished, row: std::marker::PhantomData })
    }

    pub fn push(&mut self, rows: &[T]) -> Result<(), RowError> {
        for row in rows {
            // Cells are spelled as in a CSV file.
            let Ok(Value::Object(cells)) = serde_json::to_value(row) else {
                unreachable!("a row is a struct of texts and numbers");
            };
            self.waiting.push(cells);
            if self.waiting.len() == ROWS_IN_GROUP {
                self.write_group()?;
            }
        }
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), RowError> {
        if !self.waiting.is_empty() {
            self.write_group()?;
        }
        let path = self.unfinished.path().to_path_buf();
        self.writer.close().map_err(|e| io_error(&path, e))?;
        self.unfinished.put().map_err(|cause| RowError::Write { file: path, cause })
    }

    fn write_group(&mut self) -> Result<(), RowError> {
        let rows = std::mem::take(&mut self.waiting);
        let mut write = || -> Result<(), ParquetError> {
            let mut group = self.writer.next_row_group()?;
            for column in T::COLUMNS {
                match column.kind {
                    Kind::Text => write_column::<ByteArrayType>(&mut group, column, &rows, text)?,
                    Kind::Integer => write_column::<Int64Type>(&mut group, column, &rows, Value::as_i64)?,
                    Kind::Real => write_column::<DoubleType>(&mut group, column, &rows, Value::as_f64)?,
                    Kind::Flag => write_column::<BoolType>(&mut group, column, &rows, Value::as_bool)?,
                }
            }
            group.close()?;
            Ok(())
        };
        write().map_err(|e| io_error(self.unfinished.path(), e))
    }
}

fn text(cell: &Value) -> Option<ByteArray> {
    cell.as_str().map(ByteArray::from)
}

/// Writes the next column of a group: the values, and for each row whether it has one.
fn write_column<D: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    column: &Column,
    rows: &[Map<String, Value>],
    cell: impl Fn(&Value) -> Option<D::T>,
) -> Result<(), ParquetError> {
    let (mut cells, mut levels) = (Vec::new(), Vec::with_capacity(rows.len()));
    for row in rows {
        let found = row.get(column.name).filter(|cell| !cell.is_null());
        levels.push(i16::from(found.is_some()));
        if let Some(found) = found {
            cells.push(cell(found).ok_or_else(|| {
                ParquetError::General(format!("column '{}': {found} is no {}", column.name, column.kind))
            })?);
        }
    }
    let mut writer = group
        .next_column()?
        .ok_or_else(|| ParquetError::General(format!("column '{}' is not in the schema", column.name)))?;
    writer.typed::<D>().write_batch(&cells, Some(&levels), None)?;
    writer.close()
}

fn schema<T: Columns>() -> Result<Type, ParquetError> {
    let field = |column: &Column| {
        let (physical, logical) = match column.kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Integer => (Physical::INT64, None),
            Kind::Real => (Physical::DOUBLE, None),
            Kind::Flag => (Physical::BOOLEAN, None),
        };
        let builder = Type::primitive_type_builder(column.name, physical);
        builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build().map(Arc::new)
    };
    let fields = T::COLUMNS.iter().map(field).collect::<Result<_, _>>()?;
    Type::group_type_builder("row").with_fields(fields).build()
}

fn io_error(path: &Path, error: ParquetError) -> RowError {
    RowError::Write { file: path.into(), cause: io::Error::other(error) }
}

#[cfg(test)]
mod tests {
    use ::parquet::{
        file::reader::{FileReader as _, SerializedFileReader},
        record::Field,
    };

    use super::*;
    use crate::rows::{ExportRow, ExportStep, Status, Warning};

    /// Reads the file back by its column names.
    fn read<T: Row>(path: &Path) -> Vec<T> {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let row = |row: ::parquet::record::Row| {
            let cells = row.get_column_iter().map(|(name, field)| {
                let cell = match field {
                    Field::Null => Value::Null,
                    Field::Str(text) => text.as_str().into(),
                    Field::Long(number) => (*number).into(),
                    Field::Double(number) => (*number).into(),
                    Field::Bool(flag) => (*flag).into(),
                    other => panic!("{name}: {other}"),
                };
                (name.clone(), cell)
            });
            serde_json::from_value(Value::Object(cells.collect())).unwrap()
        };
        reader.get_row_iter(None).unwrap().map(|found| row(found.unwrap())).collect()
    }

    fn round_trips<T: Row + Columns + Clone + PartialEq + std::fmt::Debug>(pieces: &[Vec<T>]) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let mut writer = ParquetWriter::create(&path).unwrap();
        for piece in pieces {
            writer.push(piece).unwrap();
            assert!(!path.exists(), "it takes its place when it is whole");
        }
        writer.finish().unwrap();
        assert_eq!(read::<T>(&path), pieces.concat());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let full = ExportRow {
            run: "r".into(),
            launch: "0001-a".into(),
            plan: Some("dp2-bf16".parse().unwrap()),
            sharing: "step-gate:8:2/1".parse().unwrap(),
            step_ns_median: Some(1 << 52),
            samples_per_s: Some(0.1),
            steady: Some(false),
            warnings: [Warning::Steal, Warning::Foreign].into_iter().collect(),
            status: Status::Failed,
            err_detail: Some("said \"nothing\",\nfor 30 s".into()),
            seed: i64::MAX as u64,
            ..ExportRow::default()
        };
        round_trips(&[vec![full.clone(), ExportRow::default()], vec![], vec![full]]);
    }

    #[test]
    fn a_long_table_is_several_groups_of_rows() {
        let rows: Vec<ExportStep> = (0..ROWS_IN_GROUP as u64 + 3)
            .map(|index| ExportStep { index, ..ExportStep::default() })
            .collect();
        round_trips(&[rows]);
    }

    #[test]
    fn a_number_that_the_format_cannot_hold_is_an_error_that_names_its_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let mut writer = ParquetWriter::create(&path).unwrap();
        writer.push(&[ExportRow { seed: u64::MAX, ..ExportRow::default() }]).unwrap();
        let error = writer.finish().unwrap_err().to_string();
        assert!(error.contains("column 'seed': 18446744073709551615 is no integer"), "{error}");
    }
}
