"""The life of an MPS daemon and its failures, with a stand-in for NVIDIA's program."""

import os
import subprocess
import sys
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent)]
import mps  # noqa: E402
import probe_mps  # noqa: E402
from probes import NotPossible  # noqa: E402
from waiting import LONG_S  # noqa: E402

SHORT_S = 0.1
"""The wait for answers that never come."""


class WithStandIn(unittest.TestCase):
    def setUp(self) -> None:
        path = f"{HERE}{os.pathsep}{os.environ['PATH']}"
        for patch in (
            mock.patch.dict(os.environ, {"PATH": path, "MPS_STUB": ""}),
            mock.patch.object(mps, "FOREIGN", HERE / "no-daemon-listens-here"),
            mock.patch.object(mps.Daemon.__init__, "__defaults__", (LONG_S,)),
        ):
            patch.start()
            self.addCleanup(patch.stop)


class DaemonTest(WithStandIn):
    foreground, option = False, "-d"

    def daemon(self) -> mps.Daemon:
        return mps.Daemon("0", foreground=self.foreground)

    def behave(self, how: str) -> None:
        os.environ["MPS_STUB"] = how

    def patch(self, name: str, stand_in) -> None:
        patch = mock.patch.object(mps, name, stand_in)
        patch.start()
        self.addCleanup(patch.stop)

    def answers_never_come(self) -> None:
        """Waits are short for answers, and not for the start of the daemon."""

        def run(command: list, timeout: float, **options) -> subprocess.CompletedProcess:
            return subprocess.run(command, timeout=timeout if "-d" in command else SHORT_S, **options)

        as_it_is = {name: getattr(subprocess, name) for name in ("Popen", "TimeoutExpired", "DEVNULL")}
        self.patch("subprocess", mock.Mock(run=run, **as_it_is))

    def quits_at_a_signal_alone(self) -> None:
        """The first wait for the end of the daemon is short, as nothing has ended it, and the next one is not."""
        limits_s, ended = [0.0], mps.ended
        self.patch("ended", lambda pid, limit_s: ended(pid, limits_s.pop() if limits_s else limit_s))

    def assert_nothing_is_left(self, daemon: mps.Daemon, pid: int | None) -> None:
        self.assertFalse(daemon.folder.exists())
        if pid:
            self.assertFalse(mps.lives(pid))

    def test_a_daemon_starts_answers_and_leaves_nothing(self):
        with self.daemon() as daemon:
            pid = mps.pid_in(daemon.folder / "pipe")
            self.assertTrue(mps.lives(pid))
            self.assertEqual(daemon.servers(), [])
            self.assertEqual(daemon.attached(), set())
            (daemon.folder / "pipe" / "clients").write_text("17\n18\n")
            self.assertEqual(daemon.attached(), {17, 18})
        self.assertEqual(daemon.residue, [])
        self.assert_nothing_is_left(daemon, pid)

    def test_a_daemon_that_does_not_answer_is_ended_by_its_id(self):
        self.behave("mute")
        self.answers_never_come()
        self.quits_at_a_signal_alone()
        daemon = self.daemon()
        with mock.patch.object(mps, "lives", wraps=mps.lives) as lives, self.assertRaisesRegex(NotPossible, "did not answer"):
            daemon.__enter__()
        self.assertEqual(daemon.residue[1:], ["the daemon had to be ended by SIGTERM"])
        self.assert_nothing_is_left(daemon, lives.call_args.args[0])

    def test_a_daemon_that_does_not_quit_is_said_to_be_left(self):
        self.behave("stays")
        self.quits_at_a_signal_alone()
        with self.daemon() as daemon:
            pid = mps.pid_in(daemon.folder / "pipe")
        self.assertEqual(daemon.residue, ["the daemon had to be ended by SIGTERM"])
        self.assert_nothing_is_left(daemon, pid)

    def test_a_daemon_that_does_not_start_says_why(self):
        self.behave("refuses")
        daemon = self.daemon()
        with self.assertRaisesRegex(NotPossible, f"{self.option} ended with 1: An instance of this daemon is already running"):
            daemon.__enter__()
        self.assert_nothing_is_left(daemon, None)

    def test_a_daemon_of_others_is_left_alone(self):
        with self.daemon() as theirs, mock.patch.object(mps, "FOREIGN", theirs.folder / "pipe"):
            with self.assertRaisesRegex(NotPossible, "it is left alone"):
                self.daemon().__enter__()
            self.assertTrue(mps.pid_in(theirs.folder / "pipe"))

    def test_an_exception_in_between_ends_the_daemon_all_the_same(self):
        with self.assertRaises(SystemExit), self.daemon() as daemon:
            pid = mps.pid_in(daemon.folder / "pipe")
            sys.exit(143)
        self.assert_nothing_is_left(daemon, pid)


class ForegroundTest(DaemonTest):
    foreground, option = True, "-f"


class Client:
    """A client that computes at once; its attachment is written to the file of the stand-in."""

    pid = 4242

    def __init__(self, device: str, variables: dict[str, str]):
        self.percentage = int(variables.get("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "100"))
        if self.attaches:
            (Path(variables["CUDA_MPS_PIPE_DIRECTORY"]) / "clients").write_text(f"{self.pid}\n")

    def wait_for_first(self) -> None:
        pass

    def rate_per_s(self, seconds: float) -> float:
        return 2.0 * self.percentage

    def end(self) -> None:
        return None


class CanaryTest(WithStandIn):
    def probe(self, attaches: bool) -> dict[str, tuple]:
        """The answers of the probe, by question."""
        client = type("Client", (Client,), {"attaches": attaches})
        gpu = mock.Mock(compute_mode=lambda: "default", processes=lambda mps: [mock.Mock(pid=Client.pid)])
        library = mock.Mock(open=lambda: mock.Mock(device=lambda index: gpu))
        told = {}
        with (
            mock.patch.object(probe_mps, "Gemm", client),
            mock.patch.object(probe_mps.nvml, "Library", library),
            mock.patch.object(probe_mps, "tell", lambda question, answer, **numbers: told.update({question: (answer, numbers)})),
        ):
            probe_mps.probe("cuda:0", quick=True)
        return told

    def test_a_canary_that_is_attached_is_measured(self):
        told = self.probe(attaches=True)
        answer, numbers = told[probe_mps.QUESTION]
        self.assertIn("the client is attached", answer)
        self.assertEqual(numbers["servers"], [4711])
        _, numbers = told["MPS: rate of products with 30 % of the threads over that with all"]
        self.assertAlmostEqual(numbers["ratio"], 0.3)
        self.assertEqual(told["MPS: what is left after quit"], ("nothing", {"items": 0}))

    def test_a_canary_that_ran_without_mps_is_no_measurement(self):
        told = self.probe(attaches=False)
        answer, _ = told[probe_mps.QUESTION]
        self.assertEqual(answer, "not possible here: the client ran without MPS, as server.log is empty")
        self.assertEqual(told["MPS: what is left after quit"], ("nothing", {"items": 0}))


if __name__ == "__main__":
    unittest.main()
