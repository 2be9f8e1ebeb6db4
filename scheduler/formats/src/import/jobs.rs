//! The jobs of a table of a foreign format, and which of them are left out because of others.

use std::{collections::HashMap, path::Path};

use record::rows::RowError;

use super::{
    Imported,
    table::{Cells, LeftOut, Odd, Table},
};
use crate::trace::TraceRow;

/// A job that arrives this long before or after the median of all arrivals has a date that is not believed.
const FAR_S: f64 = 10.0 * 365.25 * 86_400.0;

/// Jobs, and the columns that their checks name.
pub(super) struct Jobs<'a> {
    file: &'a Path,
    name: &'a str,
    arrival: &'a str,
    pub(super) left_out: LeftOut,
    pub(super) jobs: Vec<Job>,
}

/// A job and where it is in the file.
pub(super) struct Job {
    pub(super) row: TraceRow,
    line: u64,
}

impl<'a> Jobs<'a> {
    /// Reads the jobs of a table. `row` gives `None` for rows that are no jobs. `name` and `arrival` are the columns of the name of
    /// a job and of its arrival.
    pub(super) fn read(
        mut table: Table<'a>,
        (name, arrival): (&'a str, &'a str),
        mut left_out: LeftOut,
        mut row: impl FnMut(&Cells<'_>) -> Result<Option<TraceRow>, Odd>,
    ) -> Result<Jobs<'a>, RowError> {
        let mut jobs = Vec::new();
        table.for_each(&mut left_out, |cells| {
            jobs.extend(row(cells)?.map(|row| Job { row, line: cells.line }));
            Ok(())
        })?;
        Ok(Jobs { file: table.file, name, arrival, left_out, jobs })
    }

    /// The jobs in order of arrival, without those whose name is taken or whose date is far from that of most jobs. If
    /// `starts_at_zero`, arrivals are dates, and the first moves to 0.
    pub(super) fn finish(mut self, starts_at_zero: bool) -> Result<Imported, RowError> {
        let mut arrivals: Vec<f64> = self.jobs.iter().map(|job| job.row.submit_s).collect();
        let middle = arrivals.len() / 2;
        let median = match arrivals.is_empty() {
            true => 0.0,
            false => *arrivals.select_nth_unstable_by(middle, f64::total_cmp).1,
        };
        let mut lines: HashMap<String, u64> = HashMap::with_capacity(self.jobs.len());
        let mut rows = Vec::with_capacity(self.jobs.len());
        for Job { row, line } in self.jobs {
            let odd = if (row.submit_s - median).abs() > FAR_S {
                let reason = "an arrival more than ten years from that of most jobs";
                Some(Odd::job(self.arrival, reason))
            } else if let Some(first) = lines.get(&row.name) {
                let message = format!("'{}' stands in line {first} already", record::rows::shown(&row.name));
                Some(Odd::job(self.name, "the name of an earlier job").with_message(message))
            } else {
                None
            };
            match odd {
                Some(odd) => self.left_out.add(self.file, line, odd)?,
                None => {
                    lines.insert(row.name.clone(), line);
                    rows.push(row);
                }
            }
        }
        if starts_at_zero {
            let first = rows.iter().map(|row| row.submit_s).fold(f64::INFINITY, f64::min);
            rows.iter_mut().for_each(|row| row.submit_s -= first);
        }
        // The sort is stable, so that simultaneous jobs keep their order in the file.
        rows.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
        Ok(Imported { rows, left_out: self.left_out.counts })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{TraceFormat, read_text, refusal};

    const HEADER: &str = "timestamp,duration,num_gpus,gpu_time,cluster\n";

    #[test]
    fn the_first_of_two_jobs_of_a_name_is_kept() {
        let text = "job_id,user,vc,gpu_num,cpu_num,submit_time,duration\n\n7,u,v,1,1,2020-06-09 18:41:00,5\n\n\
                    7,u,v,2,1,2020-06-09 18:42:00,5\n";
        let imported = read_text(TraceFormat::Helios, "h.csv", text).unwrap();
        assert_eq!(imported.rows.iter().map(|row| row.devices()).collect::<Vec<_>>(), [1]);
        assert_eq!(imported.left_out, [("the name of an earlier job".into(), 1)].into());
        let error = refusal(TraceFormat::Helios, "h.csv", text);
        assert_eq!(error, "h.csv: line 5: column 'job_id': '7' stands in line 3 already");
    }

    #[test]
    fn a_date_far_from_the_others_is_left_out() {
        let rows =
            "2017-10-09 00:00:10,66,8,1,a\n1970-01-01 00:00:00,66,8,1,a\n2017-10-08 00:00:10,66,8,1,a\n";
        let text = format!("{HEADER}{rows}");
        let imported = read_text(TraceFormat::Philly, "p.csv", &text).unwrap();
        assert_eq!(imported.rows.iter().map(|row| row.submit_s).collect::<Vec<_>>(), [0.0, 86_400.0]);
        assert_eq!(imported.left_out.values().sum::<usize>(), 1);
        let error = refusal(TraceFormat::Philly, "p.csv", &text);
        assert!(
            error.starts_with("p.csv: line 3: column 'timestamp': an arrival more than ten years"),
            "{error}"
        );
    }

    #[test]
    fn a_table_without_jobs_is_empty() {
        assert_eq!(read_text(TraceFormat::Philly, "p.csv", HEADER).unwrap(), Default::default());
    }
}
