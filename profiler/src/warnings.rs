//! What makes a number doubtful: the bound behind each warning, its cause, and what to try next.
//!
//! A doubtful row is kept and labelled, never dropped: the reader decides.

use std::{fmt, path::PathBuf};

use schema::rows::{Tier, Warning};

/// Time below the wanted clock, over the window.
pub const THROTTLED_PERCENT: f64 = 0.5;
/// Time the hypervisor gave to others, over the window and the cores of the set.
pub const STEAL_PERCENT: f64 = 1.0;
/// CPU time of others on the cores of the set. The clock of `/proc/stat` ticks in 10 ms and kernel
/// threads work for the job too, so that the one percent one would wish for would cry wolf.
pub const FOREIGN_PERCENT: f64 = 2.0;
/// Readings of a tier that failed, of all that were taken in the window.
pub const UNREAD_PERCENT: f64 = 1.0;

/// Readings of a device further apart than this leave too much unseen. The slow tier is read once a second.
pub fn longest_gap_s(tier: Tier) -> f64 {
    match tier {
        Tier::Fast | Tier::Gpm => 1.0,
        Tier::Slow => 3.0,
    }
}

/// One warning about one row, with the number behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A launch, or a job where all launches together are meant.
    pub subject: String,
    pub warning: Warning,
    /// What was found, in words and numbers.
    pub found: String,
}

/// `0003-lstm: foreign: other programs used 34.0 % of cpu:0; stop them, or ...`
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; {}", self.subject, self.warning, self.found, remedy(self.warning))
    }
}

/// More findings than this would fill a screen, and say the same of one launch after the other.
const MOST_LINES: usize = 10;

/// What to tell people of a run: each finding, or where there are many, how many of each kind and the first of them; then also
/// which of these `tables` have all.
pub fn lines(findings: &[Finding], tables: &[PathBuf]) -> Vec<String> {
    if findings.len() <= MOST_LINES {
        return findings.iter().map(|finding| format!("warning: {finding}")).collect();
    }
    let of_kind = |kind: &Warning| {
        let mut of_kind = findings.iter().filter(|finding| finding.warning == *kind);
        let first = of_kind.next()?;
        let Finding { subject, found, .. } = first;
        Some(match of_kind.count() {
            0 => format!("warning: {first}"),
            more => {
                format!("warning: {kind}: {} times, first in {subject}: {found}; {}", more + 1, remedy(*kind))
            }
        })
    };
    let tables: Vec<String> = tables.iter().map(|table| table.display().to_string()).collect();
    let all = format!("all {} warnings: column warnings of {}", findings.len(), tables.join(", "));
    Warning::ALL.iter().filter_map(of_kind).chain([all]).collect()
}

