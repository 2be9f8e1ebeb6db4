//! Warnings about rows: the bound behind each, its cause, and a remedy.
//!
//! A row with warnings is kept and labelled, never dropped: the reader decides.

use std::{fmt, path::PathBuf};

use record::rows::{Tier, Warning};
use schema::units::Nanos;

/// The share of the window in which the device ran below its requested clock.
pub const THROTTLED_PERCENT: f64 = rig::sampler::THROTTLED_PERCENT;
/// The share of CPU time that the hypervisor gave to others, over the window and the cores of the set.
pub const STEAL_PERCENT: f64 = 1.0;
/// The share of CPU time that others used on the cores of the set. One percent would give false warnings, because the clock of
/// `/proc/stat` ticks in 10 ms and kernel threads work for the job too.
pub const FOREIGN_PERCENT: f64 = 2.0;
/// The share of a tier's readings in the window that failed.
pub const UNREAD_PERCENT: f64 = 1.0;
/// The pace of a user's program over its median step.
pub const BURSTY_FROM: f64 = 1.1;

/// The time between two lines that end a step, and the utilisation of the device, from which on each line may stand for several steps.
pub const SPARSE_FROM: Nanos = Nanos::SECOND;
pub const BUSY_FROM_PERCENT: f64 = 50.0;

/// The longest gap between readings of a device. The slow tier is read once a second.
pub fn longest_gap_s(tier: Tier) -> f64 {
    match tier {
        Tier::Fast | Tier::Gpm => 1.0,
        Tier::Slow => 3.0,
    }
}

/// One warning about one row, with the number behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A launch, or a job if the warning is about all of its launches.
    pub subject: String,
    pub warning: Warning,
    /// A description with numbers.
    pub found: String,
}

/// Formats the warning as `0003-lstm: foreign: other programs used 34.0 % of cpu:0; stop them, or ...`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}; {}", self.subject, self.warning, self.found, remedy(self.warning))
    }
}

/// Whether each finding of a run is printed, or each kind of finding once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    EachFinding,
    EachKind,
}

