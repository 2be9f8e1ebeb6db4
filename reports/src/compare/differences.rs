//! In what two runs differ besides their numbers.

use record::manifest::{Cell, Manifest};

/// What differs between two named manifests, each as `NAME: VALUE in A, VALUE in B`.
pub(crate) fn between((name_a, a): (&str, &Manifest), (name_b, b): (&str, &Manifest)) -> Vec<String> {
    let pairs = facts(a).into_iter().zip(facts(b));
    pairs
        .filter(|((_, of_a), (_, of_b))| of_a != of_b)
        .map(|((name, of_a), (_, of_b))| {
            format!("{name}: {} in {name_a}, {} in {name_b}", or_none(of_a), or_none(of_b))
        })
        .collect()
}

fn or_none(value: Option<String>) -> String {
    value.unwrap_or_else(|| "none".into())
}

/// Everything in a manifest that may change how fast a job is, by name.
fn facts(manifest: &Manifest) -> Vec<(&'static str, Option<String>)> {
    let (machine, settings) = (&manifest.machine, &manifest.settings);
    let variables: Vec<String> =
        machine.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let catalogs: Vec<String> = settings.catalogs.iter().map(|path| path.display().to_string()).collect();
    vec![
        ("version", Some(manifest.version.clone())),
        ("revision", manifest.git_revision.clone()),
        ("source tree", source_tree(manifest)),
        ("commands", commands(manifest)),
        ("devices", Some(devices(manifest))),
        ("processor", machine.cpu.clone()),
        ("cores", text(machine.cores)),
        ("memory in bytes", text(machine.memory_bytes)),
        ("kernel", machine.kernel.clone()),
        ("hypervisor", text(machine.hypervisor)),
        ("driver", machine.driver.clone()),
        ("CUDA", machine.cuda.clone()),
        ("libtorch", machine.libtorch.clone()),
        ("environment", listed(&variables)),
        ("repeats", text(Some(settings.repeats))),
        ("seconds", text(settings.seconds)),
        ("steps", text(settings.steps)),
        ("ci in percent", text(settings.ci_percent)),
        ("budget in seconds", text(settings.budget_s)),
        ("threads", text(settings.threads)),
        ("cores per job", text(settings.cpus_per_job)),
        ("data", settings.data.as_ref().map(|path| path.display().to_string())),
        ("loaders", text(Some(settings.loaders))),
        ("offload threads", text(settings.offload_threads)),
        ("collectives", text(settings.collectives)),
        ("pattern of steps", settings.steps_regex.clone()),
        ("memory of a CPU device in bytes", text(settings.memory_bytes)),
        ("catalogs", listed(&catalogs)),
    ]
}

/// The revision of the user's programs.
fn source_tree(manifest: &Manifest) -> Option<String> {
    let tree = manifest.folder.as_ref()?.source_tree.as_ref()?;
    Some(if tree.dirty { format!("{} with changes", tree.revision) } else { tree.revision.clone() })
}

/// The commands of the user's programs, each with its job.
fn commands(manifest: &Manifest) -> Option<String> {
    let command = |cell: &Cell| Some(format!("{}: {}", cell.job, cell.command.as_ref()?.join(" ")));
    let mut commands: Vec<String> = manifest.cells.iter().filter_map(command).collect();
    commands.sort();
    commands.dedup();
    (!commands.is_empty()).then(|| commands.join("; "))
}

/// Device by device, with its model.
fn devices(manifest: &Manifest) -> String {
    let each = manifest.devices.iter().map(|facts| format!("{} ({})", facts.device, facts.name));
    each.collect::<Vec<_>>().join(", ")
}

fn text(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

fn listed(values: &[String]) -> Option<String> {
    (!values.is_empty()).then(|| values.join(" "))
}
