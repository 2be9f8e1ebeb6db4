//! Colours of a report. A workload has one colour in all figures, and so has a policy.

use std::collections::BTreeMap;

/// A colour, by its role. The page, the SVG and the PNG give it a value, light or dark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Colour {
    /// One of [`HUES`] times [`TONES`] colours of data.
    Data(u8),
    /// Text and axes.
    Ink,
    /// What stands behind the data: grids, rules, idle time.
    Muted,
    /// A failure.
    Bad,
}

/// The number of hues that people with any colour vision can tell apart (M. Okabe and K. Ito, "Color Universal Design", 2008; without
/// black, and with the yellow darkened for white paper).
pub const HUES: u8 = 7;
/// Tones of each hue. A report with more than `HUES * TONES` names uses colours again.
pub const TONES: u8 = 3;

/// The colours of the names of a report.
#[derive(Clone, Debug, Default)]
pub struct Colours {
    of: BTreeMap<String, Colour>,
}

impl Colours {
    /// Gives a colour to each name, in order of the first appearance.
    pub fn of_names<'a>(names: impl IntoIterator<Item = &'a str>) -> Colours {
        let mut colours = Colours::default();
        for name in names {
            let next = (colours.of.len() % usize::from(HUES * TONES)) as u8;
            colours.of.entry(name.to_owned()).or_insert(Colour::Data(next));
        }
        colours
    }

    /// The colour of a workload or a policy. A name that the report does not know is muted.
    pub fn of(&self, name: &str) -> Colour {
        self.of.get(name).copied().unwrap_or(Colour::Muted)
    }

    /// The colour at a position, for parts that are no workload, such as phases.
    pub fn nth(position: usize) -> Colour {
        Colour::Data((position % usize::from(HUES * TONES)) as u8)
    }
}
