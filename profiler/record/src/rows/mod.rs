//! The tables of a run, with one row type per file. Only this module reads and writes them.

mod appended;
mod by_stage;
mod change;
mod columns;
mod comparison;
mod export;
mod export_step;
mod figure_numbers;
mod history;
mod interference;
mod job_table;
mod labels;
mod listing;
mod measurement;
mod names;
mod operator_time;
mod parquet;
mod plain;
mod records;
mod rules;
mod sample;
mod split_key;
mod summary;
mod table;
mod table_file;
mod usability;
mod written;

pub use appended::{Appender, Follower, read_appended};
pub use by_stage::ByStage;
pub use change::{BoundVerdict, Change, ChangeQuantity, Changes, Shift, Verdict};
pub use columns::{Column, ColumnRow, Columns, Kind, dictionary};
pub use comparison::{Compared, Comparison, Quantity, Repeatability, RunRatio};
pub use export::{Definition, ExportRow, ProgramKind, Split};
pub use export_step::ExportStep;
pub use figure_numbers::{FigureNumbers, Value};
pub use history::{
    CellHistory, History, HistoryLevel, HistoryPoint, HistoryRun, HistoryVerdict, LevelChange,
};
pub use interference::{Curve, Interference, Side};
pub use job_table::{JobRow, JobTable};
pub use labels::{Arithmetic, ErrorKind, Status, Warning, Warnings};
pub use listing::{
    Direction, DoctorRow, Health, Load, OverheadRow, PlanRow, ProgramCheck, ReadingRow, RunRow, TransferRow,
    VerifyPlanRow, VerifyProgramRow, VerifyRow,
};
pub use measurement::Measurement;
pub use operator_time::OperatorTime;
pub use plain::{from_csv, to_csv};
pub use records::{NoRow, Records, has_comma, line_of, remedy_for_comma, shown, whole_number};
pub use rules::{MOST_HALF_WIDTH_PERCENT, MOST_RATIO, hexadecimal};
pub use sample::{DeviceSample, HostSample, Tier};
pub use split_key::{split_key, tested};
pub use summary::Summary;
pub use table::{Row, RowError, Writer, parse, read, write};
pub use table_file::{TableFile, TableFormat};
pub use usability::Usability;
pub use written::{Exported, WrittenReport};

/// The JSON of rows for `--json`.
pub fn to_json<T: serde::Serialize>(rows: &T) -> String {
    serde_json::to_string_pretty(rows).expect("rows have string keys and finite numbers or none")
}

/// Parses the output of [`to_json`].
pub fn from_json<T: serde::de::DeserializeOwned>(text: &str) -> serde_json::Result<T> {
    serde_json::from_str(text)
}
