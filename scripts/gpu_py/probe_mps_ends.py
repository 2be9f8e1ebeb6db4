"""Probes what clients of MPS are limited to, and who fails when a client, the server or the daemon ends.

Each question has a daemon and clients of its own, which end before the next question.
"""

import os
import signal
import time

import mps
import nvml
from mps_clients import Service
from probes import NotPossible, ask, tell

THREADS_PERCENT, LIMIT_GIB, ALLOCATED_GIB = 30, 2, 3
ENDS_WITHIN_S = 5.0

UUID = "MPS: a client that names the GPU by its UUID"
THREADS = f"MPS: multiprocessors of a client with {THREADS_PERCENT} % of the threads"
MEMORY = f"MPS: memory of a client with a limit of {LIMIT_GIB} GiB"
CLIENT_KILLED = "MPS: SIGKILL ends a client with kernels in flight"
CLIENT_FAULTS = "MPS: a client stores to an invalid address"
CLIENT_TERMINATED = "MPS: terminate_client"
SERVER_KILLED = "MPS: SIGKILL ends the server"
DAEMON_KILLED = "MPS: SIGKILL ends the daemon"
QUIT_WITH_CLIENT = "MPS: quit -t 2 with a client"
QUIT_AT_REST = "MPS: quit without clients"
LEFT = "MPS: processes that outlived their question"


def probe(device: str, quick: bool) -> bool:
    gpu = nvml.Library.open().device(device).uuid()
    # Once for all questions.
    mps.control_program()
    residue = []
    try:
        return all([ask(question, in_service, measure, gpu, residue) for question, measure in QUESTIONS.items()])
    finally:
        tell(LEFT, "; ".join(residue) or "nothing", items=len(residue))


def in_service(measure, gpu: str, residue: list[str]) -> None:
    with Service(gpu, residue) as service:
        measure(service)


def uuid(service: Service) -> None:
    ready = service.client().first("ready_s")
    answer = f"is attached, {ready['ready_s']:.2f} s after its start, and sees {ready['multiprocessors']} multiprocessors"
    tell(UUID, answer, ready_s=ready["ready_s"], multiprocessors=ready["multiprocessors"])


def threads(service: Service) -> None:
    all_of_them = service.client().first("ready_s")["multiprocessors"]
    limited = service.client(CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=str(THREADS_PERCENT)).first("ready_s")["multiprocessors"]
    tell(THREADS, f"it sees {limited} of {all_of_them}", multiprocessors=limited, multiprocessors_of_gpu=all_of_them)


def memory(service: Service) -> None:
    limit = f"0={LIMIT_GIB << 10}M"
    client = service.client("--allocate", str(ALLOCATED_GIB), CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=limit)
    seen, got = client.first("ready_s"), client.first("allocated_gib")
    held = f"then {got['refused']}" if "refused" in got else "so the limit does not hold"
    answer = f"of {ALLOCATED_GIB} GiB in pieces of one it gets {got['allocated_gib']}, {held}; "
    answer += f"it sees {seen['free_bytes'] / 2**30:.1f} GiB free of {seen['memory_bytes'] / 2**30:.1f}"
    tell(MEMORY, answer, allocated_gib=got["allocated_gib"], memory_bytes=seen["memory_bytes"], free_bytes=seen["free_bytes"])


def client_killed(service: Service) -> None:
    neighbour, victim = service.client(), service.client()
    server, since_s = service.server(), time.monotonic()
    victim.send(signal.SIGKILL)
    listed_s = seconds_until(lambda: victim.pid not in service.daemon.attached())
    fate = neighbour.fate(since_s)
    listed = "still lists the client" if listed_s is None else f"stops listing the client after {listed_s:.2f} s"
    answer = f"its neighbour {fate.text}; the daemon {listed}; {newcomer(service, server)}"
    tell(CLIENT_KILLED, answer, listed_s=listed_s, neighbour_error=fate.error)


def client_faults(service: Service) -> None:
    neighbour, faulty = service.client(), service.client()
    server, since_s = service.server(), time.monotonic()
    faulty.send(signal.SIGUSR1)
    own, other = faulty.fate(since_s), neighbour.fate(since_s)
    status = " ".join(service.daemon.command(f"get_server_status {server}")) if mps.lives(server) else "gone"
    answer = f"it {own.text}, its neighbour {other.text}; the server is {status}; {newcomer(service, server)}"
    tell(CLIENT_FAULTS, answer, error=own.error, neighbour_error=other.error)


