"""The probe of how clients of MPS end, with stand-ins for NVIDIA's program and for a client."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent.parent)]
import mps  # noqa: E402
import mps_clients  # noqa: E402
import nvml  # noqa: E402
import probe_mps_ends as ends  # noqa: E402
import probes  # noqa: E402
from test_mps import SHORT_S, WithStandIn  # noqa: E402
from waiting import LONG_S, wait_for  # noqa: E402

GPU = "GPU-1"


class EndsTest(WithStandIn):
    def setUp(self) -> None:
        super().setUp()
        self.folders, self.told = [], {}
        make = tempfile.mkdtemp

        def folder(*arguments, **options) -> str:
            self.folders.append(make(*arguments, **options))
            return self.folders[-1]

        library = mock.Mock(open=lambda: mock.Mock(device=lambda name: mock.Mock(uuid=lambda: GPU)))
        for target, name, value in (
            (mps.tempfile, "mkdtemp", folder),
            (mps_clients, "COMMAND", (str(HERE / "spinning-client"),)),
            (mps_clients, "READY_WITHIN_S", LONG_S),
            (mps_clients, "SILENT_FOR_S", LONG_S),
            (mps_clients, "ENDS_WITHIN_S", LONG_S),
            (mps_clients, "RATES", 6),
            (ends, "ENDS_WITHIN_S", LONG_S),
            (nvml, "Library", library),
        ):
            self.patch(target, name, value)
        for module in (ends, probes):
            self.patch(module, "tell", lambda question, answer, **numbers: self.told.update({question: (answer, numbers)}))

    def patch(self, target, name: str, value) -> None:
        patch = mock.patch.object(target, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def probe(self, *questions: str) -> bool:
        chosen = {question: ends.QUESTIONS[question] for question in questions or ends.QUESTIONS}
        with mock.patch.object(ends, "QUESTIONS", chosen):
            return ends.probe("cuda:0", quick=True)

    def answer(self, question: str) -> str:
        """The answer with each time replaced by S."""
        words = self.told[question][0].split(" ")
        return " ".join("S" if word.replace(".", "").isdecimal() and "." in word else word for word in words)

    def assert_nothing_is_left(self) -> None:
        self.assertEqual([folder for folder in self.folders if Path(folder).exists()], [])
        wait_for("no process of a daemon is left", self.processes, lambda left: not left)

    def processes(self) -> list[str]:
        """The processes whose environment names a folder of a daemon."""
        left = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                environment = path.read_text(errors="replace")
            except OSError:
                continue
            left += [path.parent.name for folder in self.folders if folder in environment]
        return left

    def test_each_question_has_its_answer_and_nothing_is_left(self):
        self.assertTrue(self.probe())
        new, same = "a new client computes, by a new server", "a new client computes, by the same server"
        invalid, lost = "fails with CUDA_ERROR_ILLEGAL_ADDRESS after S s", "fails with CUDA_ERROR_MPS_RPC_FAILURE after S s"
        goes_on, terminated = "goes on with 16000 kernels/s", "fails with CUDA_ERROR_MPS_CLIENT_TERMINATED after S s"
        refused = "of 3 GiB in pieces of one it gets 1, then CUDA_ERROR_OUT_OF_MEMORY; it sees S GiB free of S"
        quits = "answered after S s; the daemon ends with 0 after S s, its server ends; its folder holds"
        expected = {
            ends.UUID: "is attached, S s after its start, and sees 132 multiprocessors",
            ends.THREADS: "it sees 39 of 132",
            ends.MEMORY: refused,
            ends.CLIENT_KILLED: f"its neighbour {goes_on}; the daemon stops listing the client after S s; {same}",
            ends.CLIENT_FAULTS: f"it {invalid}, its neighbour {invalid}; the server is ACTIVE; {same}",
            ends.CLIENT_TERMINATED: f"the daemon says 0 after S s; the client {terminated}, its neighbour {goes_on}",
            ends.SERVER_KILLED: f"its client {lost}; {new}",
            ends.DAEMON_KILLED: f"its server ends after S s, its client {lost}; a new process computes without MPS",
            ends.LEFT: "nothing",
        }
        self.assertEqual({question: self.answer(question) for question in expected}, expected)
        for question, more in {ends.QUIT_WITH_CLIENT: f"; its client {lost}", ends.QUIT_AT_REST: ""}.items():
            answer = self.answer(question)
            self.assertTrue(answer.startswith(f"{quits} client-") and answer.endswith(more), answer)
            self.assertEqual(self.told[question][1]["exit_code"], 0)
        self.assertEqual(self.told[ends.CLIENT_FAULTS][1]["neighbour_error"], "CUDA_ERROR_ILLEGAL_ADDRESS")
        self.assertEqual(set(self.told), {*ends.QUESTIONS, ends.LEFT})
        self.assert_nothing_is_left()

    def test_a_client_without_mps_answers_no_question(self):
        os.environ["MPS_STUB"] = "apart"
        self.assertTrue(self.probe(ends.UUID, ends.CLIENT_KILLED))
        apart = "not possible here: the client ran without MPS, as output.log is empty"
        self.assertEqual({answer for answer, _ in self.told.values()}, {apart, "nothing"})
        self.assert_nothing_is_left()

    def test_a_client_that_does_not_start_says_why(self):
        os.environ["MPS_STUB"] = "crashes"
        self.assertTrue(self.probe(ends.UUID))
        self.assertEqual(self.answer(ends.UUID), "not possible here: the client ended before it computed: Segmentation fault")
        self.assert_nothing_is_left()

    def test_a_client_that_hangs_is_said_to_and_is_ended(self):
        os.environ["MPS_STUB"] = "hangs"
        self.patch(mps_clients, "SILENT_FOR_S", SHORT_S)
        self.patch(mps_clients, "ENDS_WITHIN_S", SHORT_S)
        self.patch(mps_clients, "RATES", LONG_S)
        self.assertTrue(self.probe(ends.SERVER_KILLED))
        answer = self.told[ends.SERVER_KILLED][0]
        self.assertTrue(answer.startswith("its client hangs: it neither computed nor failed for 0.1 s;"), answer)
        self.assertIn("a client had to be ended by SIGKILL", self.told[ends.LEFT][0])
        self.assert_nothing_is_left()

    def test_a_server_that_outlives_its_daemon_is_said_to_and_is_ended(self):
        os.environ["MPS_STUB"] = "outlives"
        self.patch(ends, "ENDS_WITHIN_S", SHORT_S)
        # The daemon is killed, so that the wait for its server alone is for nothing.
        with mock.patch.object(mps.Daemon, "_end_servers", self.ends_servers_soon):
            self.assertTrue(self.probe(ends.DAEMON_KILLED))
        answer = self.answer(ends.DAEMON_KILLED)
        self.assertTrue(answer.startswith("its server does not end, its client goes on"), answer)
        self.assertEqual(self.answer(ends.LEFT), "a server had to be ended by SIGKILL")
        self.assert_nothing_is_left()

    @staticmethod
    def ends_servers_soon(daemon: mps.Daemon, group: int, ends_servers=mps.Daemon._end_servers) -> None:
        with mock.patch.object(daemon, "_limit_s", SHORT_S):
            ends_servers(daemon, group)

    def test_a_number_that_is_no_process_of_the_daemon_is_not_killed(self):
        bystander = subprocess.Popen(["sleep", "infinity"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        with mock.patch.object(mps.Daemon, "servers", lambda daemon: [bystander.pid]):
            self.assertTrue(self.probe(ends.SERVER_KILLED))
        self.assertIsNone(bystander.poll())
        no_process = "not possible here: no process of the daemon has the number that it gives for its server"
        self.assertEqual(self.told[ends.SERVER_KILLED][0], no_process)
        self.assert_nothing_is_left()

    def test_a_daemon_of_others_is_left_alone(self):
        with mps.Daemon("0") as theirs, mock.patch.object(mps, "FOREIGN", theirs.folder / "pipe"):
            with self.assertRaisesRegex(probes.NotPossible, "it is left alone"):
                self.probe()
        self.assertEqual((self.told, len(self.folders)), ({}, 1))

    def test_an_interrupted_probe_leaves_nothing(self):
        def interrupted(service: mps_clients.Service) -> None:
            self.pids = [service.client().pid, service.client().pid, service.server(), service.daemon.pid]
            sys.exit(143)

        with self.assertRaises(SystemExit), mock.patch.dict(ends.QUESTIONS, {ends.UUID: interrupted}):
            self.probe(ends.UUID)
        self.assertEqual([pid for pid in self.pids if mps.lives(pid)], [])
        self.assertEqual(self.told, {ends.LEFT: ("nothing", {"items": 0})})
        self.assert_nothing_is_left()

    def test_no_daemon_outlives_a_process_that_is_killed(self):
        program = "import mps, os; daemon = mps.Daemon('GPU-1', foreground=True).__enter__(); print(daemon.folder, flush=True)"
        killed = f"{program}; os.kill(os.getpid(), {signal.SIGKILL.value})"
        ran = subprocess.run([sys.executable, "-c", killed], cwd=HERE.parent, capture_output=True, text=True)
        self.assertEqual(ran.returncode, -signal.SIGKILL, ran.stderr)
        self.folders.append(ran.stdout.strip())
        wait_for("no process of the daemon is left", self.processes, lambda left: not left)
        mps.shutil.rmtree(self.folders[0])


if __name__ == "__main__":
    unittest.main()
