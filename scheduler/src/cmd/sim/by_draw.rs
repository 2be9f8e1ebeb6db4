//! Policies against each other, draw by draw. Draw N has the same step times and the same drift of the machine under each policy, so that
//! a difference between two policies is not blurred by what is uncertain for both.

use cli::table::{self, TableLayout};
use formats::rows::{Draw, LowerThan, Totals};

/// The draws of each policy.
pub(super) type OfPolicies = Vec<(String, Vec<Draw>)>;

/// In how many draws the average JCT is lower under `policy` than under each other policy. A draw counts in which all jobs ended well
/// under both.
pub(super) fn lower_than(policy: usize, all: &OfPolicies) -> Vec<LowerThan> {
    let Some((_, own)) = all.get(policy) else { return Vec::new() };
    let others = all.iter().enumerate().filter(|(other, _)| *other != policy);
    let compared = others.map(|(_, (name, rows))| {
        let both = own.iter().zip(rows).filter(|(one, other)| one.ok == other.ok);
        let pairs: Vec<_> =
            both.filter_map(|(one, other)| Some((one.jct_ns_mean?, other.jct_ns_mean?))).collect();
        let lower = pairs.iter().filter(|(one, other)| one < other).count();
        LowerThan { policy: name.clone(), draws: lower as u32, of_draws: pairs.len() as u32 }
    });
    compared.filter(|compared| compared.of_draws > 0).collect()
}

/// A line for each policy, with a column for each other policy.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn show(all: &[Totals], layout: TableLayout) -> anyhow::Result<()> {
    if all.iter().all(|row| row.lower_than.is_empty()) {
        return Ok(());
    }
    let header: Vec<String> = std::iter::once("lower average JCT than, of draws".to_owned())
        .chain(all.iter().map(|row| row.policy.clone()))
        .collect();
    let mut lines = table::new(&header.iter().map(String::as_str).collect::<Vec<_>>());
    for row in all {
        let cells = all.iter().map(|other| {
            let compared = row.lower_than.iter().find(|compared| compared.policy == other.policy);
            table::or_dash(compared.map(|of| format!("{} of {}", of.draws, of.of_draws)))
        });
        lines.add_row(std::iter::once(row.policy.clone()).chain(cells));
    }
    rig::output::print("")?;
    layout.print(&lines)
}
