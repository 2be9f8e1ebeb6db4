//! The column `job` of any table, as a list of jobs.

use std::path::{Path, PathBuf};

use schema::job::Job;

use super::{
    RowError,
    records::{Records, shown, whole_number},
    rules,
};
use crate::lines;

/// The jobs of a table, each once, in the order of their first lines. Of the other columns, only `devices` is read.
#[derive(Clone, Debug, PartialEq)]
pub struct JobTable {
    pub rows: Vec<JobRow>,
    file: PathBuf,
}

/// A job of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRow {
    pub job: Job,
    /// Number of devices, if the table says it.
    pub devices: Option<u32>,
    /// Counted from 1, with the header.
    line: u64,
}

impl JobTable {
    /// # Errors
    /// The file cannot be read, has no column `job`, or a line of it has no job or no number of devices.
    pub fn read(path: &Path) -> Result<JobTable, RowError> {
        let bytes = lines::read(path)?;
        if bytes.is_empty() {
            return Err(rules::nothing(path));
        }
        let mut table = JobTable { rows: Vec::new(), file: path.into() };
        let mut records = Records::new(path, &bytes)?;
        let place = |name: &str| records.header().iter().position(|column| column == name);
        let (Some(job), devices) = (place("job"), place("devices")) else {
            let message = "there is no column 'job', which names what to run: WORKLOAD[@bN][@PLAN]";
            return Err(RowError::Row { file: path.into(), line: 1, message: message.into() });
        };
        while records.advance()? {
            let line = records.line();
            let cell = |place: usize| records.record().get(place).unwrap_or_default();
            let job: Job = match cell(job).parse() {
                Ok(job) => job,
                Err(error) => return Err(table.refuse_line(line, "job", format!("{error}"))),
            };
            let devices = match devices.map(cell).filter(|cell| !cell.is_empty()) {
                None => None,
                Some(cell) => match whole_number(cell).unwrap_or(cell).parse::<u32>() {
                    Ok(number) if number > 0 => Some(number),
                    _ => {
                        let message = format!("'{}' is no number of devices; write 1 or more", shown(cell));
                        return Err(table.refuse_line(line, "devices", message));
                    }
                },
            };
            if !table.rows.iter().any(|row| row.job == job) {
                table.rows.push(JobRow { job, devices, line });
            }
        }
        Ok(table)
    }

    /// The error for an invalid row, in the format of this module's errors.
    pub fn refuse(&self, row: &JobRow, column: &str, message: impl Into<String>) -> RowError {
        self.refuse_line(row.line, column, message.into())
    }

    fn refuse_line(&self, line: u64, column: &str, message: String) -> RowError {
        RowError::Field { file: self.file.clone(), line, column: column.into(), message }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_pandas_has_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grid.csv");
        std::fs::write(&path, ",job,devices\n0,lstm@b8@dp2,2.0\n1,neumf,\n").unwrap();
        let devices: Vec<_> = JobTable::read(&path).unwrap().rows.iter().map(|row| row.devices).collect();
        assert_eq!(devices, [Some(2), None]);
        std::fs::write(&path, "job,devices\nlstm@b8@dp2,2.5\n").unwrap();
        let error = JobTable::read(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("line 2: column 'devices': '2.5' is no number of devices; write 1 or more"),
            "{error}"
        );
    }

    #[test]
    fn any_table_of_jobs_is_read_and_a_bad_cell_has_its_line_and_column() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("grid.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            JobTable::read(&path).map_err(|error| error.to_string().rsplit('/').next().unwrap().to_owned())
        };
        let text = "launch,job,devices,note\n1,lstm@b8@dp2,2,\"a\nb\"\n2,lstm@b8@dp2,2,x\n3,neumf,,0x10\n";
        let found = read(text).unwrap();
        let of = |row: &JobRow| (row.job.to_string(), row.devices, row.line);
        let rows: Vec<_> = found.rows.iter().map(of).collect();
        assert_eq!(rows, [("lstm@b8@dp2".to_owned(), Some(2), 2), ("neumf".into(), None, 5)]);
        let refused = found.refuse(&found.rows[1], "job", "is wrong").to_string();
        assert!(refused.ends_with("grid.csv: line 5: column 'job': is wrong"), "{refused}");
        assert_eq!(read("job\n").unwrap().rows, []);
        for (text, message) in [
            ("", "grid.csv: line 1: the file is empty, and a table begins with the names of its columns"),
            ("jobs\nlstm\n", "grid.csv: line 1: there is no column 'job', which names what to run"),
            (
                "devices,job\n1,\n",
                "grid.csv: line 2: column 'job': job '' names no workload; write WORKLOAD[",
            ),
            ("job\nlstm\nlstm@b0\n", "grid.csv: line 3: column 'job': job 'lstm@b0': 'b0' is no batch"),
            ("job,devices\nlstm,two\n", "grid.csv: line 2: column 'devices': 'two' is no number of devices"),
            ("job,devices\nlstm,0\n", "grid.csv: line 2: column 'devices': '0' is no number of devices"),
            ("job,devices\nlstm\n", "grid.csv: line 2: "),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(message), "{error}");
        }
    }
}