/// What to try next.
fn remedy(warning: Warning) -> &'static str {
    match warning {
        Warning::Throttled => "let the device cool down, or compare only runs that were throttled alike",
        Warning::Steal => "the host is overcommitted: measure at another time, or on another machine",
        Warning::Foreign => "stop them, or take other cores with --device",
        Warning::CoresShared => {
            "what they cost each other may be the host's doing: give each fewer cores with --cpus-per-job, or measure fewer of \
             them together"
        }
        Warning::FewSteps => "measure for longer with --seconds, or count with --steps",
        Warning::NotSteady => "measure for longer with --seconds; trace.json shows what the steps did",
        Warning::SlowedDown => {
            "look in trace.json for when it turned slow: a queue that filled up, a clock that went down or another program; \
             measure for longer with --seconds to see whether it stays so"
        }
        Warning::SamplerLate => "leave the harness some CPU time: take fewer cores with --device",
        Warning::Drift => "let the machine settle and run again; --ci repeats until the interval is narrow",
        Warning::Spread => {
            "look for what differs between launches; --ci repeats until the interval is narrow"
        }
        Warning::FewRepeats => "repeat more often with --repeats: an interval wants at least three launches",
        Warning::Budget => "go on with --resume and a larger --budget, or accept a wider interval with --ci",
        Warning::LossNotFinite => "training diverged: its speed may still be right, its result is not",
        Warning::Buffered => {
            "believe the mean alone, or have each line written as it is printed: `stdbuf -oL` does it for many programs"
        }
        Warning::DeviceLost => "look at the driver's log; the device must be reset by its owner",
        Warning::FasterTogether => {
            "likely a clock that rises under load, what one reads and the others then have in their caches, or something that \
             slowed its launches alone; look at the steps in trace.json, and measure again with more --repeats"
        }
        Warning::BlocksFailed => {
            "measurements.csv says why each failed; measure again, with more --repeats where failures are rare"
        }
        Warning::Fp32Layers => {
            "its bf16 plans say nothing about bf16 on other devices: compare them with each other alone"
        }
        Warning::Cut => {
            "how long it runs is not known: give it more time with --seconds, or none, so that it comes to its end"
        }
        Warning::NoSteps => {
            "an optimizer of its own, or none, shows no step: name with --steps-regex the lines of output that end one"
        }
        Warning::Unheard => {
            "measure one training at a time, or start its processes as ranks of a process group, as torchrun does"
        }
        Warning::Alternating => {
            "compare its step times with each other alone; where another call ends its steps, name with --steps-regex the lines of \
             output that do"
        }
        Warning::Looped => "give it more steps, so that it lasts as long as the others",
        Warning::Unread => {
            "the column `err` of devices.csv says which readings failed; where they came too rarely, leave the harness a core of its own"
        }
        Warning::AllocatorRetries => "the job barely fits: take a smaller batch, or another plan with --plan",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_warning_says_what_to_do_and_the_options_it_names_exist() {
        use clap::CommandFactory as _;
        let command = crate::cmd::Cli::command();
        let single = command.find_subcommand("single").expect("there is `single`");
        let options: Vec<&str> = single.get_arguments().filter_map(|arg| arg.get_long()).collect();
        for &warning in Warning::ALL {
            for word in remedy(warning).split(|c: char| !c.is_ascii_lowercase() && c != '-') {
                if let Some(option) = word.strip_prefix("--") {
                    assert!(options.contains(&option), "{warning}: --{option}");
                }
            }
        }
    }

    #[test]
    fn many_findings_are_a_line_a_kind_and_say_where_all_are() {
        let finding = |number: usize, warning| Finding {
            subject: format!("{number:04}-lstm"),
            warning,
            found: "something was found".into(),
        };
        let mut findings: Vec<Finding> = (1..=10).map(|number| finding(number, Warning::Foreign)).collect();
        let tables = ["r/measurements.csv", "r/summary.csv"].map(PathBuf::from);
        let few = lines(&findings, &tables);
        assert_eq!((few.len(), few[9].clone()), (10, format!("warning: {}", findings[9])));

        findings.push(finding(11, Warning::Spread));
        let many = lines(&findings, &tables);
        assert_eq!(many.len(), 3);
        let remedy = "something was found; stop them, or take other cores with --device";
        assert!(
            many.contains(&format!("warning: foreign: 10 times, first in 0001-lstm: {remedy}")),
            "{many:?}"
        );
        assert!(many.contains(&format!("warning: {}", findings[10])), "{many:?}");
        assert_eq!(many[2], "all 11 warnings: column warnings of r/measurements.csv, r/summary.csv");
    }

    #[test]
    fn a_finding_is_a_sentence() {
        let finding = Finding {
            subject: "0003-lstm".into(),
            warning: Warning::Foreign,
            found: "other programs used 34.0 % of cpu:0".into(),
        };
        let sentence = "0003-lstm: foreign: other programs used 34.0 % of cpu:0; stop them, or take other cores with --device";
        assert_eq!(finding.to_string(), sentence);
    }
}
