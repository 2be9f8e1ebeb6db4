//! `sched policies`: lists the policies, and shows the settings of one.

use anyhow::{Context as _, ensure};
use clap::{
    Arg, Command,
    builder::{PossibleValue, StringValueParser, TypedValueParser},
};
use cli::table;
use formats::rows::{PolicyRow, SettingRow};
use record::rows;
use rig::{Exit, output};

use crate::policy;

/// The most settings that are shown behind a name.
const SETTINGS_SHOWN: usize = 3;

/// List the policies, or show one with its settings.
///
/// `--policy` of `sched run` and `sched sim` takes the name of a policy, and its settings after colons, as in
/// `gandiva:quantum=5s:pack=off`. `sched sim` takes several, separated by commas. A program of your own is a policy, too:
/// `--policy "exec:python3 my_policy.py"`.
///
/// Example: `sched policies`
///
/// Example: `sched policies gandiva`
#[derive(clap::Args)]
pub(super) struct Args {
    /// The name of a policy.
    #[arg(value_parser = PolicyNames, hide_possible_values = true)]
    name: Option<String>,
    /// Print rows as JSON.
    #[arg(long)]
    json: bool,
}

/// Any text. Completions of shells offer the names of policies.
#[derive(Clone)]
pub(super) struct PolicyNames;

impl TypedValueParser for PolicyNames {
    type Value = String;

    fn parse_ref(
        &self,
        command: &Command,
        arg: Option<&Arg>,
        value: &std::ffi::OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let value = |policy: &policies::Declaration| PossibleValue::new(policy.name).help(policy.order);
        Some(Box::new(policies::POLICIES.iter().map(move |policy| value(policy))))
    }
}

/// The help of `--policy` in `-h`: `this`, and where the names are.
pub(super) fn short_help(this: &str) -> String {
    format!("{this}, such as srtf; `sched policies` lists all")
}

/// The help of `--policy`: `this`, and the names of all policies.
pub(super) fn help(this: &str) -> String {
    let names: Vec<&str> = policy::names().collect();
    format!("{this}: {}; `sched policies NAME` shows the settings that may follow a name", names.join(", "))
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    let mut all = policy::rows();
    if let Some(name) = &args.name {
        let (kind, settings) = policies::split(name);
        all.retain(|row| row.name == kind);
        let row = all.first().with_context(|| policy::no_policy(kind))?;
        ensure!(
            settings.is_empty() || policy::program(name).is_some(),
            "'{kind}:..' has settings; write the name alone, as in `sched policies {kind}`"
        );
        if !args.json {
            show(row)?;
            return Ok(Exit::Ok);
        }
    }
    if args.json {
        output::print(rows::to_json(&all))?;
    } else {
        list(&all)?;
    }
    Ok(Exit::Ok)
}

/// One line for each policy.
fn list(all: &[PolicyRow]) -> anyhow::Result<()> {
    let mut lines = table::of_sentences(&["policy", "source", "decides by"]);
    for row in all {
        let name = if row.settings.is_empty() { &row.usage } else { &row.name };
        lines.add_row([name, &row.source, &row.order]);
    }
    table::print_sentences(&lines)?;
    output::print("")?;
    output::print("`sched policies NAME` shows the settings, which are written NAME:KEY=VALUE:..")
}

/// A policy, and a line for each of its settings.
fn show(row: &PolicyRow) -> anyhow::Result<()> {
    let usage = match row.settings.len() {
        // Lines are broken between settings.
        0..=SETTINGS_SHOWN => row.usage.replace("][:", "]\n[:"),
        _ => format!("{}[:KEY=VALUE..]", row.name),
    };
    let resizes = if row.resizes { "may get other numbers of devices" } else { "get what they ask for" };
    let mut lines = table::of_sentences(&["policy", &row.name]);
    for (what, text) in [
        ("source", &*row.source),
        ("decides by", &row.order),
        ("a job that does not fit", &row.misfit),
        ("elastic jobs", resizes),
        ("preemption", &row.preemption),
        ("packing", &row.packing),
        ("information needed", &row.needs),
        ("written", &usage),
        ("example", &format!("--policy {}", row.example)),
    ] {
        lines.add_row([what, text]);
    }
    table::print_sentences(&lines)?;
    if row.settings.is_empty() {
        return Ok(());
    }
    let mut lines = table::of_sentences(&["setting", "default", "values", "meaning"]);
    for SettingRow { key, default, values, meaning, .. } in &row.settings {
        lines.add_row([key, default, values, meaning]);
    }
    output::print("")?;
    table::print_sentences(&lines)
}
