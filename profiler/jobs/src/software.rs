//! The software that a run depends on and an update may change.

use anyhow::bail;
use record::{manifest::Manifest, run_dir::RunDir};
use revision::REVISION;
use rig::{Exit, device, programs};
use schema::device::Device;

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Checks that the software that a run depends on has not changed. Otherwise a difference between two of its rows could be a
/// difference between two programs.
///
/// # Errors
/// The version is different for Tandem, for libtorch if a job of the run uses it, or for the driver if a device of the run is a
/// GPU.
pub fn is_measured_by_the_same(run: &RunDir, manifest: &Manifest) -> anyhow::Result<()> {
    let then = Software::of(manifest);
    let now = Software {
        version: VERSION.into(),
        revision: REVISION.map(str::to_owned),
        libtorch: then.libtorch.is_some().then(torch).transpose()?,
        driver: then.driver.is_some().then(device::driver_version).flatten(),
    };
    match then.differs_from(&now) {
        Some(difference) => bail!("{}: {difference}; begin a new run", run.path().display()),
        None => Ok(()),
    }
}

/// The software that a run depends on and that an update may change.
#[derive(Clone, Debug, PartialEq)]
struct Software {
    version: String,
    revision: Option<String>,
    libtorch: Option<String>,
    driver: Option<String>,
}

impl Software {
    fn of(manifest: &Manifest) -> Software {
        let has_gpu = manifest.devices.iter().any(|facts| matches!(facts.device, Device::Cuda(_)));
        Software {
            version: manifest.version.clone(),
            revision: manifest.git_revision.clone(),
            libtorch: manifest.machine.libtorch.clone(),
            driver: manifest.machine.driver.clone().filter(|_| has_gpu),
        }
    }

    /// Describes the first difference. Revisions are compared only if both are known.
    fn differs_from(&self, now: &Software) -> Option<String> {
        let known = self.revision.is_some() && now.revision.is_some();
        let some = |text: &str| Some(text.to_owned());
        [
            ("Tandem", some(&self.version), some(&now.version)),
            (
                "revision of Tandem",
                self.revision.clone().filter(|_| known),
                now.revision.clone().filter(|_| known),
            ),
            ("libtorch", self.libtorch.clone(), now.libtorch.clone()),
            ("NVIDIA's driver", self.driver.clone(), now.driver.clone()),
        ]
        .into_iter()
        .find(|(_, then, now)| then != now)
        .map(|(what, then, now)| {
            let unknown = || "an unknown version".into();
            let (then, now) = (then.unwrap_or_else(unknown), now.unwrap_or_else(unknown));
            format!("it was begun with {what} {then}, and here is {now}")
        })
    }
}

/// The version of the libtorch that workers use. The worker is asked before a run has a directory, so that a run that cannot
/// start creates none.
pub(crate) fn torch() -> anyhow::Result<String> {
    match programs::torch_capabilities() {
        Ok(capabilities) => Ok(capabilities.libtorch),
        Err(error) => Err(Exit::MachineLacks.because(format!("{error:#}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_goes_on_with_the_software_that_it_was_begun_with() {
        let text = |text: &str| Some(text.to_owned());
        let then = Software {
            version: "0.1.0".into(),
            revision: text("abc"),
            libtorch: text("2.11.0"),
            driver: text("580.1"),
        };
        assert_eq!(then.differs_from(&then), None);
        assert_eq!(
            then.differs_from(&Software { revision: None, ..then.clone() }),
            None,
            "not known of both"
        );
        for (now, words) in [
            (Software { version: "0.2.0".into(), ..then.clone() }, "with Tandem 0.1.0, and here is 0.2.0"),
            (Software { revision: text("def"), ..then.clone() }, "revision of Tandem abc, and here is def"),
            (
                Software { libtorch: text("2.12.0"), ..then.clone() },
                "with libtorch 2.11.0, and here is 2.12.0",
            ),
            (Software { driver: None, ..then.clone() }, "driver 580.1, and here is an unknown version"),
        ] {
            let said = then.differs_from(&now).expect("they differ");
            assert!(said.ends_with(words), "{said}");
        }
    }
}
