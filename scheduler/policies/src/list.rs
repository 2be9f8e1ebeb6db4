//! The list of policies, by the names that users type.

use anyhow::{Context as _, ensure};
use engine::policy::Policy;

use crate::{
    antman, elastic_fifo, fifo, gandiva, gavel, gittins, horus,
    kit::{divided::Divided, elastic, in_order, in_rounds},
    las, lucid, optimus, packing_fifo, pollux_fixed_batch, qssf, rubick, sia, sjf, srsf, srtf, synergy,
    themis, tiresias,
};

struct Entry {
    name: &'static str,
    /// The settings that may follow the name.
    usage: &'static str,
    /// Whether the policy may give elastic jobs other numbers of devices than they ask for.
    resizes: bool,
    /// Builds the policy from the settings that followed the name and a colon.
    build: fn(&str) -> anyhow::Result<Box<dyn Policy>>,
}

impl Entry {
    const fn new(name: &'static str, build: fn(&str) -> anyhow::Result<Box<dyn Policy>>) -> Entry {
        Entry { name, usage: "", resizes: false, build }
    }
}

const POLICIES: &[Entry] = &[
    Entry::new("fifo", |_| each(fifo::Fifo::strict)),
    Entry::new("fifo-backfill", |_| each(fifo::Fifo::backfill)),
    Entry::new("sjf", |_| each(sjf::Sjf::strict)),
    Entry::new("sjf-backfill", |_| each(sjf::Sjf::backfill)),
    Entry::new("qssf", |_| each(qssf::Qssf::strict)),
    Entry::new("qssf-backfill", |_| each(qssf::Qssf::backfill)),
    Entry {
        usage: in_rounds::USAGE,
        ..Entry::new("srtf", |text| match in_rounds::parse(text)? {
            None => each(srtf::Srtf::default),
            Some(times) => each(move || in_rounds::remaining::<false>(times)),
        })
    },
    Entry {
        usage: in_rounds::USAGE,
        ..Entry::new("srsf", |text| match in_rounds::parse(text)? {
            None => each(srsf::Srsf::default),
            Some(times) => each(move || in_rounds::remaining::<true>(times)),
        })
    },
    Entry {
        usage: in_order::Times::USAGE,
        ..Entry::new("las", |text| {
            let times = las::parse(text)?;
            each(move || las::las(times))
        })
    },
    Entry {
        usage: gittins::Settings::USAGE,
        ..Entry::new("gittins", |text| {
            let settings = gittins::Settings::parse(text)?;
            each(move || gittins::gittins(&settings))
        })
    },
    Entry {
        usage: in_order::Times::USAGE,
        ..Entry::new("themis", |text| {
            let times = themis::parse(text)?;
            each(move || themis::themis(times))
        })
    },
    Entry {
        usage: "[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR]",
        ..Entry::new("tiresias", |text| {
            let settings = tiresias::Settings::parse(text)?;
            each(move || tiresias::Tiresias::new(settings.clone()))
        })
    },
    Entry::new("horus-stand-in", |_| each(horus::Horus::default)),
    Entry::new("packing-fifo", |_| each(packing_fifo::PackingFifo::default)),
    Entry { resizes: true, ..Entry::new("elastic-fifo", |_| each(elastic_fifo::ElasticFifo::new)) },
    Entry {
        usage: "[:every=TIME]",
        resizes: true,
        ..Entry::new("optimus", |text| {
            let settings = elastic::Settings::parse(text, [])?;
            each(move || optimus::optimus(&settings))
        })
    },
    Entry {
        usage: "[:every=TIME][:p=NUMBER][:lambda=NUMBER]",
        resizes: true,
        ..Entry::new("sia", |text| {
            let settings = sia::settings(text)?;
            each(move || sia::Sia::new(&settings))
        })
    },
    Entry {
        usage: "[:every=TIME]",
        resizes: true,
        ..Entry::new("pollux-fixed-batch", |text| {
            let settings = elastic::Settings::parse(text, [])?;
            each(move || pollux_fixed_batch::pollux_fixed_batch(&settings))
        })
    },
    Entry {
        usage: rubick::Settings::USAGE,
        resizes: true,
        ..Entry::new("rubick", |text| {
            let settings = rubick::Settings::parse(text)?;
            each(move || rubick::Rubick::new(settings.clone()))
        })
    },
    Entry {
        usage: "[:every=TIME]",
        ..Entry::new("synergy", |text| {
            let every = synergy::parse(text)?;
            each(move || synergy::Synergy::new(every))
        })
    },
    Entry {
        usage: "[:keep=PART][:floor=SHARE]",
        ..Entry::new("antman", |text| {
            let settings = antman::Settings::parse(text)?;
            each(move || antman::AntMan::new(settings))
        })
    },
    Entry {
        usage: gavel::Settings::USAGE,
        ..Entry::new("gavel", |text| {
            let settings = gavel::Settings::parse(text)?;
            each(move || gavel::Gavel::new(settings))
        })
    },
    Entry {
        usage: lucid::Settings::USAGE,
        ..Entry::new("lucid", |text| Ok(Box::new(lucid::Lucid::new(lucid::Settings::parse(text)?))))
    },
    Entry {
        usage: gandiva::Settings::USAGE,
        resizes: true,
        ..Entry::new("gandiva", |text| {
            let settings = gandiva::Settings::parse(text)?;
            each(move || gandiva::Gandiva::new(settings.clone()))
        })
    },
];