def client_terminated(service: Service) -> None:
    neighbour, victim = service.client(), service.client()
    command, since_s = f"terminate_client {service.server()} {victim.pid}", time.monotonic()
    said = " ".join(service.daemon.command(command)) or "nothing"
    took_s = time.monotonic() - since_s
    own, other = victim.fate(since_s), neighbour.fate(since_s)
    answer = f"the daemon says {said} after {took_s:.2f} s; the client {own.text}, its neighbour {other.text}"
    tell(CLIENT_TERMINATED, answer, took_s=took_s, error=own.error, neighbour_error=other.error)


def server_killed(service: Service) -> None:
    client, server, since_s = service.client(), service.server(), time.monotonic()
    os.kill(server, signal.SIGKILL)
    fate = client.fate(since_s)
    tell(SERVER_KILLED, f"its client {fate.text}; {newcomer(service, server)}", error=fate.error, after_s=fate.after_s)


def daemon_killed(service: Service) -> None:
    client, server, since_s = service.client(), service.server(), time.monotonic()
    os.kill(service.daemon.pid, signal.SIGKILL)
    ended_s = seconds_until(lambda: not mps.lives(server))
    fate = client.fate(since_s)
    ends = "does not end" if ended_s is None else f"ends after {ended_s:.2f} s"
    answer = f"its server {ends}, its client {fate.text}; {newcomer_without_daemon(service)}"
    tell(DAEMON_KILLED, answer, server_ended_s=ended_s, error=fate.error)


def quit_with_client(service: Service) -> None:
    client, since_s = service.client(), time.monotonic()
    ends, numbers = quitting(service, "quit -t 2")
    fate = client.fate(since_s)
    tell(QUIT_WITH_CLIENT, f"{ends}; its client {fate.text}", error=fate.error, after_s=fate.after_s, **numbers)


def quit_at_rest(service: Service) -> None:
    client = service.client()
    client.send(signal.SIGTERM)
    client.fate(time.monotonic())
    ends, numbers = quitting(service, "quit")
    tell(QUIT_AT_REST, ends, **numbers)


def quitting(service: Service, command: str) -> tuple[str, dict]:
    """How the daemon and its server end when the daemon is told to quit."""
    server, since_s = service.server(), time.monotonic()
    service.daemon.command(command)
    answered_s = time.monotonic() - since_s
    code = service.daemon.exit_code()
    ended_s = None if code is None else time.monotonic() - since_s
    ends = "does not end" if code is None else f"ends with {code} after {ended_s:.2f} s"
    server_ended_s = seconds_until(lambda: not mps.lives(server))
    its_server = "does not end" if server_ended_s is None else "ends"
    files = ", ".join(service.daemon.files()) or "nothing"
    answer = f"answered after {answered_s:.2f} s; the daemon {ends}, its server {its_server}; its folder holds {files}"
    return answer, {"answered_s": answered_s, "ended_s": ended_s, "exit_code": code}


def newcomer(service: Service, server: int) -> str:
    """Whether a client that comes now can compute, and whether by the server of the earlier ones."""
    try:
        service.client()
        return f"a new client computes, by {'the same' if service.server() == server else 'a new'} server"
    except NotPossible as reason:
        return f"a new client is not possible: {reason}"


def newcomer_without_daemon(service: Service) -> str:
    try:
        service.process().first("rate_per_s")
        return "a new process computes without MPS"
    except NotPossible as reason:
        return f"a new process does not compute: {reason}"


def seconds_until(is_so) -> float | None:
    """The time until something is so, and `None` if that takes too long."""
    since_s = time.monotonic()
    while not is_so():
        if time.monotonic() - since_s > ENDS_WITHIN_S:
            return None
        time.sleep(0.01)
    return time.monotonic() - since_s


QUESTIONS = {
    UUID: uuid,
    THREADS: threads,
    MEMORY: memory,
    CLIENT_KILLED: client_killed,
    CLIENT_FAULTS: client_faults,
    CLIENT_TERMINATED: client_terminated,
    SERVER_KILLED: server_killed,
    DAEMON_KILLED: daemon_killed,
    QUIT_WITH_CLIENT: quit_with_client,
    QUIT_AT_REST: quit_at_rest,
}
