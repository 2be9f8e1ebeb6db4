//! A described cluster: a TOML file with groups of nodes that are alike. `docs/scheduler.md` has an example.

use std::{
    fmt, fs,
    ops::Range,
    path::{Path, PathBuf},
};

use record::manifest::NodeFacts;
use schema::units::HumanBytes;
use serde::Deserialize;
use toml::Spanned;

/// The largest number of nodes of a group, of devices of a node, and of groups.
const MOST: u32 = 1 << 20;
const MOST_GROUPS: usize = 1 << 12;

/// A group of nodes that are alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGroup {
    /// Number of nodes.
    pub count: u32,
    /// Devices of each node.
    pub devices: u32,
    /// Absent if the file does not name one.
    pub device_type: Option<String>,
    /// The virtual cluster of the nodes. Either all groups of a file have one, or none has.
    pub virtual_cluster: Option<String>,
    pub facts: NodeFacts,
}

/// An invalid description. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: line {line}: {message}", file.display())]
pub struct ClusterFileError {
    pub file: PathBuf,
    pub line: usize,
    pub message: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterFile {
    #[serde(default)]
    nodes: Vec<Spanned<Group>>,
}

/// A group as the file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    count: Spanned<u32>,
    devices: Spanned<u32>,
    device_type: Option<Spanned<String>>,
    virtual_cluster: Option<Spanned<String>>,
    cpus: Option<Spanned<u32>>,
    memory: Option<Spanned<String>>,
    device_memory: Option<Spanned<String>>,
    intra_node_bandwidth: Option<Spanned<String>>,
    inter_node_bandwidth: Option<Spanned<String>>,
    #[serde(default)]
    profiling: bool,
}

/// Reads a description.
///
/// # Errors
/// Fails at the first line that is invalid, with a field that is unknown, missing or out of range.
pub fn read(path: &Path) -> Result<Vec<NodeGroup>, ClusterFileError> {
    let text = fs::read_to_string(path).map_err(|error| ClusterFileError {
        file: path.into(),
        line: 1,
        message: format!("cannot be read: {error}"),
    })?;
    parse(path, &text)
}

fn parse(path: &Path, text: &str) -> Result<Vec<NodeGroup>, ClusterFileError> {
    let error = |span: Option<Range<usize>>, message: String| {
        let line = span.map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
        ClusterFileError { file: path.into(), line, message }
    };
    let file: ClusterFile = toml::from_str(text).map_err(|invalid| {
        // The message of the parser does not name the field of an invalid value.
        let at = error(invalid.span(), String::new()).line;
        let line = text.lines().nth(at - 1).unwrap_or_default().trim();
        error(invalid.span(), format!("{}, in '{line}'; docs/scheduler.md has an example", invalid.message()))
    })?;
    if file.nodes.is_empty() {
        return Err(error(None, "has no nodes; write [[nodes]], count = 4 and devices = 8".into()));
    }
    if file.nodes.len() > MOST_GROUPS {
        return Err(error(
            None,
            format!("has more than {MOST_GROUPS} groups of nodes; join those that are alike"),
        ));
    }
    let invalid = |field: Field| error(Some(field.span), field.message);
    let is_divided = file.nodes.iter().any(|group| group.get_ref().virtual_cluster.is_some());
    let mut groups = Vec::new();
    for group in file.nodes {
        let span = group.span();
        let group = group.into_inner();
        if is_divided && group.virtual_cluster.is_none() {
            let message = "field 'virtual_cluster' is missing, and other nodes have one; name one for all nodes or for none";
            return Err(error(Some(span), message.into()));
        }
        groups.push(NodeGroup {
            count: number("count", group.count).map_err(invalid)?,
            devices: number("devices", group.devices).map_err(invalid)?,
            device_type: name("device_type", group.device_type).map_err(invalid)?,
            virtual_cluster: name("virtual_cluster", group.virtual_cluster).map_err(invalid)?,
            facts: NodeFacts {
                cpus: group.cpus.map(|cpus| number("cpus", cpus)).transpose().map_err(invalid)?,
                memory_bytes: bytes("memory", group.memory).map_err(invalid)?,
                device_memory_bytes: bytes("device_memory", group.device_memory).map_err(invalid)?,
                intra_node_bytes_per_s: bytes("intra_node_bandwidth", group.intra_node_bandwidth)
                    .map_err(invalid)?,
                inter_node_bytes_per_s: bytes("inter_node_bandwidth", group.inter_node_bandwidth)
                    .map_err(invalid)?,
                profiling: group.profiling,
            },
        });
    }
    Ok(groups)
}

/// An invalid field.
struct Field {
    span: Range<usize>,
    message: String,
}

impl Field {
    fn new(name: &str, span: Range<usize>, message: impl fmt::Display) -> Field {
        Field { span, message: format!("field '{name}': {message}") }
    }
}

fn number(field: &str, value: Spanned<u32>) -> Result<u32, Field> {
    let (span, number) = (value.span(), value.into_inner());
    let wrong =
        || Field::new(field, span, format_args!("{number} is out of range; write a number from 1 to {MOST}"));
    (1..=MOST).contains(&number).then_some(number).ok_or_else(wrong)
}

