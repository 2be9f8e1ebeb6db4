//! The policies there are, by the names that people give them.

use anyhow::{Context as _, bail, ensure};

use super::{Policy, exec, fifo, packing_fifo, sjf, srtf, tiresias};

/// A name, what may follow it after a colon, and how the policy is built from that.
type Entry = (&'static str, &'static str, fn(&str) -> anyhow::Result<Box<dyn Policy>>);

const POLICIES: &[Entry] = &[
    ("fifo", "", |_| Ok(Box::new(fifo::Fifo::strict()))),
    ("fifo-backfill", "", |_| Ok(Box::new(fifo::Fifo::backfill()))),
    ("sjf", "", |_| Ok(Box::new(sjf::Sjf::new()))),
    ("srtf", "", |_| Ok(Box::new(srtf::Srtf::new()))),
    ("tiresias", "[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR]", |text| {
        Ok(Box::new(tiresias::Tiresias::new(text)?))
    }),
    ("packing-fifo", "", |_| Ok(Box::new(packing_fifo::PackingFifo::default()))),
    ("exec", ":COMMAND", |command| Ok(Box::new(exec::Exec::start(command)?))),
];

/// The policy of that name: `srtf`, `tiresias:3600s`, `exec:python3 my_policy.py`. A program is started at once.
///
/// # Errors
/// No policy has the name, its settings cannot be read, or its program cannot be started.
pub fn build(name: &str) -> anyhow::Result<Box<dyn Policy>> {
    let (kind, settings) = name.split_once(':').unwrap_or((name, ""));
    let Some((_, usage, build)) = POLICIES.iter().find(|(known, ..)| *known == kind) else {
        bail!("there is no policy '{kind}'; there are {}", names().collect::<Vec<_>>().join(", "));
    };
    ensure!(
        settings.is_empty() || !usage.is_empty(),
        "policy '{kind}' has no settings; '{settings}' was given"
    );
    build(settings).with_context(|| format!("policy '{name}'; write {kind}{usage}"))
}

/// How each is written.
pub fn names() -> impl Iterator<Item = String> {
    POLICIES.iter().map(|(name, usage, _)| format!("{name}{usage}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_built_by_name_and_errors_say_what_to_write() {
        for name in
            ["fifo", "fifo-backfill", "sjf", "srtf", "tiresias", "tiresias:1h/4h:promote=8", "packing-fifo"]
        {
            assert!(build(name).is_ok(), "{name}");
        }
        for (name, message) in [
            (
                "lifo",
                "there is no policy 'lifo'; there are fifo, fifo-backfill, sjf, srtf, tiresias[:THRESHOLD",
            ),
            ("srtf:3", "policy 'srtf' has no settings; '3' was given"),
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
            ("exec", "policy 'exec'; write exec:COMMAND: no program is named"),
            (
                "exec:./no-such-program",
                "policy 'exec:./no-such-program'; write exec:COMMAND: './no-such-program' cannot be",
            ),
        ] {
            let error = format!("{:#}", build(name).err().expect(name));
            assert!(error.starts_with(message), "{error}");
        }
    }
}
