//! Policies by the names that users type.

use engine::{policy::Policy, view::View};

use crate::{POLICIES, declaration::Declaration};

/// The policy of that name. `None` if no policy has the name.
pub fn find(kind: &str) -> Option<&'static Declaration> {
    POLICIES.iter().copied().find(|policy| policy.name == kind)
}

/// Builds a policy by its name, for example `srtf` or `tiresias:3600s`. `None` if no policy has the name.
///
/// # Errors
/// Fails if its settings cannot be parsed, or do not fit together.
pub fn build(name: &str) -> anyhow::Result<Option<Box<dyn Policy>>> {
    let (kind, settings) = split(name);
    find(kind).map(|policy| policy.build(settings)).transpose()
}

/// Whether the policy of that name may give elastic jobs other numbers of devices than they ask for.
pub fn resizes(name: &str) -> bool {
    find(split(name).0).is_some_and(Declaration::resizes)
}

/// What a run lacks that the policy of that name uses, a sentence each. The view has all jobs of the run, none of which has arrived. Empty for
/// a name that no policy has.
///
/// # Errors
/// Fails if its settings cannot be parsed.
pub fn lacking(name: &str, view: &View<'_>) -> anyhow::Result<Vec<String>> {
    let (kind, settings) = split(name);
    find(kind).map_or(Ok(Vec::new()), |policy| policy.lacking(settings, view))
}

