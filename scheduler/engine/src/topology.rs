//! The devices of a cluster and the nodes that they are on.

use std::collections::BTreeMap;

pub use formats::decision::DeviceId;
use record::manifest::{AlikeNodes, NodeFacts};
use schema::device::Device;

/// The place of a node in its [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The number of a virtual cluster in its [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VirtualClusterId(pub u16);

/// The nodes of a cluster and their devices, in order. The numbers of devices go through all nodes.
///
/// A cluster may be divided into virtual clusters, each a set of nodes. A job then has devices of its own virtual cluster alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    nodes: Vec<Node>,
    node_of: Vec<NodeId>,
    /// For each virtual cluster and type, the number of devices on the largest nodes: on one, on two, and so on.
    on_largest: BTreeMap<Option<VirtualClusterId>, BTreeMap<String, Vec<u32>>>,
    /// Empty if the cluster is not divided.
    virtual_clusters: Vec<VirtualCluster>,
}

/// A part of a cluster whose jobs and devices are apart from all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualCluster {
    pub name: String,
    nodes: Vec<NodeId>,
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
    /// `None` if the cluster is not divided.
    pub virtual_cluster: Option<VirtualClusterId>,
    /// Empty if nothing is known besides the devices.
    pub facts: NodeFacts,
}

impl Node {
    /// The numbers of devices on the fewest nodes like this one that have so many, the largest first.
    pub fn few_like_it(&self, devices: u32) -> Vec<u32> {
        let per_node = (self.devices.len() as u32).max(1);
        let whole = std::iter::repeat_n(per_node, (devices / per_node) as usize);
        whole.chain(Some(devices % per_node).filter(|rest| *rest > 0)).collect()
    }
}

impl Topology {
    /// Creates a topology from nodes as `(name, device type, devices)`.
    pub fn new(nodes: impl IntoIterator<Item = (String, String, Vec<Device>)>) -> Topology {
        let mut topology = Topology {
            nodes: Vec::new(),
            node_of: Vec::new(),
            on_largest: BTreeMap::new(),
            virtual_clusters: Vec::new(),
        };
        for (name, device_type, devices) in nodes {
            let (node, first) =
                (NodeId(topology.nodes.len() as u32), DeviceId(topology.node_of.len() as u32));
            topology.node_of.extend(devices.iter().map(|_| node));
            let (virtual_cluster, facts) = (None, NodeFacts::default());
            topology.nodes.push(Node { name, device_type, first, devices, virtual_cluster, facts });
        }
        topology.sum_largest();
        topology
    }

    fn sum_largest(&mut self) {
        self.on_largest.clear();
        for Node { device_type, devices, virtual_cluster, .. } in &self.nodes {
            let of_type = self.on_largest.entry(*virtual_cluster).or_default();
            of_type.entry(device_type.clone()).or_default().push(devices.len() as u32);
        }
        for sizes in self.on_largest.values_mut().flat_map(BTreeMap::values_mut) {
            sizes.sort_unstable_by(|a, b| b.cmp(a));
            let mut sum = 0;
            sizes.iter_mut().for_each(|size| {
                sum += *size;
                *size = sum;
            });
        }
    }

    /// Creates a topology of `devices` GPUs of one type in nodes of `per_node`. The last node may have fewer.
    pub fn uniform(devices: u32, per_node: u32, device_type: &str) -> Topology {
        let node = |(number, first): (usize, u32)| {
            let held = per_node.min(devices - first);
            (format!("n{number}"), device_type.to_owned(), (0..held).map(Device::Cuda).collect())
        };
        Topology::new((0..devices).step_by(per_node.max(1) as usize).enumerate().map(node))
    }

    /// Creates the topology of a simulated cluster of GPUs. If some nodes are in a virtual cluster, all are.
    pub fn simulated(nodes: &[AlikeNodes]) -> Topology {
        let all: Vec<&AlikeNodes> =
            nodes.iter().flat_map(|of| std::iter::repeat_n(of, of.nodes as usize)).collect();
        let node = |(number, of): (usize, &&AlikeNodes)| {
            (format!("n{number}"), of.device_type.clone(), (0..of.devices).map(Device::Cuda).collect())
        };
        let mut topology = Topology::new(all.iter().enumerate().map(node));
        for (number, of) in (0..).zip(all) {
            topology.nodes[number as usize].facts = of.facts;
            if let Some(name) = &of.virtual_cluster {
                topology.put_into(NodeId(number), name);
            }
        }
        topology.sum_largest();
        topology
    }

