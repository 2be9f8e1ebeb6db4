//! Step times of any origin: a table with a line for each configuration that was measured.

use record::{
    facts::Facts,
    rows::{Records, RowError},
};
use schema::job::Job;
use serde::Deserialize;

use super::{Found, Source};
use crate::fitted::FittedRow;

/// The columns that every table has.
pub(super) const NEEDED: [&str; 3] = ["job", "devices", "step_s"];

/// The columns that a table may have.
const OPTIONAL: [&str; 8] = [
    "device_type",
    "device_memory_bytes",
    "cpus",
    "peak_memory_bytes",
    "parameters",
    "layers",
    "sequence",
    "hidden",
];

/// The largest number of devices of a line.
const MOST_DEVICES: u32 = 1 << 20;

/// A configuration and the time of its steps.
#[derive(Clone, Debug, PartialEq)]
pub struct StepTime {
    pub workload: String,
    /// What the table says of the model.
    pub facts: Facts,
    pub device_type: Option<String>,
    /// Memory of a device.
    pub device_memory_bytes: Option<u64>,
    /// Of source 0.
    pub row: FittedRow,
}

#[derive(Deserialize)]
struct Line {
    /// `NAME@bN@PLAN`.
    job: Job,
    /// The devices of each node: `4+4`.
    devices: String,
    step_s: f64,
    #[serde(default)]
    device_type: Option<String>,
    #[serde(default)]
    device_memory_bytes: Option<u64>,
    #[serde(default)]
    cpus: Option<u16>,
    #[serde(default)]
    peak_memory_bytes: Option<u64>,
    #[serde(default)]
    parameters: Option<u64>,
    #[serde(default)]
    layers: Option<u32>,
    #[serde(default)]
    sequence: Option<u32>,
    #[serde(default)]
    hidden: Option<u32>,
}

/// Reads the lines of a table, in order.
///
/// # Errors
/// Fails at a column that the layout does not have, and at the first invalid value, which the error names by line and column.
pub fn read(Source { file, text }: Source<'_>) -> Result<Vec<StepTime>, RowError> {
    let mut records = Records::new(file, text)?;
    let is_known = |name: &str| NEEDED.contains(&name) || OPTIONAL.contains(&name);
    if let Some(unknown) = records.header().iter().find(|name| !is_known(name)) {
        let known = [&NEEDED[..], &OPTIONAL[..]].concat().join(", ");
        let message = format!("is no column of a table of step times, which are {known}; drop or rename it");
        return Err(RowError::Field { file: file.into(), line: 1, column: unknown.into(), message });
    }
    let mut times: Vec<StepTime> = Vec::new();
    while records.advance()? {
        let line: Line = records.row().map_err(|error| records.refuse(error))?;
        let refuse = |(column, message): (&'static str, String)| RowError::Field {
            file: file.into(),
            line: records.line(),
            column: column.into(),
            message,
        };
        let time = step_time(line).map_err(refuse)?;
        if let Some(first) = times.iter().find(|first| first.workload == time.workload) {
            differing(&first.facts, &time).map_err(refuse)?;
        }
        times.push(time);
    }
    Ok(times)
}

fn step_time(line: Line) -> Found<StepTime> {
    let Job { workload, global_batch, plan, device } = &line.job;
    let (Some(global_batch), Some(plan), None) = (*global_batch, *plan, device) else {
        let message = format!("'{}' is no configuration; write NAME@bN@PLAN, as in gpt2@b32@dp2", line.job);
        return Err(("job", message));
    };
    let pieces = plan.batch_divisor();
    if !global_batch.is_multiple_of(pieces) {
        let message = format!(
            "a batch of {global_batch} is not divided evenly among {pieces} ranks and micro-batches of {plan}"
        );
        return Err(("job", format!("{message}; drop the line")));
    }
    let placement = placement(&line.devices)?;
    let devices: u32 = placement.iter().sum();
    if devices != plan.ranks() {
        let ranks = plan.ranks();
        return Err(("devices", format!("has {devices} devices, and {plan} has {ranks} ranks, one on each")));
    }
    if !(line.step_s.is_finite() && line.step_s >= 1e-9) {
        let message = format!("{} is no time of a step; drop lines that were not measured", line.step_s);
        return Err(("step_s", message));
    }
    let Line { parameters, layers, sequence, hidden, .. } = line;
    let of_model = [
        ("parameters", parameters),
        ("layers", layers.map(u64::from)),
        ("sequence", sequence.map(u64::from)),
        ("hidden", hidden.map(u64::from)),
        ("cpus", line.cpus.map(u64::from)),
        ("peak_memory_bytes", line.peak_memory_bytes),
        ("device_memory_bytes", line.device_memory_bytes),
    ];
    if let Some((column, _)) = of_model.iter().find(|(_, value)| *value == Some(0)) {
        return Err((column, "is 0; leave the cell empty if the number is not known".into()));
    }
    Ok(StepTime {
        workload: workload.clone(),
        facts: Facts { parameters, layers, sequence, hidden, state_per_parameter: None },
        device_type: line.device_type,
        device_memory_bytes: line.device_memory_bytes,
        row: FittedRow {
            source: 0,
            global_batch,
            plan,
            placement,
            cpus: line.cpus,
            ranks_per_device: 1,
            step_ns: (line.step_s * 1e9).round() as u64,
            forward_ns: None,
            synchronised_ns: None,
            updated_ns: None,
            peak_memory_bytes: line.peak_memory_bytes,
            doubtful: false,
            left_out: None,
        },
    })
}

