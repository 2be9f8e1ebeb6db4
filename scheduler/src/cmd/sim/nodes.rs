//! Parses the nodes of a simulated cluster.

use std::{collections::BTreeSet, path::PathBuf, str::FromStr};

use anyhow::bail;
use formats::cluster::{self, NodeGroup};
use record::manifest::{AlikeNodes, NodeFacts};

/// A part of `--cluster`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Nodes {
    /// Nodes that are alike: `311x8`, `2x4:NVIDIA H200`.
    Alike(NodeGroup),
    /// A file that describes the cluster.
    Described(PathBuf),
}

/// The nodes that the user named, each with its type. The default type is the only one of the tables and fitted models,
/// whose types these are.
///
/// # Errors
/// Fails if there are several types and the user named none, if a file is invalid, and if a file is not the only part.
pub(super) fn typed(cluster: &[Nodes], types: &BTreeSet<String>) -> anyhow::Result<Vec<AlikeNodes>> {
    let types: Vec<&str> = types.iter().map(String::as_str).collect();
    let mut groups = Vec::new();
    for part in cluster {
        match part {
            Nodes::Alike(group) => groups.push(group.clone()),
            Nodes::Described(file) if cluster.len() == 1 => groups = cluster::read(file)?,
            Nodes::Described(file) => bail!(
                "--cluster names {} and other nodes; describe all nodes in the file, or name all without one",
                file.display()
            ),
        }
    }
    let of = |group: NodeGroup| {
        let NodeGroup { count, devices, device_type, virtual_cluster, facts } = group;
        let device_type = match (device_type, &types[..]) {
            (Some(named), _) => named,
            (None, []) => "GPU".into(),
            (None, [only]) => (*only).to_owned(),
            (None, several) => bail!(
                "the tables have several device types, {}; name one with --cluster {count}x{devices}:TYPE, or as device_type in a file",
                several.join(" and "),
            ),
        };
        Ok(AlikeNodes { nodes: count, devices, device_type, virtual_cluster, facts })
    };
    groups.into_iter().map(of).collect()
}

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Nodes, String> {
        if text.ends_with(".toml") {
            return Ok(Nodes::Described(text.into()));
        }
        let wrong = || {
            format!(
                "'{text}' is not a group of nodes; write NODESxDEVICES[:TYPE], such as 311x8, or FILE.toml"
            )
        };
        let (numbers, device_type) = match text.split_once(':') {
            Some((_, "")) => return Err(wrong()),
            Some((numbers, device_type)) => (numbers, Some(device_type.to_owned())),
            None => (text, None),
        };
        let number =
            |digits: &str| digits.parse::<u32>().ok().filter(|number| (1..=1 << 20).contains(number));
        let (nodes, devices) = numbers.split_once('x').ok_or_else(wrong)?;
        Ok(Nodes::Alike(NodeGroup {
            count: number(nodes).ok_or_else(wrong)?,
            devices: number(devices).ok_or_else(wrong)?,
            device_type,
            virtual_cluster: None,
            facts: NodeFacts::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_as_they_are_typed() {
        let nodes = |count, devices, device_type: Option<&str>| {
            Nodes::Alike(NodeGroup {
                count,
                devices,
                device_type: device_type.map(str::to_owned),
                virtual_cluster: None,
                facts: NodeFacts::default(),
            })
        };
        assert_eq!("venus.toml".parse(), Ok(Nodes::Described("venus.toml".into())));
        assert_eq!("311x8".parse(), Ok(nodes(311, 8, None)));
        assert_eq!("2x4:NVIDIA H200".parse(), Ok(nodes(2, 4, Some("NVIDIA H200"))));
        for text in ["8", "0x8", "2x0", "2x4:", "ax8", "2x-1", ""] {
            let error = text.parse::<Nodes>().unwrap_err();
            assert!(error.contains("write NODESxDEVICES[:TYPE]"), "{text}: {error}");
        }
    }
}
