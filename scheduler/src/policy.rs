//! Policies by the names that users type: those of the crate `policies`, and programs of the user's.

mod exec;
mod listing;
mod timed;

use anyhow::{Context as _, bail};
use cli::agree::Consent;
use engine::policy::Policy;
pub use listing::{names, no_policy, rows};
pub use timed::Timed;

/// What follows `exec` in the list of policies.
const EXEC: &str = "exec:COMMAND";

/// Builds a policy by its name, for example `srtf`, `tiresias:3600s` or `exec:python3 my_policy.py`. A program is started at once.
///
/// # Errors
/// Fails if no policy has the name, its settings cannot be parsed, the user does not agree to start its program, or the program cannot be
/// started.
pub fn build(name: &str, consent: &Consent) -> anyhow::Result<Box<dyn Policy>> {
    let (kind, command) = policies::split(name);
    if kind == "exec" {
        program(name).map_or(Ok(()), |program| consent.check(program))?;
        let exec = exec::Exec::start(command).with_context(|| format!("policy '{name}'; write {EXEC}"))?;
        return Ok(Box::new(exec));
    }
    match policies::build(name)? {
        Some(policy) => Ok(policy),
        None => bail!(no_policy(kind)),
    }
}

/// Whether the policy of that name may give elastic jobs other numbers of devices than they ask for.
pub fn resizes(name: &str) -> bool {
    program(name).is_some() || policies::resizes(name)
}

/// The command of a policy that is a program. `None` for all other policies.
pub fn program(name: &str) -> Option<&str> {
    name.strip_prefix("exec:")
}

/// The consent to start the programs among policies that the user has typed.
pub fn typed<'a>(names: impl IntoIterator<Item = &'a str>) -> Consent {
    Consent::typed(names.into_iter().filter_map(program).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_to_write() {
        for (name, message) in [
            (
                "lifo",
                "there is no policy 'lifo'; did you mean fifo? There are fifo, fifo-backfill, sjf, sjf-backfill, qssf, qssf-backfill, srtf, srsf, las, gittins, themis, gavel, tiresias,",
            ),
            ("exec", "policy 'exec'; write exec:COMMAND: no program is named"),
            (
                "exec:./no-such-program",
                "policy 'exec:./no-such-program'; write exec:COMMAND: './no-such-program' cannot be",
            ),
        ] {
            let error = format!("{:#}", build(name, &typed([name])).err().expect(name));
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn a_program_is_built_only_with_the_consent_to_start_it() {
        let error =
            |consent| format!("{:#}", build("exec:./no-such-program", &consent).err().expect("it fails"));
        for consent in [Consent::none(), typed(["exec:./another-program", "fifo"])] {
            let error = error(consent);
            assert!(error.starts_with("the program './no-such-program' is not started"), "{error}");
        }
        assert!(error(typed(["exec:./no-such-program"])).contains("cannot be started"));
    }
}
