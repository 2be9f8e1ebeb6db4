//! Launches that were ended from outside: by a signal that the harness did not send, or by a full disk. Such a launch shows nothing
//! about its job. Its row stays as a record, its measurement is missing, and a resumed run measures it again.

use std::borrow::Cow;

use record::{
    manifest::Manifest,
    rows::{ErrorKind, Measurement, Status},
};
use schema::sharing::Sharing;

/// For each row, whether its measurement is missing. A visit of a group is missing as a whole, because it ends with any member.
pub(crate) fn missing(rows: &[Measurement]) -> Vec<bool> {
    let visits: Vec<Visit> =
        rows.iter().filter(|row| was_ended_from_outside(row)).filter_map(visit).collect();
    let is_of_visit = |row| visit(row).is_some_and(|visit| visits.contains(&visit));
    rows.iter().map(|row| was_ended_from_outside(row) || is_of_visit(row)).collect()
}

/// The rows without those that a later launch replaces. With an interval to reach, a later block is as good as the same one.
pub(crate) fn without_replaced<'a>(manifest: &Manifest, rows: &'a [Measurement]) -> Cow<'a, [Measurement]> {
    let missing = missing(rows);
    if !missing.contains(&true) {
        return Cow::Borrowed(rows);
    }
    let any_block = manifest.settings.ci_percent.is_some();
    let replaces = |later: &Measurement, row: &Measurement| {
        let is_again = later.repeat == row.repeat && later.part > row.part;
        let is_further = any_block && later.repeat > row.repeat && later.status == Status::Ok;
        (is_again || is_further) && subject(later) == subject(row)
    };
    let is_replaced = |row: &Measurement| rows.iter().any(|later| replaces(later, row));
    rows.iter()
        .zip(missing)
        .filter(|(row, missing)| !(*missing && is_replaced(row)))
        .map(|(row, _)| row.clone())
        .collect()
}

fn was_ended_from_outside(row: &Measurement) -> bool {
    matches!(row.err, Some(ErrorKind::Killed | ErrorKind::DiskFull))
}

/// The visit of a row of a group: its group, sharing mode, part and block.
type Visit<'a> = (&'a str, &'a Sharing, u32, u32);

fn visit(row: &Measurement) -> Option<Visit<'_>> {
    Some((row.group.as_deref()?, &row.sharing, row.part, row.repeat))
}

/// The cell of a row, or its seat in a group.
fn subject(row: &Measurement) -> (&str, &str, &Sharing, Option<&str>, Option<u32>) {
    (&row.job, &row.device, &row.sharing, row.group.as_deref(), row.seat)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(part: u32, repeat: u32, seat: Option<u32>, err: Option<ErrorKind>) -> Measurement {
        Measurement {
            job: "a".into(),
            device: "cpu:0".into(),
            group: seat.map(|_| "a+a".into()),
            status: if err.is_some() { Status::Failed } else { Status::Ok },
            part,
            repeat,
            seat,
            err,
            ..Measurement::default()
        }
    }

    #[test]
    fn a_visit_is_missing_with_any_of_its_members_and_no_other_launch_is() {
        let (killed, crashed) = (Some(ErrorKind::Killed), Some(ErrorKind::Crashed));
        let rows = [
            (row(0, 0, None, killed), true),
            (row(0, 1, None, crashed), false),
            (row(0, 2, None, Some(ErrorKind::DiskFull)), true),
            (row(0, 0, Some(0), killed), true),
            (row(0, 0, Some(1), Some(ErrorKind::Contaminated)), true),
            (row(0, 1, Some(0), crashed), false),
            (row(0, 1, Some(1), Some(ErrorKind::Contaminated)), false),
            (row(1, 0, Some(0), None), false),
        ];
        let (rows, expected): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        assert_eq!(missing(&rows), expected);
    }
}