/// The lines about the findings of a run: each finding, or the number of each kind with the first finding of it, and the names of the
/// `tables` that have all.
pub fn lines(findings: &[Finding], tables: &[PathBuf], detail: Detail) -> Vec<String> {
    let has_several = |kind: &Warning| findings.iter().filter(|finding| finding.warning == *kind).count() > 1;
    if detail == Detail::EachFinding || !Warning::ALL.iter().any(has_several) {
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
    let all = format!(
        "all {} warnings: column warnings of {}; --verbose prints them",
        findings.len(),
        tables.join(", ")
    );
    Warning::ALL.iter().filter_map(of_kind).chain([all]).collect()
}

/// What to do about a warning.
fn remedy(warning: Warning) -> &'static str {
    match warning {
        Warning::Throttled => {
            "let the device cool down, raise the CPU quota, which `profile doctor` names, or compare only runs that were throttled alike"
        }
        Warning::Steal => "the host is overcommitted: measure at another time, or on another machine",
        Warning::Foreign => "stop them, or choose other cores with --device",
        Warning::CoresShared => {
            "the slowdown may come from the host: measure fewer ranks or jobs together, or give each job on GPUs fewer \
             cores with --cpus-per-job"
        }
        Warning::FewSteps => {
            "measure for longer with --seconds, or count with --steps; a program that ended by itself has to train for longer"
        }
        Warning::NotSteady => {
            "measure for longer with --seconds, or let a program that ended by itself train for longer; trace.json shows what the steps did"
        }
        Warning::SlowedDown => {
            "look in trace.json for when it turned slow: a queue that filled up, a clock that went down or another program; \
             measure for longer with --seconds to see whether it stays slow"
        }
        Warning::SamplerLate => "leave the harness some CPU time: take fewer cores with --device",
        Warning::Drift => "let the machine settle and run again; --ci repeats until the interval is narrow",
        Warning::Spread => {
            "look for what differs between launches; --ci repeats until the interval is narrow"
        }
        Warning::FewRepeats => "increase --repeats: an interval needs at least three launches",
        Warning::Budget => {
            "continue with --resume and a larger --budget, or accept a wider interval with --ci"
        }
        Warning::LossNotFinite => "training diverged: the speed may still be valid, but the result is not",
        Warning::Buffered => {
            "use the mean only, or make the program write each line as it is printed: `stdbuf -oL` does so for many programs, and \
             `stdbuf -o0` if its lines end in a carriage return, as in progress bars; if a line stands for several steps, capture \
             their number with --steps-regex, as in 'iter (\\d+)'"
        }
        Warning::DeviceLost => "look at the driver's log; the device must be reset by its owner",
        Warning::FasterTogether => {
            "likely causes are a clock that rises under load, data that members share in caches, or something that \
             slowed its launches alone; look at the steps in trace.json, and measure again with more --repeats"
        }
        Warning::BlocksFailed => {
            "measurements.csv has the reason for each; measure again, with more --repeats where failures are rare"
        }
        Warning::Fp32Layers => {
            "its bf16 plans do not represent bf16 on other devices: compare them only with each other"
        }
        Warning::Cut => {
            "if its steps come later, raise --first-step-timeout; if lines of its output end a step, match them with --steps-regex; \
             to measure its run time, leave out --seconds and --steps"
        }
        Warning::NoSteps => {
            "steps of a program without an optimizer of PyTorch are not seen: match the lines of output that end a step with --steps-regex"
        }
        Warning::NoHook => {
            "install the hook with `pip install ./workloads/python`, which works under -E, too; run the harness where the program \
             runs; or match the lines of output that end a step with --steps-regex"
        }
        Warning::Unheard => {
            "measure one training at a time, or start its processes as ranks of a process group, as torchrun does"
        }
        Warning::Alternating => {
            "compare its step times only with each other; if another call ends its steps, match with --steps-regex the lines of \
             output that do"
        }
        Warning::Killed => {
            "what it had not saved is lost: make it end on SIGTERM, or leave out --seconds and --steps so that it ends by itself"
        }
        Warning::Bursty => {
            "what it does between some of its steps, such as a test of its model, counts as part of the next step, and so does what other \
             programs take from it: use the pace (step_ns_mean) for its speed, and the median for a usual step"
        }
        Warning::SparseLines => {
            "if a line stands for several steps, its time is that of all of them: capture the number of the step with --steps-regex, \
             as in 'iter (\\d+)'"
        }
        Warning::Cleanup => {
            "what it should have undone is still there, and later launches may find it: correct the command of --cleanup"
        }
        Warning::Looped => "give it more steps, so that it runs as long as the others",
        Warning::Unread => {
            "the column `err` of devices.csv and host.csv has the failed readings; after `Too many open files`, raise the limit that \
             `ulimit -Hn` prints; if readings were too rare, leave a core to the harness"
        }
        Warning::AllocatorRetries => {
            "the job barely fits: choose a smaller batch, or another plan with --plan"
        }
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
    fn several_findings_of_a_kind_are_one_line_unless_all_are_wanted() {
        let finding = |number: usize, warning| Finding {
            subject: format!("{number:04}-lstm"),
            warning,
            found: "something was found".into(),
        };
        let mut findings: Vec<Finding> = (1..=10).map(|number| finding(number, Warning::Foreign)).collect();
        let tables = ["r/measurements.csv", "r/summary.csv"].map(PathBuf::from);
        let each = lines(&findings, &tables, Detail::EachFinding);
        assert_eq!((each.len(), each[9].clone()), (10, format!("warning: {}", findings[9])));

        findings.push(finding(11, Warning::Spread));
        let many = lines(&findings, &tables, Detail::EachKind);
        assert_eq!(many.len(), 3);
        let remedy = "something was found; stop them, or choose other cores with --device";
        assert!(
            many.contains(&format!("warning: foreign: 10 times, first in 0001-lstm: {remedy}")),
            "{many:?}"
        );
        assert!(many.contains(&format!("warning: {}", findings[10])), "{many:?}");
        assert_eq!(
            many[2],
            "all 11 warnings: column warnings of r/measurements.csv, r/summary.csv; --verbose prints them"
        );
        let one_of_each = lines(&findings[9..], &tables, Detail::EachKind);
        assert_eq!(
            one_of_each,
            findings[9..].iter().map(|one| format!("warning: {one}")).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_finding_is_a_sentence() {
        let finding = Finding {
            subject: "0003-lstm".into(),
            warning: Warning::Foreign,
            found: "other programs used 34.0 % of cpu:0".into(),
        };
        let sentence = "0003-lstm: foreign: other programs used 34.0 % of cpu:0; stop them, or choose other cores with --device";
        assert_eq!(finding.to_string(), sentence);
    }
}