/// A policy that decides in each virtual cluster apart.
fn each<P: Policy + 'static>(build: impl Fn() -> P + 'static) -> anyhow::Result<Box<dyn Policy>> {
    Ok(Box::new(Divided::new(move || Box::new(build()))))
}

/// Builds a policy by its name, for example `srtf` or `tiresias:3600s`. `None` if no policy has the name.
///
/// # Errors
/// Fails if its settings cannot be parsed.
pub fn build(name: &str) -> anyhow::Result<Option<Box<dyn Policy>>> {
    let (kind, settings) = split(name);
    let Some(Entry { usage, build, .. }) = entry(kind) else { return Ok(None) };
    ensure!(
        settings.is_empty() || !usage.is_empty(),
        "policy '{kind}' has no settings; '{settings}' was given"
    );
    build(settings).map(Some).with_context(|| format!("policy '{name}'; write {kind}{usage}"))
}

/// Whether the policy of that name may give elastic jobs other numbers of devices than they ask for.
pub fn resizes(name: &str) -> bool {
    entry(split(name).0).is_some_and(|entry| entry.resizes)
}

/// The names of all policies, each with the settings that may follow it.
pub fn names() -> impl Iterator<Item = String> {
    POLICIES.iter().map(|Entry { name, usage, .. }| format!("{name}{usage}"))
}

/// Splits a name into the kind of the policy and its settings.
pub fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, ""))
}

