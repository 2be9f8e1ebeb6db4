use schema::device::Device;

use super::*;
use crate::topology::Topology;

fn numbers(found: Option<Vec<DeviceId>>) -> Option<Vec<u32>> {
    found.map(|devices| devices.iter().map(|device| device.0).collect())
}

#[test]
fn what_is_taken_is_not_given_twice_and_what_is_left_is_free() {
    let mut occupancy = Occupancy::new(&Topology::uniform(10, 4, "GPU"));
    occupancy.keep(JobId(1), &[DeviceId(4), DeviceId(5)], None);
    occupancy.keep(JobId(2), &[DeviceId(5)], None);
    let mut draft = Draft::new(&occupancy, Placement::Spread, occupancy.pools());
    assert_eq!(numbers(draft.take(2, None)), Some(vec![6, 7]), "of two nodes with two free, the first");
    assert_eq!(numbers(draft.take(1, None)), Some(vec![8]));
    draft.give_back(JobId(1), &[DeviceId(4), DeviceId(5)], None);
    assert_eq!(
        (draft.free_in(PoolId(0)), draft.fits(6, None), draft.fits(7, None)),
        (6, true, false),
        "job 2 keeps device 5"
    );
    assert_eq!(numbers(draft.take(6, None)), Some(vec![0, 1, 2, 3, 4, 9]));
    assert_eq!(numbers(draft.take(1, None)), None);
    assert_eq!(occupancy.free(), 8, "nothing was done");
}

#[test]
fn what_is_held_is_neither_taken_nor_given_back() {
    let mut occupancy = Occupancy::new(&Topology::uniform(4, 4, "GPU"));
    occupancy.keep(JobId(1), &[DeviceId(0), DeviceId(1)], None);
    let mut draft = Draft::new(&occupancy, Placement::Consolidated, occupancy.pools());
    draft.hold(&[DeviceId(1), DeviceId(2)]);
    draft.give_back(JobId(1), &[DeviceId(0), DeviceId(1)], None);
    assert_eq!((draft.fits(3, None), numbers(draft.take(2, None))), (false, Some(vec![0, 3])));
}

#[test]
fn a_job_is_not_split_over_two_types_of_device() {
    let mut nodes = Vec::from(Topology::uniform(2, 2, "A").nodes());
    nodes.extend_from_slice(Topology::uniform(4, 2, "B").nodes());
    let nodes = nodes.into_iter().map(|node| (node.name, node.device_type, node.devices));
    let mut occupancy = Occupancy::new(&Topology::new(nodes));
    let pools: Vec<PoolId> = occupancy.pools().collect();
    assert_eq!(pools.iter().map(|pool| occupancy.free_in(*pool)).collect::<Vec<_>>(), [2, 4]);
    assert_eq!((occupancy.pool_of(DeviceId(1)), occupancy.pool_of(DeviceId(2))), (PoolId(0), PoolId(1)));
    for (count, found) in
        [(2, Some(vec![0, 1])), (3, Some(vec![2, 3, 4])), (4, Some(vec![2, 3, 4, 5])), (5, None)]
    {
        assert_eq!(
            numbers(Draft::new(&occupancy, Placement::Spread, occupancy.pools()).take(count, None)),
            found,
            "{count}"
        );
    }
    occupancy.set_lost(DeviceId(5), true);
    assert_eq!(
        (
            occupancy.free(),
            numbers(Draft::new(&occupancy, Placement::Spread, occupancy.pools()).take(4, None))
        ),
        (5, None)
    );
}

#[test]
fn a_consolidated_job_gets_whole_nodes_and_a_part_of_one() {
    // Three nodes of four devices, and the last with two.
    let mut occupancy = Occupancy::new(&Topology::uniform(14, 4, "GPU"));
    let take = |occupancy: &Occupancy, count| {
        let mut draft = Draft::new(occupancy, Placement::Consolidated, occupancy.pools());
        let fits = draft.fits(count, None);
        let found = numbers(draft.take(count, None));
        assert_eq!(fits, found.is_some(), "{count}");
        found
    };
    assert_eq!(take(&occupancy, 2), Some(vec![12, 13]));
    assert_eq!(take(&occupancy, 6), Some(vec![0, 1, 2, 3, 12, 13]), "the part is of the fullest node");
    assert_eq!(take(&occupancy, 14).map(|found| found.len()), Some(14));
    assert_eq!(take(&occupancy, 15), None);

    occupancy.keep(JobId(1), &[DeviceId(0)], None);
    assert_eq!(take(&occupancy, 3), Some(vec![1, 2, 3]));
    assert_eq!(take(&occupancy, 7), Some(vec![4, 5, 6, 7, 1, 2, 3]));
    assert_eq!(take(&occupancy, 8), Some(vec![4, 5, 6, 7, 8, 9, 10, 11]));
    occupancy.keep(JobId(2), &[DeviceId(5)], None);
    assert_eq!(take(&occupancy, 4), Some(vec![8, 9, 10, 11]));
    assert_eq!(take(&occupancy, 8), None, "12 devices are free, and one node is");
    occupancy.keep(JobId(3), &[DeviceId(9), DeviceId(12)], None);
    assert_eq!((take(&occupancy, 4), take(&occupancy, 3)), (None, Some(vec![1, 2, 3])));

    // What a decision has taken and given back counts.
    let mut draft = Draft::new(&occupancy, Placement::Consolidated, occupancy.pools());
    draft.give_back(JobId(1), &[DeviceId(0)], None);
    draft.give_back(JobId(2), &[DeviceId(5)], None);
    assert_eq!(numbers(draft.take(8, None)), Some(vec![0, 1, 2, 3, 4, 5, 6, 7]));
    assert_eq!((draft.fits(3, None), draft.fits(4, None)), (true, false));
}

#[test]
fn the_largest_nodes_are_taken_whole() {
    let node = |devices: u32| (format!("n{devices}"), "GPU".into(), (0..devices).map(Device::Cuda).collect());
    let mut occupancy = Occupancy::new(&Topology::new([2, 8, 4, 8].map(node)));
    let pool = PoolId(0);
    let fewest = [2, 8, 9, 16, 17, 22, 23].map(|count| occupancy.fewest_nodes(pool, count));
    assert_eq!(fewest, [Some(1), Some(1), Some(2), Some(2), Some(3), Some(4), None]);
    let nodes = |occupancy: &Occupancy, count| {
        let found =
            Draft::new(occupancy, Placement::Consolidated, occupancy.pools()).on_fewest_nodes(pool, count);
        found.map(|found| found.iter().map(|(node, part)| (node.0, *part)).collect::<Vec<_>>())
    };
    assert_eq!(nodes(&occupancy, 17), Some(vec![(1, 8), (3, 8), (0, 1)]));
    occupancy.keep(JobId(1), &[DeviceId(2)], None);
    assert_eq!(nodes(&occupancy, 17), Some(vec![(3, 8), (2, 4), (1, 5)]));
    assert_eq!(nodes(&occupancy, 16), None, "the smallest number is two nodes, of which one is in use");
}