fn name(field: &str, value: Option<Spanned<String>>) -> Result<Option<String>, Field> {
    match value {
        Some(value) if value.get_ref().trim().is_empty() => {
            Err(Field::new(field, value.span(), "it is empty; write a name, or leave the line out"))
        }
        value => Ok(value.map(Spanned::into_inner)),
    }
}

fn bytes(field: &str, value: Option<Spanned<String>>) -> Result<Option<u64>, Field> {
    let parse = |value: Spanned<String>| {
        let size = value.get_ref().parse::<HumanBytes>();
        size.map(|HumanBytes(bytes)| bytes).map_err(|why| Field::new(field, value.span(), why))
    };
    value.map(parse).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    const VENUS: &str = "# Two of its virtual clusters.
[[nodes]]
virtual_cluster = \"vcEwI\"
count = 9
devices = 8

[[nodes]]
virtual_cluster = \"vcWoR\"
count = 5
devices = 8
device_type = \"V100\"
cpus = 48
memory = \"376GiB\"
device_memory = \"32GiB\"
intra_node_bandwidth = \"150GiB\"
inter_node_bandwidth = \"12.5GiB\"
profiling = true
";

    #[test]
    fn groups_of_nodes_are_read_with_all_that_is_known_of_them() {
        let gib = |gib: f64| Some((gib * 1024f64.powi(3)) as u64);
        let group = |virtual_cluster: &str, count| NodeGroup {
            count,
            devices: 8,
            device_type: None,
            virtual_cluster: Some(virtual_cluster.into()),
            facts: NodeFacts::default(),
        };
        let known = NodeFacts {
            cpus: Some(48),
            memory_bytes: gib(376.0),
            device_memory_bytes: gib(32.0),
            intra_node_bytes_per_s: gib(150.0),
            inter_node_bytes_per_s: gib(12.5),
            profiling: true,
        };
        let second = NodeGroup { device_type: Some("V100".into()), facts: known, ..group("vcWoR", 5) };
        assert_eq!(parse(Path::new("venus.toml"), VENUS), Ok(vec![group("vcEwI", 9), second]));
        let plain = parse(Path::new("c.toml"), "nodes = [{ count = 2, devices = 4 }]").unwrap();
        assert_eq!((plain[0].count, plain[0].devices, &plain[0].virtual_cluster), (2, 4, &None));
        assert!(plain[0].facts.is_empty() && !known.is_empty());
    }

    #[test]
    fn the_example_of_the_documentation_is_read() {
        let docs = include_str!("../../../docs/scheduler.md");
        let (_, example) = docs.split_once("```toml\n").unwrap();
        let (example, _) = example.split_once("```").unwrap();
        let groups = parse(Path::new("docs"), example).unwrap();
        assert_eq!(groups.iter().map(|group| group.count * group.devices).collect::<Vec<_>>(), [72, 40]);
        let facts = groups[0].facts;
        assert!(facts.cpus == Some(96) && facts.inter_node_bytes_per_s == Some(50 << 30), "{facts:?}");
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_field() {
        let change = |from: &str, to: &str| VENUS.replacen(from, to, 1);
        for (text, line, message) in [
            (
                change("count = 9", "count = 0"),
                4,
                "field 'count': 0 is out of range; write a number from 1 to 1048576",
            ),
            (change("devices = 8", "devices = 2000000"), 5, "field 'devices': 2000000 is out of range"),
            (change("cpus = 48", "cpus = 0"), 12, "field 'cpus': 0 is out of range"),
            (
                change("count = 9", "count = \"many\""),
                4,
                "invalid type: string \"many\", expected u32, in 'count = \"many\"'",
            ),
            (
                change("cpus = 48", "cores = 48"),
                12,
                "unknown field `cores`, expected one of `count`, `devices`",
            ),
            (change("count = 9\n", ""), 2, "missing field `count`"),
            (
                change("376GiB", "376"),
                13,
                "field 'memory': '376' is no size; write a number and one of B, KiB",
            ),
            (change("12.5GiB", "12.5 Gbit/s"), 16, "field 'inter_node_bandwidth': '12.5 Gbit/s' is no size"),
            (
                change("profiling = true", "profiling = 2"),
                17,
                "invalid type: integer `2`, expected a boolean, in 'profiling = 2'",
            ),
            (change("\"V100\"", "\"\""), 11, "field 'device_type': it is empty; write a name"),
            (
                change("virtual_cluster = \"vcWoR\"\n", ""),
                7,
                "field 'virtual_cluster' is missing, and other nodes have one; name one for all nodes or for none",
            ),
            (String::new(), 1, "has no nodes; write [[nodes]], count = 4 and devices = 8"),
            ("racks = 3\n".into(), 1, "unknown field `racks`, expected `nodes`"),
        ] {
            let error = parse(Path::new("venus.toml"), &text).unwrap_err();
            assert!(error.line == line && error.message.starts_with(message), "{line} {message}: {error}");
            assert!(error.to_string().starts_with(&format!("venus.toml: line {line}: ")), "{error}");
        }
        let error = read(Path::new("no-such.toml")).unwrap_err();
        assert!(error.to_string().starts_with("no-such.toml: line 1: cannot be read: "), "{error}");
    }
}
