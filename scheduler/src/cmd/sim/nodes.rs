//! Parses the nodes of a simulated cluster.

use std::str::FromStr;

use anyhow::bail;
use model::Table;
use schema::manifest::AlikeNodes;

/// Nodes that are alike: `311x8`, `2x4:NVIDIA H200`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Nodes {
    nodes: u32,
    devices: u32,
    device_type: Option<String>,
}

/// The nodes that the user named, each with its type. The default type is the only one of the table.
///
/// # Errors
/// Fails if the table has several types and the user named none.
pub(super) fn typed(cluster: &[Nodes], table: &Table) -> anyhow::Result<Vec<AlikeNodes>> {
    let types: Vec<&str> = table.device_types().collect();
    let of = |nodes: &Nodes| {
        let device_type = match (&nodes.device_type, &types[..]) {
            (Some(named), _) => named.as_str(),
            (None, []) => "GPU",
            (None, [only]) => only,
            (None, several) => bail!(
                "the tables have several device types, {}; name one with --cluster {}x{}:TYPE",
                several.join(" and "),
                nodes.nodes,
                nodes.devices
            ),
        };
        let device_type = device_type.into();
        Ok(AlikeNodes { nodes: nodes.nodes, devices: nodes.devices, device_type, ..AlikeNodes::default() })
    };
    cluster.iter().map(of).collect()
}

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Nodes, String> {
        let wrong = || format!("'{text}' is not a group of nodes; write NODESxDEVICES[:TYPE], such as 311x8");
        let (numbers, device_type) = match text.split_once(':') {
            Some((_, "")) => return Err(wrong()),
            Some((numbers, device_type)) => (numbers, Some(device_type.to_owned())),
            None => (text, None),
        };
        let number =
            |digits: &str| digits.parse::<u32>().ok().filter(|number| (1..=1 << 20).contains(number));
        let (nodes, devices) = numbers.split_once('x').ok_or_else(wrong)?;
        Ok(Nodes {
            nodes: number(nodes).ok_or_else(wrong)?,
            devices: number(devices).ok_or_else(wrong)?,
            device_type,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_read_as_they_are_typed() {
        let nodes = |nodes, devices, device_type: Option<&str>| Nodes {
            nodes,
            devices,
            device_type: device_type.map(str::to_owned),
        };
        assert_eq!("311x8".parse(), Ok(nodes(311, 8, None)));
        assert_eq!("2x4:NVIDIA H200".parse(), Ok(nodes(2, 4, Some("NVIDIA H200"))));
        for text in ["8", "0x8", "2x0", "2x4:", "ax8", "2x-1", ""] {
            let error = text.parse::<Nodes>().unwrap_err();
            assert!(error.contains("write NODESxDEVICES[:TYPE]"), "{text}: {error}");
        }
    }
}
