//! The plans, numbers of devices and nodes, and micro-batches that the rows of a workload cover.

use std::collections::BTreeMap;

use schema::plan::{Plan, Precision};

use crate::{Observation, Setting};

/// Rubick published its parameters for the devices of one node, and for this stage of ZeRO.
const PUBLISHED_DEVICES: u32 = 8;
const PUBLISHED_ZERO: u8 = 2;

/// The ranges of the rows of each kind of plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Covered {
    rows: BTreeMap<Kind, Ranges>,
    /// Whether there are no rows, but published parameters.
    is_published: bool,
}

/// What plans have in common whose times follow from each other by the number of devices, the degrees and the micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    has_tensor: bool,
    has_pipeline: bool,
    zero: u8,
    offload: bool,
    gc: bool,
    precision: Precision,
}

/// The least and the most of the rows of a kind.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranges {
    devices: (u32, u32),
    nodes: (u32, u32),
    /// Samples of a micro-batch.
    samples: (f64, f64),
}

impl Kind {
    fn of(plan: Plan) -> Kind {
        let Plan { zero, offload, gc, precision, .. } = plan;
        Kind { has_tensor: plan.tp > 1, has_pipeline: plan.pp > 1, zero, offload, gc, precision }
    }
}

impl Covered {
    pub(crate) fn by(rows: &[Observation]) -> Covered {
        let mut covered = Covered { rows: BTreeMap::new(), is_published: rows.is_empty() };
        for row in rows.iter().map(|row| row.setting) {
            let (devices, nodes, samples) = (row.placement.devices, row.placement.nodes, row.micro_batch());
            let first =
                Ranges { devices: (devices, devices), nodes: (nodes, nodes), samples: (samples, samples) };
            let ranges = covered.rows.entry(Kind::of(row.plan)).or_insert(first);
            ranges.devices = (ranges.devices.0.min(devices), ranges.devices.1.max(devices));
            ranges.nodes = (ranges.nodes.0.min(nodes), ranges.nodes.1.max(nodes));
            ranges.samples = (ranges.samples.0.min(samples), ranges.samples.1.max(samples));
        }
        covered
    }

    /// Whether a setting is within the ranges of the rows of its kind.
    pub(crate) fn has(&self, setting: &Setting) -> bool {
        let devices = setting.placement.devices;
        if self.is_published {
            return devices <= PUBLISHED_DEVICES && [0, PUBLISHED_ZERO].contains(&setting.plan.zero);
        }
        self.rows.get(&Kind::of(setting.plan)).is_some_and(|ranges| {
            (ranges.devices.0..=ranges.devices.1).contains(&devices)
                && (ranges.nodes.0..=ranges.nodes.1).contains(&setting.placement.nodes)
                && (ranges.samples.0..=ranges.samples.1).contains(&setting.micro_batch())
        })
    }
}
