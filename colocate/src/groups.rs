//! The groups that are made of the jobs that were named.

use record::{group::Group, manifest::Cell};
use schema::sharing::Sharing;

/// All groups of `size` out of `jobs` jobs, as ascending numbers of jobs. A job may occur more than once in a group, because
/// the interference between two copies of a job matters, too. The order of the seats does not make another group.
///
/// Their number is the binomial coefficient of `jobs + size - 1` over `size`. There are none without jobs or with size 0.
pub fn of_size(jobs: usize, size: usize) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = (0..jobs).map(|job| vec![job]).collect();
    for _ in 1..size {
        let longer = |group: Vec<usize>| {
            let last = group.last().copied().unwrap_or(0);
            (last..jobs).map(move |job| group.iter().copied().chain([job]).collect())
        };
        groups = groups.into_iter().flat_map(longer).collect();
    }
    if size == 0 { Vec::new() } else { groups }
}

/// The group of these cells, in the order of their seats, with the reason if it cannot run on any machine.
pub fn group(members: &[&Cell], sharing: &Sharing) -> Group {
    let names: Vec<String> = members.iter().map(|cell| cell.name.clone()).collect();
    Group {
        name: names.join("+"),
        sharing: sharing.clone(),
        members: names,
        unsupported: refusal(members, sharing),
    }
}

fn refusal(members: &[&Cell], sharing: &Sharing) -> Option<String> {
    let of_member = |cell: &&Cell| Some(format!("{} cannot run: {}", cell.name, cell.unsupported.as_ref()?));
    members.iter().find_map(of_member).or_else(|| {
        let count = sharing.seats().filter(|&count| count != members.len())?;
        Some(format!("{sharing} is for {count} members, and the group has {}", members.len()))
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use schema::device::Device;

    use super::*;

    #[test]
    fn every_set_of_members_is_a_group_once() {
        // n + k - 1 over k: 21 pairs of six jobs, 10 triples of three.
        for (jobs, size, count) in
            [(6, 2, 21), (3, 3, 10), (4, 1, 4), (1, 4, 1), (0, 2, 0), (3, 0, 0), (5, 4, 70)]
        {
            let groups = of_size(jobs, size);
            assert_eq!(groups.len(), count, "{size} of {jobs}");
            assert!(groups.iter().all(|group| group.len() == size && group.is_sorted()));
            assert_eq!(groups.iter().collect::<BTreeSet<_>>().len(), count, "none twice");
        }
        assert_eq!(of_size(3, 2), [[0, 0], [0, 1], [0, 2], [1, 1], [1, 2], [2, 2]]);
    }

    fn cell(name: &str, unsupported: Option<&str>) -> Cell {
        Cell {
            name: name.into(),
            sharing: Sharing::Alone,
            job: name.into(),
            workload: name.into(),
            command: None,
            all_reduce_bytes: None,
            global_batch: None,
            plan: None,
            devices: vec![Device::Cpu(vec![0])],
            memory_estimate_bytes: None,
            unsupported: unsupported.map(str::to_owned),
            ..Cell::default()
        }
    }

    #[test]
    fn what_can_run_nowhere_keeps_its_reason() {
        let (a, b, c) = (cell("a", None), cell("b", None), cell("c", Some("runs no plans with tp")));
        let reason = |members: &[&Cell], mode: &str| group(members, &mode.parse().unwrap()).unsupported;
        assert_eq!(group(&[&b, &a, &b], &Sharing::TIME_SLICE).name, "b+a+b");
        for mode in ["time-slice", "sequential", "step-gate", "step-gate:2/1", "cpu-shares:2/1"] {
            assert_eq!(reason(&[&a, &b], mode), None, "{mode}");
        }
        assert_eq!(reason(&[&a, &c], "time-slice").as_deref(), Some("c cannot run: runs no plans with tp"));
        let weights = "step-gate:2/1 is for 2 members, and the group has 3";
        assert_eq!(reason(&[&a, &b, &a], "step-gate:2/1").as_deref(), Some(weights));
    }
}
