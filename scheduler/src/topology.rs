//! The devices of a cluster and the nodes that they are on.

use std::collections::BTreeMap;

pub use schema::decision::DeviceId;
use schema::{device::Device, manifest::AlikeNodes};

/// The place of a node in its [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The nodes of a cluster and their devices, in order. The numbers of devices go through all nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
    node_of: Vec<NodeId>,
    /// For each type, the number of devices on its largest nodes: on one, on two, and so on.
    on_largest: BTreeMap<String, Vec<u32>>,
}

/// A node: devices that reach each other without a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// The type of the devices, as rows name it: `NVIDIA H200`, or the name of a CPU. Step times of one type do not apply to
    /// another.
    pub device_type: String,
    /// The number of the first device of the node.
    pub first: DeviceId,
    pub devices: Vec<Device>,
}

impl Topology {
    /// Creates a topology from nodes as `(name, device type, devices)`.
    pub fn new(nodes: impl IntoIterator<Item = (String, String, Vec<Device>)>) -> Topology {
        let mut topology = Topology { nodes: Vec::new(), node_of: Vec::new(), on_largest: BTreeMap::new() };
        for (name, device_type, devices) in nodes {
            let (node, first) =
                (NodeId(topology.nodes.len() as u32), DeviceId(topology.node_of.len() as u32));
            topology.node_of.extend(devices.iter().map(|_| node));
            let sizes = topology.on_largest.entry(device_type.clone()).or_default();
            sizes.push(devices.len() as u32);
            topology.nodes.push(Node { name, device_type, first, devices });
        }
        for sizes in topology.on_largest.values_mut() {
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let mut sum = 0;
            sizes.iter_mut().for_each(|size| {
                sum += *size;
                *size = sum;
            });
        }
        topology
    }

    /// Creates a topology of `devices` GPUs of one type in nodes of `per_node`. The last node may have fewer.
    pub fn uniform(devices: u32, per_node: u32, device_type: &str) -> Topology {
        let node = |(number, first): (usize, u32)| {
            let held = per_node.min(devices - first);
            (format!("n{number}"), device_type.to_owned(), (0..held).map(Device::Cuda).collect())
        };
        Topology::new((0..devices).step_by(per_node.max(1) as usize).enumerate().map(node))
    }

    /// Creates the topology of a simulated cluster of GPUs.
    pub fn simulated(nodes: &[AlikeNodes]) -> Topology {
        let alike = |of: &AlikeNodes| std::iter::repeat_n(of.clone(), of.nodes as usize);
        let node = |(number, of): (usize, AlikeNodes)| {
            (format!("n{number}"), of.device_type, (0..of.devices).map(Device::Cuda).collect())
        };
        Topology::new(nodes.iter().flat_map(alike).enumerate().map(node))
    }

    /// The number of devices of the most frequent type, which is the largest number that a job can be given.
    pub fn most_of_a_type(&self) -> u32 {
        self.on_largest.values().filter_map(|sums| sums.last().copied()).max().unwrap_or(0)
    }

    /// The smallest number of nodes that have `count` devices of a type. One more than there are if the type has fewer devices.
    pub fn fewest_nodes(&self, device_type: &str, count: u32) -> u32 {
        let sums = self.on_largest.get(device_type).map_or(&[][..], |sums| sums);
        sums.partition_point(|sum| *sum < count) as u32 + 1
    }

    pub fn devices(&self) -> u32 {
        self.node_of.len() as u32
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of a device.
    pub fn node_of(&self, device: DeviceId) -> NodeId {
        self.node_of[device.0 as usize]
    }

    /// The type of a device.
    pub fn type_of(&self, device: DeviceId) -> &str {
        &self.nodes[self.node_of(device).0 as usize].device_type
    }

    /// The other devices of the nodes that these devices are on.
    pub fn around(&self, devices: &[DeviceId]) -> impl Iterator<Item = DeviceId> {
        let mut nodes: Vec<NodeId> = devices.iter().map(|device| self.node_of(*device)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        let of_node = |node: NodeId| {
            let Node { first, devices, .. } = &self.nodes[node.0 as usize];
            (first.0..first.0 + devices.len() as u32).map(DeviceId)
        };
        nodes.into_iter().flat_map(of_node).filter(|device| !devices.contains(device))
    }

    /// The numbers of these devices on each node that has any, the largest first: `[4, 4]` for two nodes with four each.
    pub fn placement(&self, devices: &[DeviceId]) -> Vec<u32> {
        let mut nodes: Vec<NodeId> = devices.iter().map(|device| self.node_of(*device)).collect();
        nodes.sort_unstable();
        let mut counts: Vec<u32> = nodes.chunk_by(|a, b| a == b).map(|same| same.len() as u32).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    pub fn device(&self, device: DeviceId) -> &Device {
        let node = &self.nodes[self.node_of(device).0 as usize];
        &node.devices[(device.0 - node.first.0) as usize]
    }

    /// The name of a device, such as `n0/cuda:0`.
    pub fn name_of(&self, device: DeviceId) -> String {
        let node = &self.nodes[self.node_of(device).0 as usize];
        format!("{}/{}", node.name, self.device(device))
    }
}