/// Numbers of devices of the nodes, in descending order, from `4+4`.
fn placement(text: &str) -> Found<Vec<u32>> {
    let node = |devices: &str| devices.parse().ok().filter(|devices| (1..=MOST_DEVICES).contains(devices));
    let nodes: Option<Vec<u32>> = text.split('+').map(node).collect();
    let is_small = |nodes: &Vec<u32>| nodes.len() <= MOST_DEVICES as usize;
    let mut nodes = nodes.filter(is_small).ok_or_else(|| {
        let shown: String = text.chars().take(80).collect();
        ("devices", format!("'{shown}' is no number of devices; write 8, or 4+4 for two nodes"))
    })?;
    if nodes.iter().map(|devices| u64::from(*devices)).sum::<u64>() > u64::from(MOST_DEVICES) {
        return Err(("devices", format!("has more devices than {MOST_DEVICES}")));
    }
    nodes.sort_unstable_by(|a, b| b.cmp(a));
    Ok(nodes)
}

/// Refuses a line that says something else of the model than the first line of its workload.
fn differing(first: &Facts, time: &StepTime) -> Found<()> {
    let wide = |value: Option<u32>| value.map(u64::from);
    let pairs = |facts: &Facts| {
        let Facts { parameters, layers, sequence, hidden, .. } = *facts;
        [
            ("parameters", parameters),
            ("layers", wide(layers)),
            ("sequence", wide(sequence)),
            ("hidden", wide(hidden)),
        ]
    };
    let both = pairs(first).into_iter().zip(pairs(&time.facts));
    for ((column, before), (_, now)) in both {
        if let (Some(before), Some(now)) = (before, now)
            && before != now
        {
            let message = format!(
                "is {now}, and an earlier line of '{}' has {before}; give models of two sizes two names",
                time.workload
            );
            return Err((column, message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use schema::plan::Plan;

    use super::*;

    fn read_text(text: &str) -> Result<Vec<StepTime>, RowError> {
        read(Source { file: Path::new("t.csv"), text: text.as_bytes() })
    }

    #[test]
    fn lines_are_configurations_with_what_is_known_of_the_model() {
        let text = "job,devices,step_s,device_type,parameters,layers,peak_memory_bytes\n\
                    opt@b32@dp2-tp4-ga8,4+4,0.8048,GH200,350000000,24,12540968960\n\
                    opt@b8@dp3-ga1,1+2,1.5,,,,\n";
        let error = read_text(text).unwrap_err().to_string();
        assert!(
            error.contains("t.csv: line 3: job 'opt@b8@dp3-ga1': plan 'dp3-ga1' is spelled 'dp3'"),
            "{error}"
        );
        let times = read_text(&text.replace("b8@dp3-ga1", "b9@dp3")).unwrap();
        let [first, second] = &times[..] else { panic!("{times:?}") };
        assert_eq!((first.workload.as_str(), first.device_type.as_deref()), ("opt", Some("GH200")));
        assert_eq!(
            (first.facts.parameters, first.facts.layers, first.facts.hidden),
            (Some(350_000_000), Some(24), None)
        );
        assert_eq!(
            (first.row.global_batch, first.row.plan),
            (32, Plan { dp: 2, tp: 4, ga: 8, ..Plan::default() })
        );
        assert_eq!((&first.row.placement[..], first.row.step_ns), (&[4, 4][..], 804_800_000));
        assert_eq!(first.row.peak_memory_bytes, Some(12_540_968_960));
        assert_eq!((&second.row.placement[..], second.facts), (&[2, 1][..], Facts::default()));
        assert_eq!((second.device_type.as_deref(), second.row.peak_memory_bytes), (None, None));
    }

    #[test]
    fn lines_that_cannot_be_are_refused_with_their_column() {
        let columns = "job,devices,step_s,cpus,layers\n";
        let good = "a@b8@dp2,2,1.0,,12\n";
        for (line, message) in [
            ("a@b8,2,1,,", "line 3: column 'job': 'a@b8' is no configuration; write NAME@bN@PLAN"),
            ("a@b8@dp2@on=cpu:0,2,1,,", "line 3: column 'job': 'a@b8@dp2@on=cpu:0' is no configuration"),
            (
                "a@b8@dp3,3,1,,",
                "column 'job': a batch of 8 is not divided evenly among 3 ranks and micro-batches",
            ),
            ("a@b8@dp2,4,1,,", "column 'devices': has 4 devices, and dp2 has 2 ranks"),
            ("a@b8@dp2,2+0,1,,", "column 'devices': '2+0' is no number of devices; write 8, or 4+4"),
            ("a@b8@dp2,2,0,,", "column 'step_s': 0 is no time of a step; drop lines that were not measured"),
            ("a@b8@dp2,2,-1,,", "column 'step_s': -1 is no time"),
            ("a@b8@dp2,2,NaN,,", "column 'step_s': NaN is no time"),
            ("a@b8@dp2,2,1,0,", "column 'cpus': is 0; leave the cell empty"),
            ("a@b8@dp2,2,1,,13", "column 'layers': is 13, and an earlier line of 'a' has 12"),
        ] {
            let error = read_text(&format!("{columns}{good}{line}\n")).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let error = read_text("job,devices,step_s,peak\n").unwrap_err().to_string();
        assert!(error.contains("line 1: column 'peak': is no column of a table of step times"), "{error}");
    }
}