/// Splits a name into the kind of the policy and its settings.
pub fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kit::settings::Values;

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
            "lucid:bound=never:backfill=sharing",
            "gandiva",
            "gandiva:quantum=5s:pack=off:slice=off:migrate=off:grow=off",
            "gandiva:idle=10s:relax=1m:reports=3:moves=0.05",
            "gandiva:search=halving:eta=3:rung=100:target=0.5",
            "gandiva:search=keep:keep=8",
            "gandiva:slice=off:pack=off:reports=10:search=keep",
            "tandem",
            "tandem:preempt=off:pack=off:plans=off:resize=off:grow=off:guarantee=off",
            "tandem:margin=10%:bound=12h",
        ] {
            assert!(build(name).is_ok_and(|policy| policy.is_some()), "{name}");
        }
        for (name, message) in [
            ("fifo:3", "policy 'fifo' has no settings; '3' was given"),
            (
                "srtf:3",
                "policy 'srtf:3'; write srtf[:every=TIME|event][:bump=TIME|never]: '3' is not KEY=VALUE",
            ),
            (
                "srsf:bump=1h",
                "policy 'srsf:bump=1h'; write srsf[:every=TIME|event][:bump=TIME|never]: bump needs rounds",
            ),
            (
                "las:every=1ms",
                "policy 'las:every=1ms'; write las[:every=TIME][:bump=TIME|never]: 'every=1ms': write a time of 100ms or more, such as every=300s",
            ),
            (
                "themis:f=0.8",
                "policy 'themis:f=0.8'; write themis[:every=TIME][:bump=TIME|never]: there is no setting 'f'",
            ),
            (
                "gittins:limit=0s",
                "policy 'gittins:limit=0s'; write gittins[:every=TIME][:bump=TIME|never][:limit=TIME|none]: 'limit=0s': write a time above 0, or none, such as limit=3250s",
            ),
            (
                "tiresias:many",
                "policy 'tiresias:many'; write tiresias[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR|never]: 'many': write ascending times above 0 with slashes between them, such as 1h/4h",
            ),
            (
                "tiresias:2s/1s",
                "policy 'tiresias:2s/1s'; write tiresias[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR|never]: '2s/1s': write ascending times above 0 with slashes between them, such as 1h/4h",
            ),
            (
                "tiresias:promote=0",
                "policy 'tiresias:promote=0'; write tiresias[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR|never]: 'promote=0': write a number above 0, or never, such as promote=8",
            ),
            (
                "tiresias:promote=2:5s",
                "policy 'tiresias:promote=2:5s'; write tiresias[:THRESHOLD[/THRESHOLD..]][:promote=FACTOR|never]: '5s' is not KEY=VALUE; a THRESHOLD comes first",
            ),
            (
                "synergy:every=fast",
                "policy 'synergy:every=fast'; write synergy[:every=TIME][:strict=on|off]: 'every=fast': write a time of 100ms or more, such as every=300s",
            ),
            (
                "synergy:every=10ms",
                "policy 'synergy:every=10ms'; write synergy[:every=TIME][:strict=on|off]: 'every=10ms': write a time of 100ms or more",
            ),
            (
                "antman:keep=2",
                "policy 'antman:keep=2'; write antman[:keep=PART][:floor=SHARE]: 'keep=2': write a number above 0 and below 1, such as keep=0.95",
            ),
            (
                "antman:keep=1",
                "policy 'antman:keep=1'; write antman[:keep=PART][:floor=SHARE]: 'keep=1': write a number above 0 and below 1, such as keep=0.95",
            ),
            (
                "antman:share=1",
                "policy 'antman:share=1'; write antman[:keep=PART][:floor=SHARE]: there is no setting 'share'",
            ),
            (
                "optimus:every=0s",
                "policy 'optimus:every=0s'; write optimus[:every=TIME]: 'every=0s': write a time of 100ms or more, such as every=60s",
            ),
            (
                "optimus:every",
                "policy 'optimus:every'; write optimus[:every=TIME]: 'every' has no value: write a time of 100ms or more, such as every=60s",
            ),
            (
                "sia:p=0",
                "policy 'sia:p=0'; write sia[:every=TIME][:p=NUMBER][:lambda=NUMBER]: 'p=0': write a number that is not 0, such as p=-0.5",
            ),
            (
                "rubick:risk=1",
                "policy 'rubick:risk=1'; write rubick[:every=TIME][:only=both|plans|resources|nothing][:risk=Q][:restarts=PERCENT|any]",
            ),
            ("rubick:only=all", "policy 'rubick:only=all'; write rubick"),
            ("rubick:risk=0.9:risk=0.8", "policy 'rubick:risk=0.9:risk=0.8'; write rubick"),
            (
                "sia:q=1",
                "policy 'sia:q=1'; write sia[:every=TIME][:p=NUMBER][:lambda=NUMBER]: there is no setting 'q'",
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
    fn an_error_ends_with_the_value_that_is_wrong_and_what_to_write() {
        for (name, message) in [
            (
                "rubick:only=all",
                "'only=all': write only=both or only=plans or only=resources or only=nothing",
            ),
            ("rubick:risk=1", "'risk=1': write a number above 0 and below 1, such as risk=0.5"),
            ("rubick:risk=0.9:risk=0.8", "'risk' is given twice; leave one out"),
            (
                "gavel:objective=best",
                "'objective=best': write objective=max-min or objective=max-throughput or objective=finish-time",
            ),
            ("gavel:every=1ms", "'every=1ms': write a time of 100ms or more, such as every=360s"),
            ("lucid:sharing=maybe", "'sharing=maybe': write sharing=auto or sharing=on or sharing=off"),
            ("lucid:load-bin=2h", "'load-bin=2h': write whole seconds, 1h at most, such as load-bin=10m"),
            ("lucid:bound", "'bound' has no value: write a time above 0, or never, such as bound=7d"),
            ("gandiva:quantum=1ms", "'quantum=1ms': write a time of 100ms or more, such as quantum=60s"),
            ("gandiva:slice=off", "jobs are packed only where they take turns; write pack=off, too"),
            ("gandiva:search=halving", "search=halving needs a rung in steps, such as rung=1000"),
            ("gandiva:reports=1", "'reports=1': write a whole number from 2 to 10, such as reports=5"),
            ("gandiva:reports=11", "'reports=11': write a whole number from 2 to 10, such as reports=5"),
            (
                "gandiva:slice=off:pack=off:search=halving:rung=9",
                "members that wait at a rung keep their devices, and others take turns there; leave out slice=off",
            ),
            ("gandiva:speed=2", "there is no setting 'speed'"),
        ] {
            let error = format!("{:#}", build(name).err().expect(name));
            assert!(error.ends_with(message), "{error}");
        }
    }

    /// What a policy reads, it declares, or else it panics; and it reads what it declares.
    #[test]
    fn policies_read_the_settings_that_they_declare_with_all_their_values() {
        for policy in POLICIES {
            let values = Values::parse(policy.settings, "").expect(policy.name);
            assert!((policy.build)(&values).is_ok(), "{}", policy.name);
            assert_eq!(values.unread(), [""; 0], "{}", policy.name);
            assert!(build(policy.example).is_ok_and(|built| built.is_some()), "{}", policy.example);
            assert_eq!(split(policy.example).0, policy.name);
            for setting in policy.settings {
                for written in setting
                    .words()
                    .into_iter()
                    .map(|word| setting.written(word))
                    .chain([setting.written(setting.default), setting.example()])
                {
                    let values = Values::parse(policy.settings, &written);
                    // Settings may not fit together; each alone can be parsed.
                    drop((policy.build)(
                        &values.unwrap_or_else(|error| panic!("{}: {error:#}", policy.name)),
                    ));
                }
            }
        }
    }

    #[test]
    fn a_name_that_no_policy_has_builds_none() {
        assert!(build("lifo").is_ok_and(|policy| policy.is_none()));
    }
}
