//! Tables of the user, of which the command line names the columns.

use std::{collections::BTreeMap, str::FromStr};

use super::timed::{Layout, Length};

/// What a column may hold.
const KEYS: [&str; 12] = [
    "submit",
    "duration",
    "start",
    "end",
    "gpus",
    "steps",
    "cpus",
    "name",
    "user",
    "vc",
    "recurring_job",
    "device_type",
];

/// The columns of a table by what they hold, written as `submit=COLUMN,gpus=COLUMN,duration=COLUMN`.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns(BTreeMap<&'static str, String>);

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Columns, String> {
        let mut columns = BTreeMap::new();
        for part in text.split(',') {
            let named = part.split_once('=').filter(|(_, column)| !column.is_empty());
            let (key, column) = named.ok_or_else(|| format!("'{part}' is no KEY=COLUMN"))?;
            let known = KEYS.iter().find(|known| **known == key);
            let known = known.ok_or_else(|| format!("'{key}' is not one of: {}", KEYS.join(", ")))?;
            if columns.insert(*known, column.to_owned()).is_some() {
                return Err(format!("'{key}' has two columns; keep one"));
            }
        }
        let columns = Columns(columns);
        let has = |key: &str| !columns.get(key).is_empty();
        let is_between = has("start") && has("end");
        let has_part = has("start") || has("end");
        match has("submit") && has("gpus") && has("duration") != has_part && is_between == has_part {
            true => Ok(columns),
            false => {
                Err("name columns for submit and gpus, and one for duration, or two for start and end".into())
            }
        }
    }
}

impl Columns {
    /// The column for a key, or nothing.
    fn get(&self, key: &str) -> &str {
        self.0.get(key).map(String::as_str).unwrap_or_default()
    }

    pub(super) fn layout(&self) -> Layout<'_> {
        let cpus = self.get("cpus");
        Layout {
            workload: "csv",
            name: self.get("name"),
            arrival: self.get("submit"),
            gpus: self.get("gpus"),
            length: match self.get("duration") {
                "" => Length::Between(self.get("start"), self.get("end")),
                duration => Length::Duration(duration),
            },
            steps: self.get("steps"),
            cores: (!cpus.is_empty()).then_some((cpus, 1.0)),
            user: self.get("user"),
            vc: self.get("vc"),
            recurring_job: self.get("recurring_job"),
            device_type: self.get("device_type"),
            needs_all: true,
            ..Layout::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Source, TraceFormat, read};
    use super::*;

    /// Arrival, length in seconds, devices and cores of each job.
    fn rows(columns: &str, text: &str) -> Vec<(f64, u64, u32, Option<u16>)> {
        let columns: Columns = columns.parse().unwrap();
        let source = Source { file: Path::new("t"), text: text.as_bytes() };
        let rows = read(TraceFormat::Csv, &[source], Some(&columns), true).unwrap().rows;
        rows.iter()
            .map(|row| (row.submit_s, row.length_ns().unwrap() / 1_000_000_000, row.devices(), row.cpus))
            .collect()
    }

    #[test]
    fn times_are_seconds_unix_times_or_dates() {
        let expected = [(0.0, 90, 2, None), (60.0, 3600, 1, None)];
        for (submit, text) in [
            ("at", "at,n,took\n10,2,90\n70.0,1,01:00:00\n"),
            ("at", "at,n,took\n1709280000,2,1:30\n1709280060,1,3600.0\n"),
            ("at", "at;n;took\n2024-03-01T08:00:00Z;2;90\n2024-03-01 16:01:00+08:00;1;3600\n"),
        ] {
            assert_eq!(rows(&format!("submit={submit},gpus=n,duration=took"), text), expected, "{text}");
        }
        let text =
            "id,sent,began,ended,gres,cores\na,0,2024-03-01 08:00:00,2024-03-01 08:01:30,gres/gpu=2,8\n";
        let columns = "name=id,submit=sent,start=began,end=ended,gpus=gres,cpus=cores";
        assert_eq!(rows(columns, text), [(0.0, 90, 2, Some(4))]);
    }

    #[test]
    fn columns_that_do_not_describe_a_job_are_refused() {
        for (columns, message) in [
            ("submit", "'submit' is no KEY=COLUMN"),
            ("submit=", "'submit=' is no KEY=COLUMN"),
            ("at=a", "'at' is not one of: submit, duration"),
            ("submit=a,submit=b", "'submit' has two columns; keep one"),
            ("submit=a,gpus=b", "name columns for submit and gpus, and one for duration"),
            ("submit=a,gpus=b,start=c", "name columns for submit and gpus"),
            ("submit=a,gpus=b,duration=c,start=d,end=e", "name columns for submit and gpus"),
        ] {
            let error = columns.parse::<Columns>().unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }
}