fn entry(kind: &str) -> Option<&'static Entry> {
    POLICIES.iter().find(|entry| entry.name == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_built_by_name_and_errors_say_what_to_write() {
        for name in [
            "fifo",
            "fifo-backfill",
            "sjf",
            "sjf-backfill",
            "qssf",
            "qssf-backfill",
            "srtf",
            "srsf",
            "srtf:every=300s:bump=1000h",
            "srsf:every=5m",
            "las",
            "las:every=60s:bump=1h",
            "gittins:limit=3250s",
            "themis:every=6m",
            "tiresias",
            "tiresias:1h/4h:promote=8",
            "horus-stand-in",
            "packing-fifo",
            "synergy",
            "synergy:every=1h",
            "antman",
            "antman:keep=0.9:floor=0.05",
            "elastic-fifo",
            "optimus",
            "optimus:every=10m",
            "sia:p=1:lambda=0.5:every=6m",
            "rubick",
            "rubick:risk=0.9:only=plans:restarts=5%:every=30s",
            "rubick:slack=1.5:most-restarts=5:shield=200000s:reclaim=off",
            "pollux-fixed-batch:every=500ms",
            "gavel",
            "gavel:objective=max-throughput:space-sharing=on:every=60s",
            "gavel:objective=finish-time",
            "lucid",
            "lucid:estimates=rolling:profile=80s:profile-devices=4:profile-checkpoint=on:free-profiling=on",
            "lucid:sharing=auto:busy=0.5:load-bin=1m:share-first=on:score=3:least-gain=1.1:pick=first",
            "lucid:bound=never:backfill=sharing:partner-recovery=off",
            "gandiva",
            "gandiva:quantum=5s:pack=off:slice=off:migrate=off:grow=off",
            "gandiva:idle=10s:relax=1m:reports=3:moves=0.05",
            "gandiva:search=halving:eta=3:rung=100:target=0.5",
            "gandiva:search=keep:keep=8",
            "gandiva:slice=off:pack=off:reports=10:search=keep",
        ] {
            assert!(build(name).is_ok_and(|policy| policy.is_some()), "{name}");
        }
        for (name, message) in [
            ("fifo:3", "policy 'fifo' has no settings; '3' was given"),
            ("srtf:3", "policy 'srtf:3'; write srtf[:every=TIME[:bump=TIME]]: '3' is not KEY=VALUE"),
            ("srsf:bump=1h", "policy 'srsf:bump=1h'; write srsf[:every=TIME[:bump=TIME]]: bump needs rounds"),
            ("las:every=1ms", "policy 'las:every=1ms'; write las[:every=TIME][:bump=TIME]: a round takes at"),
            (
                "themis:f=0.8",
                "policy 'themis:f=0.8'; write themis[:every=TIME][:bump=TIME]: there is no setting 'f'",
            ),
            ("gittins:limit=0s", "policy 'gittins:limit=0s'; write gittins"),
            (
                "tiresias:many",
                "policy 'tiresias:many'; write tiresias[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR]: 'many'",
            ),
            (
                "tiresias:2s/1s",
                "policy 'tiresias:2s/1s'; write tiresias[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR]: thr",
            ),
            ("tiresias:promote=0", "policy 'tiresias:promote=0'; write "),
            ("tiresias:promote=2:5s", "policy 'tiresias:promote=2:5s'; write "),
            (
                "synergy:every=fast",
                "policy 'synergy:every=fast'; write synergy[:every=TIME]: 'every=fast': write",
            ),
            ("synergy:every=10ms", "policy 'synergy:every=10ms'; write synergy[:every=TIME]: a round takes"),
            (
                "antman:keep=2",
                "policy 'antman:keep=2'; write antman[:keep=PART][:floor=SHARE]: 'keep=2': write",
            ),
            (
                "antman:keep=1",
                "policy 'antman:keep=1'; write antman[:keep=PART][:floor=SHARE]: keep=1 leaves",
            ),
            (
                "antman:share=1",
                "policy 'antman:share=1'; write antman[:keep=PART][:floor=SHARE]: 'share=1' is no",
            ),
            (
                "optimus:every=0s",
                "policy 'optimus:every=0s'; write optimus[:every=TIME]: every needs at least 100ms",
            ),
            (
                "optimus:every",
                "policy 'optimus:every'; write optimus[:every=TIME]: every needs a time, such as every=60s",
            ),
            (
                "sia:p=0",
                "policy 'sia:p=0'; write sia[:every=TIME][:p=NUMBER][:lambda=NUMBER]: p needs a number that",
            ),
            (
                "rubick:risk=1",
                "policy 'rubick:risk=1'; write rubick[:every=TIME][:only=plans|resources|nothing]",
            ),
            ("rubick:only=all", "policy 'rubick:only=all'; write rubick"),
            ("rubick:risk=0.9:risk=0.8", "policy 'rubick:risk=0.9:risk=0.8'; write rubick"),
            (
                "sia:q=1",
                "policy 'sia:q=1'; write sia[:every=TIME][:p=NUMBER][:lambda=NUMBER]: 'q=1' is no setting",
            ),
            ("gavel:objective=best", "policy 'gavel:objective=best'; write gavel[:objective="),
            ("gavel:every=1ms", "policy 'gavel:every=1ms'; write gavel"),
            ("lucid:sharing=maybe", "policy 'lucid:sharing=maybe'; write lucid[:estimates="),
            ("lucid:load-bin=2h", "policy 'lucid:load-bin=2h'; write lucid"),
            ("lucid:bound", "policy 'lucid:bound'; write lucid"),
            ("gandiva:quantum=1ms", "policy 'gandiva:quantum=1ms'; write gandiva[:quantum=TIME]"),
            ("gandiva:slice=off", "policy 'gandiva:slice=off'; write gandiva"),
            ("gandiva:search=halving", "policy 'gandiva:search=halving'; write gandiva"),
            ("gandiva:reports=1", "policy 'gandiva:reports=1'; write gandiva"),
            ("gandiva:reports=11", "policy 'gandiva:reports=11'; write gandiva"),
            (
                "gandiva:slice=off:pack=off:search=halving:rung=9",
                "policy 'gandiva:slice=off:pack=off:search=halving:rung=9'; write gandiva",
            ),
            ("gandiva:speed=2", "policy 'gandiva:speed=2'; write gandiva"),
        ] {
            let error = format!("{:#}", build(name).err().expect(name));
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_name_that_no_policy_has_builds_none() {
        assert!(build("lifo").is_ok_and(|policy| policy.is_none()));
    }
}