    /// Divides the CPUs of a machine among its nodes of GPUs, by their numbers of devices.
    pub fn with_cpus(mut self, cpus: u32) -> Topology {
        let is_of_gpus = |node: &Node| matches!(node.devices.first(), Some(Device::Cuda(_)));
        let gpus: usize =
            self.nodes.iter().filter(|node| is_of_gpus(node)).map(|node| node.devices.len()).sum();
        for node in self.nodes.iter_mut().filter(|node| is_of_gpus(node)) {
            node.facts.cpus = Some((cpus as usize * node.devices.len() / gpus) as u32);
        }
        self
    }

    fn put_into(&mut self, node: NodeId, virtual_cluster: &str) {
        let id = self.virtual_cluster(virtual_cluster).unwrap_or_else(|| {
            self.virtual_clusters
                .push(VirtualCluster { name: virtual_cluster.to_owned(), nodes: Vec::new() });
            VirtualClusterId(self.virtual_clusters.len() as u16 - 1)
        });
        self.virtual_clusters[usize::from(id.0)].nodes.push(node);
        self.nodes[node.0 as usize].virtual_cluster = Some(id);
    }

    /// The devices of each type, in the order in which the nodes first name the types.
    pub fn by_type(&self) -> Vec<(&str, Vec<Device>)> {
        let mut types: Vec<(&str, Vec<Device>)> = Vec::new();
        for Node { device_type, devices, .. } in &self.nodes {
            match types.iter_mut().find(|(known, _)| known == device_type) {
                Some((_, known)) => known.extend_from_slice(devices),
                None => types.push((device_type, devices.clone())),
            }
        }
        types
    }

    /// The virtual clusters, in the order in which the nodes first name them. Empty if the cluster is not divided.
    pub fn virtual_clusters(&self) -> &[VirtualCluster] {
        &self.virtual_clusters
    }

    /// The virtual cluster with this name.
    pub fn virtual_cluster(&self, name: &str) -> Option<VirtualClusterId> {
        let place = self.virtual_clusters.iter().position(|known| known.name == name);
        place.map(|place| VirtualClusterId(place as u16))
    }

    /// The nodes on which jobs of this virtual cluster may be placed, in order: all nodes if the cluster is not divided.
    pub fn nodes_for(&self, virtual_cluster: &str) -> impl Iterator<Item = &Node> {
        let divided =
            self.virtual_cluster(virtual_cluster).map(|id| &self.virtual_clusters[usize::from(id.0)]);
        let undivided = self.virtual_clusters.is_empty().then_some(&self.nodes);
        let nodes = divided.into_iter().flat_map(|of| &of.nodes).map(|node| &self.nodes[node.0 as usize]);
        undivided.into_iter().flatten().chain(nodes)
    }

    /// The number of devices of the most frequent type, which is the largest number that a job can be given.
    pub fn most_of_a_type(&self) -> u32 {
        most_of_a_type(&self.nodes)
    }

    /// The smallest number of nodes of a virtual cluster that have `count` devices of a type. One more than there are if it has
    /// fewer of these devices.
    pub fn fewest_nodes(&self, virtual_cluster: &str, device_type: &str, count: u32) -> u32 {
        let of_types = self.on_largest.get(&self.virtual_cluster(virtual_cluster));
        let sums = of_types.and_then(|of_types| of_types.get(device_type)).map_or(&[][..], |sums| sums);
        sums.iter().take_while(|sum| **sum < count).count() as u32 + 1
    }

    /// The largest number of devices that a job of this virtual cluster can be given, of this type if it names one.
    pub fn most_for(&self, virtual_cluster: &str, device_type: Option<&str>) -> u32 {
        let Some(of_types) = self.on_largest.get(&self.virtual_cluster(virtual_cluster)) else { return 0 };
        let most = |sums: &Vec<u32>| sums.last().copied();
        match device_type {
            Some(named) => of_types.get(named).and_then(most).unwrap_or(0),
            None => of_types.values().filter_map(most).max().unwrap_or(0),
        }
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

fn most_of_a_type<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> u32 {
    let mut of_type = BTreeMap::<&str, u32>::new();
    for node in nodes {
        *of_type.entry(&node.device_type).or_default() += node.devices.len() as u32;
    }
    of_type.values().copied().max().unwrap_or(0)
}
