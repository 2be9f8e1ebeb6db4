"""The parts of a check that measure pairs of jobs."""

from pathlib import Path

import packing
from record_files import add_to_csv, keep
from workplace import Failed, Skipped, Workplace, read_csv, some_of


def colocate(place: Workplace) -> str | None:
    """Pairs of light and heavy jobs."""
    return pairs_of(place, packing.loads(place.is_gpu, place.quick))


def bound(place: Workplace) -> str | None:
    """A pair that is bound by different parts of the device."""
    if place.quick:
        raise Skipped("a quick check measures the pairs of the part colocate alone")
    return pairs_of(place, packing.bounds(place.is_gpu))


def pairs_of(place: Workplace, run: packing.Run) -> str:
    """Measures pairs under each mode, in one block, because a second would double the time, and adds them to the tables of
    the record. A machine that lacks MPS has the reason in their rows."""
    folder, why = run_of_pairs(place, run)
    more = {name: read_csv(folder / f"{name}.csv") for name in ("interference", "summary", "measurements")}
    for name, rows in more.items():
        add_to_csv(place, name if name == "interference" else f"colocate-{name}", rows)
    pairs = packing.of_run(run, more["interference"], more["measurements"])
    add_to_csv(place, "packing", pairs)
    missing = [f"{run.name} has {len(pairs)} of {packing.count(run.pairs)}: {why}"] if len(pairs) < run.pairs else []
    lacking = [row["err_detail"] for row in more["interference"] if packing.lacks_mps(row)]
    failed = [
        f"{row['group']}: {row['err_detail']}"
        for row in more["interference"]
        if row["status"] != "ok" and not packing.lacks_mps(row)
    ]
    if missing or failed:
        raise Failed(some_of(missing + failed))
    law = packing.law(read_csv(place.record / "packing.csv")).shows
    without = f"; without MPS: {lacking[0]}" if lacking else ""
    return f"{packing.count(len(pairs))}; Gandiva's law {law}{without}"


def run_of_pairs(place: Workplace, run: packing.Run) -> tuple[Path, str]:
    """The folder of a run of `profile colocate`, and the reason for missing pairs."""
    out = place.relative(f"colocate-{run.name}")
    folder = place.record.parent / out
    if place.left_s() - place.grace_s < 1:
        return folder, "the time of this part was used up"
    jobs = [*run.jobs.values(), *(["--all-pairs"] if run.every_pair else [])]
    settings = ["--sharing", ",".join(packing.MODES[mode] for mode in run.modes), "--device", place.device]
    # Utilisation is a mean over up to a second before a reading, so the steady time must be longer.
    settings += ["--repeats", "1", "--seconds", "0.2" if place.quick else "1.5"]
    ran = place.profile("colocate", *jobs, *settings, "--out", out)
    for name in ("manifest.toml", "end.toml"):
        keep(place, out, name, f"colocate-{run.name}-{name}")
    # The jobs alone are measured last, and without them a block has no slowdowns.
    why = "its time was up before the block was complete" if ran.torn else f"exit code {ran.code}: {ran.last_line}"
    return folder, why
