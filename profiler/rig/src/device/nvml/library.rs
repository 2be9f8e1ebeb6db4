//! The driver's library: where it is, which devices it lists, and how they are connected.

use std::{
    collections::BTreeMap,
    env,
    ffi::{OsStr, OsString},
    sync::{Mutex, PoisonError},
};

use nvml_wrapper::{Device as Handle, Nvml, enum_wrappers::device::ComputeMode, error::NvmlError};
use schema::device::Device;

use super::DeviceError;

/// The environment variable with the library to load instead of the driver's, for a driver in an unusual place and for tests.
pub const LIBRARY_ENV: &str = "TANDEM_NVML";
const LIBRARY: &str = "libnvidia-ml.so.1";

/// The driver's library, loaded at most once. Without a driver this is an error and nothing else.
pub fn library() -> Result<&'static Nvml, DeviceError> {
    let named = env::var_os(LIBRARY_ENV).filter(|path| !path.is_empty());
    library_at(&named.unwrap_or_else(|| LIBRARY.into()))
}

/// Loads a library once. It stays for the life of the program, as the driver's state does.
pub(crate) fn library_at(path: &OsStr) -> Result<&'static Nvml, DeviceError> {
    static LOADED: Mutex<BTreeMap<OsString, &'static Nvml>> = Mutex::new(BTreeMap::new());
    let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(nvml) = loaded.get(path) {
        return Ok(nvml);
    }
    let nvml =
        Nvml::builder().lib_path(path).init().map_err(|e| DeviceError::NoDriver { reason: e.to_string() })?;
    let nvml: &'static Nvml = Box::leak(Box::new(nvml));
    loaded.insert(path.into(), nvml);
    Ok(nvml)
}

/// The version of the NVIDIA driver, where there is one.
pub fn driver_version() -> Option<String> {
    library().ok()?.sys_driver_version().ok()
}

/// The devices that a CUDA program started here would have.
pub(in super::super) fn devices(nvml: &'static Nvml) -> Result<Vec<Device>, DeviceError> {
    Ok((0..visible(nvml)?.len() as u32).map(Device::Cuda).collect())
}

pub(super) fn handle(nvml: &'static Nvml, index: u32) -> Result<Handle<'static>, DeviceError> {
    let device = Device::Cuda(index);
    let visible = visible(nvml)?;
    let Some(&place) = visible.get(index as usize) else {
        return Err(DeviceError::NoSuchDevice { device, devices: devices(nvml)? });
    };
    nvml.device_by_index(place).map_err(|e| DeviceError::Driver {
        device,
        call: "handle",
        reason: e.to_string(),
    })
}

/// The name that makes this device, and no other, visible to CUDA, whatever is visible now.
pub fn uuid(index: u32) -> Result<String, DeviceError> {
    uuid_of(&Device::Cuda(index), &handle(library()?, index)?)
}

pub(super) fn uuid_of(device: &Device, handle: &Handle<'static>) -> Result<String, DeviceError> {
    handle.uuid().map_err(|e| DeviceError::Uuid { device: device.clone(), reason: e.to_string() })
}

/// The address of a GPU on the PCI bus, as the kernel writes it; `None` if the driver does not report it.
pub fn pci_address(device: &Device) -> Option<String> {
    let Device::Cuda(index) = device else { return None };
    let pci = handle(library().ok()?, *index).ok()?.pci_info().ok()?;
    address_of(&pci.bus_id)
}

/// Converts an address: the driver writes the domain with eight digits, and the kernel with at least four.
fn address_of(bus_id: &str) -> Option<String> {
    let (domain, rest) = bus_id.split_once(':')?;
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some(format!("{domain:04x}:{}", rest.to_ascii_lowercase()))
}

/// The driver's indices of the devices that CUDA lists, in CUDA's order.
fn visible(nvml: &Nvml) -> Result<Vec<u32>, DeviceError> {
    let driver = |e: NvmlError| DeviceError::NoDriver { reason: e.to_string() };
    let count = nvml.device_count().map_err(driver)?;
    let Some(list) = env::var_os("CUDA_VISIBLE_DEVICES") else { return Ok((0..count).collect()) };
    let uuids: Vec<Option<String>> =
        (0..count).map(|i| nvml.device_by_index(i).and_then(|d| d.uuid()).ok()).collect();
    select(&list.to_string_lossy(), &uuids)
}

/// Applies a list of indices and uuids as CUDA does: it ends at the first entry that names no device, and the beginning of a
/// uuid is enough. A device whose uuid the driver does not report has none here.
///
/// # Errors
/// An entry cannot be resolved, or may be a device without a uuid.
fn select(list: &str, uuids: &[Option<String>]) -> Result<Vec<u32>, DeviceError> {
    let mut selected = Vec::new();
    for entry in list.split(',').map(str::trim) {
        let begins_so = |uuid: &Option<String>| uuid.as_ref().is_some_and(|uuid| uuid.starts_with(entry));
        let place = match entry.parse::<i64>() {
            Ok(index) => usize::try_from(index).ok().filter(|&i| i < uuids.len()),
            Err(_) if entry.is_empty() => None,
            Err(_) if entry.starts_with("GPU-") => match uuids.iter().position(begins_so) {
                None if uuids.contains(&None) => return Err(DeviceError::Unnamed { entry: entry.into() }),
                place => place,
            },
            Err(_) => return Err(DeviceError::Visible { entry: entry.into() }),
        };
        let Some(place) = place else { break };
        selected.push(place as u32);
    }
    Ok(selected)
}

/// The value of `mig` for a device that is divided.
pub(super) const MIG_ENABLED: &str = "enabled";

/// How a device is connected and configured, for the manifest. Unknown facts are left out.
pub(super) fn topology(nvml: &'static Nvml, handle: &Handle<'static>) -> BTreeMap<String, String> {
    let mut facts = settings(handle);
    let link = (handle.max_pcie_link_gen(), handle.max_pcie_link_width());
    if let (Ok(generation), Ok(width)) = link {
        facts.insert("pcie".into(), format!("generation {generation}, {width} lanes at most"));
    }
    if let Ok(node) = handle.numa_node_id() {
        facts.insert("numa_node".into(), node.to_string());
    }
    let own = handle.uuid().ok();
    for (index, place) in visible(nvml).into_iter().flatten().enumerate() {
        let Ok(other) = nvml.device_by_index(place) else { continue };
        if other.uuid().ok() != own
            && let Ok(level) = handle.topology_common_ancestor(other)
        {
            facts.insert(Device::Cuda(index as u32).to_string(), format!("{level:?}").to_lowercase());
        }
    }
    facts
}

/// The settings that the owner of a device has chosen. They are read and never changed.
fn settings(handle: &Handle<'static>) -> BTreeMap<String, String> {
    let mig = match handle.mig_mode() {
        Ok(mode) if mode.current == 0 => Some("disabled"),
        Ok(_) => Some(MIG_ENABLED),
        // The chip cannot be divided, or the driver does not support it.
        Err(NvmlError::NotSupported | NvmlError::FunctionNotFound | NvmlError::FailedToLoadSymbol(_)) => {
            Some("absent")
        }
        Err(_) => None,
    };
    let compute_mode = handle.compute_mode().ok().map(|mode| match mode {
        ComputeMode::Default => "default",
        ComputeMode::ExclusiveThread => "exclusive-thread",
        ComputeMode::Prohibited => "prohibited",
        ComputeMode::ExclusiveProcess => "exclusive-process",
    });
    let on_or_off = |is_on: bool| if is_on { "on" } else { "off" };
    let persistence = handle.is_in_persistent_mode().ok().map(on_or_off);
    let ecc = handle.is_ecc_enabled().ok().map(|state| on_or_off(state.currently_enabled));
    [("mig", mig), ("compute_mode", compute_mode), ("persistence", persistence), ("ecc", ecc)]
        .into_iter()
        .filter_map(|(name, value)| Some((name.into(), value?.into())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_devices_are_selected_as_cuda_does() {
        let uuids = ["GPU-aa11", "GPU-aa22", "GPU-bb33"].map(|uuid| Some(uuid.to_string()));
        let selected_by = |list, uuids: &[Option<String>]| select(list, uuids).map_err(|e| e.to_string());
        for (list, selected) in [
            ("0,1,2", vec![0, 1, 2]),
            ("2, 0", vec![2, 0]),
            ("GPU-bb", vec![2]),
            ("GPU-cc,0", vec![]),
            ("1,7,0", vec![1]),
            ("", vec![]),
            ("-1", vec![]),
        ] {
            assert_eq!(selected_by(list, &uuids), Ok(selected), "{list}");
        }
        let error = selected_by("MIG-1234", &uuids).unwrap_err();
        assert!(error.contains("'MIG-1234' is neither an index nor the uuid"), "{error}");
        let some = [uuids[0].clone(), None];
        assert_eq!((selected_by("GPU-aa,1", &some), selected_by("1", &some)), (Ok(vec![0, 1]), Ok(vec![1])));
        let error = selected_by("GPU-bb33", &some).unwrap_err();
        assert!(
            error.contains("'GPU-bb33' may be a device of which the driver does not say its uuid"),
            "{error}"
        );
    }

    #[test]
    fn a_place_on_the_bus_is_named_as_the_kernel_does() {
        for (bus_id, address) in [
            ("00000000:3B:00.0", Some("0000:3b:00.0")),
            ("00010000:01:00.0", Some("10000:01:00.0")),
            ("0000:af:00.0", Some("0000:af:00.0")),
            ("nowhere", None),
        ] {
            assert_eq!(address_of(bus_id).as_deref(), address, "{bus_id}");
        }
    }

    #[test]
    fn a_library_that_is_not_there_is_an_error() {
        let error = library_at("/nowhere/libnvidia-ml.so.1".as_ref()).unwrap_err().to_string();
        assert!(error.starts_with("no NVIDIA driver: ") && error.contains(LIBRARY_ENV), "{error}");
    }
}
